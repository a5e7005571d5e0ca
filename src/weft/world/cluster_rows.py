"""Rows of vertices in the shared memory of a cluster's blocks: each holds a part of them, and all read and write all.

A sweep over springs or contacts then never goes through the memory of the card, which is several times as far. The memories
of the blocks lie in one space of addresses, at equal distances. So rows are an array with gaps: the place of a vertex in it is
its number, and a gap more for each part before its own.
"""

# mypy: disable-error-code="arg-type, empty-body"

import warp as wp

from weft.world.together import BLOCK, CLUSTER

wp.set_module_options({"enable_backward": False})

# vertices that a block holds at most
PART = 2048
# what it holds, in float64 numbers: of each of them three rows
ROOM = PART * 12
# vertices of all blocks at most
MOST = CLUSTER * PART

# the place of a vertex in rows, as C++
PLACE = """
    const auto place_of = [&](int v) { return v + (int)((unsigned long long)v * parts.reciprocal >> 32) * parts.gap; };
"""


@wp.struct
class Rows:
    """Rows of vertices, as `weft.world.rows` has them."""

    p: wp.array[wp.vec4d]
    before: wp.array[wp.vec4d]
    start: wp.array[wp.vec4d]


@wp.struct
class Parts:
    """Where rows lie, and which vertices are a thread's own."""

    reciprocal: wp.uint32
    """2^32 / vertices of a part; 0 where rows are one array"""
    gap: int
    """rows from the end of a part to the next"""
    first: int
    last: int
    step: int


@wp.func_native(
    """
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    extern __shared__ char dynamic_smem_base[];
    unsigned long long address;
    asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(dynamic_smem_base), "r"(block));
    return address;
#else
    return 0;
#endif
"""
)
def memory_of(block: int) -> wp.uint64:
    """The address of the shared memory of a block of the cluster."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    extern __shared__ char dynamic_smem_base[];
    return (unsigned long long)dynamic_smem_base;
#else
    return 0;
#endif
"""
)
def own_memory() -> wp.uint64:
    """The address of the block's own, as a block without others has it."""
    ...


@wp.func_native(PLACE + "return wp::vec_t<2, int>(place_of(q[0]), place_of(q[1]));")
def places_of_two(q: wp.vec2i, parts: Parts) -> wp.vec2i:
    """The places of two vertices."""
    ...


@wp.func_native(PLACE + "return wp::vec_t<4, int>(place_of(q[0]), place_of(q[1]), place_of(q[2]), place_of(q[3]));")
def places_of_four(q: wp.vec4i, parts: Parts) -> wp.vec4i:
    """The places of four vertices."""
    ...


@wp.func
def rows_at(address: wp.uint64, count: int) -> Rows:
    """Rows in shared memory, given where they would begin."""
    size = wp.uint64(PART * 32)
    rows = Rows()
    rows.p = wp.array(ptr=address, shape=(count,), dtype=wp.vec4d)
    rows.before = wp.array(ptr=address + size, shape=(count,), dtype=wp.vec4d)
    rows.start = wp.array(ptr=address + size + size, shape=(count,), dtype=wp.vec4d)
    return rows


@wp.func
def part_size(count: int) -> int:
    """How many vertices a part has; the last may have fewer."""
    return (count + CLUSTER - 1) // CLUSTER


@wp.func
def parts_of_cluster(t: int, count: int) -> Parts:
    """A part for each block of the cluster."""
    part = part_size(count)
    parts = Parts()
    parts.reciprocal = wp.uint32(wp.uint64(4294967296) / wp.uint64(part)) + wp.uint32(1)
    parts.gap = int(memory_of(1) - memory_of(0)) // 32 - part
    parts.first = t // BLOCK * part + t % BLOCK
    parts.last = wp.min((t // BLOCK + 1) * part, count)
    parts.step = BLOCK
    return parts


@wp.func
def one_part(t: int, threads: int, count: int) -> Parts:
    """All vertices in one array."""
    parts = Parts()
    parts.first = t
    parts.last = count
    parts.step = threads
    return parts


@wp.func
def all_rows(count: int) -> Rows:
    """The rows of a cluster, by place."""
    return rows_at(memory_of(0), count)


@wp.func
def own_rows(t: int, count: int) -> Rows:
    """Those of them that a block holds, by vertex."""
    return rows_at(own_memory() - wp.uint64(32 * (t // BLOCK) * part_size(count)), count)

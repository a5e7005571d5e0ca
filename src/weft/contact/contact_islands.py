"""Contacts in clumps that blocks of threads solve on their own, as a card does.

Where cloth is crowded a vertex has dozens of contacts, each of another colour, while most contacts have one of the first
few. But for a few colours contacts hang together in small clumps. So all later colours of a clump are done by one block,
whose threads have a contact each and whose memory holds the vertices: nobody else need wait after every colour. How many
colours that are is found anew in each step: as many as leave every block few enough contacts and vertices, often all. Clumps
share no vertex that can move, and within one the order of the colours stays, so that the result is that of colour after
colour.
"""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.contact.colour_words import COLOURS
from weft.runtime.cooperative import BLOCK, SHARE, CooperativeLauncher, block_size, grid_barrier
from weft.runtime.partition import spread
from weft.runtime.shared_memory import ROOM
from weft.runtime.vector_loads import load_vec4i, store_vec4i

wp.set_module_options({"enable_backward": False})

# groups of clumps: each is done by one block; a power of two
GROUPS = 128
# contacts that a group may have, four for each thread, and vertices
MOST_CONTACTS = 4 * BLOCK
MOST_VERTICES = ROOM
# how many contacts are tried to be clumped, fewer and fewer; so few as in the last try always fit, even into one group
TRIES = 7
MOST, TIMES, FEWEST = 32768, 2, MOST_VERTICES // 4


@wp.func
def choose_cuts(
    c: int,
    offsets: wp.array[int],
    cuts: wp.array[int],
    over: wp.array[int],
    sizes: wp.array2d[int],
    spans: wp.array2d[int],
):
    """The first colour of as few last contacts as each try has, if it is this one; nothing is counted yet."""
    end = offsets[COLOURS]
    # there may be fewer than a try has
    below = -MOST - 1
    if c > 0:
        below = offsets[c - 1]
    most = int(MOST)
    for k in range(TRIES):
        if k == TRIES - 1:
            most = FEWEST
        if offsets[c] >= end - most and below < end - most:
            cuts[k] = c
        most = most // TIMES
        if c < GROUPS:
            sizes[k, c] = 0
            spans[k, c] = 0
    if c < TRIES:
        over[c] = 0


# finds the vertex with the lowest number that hangs together with one, as C++; whoever goes a way shortens it
_FIND = """
    volatile int* up = parents.data;
    const auto find = [&](int v) {
        for (int p = up[v]; p != v; p = up[v]) {
            const int next = up[p];
            if (next != p) up[v] = next;
            v = next;
        }
        return v;
    };
"""


@wp.func_native(_FIND + "return find(v);")
def root_of(v: int, parents: wp.array[int]) -> int:
    """The vertex with the lowest number that hangs together with one."""
    ...


@wp.func_native(
    _FIND
    + """
    // the higher number goes below the lower one, unless somebody else was faster
    const auto put_below = [&](int high, int low) {
#if defined(__CUDA_ARCH__)
        return atomicCAS(parents.data + high, high, low);
#else
        up[high] = low;
        return high;
#endif
    };
    a = find(a), b = find(b);
    while (a != b) {
        if (a < b) {
            const int other = a;
            a = b, b = other;
        }
        const int old = put_below(a, b);
        if (old == a) break;
        a = find(old), b = find(b);
    }
    """
)
def unite(a: int, b: int, parents: wp.array[int]):
    """Let two vertices hang together."""
    ...


@wp.func
def mover(q: wp.vec4i, inverse_mass: wp.array[wp.float64]) -> int:
    """The first corner that can move, -1 if none can."""
    found = int(-1)
    for k in range(4):
        if found < 0 and inverse_mass[q[k]] > wp.float64(0.0):
            found = q[k]
    return found


@wp.func
def unite_corners(q: wp.vec4i, inverse_mass: wp.array[wp.float64], parents: wp.array[int]):
    """Let the corners of a contact that can move hang together."""
    one = mover(q, inverse_mass)
    for k in range(4):
        if q[k] != one and inverse_mass[q[k]] > wp.float64(0.0):
            unite(one, q[k], parents)


@wp.func
def colour_at(i: int, offsets: wp.array[int]) -> int:
    """The colour of a contact."""
    low = int(0)
    high = int(COLOURS)
    while low < high:
        middle = (low + high + 1) // 2
        if offsets[middle] <= i:
            low = middle
        else:
            high = middle - 1
    return low


@wp.func
def group_of(root: int) -> int:
    """The group of a clump: as if by chance."""
    return int((wp.uint32(root) * wp.uint32(2654435761)) >> wp.uint32(16)) % GROUPS


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    constexpr int each = 8, warps = {BLOCK} / 32;
    __shared__ int sums[warps];
    const int t = threadIdx.x, lane = t & 31;
    int all = 0;
    for (int begin = 0; begin < count; begin += each * {BLOCK}) {{
        const int mine = begin + each * t;
        int chosen = 0;
        for (int k = 0; k < each; ++k)
            if (mine + k < count && groups.data[mine + k] == group) chosen |= 1 << k;
        // how many come before
        int place = __popc(chosen);
        for (int far = 1; far < 32; far *= 2) {{
            const int other = __shfl_up_sync(0xffffffffu, place, far);
            place += lane >= far ? other : 0;
        }}
        if (lane == 31) sums[t / 32] = place;
        __syncthreads();
        place += all - __popc(chosen);
        for (int k = 0; k < warps; ++k) {{
            place += k < t / 32 ? sums[k] : 0;
            all += sums[k];
        }}
        for (; chosen != 0; chosen &= chosen - 1)
            list.data[room + place++] = first + mine + __ffs(chosen) - 1;
        __syncthreads();
    }}
#else
    for (int i = 0; i < count; ++i)
        if (groups.data[i] == group) list.data[room++] = first + i;
#endif
    """
)
def list_group(count: int, group: int, first: int, room: int, groups: wp.array[int], list: wp.array[int]):
    """Write the numbers of those of so many contacts that are in a group, from `first` on: a block together, in order."""
    ...


@wp.kernel(launch_bounds=BLOCK)
def find_clumps(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    stamp: wp.array[int],
    offsets: wp.array[int],
    cuts: wp.array[int],
    vertices: wp.array[wp.vec4i],
    inverse_mass: wp.array[wp.float64],
    parents: wp.array[int],
    stamps: wp.array[int],
    slots: wp.array[int],
    over: wp.array[int],
    sizes: wp.array2d[int],
    spans: wp.array2d[int],
    groups: wp.array[int],
    first_colour: wp.array[int],
    group_sizes: wp.array[int],
    group_spans: wp.array[int],
    contacts: wp.array[int],
    colours: wp.array[int],
    corners: wp.array[wp.vec4i],
    members: wp.array[int],
):
    """Clump as many of the last contacts as fit; then list the contacts of all groups, in their order.

    Which slot a vertex has in its group changes nothing.
    """
    thread = first + wp.tid()
    t = spread(thread, threads)
    # those of all tries before are lower
    new = stamp[0]
    for c in range(thread, COLOURS + 1, threads):
        choose_cuts(c, offsets, cuts, over, sizes, spans)
    grid_barrier(arrivals)
    end = offsets[COLOURS]
    begin = int(0)
    # where there are more contacts than that, too many of them always hang together
    tried = wp.where(end > MOST, 0, -1)
    fits = bool(False)
    while not fits:
        tried += 1
        begin = offsets[cuts[tried]]
        for i in range(begin + t, end, threads):
            q = load_vec4i(vertices, i)
            for k in range(4):
                parents[q[k]] = q[k]
        grid_barrier(arrivals)
        for i in range(begin + t, end, threads):
            unite_corners(load_vec4i(vertices, i), inverse_mass, parents)
        grid_barrier(arrivals)
        for i in range(begin + t, end, threads):
            q = load_vec4i(vertices, i)
            one = mover(q, inverse_mass)
            group = int(-1)
            if one >= 0:
                group = group_of(root_of(one, parents))
                if wp.atomic_add(sizes, tried, group, 1) >= MOST_CONTACTS:
                    over[tried] = 1
                for k in range(4):
                    if inverse_mass[q[k]] > wp.float64(0.0):
                        if wp.atomic_max(stamps, q[k], new + tried) < new + tried:
                            slot = wp.atomic_add(spans, tried, group, 1)
                            if slot >= MOST_VERTICES:
                                over[tried] = 1
                            else:
                                slots[q[k]] = slot
                                members[MOST_VERTICES * group + slot] = q[k]
            groups[i - begin] = group
        grid_barrier(arrivals)
        fits = over[tried] == 0
    if thread == 0:
        first_colour[0] = cuts[tried]
        stamp[0] = new + TRIES
    block = block_size()
    for group in range(thread // block, GROUPS, threads // block):
        size = sizes[tried, group]
        if size > 0:
            list_group(end - begin, group, begin, MOST_CONTACTS * group, groups, contacts)
            for k in range(thread % block, size, block):
                place = MOST_CONTACTS * group + k
                i = contacts[place]
                q = load_vec4i(vertices, i)
                found = wp.vec4i(-1, -1, -1, -1)
                for c in range(4):
                    if inverse_mass[q[c]] > wp.float64(0.0):
                        found[c] = slots[q[c]]
                store_vec4i(corners, place, found)
                colours[place] = colour_at(i, offsets)
        if thread % block == 0:
            group_sizes[group] = size
            group_spans[group] = spans[tried, group]


class Clumps:
    """The groups of clumps among contacts that lie in the order of their colours."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array, together: CooperativeLauncher) -> None:
        device = inverse_mass.device
        self.inverse_mass, self._cooperative = inverse_mass, together

        def numbers(*shape: int) -> wp.array:
            return wp.zeros(shape, dtype=int, device=device)

        self._parents, self._stamps, self._slots = (numbers(vertex_count) for _ in range(3))
        self._cuts, self._over, self._groups = (numbers(size) for size in (TRIES, TRIES, MOST))
        self._sizes, self._spans = numbers(TRIES, GROUPS), numbers(TRIES, GROUPS)
        self._stamp = wp.full(1, TRIES, dtype=int, device=device)
        self.first_colour = numbers(1)
        """where the clumps begin"""
        self.sizes, self.spans = numbers(GROUPS), numbers(GROUPS)
        """contacts and vertices of each group"""
        self.contacts, self.colours = (numbers(GROUPS * MOST_CONTACTS) for _ in range(2))
        self.corners = wp.zeros(GROUPS * MOST_CONTACTS, dtype=wp.vec4i, device=device)
        self.members = numbers(GROUPS * MOST_VERTICES)

    @property
    def arrays(self) -> tuple[wp.array, ...]:
        """What sweeps need of them."""
        return self.first_colour, self.sizes, self.spans, self.contacts, self.colours, self.corners, self.members

    def find(self, offsets: wp.array, vertices: wp.array, count: int) -> None:
        """Clump the last of the placed contacts, whose colours begin at the offsets."""
        if count == 0:
            return
        inputs: list[Any] = [self._stamp, offsets, self._cuts, vertices, self.inverse_mass]
        inputs += [self._parents, self._stamps, self._slots, self._over, self._sizes, self._spans, self._groups]
        inputs += [self.first_colour, self.sizes, self.spans, self.contacts, self.colours, self.corners, self.members]
        self._cooperative.launch(find_clumps, GROUPS * SHARE, inputs)

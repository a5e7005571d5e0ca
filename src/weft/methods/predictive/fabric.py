"""The springs and stitches of cloth as constraints on positions (XPBD, Macklin et al. 2016). Bending is solved in `bending`.

A stitch is a linear spring over four vertices: r = sum w_k x_k is to vanish. With more than one sweep a substep multipliers
add up, so that stiffness does not depend on how many sweeps there are. Constraints lie in the order in which they are solved:
colour by colour, no two of a colour sharing a vertex; on CUDA partition by partition.

On CUDA each block owns a partition of the vertices. Constraints whose vertices all lie in one partition are solved by
that block, whose threads wait for each other only between two colours. Most others lie within the second half of one
partition and the first half of the next: those are solved afterwards, by the block of the first. Only constraints that
reach farther, across seams for example, are left for all blocks together.
"""

# mypy: disable-error-code="empty-body,arg-type"

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import reverse_cuthill_mckee

from weft.dynamics.packed_vertices import PACKED_VERTEX, SHARED_VERTICES
from weft.dynamics.springs import BEND, from_world
from weft.methods.predictive.state import VertexArrays, fill
from weft.runtime import launch
from weft.runtime.colouring import balance_colours, colour_items
from weft.runtime.cooperative import SMALL_BLOCK
from weft.runtime.native import NativeHeader
from weft.world import World

wp.set_module_options({"enable_backward": False})


class Partitions(NamedTuple):
    """Partitions of the vertices, of equal size but for the last."""

    blocks: int
    size: int
    vertices: np.ndarray
    """in the order of the partitions"""

    @property
    def rank(self) -> np.ndarray:
        """The place of each vertex in that order."""
        rank = np.empty(len(self.vertices), np.int64)
        rank[self.vertices] = np.arange(len(self.vertices))
        return rank


class PartitionOrder(NamedTuple):
    """Constraints by stage, block and colour."""

    order: np.ndarray
    starts: np.ndarray
    """where the constraints of each colour of each block begin, and the end: within partitions, then across two"""
    colours: tuple[int, int]
    """number of colours of a block, in both stages"""
    far: np.ndarray
    """where the colours of those that reach farther begin"""


def make_partitions(kinds: Sequence[np.ndarray], vertex_count: int, count: int) -> Partitions:
    """Partition the vertices so that few constraints, given by kind as arrays (n, k) of vertex indices, reach far."""
    size = max(-(-vertex_count // count), 1)
    usual = Partitions(count, size, np.arange(vertex_count))
    if _reaching_far(kinds, usual) == 0:
        return usual
    # neighbours may have numbers far apart: reorder by bandwidth (reverse Cuthill-McKee), if that is better
    pairs = [(items[:, a], items[:, b]) for items in kinds for a in range(items.shape[1]) for b in range(a)]
    first, second = (np.concatenate(columns) for columns in zip(*pairs, strict=True))
    ends = np.concatenate([first, second]), np.concatenate([second, first])
    graph = coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(vertex_count, vertex_count))
    order = np.asarray(reverse_cuthill_mckee(graph.tocsr(), symmetric_mode=True), dtype=np.int64)
    return min(usual, Partitions(count, size, order), key=lambda partitions: _reaching_far(kinds, partitions))


def _reaching_far(kinds: Sequence[np.ndarray], partitions: Partitions) -> int:
    """How many constraints reach farther than half a partition."""
    rank = partitions.rank
    return sum(int((np.ptp(rank[items], axis=1) > partitions.size // 2).sum()) for items in kinds if len(items))


def order_by_partition(items: np.ndarray, partitions: Partitions, *, most: int) -> PartitionOrder:
    """Order constraints (n, k); no colour of a block has more than `most` of them, where that is possible."""
    size, rank = partitions.size, partitions.rank[items]
    first, last = rank.min(axis=1), rank.max(axis=1)
    shifted = [(places - size // 2) // size for places in (first, last)]
    within, across = first // size == last // size, shifted[0] == shifted[1]
    orders: list[np.ndarray] = []
    tables: list[np.ndarray] = []
    colours: list[int] = []
    for chosen, block in (
        (np.flatnonzero(within), first // size),
        (np.flatnonzero(~within & across), shifted[0]),
    ):
        found = colour_items(items[chosen], len(partitions.vertices))
        count = len(found.offsets) - 1
        colour = np.repeat(np.arange(count), np.diff(found.offsets))
        mine = chosen[found.order]
        for number in range(partitions.blocks):
            own = np.flatnonzero(block[mine] == number)
            if len(own) and np.bincount(colour[own]).max() > most:
                colour[own] = balance_colours(items[mine[own]], colour[own], len(partitions.vertices), most)
        place = block[mine] * count + colour
        done = sum(len(some) for some in orders)
        orders.append(mine[np.lexsort((first[mine], place))])
        sizes = np.bincount(place, minlength=partitions.blocks * count)
        tables.append(done + np.concatenate([[0], np.cumsum(sizes)]))
        colours.append(count)
    left = np.flatnonzero(~within & ~across)
    found = colour_items(items[left], len(partitions.vertices))
    far = sum(len(some) for some in orders) + found.offsets
    orders.append(left[found.order])
    starts = np.concatenate(tables).astype(np.int32)
    return PartitionOrder(np.concatenate(orders), starts, (colours[0], colours[1]), far.astype(np.int32))


ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# damping of a spring whose delay (damping / stiffness) is less than this many substeps is left out: implicit integration of a
# substep damps five times as much anyway
LEAST_DELAY = wp.constant(wp.float64(0.1))
# items that measure the largest stretch on CUDA
MEASURES = 1024

_native = NativeHeader(__file__, "fabric.h")


@wp.struct
class FabricArrays:
    """Springs between two vertices (pairs), and over four (stitches)."""

    pairs: wp.array[wp.vec2i]
    pair_springs: wp.array[wp.vec3d]
    """rest length, compliance 1 / k, delay = damping / k"""
    pair_pull: wp.array[wp.float64]
    """multipliers, where there are several sweeps a substep"""
    pair_colours: wp.array[int]
    """where each colour begins"""
    stitches: wp.array[wp.vec4i]
    stitch_weights: wp.array[wp.vec4d]
    stitch_springs: wp.array[wp.vec3d]
    stitch_pull: wp.array[wp.vec4d]
    stitch_moves: wp.array[wp.vec4d]
    """what `prepare_stitch` wrote"""
    stitch_colours: wp.array[int]
    prepared: wp.array[wp.float64]
    """1/h for which `stitch_moves` of a step and of its prediction were prepared; 0 for none"""


@wp.func_native(PACKED_VERTEX + _native.body("stretch_pairs", LEAST_DELAY=LEAST_DELAY))
def stretch_pairs(
    first: int, last: int, sweep: int, sweeps: int, per_h: wp.float64, fabric: FabricArrays, vertices: VertexArrays
):
    """Solve springs between two vertices, no two of which share a vertex."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("stretch_loaded", LEAST_DELAY=LEAST_DELAY))
def stretch_loaded(
    i: int,
    q: wp.vec2i,
    s: wp.vec3d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    fabric: FabricArrays,
    vertices: VertexArrays,
):
    """Solve spring i, whose vertices q and numbers s are loaded."""
    ...


@wp.func_native(SHARED_VERTICES + _native.body("stretch_shared", LEAST_DELAY=LEAST_DELAY))
def stretch_shared(
    i: int,
    q: wp.vec2i,
    s: wp.vec3d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    fabric: FabricArrays,
    begin: int,
    room: wp.uint64,
):
    """The same with vertices from `begin` on in shared memory."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("sew_stitches", LEAST_DELAY=LEAST_DELAY))
def sew_stitches(
    first: int,
    last: int,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    fabric: FabricArrays,
    vertices: VertexArrays,
):
    """Solve stitches, one after another."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("sew_loaded", LEAST_DELAY=LEAST_DELAY))
def sew_loaded(
    i: int,
    q: wp.vec4i,
    w: wp.vec4d,
    s: wp.vec3d,
    g: wp.vec4d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    fabric: FabricArrays,
    vertices: VertexArrays,
):
    """Solve stitch i, whose vertices q, weights w, numbers s and moves g are loaded."""
    ...


@wp.func_native(SHARED_VERTICES + _native.body("sew_shared", LEAST_DELAY=LEAST_DELAY))
def sew_shared(
    i: int,
    q: wp.vec4i,
    w: wp.vec4d,
    s: wp.vec3d,
    g: wp.vec4d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    fabric: FabricArrays,
    begin: int,
    room: wp.uint64,
):
    """The same with vertices from `begin` on in shared memory."""
    ...


@wp.func_native(_native.body("largest_stretch"))
def largest_stretch(
    first: int, last: int, pairs: wp.array[wp.vec2i], springs: wp.array[wp.vec3d], x: wp.array[wp.vec3d]
) -> wp.float64:
    """By how much of its rest length a spring is longer than at rest, at most."""
    ...


@wp.func
def prepare_stitch(i: int, per_h: wp.float64, fabric: FabricArrays, inverse_mass: wp.array[wp.float64]):
    """The displacement of each corner of a stitch for a unit of its constraint, until masses or h change."""
    q = fabric.stitches[i]
    w = fabric.stitch_weights[i]
    s = fabric.stitch_springs[i]
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    mass = wp.dot(w, g)
    gamma = wp.where(s[2] * per_h > LEAST_DELAY, s[2] * per_h, ZERO)
    fabric.stitch_moves[i] = wp.vec4d()
    if mass > ZERO:
        fabric.stitch_moves[i] = (-ONE / ((ONE + gamma) * mass + s[1] * per_h * per_h)) * g


@wp.kernel
def prepare_stitches(first: int, per_h: wp.float64, fabric: FabricArrays, inverse_mass: wp.array[wp.float64]):
    """`prepare_stitch` of all stitches; on the CPU the kernel of the step does that itself."""
    prepare_stitch(first + wp.tid(), per_h, fabric, inverse_mass)


@wp.kernel
def measure_stretch(
    first: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    found: wp.array[wp.float64],
):
    """The largest stretch of the springs, an equal number of them an item."""
    i = first + wp.tid()
    each = (count + found.shape[0] - 1) / found.shape[0]
    found[i] = largest_stretch(i * each, wp.min((i + 1) * each, count), pairs, springs, x)


@wp.struct
class StageTable:
    """Where partitioned constraints of one kind lie, as `PartitionOrder` says."""

    starts: wp.array[int]
    """of each colour of each block; those within partitions, then those across two"""
    tables: wp.array[int]
    """where each of these begins in `starts`"""
    colours: wp.array[int]
    """number of colours that each of them has"""
    far: wp.array[int]
    """where each colour of those that reach farther begins"""


class Fabric:
    """The springs and stitches of all cloths of a world, in the order in which they are solved."""

    def __init__(self, world: World, *, blocks: int = 0) -> None:
        """`blocks` is the number of partitions, one a CUDA block; 0: in the order of colours."""
        self.device = world.device
        network = from_world(world)
        count = self._vertex_count = world.cloth_vertex_count

        # a hinge bends by the bending matrix: the spring between its opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        sewn = np.flatnonzero((network.quad_stiffness > 0.0) & network.sewn)
        kinds = [network.pairs[keep], network.quads[sewn]]
        self.partitions = make_partitions(kinds, count, blocks) if blocks else None
        self.stages: list[Any] = []
        """of springs, and of stitches, where they are partitioned"""
        pairs, pair_colours = self._put_in_order(keep, network.pairs)
        stitches, stitch_colours = self._put_in_order(sewn, network.quads)
        self.pair_count, self.stitch_count = len(pairs), len(stitches)
        self._pair_springs = _springs(network.rest, network.stiffness, network.damping, pairs)
        stitch_springs = _springs(network.quad_rest, network.quad_stiffness, network.quad_damping, stitches)

        def upload(values: Any, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        def zeros(shape: Any, dtype: Any) -> wp.array:
            return wp.zeros(shape, dtype=dtype, device=self.device)

        common = {
            "pairs": upload(network.pairs[pairs], wp.vec2i),
            "pair_springs": upload(self._pair_springs, wp.vec3d),
            "pair_pull": zeros(len(pairs), wp.float64),
            "pair_colours": upload(pair_colours, int),
            "stitches": upload(network.quads[stitches], wp.vec4i),
            "stitch_weights": upload(network.weights[stitches], wp.vec4d),
            "stitch_springs": upload(stitch_springs, wp.vec3d),
            "stitch_pull": zeros(len(stitches), wp.vec4d),
            "stitch_colours": upload(stitch_colours, int),
            "prepared": zeros(2, wp.float64),
        }
        self.arrays = [fill(FabricArrays, stitch_moves=zeros(len(stitches), wp.vec4d), **common) for _ in range(2)]
        """of a step, and of its prediction, which has substeps of another length"""
        self._found = zeros(1 if self.device.is_cpu else MEASURES, wp.float64)

    def scale(self, stretch: float) -> None:
        """Make the cloth so many times as stiff as its material against stretching and shearing."""
        self.arrays[0].pair_springs.assign(self._pair_springs / [1.0, stretch, 1.0])

    def prepare(self, per_h: float, inverse_mass: wp.array, *, prediction: bool) -> None:
        """Prepare stitches for substeps of 1 / per_h seconds."""
        launch(prepare_stitches, self.stitch_count, [per_h, self.arrays[prediction], inverse_mass], device=self.device)

    def largest_stretch(self, x: wp.array) -> float:
        """By how much of its rest length a spring is longer than at rest, at most."""
        if self.pair_count == 0:
            return 0.0
        inputs = [self.pair_count, self.arrays[0].pairs, self.arrays[0].pair_springs, x, self._found]
        launch(measure_stretch, len(self._found), inputs, device=self.device, grain=1)
        return float(self._found.numpy().max())

    def _put_in_order(self, chosen: np.ndarray, items: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The chosen items by colour or by partition, and where colours begin."""
        if self.partitions is None:
            order, starts = colour_items(items[chosen], self._vertex_count)
            return chosen[order], starts.astype(np.int32)
        found = order_by_partition(items[chosen], self.partitions, most=SMALL_BLOCK)
        tables = np.cumsum([0, *(self.partitions.blocks * np.array(found.colours) + 1)])[:-1]

        def upload(values: Any) -> wp.array:
            return wp.array(values, dtype=int, device=self.device)

        lists = {"starts": found.starts, "tables": tables, "colours": np.array(found.colours), "far": found.far}
        self.stages.append(fill(StageTable, **{name: upload(values) for name, values in lists.items()}))
        return chosen[found.order], np.zeros(1, np.int32)


def _springs(rest: np.ndarray, stiffness: np.ndarray, damping: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rest length, compliance and delay of the chosen springs; a weld has neither compliance nor delay."""
    rest, stiffness, damping = rest[chosen], stiffness[chosen], damping[chosen]
    return np.stack([rest, 1.0 / stiffness, damping / stiffness], axis=1)

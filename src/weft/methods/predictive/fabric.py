"""Springs and stitches of cloth as constraints on positions (XPBD, Macklin et al. 2016). Bending is solved in `bending`.

Springs in a line are solved together (`dynamics.position_based.spring_lines`), so that cloth stretches as its material says on
any mesh; their rest lengths follow the triangles (`dynamics.position_based.membrane`), so that it shears so. Both are as in
`robust`. Lines and stitches lie in the order of their colours, no two of a colour sharing a vertex, and are solved in the same
order on the CPU and on CUDA.
"""

# mypy: disable-error-code="arg-type, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.position_based.kernels import pull_stencil
from weft.dynamics.position_based.membrane import LARGEST_SHIFT, Membrane
from weft.dynamics.position_based.model import delays_of
from weft.dynamics.position_based.spring_lines import (
    SLOTS_A_THREAD,
    SpringSlots,
    find_spring_lines,
    interleaved,
    load_slots,
    prepare_springs,
    slots_at_once,
    solve_lines,
)
from weft.dynamics.springs import BEND, from_world
from weft.methods.predictive.state import VertexArrays, fill, range_begin, span_end, span_step
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import grid_barrier
from weft.runtime.native import NativeHeader
from weft.world import World

wp.set_module_options({"enable_backward": False})

# items that measure the largest stretch on CUDA
MEASURES = 1024

_native = NativeHeader(__file__, "fabric.h")


@wp.struct
class FabricArrays:
    """Lines of springs, the springs in them, and stitches."""

    slots: SpringSlots
    """of a step, or of its prediction; both have the same rest lengths, which follow the triangles"""
    line_colours: wp.array[int]
    """where the slots of each colour begin, in items of a thread"""
    places: wp.array[int]
    """the slot of each spring"""
    rests: wp.array[wp.float64]
    compliances: wp.array[wp.float64]
    others: wp.array[wp.vec4i]
    """the other edges of the two triangles of each spring"""
    own: wp.array[wp.float64]
    """how much the rest length grows with the extension of the spring itself"""
    shares: wp.array[wp.vec4d]
    """and how much it shrinks with those of the others"""
    extensions: wp.array[wp.float64]
    stitches: wp.array[wp.vec4i]
    stitch_weights: wp.array[wp.vec4d]
    stitch_rests: wp.array[wp.float64]
    stitch_stiffness: wp.array[wp.float64]
    stitch_damping: wp.array[wp.float64]
    stitch_colours: wp.array[int]
    """where each colour begins"""


@wp.func
def solve_fabric(
    t: int, threads: int, arrivals: wp.array[int], h: wp.float64, fabric: FabricArrays, vertices: VertexArrays
):
    """All lines of springs, then stitches; all threads share each colour, and wait for each other before and after."""
    many = slots_at_once()
    colours = fabric.line_colours.shape[0] - 1
    for number in range(colours):
        # from the last to the first: a panel that shears under its weight sags by 2.4 % too much then, else by 5.2 %
        colour = colours - 1 - number
        grid_barrier(arrivals)
        for i in range(fabric.line_colours[colour] + t * many, fabric.line_colours[colour + 1], threads * many):
            line = load_slots(i, fabric.slots)
            if line.blocks > 0:
                solve_lines(line, fabric.slots, True, vertices.before, vertices.p)
    for colour in range(fabric.stitch_colours.shape[0] - 1):
        grid_barrier(arrivals)
        for i in range(fabric.stitch_colours[colour] + t, fabric.stitch_colours[colour + 1], threads):
            pull_stencil(
                i, fabric.stitches, fabric.stitch_weights, fabric.stitch_rests, fabric.stitch_stiffness,
                fabric.stitch_damping, h, vertices.before, vertices.p,
            )  # fmt: skip
    grid_barrier(arrivals)


@wp.func_native(_native.body("find_extensions"))
def find_extensions(first: int, last: int, step: int, squared: wp.float64, fabric: FabricArrays):
    """How much longer than their material the rest lengths of springs are, and how much that is due to their own force.

    `squared`: 1 / h^2 of the substep that has ended. Of the springs first, first + step, ... below `last`.
    """
    ...


@wp.func_native(_native.body("follow_extensions", LARGEST_SHIFT=LARGEST_SHIFT))
def follow_extensions(first: int, last: int, step: int, fabric: FabricArrays):
    """Rest lengths at which these springs pull as their triangles do."""
    ...


@wp.func
def follow_triangles(t: int, threads: int, arrivals: wp.array[int], per_h: wp.float64, fabric: FabricArrays):
    """Rest lengths at which springs pull as their triangles do; after a substep 1 / per_h, which all threads have ended."""
    count = fabric.places.shape[0]
    first, last, step = range_begin(t, threads, count), span_end(t, threads, count), span_step(threads)
    find_extensions(first, last, step, per_h * per_h, fabric)
    grid_barrier(arrivals)
    follow_extensions(first, last, step, fabric)


@wp.kernel
def measure_stretch(
    first: int,
    pairs: wp.array[wp.vec2i],
    rests: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    found: wp.array[wp.float64],
):
    """The largest stretch of the springs, an equal number of them an item."""
    i = first + wp.tid()
    most = wp.float64(0.0)
    for k in range(i, pairs.shape[0], found.shape[0]):
        away = x[pairs[k][1]] - x[pairs[k][0]]
        squared = wp.dot(away, away)
        rest = rests[k] * rests[k]
        # compared without a division
        if squared > most * rest:
            most = squared / rest
    found[i] = wp.sqrt(most) - wp.float64(1.0)


class Fabric:
    """The springs and stitches of all cloths of a world, in the order in which they are solved."""

    def __init__(self, world: World) -> None:
        device = self.device = world.device
        network = from_world(world)
        membrane = Membrane.of(network)
        # a hinge bends by the bending matrix: the spring between its opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        lines = find_spring_lines(network, keep, world.cloth_vertex_count, align=1 if device.is_cpu else SLOTS_A_THREAD)
        in_slots = interleaved(lines.springs, device)
        places = np.flatnonzero(in_slots >= 0)
        springs = in_slots[places]

        def upload(values: Any, dtype: Any = wp.float64) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        # an empty slot has the numbers of any spring, which are never read
        k = np.where(in_slots >= 0, in_slots, springs.max(initial=-1))
        self._given = network.rest[k]
        self._rests = upload(self._given)
        self._pairs = upload(interleaved(lines.vertices, device), wp.vec2i)
        self._slot_compliances = 1.0 / membrane.stiffness[k]
        self._compliance = upload(self._slot_compliances)
        self._delay = upload(delays_of(network)[k])
        self._compliances = 1.0 / membrane.stiffness[springs]
        others, own, shares = _coupling(network, membrane, springs)
        stitches, stitch_colours = _stitches_in_order(network, world.cloth_vertex_count)
        offsets = lines.springs.shape[1] * lines.offsets // (1 if device.is_cpu else SLOTS_A_THREAD)
        common = {
            "line_colours": upload(offsets, int),
            "places": upload(places, int),
            "rests": upload(network.rest[springs]),
            "compliances": upload(self._compliances),
            "others": upload(others, wp.vec4i),
            "own": upload(own),
            "shares": upload(shares, wp.vec4d),
            "extensions": upload(np.zeros(len(springs))),
            "stitches": upload(network.quads[stitches], wp.vec4i),
            "stitch_weights": upload(network.weights[stitches], wp.vec4d),
            "stitch_rests": upload(network.quad_rest[stitches]),
            "stitch_stiffness": upload(network.quad_stiffness[stitches]),
            "stitch_damping": upload(network.quad_damping[stitches]),
            "stitch_colours": upload(stitch_colours, int),
        }
        blocks = upload(lines.blocks, int)
        self.arrays = [fill(FabricArrays, slots=self._slots(blocks), **common) for _ in range(2)]
        """of a step, and of its prediction, which has substeps of another length"""
        self._measured = upload(interleaved(lines.vertices, device)[places], wp.vec2i)
        self._found = upload(np.zeros(1 if device.is_cpu else MEASURES))
        self._found_view = self._found.numpy() if device.is_cpu else None
        self._lengths = [upload([0.0]) for _ in range(2)]
        self._prepared = [0.0, 0.0]

    def _slots(self, blocks: wp.array) -> Any:
        count, device = len(self._rests), self.device
        own = {name: wp.zeros(count, dtype=wp.float64, device=device) for name in ("elastics", "softness", "pushes")}
        return fill(SpringSlots, pairs=self._pairs, rests=self._rests, blocks=blocks, **own)

    def scale(self, stretch: float) -> None:
        """Make the cloth so many times as stiff as its material against stretching and shearing."""
        self._compliance.assign(self._slot_compliances / stretch)
        self.arrays[0].compliances.assign(self._compliances / stretch)
        self._prepared = [0.0, 0.0]

    def prepare(self, h: float, *, prediction: bool) -> None:
        """Prepare springs for substeps h."""
        if self._prepared[prediction] == h and self.device.is_cpu:
            return
        self._prepared[prediction] = h
        slots, length = self.arrays[prediction].slots, self._lengths[prediction]
        length.fill_(h)
        inputs = [self._pairs, self._compliance, self._delay, length, slots.elastics, slots.softness]
        launch(prepare_springs, len(self._pairs), inputs, device=self.device)

    def largest_stretch(self, x: wp.array) -> float:
        """By how much of its rest length a spring is longer than at rest, at most."""
        inputs = [self._measured, self.arrays[0].rests, x, self._found]
        launch(measure_stretch, len(self._found), inputs, device=self.device, grain=1)
        return float(self._found.numpy().max() if self._found_view is None else self._found_view[0])

    def forget(self) -> None:
        """The cloth is elsewhere than the last step left it."""
        self._rests.assign(self._given)

    def saved(self) -> np.ndarray:
        """What the next step needs: rest lengths that followed the triangles."""
        return np.asarray(self._rests.numpy().copy())

    def restore(self, rests: np.ndarray) -> None:
        """Take up what `saved` gave."""
        self._rests.assign(rests)


def _coupling(network: Any, membrane: Membrane, springs: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For each of these springs: the four other edges of its two triangles, as places in `springs`; how the rest length grows
    with its own extension, and how it shrinks with those of the others (see `membrane`)."""
    place = np.zeros(len(network.pairs), np.int32)
    place[springs] = np.arange(len(springs))
    sides = membrane.sides[springs]
    stiffness = membrane.stiffness[springs]
    others = np.tile(np.arange(len(springs), dtype=np.int32)[:, None], (1, 4))
    shares, diagonal = np.zeros((len(springs), 4)), np.zeros(len(springs))
    for side in range(2):
        mine = np.flatnonzero(sides[:, side] >= 0)
        face, edge = np.divmod(sides[mine, side], 3)
        diagonal[mine] += network.face_tension[face, edge, edge]
        for j in (1, 2):
            other, column = (edge + j) % 3, 2 * side + j - 1
            others[mine, column] = place[network.face_springs[face, other]]
            shares[mine, column] = network.face_tension[face, edge, other] / stiffness[mine]
    own = np.where((sides >= 0).any(axis=1), 1.0 - diagonal / stiffness, 0.0)
    return others, own, shares


def _stitches_in_order(network: Any, vertex_count: int) -> tuple[np.ndarray, np.ndarray]:
    """The stitches of seams by colour, and where colours begin."""
    firm = np.flatnonzero((network.quad_stiffness > 0.0) & network.sewn)
    # a corner without weight is no conflict between colours
    order, offsets = colour_items(np.where(network.weights[firm] == 0.0, -1, network.quads[firm]), vertex_count)
    return firm[order], offsets

"""Contacts of cloth with colliders (Lewin 2018, section 3): half-spaces that are found once and hold for a step.

A vertex gets one for each collider that it is inside of, nearer to than the thickness and the static collision radius, or will
be: the displacement of vertex and nearest point over the step, along the direction between them at the start, says so. The
plane stands at the nearest point at the start, faces the vertex (or the way out), and moves with the collider: that it also
rotates is left out, which is an error of second order in the angle of a step. So however far a vertex is carried beyond the
plane, by its speed or by its neighbours, it comes back on the side it started on.
"""

# mypy: disable-error-code="arg-type, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.collider_shapes import (
    BOX,
    CAPSULE,
    MESH,
    PLANE,
    SPHERE,
    TAPERED,
    ColliderArrays,
    Shape,
    Touch,
    is_out_of_reach,
    place_shape,
    touch_edge,
    touch_home,
    touch_shape,
)
from weft.methods.predictive.state import Settings, VertexArrays, fill
from weft.runtime.native import NativeHeader
from weft.runtime.thread_pool import MAX_HELPERS

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# share of the friction in the half-space of an edge: a vertex has several, which together rub as one
EDGE_RUB = wp.constant(wp.float64(0.2))
# a vertex whose edge is kept out moves by at most this many times the depth of the nearest point: where the other end is held,
# a vertex far from that point would be thrown
LARGEST_GAIN = 1.5
# relative error of a distance computed in single precision from two positions: larger than it ever is
ROUNDING = wp.constant(wp.float64(2e-6))
# vertices that are culled at a time, a bit each, and how far the planes of spots are padded
SPOTS = wp.constant(64)
PADDING = 16
# half-spaces that there is room for at first, at 140 bytes each
MOST_ROOM = 2**22

_native = NativeHeader(__file__, "half_spaces.h")


@wp.struct
class HalfSpaceArrays:
    """Half-spaces; on CUDA each vertex has `room` places, on the CPU the vertices of a thread share theirs."""

    vertices: wp.array[int]
    normals: wp.array[wp.vec3d]
    offsets: wp.array[wp.vec2d]
    """of the plane along its normal at the start, and how far it moves along it over the step"""
    ways: wp.array[wp.vec3d]
    """displacement of the nearest point over the step"""
    thickness: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    numbers: wp.array[int]
    """of the collider"""
    others: wp.array[int]
    """the other end of the edge that is kept out, -1 where it is the vertex"""
    weights: wp.array[wp.float64]
    """of the vertex at the nearest point of the edge; of the vertex itself 1"""
    far: wp.array[wp.vec2d]
    """depth of the other end now, and at the start of the substep"""
    pushed: wp.array[int]
    """1 where it moved its vertex in the last sweep"""
    counts: wp.array[int]
    """CUDA: half-spaces of each vertex; CPU: first place and number of those of each thread"""
    room: int
    full: wp.array[int]
    """1 where there were more half-spaces than room"""
    with_edges: int
    """whether there may be half-spaces of edges"""


@wp.func_native(_native.body("near_mask"))
def near_mask(
    spots: wp.array2d[wp.float32],
    begin: int,
    count: int,
    place: wp.vec3,
    axis: wp.vec3,
    shift: wp.vec3,
    spin: wp.vec3,
    half: wp.float32,
    far: wp.float32,
    flat: bool,
    loose: bool,
) -> wp.uint64:
    """Which of at most 64 spots from `begin` on get in reach of a capsule, or of a plane (`flat`).

    Rotation moves the nearest point and a point at the spot equally along the direction between them, which is all that
    counts; where that direction is not known (`loose`) the whole displacement counts.
    """
    ...


@wp.func_native(_native.body("write_spot", ROUNDING=ROUNDING))
def write_spot(i: int, x: wp.vec3d, way: wp.vec3d, reach: wp.float64, spots: wp.array2d[wp.float32]):
    """Position, displacement and reach of a vertex in single precision."""
    ...


@wp.func_native(_native.body("faces_along"))
def faces_along(i: int, normal: wp.vec3d, vertices: VertexArrays) -> bool:
    """Whether the normal of the cloth at a vertex is on the side of another normal."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("measure_end_depths"))
def measure_end_depths(
    first: int,
    last: int,
    progress: wp.float64,
    share_of_step: wp.float64,
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
):
    """How deep the other ends of edges are in the half-spaces of these; before any thread moves a vertex out of its own."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("solve_half_spaces", GAIN=LARGEST_GAIN))
def solve_half_spaces(
    first: int,
    last: int,
    progress: wp.float64,
    share_of_step: wp.float64,
    friction_factor: wp.float64,
    push: wp.float64,
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
):
    """Keep vertices, and shares of edges, out of half-spaces after `progress` of the step, with a factor of friction.

    Overlap from before the substep is undone by `push` metres at most and without velocity: the vertex is moved as if it
    had always been there. What came too near since is stopped, and rubs with that.
    """
    ...


@wp.func
def narrow(v: wp.vec3d) -> wp.vec3:
    """A vector in single precision."""
    return wp.vec3(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@wp.func
def spots_in_reach(shape: Shape, spots: wp.array2d[wp.float32], begin: int, count: int) -> wp.uint64:
    """Of at most 64 spots those that `touch_shape` may find in reach of a collider; of boxes and meshes a few more."""
    if shape.off != 0:
        return wp.uint64(0)
    half = shape.size[1]
    far = shape.size[0] + shape.rise + shape.span
    spin = shape.spin
    loose = shape.kind == BOX or shape.kind == MESH or shape.kind == TAPERED
    if shape.kind == PLANE:
        half = ZERO
        far = ZERO
    elif loose:
        half = ZERO
        far = shape.bound + shape.rise + shape.span + shape.change + wp.length(spin) * shape.bound
        spin = wp.vec3d()
    at = shape.place
    far += ROUNDING * (wp.abs(at[0]) + wp.abs(at[1]) + wp.abs(at[2]) + wp.length(shape.shift) + far)
    turn = shape.turn
    axis = wp.vec3d(turn[0, 1], turn[1, 1], turn[2, 1])
    return near_mask(
        spots, begin, count, narrow(at), narrow(axis), narrow(shape.shift), narrow(spin), wp.float32(half),
        wp.float32(far), shape.kind == PLANE, loose,
    )  # fmt: skip


@wp.func
def reach_of(i: int, s: Settings, vertices: VertexArrays) -> wp.float64:
    """How near to a collider a vertex gets a half-space: thickness, layers on both sides, static collision radius."""
    layers = vertices.stack[i]
    return HALF * (vertices.thickness[i] + s.collider_thickness) + layers[0] + layers[1] + s.radius


@wp.func
def write_half_space(
    place: int,
    i: int,
    j: int,
    friction_factor: wp.float64,
    shape: Shape,
    touch: Touch,
    s: Settings,
    vertices: VertexArrays,
    colliders: ColliderArrays,
    halves: HalfSpaceArrays,
):
    """The half-space of a vertex before the nearest point of a body, or of its edge to vertex j, if j is not -1.

    The layers between keep it farther off.
    """
    layers = vertices.stack[i]
    between = layers[1]
    if layers[0] != layers[1]:
        if faces_along(i, touch.normal, vertices):
            between = layers[0]
    cloth = vertices.cloth[i]
    body = shape.body
    halves.numbers[place] = shape.number
    halves.vertices[place] = i
    halves.normals[place] = touch.normal
    halves.others[place] = -1
    halves.weights[place] = ONE
    at = vertices.x[i]
    if j >= 0:
        at += touch.along * (vertices.x[j] - at)
        # before a round collider the ends share in keeping the nearest point out, and the edge can turn about that, so that it
        # slides over a rod; before the flat side of a board both ends stay out
        if shape.kind == SPHERE or shape.kind == CAPSULE:
            halves.others[place] = j
            halves.weights[place] = ONE - touch.along
    halves.offsets[place] = wp.vec2d(wp.dot(touch.normal, at) - touch.gap, wp.dot(touch.normal, touch.way))
    halves.ways[place] = touch.way
    halves.thickness[place] = HALF * (vertices.thickness[i] + s.collider_thickness) + touch.rise + between
    halves.friction[place] = friction_factor * wp.vec2d(colliders.sticking[cloth, body], colliders.sliding[cloth, body])


@wp.func
def touch_vertex(
    i: int,
    place: int,
    last: int,
    shape: Shape,
    s: Settings,
    vertices: VertexArrays,
    colliders: ColliderArrays,
    halves: HalfSpaceArrays,
) -> int:
    """The half-spaces of a vertex before one collider, from `place` on: its own, and one an edge if the collider is thin.

    Gives their number; beyond the place `last` none is written.
    """
    count = int(0)
    passes = vertices.lost[i] == shape.number
    if passes and shape.span > ZERO:
        return count
    x = vertices.x[i]
    way = vertices.free[i]
    reach = reach_of(i, s, vertices)
    touch = touch_shape(shape, x, way, reach, colliders)
    if passes:
        touch = touch_home(shape, x, vertices.home[i], colliders.cores[shape.number])
    if touch.found != 0:
        if place < last:
            write_half_space(place, i, -1, ONE, shape, touch, s, vertices, colliders, halves)
        count += 1
    if shape.span > ZERO:
        for k in range(vertices.neighbour_offsets[i], vertices.neighbour_offsets[i + 1]):
            j = vertices.neighbours[k]
            near = touch_edge(shape, x, vertices.x[j], way, vertices.free[j], reach, colliders)
            if near.found != 0 and vertices.lost[j] != shape.number:
                if place + count < last:
                    write_half_space(place + count, i, j, EDGE_RUB, shape, near, s, vertices, colliders, halves)
                count += 1
    return count


@wp.func
def find_half_spaces(
    begin: int, end: int, s: Settings, vertices: VertexArrays, colliders: ColliderArrays, halves: HalfSpaceArrays
) -> int:
    """CPU: the half-spaces of vertices begin..end-1, collider by collider, from place begin * room on; gives their number."""
    first = begin * halves.room
    count = int(0)
    for i in range(begin, end):
        write_spot(i, vertices.x[i], vertices.free[i], reach_of(i, s, vertices), vertices.spots)
    for k in range(colliders.shapes.shape[0]):
        shape = place_shape(colliders.shapes[k], colliders.start[k], colliders.end[k])
        for base in range(begin, end, SPOTS):
            near = spots_in_reach(shape, vertices.spots, base, wp.min(end - base, SPOTS))
            while near != wp.uint64(0):
                i = base + lowest_bit(near)
                near = near & (near - wp.uint64(1))
                if vertices.inverse_mass[i] > ZERO:
                    count += touch_vertex(i, first + count, end * halves.room, shape, s, vertices, colliders, halves)
    if first + count > end * halves.room:
        halves.full[0] = 1
        count = 0
    return count


@wp.kernel
def place_shapes(first: int, colliders: ColliderArrays, halves: HalfSpaceArrays):
    """CUDA: all colliders at the start of the step; no half-space lacks room yet."""
    k = first + wp.tid()
    colliders.shapes[k] = place_shape(colliders.shapes[k], colliders.start[k], colliders.end[k])
    halves.full[0] = 0


@wp.kernel
def find_each(
    first: int,
    settings: wp.array[Settings],
    vertices: VertexArrays,
    colliders: ColliderArrays,
    halves: HalfSpaceArrays,
):
    """CUDA: the half-spaces of each vertex, one vertex an item."""
    i = first + wp.tid()
    s = settings[0]
    count = int(0)
    if vertices.inverse_mass[i] > ZERO:
        reach = reach_of(i, s, vertices) + wp.length(vertices.free[i])
        for k in range(colliders.shapes.shape[0]):
            shape = colliders.shapes[k]
            if not is_out_of_reach(shape, vertices.x[i], reach + shape.way + shape.span):
                count += touch_vertex(
                    i, i * halves.room + count, (i + 1) * halves.room, shape, s, vertices, colliders, halves
                )
    if count > halves.room:
        halves.full[0] = 1
        count = 0
    halves.counts[i] = count


class HalfSpaces:
    """Room for the half-spaces of a step; it grows where a step needs more."""

    def __init__(self, vertices: int, most: int, device: wp.Device, *, by_vertex: bool, edges: bool) -> None:
        """`most`: half-spaces that a vertex can have; `by_vertex`: places belong to a vertex (CUDA), else to a thread's.

        `edges`: whether edges can have half-spaces.
        """
        self._edges = edges
        self.device, self._vertices, self._most, self._by_vertex = device, vertices, max(most, 1), by_vertex
        self.counts = wp.zeros(vertices if by_vertex else 2 * (MAX_HELPERS + 1), dtype=int, device=device)
        self.full = wp.zeros(1, dtype=int, device=device)
        self._full_view = self.full.numpy() if device.is_cpu else None
        self.arrays = self._make(min(self._most, max(1, MOST_ROOM // max(vertices, 1))))
        """as kernels take them; another object when it has grown"""

    def _make(self, room: int) -> Any:
        dtypes: tuple[Any, ...] = (int, wp.vec3d, wp.vec2d, wp.vec3d, wp.float64, wp.vec2d)
        dtypes = (*dtypes, int, int, wp.float64, wp.vec2d, int)
        names = list(HalfSpaceArrays.vars)[: len(dtypes)]  # type: ignore[attr-defined]
        lists = {
            name: wp.zeros(self._vertices * room, dtype=dtype, device=self.device)
            for name, dtype in zip(names, dtypes, strict=True)
        }
        return fill(
            HalfSpaceArrays, counts=self.counts, room=room, full=self.full, with_edges=int(self._edges), **lists
        )

    def grow_if_full(self) -> bool:
        """Whether there was too little room in the last search, which is to be done again; there is twice as much now."""
        if not (self.full.numpy() if self._full_view is None else self._full_view)[0]:
            return False
        self.full.zero_()
        self.arrays = self._make(min(2 * self.arrays.room, self._most))
        return True

    def places(self) -> np.ndarray:
        """Where in the arrays the half-spaces of the last step are."""
        counts = self.counts.numpy()
        if self._by_vertex:
            return np.flatnonzero((np.arange(self.arrays.room) < counts[:, None]).ravel())
        return np.concatenate([np.arange(first, first + count) for first, count in counts.reshape(-1, 2).tolist()])

    def report(self) -> tuple[int, int]:
        """How many half-spaces there are, and how many of them moved something in the last sweep."""
        counts, pushed, room = self.counts.numpy(), self.arrays.pushed.numpy(), self.arrays.room
        if self._by_vertex:
            pushed = pushed.reshape(-1, room)
            return int(counts.sum()), int(pushed[np.arange(room) < counts[:, None]].sum())
        spans = [(first, count) for first, count in counts.reshape(-1, 2).tolist() if count]
        return sum(count for _, count in spans), sum(int(pushed[a : a + count].sum()) for a, count in spans)

# mypy: disable-error-code="arg-type, return-value, empty-body"
"""Collisions of a step: candidates that would meet while the vertices move straight to where their velocities lead.

A pair collides when it comes within a small distance: a tenth of a millimetre, or less where the pair starts nearer than
that, so that a pair which is already close is not stuck for ever. The response aims for more, so that gaps grow back.
"""

from typing import Any

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.contact_tests import common_normal, pair_direction, weighted_sum
from weft.contact.execution_plan import WORD
from weft.contact.feature_bounds import PairMotion, approach
from weft.contact.lists import ContactArrays, bit, candidates_in, place_in_order
from weft.contact.step_surface import StepSurface
from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.geometry.stencil import edge_weights, nearest_weights, pair_vertices, triangle_weights
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# a pair of cloth of 1 mm collides when it comes this near, in m; of finer cloth nearer, in proportion to the scale of
# tolerances
COLLISION_DISTANCE = 1e-4
_DISTANCE = wp.constant(wp.float64(COLLISION_DISTANCE))
# and at most this fraction of its distance at the start; CCD may report what comes a quarter less near
START_FRACTION = wp.constant(wp.float64(0.5))
# the gap that a response aims for, in collision distances of the pair: with the fraction above more than the pair has
# now, or gaps would shrink a little in every step until nothing is left of them
TARGET_GAP = wp.constant(wp.float64(2.4))
# more than rounding can change a separation, in m
ROUNDING = wp.constant(wp.float64(1e-9))
# pairs of cloth of 1 mm that start nearer than this touch and are not tested, in m
TOUCHING_DISTANCE = wp.constant(wp.float64(1e-12))

_native = NativeHeader(__file__, "candidates.h")


@wp.func
def collision_distance(distance: wp.float64, scale: wp.float64) -> wp.float64:
    """How near a pair may come that is this far apart at the start of the step."""
    return wp.min(scale * _DISTANCE, START_FRACTION * distance)


@wp.func
def may_collide(distance: wp.float64, motion: wp.float64, scale: wp.float64) -> bool:
    """Whether a pair at this distance can collide if its sides approach each other by at most `motion`.

    A pair that touches at the start has collided already, whatever it does: to answer it would only hold up the others.
    """
    return distance > scale * TOUCHING_DISTANCE and distance <= collision_distance(distance, scale) + motion


@wp.func
def least_separation(n: wp.vec3d, start: wp.vec3d, end: wp.vec3d) -> wp.float64:
    """The least component along n of a difference that moves straight from start to end."""
    return wp.min(wp.dot(n, start), wp.dot(n, end))


@wp.func_native(
    _native.body("collision_mask", BATCH=WORD, START_FRACTION=START_FRACTION, COLLISION_DISTANCE=COLLISION_DISTANCE)
)
def collision_mask(
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    distances: wp.array[wp.float64],
    scale: wp.float64,
) -> wp.uint64:
    """The mask of `cull_collisions`, with the arrays of a `PairMotion`."""
    ...


@wp.func
def cull_collisions(
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    motion: PairMotion,
    distances: wp.array[wp.float64],
    scale: wp.float64,
) -> wp.uint64:
    """Mask of the pairs of a batch that may collide: their sides can approach each other by as much as they are apart."""
    return collision_mask(pairs, begin, count, motion.balls, motion.other_balls, distances, scale)


@wp.func
def vertex_triangle_collision(surface: StepSurface, pair: wp.vec2i, tolerance: wp.float64):
    """Whether a vertex and a triangle collide, and when."""
    f = surface.faces[pair[1]]
    p0 = surface.x[pair[0]]
    a0 = surface.x[f[0]]
    b0 = surface.x[f[1]]
    c0 = surface.x[f[2]]
    p1 = surface.end[pair[0]]
    a1 = surface.end[f[0]]
    b1 = surface.end[f[1]]
    c1 = surface.end[f[2]]
    # a plane that separates them at the start and at the end separates them in between
    n = wp.normalize(weighted_sum(triangle_weights(p0, a0, b0, c0), p0, a0, b0, c0))
    sides = wp.vec3d(
        least_separation(n, p0 - a0, p1 - a1),
        least_separation(n, p0 - b0, p1 - b1),
        least_separation(n, p0 - c0, p1 - c1),
    )
    apart = wp.min(sides) - tolerance - ROUNDING
    collides = bool(False)
    time = wp.float64(0.0)
    if not apart > wp.float64(0.0):
        collides, time = ccd_point_triangle(p0, a0, b0, c0, p1, a1, b1, c1, tolerance)
    return collides, time


@wp.func
def edge_edge_collision(surface: StepSurface, pair: wp.vec2i, tolerance: wp.float64):
    """Whether two edges collide, and when."""
    e = surface.edges[pair[0]]
    f = surface.edges[pair[1]]
    a0 = surface.x[e[0]]
    b0 = surface.x[e[1]]
    c0 = surface.x[f[0]]
    d0 = surface.x[f[1]]
    a1 = surface.end[e[0]]
    b1 = surface.end[e[1]]
    c1 = surface.end[f[0]]
    d1 = surface.end[f[1]]
    n = wp.normalize(weighted_sum(edge_weights(a0, b0, c0, d0), a0, b0, c0, d0))
    one = wp.min(least_separation(n, a0 - c0, a1 - c1), least_separation(n, a0 - d0, a1 - d1))
    other = wp.min(least_separation(n, b0 - c0, b1 - c1), least_separation(n, b0 - d0, b1 - d1))
    apart = wp.min(one, other) - tolerance - ROUNDING
    collides = bool(False)
    time = wp.float64(0.0)
    if not apart > wp.float64(0.0):
        collides, time = ccd_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, tolerance)
    return collides, time


def make_collide(collision: Any) -> wp.Kernel:
    """The kernel that chooses the colliding candidates of one kind, from the test of that kind."""

    @wp.kernel
    def collide(
        first: int,
        batch: int,
        pairs: wp.array[wp.vec2i],
        surface: StepSurface,
        motion: PairMotion,
        distances: wp.array[wp.float64],
        times: wp.array[wp.float64],
        chosen: wp.array[wp.uint64],
        counts: wp.array[int],
    ):
        """The mask of the candidates of a batch that collide, their number, and when they do."""
        item = first + wp.tid()
        begin = item * batch
        count = candidates_in(begin, batch, pairs)
        scale = surface.tolerance_scale
        left = cull_collisions(pairs, begin, count, motion, distances, scale)
        collisions = wp.uint64(0)
        number = int(0)
        while left != wp.uint64(0):
            k = lowest_bit(left)
            i = begin + k
            left &= left - wp.uint64(1)
            pair = pairs[i]
            if may_collide(distances[i], approach(motion, pair), scale):
                collides, time = collision(surface, pair, collision_distance(distances[i], scale))
                if collides:
                    collisions |= bit(k)
                    number += 1
                    times[i] = time
        chosen[item] = collisions
        counts[item] = number

    return collide


collide_vertex_triangle = make_collide(vertex_triangle_collision)
collide_edge_edge = make_collide(edge_edge_collision)


@wp.func
def at_time(start: wp.vec3d, end: wp.vec3d, time: wp.float64) -> wp.vec3d:
    """Where a vertex is at a time between 0 and 1."""
    return start + time * (end - start)


@wp.kernel
def fill_collisions(
    first: int,
    kind: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    surface: StepSurface,
    distances: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    order: wp.array[int],
    times: wp.array[wp.float64],
    base: int,
    contacts: ContactArrays,
):
    """Write the stencils of the chosen candidates as they are when they collide, from place `base` on.

    The gap is that along the normal at the start of the step; the thickness is the gap to aim for at its end.
    """
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        i = item * batch + lowest_bit(left)
        left &= left - wp.uint64(1)
        q = pair_vertices(kind, pairs[i], surface.faces, surface.edges)
        a = surface.x[q[0]]
        b = surface.x[q[1]]
        c = surface.x[q[2]]
        d = surface.x[q[3]]
        at_a = at_time(a, surface.end[q[0]], times[i])
        at_b = at_time(b, surface.end[q[1]], times[i])
        at_c = at_time(c, surface.end[q[2]], times[i])
        at_d = at_time(d, surface.end[q[3]], times[i])
        w = nearest_weights(kind, at_a, at_b, at_c, at_d)
        # where the pair touches, the direction at the start tells the sides apart
        start = weighted_sum(nearest_weights(kind, a, b, c, d), a, b, c, d)
        start_direction = pair_direction(start, common_normal(kind, a, b, c, d))
        n = pair_direction(weighted_sum(w, at_a, at_b, at_c, at_d), start_direction)
        k = base + place_in_order(order, place)
        place += 1
        contacts.vertices[k] = q
        contacts.weights[k] = w
        contacts.normals[k] = n
        contacts.gaps[k] = wp.dot(n, weighted_sum(w, a, b, c, d))
        contacts.thickness[k] = TARGET_GAP * collision_distance(distances[i], surface.tolerance_scale)

# mypy: disable-error-code="arg-type, empty-body, return-value"
"""Contacts of a step: pairs nearer than the thickness at its start, and pairs that would come so near during it.

One list of candidates serves the whole step. The distance of each candidate at the start is kept: later collision tests
need only a bound on the displacements (see `feature_bounds`) to rule out almost all of them.
"""

from typing import Any

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.execution_plan import WORD
from weft.contact.lists import IGNORED_DISTANCE, ContactArrays, bit, candidates_in, mask_of_thread
from weft.contact.step_surface import (
    ZERO_WEIGHT,
    StepSurface,
    edges_gathered,
    edges_sewn,
    nearest_of_edges,
    nearest_on_surface,
    vertex_triangle_gathered,
    vertex_triangle_sewn,
)
from weft.geometry.stencil import POINT_TRIANGLE, edge_weights, nearest_weights, pair_vertices, triangle_weights
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-300))
# a pair slides past if it stays farther apart than this fraction of the thickness (what gravity lets it sink in a step is
# less) while its direction turns by more than this cosine says
SLIDE_PAST_FRACTION = wp.constant(wp.float64(0.9))
TURNED_COSINE = wp.constant(wp.float64(0.97))
# neighbours in a sharp crease are no contact of the surface (see `feature_bounds`), but are kept from closing below this, in m;
# times the scale of tolerances
CREASE_DISTANCE = wp.constant(wp.float64(4e-4))
# pairs at rest are a thickness apart, up to rounding, which differs between devices and must not decide about them
RESTING_FRACTION = wp.constant(wp.float64(1.0 - 1e-9))
# pairs of edges keep this fraction of the thickness: where surfaces lie on each other the vertices carry the load, and
# the many pairs of edges between them need not be solved
EDGE_THICKNESS = wp.constant(wp.float64(0.8))
# squared sine below which a triangle is a needle, or two edges are parallel, and the SIMD test is not accurate enough
DEGENERATE = 1e-8

_native = NativeHeader(__file__, "candidates.h")


@wp.func
def weighted_sum(w: wp.vec4d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec3d:
    """The stencil's sum of w_k x_k."""
    return w[0] * a + w[1] * b + w[2] * c + w[3] * d


@wp.func
def pair_direction(r: wp.vec3d, otherwise: wp.vec3d) -> wp.vec3d:
    """The unit vector along r, or where r is zero along the other vector."""
    length = wp.length(r)
    if length > wp.float64(1e-12):
        return r / length
    return wp.normalize(otherwise)


@wp.func
def common_normal(kind: int, x0: wp.vec3d, x1: wp.vec3d, x2: wp.vec3d, x3: wp.vec3d) -> wp.vec3d:
    """A vector perpendicular to the triangle, or to both edges."""
    result = wp.cross(x2 - x1, x3 - x1)
    if kind != POINT_TRIANGLE:
        result = wp.cross(x1 - x0, x3 - x2)
    return result


@wp.func
def contact_thickness(
    q: wp.vec4i,
    w: wp.vec4d,
    second: int,
    thickness: wp.array[wp.float64],
    vertex_body: wp.array[int],
    rest_shape: wp.array[wp.vec3d],
) -> wp.float64:
    """Thickness of a pair; of two points of one cloth at most half their distance along it, or folds would burst.

    `second` is a vertex of the second side.
    """
    mean = HALF * (thickness[q[0]] + thickness[second])
    if vertex_body[q[0]] == vertex_body[second]:
        along = weighted_sum(w, rest_shape[q[0]], rest_shape[q[1]], rest_shape[q[2]], rest_shape[q[3]])
        mean = wp.min(mean, HALF * wp.length(along))
    return mean


@wp.func
def slides_past(start: wp.vec3d, end: wp.vec3d, thickness: wp.float64) -> bool:
    """Whether a pair slides past: it stays about a thickness apart while its direction turns.

    Cloth that slides over a border approaches along the slanted direction at the start, and is no nearer in the end: a
    contact would hook it.
    """
    way = end - start
    t = wp.clamp(-wp.dot(start, way) / wp.max(wp.dot(way, way), TINY), ZERO, ONE)
    turned = wp.dot(start, end) < TURNED_COSINE * wp.length(start) * wp.length(end)
    return turned and wp.length(start + t * way) >= SLIDE_PAST_FRACTION * thickness


@wp.func
def vertex_triangle_contact(surface: StepSurface, pair: wp.vec2i):
    """The distance of a vertex and a triangle, and whether they are a contact."""
    f = surface.faces[pair[1]]
    p = surface.x[pair[0]]
    a = surface.x[f[0]]
    b = surface.x[f[1]]
    c = surface.x[f[2]]
    w = triangle_weights(p, a, b, c)
    r = weighted_sum(w, p, a, b, c)
    distance = wp.length(r)
    if surface.any_sewn != 0:
        if vertex_triangle_gathered(surface, pair):
            return distance, False
    n = pair_direction(r, wp.cross(b - a, c - a))
    r_end = weighted_sum(w, surface.end[pair[0]], surface.end[f[0]], surface.end[f[1]], surface.end[f[2]])
    gap = wp.dot(n, r_end)
    if wp.min(distance, gap) >= surface.detection_distance:
        return distance, False
    q = wp.vec4i(pair[0], f[0], f[1], f[2])
    thickness = contact_thickness(q, w, f[0], surface.thickness, surface.vertex_body, surface.rest_shape)
    if distance >= RESTING_FRACTION * thickness:
        border = w[1] > -ZERO_WEIGHT or w[2] > -ZERO_WEIGHT or w[3] > -ZERO_WEIGHT
        if gap >= thickness + surface.reach or (border and slides_past(r, r_end, thickness)):
            return distance, False
    closest = wp.min(distance, gap)
    if closest < surface.tolerance_scale * CREASE_DISTANCE or nearest_on_surface(surface, pair[1], w, n):
        return distance, True
    return distance, False


@wp.func
def edge_edge_contact(surface: StepSurface, pair: wp.vec2i):
    """The distance of two edges, and whether they are a contact: only where both nearest points are inside the edges."""
    e = surface.edges[pair[0]]
    f = surface.edges[pair[1]]
    a = surface.x[e[0]]
    b = surface.x[e[1]]
    c = surface.x[f[0]]
    d = surface.x[f[1]]
    w = edge_weights(a, b, c, d)
    r = weighted_sum(w, a, b, c, d)
    distance = wp.length(r)
    # an end of an edge that is nearest makes a pair of a vertex and a triangle
    if w[0] < ZERO_WEIGHT or w[1] < ZERO_WEIGHT or w[2] > -ZERO_WEIGHT or w[3] > -ZERO_WEIGHT:
        return distance, False
    if surface.any_sewn != 0:
        if edges_gathered(surface, pair):
            return distance, False
    n = pair_direction(r, wp.cross(b - a, d - c))
    gap = wp.dot(n, weighted_sum(w, surface.end[e[0]], surface.end[e[1]], surface.end[f[0]], surface.end[f[1]]))
    closest = wp.min(distance, gap)
    if closest >= EDGE_THICKNESS * surface.detection_distance:
        return distance, False
    q = wp.vec4i(e[0], e[1], f[0], f[1])
    thickness = contact_thickness(q, w, f[0], surface.thickness, surface.vertex_body, surface.rest_shape)
    if closest >= EDGE_THICKNESS * (thickness + surface.reach):
        return distance, False
    if closest < surface.tolerance_scale * CREASE_DISTANCE or nearest_of_edges(surface, pair, n):
        return distance, True
    return distance, False


@wp.func_native(_native.body("vertex_triangle_distances", BATCH=WORD, DEGENERATE=DEGENERATE))
def vertex_triangle_distances(
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    reach: wp.float64,
    distances: wp.array[wp.float64],
) -> wp.uint64:
    """Write the distances of a batch; mask of the pairs that may come within reach, or have a needle as triangle."""
    ...


@wp.func_native(_native.body("edge_edge_distances", BATCH=WORD, DEGENERATE=DEGENERATE))
def edge_edge_distances(
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    reach: wp.float64,
    distances: wp.array[wp.float64],
) -> wp.uint64:
    """Write the distances of a batch; mask of the pairs that may come within reach between their ends, or are parallel."""
    ...


@wp.func
def cull_vertex_triangle(
    surface: StepSurface,
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    distances: wp.array[wp.float64],
) -> wp.uint64:
    """The batch test for pairs of a vertex and a triangle."""
    return vertex_triangle_distances(
        pairs, begin, count, surface.faces, surface.x, motion, other_motion, surface.detection_distance, distances
    )


@wp.func
def cull_edge_edge(
    surface: StepSurface,
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    motion: wp.array[wp.vec4d],
    other_motion: wp.array[wp.vec4d],
    distances: wp.array[wp.float64],
) -> wp.uint64:
    """The batch test for pairs of edges."""
    reach = EDGE_THICKNESS * surface.detection_distance
    return edge_edge_distances(pairs, begin, count, surface.edges, surface.x, motion, other_motion, reach, distances)


def make_measure(cull: Any, sewn: Any, contact: Any) -> wp.Kernel:
    """The kernel that measures candidates of one kind and chooses contacts, from the functions of that kind."""

    @wp.kernel
    def measure(
        first: int,
        batch: int,
        pairs: wp.array[wp.vec2i],
        surface: StepSurface,
        motion: wp.array[wp.vec4d],
        other_motion: wp.array[wp.vec4d],
        distances: wp.array[wp.float64],
        chosen: wp.array[wp.uint64],
        counts: wp.array[int],
    ):
        """Distance of each candidate of a batch, the mask of those that are contacts, and their number."""
        item = first + wp.tid()
        begin = item * batch
        count = candidates_in(begin, batch, pairs)
        left = cull(surface, pairs, begin, count, motion, other_motion, distances)
        if surface.any_sewn != 0:
            for k in range(count):
                if sewn(surface, pairs[begin + k]):
                    distances[begin + k] = IGNORED_DISTANCE
                    left &= ~bit(k)
        contacts = wp.uint64(0)
        number = int(0)
        while left != wp.uint64(0):
            k = lowest_bit(left)
            left &= left - wp.uint64(1)
            distance, is_contact = contact(surface, pairs[begin + k])
            distances[begin + k] = distance
            if is_contact:
                contacts |= bit(k)
                number += 1
        chosen[item] = contacts
        counts[item] = number

    return measure


measure_vertex_triangle = make_measure(cull_vertex_triangle, vertex_triangle_sewn, vertex_triangle_contact)
measure_edge_edge = make_measure(cull_edge_edge, edges_sewn, edge_edge_contact)


@wp.kernel
def fill_contacts(
    first: int,
    kind: int,
    batch: int,
    threads: int,
    pairs: wp.array[wp.vec2i],
    surface: StepSurface,
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    base: int,
    contacts: ContactArrays,
):
    """Write the stencils of the chosen candidates from place `base` on; some threads share a batch."""
    item = (first + wp.tid()) // threads
    left, before = mask_of_thread(chosen[item], (first + wp.tid()) % threads, threads)
    place = base + places[item] + before
    while left != wp.uint64(0):
        pair = pairs[item * batch + lowest_bit(left)]
        left &= left - wp.uint64(1)
        q = pair_vertices(kind, pair, surface.faces, surface.edges)
        x0 = surface.x[q[0]]
        x1 = surface.x[q[1]]
        x2 = surface.x[q[2]]
        x3 = surface.x[q[3]]
        w = nearest_weights(kind, x0, x1, x2, x3)
        r = weighted_sum(w, x0, x1, x2, x3)
        n = pair_direction(r, common_normal(kind, x0, x1, x2, x3))
        kept = ZERO
        if kind == POINT_TRIANGLE:
            kept = contact_thickness(q, w, q[1], surface.thickness, surface.vertex_body, surface.rest_shape)
            if not nearest_on_surface(surface, pair[1], w, n):
                kept = wp.min(kept, surface.tolerance_scale * CREASE_DISTANCE)
        else:
            kept = contact_thickness(q, w, q[2], surface.thickness, surface.vertex_body, surface.rest_shape)
            kept = EDGE_THICKNESS * kept
            if not nearest_of_edges(surface, pair, n):
                kept = wp.min(kept, surface.tolerance_scale * CREASE_DISTANCE)
        contacts.vertices[place] = q
        contacts.weights[place] = w
        contacts.normals[place] = n
        contacts.gaps[place] = wp.length(r)
        contacts.thickness[place] = kept
        place += 1

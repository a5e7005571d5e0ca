"""The search for contacts of cloth with cloth, once at the start of a step (Lewin 2018, sections 4.1 to 4.6).

Nearest points and the direction between them are those at the start; the displacements of the step, projected on that
direction, tell how near the two will come. What comes nearer than the thickness 2r and the static collision radius gets
a contact. No contact is made twice: the broad phase lists each pair of features once (rep-tri), and where the nearest
points are on borders, one rule says which pair stands for the place:

- a vertex over a triangle, or over its border, is a contact of the two where the direction between them is within
  60 degrees of the triangle's normal; elsewhere the triangle's plane says nothing about what is between them;
- two edges are a contact where the nearest points are inside both; where one of them is an end, only if no triangle at
  the other edge makes the contact with that vertex, only for the first edge of that vertex, and only if the other edge
  is on the border or in a sharp fold, or the two move against each other, and the cloth between them is not straight:
  else they are neighbours in a sheet, which keeps them apart itself.

Layers know which side is right, where they lie on each other: where both face the same way. The front of a sleeve and
the back of the sleeve under it do not, and keep the sides they are on.
"""

# mypy: disable-error-code="arg-type, assignment"

from typing import Any, Literal

import numpy as np
import warp as wp

from weft.detection.broad_phase import BroadPhase
from weft.response.nearest import nearest_on_edges, nearest_on_triangle
from weft.response.predictive_contacts import FROZEN, OVER, TRIANGLE, Contacts
from weft.response.regions import Regions
from weft.response.stencil_colours import StencilColouring
from weft.world import launch
from weft.world.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex
ALIGNED = wp.constant(wp.float64(0.5))
# its square, a little less: what is rejected early would be rejected later
FLAT = wp.constant(wp.float64(0.249))
# parameters nearer to 0 or 1 than this are ends
END = wp.constant(wp.float64(1e-6))
# two points of one cloth keep at most this part of their distance along the cloth
REST_PART = wp.constant(wp.float64(0.7))
GRAIN = 256
# marks of an edge: it is the first of one of its vertices; it is on the border, or its triangles make a sharp fold
FIRST = wp.constant(1)
SHARP = wp.constant(2)
# what moves against each other in a step by more than this part of the reach is in haste
HASTE = wp.constant(wp.float64(0.25))
# where two edges of a cloth are no nearer than this part of their distance at rest, the cloth between them is straight
STRAIGHT = wp.constant(wp.float64(0.8))
# candidates an item: what an item costs before it looks at one is worth several of them
CHUNK = 32

NONE, POINT_TRIANGLE, EDGE_EDGE, POINT_POINT = (wp.constant(k) for k in range(4))


@wp.struct
class Sheet:
    """What the search reads of the cloths; positions are set before each search."""

    x: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    first_edge: wp.array[int]
    marks: wp.array[int]
    """of each edge: FIRST of one of its vertices, SHARP, found anew in each search"""
    owned: wp.array[int]
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    rest_middles: wp.array[wp.vec3d]
    """of the edges"""
    thickness: wp.array[wp.float64]
    radius: wp.float64
    """static collision radius"""
    largest: wp.float64
    """largest thickness"""


@wp.struct
class Pair:
    """Two features that may make a contact."""

    made: int
    """NONE, POINT_TRIANGLE, EDGE_EDGE or POINT_POINT"""
    vertices: wp.vec4i
    kind: int
    weights: wp.vec4d
    normal: wp.vec3d
    thickness: wp.float64
    distance: wp.float64


@wp.func
def face_normal(f: wp.vec3i, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """Unit normal; zero for a triangle without area."""
    m = wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    length = wp.length(m)
    if length > ZERO:
        return m / length
    return wp.vec3d()


@wp.func
def combined(w: wp.vec4d, q: wp.vec4i, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """The stencil's sum w_k x_k."""
    return w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]]


@wp.func
def pair_thickness(w: wp.vec4d, q: wp.vec4i, other: int, sheet: Sheet) -> wp.float64:
    """The mean thickness of both sides; less where they are near each other along the cloth."""
    thick = HALF * (sheet.thickness[q[0]] + sheet.thickness[other])
    if sheet.vertex_cloth[q[0]] == sheet.vertex_cloth[other]:
        thick = wp.min(thick, REST_PART * wp.length(combined(w, q, sheet.rest)))
    return thick


@wp.func
def edge_is_aligned(edge: int, n: wp.vec3d, sheet: Sheet) -> bool:
    """Whether a triangle at the edge makes a contact with a vertex in this direction."""
    wings = sheet.edge_faces[edge]
    found = wp.abs(wp.dot(n, face_normal(sheet.faces[wings[0]], sheet.x))) >= ALIGNED
    if wings[1] >= 0:
        found = found or wp.abs(wp.dot(n, face_normal(sheet.faces[wings[1]], sheet.x))) >= ALIGNED
    return found


@wp.func
def edge_normal(edge: int, sheet: Sheet) -> wp.vec3d:
    """The mean normal of the triangles at an edge."""
    wings = sheet.edge_faces[edge]
    n = face_normal(sheet.faces[wings[0]], sheet.x)
    if wings[1] >= 0:
        n += face_normal(sheet.faces[wings[1]], sheet.x)
    return wp.normalize(n)


@wp.func
def vertex_normal(vertex: int, sheet: Sheet) -> wp.vec3d:
    """A normal of the cloth at a vertex, of any length: that of the triangles at its first edge."""
    edge = sheet.first_edge[vertex]
    if edge < 0:
        return wp.vec3d()
    return edge_normal(edge, sheet)


@wp.func
def make_point_triangle(pair: wp.vec2i, sheet: Sheet) -> Pair:
    """A vertex and a triangle: the side is the vertex's own, or that of its layer."""
    made = Pair()
    f = sheet.faces[pair[1]]
    q = wp.vec4i(pair[0], f[0], f[1], f[2])
    p = sheet.x[q[0]]
    bary = nearest_on_triangle(p, sheet.x[q[1]], sheet.x[q[2]], sheet.x[q[3]])
    w = wp.vec4d(ONE, -bary[0], -bary[1], -bary[2])
    r = combined(w, q, sheet.x)
    distance = wp.length(r)
    way = combined(w, q, sheet.end) - r
    if distance - wp.length(way) > sheet.radius + HALF * (sheet.thickness[q[0]] + sheet.thickness[q[1]]):
        return made
    normal = face_normal(f, sheet.x)
    if wp.dot(normal, normal) == ZERO:
        return made
    height = wp.dot(normal, r)
    if wp.abs(height) < ALIGNED * distance:
        return made
    thick = pair_thickness(w, q, q[1], sheet)
    near = distance
    if distance > TINY:
        near = distance + wp.min(wp.dot(r, way) / distance, ZERO)
    else:
        # on the triangle: it came from where it does not go
        height = -wp.dot(normal, way)
    if near > sheet.radius + thick:
        return made
    side = sheet.above[sheet.vertex_region[q[0]], sheet.face_region[pair[1]]]
    own = int(1)
    if height < ZERO:
        own = -1
    if side == 0 or wp.dot(vertex_normal(q[0], sheet), normal) <= ZERO:
        side = own
    elif side != own and wp.abs(height) < OVER * distance:
        # through the layer, perhaps: certain only right over the triangle
        return made
    made.made = POINT_TRIANGLE
    made.vertices = q
    made.kind = side * TRIANGLE
    made.weights = w
    made.normal = wp.float64(side) * normal
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def is_straight(pair: wp.vec2i, between: wp.vec3d, rest_middles: wp.array[wp.vec3d]) -> bool:
    """Whether the middles of two edges of a cloth are about as far apart as at rest."""
    rest = rest_middles[pair[0]] - rest_middles[pair[1]]
    return wp.dot(between, between) >= STRAIGHT * STRAIGHT * wp.dot(rest, rest)


@wp.func
def make_edge_edge(pair: wp.vec2i, sheet: Sheet) -> Pair:
    """Two edges; between layers the normal is that of the lower one."""
    made = Pair()
    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    q = wp.vec4i(e[0], e[1], f[0], f[1])
    st = nearest_on_edges(sheet.x[e[0]], sheet.x[e[1]], sheet.x[f[0]], sheet.x[f[1]])
    w = wp.vec4d(ONE - st[0], st[0], st[1] - ONE, -st[1])
    r = combined(w, q, sheet.x)
    distance = wp.length(r)
    way = combined(w, q, sheet.end) - r
    if distance - wp.length(way) > sheet.radius + HALF * (sheet.thickness[e[0]] + sheet.thickness[f[0]]):
        return made
    thick = pair_thickness(w, q, f[0], sheet)
    n = wp.vec3d()
    near = distance
    if distance > TINY:
        n = r / distance
        near = distance + wp.min(wp.dot(n, way), ZERO)
    if near > sheet.radius + thick:
        return made

    inside_e = st[0] > END and st[0] < ONE - END
    inside_f = st[1] > END and st[1] < ONE - END
    if not (inside_e or inside_f):
        return made
    above = sheet.above[sheet.edge_region[pair[0]], sheet.edge_region[pair[1]]]
    if above != 0 and wp.dot(edge_normal(pair[0], sheet), edge_normal(pair[1], sheet)) <= ZERO:
        above = 0
    if inside_e and inside_f:
        if above != 0:
            lower = pair[1]
            if above < 0:
                lower = pair[0]
            upward = wp.float64(above) * edge_normal(lower, sheet)
            if wp.dot(n, upward) < OVER:
                return made
            n = upward
        elif distance <= TINY:
            # they cross: apart again the way they came
            n = wp.normalize(wp.cross(sheet.x[e[1]] - sheet.x[e[0]], sheet.x[f[1]] - sheet.x[f[0]]))
            if wp.dot(n, way) > ZERO:
                n = -n
    else:
        if above != 0 or distance <= TINY:
            return made
        # neighbours in the plane of the cloth: the cloth itself keeps them apart
        if sheet.vertex_cloth[e[0]] == sheet.vertex_cloth[f[0]]:
            if wp.length(combined(w, q, sheet.rest)) <= sheet.radius + thick:
                return made
            between = sheet.x[e[0]] + sheet.x[e[1]] - sheet.x[f[0]] - sheet.x[f[1]]
            if is_straight(pair, HALF * between, sheet.rest_middles):
                return made
        vertex = e[0]
        if st[0] >= ONE - END:
            vertex = e[1]
        mine = pair[0]
        other = pair[1]
        if inside_e:
            vertex = f[0]
            if st[1] >= ONE - END:
                vertex = f[1]
            mine = pair[1]
            other = pair[0]
        if sheet.first_edge[vertex] != mine or edge_is_aligned(other, n, sheet):
            return made
        if (sheet.marks[other] & SHARP) == 0 and wp.length(way) <= HASTE * (sheet.radius + sheet.largest):
            return made
    made.made = EDGE_EDGE
    made.vertices = q
    made.kind = FROZEN
    made.weights = w
    made.normal = n
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def closest_approach(r: wp.vec3d, way: wp.vec3d) -> wp.float64:
    """The least distance of two points on straight paths, from their offset at the start and its change."""
    squared = wp.dot(way, way)
    t = ZERO
    if squared > ZERO:
        t = wp.clamp(-wp.dot(r, way) / squared, ZERO, ONE)
    return wp.length(r + t * way)


@wp.func
def make_point_point(a: int, b: int, sheet: Sheet) -> Pair:
    """Two vertices: the closest approach of their paths is exact."""
    made = Pair()
    q = wp.vec4i(a, a, b, b)
    w = wp.vec4d(ONE, ZERO, -ONE, ZERO)
    r = sheet.x[a] - sheet.x[b]
    way = (sheet.end[a] - sheet.x[a]) - (sheet.end[b] - sheet.x[b])
    thick = pair_thickness(w, q, b, sheet)
    distance = wp.length(r)
    if distance <= TINY or closest_approach(r, way) > sheet.radius + thick:
        return made
    made.made = POINT_POINT
    made.vertices = q
    made.kind = FROZEN
    made.weights = w
    made.normal = r / distance
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def make_pair(kind: int, pair: wp.vec2i, sheet: Sheet) -> Pair:
    """The contact of two features, if they make one."""
    if kind == POINT_TRIANGLE:
        return make_point_triangle(pair, sheet)
    if kind == EDGE_EDGE:
        return make_edge_edge(pair, sheet)
    return make_point_point(pair[0], pair[1], sheet)


@wp.func
def ball(mean: wp.vec3d, squared: wp.float64) -> wp.vec4d:
    """A ball around points, of which none is farther from the mean than its radius."""
    return wp.vec4d(mean[0], mean[1], mean[2], wp.sqrt(squared))


@wp.func
def ball_of_two(a: wp.vec3d, b: wp.vec3d) -> wp.vec4d:
    mean = HALF * (a + b)
    return ball(mean, wp.length_sq(a - mean))


@wp.func
def ball_of_three(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    mean = (a + b + c) / wp.float64(3.0)
    return ball(mean, wp.max(wp.length_sq(a - mean), wp.max(wp.length_sq(b - mean), wp.length_sq(c - mean))))


@wp.func
def spread(a: wp.vec4d, b: wp.vec4d) -> wp.float64:
    """The largest distance of points of two balls."""
    return wp.length(wp.vec3d(a[0] - b[0], a[1] - b[1], a[2] - b[2])) + a[3] + b[3]


@wp.func
def farther_than(a: wp.vec4d, b: wp.vec4d, limit: wp.float64) -> bool:
    """Whether all points of two balls are farther apart than this."""
    x = a[0] - b[0]
    y = a[1] - b[1]
    z = a[2] - b[2]
    far = limit + a[3] + b[3]
    return x * x + y * y + z * z > far * far


@wp.kernel
def enclose_vertices(
    first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], balls: wp.array[wp.vec4d], ways: wp.array[wp.vec4d]
):
    """Place and way of each vertex."""
    i = first + wp.tid()
    balls[i] = ball(x[i], ZERO)
    ways[i] = ball(end[i] - x[i], ZERO)


@wp.kernel
def enclose_edges(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    edges: wp.array[wp.vec2i],
    edge_faces: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    first_edge: wp.array[int],
    marks: wp.array[int],
    balls: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
):
    """Balls around the places and the ways of the ends of each edge, and what kind of edge it is."""
    i = first + wp.tid()
    e = edges[i]
    mark = int(0)
    if first_edge[e[0]] == i or first_edge[e[1]] == i:
        mark = FIRST
    wings = edge_faces[i]
    if wings[1] < 0 or wp.dot(face_normal(faces[wings[0]], x), face_normal(faces[wings[1]], x)) < ALIGNED:
        mark += SHARP
    marks[i] = mark
    a = x[e[0]]
    b = x[e[1]]
    balls[i] = ball_of_two(a, b)
    ways[i] = ball_of_two(end[e[0]] - a, end[e[1]] - b)


@wp.kernel
def enclose_faces(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    balls: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
):
    """Balls around the places and the ways of the corners of each triangle."""
    i = first + wp.tid()
    f = faces[i]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    balls[i] = ball_of_three(a, b, c)
    ways[i] = ball_of_three(end[f[0]] - a, end[f[1]] - b, end[f[2]] - c)


@wp.func
def triangle_is_far(
    pair: wp.vec2i, around: wp.vec4d, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d], near: wp.float64
) -> bool:
    """Whether a vertex and a triangle, which is in a ball, are farther apart than this, or not over each other."""
    f = faces[pair[1]]
    p = x[pair[0]]
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    m = wp.cross(b - a, c - a)
    height = wp.dot(m, p - a)
    area = wp.dot(m, m)
    if height * height > near * near * area:
        return True
    # neighbours in a flat sheet are at least this far from each other, and seldom over each other
    apart = wp.length(p - wp.vec3d(around[0], around[1], around[2])) - around[3]
    if apart > ZERO and height * height < FLAT * apart * apart * area:
        return True
    bary = nearest_on_triangle(p, a, b, c)
    squared = wp.length_sq(p - bary[0] * a - bary[1] * b - bary[2] * c)
    return squared > near * near or height * height < FLAT * squared * area


@wp.func
def edges_are_far(
    pair: wp.vec2i,
    edges: wp.array[wp.vec2i],
    marks: wp.array[int],
    x: wp.array[wp.vec3d],
    vertex_cloth: wp.array[int],
    rest_middles: wp.array[wp.vec3d],
    near: wp.float64,
    hasty: bool,
) -> bool:
    """Whether two edges are farther apart than this where their nearest points are inside, or others stand for them."""
    e = edges[pair[0]]
    f = edges[pair[1]]
    a = x[e[0]]
    c = x[f[0]]
    u = x[e[1]] - a
    v = x[f[1]] - c
    r = a - c
    uu = wp.dot(u, u)
    vv = wp.dot(v, v)
    uv = wp.dot(u, v)
    ur = wp.dot(u, r)
    vr = wp.dot(v, r)
    area = uu * vv - uv * uv
    s = uv * vr - ur * vv
    t = uu * vr - uv * ur
    if s > ZERO and s < area and t > ZERO and t < area:
        volume = wp.dot(r, wp.cross(u, v))
        return volume * volume > near * near * area
    # an end of one edge and the other: only for the first edge of that end, and at a border, a sharp fold or in haste
    of_first = (marks[pair[0]] & FIRST) != 0 and (hasty or (marks[pair[1]] & SHARP) != 0)
    of_second = (marks[pair[1]] & FIRST) != 0 and (hasty or (marks[pair[0]] & SHARP) != 0)
    if not (of_first or of_second):
        return True
    if vertex_cloth[e[0]] == vertex_cloth[f[0]] and is_straight(pair, r + HALF * (u - v), rest_middles):
        return True
    st = nearest_on_edges(a, x[e[1]], c, x[f[1]])
    return wp.length_sq(r + st[0] * u - st[1] * v) > near * near


@wp.kernel
def choose_pairs(
    first: int,
    kind: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    reach: wp.float64,
    first_balls: wp.array[wp.vec4d],
    first_ways: wp.array[wp.vec4d],
    second_balls: wp.array[wp.vec4d],
    second_ways: wp.array[wp.vec4d],
    chosen: wp.array[int],
):
    """Which candidates make a contact, a chunk of them an item; most do not, which is seen from few numbers."""
    chunk = first + wp.tid()
    for i in range(chunk * CHUNK, wp.min((chunk + 1) * CHUNK, count)):
        pair = pairs[i]
        made = int(0)
        way = spread(first_ways[pair[0]], second_ways[pair[1]])
        near = reach + way
        if not farther_than(first_balls[pair[0]], second_balls[pair[1]], near):
            if kind == POINT_TRIANGLE:
                if not triangle_is_far(pair, second_balls[pair[1]], sheet.faces, sheet.x, near):
                    made = make_point_triangle(pair, sheet).made
            else:
                if not edges_are_far(
                    pair, sheet.edges, sheet.marks, sheet.x, sheet.vertex_cloth, sheet.rest_middles, near,
                    way > HASTE * reach,
                ):  # fmt: skip
                    made = make_edge_edge(pair, sheet).made
        chosen[i] = wp.where(made != NONE, 1, 0)


@wp.kernel
def choose_points(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[int],
):
    """Which vertices make a contact with a vertex that the triangle owns: one bit a corner."""
    i = first + wp.tid()
    a = pairs[i][0]
    f = sheet.faces[pairs[i][1]]
    bits = int(0)
    count = int(0)
    for k in range(3):
        if a < f[k] and (sheet.owned[pairs[i][1]] >> k) & 1 != 0:
            made = make_point_point(a, f[k], sheet)
            if made.made != NONE:
                bits = bits | (1 << k)
                count += 1
    chosen[i] = count | (bits << 2)


@wp.kernel
def count_points(first: int, chosen: wp.array[int], counts: wp.array[int]):
    """How many pairs of vertices each candidate gave."""
    i = first + wp.tid()
    counts[i] = chosen[i] & 3


@wp.kernel
def list_points(
    first: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    chosen: wp.array[int],
    places: wp.array[int],
    listed: wp.array[wp.vec2i],
):
    """The pairs of vertices, one after another."""
    i = first + wp.tid()
    place = places[i]
    for k in range(3):
        if (chosen[i] >> (2 + k)) & 1 != 0:
            listed[place] = wp.vec2i(pairs[i][0], faces[pairs[i][1]][k])
            place += 1


@wp.kernel
def list_pairs(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[int],
    places: wp.array[int],
    base: int,
    listed: wp.array[wp.vec3i],
    vertices: wp.array[wp.vec4i],
):
    """The chosen candidates, one after another, with their vertices."""
    i = first + wp.tid()
    if chosen[i] != 0:
        k = base + places[i]
        pair = pairs[i]
        listed[k] = wp.vec3i(pair[0], pair[1], kind)
        if kind == POINT_TRIANGLE:
            f = sheet.faces[pair[1]]
            vertices[k] = wp.vec4i(pair[0], f[0], f[1], f[2])
        elif kind == EDGE_EDGE:
            e = sheet.edges[pair[0]]
            f2 = sheet.edges[pair[1]]
            vertices[k] = wp.vec4i(e[0], e[1], f2[0], f2[1])
        else:
            vertices[k] = wp.vec4i(pair[0], pair[0], pair[1], pair[1])


@wp.kernel
def write_contacts(
    first: int,
    order: wp.array[int],
    listed: wp.array[wp.vec3i],
    sheet: Sheet,
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    triangles: wp.array[int],
):
    """The contacts in the order in which they are solved."""
    i = first + wp.tid()
    pair = listed[order[i]]
    made = make_pair(pair[2], wp.vec2i(pair[0], pair[1]), sheet)
    q = made.vertices
    vertices[i] = q
    kinds[i] = made.kind
    weights[i] = made.weights
    normals[i] = made.normal
    thickness[i] = made.thickness
    triangles[i] = wp.where(pair[2] == POINT_TRIANGLE, pair[1], -1)
    # corners 0 and 3 are on different sides in all kinds of stencils
    a = sheet.vertex_cloth[q[0]]
    b = sheet.vertex_cloth[q[3]]
    friction[i] = wp.vec2d(sticking[a, b], sliding[a, b])


class PredictiveSearch:
    """Finds the contacts of a step; buffers are kept between steps."""

    def __init__(
        self,
        broad_phase: BroadPhase,
        regions: Regions,
        *,
        rest: wp.array,
        thickness: wp.array,
        inverse_mass: wp.array,
        friction: tuple[wp.array, wp.array],
        largest_thickness: float,
    ) -> None:
        surface = broad_phase.surface
        self.device = surface.device
        self.broad_phase = broad_phase
        self.friction = friction
        self.largest_thickness = largest_thickness
        edges, faces = surface.edges.numpy().reshape(-1, 2), surface.faces.numpy().reshape(-1, 3)
        face_edges, owned = surface.face_edges.numpy().reshape(-1, 3), surface.owned.numpy()
        owners = _owners(owned, faces, face_edges, surface.vertex_count, len(edges))

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        sheet: Any = Sheet()
        sheet.faces, sheet.edges, sheet.owned = surface.faces, surface.edges, surface.owned
        sheet.edge_faces = upload(_edge_faces(face_edges, len(edges)), wp.vec2i)
        sheet.first_edge = upload(_first_edges(edges, surface.vertex_count), int)
        sheet.marks = wp.zeros(len(edges), dtype=int, device=self.device)
        sheet.vertex_cloth = upload(regions.vertex_cloth, int)
        region = np.append(regions.face_region, 0)
        sheet.vertex_region, sheet.edge_region = upload(region[owners[0]], int), upload(region[owners[1]], int)
        sheet.face_region = upload(regions.face_region, int)
        sheet.above = wp.array(regions.above, dtype=int, ndim=2, device=self.device)
        sheet.rest, sheet.thickness = rest, thickness
        sheet.rest_middles = upload(rest.numpy()[edges].mean(axis=1), wp.vec3d)
        sheet.largest = wp.float64(largest_thickness)
        self.sheet = sheet
        self.across = upload(_faces_across(face_edges, sheet.edge_faces.numpy(), regions.face_region), wp.vec3i)
        """for each corner of each triangle the triangle across the opposite edge, -1 for none in the same region"""
        self._chosen, self._places = Buffer(int, self.device), Buffer(int, self.device)
        self._counts, self._points = Buffer(int, self.device), Buffer(wp.vec2i, self.device)
        self._listed, self._vertices = Buffer(wp.vec3i, self.device), Buffer(wp.vec4i, self.device)
        sizes = (surface.vertex_count, len(edges), len(faces))
        self._balls = [[wp.zeros(size, dtype=wp.vec4d, device=self.device) for _ in range(2)] for size in sizes]
        self._reach = 0.0
        self._unturned = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        self.colouring = StencilColouring(max(surface.vertex_count, 1), inverse_mass)
        self.offsets: list[int] = []
        """where each colour of contacts starts; the last two enclose those without one"""

    def find(
        self,
        x: wp.array,
        end: wp.array,
        radius: float,
        contacts: Contacts,
        *,
        kind: Literal["triangles", "points"] = "triangles",
        edges: bool = True,
    ) -> int:
        """Replace the contacts by those of a step from x to the predicted `end`; gives their number.

        Points are vertices with vertices; triangles are vertices with triangles, and edges with edges unless told not.
        """
        sheet = self.sheet
        if kind == "triangles" and self.device.is_cpu:
            end = self._without_turn(x, end)
        sheet.x, sheet.end = x, end
        sheet.radius = wp.float64(radius)
        self._reach = self.largest_thickness + radius
        self.broad_phase.update(x, end, self._reach)
        self._enclose(x, end)
        candidates = self.broad_phase.feature_pairs()
        if kind == "points":
            pairs = self._list_points(candidates.vertex_triangle)
            found = self._list(int(POINT_POINT), pairs, 0)
        else:
            found = self._list(int(POINT_TRIANGLE), candidates.vertex_triangle, 0)
            if edges:
                found = self._list(int(EDGE_EDGE), candidates.edge_edge, found)
        contacts.grow(found)
        if found:
            self.offsets = self.colouring.colour(self._vertices.array, found)
            tables = [*self.friction, *contacts.arrays, contacts.triangles]
            inputs = [self.colouring.order, self._listed.array, sheet, *tables]
            launch(write_contacts, found, inputs, device=self.device, grain=GRAIN)
        return found

    def _without_turn(self, x: wp.array, end: wp.array) -> wp.array:
        """Where the vertices would end if the cloth as a whole did not turn.

        Turning moves two points across the direction between them and never along it, so that no contact is missed for
        leaving it out; but boxes of what turns are large and overlap in vain.
        """
        start = x.numpy()
        way = end.numpy() - start
        arm = start - start.mean(axis=0)
        moment = np.cross(arm, way - way.mean(axis=0)).sum(axis=0)
        spread = arm.T @ arm
        inertia = np.trace(spread) * np.eye(3) - spread
        if np.linalg.det(inertia) <= 1e-12 * np.trace(inertia) ** 3:
            return end
        turn = np.linalg.solve(inertia, moment)
        self._unturned.numpy()[:] = end.numpy() - np.cross(turn, arm)
        return self._unturned

    def _enclose(self, x: wp.array, end: wp.array) -> None:
        """Balls around all features and their ways."""
        sheet = self.sheet
        vertices, edges, faces = self._balls
        launch(enclose_vertices, len(vertices[0]), [x, end, *vertices], device=self.device)
        inputs = [x, end, sheet.edges, sheet.edge_faces, sheet.faces, sheet.first_edge, sheet.marks, *edges]
        launch(enclose_edges, len(edges[0]), inputs, device=self.device)
        launch(enclose_faces, len(faces[0]), [x, end, sheet.faces, *faces], device=self.device)

    def _list(self, kind: int, pairs: wp.array, base: int) -> int:
        """Add the candidates that make a contact to the list; gives the length of the list."""
        count = len(pairs)
        if count == 0:
            return base
        sheet = self.sheet
        chosen, places = self._chosen.at_least(count)[:count], self._places.at_least(count)[:count]
        vertices, edges, faces = self._balls
        if kind == int(POINT_POINT):
            chosen.fill_(1)
        else:
            balls = [*vertices, *faces] if kind == int(POINT_TRIANGLE) else [*edges, *edges]
            inputs = [kind, count, pairs, sheet, self._reach, *balls, chosen]
            launch(choose_pairs, -(-count // CHUNK), inputs, device=self.device, grain=16)
        found = _scan(chosen, places)
        if found:
            listed = self._listed.at_least(base + found, keep=base)
            vertices = self._vertices.at_least(base + found, keep=base)
            inputs = [kind, pairs, self.sheet, chosen, places, base, listed, vertices]
            launch(list_pairs, count, inputs, device=self.device, grain=GRAIN)
        return base + found

    def _list_points(self, pairs: wp.array) -> wp.array:
        """Pairs of vertices from pairs of a vertex and a triangle: each vertex has one triangle that owns it."""
        count = len(pairs)
        if count == 0:
            return pairs
        chosen, places = self._chosen.at_least(count)[:count], self._places.at_least(count)[:count]
        counts = self._counts.at_least(count)[:count]
        launch(choose_points, count, [pairs, self.sheet, chosen], device=self.device, grain=GRAIN)
        launch(count_points, count, [chosen, counts], device=self.device)
        found = _scan(counts, places)
        points = self._points.at_least(max(found, 1))[:found]
        launch(list_points, count, [pairs, self.sheet.faces, chosen, places, points], device=self.device)
        return points


def _scan(chosen: wp.array, places: wp.array) -> int:
    """Places of the chosen ones, and their number."""
    wp.utils.array_scan(chosen, places, inclusive=False)
    last = slice(len(chosen) - 1, None)
    return int(places[last].numpy()[0] + chosen[last].numpy()[0])


def _edge_faces(face_edges: np.ndarray, count: int) -> np.ndarray:
    """Two triangles at each edge, -1 where there is only one; of more than two, the first and the last."""
    found = np.full((count, 2), -1, np.int32)
    flat = face_edges.ravel()
    face = (np.arange(len(flat)) // 3).astype(np.int32)
    found[flat[::-1], 0] = face[::-1]
    found[flat, 1] = face
    found[found[:, 0] == found[:, 1], 1] = -1
    return found


def _faces_across(face_edges: np.ndarray, edge_faces: np.ndarray, region: np.ndarray) -> np.ndarray:
    """The triangle opposite each corner; the edge opposite corner k is the one after it, k + 1."""
    pairs = edge_faces.reshape(-1, 2)[np.roll(face_edges, -1, axis=1)]
    own = np.arange(len(face_edges))[:, None]
    other = np.where(pairs[..., 0] == own, pairs[..., 1], pairs[..., 0])
    same = (other >= 0) & (np.append(region, -1)[other] == region[:, None])
    return np.where(same, other, -1).astype(np.int32)


def _first_edges(edges: np.ndarray, vertex_count: int) -> np.ndarray:
    """The lowest edge at each vertex, -1 where there is none."""
    first = np.full(vertex_count, -1, np.int32)
    numbers = np.arange(len(edges), dtype=np.int32)[::-1]
    for end in range(2):
        chosen = np.full(vertex_count, len(edges), np.int32)
        chosen[edges[::-1, end]] = numbers
        first = np.where((first < 0) | (chosen < first), chosen, first)
    first[first == len(edges)] = -1
    return first.astype(np.int32)


def _owners(
    owned: np.ndarray, faces: np.ndarray, face_edges: np.ndarray, vertex_count: int, edge_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The triangle that owns each vertex and each edge; -1 for a vertex without triangle."""
    result = []
    for features, first_bit, count in ((faces, 0, vertex_count), (face_edges, 3, edge_count)):
        owner = np.full(count, -1, np.int64)
        for k in range(3):
            mine = (owned >> (first_bit + k)) & 1 == 1
            owner[features[mine, k]] = np.flatnonzero(mine)
        result.append(owner)
    return result[0], result[1]

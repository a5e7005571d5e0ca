"""Which pairs of features make a contact, and which contact (Lewin 2018, sections 4.1 to 4.3).

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

import warp as wp

from weft.response.nearest import nearest_on_edges, nearest_on_triangle
from weft.response.predictive_contacts import FROZEN, OVER, TRIANGLE

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex
ALIGNED = wp.constant(wp.float64(0.5))
# parameters nearer to 0 or 1 than this are ends
END = wp.constant(wp.float64(1e-6))
# two points of one cloth keep at most this part of their distance along the cloth
REST_PART = wp.constant(wp.float64(0.7))
# marks of an edge: it is the first at its first or at its second vertex; on the border, or its triangles fold sharply
FIRST = wp.constant(1)
SECOND = wp.constant(2)
SHARP = wp.constant(4)
# what moves against each other in a step by more than this part of the reach is in haste
HASTE = wp.constant(wp.float64(0.25))
# where two edges of a cloth are and stay no nearer than this part of their distance at rest, the cloth between them is
# straight
STRAIGHT = wp.constant(wp.float64(0.95))

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
    """of each edge: FIRST, SECOND and SHARP, found anew in each search"""
    owned: wp.array[int]
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    rest_rows: wp.array[wp.vec4d]
    """middles of the edges at rest, and the number of the cloth"""
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
def is_straight(pair: wp.vec2i, start: wp.vec3d, end: wp.vec3d, rest_rows: wp.array[wp.vec4d]) -> bool:
    """Whether the middles of two edges of a cloth, this far apart over the step, are about as far apart as at rest."""
    rest = rest_rows[pair[0]] - rest_rows[pair[1]]
    least = STRAIGHT * STRAIGHT * wp.dot(rest, rest)
    return wp.dot(start, start) >= least and wp.dot(end, end) >= least


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
            start = HALF * (sheet.x[e[0]] + sheet.x[e[1]] - sheet.x[f[0]] - sheet.x[f[1]])
            end = HALF * (sheet.end[e[0]] + sheet.end[e[1]] - sheet.end[f[0]] - sheet.end[f[1]])
            if is_straight(pair, start, end, sheet.rest_rows):
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

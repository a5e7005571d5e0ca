"""Which pairs of features make a contact, and which contact (Lewin 2018, sections 4.1 to 4.3).

Nearest points and the direction between them are those at the start; the displacements of the step, projected on that
direction, tell how near the two will come. What comes nearer than the thickness 2r and the static collision radius gets
a contact. No contact is made twice: the broad phase lists each pair of features once (rep-tri), and where the nearest
points are on borders, one rule says which pair stands for the place:

- a vertex over a triangle, or over its border, is a contact of the two where the direction between them is within
  60 degrees of the triangle's normal; elsewhere the triangle's plane says nothing about what is between them;
- two edges are a contact where the nearest points are inside both; where one of them is an end, only if no triangle at
  the other edge makes the contact with that vertex, only for the first edge of that vertex, and only if the other edge
  is on the border or in a sharp fold, or the two move against each other.

Neighbours in a sheet make no contact where the cloth between them is straight: where their middles are and stay at least
0.95 times as far apart as at rest. The cloth itself keeps them apart, and a contact would only ask for 0.7 of that. Features
that are sewn together make none either: it would open the seam.

Layers know which side is right, where they lie on each other: where both face the same way. The front of a sleeve and
the back of the sleeve under it do not, and keep the sides they are on.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

import warp as wp

from weft.geometry.proximity import NEAREST_ON_TRIANGLE
from weft.methods.predictive.contacts import OVER, ContactArrays
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# distance in metres below which two features touch and have no direction between them
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex: 60 degrees
ALIGNED = wp.constant(wp.float64(0.5))
# two points of one cloth keep at most this share of their distance along the cloth at rest: with more, contacts would stretch
# the cloth between them
REST_SHARE = wp.constant(wp.float64(0.7))
# where two features of a cloth are and stay no nearer than this share of their distance at rest, the cloth between them is
# straight; with more, flat cloth would be full of contacts with itself
STRAIGHT = wp.constant(wp.float64(0.95))
# features that move against each other by more than this share of the contact distance in a step are fast: an edge end then
# makes contacts with any edge, not only with sharp folds
DISPLACEMENT_RATIO = wp.constant(wp.float64(0.25))
# a nearest point within this share of an edge's end counts as the end
END = wp.constant(wp.float64(1e-6))
# bits of an edge: it is the first edge of its first or of its second vertex; it is on the border, or its triangles fold sharply
FIRST = wp.constant(1)
SECOND = wp.constant(2)
SHARP = wp.constant(4)
POINT_TRIANGLE, EDGE_EDGE, POINT_POINT = (wp.constant(k) for k in range(1, 4))

_native = NativeHeader(__file__, "pairs.h")
_CONSTANTS = {"ALIGNED": ALIGNED, "TINY": TINY, "REST_SHARE": REST_SHARE, "OVER": OVER, "STRAIGHT": STRAIGHT}


@wp.struct
class SearchSurface:
    """What the search reads of the cloths; positions are set before each search."""

    x: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    """predicted positions at the end of the step, without the rotation of all cloth together"""
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    """the triangles at an edge, -1 for none"""
    first_edge: wp.array[int]
    """the first edge of each vertex, -1 for none"""
    marks: wp.array[int]
    """of each edge: FIRST, SECOND and SHARP, found anew in each search"""
    owned: wp.array[int]
    """bit k of a triangle: it owns its corner k (rep-tri)"""
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    rest_middles: wp.array[wp.vec4d]
    """middles of the edges at rest, and the number of the cloth"""
    thickness: wp.array[wp.float64]
    sewn: int
    """whether there are seams"""
    sewn_to: wp.array[int]
    """a number a vertex, the same for vertices that seams join"""
    sticking: wp.array2d[wp.float64]
    sliding: wp.array2d[wp.float64]
    """static and kinetic friction of two cloths"""
    radius: wp.float64
    """static collision radius"""
    largest: wp.float64
    """largest thickness"""


MadeContact = wp.types.vector(length=10, dtype=wp.float64)
"""A contact: whether it is one, its kind, four weights, a normal, the thickness."""


@wp.func_native(_native.body("point_triangle", NEAREST=NEAREST_ON_TRIANGLE, **_CONSTANTS))
def make_point_triangle(pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """A vertex and a triangle: the side is the one on which the vertex is, or that of its layer."""
    ...


@wp.func_native(_native.body("edge_edge", END=END, SHARP=SHARP, DISPLACEMENT_RATIO=DISPLACEMENT_RATIO, **_CONSTANTS))
def make_edge_edge(pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """Two edges; between layers the normal is that of the lower one."""
    ...


@wp.func
def closest_approach(r: wp.vec3d, move: wp.vec3d) -> wp.float64:
    """The least distance of two points on straight paths, from their offset at the start and its change over the step."""
    squared = wp.dot(move, move)
    t = ZERO
    if squared > ZERO:
        t = wp.clamp(-wp.dot(r, move) / squared, ZERO, ONE)
    return wp.length(r + t * move)


@wp.func
def make_point_point(a: int, b: int, surface: SearchSurface) -> MadeContact:
    """Two vertices: the closest approach of their paths is exact."""
    made = MadeContact()
    if surface.sewn != 0 and surface.sewn_to[a] == surface.sewn_to[b]:
        return made
    r = surface.x[a] - surface.x[b]
    move = (surface.end[a] - surface.x[a]) - (surface.end[b] - surface.x[b])
    thick = HALF * (surface.thickness[a] + surface.thickness[b])
    if surface.vertex_cloth[a] == surface.vertex_cloth[b]:
        thick = wp.min(thick, REST_SHARE * wp.length(surface.rest[a] - surface.rest[b]))
    distance = wp.length(r)
    if distance <= TINY or closest_approach(r, move) > surface.radius + thick:
        return made
    n = r / distance
    return MadeContact(ONE, ZERO, ONE, ZERO, -ONE, ZERO, n[0], n[1], n[2], thick)


@wp.func
def make_pair(kind: int, pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """The contact of two features, if they make one."""
    if kind == POINT_TRIANGLE:
        return make_point_triangle(pair, surface)
    if kind == EDGE_EDGE:
        return make_edge_edge(pair, surface)
    return make_point_point(pair[0], pair[1], surface)


@wp.func
def corners_of(kind: int, pair: wp.vec2i, surface: SearchSurface) -> wp.vec4i:
    """The four vertices of a pair; a single vertex stands for two."""
    corners = wp.vec4i(pair[0], pair[0], pair[1], pair[1])
    if kind == POINT_TRIANGLE:
        f = surface.faces[pair[1]]
        corners = wp.vec4i(pair[0], f[0], f[1], f[2])
    elif kind == EDGE_EDGE:
        e = surface.edges[pair[0]]
        f2 = surface.edges[pair[1]]
        corners = wp.vec4i(e[0], e[1], f2[0], f2[1])
    return corners


@wp.func
def write_contact(
    i: int, kind: int, pair: wp.vec2i, made: MadeContact, surface: SearchSurface, contacts: ContactArrays
):
    """Store the contact of a pair as contact i."""
    q = corners_of(kind, pair, surface)
    contacts.vertices[i] = q
    contacts.kinds[i] = int(made[1])
    contacts.weights[i] = wp.vec4d(made[2], made[3], made[4], made[5])
    contacts.normals[i] = wp.vec3d(made[6], made[7], made[8])
    contacts.thickness[i] = made[9]
    contacts.triangles[i] = wp.where(kind == POINT_TRIANGLE, pair[1], -1)
    # corners 0 and 3 are on different sides in all kinds of stencils
    a = surface.vertex_cloth[q[0]]
    b = surface.vertex_cloth[q[3]]
    contacts.friction[i] = wp.vec2d(surface.sticking[a, b], surface.sliding[a, b])

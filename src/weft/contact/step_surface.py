# mypy: disable-error-code="arg-type"
"""The surface of all bodies as contact and CCD tests read it: which of its features are nearest, and which are sewn.

A pair is a contact of the surface only where its two features are the nearest ones around (see `feature_bounds`). Features that
stitches hold together are no contacts.
"""

import warp as wp

from weft.contact.feature_bounds import in_edge_cone, in_vertex_cone

wp.set_module_options({"enable_backward": False})

# weights of a stencil below this are zero: the nearest point is on the border of the triangle or at the end of the edge
ZERO_WEIGHT = wp.constant(wp.float64(1e-9))


@wp.struct
class StepSurface:
    """What the tests read of all bodies and of the motion that is tested."""

    x: wp.array[wp.vec3d]
    """positions at the start of the step"""
    end: wp.array[wp.vec3d]
    """positions at the end of the motion"""
    rest_shape: wp.array[wp.vec3d]
    """for the distance of two points of one cloth along the cloth"""
    thickness: wp.array[wp.float64]
    """of each vertex, in m"""
    tolerance_scale: wp.float64
    """tolerances are written for cloth of 1 mm: how much finer this one is, at most 1 (see `length_scale`)"""
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    face_edges: wp.array[wp.vec3i]
    owned: wp.array[int]
    vertex_body: wp.array[int]
    wings: wp.array[wp.vec2i]
    neighbour_offsets: wp.array[int]
    neighbours: wp.array[int]
    any_sewn: int
    """1 where some vertices are sewn to others"""
    sewn_group: wp.array[int]
    """the same number for vertices that stitches hold at one place: their features lie on each other and are no contacts"""
    sewn_offsets: wp.array[int]
    sewn_partners: wp.array[int]
    """for each vertex, those that a stitch joins it to: such pairs may even pass through each other"""
    reach: wp.float64
    """a pair is a contact if its gap at the end would be less than its thickness and this, in m"""
    detection_distance: wp.float64
    """the largest thickness of any pair and the reach, in m"""


@wp.func
def nearest_on_surface(surface: StepSurface, face: int, w: wp.vec4d, n: wp.vec3d) -> bool:
    """Whether the nearest point of a triangle is that of the whole surface around it; true for one triangle of those at it."""
    border = int(0)
    inside = int(-1)
    outside = int(-1)
    for k in range(3):
        if w[k + 1] > -ZERO_WEIGHT:
            border += 1
            outside = k
        else:
            inside = k
    if border == 0:
        return True
    bits = surface.owned[face]
    if border == 1:
        # on the edge opposite the corner without weight
        edge = (outside + 1) % 3
        if (bits >> (edge + 3)) & 1 == 0:
            return False
        return in_edge_cone(n, surface.face_edges[face][edge], surface.edges, surface.wings, surface.x)
    if (bits >> inside) & 1 == 0:
        return False
    return in_vertex_cone(n, surface.faces[face][inside], surface.neighbour_offsets, surface.neighbours, surface.x)


@wp.func
def nearest_of_edges(surface: StepSurface, pair: wp.vec2i, n: wp.vec3d) -> bool:
    """Whether both edges are the nearest features of the surfaces around them."""
    if not in_edge_cone(-n, pair[0], surface.edges, surface.wings, surface.x):
        return False
    return in_edge_cone(n, pair[1], surface.edges, surface.wings, surface.x)


@wp.func
def are_sewn(surface: StepSurface, one: int, other: int) -> bool:
    """Whether a stitch joins two vertices directly."""
    found = bool(False)
    for k in range(surface.sewn_offsets[one], surface.sewn_offsets[one + 1]):
        if surface.sewn_partners[k] == other:
            found = True
    return found


@wp.func
def vertex_triangle_sewn(surface: StepSurface, pair: wp.vec2i) -> bool:
    """Whether a vertex is sewn to a corner of a triangle."""
    f = surface.faces[pair[1]]
    v = pair[0]
    return are_sewn(surface, v, f[0]) or are_sewn(surface, v, f[1]) or are_sewn(surface, v, f[2])


@wp.func
def edges_sewn(surface: StepSurface, pair: wp.vec2i) -> bool:
    """Whether an end of one edge is sewn to an end of the other."""
    e = surface.edges[pair[0]]
    f = surface.edges[pair[1]]
    first = are_sewn(surface, e[0], f[0]) or are_sewn(surface, e[0], f[1])
    return first or are_sewn(surface, e[1], f[0]) or are_sewn(surface, e[1], f[1])


@wp.func
def vertex_triangle_gathered(surface: StepSurface, pair: wp.vec2i) -> bool:
    """Whether stitches hold a vertex at a corner of a triangle, directly or through others: then they are no contact."""
    own = surface.sewn_group[pair[0]]
    f = surface.faces[pair[1]]
    return own == surface.sewn_group[f[0]] or own == surface.sewn_group[f[1]] or own == surface.sewn_group[f[2]]


@wp.func
def edges_gathered(surface: StepSurface, pair: wp.vec2i) -> bool:
    """Whether stitches hold an end of one edge at an end of the other."""
    e = surface.edges[pair[0]]
    f = surface.edges[pair[1]]
    a = surface.sewn_group[e[0]]
    b = surface.sewn_group[e[1]]
    c = surface.sewn_group[f[0]]
    d = surface.sewn_group[f[1]]
    return a == c or a == d or b == c or b == d

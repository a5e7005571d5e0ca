# mypy: disable-error-code="arg-type"
"""Contacts of a step: pairs nearer than the thickness at its start, and pairs that would come so near during it.

One list of candidates serves the whole step. For each candidate the distance at the start is kept: later passes
need only a bound of the displacements to see that almost all of them cannot meet. Features that are near each other
mostly move alike, so the bound is that of their relative motion.
"""

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.batches import bit, candidates_in, edges_to_look_at, part_of_mask, triangles_to_look_at
from weft.contact.cones import in_edge_cone, in_vertex_cone
from weft.geometry.proximity import nearest_edge_edge, nearest_point_triangle

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# barycentric coordinates below this count as zero: the nearest point is on the border
BORDER = wp.constant(wp.float64(1e-9))
# part of the thickness at which a pair that slides past counts as apart: what gravity lets sink in a step is less
STILL_APART = wp.constant(wp.float64(0.9))
# cosine of the angle that a direction may turn by before it counts as another one
SAME_DIRECTION = wp.constant(wp.float64(0.97))
TINY = wp.constant(wp.float64(1e-300))
# a pair of neighbours in a sharp crease is no contact of the surface (see cones.py), but is kept from closing below this, in m
CLOSE = wp.constant(wp.float64(4e-4))
# pairs at rest are a thickness apart: rounding, which differs from device to device, must not decide about them
RESTING = wp.constant(wp.float64(1.0 - 1e-9))
# distance of pairs that do not count
NEVER = wp.constant(wp.float64(1e30))
# pairs of edges keep a little less than the thickness: where surfaces lie on each other the vertices carry the load,
# and the many pairs of edges between them need not be solved
EDGE_PART = wp.constant(wp.float64(0.8))


@wp.struct
class Sheet:
    """What the kernels below read of the surface and of the step.

    Warp passes structs by value: functions that run for every candidate take numbers instead.
    """

    x: wp.array[wp.vec3d]
    """positions at the start of the step"""
    end: wp.array[wp.vec3d]
    """proposed positions at its end"""
    vertex_moves: wp.array[wp.vec4d]
    """displacement, and nothing"""
    face_moves: wp.array[wp.vec4d]
    """mean displacement of the corners, and how far any of them differs from it"""
    edge_moves: wp.array[wp.vec4d]
    rest: wp.array[wp.vec3d]
    """rest shape, for the distance of two points of one cloth along the cloth"""
    scale: wp.float64
    """tolerances hold for cloth of 1 mm: how much finer this one is, at most 1 (see `length_scale`)"""
    thickness: wp.array[wp.float64]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    face_edges: wp.array[wp.vec3i]
    owned: wp.array[int]
    vertex_body: wp.array[int]
    wings: wp.array[wp.vec2i]
    neighbour_offsets: wp.array[int]
    neighbours: wp.array[int]
    sewn: int
    """1 where some vertices are sewn to others"""
    sewn_to: wp.array[int]
    """the same number for vertices that are sewn together; their features lie on each other and are no contacts"""
    largest: wp.float64
    """largest thickness of any pair, with the reach"""
    reach: wp.float64
    """a pair also counts when its gap at the end would be this much more than its thickness"""


@wp.func
def combine(w: wp.vec4d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec3d:
    """The stencil's sum w_k x_k."""
    return w[0] * a + w[1] * b + w[2] * c + w[3] * d


@wp.func
def pair_direction(r: wp.vec3d, other: wp.vec3d) -> wp.vec3d:
    """Unit vector along r; where r is nothing, along the other one."""
    length = wp.length(r)
    if length > wp.float64(1e-12):
        return r / length
    return wp.normalize(other)


@wp.func
def triangle_weights(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """Weights of the stencil of a vertex and a triangle."""
    bary = nearest_point_triangle(p, a, b, c)
    return wp.vec4d(ONE, -bary[0], -bary[1], -bary[2])


@wp.func
def edge_weights(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.vec4d:
    """Weights of the stencil of the edges ab and cd."""
    st = nearest_edge_edge(a, b, c, d)
    return wp.vec4d(ONE - st[0], st[0], st[1] - ONE, -st[1])


@wp.func
def pair_thickness(
    q: wp.vec4i,
    w: wp.vec4d,
    second: int,
    thickness: wp.array[wp.float64],
    vertex_body: wp.array[int],
    rest: wp.array[wp.vec3d],
) -> wp.float64:
    """Thickness of a pair; of two points of one cloth at most half their distance along it, or folds would burst."""
    mean = HALF * (thickness[q[0]] + thickness[second])
    if vertex_body[q[0]] == vertex_body[second]:
        mean = wp.min(mean, HALF * wp.length(combine(w, rest[q[0]], rest[q[1]], rest[q[2]], rest[q[3]])))
    return mean


@wp.func
def nearest_on_surface(sheet: Sheet, face: int, w: wp.vec4d, n: wp.vec3d) -> bool:
    """Whether the triangle's nearest point is that of the whole surface around it, told once among its triangles."""
    border = int(0)
    inside = int(-1)
    outside = int(-1)
    for k in range(3):
        if w[k + 1] > -BORDER:
            border += 1
            outside = k
        else:
            inside = k
    if border == 0:
        return True
    bits = sheet.owned[face]
    if border == 1:
        # on the edge opposite the corner without weight
        edge = (outside + 1) % 3
        if (bits >> (edge + 3)) & 1 == 0:
            return False
        return in_edge_cone(n, sheet.face_edges[face][edge], sheet.edges, sheet.wings, sheet.x)
    if (bits >> inside) & 1 == 0:
        return False
    return in_vertex_cone(n, sheet.faces[face][inside], sheet.neighbour_offsets, sheet.neighbours, sheet.x)


@wp.func
def nearest_of_edges(sheet: Sheet, pair: wp.vec2i, n: wp.vec3d) -> bool:
    """Whether both edges are the nearest parts of the surfaces around them."""
    if not in_edge_cone(-n, pair[0], sheet.edges, sheet.wings, sheet.x):
        return False
    return in_edge_cone(n, pair[1], sheet.edges, sheet.wings, sheet.x)


@wp.func
def passes_by(start: wp.vec3d, end: wp.vec3d, thickness: wp.float64) -> bool:
    """Whether a pair slides past: it stays about a thickness apart, and its direction turns as it does.

    What slides over a border approaches along the slanted direction at the start and is no nearer in the end: a contact
    would hook it.
    """
    way = end - start
    t = wp.clamp(-wp.dot(start, way) / wp.max(wp.dot(way, way), TINY), ZERO, ONE)
    turned = wp.dot(start, end) < SAME_DIRECTION * wp.length(start) * wp.length(end)
    return turned and wp.length(start + t * way) >= STILL_APART * thickness


@wp.func
def triangle_sewn(sheet: Sheet, pair: wp.vec2i) -> bool:
    """Whether a vertex is sewn to a corner of a triangle."""
    own = sheet.sewn_to[pair[0]]
    f = sheet.faces[pair[1]]
    return own == sheet.sewn_to[f[0]] or own == sheet.sewn_to[f[1]] or own == sheet.sewn_to[f[2]]


@wp.func
def edges_sewn(sheet: Sheet, pair: wp.vec2i) -> bool:
    """Whether two edges share an end, by the numbers of what is sewn together."""
    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    a = sheet.sewn_to[e[0]]
    b = sheet.sewn_to[e[1]]
    c = sheet.sewn_to[f[0]]
    d = sheet.sewn_to[f[1]]
    return a == c or a == d or b == c or b == d


@wp.kernel
def measure_vertex_triangle(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    counts: wp.array[int],
):
    """Distance of each candidate of a batch, which of them are contacts (bit by bit), and how many."""
    item = first + wp.tid()
    begin = item * batch
    count = candidates_in(begin, batch, pairs)
    look = triangles_to_look_at(
        pairs, begin, count, sheet.faces, sheet.x, sheet.vertex_moves, sheet.face_moves, sheet.largest, near
    )
    if sheet.sewn != 0:
        for k in range(count):
            if triangle_sewn(sheet, pairs[begin + k]):
                near[begin + k] = NEVER
                look &= ~bit(k)
    contacts = wp.uint64(0)
    number = int(0)
    while look != wp.uint64(0):
        k = lowest_bit(look)
        look &= look - wp.uint64(1)
        distance, contact = triangle_contact(sheet, pairs[begin + k])
        near[begin + k] = distance
        if contact:
            contacts |= bit(k)
            number += 1
    chosen[item] = contacts
    counts[item] = number


@wp.func
def triangle_contact(sheet: Sheet, pair: wp.vec2i):
    """The distance of a vertex and a triangle, and whether they are a contact."""
    f = sheet.faces[pair[1]]
    p = sheet.x[pair[0]]
    a = sheet.x[f[0]]
    b = sheet.x[f[1]]
    c = sheet.x[f[2]]
    w = triangle_weights(p, a, b, c)
    r = combine(w, p, a, b, c)
    distance = wp.length(r)
    n = pair_direction(r, wp.cross(b - a, c - a))
    r_end = combine(w, sheet.end[pair[0]], sheet.end[f[0]], sheet.end[f[1]], sheet.end[f[2]])
    gap = wp.dot(n, r_end)
    if wp.min(distance, gap) >= sheet.largest:
        return distance, False
    q = wp.vec4i(pair[0], f[0], f[1], f[2])
    thickness = pair_thickness(q, w, f[0], sheet.thickness, sheet.vertex_body, sheet.rest)
    if distance >= RESTING * thickness:
        border = w[1] > -BORDER or w[2] > -BORDER or w[3] > -BORDER
        if gap >= thickness + sheet.reach or (border and passes_by(r, r_end, thickness)):
            return distance, False
    if wp.min(distance, gap) < sheet.scale * CLOSE or nearest_on_surface(sheet, pair[1], w, n):
        return distance, True
    return distance, False


@wp.kernel
def measure_edge_edge(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    counts: wp.array[int],
):
    """The same for pairs of edges; those that are contacts have both nearest points inside."""
    item = first + wp.tid()
    begin = item * batch
    count = candidates_in(begin, batch, pairs)
    reach = EDGE_PART * sheet.largest
    look = edges_to_look_at(pairs, begin, count, sheet.edges, sheet.x, sheet.edge_moves, sheet.edge_moves, reach, near)
    if sheet.sewn != 0:
        for k in range(count):
            if edges_sewn(sheet, pairs[begin + k]):
                near[begin + k] = NEVER
                look &= ~bit(k)
    contacts = wp.uint64(0)
    number = int(0)
    while look != wp.uint64(0):
        k = lowest_bit(look)
        look &= look - wp.uint64(1)
        distance, contact = edge_contact(sheet, pairs[begin + k])
        near[begin + k] = distance
        if contact:
            contacts |= bit(k)
            number += 1
    chosen[item] = contacts
    counts[item] = number


@wp.func
def edge_contact(sheet: Sheet, pair: wp.vec2i):
    """The distance of two edges, and whether they are a contact."""
    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    a = sheet.x[e[0]]
    b = sheet.x[e[1]]
    c = sheet.x[f[0]]
    d = sheet.x[f[1]]
    w = edge_weights(a, b, c, d)
    r = combine(w, a, b, c, d)
    distance = wp.length(r)
    # an end of an edge that is nearest makes a vertex-triangle pair
    if w[0] < BORDER or w[1] < BORDER or w[2] > -BORDER or w[3] > -BORDER:
        return distance, False
    n = pair_direction(r, wp.cross(b - a, d - c))
    gap = wp.dot(n, combine(w, sheet.end[e[0]], sheet.end[e[1]], sheet.end[f[0]], sheet.end[f[1]]))
    closest = wp.min(distance, gap)
    if closest >= EDGE_PART * sheet.largest:
        return distance, False
    q = wp.vec4i(e[0], e[1], f[0], f[1])
    thickness = pair_thickness(q, w, f[0], sheet.thickness, sheet.vertex_body, sheet.rest)
    if closest >= EDGE_PART * (thickness + sheet.reach):
        return distance, False
    if closest < sheet.scale * CLOSE or nearest_of_edges(sheet, pair, n):
        return distance, True
    return distance, False


@wp.kernel
def fill_vertex_triangle(
    first: int,
    batch: int,
    parts: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """Write the stencils of the chosen candidates; a batch has so many threads."""
    item = (first + wp.tid()) // parts
    left, before = part_of_mask(chosen[item], (first + wp.tid()) % parts, parts)
    place = places[item] + before
    while left != wp.uint64(0):
        i = item * batch + lowest_bit(left)
        left &= left - wp.uint64(1)
        f = sheet.faces[pairs[i][1]]
        q = wp.vec4i(pairs[i][0], f[0], f[1], f[2])
        p = sheet.x[q[0]]
        a = sheet.x[q[1]]
        b = sheet.x[q[2]]
        c = sheet.x[q[3]]
        w = triangle_weights(p, a, b, c)
        r = combine(w, p, a, b, c)
        k = base + place
        place += 1
        vertices[k] = q
        weights[k] = w
        n = pair_direction(r, wp.cross(b - a, c - a))
        normals[k] = n
        gaps[k] = wp.length(r)
        kept = pair_thickness(q, w, q[1], sheet.thickness, sheet.vertex_body, sheet.rest)
        if not nearest_on_surface(sheet, pairs[i][1], w, n):
            kept = wp.min(kept, sheet.scale * CLOSE)
        thickness[k] = kept


@wp.kernel
def fill_edge_edge(
    first: int,
    batch: int,
    parts: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """Write the stencils of the chosen candidates; a batch has so many threads."""
    item = (first + wp.tid()) // parts
    left, before = part_of_mask(chosen[item], (first + wp.tid()) % parts, parts)
    place = places[item] + before
    while left != wp.uint64(0):
        i = item * batch + lowest_bit(left)
        left &= left - wp.uint64(1)
        e = sheet.edges[pairs[i][0]]
        f = sheet.edges[pairs[i][1]]
        q = wp.vec4i(e[0], e[1], f[0], f[1])
        a = sheet.x[q[0]]
        b = sheet.x[q[1]]
        c = sheet.x[q[2]]
        d = sheet.x[q[3]]
        w = edge_weights(a, b, c, d)
        r = combine(w, a, b, c, d)
        k = base + place
        place += 1
        vertices[k] = q
        weights[k] = w
        n = pair_direction(r, wp.cross(b - a, d - c))
        normals[k] = n
        gaps[k] = wp.length(r)
        kept = EDGE_PART * pair_thickness(q, w, q[2], sheet.thickness, sheet.vertex_body, sheet.rest)
        if not nearest_of_edges(sheet, pairs[i], n):
            kept = wp.min(kept, sheet.scale * CLOSE)
        thickness[k] = kept

"""From candidates to contacts, as kernels: most pairs whose boxes overlap are rejected from few numbers.

Balls around features and around their ways over the step bound how near two can come; then follow tests without roots
and divisions; only what passes is looked at in full (`predictive_pairs`). Lists are made by count, scan and fill.
"""

# mypy: disable-error-code="arg-type, assignment"

import warp as wp

from weft.response.nearest import nearest_on_edges, nearest_on_triangle
from weft.response.predictive_pairs import (
    ALIGNED,
    EDGE_EDGE,
    FIRST,
    HASTE,
    NONE,
    POINT_TRIANGLE,
    SHARP,
    Sheet,
    face_normal,
    is_straight,
    make_edge_edge,
    make_pair,
    make_point_point,
    make_point_triangle,
)

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# the square of `ALIGNED`, a little less: what is rejected early would be rejected later
FLAT = wp.constant(wp.float64(0.249))
# candidates an item: what an item costs before it looks at one is worth several of them
CHUNK = 32


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
    change: wp.vec3d,
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
    if vertex_cloth[e[0]] == vertex_cloth[f[0]]:
        between = r + HALF * (u - v)
        if is_straight(pair, between, between + change, rest_middles):
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
                a = first_ways[pair[0]]
                b = second_ways[pair[1]]
                # of the way between the middles of the edges
                change = wp.vec3d(a[0] - b[0], a[1] - b[1], a[2] - b[2])
                if not edges_are_far(
                    pair, sheet.edges, sheet.marks, sheet.x, sheet.vertex_cloth, sheet.rest_middles, change, near,
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

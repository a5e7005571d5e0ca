"""From candidates to contacts, as kernels: what passes the sieve is looked at in full; count, scan, fill."""

# mypy: disable-error-code="arg-type, assignment, empty-body"

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.methods.predictive.pairs import (
    ALIGNED,
    DISPLACEMENT_RATIO,
    EDGE_EDGE,
    FIRST,
    POINT_POINT,
    POINT_TRIANGLE,
    SECOND,
    SHARP,
    STRAIGHT,
    Sheet,
    make_edge_edge,
    make_pair,
    make_point_point,
    make_point_triangle,
)
from weft.methods.predictive.simd_cull_gpu import edges_to_look_at, triangles_to_look_at
from weft.runtime.reduction import block_sum, block_sum_vector

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# candidates an item, each a bit
CHUNK = wp.constant(32)


@wp.func
def row(v: wp.vec3d, last: wp.float64) -> wp.vec4d:
    return wp.vec4d(v[0], v[1], v[2], last)


@wp.kernel
def enclose_vertices(
    first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], places: wp.array[wp.vec4d], ways: wp.array[wp.vec4d]
):
    """Place and way of each vertex."""
    i = first + wp.tid()
    places[i] = row(x[i], ZERO)
    ways[i] = row(end[i] - x[i], ZERO)


@wp.kernel
def enclose_edges(
    first: int,
    x: wp.array[wp.vec3d],
    edges: wp.array[wp.vec2i],
    edge_faces: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    first_edge: wp.array[int],
    marks: wp.array[int],
    vertex_ways: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
):
    """A ball around the ways of the ends of each edge, and what kind of edge it is."""
    i = first + wp.tid()
    e = edges[i]
    mark = int(0)
    if first_edge[e[0]] == i:
        mark = FIRST
    if first_edge[e[1]] == i:
        mark += SECOND
    wings = edge_faces[i]
    if wings[1] < 0 or fold(wings, faces, x) < ALIGNED:
        mark += SHARP
    marks[i] = mark
    apart = HALF * (vertex_ways[e[0]] - vertex_ways[e[1]])
    mean = HALF * (vertex_ways[e[0]] + vertex_ways[e[1]])
    mean[3] = wp.length(apart)
    ways[i] = mean


@wp.func_native(
    """
    const auto normal_of = [&](wp::vec_t<3, int> f) {
        return wp::cross(x.data[f[1]] - x.data[f[0]], x.data[f[2]] - x.data[f[0]]);
    };
    const auto n = normal_of(faces.data[wings[0]]), m = normal_of(faces.data[wings[1]]);
    const double both = wp::dot(n, n) * wp::dot(m, m);
    return both > 0.0 ? wp::dot(n, m) / sqrt(both) : 0.0;
    """
)
def fold(wings: wp.vec2i, faces: wp.array[wp.vec3i], x: wp.array[wp.vec3d]) -> wp.float64:
    """Cosine of the angle between two triangles; 0 if one has no area."""
    ...


@wp.kernel
def enclose_faces(first: int, faces: wp.array[wp.vec3i], vertex_ways: wp.array[wp.vec4d], ways: wp.array[wp.vec4d]):
    """A ball around the ways of the corners of each triangle."""
    i = first + wp.tid()
    f = faces[i]
    a = vertex_ways[f[0]]
    b = vertex_ways[f[1]]
    c = vertex_ways[f[2]]
    mean = (a + b + c) / wp.float64(3.0)
    mean[3] = wp.sqrt(wp.max(wp.length_sq(a - mean), wp.max(wp.length_sq(b - mean), wp.length_sq(c - mean))))
    ways[i] = mean


@wp.func
def choose_some(
    kind: int,
    begin: int,
    size: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    reach: wp.float64,
    places: wp.array[wp.vec4d],
    first_ways: wp.array[wp.vec4d],
    second_ways: wp.array[wp.vec4d],
) -> wp.uint32:
    """Which of at most 32 candidates make a contact: a bit each."""
    look = wp.uint32(0)
    if kind == POINT_TRIANGLE:
        look = triangles_to_look_at(begin, size, reach, pairs, sheet.faces, places, first_ways, second_ways)
    elif kind == EDGE_EDGE:
        look = edges_to_look_at(
            begin, size, reach, DISPLACEMENT_RATIO * reach, STRAIGHT * STRAIGHT, pairs, sheet.edges, sheet.marks,
            sheet.rest_rows, places, first_ways,
        )  # fmt: skip
    if kind == POINT_POINT:
        # they were chosen already
        look = wp.uint32((wp.uint64(1) << wp.uint64(size)) - wp.uint64(1))
    found = wp.uint32(0)
    left = wp.uint64(look)
    while left != wp.uint64(0):
        k = lowest_bit(left)
        left = left & (left - wp.uint64(1))
        made = ONE
        if kind == POINT_TRIANGLE:
            made = make_point_triangle(pairs[begin + k], sheet)[0]
        elif kind == EDGE_EDGE:
            made = make_edge_edge(pairs[begin + k], sheet)[0]
        if made != ZERO:
            found = found | (wp.uint32(1) << wp.uint32(k))
    return found


@wp.func
def count_bits(mask: wp.uint32) -> int:
    """How many are set."""
    number = int(0)
    left = mask
    while left != wp.uint32(0):
        left = left & (left - wp.uint32(1))
        number += 1
    return number


@wp.kernel
def choose_pairs(
    first: int,
    kind: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    reach: wp.float64,
    places: wp.array[wp.vec4d],
    first_ways: wp.array[wp.vec4d],
    second_ways: wp.array[wp.vec4d],
    chosen: wp.array[wp.uint32],
    counts: wp.array[int],
):
    """Which candidates make a contact: a chunk of them an item, a bit each."""
    chunk = first + wp.tid()
    begin = chunk * CHUNK
    size = wp.min(count - begin, CHUNK)
    found = choose_some(kind, begin, size, pairs, sheet, reach, places, first_ways, second_ways)
    chosen[chunk] = found
    counts[chunk] = count_bits(found)


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
            if made[0] != ZERO:
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


@wp.func
def corners_of(kind: int, pair: wp.vec2i, sheet: Sheet) -> wp.vec4i:
    """The vertices of a candidate."""
    corners = wp.vec4i(pair[0], pair[0], pair[1], pair[1])
    if kind == POINT_TRIANGLE:
        f = sheet.faces[pair[1]]
        corners = wp.vec4i(pair[0], f[0], f[1], f[2])
    elif kind == EDGE_EDGE:
        e = sheet.edges[pair[0]]
        f2 = sheet.edges[pair[1]]
        corners = wp.vec4i(e[0], e[1], f2[0], f2[1])
    return corners


@wp.kernel
def list_pairs(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[wp.uint32],
    places: wp.array[int],
    base: int,
    listed: wp.array[wp.vec3i],
    vertices: wp.array[wp.vec4i],
):
    """The chosen candidates of each chunk, one after another, with their vertices."""
    chunk = first + wp.tid()
    place = base + places[chunk]
    left = wp.uint64(chosen[chunk])
    while left != wp.uint64(0):
        pair = pairs[chunk * CHUNK + lowest_bit(left)]
        left = left & (left - wp.uint64(1))
        listed[place] = wp.vec3i(pair[0], pair[1], kind)
        vertices[place] = corners_of(kind, pair, sheet)
        place += 1


@wp.kernel
def find_places(first: int, order: wp.array[int], places: wp.array[int]):
    """Where each item stands in an order."""
    i = first + wp.tid()
    places[order[i]] = i


@wp.kernel
def remove_rigid_rotation(
    first: int,
    count: int,
    threads: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    straight: wp.array[wp.vec3d],
    relative_displacement: wp.array[wp.float64],
):
    """Where vertices would end if all of them together did not turn, and how far they go besides: one item, or a block.

    The turn is that of a rigid body with the same angular momentum; what has no extent does not turn.
    """
    begin = first + wp.tid()
    part = wp.float64(1.0) / wp.float64(count)
    centre = wp.vec3d()
    drift = wp.vec3d()
    for i in range(begin, count, threads):
        centre += part * x[i]
        drift += part * (end[i] - x[i])
    centre = block_sum_vector(centre)
    drift = block_sum_vector(drift)
    moment = wp.vec3d()
    squares = wp.vec3d()
    products = wp.vec3d()
    for i in range(begin, count, threads):
        arm = x[i] - centre
        moment += wp.cross(arm, end[i] - x[i] - drift)
        squares += wp.cw_mul(arm, arm)
        products += wp.vec3d(arm[1] * arm[2], arm[2] * arm[0], arm[0] * arm[1])
    moment = block_sum_vector(moment)
    squares = block_sum_vector(squares)
    products = block_sum_vector(products)
    size = squares[0] + squares[1] + squares[2]
    inertia = wp.mat33d(
        size - squares[0], -products[2], -products[1],
        -products[2], size - squares[1], -products[0],
        -products[1], -products[0], size - squares[2],
    )  # fmt: skip
    turn = wp.vec3d()
    if wp.determinant(inertia) > wp.float64(8e-12) * size * size * size:
        turn = wp.inverse(inertia) * moment
    way = ZERO
    for i in range(begin, count, threads):
        straight[i] = end[i] - wp.cross(turn, x[i] - centre)
        way += wp.length(straight[i] - x[i] - drift)
    way = block_sum(way)
    if begin == 0:
        relative_displacement[0] = part * way


@wp.func
def write_contact_of(
    i: int,
    pair: wp.vec3i,
    q: wp.vec4i,
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
    """The contact of a candidate and its vertices."""
    made = make_pair(pair[2], wp.vec2i(pair[0], pair[1]), sheet)
    vertices[i] = q
    kinds[i] = int(made[1])
    weights[i] = wp.vec4d(made[2], made[3], made[4], made[5])
    normals[i] = wp.vec3d(made[6], made[7], made[8])
    thickness[i] = made[9]
    triangles[i] = wp.where(pair[2] == POINT_TRIANGLE, pair[1], -1)
    # corners 0 and 3 are on different sides in all kinds of stencils
    a = sheet.vertex_cloth[q[0]]
    b = sheet.vertex_cloth[q[3]]
    friction[i] = wp.vec2d(sticking[a, b], sliding[a, b])


@wp.kernel
def write_contacts(
    first: int,
    ordered: int,
    places: wp.array[int],
    listed: wp.array[wp.vec3i],
    corners: wp.array[wp.vec4i],
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
    """The contacts, each to its place in the order in which they are solved, where that is not the order of the list."""
    item = first + wp.tid()
    i = int(item)
    if ordered != 0:
        i = places[item]
    write_contact_of(
        i, listed[item], corners[item], sheet, sticking, sliding, vertices, kinds, weights, normals, thickness, friction,
        triangles,
    )  # fmt: skip

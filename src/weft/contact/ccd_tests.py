# mypy: disable-error-code="arg-type, return-value"
"""Collisions of a step: candidates that would meet on the way to where the velocities lead, and where they do.

A pair counts as colliding when it comes within a small distance of its own: a tenth of a millimetre, or less where the
pair starts nearer than that, so that a pair which is already close is not stuck for ever. What is done about it
aims for more, so that gaps grow back.
"""

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact.batches import MOST, bit, candidates_in, rank
from weft.contact.contact_tests import Sheet, combine, edge_weights, pair_direction, triangle_weights
from weft.contact.displacement_bounds import relative_way
from weft.geometry.ccd_kernels import ccd_edge_edge, ccd_point_triangle

wp.set_module_options({"enable_backward": False})

# a pair of cloth of 1 mm may come this near, in m; of finer cloth nearer in proportion (`sheet.scale`)
LARGEST_LEAST_DISTANCE = 1e-4
NEAREST = wp.constant(wp.float64(LARGEST_LEAST_DISTANCE))
# and at most this part of its distance at the start; the detector may see a hit a quarter farther away
PART = wp.constant(wp.float64(0.5))
# a test notes what is left of each pair's distance, and how far vertices end from where they ended in an earlier one, in
# units of so many m, and up to so many of them
UNIT = wp.constant(wp.float64(2e-5))
MOST_UNITS = wp.constant(wp.int32(127))
# more than rounding can do to a separation, in m
ROUNDING = wp.constant(wp.float64(1e-9))
# pairs that are nearer than this touch, in m
MET = wp.constant(wp.float64(1e-12))
# what a response aims for, in units of the least distance: with the part above more than the pair has, or gaps would
# shrink a little in every step until nothing is left of them
AIM = wp.constant(wp.float64(2.4))


@wp.func
def units_left(left: wp.float64) -> wp.int8:
    """What is left of a distance at least; -1 for nothing."""
    return wp.int8(wp.int32(wp.clamp(wp.floor(left / UNIT), wp.float64(-1.0), wp.float64(MOST_UNITS))))


@wp.func
def units_turned(way: wp.float64) -> wp.int32:
    """A way at most, and more than is ever left where it is long."""
    return wp.int32(wp.min(wp.ceil(way / UNIT), wp.float64(MOST_UNITS)))


@wp.func
def lower(n: wp.vec3d, start: wp.vec3d, end: wp.vec3d) -> wp.float64:
    """How far a difference reaches along a direction at least while it goes from one to the other."""
    return wp.min(wp.dot(n, start), wp.dot(n, end))


@wp.func
def least_distance(distance: wp.float64, scale: wp.float64) -> wp.float64:
    """How near a pair may come that is this far apart at the start of the step."""
    return wp.min(scale * NEAREST, PART * distance)


@wp.func
def may_meet(distance: wp.float64, way: wp.float64, scale: wp.float64) -> bool:
    """Whether a pair that is so far apart may meet if one goes so far relative to the other.

    What touches when the step begins has met, whatever it does: to look at it would only hold up the others.
    """
    return distance > scale * MET and distance <= least_distance(distance, scale) + way


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    constexpr int most = 1, lanes = 1;
#else
    constexpr int most = {MOST}, lanes = 8;
#endif
    wp::uint64 test = 0;
    if (again) {{
        // what has turned by less than was left cannot meet
        for (int k = 0; k < count; ++k) {{
            const auto pair = pairs.data[begin + k];
            const bool turn = left.data[begin + k] <= turned.data[pair[0]] + turned_too.data[pair[1]];
            test |= (wp::uint64)turn << k;
        }}
        return test;
    }}
    double ux[most], uy[most], uz[most], way[most], apart[most];
    signed char units[most];
    const int whole = (count + lanes - 1) / lanes * lanes;
#if defined(__clang__)
    #pragma clang loop vectorize(disable)
#endif
    for (int k = 0; k < whole; ++k) {{
        const int i = begin + (k < count ? k : count - 1);
        const auto pair = pairs.data[i];
        const auto &u = moves.data[pair[0]], &v = moves_too.data[pair[1]];
        ux[k] = u[0] - v[0], uy[k] = u[1] - v[1], uz[k] = u[2] - v[2], way[k] = u[3] + v[3];
        apart[k] = near.data[i];
    }}
    for (int base = 0; base < whole; base += lanes) {{
        wp::uint64 bits = 0;
        for (int k = base; k < base + lanes; ++k) {{
            const double tolerance = {PART} * apart[k] < scale * {NEAREST} ? {PART} * apart[k] : scale * {NEAREST};
            const double rest = apart[k] - tolerance - way[k] - sqrt(ux[k] * ux[k] + uy[k] * uy[k] + uz[k] * uz[k]);
            double unit = floor(rest / {UNIT});
            unit = unit > {MOST_UNITS} ? {MOST_UNITS} : unit > -1.0 ? unit : -1.0;
            units[k] = (signed char)unit;
            bits |= (wp::uint64)!(rest > 0.0) << (k - base);
        }}
        test |= bits << base;
    }}
    for (int k = 0; k < count; ++k)
        left.data[begin + k] = units[k];
    return count < 64 ? test & (((wp::uint64)1 << count) - 1) : test;
    """
)
def pairs_to_test(  # type: ignore[empty-body]
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    moves: wp.array[wp.vec4d],
    moves_too: wp.array[wp.vec4d],
    near: wp.array[wp.float64],
    again: int,
    turned: wp.array[int],
    turned_too: wp.array[int],
    left: wp.array[wp.int8],
    scale: wp.float64,
) -> wp.uint64:
    """Which of some candidates, bit k for each, may meet for all that is known of them.

    The first time it is noted what is left of a pair's distance at least.
    """


@wp.kernel
def collide_vertex_triangle(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    again: int,
    turned: wp.array[int],
    turned_faces: wp.array[int],
    left: wp.array[wp.int8],
    time: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    counts: wp.array[int],
):
    """Whether and when each candidate meets; `sheet` holds the motion to be tested.

    The first time it is noted what is left of the pair's distance at least. Again, what has turned by less since cannot
    meet.
    """
    item = first + wp.tid()
    begin = item * batch
    count = candidates_in(begin, batch, pairs)
    test = pairs_to_test(
        pairs, begin, count, sheet.vertex_moves, sheet.face_moves, near, again, turned, turned_faces, left, sheet.scale
    )
    hits = wp.uint64(0)
    number = int(0)
    while test != wp.uint64(0):
        k = lowest_bit(test)
        i = begin + k
        test &= test - wp.uint64(1)
        pair = pairs[i]
        if may_meet(near[i], relative_way(sheet.vertex_moves[pair[0]], sheet.face_moves[pair[1]]), sheet.scale):
            apart, met, when = test_triangle(sheet, pair, least_distance(near[i], sheet.scale))
            if again == 0 and apart > wp.float64(0.0):
                left[i] = units_left(apart)
            if met:
                hits |= bit(k)
                number += 1
                time[i] = when
    chosen[item] = hits
    counts[item] = number


@wp.func
def test_triangle(sheet: Sheet, pair: wp.vec2i, tolerance: wp.float64):
    """How far a vertex and a triangle stay apart along the direction at the start, or whether and when they meet."""
    f = sheet.faces[pair[1]]
    p0 = sheet.x[pair[0]]
    a0 = sheet.x[f[0]]
    b0 = sheet.x[f[1]]
    c0 = sheet.x[f[2]]
    p1 = sheet.end[pair[0]]
    a1 = sheet.end[f[0]]
    b1 = sheet.end[f[1]]
    c1 = sheet.end[f[2]]
    # apart along the direction in which they are nearest at the start, at both ends and so in between
    n = wp.normalize(combine(triangle_weights(p0, a0, b0, c0), p0, a0, b0, c0))
    sides = wp.vec3d(lower(n, p0 - a0, p1 - a1), lower(n, p0 - b0, p1 - b1), lower(n, p0 - c0, p1 - c1))
    apart = wp.min(sides) - tolerance - ROUNDING
    met = bool(False)
    when = wp.float64(0.0)
    if not apart > wp.float64(0.0):
        met, when = ccd_point_triangle(p0, a0, b0, c0, p1, a1, b1, c1, tolerance)
    return apart, met, when


@wp.kernel
def collide_edge_edge(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    again: int,
    turned: wp.array[int],
    turned_too: wp.array[int],
    left: wp.array[wp.int8],
    time: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    counts: wp.array[int],
):
    """The same for pairs of edges; both arrays of what turned are that of the edges."""
    item = first + wp.tid()
    begin = item * batch
    count = candidates_in(begin, batch, pairs)
    test = pairs_to_test(
        pairs, begin, count, sheet.edge_moves, sheet.edge_moves, near, again, turned, turned_too, left, sheet.scale
    )
    hits = wp.uint64(0)
    number = int(0)
    while test != wp.uint64(0):
        k = lowest_bit(test)
        i = begin + k
        test &= test - wp.uint64(1)
        pair = pairs[i]
        if may_meet(near[i], relative_way(sheet.edge_moves[pair[0]], sheet.edge_moves[pair[1]]), sheet.scale):
            apart, met, when = test_edges(sheet, pair, least_distance(near[i], sheet.scale))
            if again == 0 and apart > wp.float64(0.0):
                left[i] = units_left(apart)
            if met:
                hits |= bit(k)
                number += 1
                time[i] = when
    chosen[item] = hits
    counts[item] = number


@wp.func
def test_edges(sheet: Sheet, pair: wp.vec2i, tolerance: wp.float64):
    """The same for two edges."""
    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    a0 = sheet.x[e[0]]
    b0 = sheet.x[e[1]]
    c0 = sheet.x[f[0]]
    d0 = sheet.x[f[1]]
    a1 = sheet.end[e[0]]
    b1 = sheet.end[e[1]]
    c1 = sheet.end[f[0]]
    d1 = sheet.end[f[1]]
    n = wp.normalize(combine(edge_weights(a0, b0, c0, d0), a0, b0, c0, d0))
    one = wp.min(lower(n, a0 - c0, a1 - c1), lower(n, a0 - d0, a1 - d1))
    other = wp.min(lower(n, b0 - c0, b1 - c1), lower(n, b0 - d0, b1 - d1))
    apart = wp.min(one, other) - tolerance - ROUNDING
    met = bool(False)
    when = wp.float64(0.0)
    if not apart > wp.float64(0.0):
        met, when = ccd_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, tolerance)
    return apart, met, when


@wp.func
def between(a: wp.vec3d, b: wp.vec3d, time: wp.float64) -> wp.vec3d:
    """Where a vertex is at a time between 0 and 1."""
    return a + time * (b - a)


@wp.kernel
def fill_triangle_hits(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    order: wp.array[int],
    time: wp.array[wp.float64],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """Write the stencils of the collisions as they are at the moment of impact.

    The gap is measured at the start of the step along that normal; the thickness is the gap to aim for at the end.
    """
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        i = item * batch + lowest_bit(left)
        left &= left - wp.uint64(1)
        f = sheet.faces[pairs[i][1]]
        q = wp.vec4i(pairs[i][0], f[0], f[1], f[2])
        p0 = sheet.x[q[0]]
        a0 = sheet.x[q[1]]
        b0 = sheet.x[q[2]]
        c0 = sheet.x[q[3]]
        p = between(p0, sheet.end[q[0]], time[i])
        a = between(a0, sheet.end[q[1]], time[i])
        b = between(b0, sheet.end[q[2]], time[i])
        c = between(c0, sheet.end[q[3]], time[i])
        w = triangle_weights(p, a, b, c)
        # where they touch the direction at the start tells the sides apart
        start = combine(triangle_weights(p0, a0, b0, c0), p0, a0, b0, c0)
        n = pair_direction(combine(w, p, a, b, c), pair_direction(start, wp.cross(b0 - a0, c0 - a0)))
        k = base + rank(order, place)
        place += 1
        vertices[k] = q
        weights[k] = w
        normals[k] = n
        gaps[k] = wp.dot(n, combine(w, p0, a0, b0, c0))
        thickness[k] = AIM * least_distance(near[i], sheet.scale)


@wp.kernel
def fill_edge_hits(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    near: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    order: wp.array[int],
    time: wp.array[wp.float64],
    base: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
):
    """The same for pairs of edges."""
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        i = item * batch + lowest_bit(left)
        left &= left - wp.uint64(1)
        e = sheet.edges[pairs[i][0]]
        f = sheet.edges[pairs[i][1]]
        q = wp.vec4i(e[0], e[1], f[0], f[1])
        a0 = sheet.x[q[0]]
        b0 = sheet.x[q[1]]
        c0 = sheet.x[q[2]]
        d0 = sheet.x[q[3]]
        a = between(a0, sheet.end[q[0]], time[i])
        b = between(b0, sheet.end[q[1]], time[i])
        c = between(c0, sheet.end[q[2]], time[i])
        d = between(d0, sheet.end[q[3]], time[i])
        w = edge_weights(a, b, c, d)
        start = combine(edge_weights(a0, b0, c0, d0), a0, b0, c0, d0)
        n = pair_direction(combine(w, a, b, c, d), pair_direction(start, wp.cross(b0 - a0, d0 - c0)))
        k = base + rank(order, place)
        place += 1
        vertices[k] = q
        weights[k] = w
        normals[k] = n
        gaps[k] = wp.dot(n, combine(w, a0, b0, c0, d0))
        thickness[k] = AIM * least_distance(near[i], sheet.scale)

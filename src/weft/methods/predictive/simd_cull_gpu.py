"""Most pairs whose boxes overlap make no contact, which is seen from few numbers: only the others are looked at in full.

Four pairs are tested at once on a CPU, without branches; a register holds a number of each. A thread of a GPU has one.
What the tests reject, `predictive_pairs` would reject too.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX

wp.set_module_options({"enable_backward": False})

# a lane is a pair; AT is lane k
_LANES = (
    PACKED_VERTEX
    + """
#if defined(__CUDACC__)
    const int width = 1;
    typedef double lanes;
    typedef long long marks4;
    #define AT(value, k) value
    #define LANES(r, x, y, z) const lanes x = r[0][0], y = r[0][1], z = r[0][2];
#else
    const int width = 4;
    typedef row4 lanes;
    typedef long long marks4 __attribute__((vector_size(32), aligned(8)));
    #define AT(value, k) value[k]
    #define LANES(r, x, y, z) ACROSS(r[0], r[1], r[2], r[3], x, y, z)
#endif
    const row4* rows = (const row4*)places.data;
    unsigned int look = 0;
    for (int base = 0; base < count; base += width) {
    """
)
# the largest way of two features against each other is that of the means and both radii
_WAY = """
            c[k] = first_way - second_way;
            AT(radii, k) = first_way[3] + second_way[3];
        }
        LANES(u, ux, uy, uz)
        LANES(v, vx, vy, vz)
        LANES(r, rx, ry, rz)
        LANES(c, cx, cy, cz)
    """
_DONE = """
        #pragma unroll
        for (int k = 0; k < width; ++k)
            look |= (AT(looked, k) ? 1u : 0u) << (base + k);
    }
    #undef AT
    #undef LANES
    return count < 32 ? look & ((1u << count) - 1u) : look;
    """


@wp.func_native(
    _LANES
    + """
        row4 u[width], v[width], r[width], c[width];
        lanes radii, near;
        #pragma unroll
        for (int k = 0; k < width; ++k) {
            const wp::vec_t<2, int> pair = pairs.data[begin + (base + k < count ? base + k : count - 1)];
            const wp::vec_t<3, int> f = faces.data[pair[1]];
            const row4 a = rows[f[0]];
            u[k] = rows[f[1]] - a;
            v[k] = rows[f[2]] - a;
            r[k] = rows[pair[0]] - a;
            const row4 first_way = ((const row4*)vertex_ways.data)[pair[0]];
            const row4 second_way = ((const row4*)face_ways.data)[pair[1]];
    """
    + _WAY
    + """
        const lanes squared = cx * cx + cy * cy + cz * cz;
        #pragma unroll
        for (int k = 0; k < width; ++k)
            AT(near, k) = sqrt(AT(squared, k));
        near = near + radii;
        near = near + reach;
        const lanes mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
        const lanes area = mx * mx + my * my + mz * mz;
        const lanes height = mx * rx + my * ry + mz * rz;
        const lanes h = height * height, most = near * near * area;
        // barycentric coordinates of the foot, times the area, and squares of the edges that they count from
        const lanes wb = (ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz;
        const lanes wc = (uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz;
        const lanes wa = area - wb - wc;
        const lanes ea = (vx - ux) * (vx - ux) + (vy - uy) * (vy - uy) + (vz - uz) * (vz - uz);
        const lanes eb = vx * vx + vy * vy + vz * vz, ec = ux * ux + uy * uy + uz * uz;
        // beyond an edge: farther away than near, or at more than 60 degrees from the normal
        const auto past_a = (wa < 0.0) & ((wa * wa > 3.01 * h * ea) | (wa * wa + h * ea > most * ea));
        const auto past_b = (wb < 0.0) & ((wb * wb > 3.01 * h * eb) | (wb * wb + h * eb > most * eb));
        const auto past_c = (wc < 0.0) & ((wc * wc > 3.01 * h * ec) | (wc * wc + h * ec > most * ec));
        const auto looked = ((h > most) | past_a | past_b | past_c) == 0;
    """
    + _DONE
)
def triangles_to_look_at(
    begin: int,
    count: int,
    reach: wp.float64,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    places: wp.array[wp.vec4d],
    vertex_ways: wp.array[wp.vec4d],
    face_ways: wp.array[wp.vec4d],
) -> wp.uint32:
    """Of at most 32 pairs of a vertex and a triangle from `begin` on, those that may make a contact: bit k for the k-th."""
    ...


@wp.func_native(
    _LANES
    + """
        row4 u[width], v[width], r[width], c[width];
        lanes radii, near, least;
        marks4 m0, m1;
        #pragma unroll
        for (int k = 0; k < width; ++k) {
            const wp::vec_t<2, int> pair = pairs.data[begin + (base + k < count ? base + k : count - 1)];
            const wp::vec_t<2, int> e = edges.data[pair[0]], f = edges.data[pair[1]];
            u[k] = rows[e[1]] - rows[e[0]];
            v[k] = rows[f[1]] - rows[f[0]];
            r[k] = rows[e[0]] - rows[f[0]];
            const row4 first_way = ((const row4*)ways.data)[pair[0]];
            const row4 second_way = ((const row4*)ways.data)[pair[1]];
            const row4 rest = ((const row4*)rest_middles.data)[pair[0]] - ((const row4*)rest_middles.data)[pair[1]];
            // the last number of a row is the cloth: what are two cloths is never straight
            AT(least, k) = rest[3] == 0.0 ? straight * (rest[0] * rest[0] + rest[1] * rest[1] + rest[2] * rest[2]) : 1e300;
            AT(m0, k) = marks.data[pair[0]];
            AT(m1, k) = marks.data[pair[1]];
    """
    + _WAY
    + """
        const lanes squared = cx * cx + cy * cy + cz * cz;
        #pragma unroll
        for (int k = 0; k < width; ++k)
            AT(near, k) = sqrt(AT(squared, k));
        near = near + radii;
        const auto hasty = near > relative_displacement;
        near = near + reach;
        const lanes uu = ux * ux + uy * uy + uz * uz, vv = vx * vx + vy * vy + vz * vz;
        const lanes uv = ux * vx + uy * vy + uz * vz;
        const lanes ur = ux * rx + uy * ry + uz * rz, vr = vx * rx + vy * ry + vz * rz;
        const lanes area = uu * vv - uv * uv;
        lanes s = uv * vr - ur * vv, t = uu * vr - uv * ur;
        // inside both edges: how far apart the lines are
        const auto inside = (s > 0.0) & (s < area) & (t > 0.0) & (t < area);
        const lanes volume =
            rx * (uy * vz - uz * vy) + ry * (uz * vx - ux * vz) + rz * (ux * vy - uy * vx);
        const auto meets = volume * volume <= near * near * area;
        // where the middles are and stay as far apart as at rest, the cloth between them is straight
        const lanes bx = rx + 0.5 * (ux - vx), by = ry + 0.5 * (uy - vy), bz = rz + 0.5 * (uz - vz);
        const auto bent = (bx * bx + by * by + bz * bz < least)
            | ((bx + cx) * (bx + cx) + (by + cy) * (by + cy) + (bz + cz) * (bz + cz) < least);
        // an end of one and the inside of the other: only the first edge of that end, at a sharp fold or in fast motion
        const auto some = (((m0 & 3) != 0) & (hasty | ((m1 & 4) != 0))) | (((m1 & 3) != 0) & (hasty | ((m0 & 4) != 0)));
        const auto odd = (uu == 0.0) | (vv == 0.0);
        const auto maybe = (inside & meets) | ((inside == 0) & bent & some) | odd;
        bool any = false;
        #pragma unroll
        for (int k = 0; k < width; ++k)
            any = any || AT(maybe, k);
        if (!any)
            continue;
        // the nearest points
        const lanes none = 0.0 * near, whole = none + 1.0;
        const auto unit = [&](lanes w) { return w < none ? none : (w > whole ? whole : w); };
        s = unit(area > 1e-14 * uu * vv ? s / area : none);
        t = (uv * s + vr) / vv;
        s = t < none ? unit(-ur / uu) : (t > whole ? unit((uv - ur) / uu) : s);
        t = unit(t);
        const lanes dx = rx + s * ux - t * vx, dy = ry + s * uy - t * vy, dz = rz + s * uz - t * vz;
        const auto close = dx * dx + dy * dy + dz * dz <= near * near;
        const auto in_e = (s > 1e-6) & (s < 1.0 - 1e-6), in_f = (t > 1e-6) & (t < 1.0 - 1e-6);
        const auto first_e = ((s < 0.5) & ((m0 & 1) != 0)) | ((s >= 0.5) & ((m0 & 2) != 0));
        const auto first_f = ((t < 0.5) & ((m1 & 1) != 0)) | ((t >= 0.5) & ((m1 & 2) != 0));
        const auto end_e = (in_e == 0) & in_f & first_e & (hasty | ((m1 & 4) != 0));
        const auto end_f = in_e & (in_f == 0) & first_f & (hasty | ((m0 & 4) != 0));
        const auto ends = (end_e | end_f | (in_e & in_f)) & bent & close;
        const auto looked = (inside & meets) | ((inside == 0) & ends) | odd;
    """
    + _DONE
)
def edges_to_look_at(
    begin: int,
    count: int,
    reach: wp.float64,
    relative_displacement: wp.float64,
    straight: wp.float64,
    pairs: wp.array[wp.vec2i],
    edges: wp.array[wp.vec2i],
    marks: wp.array[int],
    rest_middles: wp.array[wp.vec4d],
    places: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
) -> wp.uint32:
    """Of at most 32 pairs of edges from `begin` on, those that may make a contact: bit k for the k-th."""
    ...

"""Most features whose boxes overlap make no contact, which is seen from few numbers: only the others are looked at in full.

One feature is tested against eight others at once, without branches; a register holds a number of each of the eight. So
the numbers of all edges, and of all triangles, lie in planes: first all x of all first corners, and so on, in the order
of the patches. What the tests reject, `predictive_pairs` would reject too. For the CPU alone: a thread of a GPU has no such
registers.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX

wp.set_module_options({"enable_backward": False})

# numbers of a triangle: first corner, both sides from it, mean way and how far its corners stray from that
FACE_PLANES = 13
# and of an edge: first end, the way to the other, likewise, and half of what its ends' ways differ
EDGE_PLANES = 13
# planes are padded by so many items, so that reading eight or sixteen at the end is harmless
PADDING = 16

# what both kinds of features share: eight numbers in a register, and boxes of which sixteen are compared at once
_LANES = (
    PACKED_VERTEX
    + """
#if !defined(__CUDACC__)
    typedef double lanes __attribute__((vector_size(64), aligned(8)));
    typedef long long marks8 __attribute__((vector_size(64), aligned(8)));
    typedef int ints8 __attribute__((vector_size(32), aligned(4)));
    typedef float singles8 __attribute__((vector_size(32), aligned(4)));
    typedef bool bits8 __attribute__((ext_vector_type(8)));
    typedef float boxes16 __attribute__((vector_size(64), aligned(4)));
    typedef int ints16 __attribute__((vector_size(64), aligned(4)));
    typedef bool bits16 __attribute__((ext_vector_type(16)));
    const auto bits_of = [](marks8 which) {
        return (unsigned int)__builtin_bit_cast(unsigned char, __builtin_convertvector(which, bits8));
    };
    const auto bits_of_sixteen = [](ints16 which) {
        return (unsigned int)__builtin_bit_cast(unsigned short, __builtin_convertvector(which, bits16));
    };
    const auto sixteen = [](const float* p, size_t stride, int k) { return *(const boxes16*)(p + k * stride); };
    // which of sixteen boxes overlap the one that has these numbers
    const auto overlaps = [&](const float* p, size_t stride, const float* box) {
        return (sixteen(p, stride, 0) <= -box[3]) & (sixteen(p, stride, 1) <= -box[4])
            & (sixteen(p, stride, 2) <= -box[5]) & (sixteen(p, stride, 3) <= -box[0])
            & (sixteen(p, stride, 4) <= -box[1]) & (sixteen(p, stride, 5) <= -box[2]);
    };
    // which of sixteen middles are, stay and were at rest so far apart that the cloth between is straight
    const size_t beside = middles.strides[0] / sizeof(float);
    const auto is_straight = [&](const float* p, const float* own) {
        const auto apart = [&](int k) {
            const boxes16 x = sixteen(p, beside, k) - own[k], y = sixteen(p, beside, k + 1) - own[k + 1];
            const boxes16 z = sixteen(p, beside, k + 2) - own[k + 2];
            return x * x + y * y + z * z;
        };
        const boxes16 least = 0.9044f * apart(6) + slack.data[0];
        return (apart(0) >= least) & (apart(3) >= least);
    };
    const auto one_sheet = [&](int other) {
        return cloth.data[own] == cloth.data[other]
            && above.data[body.data[own] * (int)(above.strides[0] / sizeof(int)) + body.data[other]] == 0;
    };
    // a root of half the digits, and a little more than it is
    const auto root = [](lanes squared) {
        const singles8 half = __builtin_elementwise_sqrt(__builtin_convertvector(squared, singles8));
        return 1.000001 * __builtin_convertvector(half, lanes) + 1e-18;
    };
    const size_t stride = planes.strides[0] / sizeof(double), next = boxes.strides[0] / sizeof(float);
    const size_t row_next = row_boxes.strides[0] / sizeof(float);
    const int* row = rows.data + place;
    wp::vec_t<2, int>* out = found.data + place_found;
    int n = 0;
    for (int i = first; i < last; ++i) {
    """
)
# go through the features of the patches that overlap feature i, which `box` holds
_EACH = """
        for (int r = 0; r < near_patches; r += 16) {
            unsigned int left = bits_of_sixteen(overlaps(row_boxes.data + place + r, row_next, box));
            left = near_patches - r < 16 ? left & ((1u << (near_patches - r)) - 1u) : left;
            for (; left; left &= left - 1) {
                const int other = row[r + __builtin_ctz(left)];
                const bool sheet = one_sheet(other);
                const int begin = starts.data[other] > least ? starts.data[other] : least, end = starts.data[other + 1];
                for (int group = begin; group < end; group += 16) {
    """
_EIGHT = """
                    if (end - group < 16)
                        hits &= (1u << (end - group)) - 1u;
                    if (hits && sheet)
                        hits &= ~bits_of_sixteen(is_straight(middles.data + group, middle));
                    if (!hits)
                        continue;
                    unsigned int look = 0;
                    for (int half = 0; half < 16; half += 8) {
                        if (!(hits >> half & 255u))
                            continue;
                        const double* numbers = planes.data + group + half;
                        const auto plane = [&](int k) { return *(const lanes*)(numbers + k * stride); };
    """
_DONE = """
                        look |= bits_of(looked) << half;
                    }
                    look &= hits;
                    if (n + 16 > room)
                        return -1;
                    for (; look; look &= look - 1)
                        out[n++] = wp::vec_t<2, int>(i, group + __builtin_ctz(look));
                }
            }
        }
    }
    return n;
#else
    return 0;
#endif
    """


@wp.func_native(
    _LANES
    + """
        const float* box = vertex_boxes.data + 8 * i;
        const row4 p = ((const row4*)places.data)[i], way = ((const row4*)ways.data)[i];
        float middle[9];
        for (int k = 0; k < 3; ++k) {
            middle[k] = (float)(p[k] - frame.data[0][k]);
            middle[3 + k] = (float)(p[k] - frame.data[0][k] + (way[k] - frame.data[1][k]));
            middle[6 + k] = rest_places.data[k * (rest_places.strides[0] / sizeof(float)) + i];
        }
        const int least = 0;
        const int* corner = corners.data;
        const size_t turn = corners.strides[0] / sizeof(int);
    """
    + _EACH
    + """
                    const auto has = [&](int k) { return *(const ints16*)(corner + k * turn + group) != i; };
                    unsigned int hits =
                        bits_of_sixteen(overlaps(boxes.data + group, next, box) & has(0) & has(1) & has(2));
    """
    + _EIGHT
    + """
                        const lanes rx = p[0] - plane(0), ry = p[1] - plane(1), rz = p[2] - plane(2);
                        const lanes ux = plane(3), uy = plane(4), uz = plane(5);
                        const lanes vx = plane(6), vy = plane(7), vz = plane(8);
                        const lanes cx = way[0] - plane(9), cy = way[1] - plane(10), cz = way[2] - plane(11);
                        // the largest way of both against each other is that of the means and the radius
                        const lanes near = root(cx * cx + cy * cy + cz * cz) + plane(12) + reach;
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
                        // right over it: how near it comes, by what of the way is along the normal
                        const auto over = (wa >= 0.0) & (wb >= 0.0) & (wc >= 0.0);
                        const lanes none = 0.0 * area, comes = mx * cx + my * cy + mz * cz;
                        const lanes down = height < none ? -comes : comes, high = height < none ? -height : height;
                        const auto apart = high + (down < none ? down : none) > (reach + plane(12)) * root(area);
                        const marks8 looked = ~((h > most) | past_a | past_b | past_c | (over & apart));
    """
    + _DONE
)
def find_faces(
    first: int,
    last: int,
    reach: wp.float64,
    own: int,
    cloth: wp.array[int],
    body: wp.array[int],
    above: wp.array2d[int],
    slack: wp.array[wp.float32],
    middles: wp.array2d[wp.float32],
    rest_places: wp.array2d[wp.float32],
    frame: wp.array[wp.vec3d],
    places: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
    vertex_boxes: wp.array2d[wp.float32],
    starts: wp.array[int],
    corners: wp.array2d[int],
    boxes: wp.array2d[wp.float32],
    planes: wp.array2d[wp.float64],
    near_patches: int,
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    place: int,
    room: int,
    found: wp.array[wp.vec2i],
    place_found: int,
) -> int:
    """Vertices from `first` to `last`, and triangles of the patches of a row that may make a contact with them, by rank.

    Gives their number, or -1 if there are more than there is room for.
    """
    ...


@wp.func_native(
    _LANES
    + """
        float box[6];
        for (int k = 0; k < 6; ++k)
            box[k] = boxes.data[k * next + i];
        float middle[9];
        for (int k = 0; k < 9; ++k)
            middle[k] = middles.data[k * beside + i];
        const double* one = planes.data + i;
        const size_t turn = rests.strides[0] / sizeof(double);
        const double ux = one[3 * stride], uy = one[4 * stride], uz = one[5 * stride];
        const double uu = ux * ux + uy * uy + uz * uz;
        const wp::vec_t<2, int> ends = edges.data[i];
        const int least = i + 1;
        const long long m0 = marks.data[i];
        const lanes none = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, whole = none + 1.0;
        const marks8 no = {0, 0, 0, 0, 0, 0, 0, 0}, yes = no - 1;
        const marks8 first0 = m0 & 1 ? yes : no, second0 = m0 & 2 ? yes : no, sharp0 = m0 & 4 ? yes : no;
    """
    + _EACH
    + """
                    unsigned int hits = bits_of_sixteen(overlaps(boxes.data + group, next, box));
    """
    + _EIGHT
    + """
                        const lanes rx = one[0] - plane(0), ry = one[stride] - plane(1), rz = one[2 * stride] - plane(2);
                        const lanes vx = plane(3), vy = plane(4), vz = plane(5);
                        const lanes cx = one[6 * stride] - plane(6), cy = one[7 * stride] - plane(7);
                        const lanes cz = one[8 * stride] - plane(8);
                        lanes near = root(cx * cx + cy * cy + cz * cz) + (plane(9) + one[9 * stride]);
                        const auto hasty = near > relative_displacement;
                        near = near + reach;
                        const lanes vv = vx * vx + vy * vy + vz * vz, uv = ux * vx + uy * vy + uz * vz;
                        const lanes ur = ux * rx + uy * ry + uz * rz, vr = vx * rx + vy * ry + vz * rz;
                        const lanes area = uu * vv - uv * uv;
                        lanes s = uv * vr - ur * vv, t = uu * vr - uv * ur;
                        // inside both edges: how far apart the lines are
                        const auto inside = (s > 0.0) & (s < area) & (t > 0.0) & (t < area);
                        const lanes volume =
                            rx * (uy * vz - uz * vy) + ry * (uz * vx - ux * vz) + rz * (ux * vy - uy * vx);
                        const auto meets = volume * volume <= near * near * area;
                        // where the middles are and stay as far apart as at rest, the cloth between them is straight
                        lanes usual = none + 1e300;
                        if (cloth.data[own] == cloth.data[other]) {
                            const double* rest = rests.data + group + half;
                            const lanes qx = rests.data[i] - *(const lanes*)rest;
                            const lanes qy = rests.data[turn + i] - *(const lanes*)(rest + turn);
                            const lanes qz = rests.data[2 * turn + i] - *(const lanes*)(rest + 2 * turn);
                            usual = straight * (qx * qx + qy * qy + qz * qz);
                        }
                        const lanes bx = rx + 0.5 * (ux - vx), by = ry + 0.5 * (uy - vy), bz = rz + 0.5 * (uz - vz);
                        const auto bent = (bx * bx + by * by + bz * bz < usual)
                            | ((bx + cx) * (bx + cx) + (by + cy) * (by + cy) + (bz + cz) * (bz + cz) < usual);
                        // an end of one and the inside of the other: only the first edge of that end, at a sharp fold or
                        // in relative_displacement
                        const marks8 m1 = __builtin_convertvector(*(const ints8*)(marks.data + group + half), marks8);
                        const marks8 sharp1 = (m1 & 4) != 0;
                        const auto some =
                            ((first0 | second0) & (hasty | sharp1)) | (((m1 & 3) != 0) & (hasty | sharp0));
                        const auto odd = (vv == 0.0) | (uu == 0.0 ? yes : no);
                        const marks8 maybe = (inside & meets) | (~inside & bent & some) | odd;
                        if (!(bits_of(maybe) & hits >> half))
                            continue;
                        // the nearest points
                        const auto unit = [&](lanes w) { return w < none ? none : (w > whole ? whole : w); };
                        s = unit(area > 1e-14 * uu * vv ? s / area : none);
                        t = (uv * s + vr) / vv;
                        s = t < none ? unit(-ur / uu) : (t > whole ? unit((uv - ur) / uu) : s);
                        t = unit(t);
                        const lanes dx = rx + s * ux - t * vx, dy = ry + s * uy - t * vy, dz = rz + s * uz - t * vz;
                        const auto close = dx * dx + dy * dy + dz * dz <= near * near;
                        const auto in_e = (s > 1e-6) & (s < 1.0 - 1e-6), in_f = (t > 1e-6) & (t < 1.0 - 1e-6);
                        const auto first_e = ((s < 0.5) & first0) | ((s >= 0.5) & second0);
                        const auto first_f = ((t < 0.5) & ((m1 & 1) != 0)) | ((t >= 0.5) & ((m1 & 2) != 0));
                        const auto end_e = ~in_e & in_f & first_e & (hasty | sharp1);
                        const auto end_f = in_e & ~in_f & first_f & (hasty | sharp0);
                        const auto partly = (end_e | end_f | (in_e & in_f)) & bent & close;
                        // how near the nearest points come, by what of their way is along the direction between them
                        const lanes es = 2.0 * s - 1.0, ft = 2.0 * t - 1.0;
                        const lanes along = dx * (cx + es * one[10 * stride] - ft * plane(10))
                            + dy * (cy + es * one[11 * stride] - ft * plane(11))
                            + dz * (cz + es * one[12 * stride] - ft * plane(12));
                        const lanes apart = dx * dx + dy * dy + dz * dz;
                        const auto comes = apart + (along < none ? along : none) <= reach * root(apart);
                        const marks8 looked = (((inside & meets) | (~inside & partly)) & comes) | odd;
    """
    + _DONE.replace(
        "out[n++] =",
        """{
                        const wp::vec_t<2, int> f = edges.data[group + __builtin_ctz(look)];
                        if (f[0] == ends[0] || f[0] == ends[1] || f[1] == ends[0] || f[1] == ends[1])
                            continue;
                        out[n++] =""",
    ).replace(
        "__builtin_ctz(look));\n                }", "__builtin_ctz(look));\n                    }\n                }"
    )
)
def find_edges(
    first: int,
    last: int,
    reach: wp.float64,
    relative_displacement: wp.float64,
    straight: wp.float64,
    own: int,
    cloth: wp.array[int],
    body: wp.array[int],
    above: wp.array2d[int],
    slack: wp.array[wp.float32],
    middles: wp.array2d[wp.float32],
    edges: wp.array[wp.vec2i],
    marks: wp.array[int],
    rests: wp.array2d[wp.float64],
    starts: wp.array[int],
    boxes: wp.array2d[wp.float32],
    planes: wp.array2d[wp.float64],
    near_patches: int,
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    place: int,
    room: int,
    found: wp.array[wp.vec2i],
    place_found: int,
) -> int:
    """As `find_faces` for the edges from `first` to `last` of patch `own` and later ones."""
    ...

// The contact search on the CPU. Features lie in the order of patches; numbers of features lie in planes (all x of all first
// corners, and so on), so that one feature is tested against eight others, or one box against sixteen, in vector registers.
// A box is six floats: lower corner and negated upper corner, so that the box of two boxes is their minimum.

// [find_frame] the frame of reference of all boxes: a mean position and displacement, as `weft.broad_phase.boxes` has it
const auto* x = surface.x.data;
const auto* end = surface.end.data;
const auto* ids = features.vertex_ids.data;
wp::vec_t<3, double> place(0.0, 0.0, 0.0), way(0.0, 0.0, 0.0);
const wp::int64 samples = $SAMPLES, count = features.vertex_ids.shape[0];
for (wp::int64 i = 0; i < samples; ++i) {
    wp::vec_t<3, double> some(0.0, 0.0, 0.0), ways(0.0, 0.0, 0.0);
    for (wp::int64 k = 0; k < samples; ++k) {
        const int vertex = ids[(i * samples + k) * count / (samples * samples)];
        some = some + x[vertex];
        ways = ways + (end[vertex] - x[vertex]);
    }
    place = place + some;
    way = way + ways;
}
features.frame.data[0] = place / (double)(samples * samples);
features.frame.data[1] = way * (1.0 / (double)(samples * samples));

// [store_vertex] position, displacement and box of the vertex of rank i; gives whether it is not finite or out of range
const wp::vec_t<3, double> a = surface.x.data[vertex], b = surface.end.data[vertex];
const row4 from = {a[0], a[1], a[2], 0.0}, to = {b[0], b[1], b[2], 0.0};
((row4*)features.places.data)[i] = from;
((row4*)features.ways.data)[i] = to - from;
float* numbers = features.vertex_boxes.data + 8 * i;
bool far = false;
for (int k = 0; k < 6; ++k) {
    numbers[k] = box[k];
    // a NaN is in no range
    far |= !(box[k] < farthest && box[k] > -farthest);
}
numbers[6] = numbers[7] = 0.0f;
return far;

// [measures] what edges and triangles share when they are measured
typedef float box8 __attribute__((vector_size(32), aligned(4)));
const box8* vertex_box = (const box8*)features.vertex_boxes.data;
const row4* place = (const row4*)features.places.data;
const row4* way = (const row4*)features.ways.data;
const wp::vec_t<3, double> origin = features.frame.data[0], drift = features.frame.data[1];
// a feature's middle at the start and at the end of the step, in the frame of the boxes
const auto store_middle = [&](wp::array_t<wp::float32>& middles, int i, row4 now, row4 way) {
    const size_t next = middles.strides[0] / sizeof(float);
    for (int k = 0; k < 3; ++k) {
        middles.data[k * next + i] = (float)(now[k] - origin[k]);
        middles.data[(3 + k) * next + i] = (float)(now[k] - origin[k] + (way[k] - drift[k]));
    }
};
const auto store_box = [](wp::array_t<wp::float32>& boxes, int i, box8 box) {
    for (int k = 0; k < 6; ++k)
        boxes.data[k * (boxes.strides[0] / sizeof(float)) + i] = box[k];
};
const auto smaller = [](box8 a, box8 b) { return a < b ? a : b; };
const auto squared = [](row4 a) { return a[0] * a[0] + a[1] * a[1] + a[2] * a[2]; };

// [measure_faces] box, numbers, middle, normal and squared area of triangles first..last-1
#if !defined(__CUDACC__)
// [include measures]
const size_t stride = features.face_planes.strides[0] / sizeof(double);
for (int i = first; i < last; ++i) {
    double* numbers = features.face_planes.data + i;
    const wp::vec_t<3, int> f = features.faces.data[i];
    store_box(features.face_boxes, i, smaller(smaller(vertex_box[f[0]], vertex_box[f[1]]), vertex_box[f[2]]));
    const row4 a = place[f[0]], u = place[f[1]] - a, v = place[f[2]] - a;
    const row4 w0 = way[f[0]], w1 = way[f[1]], w2 = way[f[2]], mean = (1.0 / 3.0) * (w0 + w1 + w2);
    store_middle(features.face_middles, i, a + (1.0 / 3.0) * (u + v), mean);
    const double d0 = squared(w0 - mean), d1 = squared(w1 - mean), d2 = squared(w2 - mean);
    for (int k = 0; k < 3; ++k) {
        numbers[k * stride] = a[k];
        numbers[(3 + k) * stride] = u[k];
        numbers[(6 + k) * stride] = v[k];
        numbers[(9 + k) * stride] = mean[k];
    }
    const double d01 = d0 > d1 ? d0 : d1;
    // a little more, for rounding
    numbers[12 * stride] = (1.0 + 1e-12) * sqrt(d01 > d2 ? d01 : d2);
    row4 m;
    m[0] = u[1] * v[2] - u[2] * v[1];
    m[1] = u[2] * v[0] - u[0] * v[2];
    m[2] = u[0] * v[1] - u[1] * v[0];
    m[3] = 0.0;
    m[3] = squared(m);
    ((row4*)features.normals.data)[i] = m;
}
#endif

// [measure_edges] box, numbers, middle and marks of edges first..last-1
#if !defined(__CUDACC__)
// [include measures]
const size_t stride = features.edge_planes.strides[0] / sizeof(double);
for (int i = first; i < last; ++i) {
    double* numbers = features.edge_planes.data + i;
    const wp::vec_t<2, int> e = features.edges.data[i];
    store_box(features.edge_boxes, i, smaller(vertex_box[e[0]], vertex_box[e[1]]));
    const row4 a = place[e[0]], u = place[e[1]] - a;
    const row4 w0 = way[e[0]], w1 = way[e[1]], mean = 0.5 * (w0 + w1);
    store_middle(features.edge_middles, i, a + 0.5 * u, mean);
    for (int k = 0; k < 3; ++k) {
        numbers[k * stride] = a[k];
        numbers[(3 + k) * stride] = u[k];
        numbers[(6 + k) * stride] = mean[k];
        numbers[(10 + k) * stride] = 0.5 * (w1[k] - w0[k]);
    }
    numbers[9 * stride] = (0.5 + 1e-12) * sqrt(squared(w0 - w1));
    const wp::vec_t<2, int> pair = features.wings.data[i];
    bool sharp = true;
    if (pair[1] >= 0) {
        const row4 n = ((const row4*)features.normals.data)[pair[0]], m = ((const row4*)features.normals.data)[pair[1]];
        const double dot = n[0] * m[0] + n[1] * m[1] + n[2] * m[2], both = n[3] * m[3];
        sharp = !(both > 0.0 && dot / sqrt(both) >= $ALIGNED);
    }
    const int mark = features.firsts.data[i] + (sharp ? $SHARP : 0);
    features.marks.data[i] = mark;
    surface.marks.data[features.edge_ids.data[i]] = mark;
}
#endif

// [overlapping_patches] the patches from `first` on whose boxes overlap the one with this limit and whose bodies collide with
// `own`, ascending, and their boxes, into the thread's list; gives their number, or -1 if there are more than there is room for
#if !defined(__CUDACC__)
// which of sixteen boxes from `begin` on overlap
const auto sixteen = [&](const wp::array_t<wp::float32>& planes, int begin) {
    const float* p = planes.data + begin;
    const size_t stride = planes.strides[0] / sizeof(float);
    unsigned int bits = 0;
    for (int k = 0; k < 16; ++k) {
        const unsigned int hit = (p[k] <= limit[0]) & (p[k + stride] <= limit[1]) & (p[k + 2 * stride] <= limit[2])
            & (p[k + 3 * stride] <= limit[3]) & (p[k + 4 * stride] <= limit[4]) & (p[k + 5 * stride] <= limit[5]);
        bits |= hit << k;
    }
    return bits;
};
const int patches = features.patches;
const size_t stride = work.boxes.strides[0] / sizeof(float), from = features.patch_boxes.strides[0] / sizeof(float);
const int* collides = features.table.data + own * (int)(features.table.strides[0] / sizeof(int));
int* row = work.overlapping.data + place;
int n = 0;
const int groups = (patches + 255) / 256;
for (int base = first / 256 / 16 * 16; base < groups; base += 16) {
    unsigned int near_groups = sixteen(features.group_boxes, base);
    for (; near_groups; near_groups &= near_groups - 1) {
        const int group = base + __builtin_ctz(near_groups);
        unsigned int near_blocks = sixteen(features.block_boxes, 16 * group);
        for (; near_blocks; near_blocks &= near_blocks - 1) {
            const int block = 16 * group + __builtin_ctz(near_blocks);
            unsigned int near = sixteen(features.patch_boxes, 16 * block);
            for (; near; near &= near - 1) {
                const int patch = 16 * block + __builtin_ctz(near);
                if (patch < first || patch >= patches || collides[features.body.data[patch]] == 0)
                    continue;
                if (n == work.overlap_room)
                    return -1;
                row[n] = patch;
                for (int k = 0; k < 6; ++k)
                    work.boxes.data[k * stride + place + n] = features.patch_boxes.data[k * from + patch];
                ++n;
            }
        }
    }
}
return n;
#else
return 0;
#endif

// [lanes] vector registers, and tests of sixteen features at a time; the caller defines `middles`
typedef double double8 __attribute__((vector_size(64), aligned(8)));
typedef long long mask8 __attribute__((vector_size(64), aligned(8)));
typedef int int8 __attribute__((vector_size(32), aligned(4)));
typedef float float8 __attribute__((vector_size(32), aligned(4)));
typedef bool bool8 __attribute__((ext_vector_type(8)));
typedef float float16 __attribute__((vector_size(64), aligned(4)));
typedef int int16 __attribute__((vector_size(64), aligned(4)));
typedef bool bool16 __attribute__((ext_vector_type(16)));
const auto bits_of = [](mask8 which) {
    return (unsigned int)__builtin_bit_cast(unsigned char, __builtin_convertvector(which, bool8));
};
const auto bits_of_sixteen = [](int16 which) {
    return (unsigned int)__builtin_bit_cast(unsigned short, __builtin_convertvector(which, bool16));
};
const auto sixteen = [](const float* p, size_t stride, int k) { return *(const float16*)(p + k * stride); };
// which of sixteen boxes overlap another
const auto overlaps = [&](const float* p, size_t stride, const float* box) {
    return (sixteen(p, stride, 0) <= -box[3]) & (sixteen(p, stride, 1) <= -box[4])
        & (sixteen(p, stride, 2) <= -box[5]) & (sixteen(p, stride, 3) <= -box[0])
        & (sixteen(p, stride, 4) <= -box[1]) & (sixteen(p, stride, 5) <= -box[2]);
};
// which of sixteen middles are, stay and were at rest so far apart from another that the cloth between is straight
const size_t middle_stride = middles.strides[0] / sizeof(float);
const auto is_straight = [&](const float* p, const float* own) {
    const auto apart = [&](int k) {
        const float16 x = sixteen(p, middle_stride, k) - own[k], y = sixteen(p, middle_stride, k + 1) - own[k + 1];
        const float16 z = sixteen(p, middle_stride, k + 2) - own[k + 2];
        return x * x + y * y + z * z;
    };
    const float16 least = (float)$STRAIGHT_SINGLE * apart(6) + features.slack.data[0];
    return (apart(0) >= least) & (apart(3) >= least);
};
// whether two patches are of one cloth, and none of them lies over the other
const auto one_sheet = [&](int other) {
    const int above = features.body.data[own] * (int)(surface.above.strides[0] / sizeof(int)) + features.body.data[other];
    return features.cloth.data[own] == features.cloth.data[other] && surface.above.data[above] == 0;
};
// a root with half the digits, and a little more than the root is
const auto root = [](double8 squared) {
    const float8 half = __builtin_elementwise_sqrt(__builtin_convertvector(squared, float8));
    return 1.000001 * __builtin_convertvector(half, double8) + 1e-18;
};
const size_t stride = planes.strides[0] / sizeof(double), next = boxes.strides[0] / sizeof(float);
const size_t row_next = work.boxes.strides[0] / sizeof(float);
const int* row = work.overlapping.data + place;
const int room = work.pair_room;
wp::vec_t<2, int>* out = work.pairs.data + place_pairs;
int n = 0;

// [near_patches_begin] go through the overlapping patches whose boxes overlap `box`, sixteen of their features at a time
for (int r = 0; r < near_patches; r += 16) {
    unsigned int left = bits_of_sixteen(overlaps(work.boxes.data + place + r, row_next, box));
    left = near_patches - r < 16 ? left & ((1u << (near_patches - r)) - 1u) : left;
    for (; left; left &= left - 1) {
        const int other = row[r + __builtin_ctz(left)];
        const bool sheet = one_sheet(other);
        const int begin = starts[other] > least ? starts[other] : least, end = starts[other + 1];
        for (int group = begin; group < end; group += 16) {

// [eight_begin] of the sixteen features that `hits` are left of, eight at a time
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
                const auto plane = [&](int k) { return *(const double8*)(numbers + k * stride); };

// [eight_end] note those that may make a contact
                look |= bits_of(looked) << half;
            }
            look &= hits;
            if (n + 16 > room)
                return -1;
            for (; look; look &= look - 1) {
                const int found = group + __builtin_ctz(look);
                if (shares_vertex(found))
                    continue;
                out[n++] = wp::vec_t<2, int>(i, found);
            }
        }
    }
}

// [find_faces] vertices first..last-1 and triangles of the overlapping patches that may make a contact with them, by rank
#if !defined(__CUDACC__)
const auto& middles = features.face_middles;
const auto& boxes = features.face_boxes;
const auto& planes = features.face_planes;
// [include lanes]
const int* starts = features.face_start.data;
const int* corner = features.corners.data;
const size_t corner_stride = features.corners.strides[0] / sizeof(int);
const size_t rest_stride = features.rest_places.strides[0] / sizeof(float);
const auto shares_vertex = [](int) { return false; };
const int least = 0;
for (int i = first; i < last; ++i) {
    const float* box = features.vertex_boxes.data + 8 * i;
    const row4 p = ((const row4*)features.places.data)[i], way = ((const row4*)features.ways.data)[i];
    float middle[9];
    for (int k = 0; k < 3; ++k) {
        middle[k] = (float)(p[k] - features.frame.data[0][k]);
        middle[3 + k] = (float)(p[k] - features.frame.data[0][k] + (way[k] - features.frame.data[1][k]));
        middle[6 + k] = features.rest_places.data[k * rest_stride + i];
    }
    // [include near_patches_begin]
            const auto differs = [&](int k) { return *(const int16*)(corner + k * corner_stride + group) != i; };
            unsigned int hits = bits_of_sixteen(
                overlaps(boxes.data + group, next, box) & differs(0) & differs(1) & differs(2));
            // [include eight_begin]
                const double8 rx = p[0] - plane(0), ry = p[1] - plane(1), rz = p[2] - plane(2);
                const double8 ux = plane(3), uy = plane(4), uz = plane(5);
                const double8 vx = plane(6), vy = plane(7), vz = plane(8);
                const double8 cx = way[0] - plane(9), cy = way[1] - plane(10), cz = way[2] - plane(11);
                // the largest displacement of both against each other is that of the means and the radius
                const double8 near = root(cx * cx + cy * cy + cz * cz) + plane(12) + reach;
                const double8 mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
                const double8 area = mx * mx + my * my + mz * mz;
                const double8 height = mx * rx + my * ry + mz * rz;
                const double8 h = height * height, most = near * near * area;
                // barycentric coordinates of the foot, times the area, and squares of the edges that they count from
                const double8 wb = (ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz;
                const double8 wc = (uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz;
                const double8 wa = area - wb - wc;
                const double8 ea = (vx - ux) * (vx - ux) + (vy - uy) * (vy - uy) + (vz - uz) * (vz - uz);
                const double8 eb = vx * vx + vy * vy + vz * vz, ec = ux * ux + uy * uy + uz * uz;
                // beyond an edge: farther away than near, or at more than 60 degrees from the normal
                const auto past_a = (wa < 0.0) & ((wa * wa > $STEEP * h * ea) | (wa * wa + h * ea > most * ea));
                const auto past_b = (wb < 0.0) & ((wb * wb > $STEEP * h * eb) | (wb * wb + h * eb > most * eb));
                const auto past_c = (wc < 0.0) & ((wc * wc > $STEEP * h * ec) | (wc * wc + h * ec > most * ec));
                // right over it: how near it comes, by the displacement along the normal
                const auto over = (wa >= 0.0) & (wb >= 0.0) & (wc >= 0.0);
                const double8 none = 0.0 * area, comes = mx * cx + my * cy + mz * cz;
                const double8 down = height < none ? -comes : comes, high = height < none ? -height : height;
                const auto apart = high + (down < none ? down : none) > (reach + plane(12)) * root(area);
                const mask8 looked = ~((h > most) | past_a | past_b | past_c | (over & apart));
    // [include eight_end]
}
return n;
#else
return 0;
#endif

// [find_edges] edges first..last-1 of patch `own` and later edges of the overlapping patches, likewise
#if !defined(__CUDACC__)
const auto& middles = features.edge_middles;
const auto& boxes = features.edge_boxes;
const auto& planes = features.edge_planes;
// [include lanes]
const int* starts = features.edge_start.data;
const size_t rest_stride = features.rests.strides[0] / sizeof(double);
for (int i = first; i < last; ++i) {
    float box[6];
    for (int k = 0; k < 6; ++k)
        box[k] = boxes.data[k * next + i];
    float middle[9];
    for (int k = 0; k < 9; ++k)
        middle[k] = middles.data[k * middle_stride + i];
    const double* one = planes.data + i;
    const double ux = one[3 * stride], uy = one[4 * stride], uz = one[5 * stride];
    const double uu = ux * ux + uy * uy + uz * uz;
    const wp::vec_t<2, int> ends = features.edges.data[i];
    const auto shares_vertex = [&](int found) {
        const wp::vec_t<2, int> f = features.edges.data[found];
        return f[0] == ends[0] || f[0] == ends[1] || f[1] == ends[0] || f[1] == ends[1];
    };
    const int least = i + 1;
    const long long m0 = features.marks.data[i];
    const double8 none = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}, whole = none + 1.0;
    const mask8 no = {0, 0, 0, 0, 0, 0, 0, 0}, yes = no - 1;
    const mask8 first0 = m0 & $FIRST ? yes : no, second0 = m0 & $SECOND ? yes : no, sharp0 = m0 & $SHARP ? yes : no;
    // [include near_patches_begin]
            unsigned int hits = bits_of_sixteen(overlaps(boxes.data + group, next, box));
            // [include eight_begin]
                const double8 rx = one[0] - plane(0), ry = one[stride] - plane(1), rz = one[2 * stride] - plane(2);
                const double8 vx = plane(3), vy = plane(4), vz = plane(5);
                const double8 cx = one[6 * stride] - plane(6), cy = one[7 * stride] - plane(7);
                const double8 cz = one[8 * stride] - plane(8);
                double8 near = root(cx * cx + cy * cy + cz * cz) + (plane(9) + one[9 * stride]);
                const auto fast = near > $DISPLACEMENT_RATIO * margin;
                near = near + reach;
                const double8 vv = vx * vx + vy * vy + vz * vz, uv = ux * vx + uy * vy + uz * vz;
                const double8 ur = ux * rx + uy * ry + uz * rz, vr = vx * rx + vy * ry + vz * rz;
                const double8 area = uu * vv - uv * uv;
                double8 s = uv * vr - ur * vv, t = uu * vr - uv * ur;
                // inside both edges: how far apart the lines are
                const auto inside = (s > 0.0) & (s < area) & (t > 0.0) & (t < area);
                const double8 volume = rx * (uy * vz - uz * vy) + ry * (uz * vx - ux * vz) + rz * (ux * vy - uy * vx);
                const auto meets = volume * volume <= near * near * area;
                // where the middles are and stay as far apart as at rest, the cloth between them is straight
                double8 usual = none + 1e300;
                if (features.cloth.data[own] == features.cloth.data[other]) {
                    const double* rest = features.rests.data + group + half;
                    const double8 qx = features.rests.data[i] - *(const double8*)rest;
                    const double8 qy = features.rests.data[rest_stride + i] - *(const double8*)(rest + rest_stride);
                    const double8 qz = features.rests.data[2 * rest_stride + i] - *(const double8*)(rest + 2 * rest_stride);
                    usual = ($STRAIGHT * $STRAIGHT) * (qx * qx + qy * qy + qz * qz);
                }
                const double8 bx = rx + 0.5 * (ux - vx), by = ry + 0.5 * (uy - vy), bz = rz + 0.5 * (uz - vz);
                const auto bent = (bx * bx + by * by + bz * bz < usual)
                    | ((bx + cx) * (bx + cx) + (by + cy) * (by + cy) + (bz + cz) * (bz + cz) < usual);
                // an end of one and the inside of the other: only the first edge of that end, at a sharp fold or in fast motion
                const mask8 m1 = __builtin_convertvector(*(const int8*)(features.marks.data + group + half), mask8);
                const mask8 sharp1 = (m1 & $SHARP) != 0;
                const auto some = ((first0 | second0) & (fast | sharp1))
                    | (((m1 & ($FIRST | $SECOND)) != 0) & (fast | sharp0));
                const auto odd = (vv == 0.0) | (uu == 0.0 ? yes : no);
                const mask8 maybe = (inside & meets) | (~inside & bent & some) | odd;
                if (!(bits_of(maybe) & hits >> half))
                    continue;
                // the nearest points
                const auto unit = [&](double8 w) { return w < none ? none : (w > whole ? whole : w); };
                s = unit(area > 1e-14 * uu * vv ? s / area : none);
                t = (uv * s + vr) / vv;
                s = t < none ? unit(-ur / uu) : (t > whole ? unit((uv - ur) / uu) : s);
                t = unit(t);
                const double8 dx = rx + s * ux - t * vx, dy = ry + s * uy - t * vy, dz = rz + s * uz - t * vz;
                const auto close = dx * dx + dy * dy + dz * dz <= near * near;
                const auto in_e = (s > $END) & (s < 1.0 - $END), in_f = (t > $END) & (t < 1.0 - $END);
                const auto first_e = ((s < 0.5) & first0) | ((s >= 0.5) & second0);
                const auto first_f = ((t < 0.5) & ((m1 & $FIRST) != 0)) | ((t >= 0.5) & ((m1 & $SECOND) != 0));
                const auto end_e = ~in_e & in_f & first_e & (fast | sharp1);
                const auto end_f = in_e & ~in_f & first_f & (fast | sharp0);
                const auto partly = (end_e | end_f | (in_e & in_f)) & bent & close;
                // how near the nearest points come, by their displacement along the direction between them
                const double8 es = 2.0 * s - 1.0, ft = 2.0 * t - 1.0;
                const double8 along = dx * (cx + es * one[10 * stride] - ft * plane(10))
                    + dy * (cy + es * one[11 * stride] - ft * plane(11))
                    + dz * (cz + es * one[12 * stride] - ft * plane(12));
                const double8 apart = dx * dx + dy * dy + dz * dz;
                const auto comes = apart + (along < none ? along : none) <= reach * root(apart);
                const mask8 looked = (((inside & meets) | (~inside & partly)) & comes) | odd;
    // [include eight_end]
}
return n;
#else
return 0;
#endif

// Bodies of the native functions of boxes.py and patch_pairs.py: which of some consecutive boxes overlap a box.
//
// Boxes are stored as planes: planes.data holds all lower x, then all lower y, lower z and the negated upper x, y, z. A box
// overlaps the one whose `overlap_limit` is `limit` if each of its six numbers is at most that of the limit.

// [planes] pointers to the planes of the first box, and the six numbers of the limit
const float* p = planes.data + begin;
const size_t stride = planes.strides[0] / sizeof(float);
const float x = limit[0], y = limit[1], z = limit[2], u = limit[3], v = limit[4], w = limit[5];
const auto overlaps = [&](int k) -> unsigned int {
    return (p[k] <= x) & (p[k + stride] <= y) & (p[k + 2 * stride] <= z)
        & (p[k + 3 * stride] <= u) & (p[k + 4 * stride] <= v) & (p[k + 5 * stride] <= w);
};

// [simd_mask] bit k of the result: box k overlaps, and `admits(k)`; 16 boxes at a time without branches, for vector instructions
wp::uint64 mask = 0;
for (int base = 0; base < count; base += 16) {
    unsigned int bits = 0;
    for (int k = 0; k < 16; ++k)
        bits |= (overlaps(base + k) & admits(base + k)) << k;
    mask |= (wp::uint64)bits << base;
}
// boxes behind the last one were read as well: planes are padded
return count < 64 ? mask & (((wp::uint64)1 << count) - 1) : mask;

// [lane_mask] the same by the $LANES neighbouring threads of a query: each tests every $LANES-th box, and all of them get the whole mask
// [include planes]
#if defined(__CUDA_ARCH__)
wp::uint64 mask = 0;
const int first_lane = threadIdx.x & 31 & ~($LANES - 1);
const unsigned int lanes = ((1u << $LANES) - 1) << first_lane;
for (int base = 0; base < count; base += $LANES) {
    const int k = base + (threadIdx.x & ($LANES - 1));
    const bool hit = k < count && overlaps(k) && admits(k);
    mask |= (wp::uint64)((__ballot_sync(lanes, hit) & lanes) >> first_lane) << base;
}
return mask;
#else
// [include simd_mask]
#endif

// [overlap_mask] which boxes overlap, found by one thread alone
// [include planes]
#if defined(__CUDA_ARCH__)
wp::uint64 mask = 0;
for (int k = 0; k < count; ++k)
    if (overlaps(k))
        mask |= (wp::uint64)1 << k;
return mask;
#else
const auto admits = [](int) -> unsigned int { return 1; };
// [include simd_mask]
#endif

// [overlap_mask_by_lanes] which boxes overlap, found by all threads of a query together
const auto admits = [](int) -> unsigned int { return 1; };
// [include lane_mask]

// [faces_apart] which boxes of triangles overlap, without the triangles that have the vertex a
const int* corner = corners.data + begin;
const size_t next = corners.strides[0] / sizeof(int);
const auto admits = [&](int k) -> unsigned int {
    return (corner[k] != a) & (corner[k + next] != a) & (corner[k + 2 * next] != a);
};
// [include lane_mask]

// [triangles_apart] which boxes of triangles overlap, without the triangles that have a vertex of `face`, unless these are wanted too
const int* corner = corners.data + begin;
const size_t next = corners.strides[0] / sizeof(int);
const int a = face[0], b = face[1], c = face[2];
const auto has = [&](int k, int v) -> unsigned int {
    return (corner[k] == v) | (corner[k + next] == v) | (corner[k + 2 * next] == v);
};
const unsigned int always = neighbours != 0;
const auto admits = [&](int k) -> unsigned int { return always | !(has(k, a) | has(k, b) | has(k, c)); };
// [include lane_mask]

// [edges_apart] which boxes of edges overlap, without the edges that have the vertex a or b
const int* end = ends.data + begin;
const size_t next = ends.strides[0] / sizeof(int);
const auto admits = [&](int k) -> unsigned int {
    return (end[k] != a) & (end[k] != b) & (end[k + next] != a) & (end[k + next] != b);
};
// [include lane_mask]

// [query_of_thread] on CUDA $LANES neighbouring threads share a query
#if defined(__CUDA_ARCH__)
return thread / $LANES;
#else
return thread;
#endif

// [is_first_lane] the one of a query's threads that writes what only one may write
#if defined(__CUDA_ARCH__)
return thread % $LANES == 0;
#else
return true;
#endif

// [lowest_bit]
#if defined(__CUDA_ARCH__)
return __ffsll((long long)mask) - 1;
#else
return __builtin_ctzll(mask);
#endif

// [append_pairs] write the pairs (id, ids[begin + k]) for the bits k of the mask behind the n pairs of a query
const auto pair_with = [&](int partner) {
    const bool swap = (order == $PARTNER_FIRST) | ((order == $SMALLER_FIRST) & (partner < id));
    return wp::vec_t<2, int>(swap ? partner : id, swap ? id : partner);
};
#if defined(__CUDA_ARCH__)
// each of the query's threads writes its own bits
for (int k = threadIdx.x & ($LANES - 1); k < 64 && mask >> k; k += $LANES) {
    const int place = n + __popcll(mask & (((wp::uint64)1 << k) - 1));
    if ((mask >> k & 1) && place < room)
        found.data[start + place] = pair_with(ids.data[begin + k]);
}
return n + __popcll(mask);
#else
const int more = __builtin_popcountll(mask);
const int* partner = ids.data + begin;
wp::vec_t<2, int>* out = found.data + start + n;
if (n + more + 4 <= room) {
    // four at a time, whether there are four or not: cheaper than finding out
    while (mask) {
        for (int k = 0; k < 4; ++k) {
            out[k] = pair_with(partner[__builtin_ctzll(mask | (wp::uint64)1 << 63)]);
            mask &= mask - 1;
        }
        out += 4;
    }
    return n + more;
}
for (int k = n; mask && k < room; ++k) {
    *out++ = pair_with(partner[__builtin_ctzll(mask)]);
    mask &= mask - 1;
}
return n + more;
#endif

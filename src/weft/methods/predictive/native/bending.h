// Rest shapes of hinges that are not flat; packed vertices are `row4` (dynamics/native/packed_vertices.h).

// [find_lacks] rest times the mean normal of the triangles abc and bad of each hinge (see `bend_memory.mean_normal`), less its jump
// where the matrix does not have that; four hinges side by side, of which those beyond the end are found twice
#if !defined(__CUDA_ARCH__)
struct vectors {
    row4 x, y, z;
};
const auto minus = [](const vectors& a, const vectors& b) { return vectors{a.x - b.x, a.y - b.y, a.z - b.z}; };
const auto plus = [](const vectors& a, const vectors& b) { return vectors{a.x + b.x, a.y + b.y, a.z + b.z}; };
const auto times = [](const row4& a, const vectors& b) { return vectors{a * b.x, a * b.y, a * b.z}; };
const auto dot = [](const vectors& a, const vectors& b) { return a.x * b.x + a.y * b.y + a.z * b.z; };
const auto cross = [](const vectors& a, const vectors& b) {
    return vectors{a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x};
};
// the unit normal of a triangle with these edges, 0 where it has no area but for rounding
const auto normal_of = [&](const vectors& a, const vectors& b) {
    const vectors n = cross(a, b);
    const row4 squared = dot(n, n);
    return times(squared > 1e-24 * dot(a, a) * dot(b, b) ? 1.0 / __builtin_elementwise_sqrt(squared) : row4{}, n);
};
const row4* rows = (const row4*)b.ahead.data;
const row4* weights = (const row4*)b.weights.data;
const bool without_matrix = b.matrix.begins.shape[0] == 0;
for (int begin = first; begin < last; begin += 4) {
    int hinge[4];
    vectors corner[4];
    for (int k = 0; k < 4; ++k)
        hinge[k] = begin + k < last ? begin + k : last - 1;
    for (int c = 0; c < 4; ++c) {
        ACROSS(
            rows[b.quads.data[hinge[0]][c]], rows[b.quads.data[hinge[1]][c]], rows[b.quads.data[hinge[2]][c]],
            rows[b.quads.data[hinge[3]][c]], x, y, z)
        corner[c] = {x, y, z};
    }
    const vectors along = minus(corner[1], corner[0]), left = minus(corner[2], corner[0]);
    const vectors right = minus(corner[3], corner[0]);
    vectors n = plus(normal_of(along, left), normal_of(right, along));
    row4 length = __builtin_elementwise_sqrt(dot(n, n));
    ACROSS(weights[hinge[0]], weights[hinge[1]], weights[hinge[2]], weights[hinge[3]], w0, w1, w2)
    const vectors r = plus(plus(times(w1, along), times(w2, left)), times(-(w0 + w1 + w2), right));
    if (!__builtin_reduce_and(length > $SHARP_FOLD)) {
        // folded up: along the stencil, on the side of what normals there are
        const vectors m = times(dot(n, r) < 0.0 ? row4{} - 1.0 : row4{} + 1.0, r);
        const auto sharp = length <= $SHARP_FOLD;
        n = {sharp ? m.x : n.x, sharp ? m.y : n.y, sharp ? m.z : n.z};
        length = __builtin_elementwise_sqrt(dot(n, n));
    }
    const row4 rest = {b.rest.data[hinge[0]], b.rest.data[hinge[1]], b.rest.data[hinge[2]], b.rest.data[hinge[3]]};
    vectors found = times(rest * (length > 0.0 ? 1.0 / length : row4{}), n);
    if (without_matrix)
        found = minus(found, r);
    for (int k = 0; k < 4; ++k)
        ((row4*)b.lacks.data)[hinge[k]] = row4{found.x[k], found.y[k], found.z[k], 0.0};
}
#endif

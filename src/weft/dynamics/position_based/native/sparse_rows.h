// Passes over rows of sparse matrices on the CPU, $SIDE rows at a time; packed vertices are `row4` (packed_vertices.h).

// [sums] the sum of a row, and those of a slice, in the same order
constexpr int side = $SIDE;
const auto row_sum = [](const auto& matrix, const row4* x, const int i) {
    row4 sum = {};
    for (int e = matrix.begins.data[i]; e < matrix.ends.data[i]; e += matrix.step)
        sum = sum + matrix.values.data[e] * x[matrix.columns.data[e]];
    return sum;
};
const auto slice_sums = [](const auto& matrix, const row4* x, const int i, row4* sums) {
    const int end = i + side < matrix.begins.shape[0] ? matrix.begins.data[i + side] : matrix.values.shape[0];
    row4 sum[side] = {};
    for (int e = matrix.begins.data[i]; e < end; e += side)
        for (int k = 0; k < side; ++k)
            sum[k] = sum[k] + matrix.values.data[e + k] * x[matrix.columns.data[e + k]];
    for (int k = 0; k < side; ++k)
        sums[k] = sum[k];
};

// [start_rows]
#if !defined(__CUDA_ARCH__)
// [include sums]
const row4* ahead = (const row4*)p.data;
const bool flat = k.begins.shape[0] > 0, curved = rest_moments.begins.shape[0] > 0;
const auto end_row = [&](const int i, const row4& sum, const row4& moment) {
    row4 b = (dt * ahead[i][3]) * (moment - sum);
    b[3] = 0.0;
    ((row4*)right.data)[i] = b;
    ((row4*)direction.data)[i] = ((row4*)dv.data)[i] = factor * b;
};
const row4* stretch = (const row4*)rest_stretch.data;
for (int i = first; i < last;) {
    if (i % side == 0 && i + side <= last) {
        row4 sum[side] = {}, moment[side] = {};
        if (flat)
            slice_sums(k, ahead, i, sum);
        if (curved)
            slice_sums(rest_moments, stretch, i, moment);
        for (int j = 0; j < side; ++j)
            end_row(i + j, sum[j], moment[j]);
        i += side;
    } else {
        end_row(i, flat ? row_sum(k, ahead, i) : row4{}, curved ? row_sum(rest_moments, stretch, i) : row4{});
        ++i;
    }
}
#endif

// [iterate_rows]
#if !defined(__CUDA_ARCH__)
// [include sums]
const row4* now = (const row4*)dv.data;
const auto end_row = [&](const int i, const row4& sum) {
    const double w = ((const row4*)p.data)[i][3];
    if (!(w > 0.0))
        return;
    const row4 residual = ((const row4*)right.data)[i] - now[i] - (w * dt * (dt + delay.data[i])) * sum;
    const row4 way = momentum * ((const row4*)direction.data)[i] + factor * residual;
    ((row4*)direction.data)[i] = way;
    ((row4*)dv_next.data)[i] = now[i] + way;
};
for (int i = first; i < last;) {
    if (i % side == 0 && i + side <= last) {
        row4 sum[side];
        slice_sums(k, now, i, sum);
        for (int j = 0; j < side; ++j)
            end_row(i + j, sum[j]);
        i += side;
    } else {
        end_row(i, row_sum(k, now, i));
        ++i;
    }
}
#endif

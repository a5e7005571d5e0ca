// Which contacts of one colour need solving (see impulses.py).

// [batch_size] contacts that one call of `active_mask` looks at; a CUDA thread tests its one contact while it solves it
#if defined(__CUDA_ARCH__)
return 1;
#else
return $BATCH;
#endif

// [active_mask] bit k is set if contact begin + k must be solved: the relative position (or velocity) of its two sides along
// the normal is below the limit, or `$OR_IF` holds. Without a branch, so that the processor overlaps the contacts of the loop
#if defined(__CUDA_ARCH__)
return 1;
#else
wp::uint64 mask = 0;
#if defined(__clang__)
#pragma clang loop vectorize(disable)
#endif
for (int k = 0; k < count; ++k) {
    const int i = begin + k;
    const auto &q = vertices.data[i];
    const auto &w = weights.data[i];
    const auto &n = normals.data[i];
    const auto &a = values.data[q[0]], &b = values.data[q[1]], &c = values.data[q[2]], &d = values.data[q[3]];
    const double x = w[0] * a[0] + w[1] * b[0] + w[2] * c[0] + w[3] * d[0];
    const double y = w[0] * a[1] + w[1] * b[1] + w[2] * c[1] + w[3] * d[1];
    const double z = w[0] * a[2] + w[1] * b[2] + w[2] * c[2] + w[3] * d[2];
    const bool active = !(n[0] * x + n[1] * y + n[2] * z >= limits.data[i]) | ($OR_IF);
    mask |= (wp::uint64)active << k;
}
return mask;
#endif

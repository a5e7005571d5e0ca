// Tests that rule out most candidates (see contact_tests.py, ccd_tests.py, prefilter.py). A CPU thread handles a batch of up
// to 64 candidates: a scalar loop gathers their numbers into arrays, since vector loads from scattered places are slower, then a
// loop without branches computes with SIMD lanes. A CUDA thread handles one candidate.

// [count_bits] int count_bits(uint64 mask)
#if defined(__CUDA_ARCH__)
return __popcll(mask);
#else
return __builtin_popcountll(mask);
#endif

// [batch] candidates that a thread handles, SIMD lanes, and `count` rounded up to whole lanes: the last candidate is repeated
#if defined(__CUDA_ARCH__)
constexpr int most = 1, lanes = 1;
#else
constexpr int most = $BATCH, lanes = 8;
#endif
const int whole = (count + lanes - 1) / lanes * lanes;

// [gather_motion] relative displacement of candidate k: the centre and the radius of the ball that contains it
const auto &u = motion.data[pair[0]], &v = other_motion.data[pair[1]];
ux[k] = u[0] - v[0], uy[k] = u[1] - v[1], uz[k] = u[2] - v[2], radius[k] = u[3] + v[3];

// [vertex_triangle_distances] write the distances of a batch; bit k of the result: candidate k needs an exact test
// since it may come within `reach` during the motion, or its triangle is a needle
// [include batch]
double ax[most], ay[most], az[most], bx[most], by[most], bz[most], px[most], py[most], pz[most];
double ux[most], uy[most], uz[most], radius[most], distance[most];
#if defined(__clang__)
#pragma clang loop vectorize(disable)
#endif
for (int k = 0; k < whole; ++k) {
    const int i = begin + (k < count ? k : count - 1);
    const auto pair = pairs.data[i];
    const auto f = faces.data[pair[1]];
    const auto &p = x.data[pair[0]], &a = x.data[f[0]], &b = x.data[f[1]], &c = x.data[f[2]];
    ax[k] = b[0] - a[0], ay[k] = b[1] - a[1], az[k] = b[2] - a[2];
    bx[k] = c[0] - a[0], by[k] = c[1] - a[1], bz[k] = c[2] - a[2];
    px[k] = p[0] - a[0], py[k] = p[1] - a[1], pz[k] = p[2] - a[2];
    // [include gather_motion]
}
wp::uint64 result = 0;
for (int base = 0; base < whole; base += lanes) {
    wp::uint64 bits = 0;
    for (int k = base; k < base + lanes; ++k) {
        const double far = reach + radius[k] + sqrt(ux[k] * ux[k] + uy[k] * uy[k] + uz[k] * uz[k]);
        const double nx = ay[k] * bz[k] - az[k] * by[k], ny = az[k] * bx[k] - ax[k] * bz[k],
                     nz = ax[k] * by[k] - ay[k] * bx[k];
        const double area = nx * nx + ny * ny + nz * nz;
        const double aa = ax[k] * ax[k] + ay[k] * ay[k] + az[k] * az[k];
        const double bb = bx[k] * bx[k] + by[k] * by[k] + bz[k] * bz[k];
        const double pa = px[k] * ax[k] + py[k] * ay[k] + pz[k] * az[k];
        const double pb = px[k] * bx[k] + py[k] * by[k] + pz[k] * bz[k];
        const double pn = px[k] * nx + py[k] * ny + pz[k] * nz;
        // barycentric coordinates of the projection, times the squared area
        const double u = (py[k] * bz[k] - pz[k] * by[k]) * nx + (pz[k] * bx[k] - px[k] * bz[k]) * ny
            + (px[k] * by[k] - py[k] * bx[k]) * nz;
        const double v = (ay[k] * pz[k] - az[k] * py[k]) * nx + (az[k] * px[k] - ax[k] * pz[k]) * ny
            + (ax[k] * py[k] - ay[k] * px[k]) * nz;
        // squared distance to each of the three edges, the least of them
        double s = pa / aa;
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        double ex = px[k] - s * ax[k], ey = py[k] - s * ay[k], ez = pz[k] - s * az[k];
        double least = ex * ex + ey * ey + ez * ez;
        s = pb / bb;
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        ex = px[k] - s * bx[k], ey = py[k] - s * by[k], ez = pz[k] - s * bz[k];
        double other = ex * ex + ey * ey + ez * ez;
        least = other < least ? other : least;
        const double cx = bx[k] - ax[k], cy = by[k] - ay[k], cz = bz[k] - az[k];
        const double qx = px[k] - ax[k], qy = py[k] - ay[k], qz = pz[k] - az[k];
        s = (qx * cx + qy * cy + qz * cz) / (cx * cx + cy * cy + cz * cz);
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        ex = qx - s * cx, ey = qy - s * cy, ez = qz - s * cz;
        other = ex * ex + ey * ey + ez * ez;
        least = other < least ? other : least;
        const bool inside = (u >= 0.0) & (v >= 0.0) & (u + v <= area);
        const double d = sqrt(inside ? pn * pn / area : least);
        const bool sure = area > $DEGENERATE * aa * bb;
        const bool apart = d > far;
        distance[k] = d;
        bits |= (wp::uint64)!(sure & apart) << (k - base);
    }
    result |= bits << base;
}
for (int k = 0; k < count; ++k)
    distances.data[begin + k] = distance[k];
return count < 64 ? result & (((wp::uint64)1 << count) - 1) : result;

// [edge_edge_distances] the same for pairs of edges; nearly parallel ones need the exact test
// Only pairs count whose nearest points are inside both edges: a nearest end makes a pair of a vertex and a triangle
// [include batch]
double ax[most], ay[most], az[most], bx[most], by[most], bz[most], cx[most], cy[most], cz[most];
double ux[most], uy[most], uz[most], radius[most], distance[most];
#if defined(__clang__)
#pragma clang loop vectorize(disable)
#endif
for (int k = 0; k < whole; ++k) {
    const int i = begin + (k < count ? k : count - 1);
    const auto pair = pairs.data[i];
    const auto e = edges.data[pair[0]], f = edges.data[pair[1]];
    const auto &a = x.data[e[0]], &b = x.data[e[1]], &c = x.data[f[0]], &d = x.data[f[1]];
    ax[k] = b[0] - a[0], ay[k] = b[1] - a[1], az[k] = b[2] - a[2];
    bx[k] = d[0] - c[0], by[k] = d[1] - c[1], bz[k] = d[2] - c[2];
    cx[k] = c[0] - a[0], cy[k] = c[1] - a[1], cz[k] = c[2] - a[2];
    // [include gather_motion]
}
wp::uint64 result = 0;
for (int base = 0; base < whole; base += lanes) {
    wp::uint64 bits = 0;
    for (int k = base; k < base + lanes; ++k) {
        const double far = reach + radius[k] + sqrt(ux[k] * ux[k] + uy[k] * uy[k] + uz[k] * uz[k]);
        const double nx = ay[k] * bz[k] - az[k] * by[k], ny = az[k] * bx[k] - ax[k] * bz[k],
                     nz = ax[k] * by[k] - ay[k] * bx[k];
        const double area = nx * nx + ny * ny + nz * nz;
        const double aa = ax[k] * ax[k] + ay[k] * ay[k] + az[k] * az[k];
        const double bb = bx[k] * bx[k] + by[k] * by[k] + bz[k] * bz[k];
        const double ab = ax[k] * bx[k] + ay[k] * by[k] + az[k] * bz[k];
        const double ca = cx[k] * ax[k] + cy[k] * ay[k] + cz[k] * az[k];
        const double cb = cx[k] * bx[k] + cy[k] * by[k] + cz[k] * bz[k];
        const double over = (cy[k] * bz[k] - cz[k] * by[k]) * nx + (cz[k] * bx[k] - cx[k] * bz[k]) * ny
            + (cx[k] * by[k] - cy[k] * bx[k]) * nz;
        // the nearest place s on the first line, clamped to its edge; for that the nearest place t on the second edge; for
        // that the nearest s again, which changes only where t was clamped
        double s = over / area;
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        double t = (s * ab - cb) / bb;
        t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
        s = (ca + t * ab) / aa;
        s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
        const double rx = s * ax[k] - cx[k] - t * bx[k], ry = s * ay[k] - cy[k] - t * by[k],
                     rz = s * az[k] - cz[k] - t * bz[k];
        const double d = sqrt(rx * rx + ry * ry + rz * rz);
        const bool sure = area > $DEGENERATE * aa * bb;
        const bool apart = (d > far) | (s <= 0.0) | (s >= 1.0) | (t <= 0.0) | (t >= 1.0);
        distance[k] = d;
        bits |= (wp::uint64)!(sure & apart) << (k - base);
    }
    result |= bits << base;
}
for (int k = 0; k < count; ++k)
    distances.data[begin + k] = distance[k];
return count < 64 ? result & (((wp::uint64)1 << count) - 1) : result;

// [collision_mask] bit k of the result: candidate k may collide, since it is no farther apart at the start of the step than its
// relative displacement leads
// [include batch]
double ux[most], uy[most], uz[most], radius[most], apart[most];
#if defined(__clang__)
#pragma clang loop vectorize(disable)
#endif
for (int k = 0; k < whole; ++k) {
    const int i = begin + (k < count ? k : count - 1);
    const auto pair = pairs.data[i];
    // [include gather_motion]
    apart[k] = distances.data[i];
}
wp::uint64 result = 0;
for (int base = 0; base < whole; base += lanes) {
    wp::uint64 bits = 0;
    for (int k = base; k < base + lanes; ++k) {
        const double tolerance = $START_FRACTION * apart[k] < scale * $COLLISION_DISTANCE ? $START_FRACTION * apart[k]
                                                                                         : scale * $COLLISION_DISTANCE;
        const double rest = apart[k] - tolerance - radius[k] - sqrt(ux[k] * ux[k] + uy[k] * uy[k] + uz[k] * uz[k]);
        bits |= (wp::uint64)!(rest > 0.0) << (k - base);
    }
    result |= bits << base;
}
return count < 64 ? result & (((wp::uint64)1 << count) - 1) : result;

// [far_apart] given the least separation along the line m between the centres, times the length of m, as `low`:
// the separation if the pair stays out of reach, else 0
const auto &u = motion.data[pair[0]], &v = other_motion.data[pair[1]];
const double ux = u[0] - v[0], uy = u[1] - v[1], uz = u[2] - v[2];
double far = reach + u[3] + v[3] + sqrt(ux * ux + uy * uy + uz * uz);
far = far > $EXACT_BELOW ? far : $EXACT_BELOW;
const double length = sqrt(mx * mx + my * my + mz * mz);
return low > far * length ? low / length : 0.0;

// [vertex_triangle_far_apart] a lower bound of the distance of a vertex and a triangle; 0 if they may come within reach
const auto f = faces.data[pair[1]];
const auto &p = x.data[pair[0]], &a = x.data[f[0]], &b = x.data[f[1]], &c = x.data[f[2]];
const double third = 1.0 / 3.0;
const double mx = p[0] - third * (a[0] + b[0] + c[0]), my = p[1] - third * (a[1] + b[1] + c[1]);
const double mz = p[2] - third * (a[2] + b[2] + c[2]);
const double ma = mx * (p[0] - a[0]) + my * (p[1] - a[1]) + mz * (p[2] - a[2]);
const double mb = mx * (p[0] - b[0]) + my * (p[1] - b[1]) + mz * (p[2] - b[2]);
const double mc = mx * (p[0] - c[0]) + my * (p[1] - c[1]) + mz * (p[2] - c[2]);
double low = ma < mb ? ma : mb;
low = low < mc ? low : mc;
// [include far_apart]

// [edge_edge_far_apart] the same for two edges
const auto e = edges.data[pair[0]], f = edges.data[pair[1]];
const auto &a = x.data[e[0]], &b = x.data[e[1]], &c = x.data[f[0]], &d = x.data[f[1]];
const double mx = 0.5 * (a[0] + b[0] - c[0] - d[0]), my = 0.5 * (a[1] + b[1] - c[1] - d[1]);
const double mz = 0.5 * (a[2] + b[2] - c[2] - d[2]);
const double ma = mx * (b[0] - a[0]) + my * (b[1] - a[1]) + mz * (b[2] - a[2]);
const double mb = mx * (d[0] - c[0]) + my * (d[1] - c[1]) + mz * (d[2] - c[2]);
const double low = mx * mx + my * my + mz * mz - 0.5 * (fabs(ma) + fabs(mb));
// [include far_apart]

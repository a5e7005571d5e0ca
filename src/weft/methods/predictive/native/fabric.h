// Springs between two vertices and linear springs over four vertices (stitches) as XPBD constraints.
// `rows` are vertices (x, y, z, inverse mass) of the present, `was` those at the start of the substep.

// [stretch] one spring: vertices q[2], numbers s (rest length, compliance, delay); `continue` where there is nothing to do
const row4 a = rows[q[0]];
const row4 b = rows[q[1]];
row4 d = b - a;
const double mass = a[3] + b[3];
d[3] = 0.0;
const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
if (!(squared * mass > 0.0))
    continue;
const double alpha = s[1] * per_h * per_h;
const double gamma = s[2] * per_h > $LEAST_DELAY ? s[2] * per_h : 0.0;
#if defined(__CUDA_ARCH__)
// a root and a division that need not wait for each other
const double inverse = rsqrt(squared), share = 1.0 / ((1.0 + gamma) * mass + alpha);
double wanted = 1.0 - s[0] * inverse;
if (sweep > 0)
    wanted += alpha * pull.data[i] * inverse;
if (gamma > 0.0) {
    const row4 moved = d - was[q[1]] + was[q[0]];
    wanted += gamma * inverse * inverse * (d[0] * moved[0] + d[1] * moved[1] + d[2] * moved[2]);
}
const double step = wanted * share;
if (sweeps > 1)
    pull.data[i] = (sweep > 0 ? pull.data[i] : 0.0) - step * squared * inverse;
#else
const double length = sqrt(squared);
double wanted = length - s[0];
if (sweep > 0)
    wanted += alpha * pull.data[i];
// all times the length, which saves a division
wanted *= length;
if (gamma > 0.0) {
    const row4 moved = d - was[q[1]] + was[q[0]];
    wanted += gamma * (d[0] * moved[0] + d[1] * moved[1] + d[2] * moved[2]);
}
const double step = wanted / (((1.0 + gamma) * mass + alpha) * squared);
if (sweeps > 1)
    pull.data[i] = (sweep > 0 ? pull.data[i] : 0.0) - step * length;
#endif
rows[q[0]] = a + (a[3] * step) * d;
rows[q[1]] = b - (b[3] * step) * d;

// [sew] one stitch over the vertices q[4] with weights w, numbers s, and prepared displacements g of its corners
const row4 a = rows[q[0]];
const row4 b = rows[q[1]];
const row4 c = rows[q[2]];
const row4 d = rows[q[3]];
row4 wanted = w[0] * a + w[1] * b + w[2] * c + w[3] * d;
const double gamma = s[2] * per_h > $LEAST_DELAY ? s[2] * per_h : 0.0;
if (gamma > 0.0) {
    // damping resists the change of r over the substep
    const row4 then = w[0] * was[q[0]] + w[1] * was[q[1]] + w[2] * was[q[2]] + w[3] * was[q[3]];
    wanted = wanted + gamma * (wanted - then);
}
if (sweeps > 1) {
    // multipliers add up over the sweeps of a substep
    const double alpha = s[1] * per_h * per_h;
    const double mass = w[0] * w[0] * a[3] + w[1] * w[1] * b[3] + w[2] * w[2] * c[3] + w[3] * w[3] * d[3];
    if (!(mass > 0.0))
        continue;
    if (sweep > 0)
        wanted = wanted + alpha * pulls[i];
    const row4 step = (-1.0 / ((1.0 + gamma) * mass + alpha)) * wanted;
    pulls[i] = sweep > 0 ? pulls[i] + step : step;
}
wanted[3] = 0.0;
// a stitch names its last vertex more than once, with weight only the first time: that one is written last
rows[q[3]] = d + g[3] * wanted;
rows[q[2]] = c + g[2] * wanted;
rows[q[1]] = b + g[1] * wanted;
rows[q[0]] = a + g[0] * wanted;

// [stretch_pairs] springs first..last-1, no two of which share a vertex
row4* rows = (row4*)vertices.p.data;
const row4* was = (const row4*)vertices.before.data;
const auto& pull = fabric.pair_pull;
for (int i = first; i < last; ++i) {
    const wp::vec_t<2, int> q = fabric.pairs.data[i];
    const wp::vec_t<3, double> s = fabric.pair_springs.data[i];
    // [include stretch]
}

// [stretch_loaded] one spring whose numbers the thread has loaded already
row4* rows = (row4*)vertices.p.data;
const row4* was = (const row4*)vertices.before.data;
const auto& pull = fabric.pair_pull;
for (bool once = true; once; once = false) {
    // [include stretch]
}

// [stretch_shared] the same with vertices in the shared memory of a thread block, the first of which is vertex `begin`
#if defined(__CUDA_ARCH__)
const shared_rows rows{(double*)room - begin};
const shared_rows_before was{(const double*)room - begin};
const auto& pull = fabric.pair_pull;
for (bool once = true; once; once = false) {
    // [include stretch]
}
#endif

// [sew_stitches] stitches first..last-1, one after another
row4* rows = (row4*)vertices.p.data;
const row4* was = (const row4*)vertices.before.data;
row4* pulls = (row4*)fabric.stitch_pull.data;
for (int i = first; i < last; ++i) {
    const wp::vec_t<4, int> q = fabric.stitches.data[i];
    const wp::vec_t<3, double> s = fabric.stitch_springs.data[i];
    const row4 w = ((const row4*)fabric.stitch_weights.data)[i];
    const row4 g = ((const row4*)fabric.stitch_moves.data)[i];
    // [include sew]
}

// [sew_loaded] one of them whose numbers the thread has loaded already
row4* rows = (row4*)vertices.p.data;
const row4* was = (const row4*)vertices.before.data;
row4* pulls = (row4*)fabric.stitch_pull.data;
for (bool once = true; once; once = false) {
    // [include sew]
}

// [sew_shared] the same with vertices in the shared memory of a thread block
#if defined(__CUDA_ARCH__)
const shared_rows rows{(double*)room - begin};
const shared_rows_before was{(const double*)room - begin};
row4* pulls = (row4*)fabric.stitch_pull.data;
for (bool once = true; once; once = false) {
    // [include sew]
}
#endif

// [largest_stretch] the largest (length - rest) / rest of springs first..last-1
double most = 0.0;
for (int i = first; i < last; ++i) {
    const wp::vec_t<2, int> q = pairs.data[i];
    const wp::vec_t<3, double> a = x.data[q[0]], b = x.data[q[1]];
    const double u = b[0] - a[0], v = b[1] - a[1], w = b[2] - a[2], rest = springs.data[i][0];
    const double squared = u * u + v * v + w * w;
    // compared without a division
    most = squared > most * rest * rest ? squared / (rest * rest) : most;
}
return sqrt(most) - 1.0;

// Lines of springs, each a tridiagonal system: on the CPU $SIMD_BATCHES batches of $BATCH slots side by side in SIMD lanes, on
// CUDA one batch a warp, a thread a slot. See spring_lines.py for the equations.

// [slots_at_once]
#if defined(__CUDA_ARCH__)
return 1;
#else
return $SLOTS;
#endif

// [continues]
#if defined(__CUDA_ARCH__)
const int last = __shfl_up_sync(0xffffffffu, ends[1], 1);
return (threadIdx.x & 31) > 0 && ends[0] >= 0 && last == ends[0];
#else
return false;
#endif

// [load_ends] the vertices a and b of a thread's spring; a spring that continues the one of the thread before takes its a from there
const unsigned all = 0xffffffffu;
const int lane = threadIdx.x & 31;
const bool there = ends[0] >= 0, begins = there && !tied;
struct vertex {
    double x, y, z, w;
};
const auto load = [&](const int i, const bool wanted) {
    vertex row = {0.0, 0.0, 0.0, 0.0};
    if (wanted) {
        const double2* half = (const double2*)(p.data + i);
        const double2 xy = half[0], zw = half[1];
        row = {xy.x, xy.y, zw.x, zw.y};
    }
    return row;
};
const vertex b = load(ends[1], there);
vertex a = load(ends[0], begins);
const double x = __shfl_up_sync(all, b.x, 1), y = __shfl_up_sync(all, b.y, 1), z = __shfl_up_sync(all, b.z, 1);
if (tied) a.x = x, a.y = y, a.z = z;

// [span]
#if defined(__CUDA_ARCH__)
// [include load_ends]
return wp::vec_t<3, double>(b.x - a.x, b.y - a.y, b.z - a.z);
#else
return wp::vec_t<3, double>();
#endif

// [solve_lines]
#if defined(__CUDA_ARCH__)
// [include reduce_cyclically]
#else
// [include eliminate]
#endif

// [reduce_cyclically] the batch of a warp, by parallel cyclic reduction: five halvings for 32 unknowns
// [include load_ends]
const double w = __shfl_up_sync(all, b.w, 1);
if (tied) a.w = w;
const unsigned ties = __ballot_sync(all, tied);

// directions n, and the constraint values: rest length less length, with damping
double nx = b.x - a.x, ny = b.y - a.y, nz = b.z - a.z;
const double squared = nx * nx + ny * ny + nz * nz;
const double mx = nx - was[0], my = ny - was[1], mz = nz - was[2];
const double per = squared > 0.0 ? rsqrt(squared) : 0.0;
nx *= per, ny *= per, nz *= per;
double lack = elastic * (rest - squared * per) - (1.0 - elastic) * (nx * mx + ny * my + nz * mz);
if (!there) lack = 0.0;
double diagonal = a.w + b.w + softness;

// the entries beside the diagonal; the matrix is symmetric, and stays so
const double bx = __shfl_up_sync(all, nx, 1), by = __shfl_up_sync(all, ny, 1), bz = __shfl_up_sync(all, nz, 1);
double below = tied ? -a.w * (nx * bx + ny * by + nz * bz) : 0.0;
double above = __shfl_down_sync(all, below, 1);
if (lane == 31) above = 0.0;
#pragma unroll
for (int step = 1; step < 32; step *= 2) {
    // 1 / diagonal: an approximation and two Newton steps
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(diagonal));
    inverse = fma(inverse, fma(-diagonal, inverse, 1.0), inverse);
    inverse = fma(inverse, fma(-diagonal, inverse, 1.0), inverse);
    const double lower = -below * __shfl_up_sync(all, inverse, step);
    const double upper = -above * __shfl_down_sync(all, inverse, step);
    const double lower_lack = __shfl_up_sync(all, lack, step), upper_lack = __shfl_down_sync(all, lack, step);
    const double lower_below = __shfl_up_sync(all, below, step), upper_above = __shfl_down_sync(all, above, step);
    diagonal = fma(lower, below, fma(upper, above, diagonal));
    lack = fma(lower, lower_lack, fma(upper, upper_lack, lack));
    // there is nothing beyond the ends of the batch
    below = lane >= 2 * step ? lower * lower_below : 0.0;
    above = lane + 2 * step < 32 ? upper * upper_above : 0.0;
}
const double push = lack / diagonal;
pushes.data[slot] = push;

// corrections of the vertices; where springs continue each other, the pushes of both act on their common vertex
nx *= push, ny *= push, nz *= push;
double tx = __shfl_down_sync(all, nx, 1), ty = __shfl_down_sync(all, ny, 1), tz = __shfl_down_sync(all, nz, 1);
if (lane == 31 || !(ties >> (lane + 1) & 1u)) tx = 0.0, ty = 0.0, tz = 0.0;
const auto store = [&](const int i, const vertex& row, const double gain, double x, double y, double z) {
    double2* half = (double2*)(p.data + i);
    half[0] = make_double2(row.x + gain * x, row.y + gain * y);
    half[1] = make_double2(row.z + gain * z, row.w);
};
if (there) store(ends[1], b, b.w, nx - tx, ny - ty, nz - tz);
if (begins) store(ends[0], a, -a.w, nx, ny, nz);

// [eliminate] $SIMD_BATCHES batches from a slot on, a batch a SIMD lane, by the Thomas algorithm
constexpr int row = $BATCH, side = $SIMD_BATCHES;
static_assert(side == 8, "the shuffles below are for eight lanes");
// a number of each batch, a vertex index of each, a mask, and a packed vertex
typedef double lanes __attribute__((vector_size(side * sizeof(double)), aligned(sizeof(double))));
typedef int whole __attribute__((vector_size(side * sizeof(int)), aligned(sizeof(int))));
typedef long long choice __attribute__((vector_size(side * sizeof(double))));
typedef double vertex __attribute__((vector_size(4 * sizeof(double)), aligned(sizeof(double))));
struct vectors { lanes x, y, z; };
const auto minus = [](const vectors &a, const vectors &b) { return vectors{a.x - b.x, a.y - b.y, a.z - b.z}; };
const auto times = [](const lanes &a, const vectors &b) { return vectors{a * b.x, a * b.y, a * b.z}; };
const auto dot = [](const vectors &a, const vectors &b) { return a.x * b.x + a.y * b.y + a.z * b.z; };
const auto either = [](const whole &which, const lanes &a, const lanes &b) {
    return __builtin_convertvector(which, choice) ? a : b;
};
const auto chosen = [&](const whole &which, const vectors &a, const vectors &b) {
    return vectors{either(which, a.x, b.x), either(which, a.y, b.y), either(which, a.z, b.z)};
};
const auto all = [](const whole &which) { return __builtin_reduce_and(which) != 0; };
// the positions and inverse masses of eight vertices, transposed; an empty slot names vertex -1: it reads vertex 0, without mass
const auto gather = [&](const auto &rows, const whole &named, lanes &mass) {
    const whole i = named < 0 ? whole{} : named;
    const vertex *at = (const vertex *)rows.data;
    const auto two = [&](int s) {
        return __builtin_shufflevector(at[i[s]], at[i[s + 1]], 0, 4, 1, 5, 2, 6, 3, 7);
    };
    const lanes a = two(0), b = two(2), c = two(4), d = two(6);
    const lanes xy = __builtin_shufflevector(a, b, 0, 1, 8, 9, 2, 3, 10, 11);
    const lanes zw = __builtin_shufflevector(a, b, 4, 5, 12, 13, 6, 7, 14, 15);
    const lanes more_xy = __builtin_shufflevector(c, d, 0, 1, 8, 9, 2, 3, 10, 11);
    const lanes more_zw = __builtin_shufflevector(c, d, 4, 5, 12, 13, 6, 7, 14, 15);
    mass = either(named < 0, lanes{}, __builtin_shufflevector(zw, more_zw, 4, 5, 6, 7, 12, 13, 14, 15));
    return vectors{
        __builtin_shufflevector(xy, more_xy, 0, 1, 2, 3, 8, 9, 10, 11),
        __builtin_shufflevector(xy, more_xy, 4, 5, 6, 7, 12, 13, 14, 15),
        __builtin_shufflevector(zw, more_zw, 0, 1, 2, 3, 8, 9, 10, 11)};
};
const auto add = [&](const whole &named, const vectors &v) {
    vertex *at = (vertex *)p.data;
    for (int s = 0; s < side; ++s)
        if (named[s] >= 0) at[named[s]] += vertex{v.x[s], v.y[s], v.z[s], 0.0};
};
const int *ends_here = (const int *)(pairs.data + slot);
const auto number = [&](const auto &numbers, int k) { return *(const lanes *)(numbers.data + slot + k * side); };

// forward elimination; `beside` is the entry left of the diagonal
vectors n[row];
lanes lack[row], beside[row], inverse[row], start_mass[row], end_mass[row];
whole starts[row], ends_of[row], tied_to[row];
vectors from, from_moved;
lanes from_mass, nobody;
whole last = whole{} - 2;
int size = 0;
for (; size < row; ++size) {
    const int k = size;
    const int *e = ends_here + 2 * side * k;
    const whole start = {e[0], e[2], e[4], e[6], e[8], e[10], e[12], e[14]};
    const whole end = {e[1], e[3], e[5], e[7], e[9], e[11], e[13], e[15]};
    if (all(start < 0)) break;
    tied_to[k] = start == last;
    if (!all(tied_to[k])) {
        lanes mass;
        const vectors at = gather(p, start, mass);
        from_moved = chosen(tied_to[k], from_moved, minus(at, gather(before, start, nobody)));
        from = chosen(tied_to[k], from, at);
        from_mass = either(tied_to[k], from_mass, mass);
    }
    const vectors to = gather(p, end, end_mass[k]), to_moved = minus(to, gather(before, end, nobody));
    const vectors way = minus(to, from);
    const lanes squared = dot(way, way), length = __builtin_elementwise_sqrt(squared);
    n[k] = times(length > 0.0 ? 1.0 / length : lanes{}, way);
    const lanes moved = dot(n[k], minus(to_moved, from_moved)), counts = number(elastics, k);
    lack[k] = counts * (number(rests, k) - length) - (1.0 - counts) * moved;
    lack[k] = either(start < 0, lanes{}, lack[k]);
    start_mass[k] = from_mass;
    lanes diagonal = from_mass + end_mass[k] + number(softnesses, k);
    if (k > 0) {
        beside[k] = either(tied_to[k], -from_mass * dot(n[k - 1], n[k]), lanes{});
        const lanes ratio = beside[k] * inverse[k - 1];
        lack[k] -= ratio * lack[k - 1];
        diagonal -= ratio * beside[k];
    }
    inverse[k] = 1.0 / diagonal;
    starts[k] = start, ends_of[k] = last = end;
    from = to, from_moved = to_moved, from_mass = end_mass[k];
}
// backward substitution; where springs continue each other, the pushes of both act on their common vertex
vectors push_behind = {};
for (int k = size - 1; k >= 0; --k) {
    if (k + 1 < size) lack[k] -= beside[k + 1] * lack[k + 1];
    lack[k] *= inverse[k];
    *(lanes *)(pushes.data + slot + k * side) = lack[k];
    const vectors push = times(lack[k], n[k]);
    add(ends_of[k], times(end_mass[k], minus(push, push_behind)));
    if (!all(tied_to[k])) add(tied_to[k] ? whole{} - 1 : starts[k], times(-start_mass[k], push));
    push_behind = chosen(tied_to[k], push, vectors{});
}

// Lines of springs, each a tridiagonal system: on the CPU $SIMD_BATCHES batches of $BATCH slots side by side in SIMD lanes, on
// CUDA one batch a warp, $SLOTS_A_THREAD slots a thread. See spring_lines.py for the equations.

// [slots_at_once]
#if defined(__CUDA_ARCH__)
return 1;
#else
return $SLOTS;
#endif

// [solve_lines]
#if defined(__CUDA_ARCH__)
// [include reduce]
#else
// [include eliminate]
#endif

// [reduce] the batch of a warp. A thread eliminates all its springs but the first, which leaves one unknown a thread; parallel
// cyclic reduction solves for those, with five halvings for 32 threads; the thread's other springs follow.
// Of lines of several blocks, a block is solved with the pull of the next one on its last spring unknown at first, which gives
// the last push as a linear function of it. With that the next block begins. Then blocks are solved from the last to the first
constexpr int row = $SLOTS_A_THREAD, block_slots = $BATCH * $SIMD_BATCHES;
constexpr unsigned all = 0xffffffffu;
const int lane = threadIdx.x & 31;
struct vertex {
    double x, y, z, w;
};
const auto load = [](const auto& rows, const int i, const bool wanted) {
    vertex v = {0.0, 0.0, 0.0, 0.0};
    if (wanted) {
        const double2* half = (const double2*)(rows.data + i);
        const double2 xy = half[0], zw = half[1];
        v = {xy.x, xy.y, zw.x, zw.y};
    }
    return v;
};
const auto from_before = [](const vertex& v) {
    return vertex{
        __shfl_up_sync(all, v.x, 1), __shfl_up_sync(all, v.y, 1), __shfl_up_sync(all, v.z, 1), __shfl_up_sync(all, v.w, 1)};
};
// 1 / d: an approximation and two Newton steps
const auto inverse_of = [](const double d) {
    double inverse;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inverse) : "d"(d));
    inverse = fma(inverse, fma(-d, inverse, 1.0), inverse);
    return fma(inverse, fma(-d, inverse, 1.0), inverse);
};

// the pull of the next block on the last spring, and the push of its first spring on their common vertex
double pull = 0.0, push_x = 0.0, push_y = 0.0, push_z = 0.0;
for (int pass = 0; pass < 2 * blocks - 1; ++pass) {
    const bool forwards = pass < blocks - 1;
    const int block = min(pass, 2 * blocks - 2 - pass), at = slot + block * block_slots;
    const bool goes_on = block > 0;
    if (pass > 0) {
        head = pairs.data[at].c[0];
#pragma unroll
        for (int k = 0; k < row; ++k) tails[k] = pairs.data[at + 32 * k].c[1];
    }
    // the vertices of the springs, from the first to the last: a thread whose first spring continues that of the thread before has
    // its first vertex from there
    int last = __shfl_up_sync(all, tails[row - 1], 1);
    if (lane == 0) last = goes_on ? pairs.data[at - block_slots + 32 * row - 1].c[1] : -1;
    const bool there = head >= 0, tied = there && head == last;
    vertex v[row + 1], was[row + 1];
    double rest[row], elastic[row], softness[row];
    const bool alone = !tied || lane == 0;
    v[0] = load(p, head, there && alone);
    was[0] = load(before, head, there && alone);
#pragma unroll
    for (int k = 0; k < row; ++k) {
        v[k + 1] = load(p, tails[k], tails[k] >= 0);
        was[k + 1] = load(before, tails[k], tails[k] >= 0);
        rest[k] = rests.data[at + 32 * k];
        elastic[k] = elastics.data[at + 32 * k];
        softness[k] = softnesses.data[at + 32 * k];
    }
    const vertex v_before = from_before(v[row]), was_before = from_before(was[row]);
    if (!alone) v[0] = v_before, was[0] = was_before;

    // directions n, the constraint values (rest length less length, with damping), the diagonal and the entries beside it
    double nx[row], ny[row], nz[row], lack[row], diagonal[row], beside[row + 1];
#pragma unroll
    for (int k = 0; k < row; ++k) {
        const vertex &a = v[k], &b = v[k + 1];
        const double x = b.x - a.x, y = b.y - a.y, z = b.z - a.z;
        const double ox = was[k + 1].x - was[k].x, oy = was[k + 1].y - was[k].y, oz = was[k + 1].z - was[k].z;
        const double wx = now ? x : ox, wy = now ? y : oy, wz = now ? z : oz;
        const double squared = wx * wx + wy * wy + wz * wz, per = squared > 0.0 ? rsqrt(squared) : 0.0;
        nx[k] = wx * per, ny[k] = wy * per, nz[k] = wz * per;
        const double moved = nx[k] * (x - ox) + ny[k] * (y - oy) + nz[k] * (z - oz);
        lack[k] = elastic[k] * (rest[k] - sqrt(x * x + y * y + z * z)) - (1.0 - elastic[k]) * moved;
        diagonal[k] = a.w + b.w + softness[k];
        // an empty slot: an equation without effect
        if (tails[k] < 0) nx[k] = 0.0, ny[k] = 0.0, nz[k] = 0.0, lack[k] = 0.0;
        if (k > 0) beside[k] = -a.w * (nx[k] * nx[k - 1] + ny[k] * ny[k - 1] + nz[k] * nz[k - 1]);
    }
    double bx = __shfl_up_sync(all, nx[row - 1], 1), by = __shfl_up_sync(all, ny[row - 1], 1);
    double bz = __shfl_up_sync(all, nz[row - 1], 1);
    if (lane == 0 && tied) {
        // the direction of the last spring of the block before
        const vertex far = load(now ? p : before, pairs.data[at - block_slots + 32 * row - 1].c[0], true);
        const vertex& near = now ? v[0] : was[0];
        const double x = near.x - far.x, y = near.y - far.y, z = near.z - far.z;
        const double squared = x * x + y * y + z * z, per = squared > 0.0 ? rsqrt(squared) : 0.0;
        bx = per * x, by = per * y, bz = per * z;
    }
    beside[0] = tied ? -v[0].w * (nx[0] * bx + ny[0] * by + nz[0] * bz) : 0.0;
    beside[row] = __shfl_down_sync(all, beside[0], 1);
    // the block's last spring feels one unit of the pull of the next block, which is unknown forwards and in `lack` backwards
    if (lane == 31) beside[row] = forwards ? 1.0 : 0.0, lack[row - 1] -= forwards ? 0.0 : pull;
    const double beside_block = beside[0];
    if (lane == 0) {
        // the last push of the block before is left - given * pull of this block
        const double left = goes_on ? pushes.data[at] : 0.0, given = goes_on ? pushes.data[at + 32] : 0.0;
        diagonal[0] -= beside_block * given * beside_block;
        lack[0] -= beside_block * left;
        beside[0] = 0.0;
    }

    // the pushes 1 to row - 1 of the thread in terms of its first push u and the next thread's, u': lack - own u - next u'
    double own[row], next[row];
    own[1] = beside[1];
#pragma unroll
    for (int k = 2; k < row; ++k) {
        const double ratio = beside[k] * inverse_of(diagonal[k - 1]);
        diagonal[k] -= ratio * beside[k];
        lack[k] -= ratio * lack[k - 1];
        own[k] = -ratio * own[k - 1];
    }
#pragma unroll
    for (int k = row - 1; k > 0; --k) {
        const double inverse = inverse_of(diagonal[k]);
        if (k == row - 1) {
            next[k] = beside[row] * inverse;
            lack[k] *= inverse, own[k] *= inverse;
        } else {
            next[k] = -beside[k + 1] * next[k + 1] * inverse;
            lack[k] = (lack[k] - beside[k + 1] * lack[k + 1]) * inverse;
            own[k] = (own[k] - beside[k + 1] * own[k + 1]) * inverse;
        }
    }
    const double lack_before = __shfl_up_sync(all, lack[row - 1], 1), own_before = __shfl_up_sync(all, own[row - 1], 1);
    const double next_before = __shfl_up_sync(all, next[row - 1], 1);
    double pivot = diagonal[0] - beside[1] * own[1] - beside[0] * next_before;
    double right = lack[0] - beside[1] * lack[1] - beside[0] * lack_before;
    double below = -beside[0] * own_before, above = -beside[1] * next[1];
    // the coefficient of the pull of the next block
    double beyond = 0.0;
    if (lane == 31) beyond = above, above = 0.0;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const double inverse = inverse_of(pivot);
        const double lower = -below * __shfl_up_sync(all, inverse, step);
        const double upper = -above * __shfl_down_sync(all, inverse, step);
        const double lower_right = __shfl_up_sync(all, right, step), upper_right = __shfl_down_sync(all, right, step);
        const double lower_below = __shfl_up_sync(all, below, step), upper_above = __shfl_down_sync(all, above, step);
        pivot = fma(lower, below, fma(upper, above, pivot));
        right = fma(lower, lower_right, fma(upper, upper_right, right));
        if (forwards) {
            const double lower_beyond = __shfl_up_sync(all, beyond, step), upper_beyond = __shfl_down_sync(all, beyond, step);
            beyond = fma(lower, lower_beyond, fma(upper, upper_beyond, beyond));
        }
        // there is nothing beyond the ends of the batch
        below = lane >= 2 * step ? lower * lower_below : 0.0;
        above = lane + 2 * step < 32 ? upper * upper_above : 0.0;
    }
    lack[0] = right / pivot;
    if (forwards) {
        // what the next block begins with, kept by its first thread where the push of that thread's spring goes at last
        const double left = __shfl_sync(all, lack[row - 1] - own[row - 1] * lack[0], 31);
        const double given = __shfl_sync(all, next[row - 1] - own[row - 1] * beyond / pivot, 31);
        if (lane == 0) pushes.data[at + block_slots] = left, pushes.data[at + block_slots + 32] = given;
        continue;
    }
    const double following = __shfl_down_sync(all, lack[0], 1);
#pragma unroll
    for (int k = 1; k < row; ++k) lack[k] -= own[k] * lack[0] + next[k] * following;

    // corrections of the vertices; where springs continue each other, the pushes of both act on their common vertex
#pragma unroll
    for (int k = 0; k < row; ++k) {
        pushes.data[at + 32 * k] = lack[k];
        nx[k] *= lack[k], ny[k] *= lack[k], nz[k] *= lack[k];
    }
    const double hx = tied ? nx[0] : 0.0, hy = tied ? ny[0] : 0.0, hz = tied ? nz[0] : 0.0;
    double tx = __shfl_down_sync(all, hx, 1), ty = __shfl_down_sync(all, hy, 1), tz = __shfl_down_sync(all, hz, 1);
    if (lane == 31) tx = push_x, ty = push_y, tz = push_z;
    if (block > 0) {
        pull = __shfl_sync(all, beside_block * lack[0], 0);
        push_x = __shfl_sync(all, hx, 0), push_y = __shfl_sync(all, hy, 0), push_z = __shfl_sync(all, hz, 0);
    }
    // a vertex is loaded again: to keep all of them since they were loaded first would take more registers than a thread has
    const auto move = [&](const int i, const double x, const double y, const double z) {
        const vertex v = load(p, i, true);
        double2* half = (double2*)(p.data + i);
        half[0] = make_double2(v.x + v.w * x, v.y + v.w * y);
        half[1] = make_double2(v.z + v.w * z, v.w);
    };
#pragma unroll
    for (int k = row - 1; k >= 0; --k) {
        if (tails[k] >= 0) move(tails[k], nx[k] - tx, ny[k] - ty, nz[k] - tz);
        tx = nx[k], ty = ny[k], tz = nz[k];
    }
    if (there && !tied) move(head, -nx[0], -ny[0], -nz[0]);
}

// [eliminate] $SIMD_BATCHES batches from a slot on, a batch a SIMD lane, by the Thomas algorithm. Lines of several blocks are
// eliminated block by block, which keeps the end of each; then substitution begins with the last block, and the others are
// eliminated again
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
const auto ends_in = [&](int k, int which) {
    const int *e = (const int *)(pairs.data + k) + which;
    return whole{e[0], e[2], e[4], e[6], e[8], e[10], e[12], e[14]};
};
const auto unit = [&](const vectors &v) {
    const lanes length = __builtin_elementwise_sqrt(dot(v, v));
    return times(length > 0.0 ? 1.0 / length : lanes{}, v);
};

// row 0 is the last spring of the block before; `beside` is the entry left of the diagonal
vectors n[row + 1];
lanes lack[row + 1], beside[row + 1], inverse[row + 1], start_mass[row + 1], end_mass[row + 1], nobody;
whole starts[row + 1], ends_of[row + 1], tied_to[row + 1];
// of the first spring of the next block: its pull on the last spring, and its push on their common vertex
lanes pull = {};
vectors push_behind = {};
for (int pass = 0; pass < 2 * blocks - 1; ++pass) {
    const int block = pass < blocks ? pass : 2 * blocks - 2 - pass, at = slot + block * row * side;
    const auto number = [&](const auto &numbers, int k) -> lanes & { return *(lanes *)(numbers.data + at + k * side); };

    // forward elimination
    vectors from, from_moved;
    lanes from_mass;
    n[0] = {}, lack[0] = lanes{}, inverse[0] = lanes{}, ends_of[0] = whole{} - 2;
    if (block > 0) {
        ends_of[0] = ends_in(at - side, 1);
        const auto &way = now ? p : before;
        n[0] = unit(minus(gather(way, ends_of[0], nobody), gather(way, ends_in(at - side, 0), nobody)));
        lack[0] = number(pushes, 0), inverse[0] = number(pushes, 1);
    }
    int size = 0;
    while (size < row) {
        const whole start = ends_in(at + size * side, 0), end = ends_in(at + size * side, 1);
        if (all(start < 0)) break;
        const lanes rest = number(rests, size), counts = number(elastics, size), soft = number(softnesses, size);
        const int k = ++size;
        tied_to[k] = start == ends_of[k - 1];
        if (k == 1 || !all(tied_to[k])) {
            lanes mass;
            const vectors here = gather(p, start, mass), moved = minus(here, gather(before, start, nobody));
            const whole known = k == 1 ? whole{} : tied_to[k];
            from_moved = chosen(known, from_moved, moved);
            from = chosen(known, from, here);
            from_mass = either(known, from_mass, mass);
        }
        const vectors to = gather(p, end, end_mass[k]), to_moved = minus(to, gather(before, end, nobody));
        const vectors way = minus(to, from), change = minus(to_moved, from_moved);
        const lanes length = __builtin_elementwise_sqrt(dot(way, way));
        n[k] = now ? times(length > 0.0 ? 1.0 / length : lanes{}, way) : unit(minus(way, change));
        const lanes moved = dot(n[k], change);
        lack[k] = counts * (rest - length) - (1.0 - counts) * moved;
        lack[k] = either(start < 0, lanes{}, lack[k]);
        start_mass[k] = from_mass;
        beside[k] = either(tied_to[k], -from_mass * dot(n[k - 1], n[k]), lanes{});
        const lanes ratio = beside[k] * inverse[k - 1];
        lack[k] -= ratio * lack[k - 1];
        inverse[k] = 1.0 / (from_mass + end_mass[k] + soft - ratio * beside[k]);
        starts[k] = start, ends_of[k] = end;
        from = to, from_moved = to_moved, from_mass = end_mass[k];
    }
    if (pass < blocks - 1) {
        // kept where the pushes of the next block go at last
        number(pushes, row) = lack[row], number(pushes, row + 1) = inverse[row];
        continue;
    }
    // backward substitution; where springs continue each other, the pushes of both act on their common vertex
    for (int k = size; k > 0; --k) {
        const lanes push_size = (lack[k] - pull) * inverse[k];
        number(pushes, k - 1) = push_size;
        const vectors push = times(push_size, n[k]);
        add(ends_of[k], times(end_mass[k], minus(push, push_behind)));
        if (!all(tied_to[k])) add(tied_to[k] ? whole{} - 1 : starts[k], times(-start_mass[k], push));
        push_behind = chosen(tied_to[k], push, vectors{});
        pull = beside[k] * push_size;
    }
}

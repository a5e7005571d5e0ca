"""Rows of springs that continue each other, each solved as one tridiagonal system (see `weft.dynamics.yarns`).

With n_k the direction of spring k, C_k its lack of length and l_k its push, both over one substep of XPBD:

    -w_k (n_k-1 . n_k) l_k-1 + (w_k + w_k+1 + soft_k) l_k - w_k+1 (n_k . n_k+1) l_k+1 = C_k

A CPU eliminates row by row, eight rows side by side; a card has a thread for each spring and halves the system five times.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.yarns import ROW, SIDE_BY_SIDE
from weft.world.card import load_vec2i
from weft.world.together import arrive, await_others, meet, share_begin, share_rounds

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# numbers of a spring in a substep: rest length, what counts of its lack and of its motion, softness, inverse masses of its ends
NUMBERS = 6


@wp.kernel
def prepare_yarns(
    first: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    numbers: wp.array2d[wp.float64],
):
    """What each place needs in every substep. Compliance is 1/k, delay = damping / k.

    How long a substep is, is the first of `lengths`.
    """
    i = first + wp.tid()
    p = pairs[i]
    if p[0] < 0:
        # nobody's: it pushes nothing
        numbers[3, i] = ONE
        return
    h = lengths[0]
    damping = delay[i] / h
    part = ONE / (ONE + damping)
    numbers[0, i] = rest[i]
    numbers[1, i] = part
    numbers[2, i] = part * damping
    numbers[3, i] = part * compliance[i] / (h * h)
    numbers[4, i] = inverse_mass[p[0]]
    numbers[5, i] = inverse_mass[p[1]]


@wp.func_native(
    f"""
    // only on a CPU
#if !defined(__CUDA_ARCH__)
    constexpr int row = {ROW}, side = {SIDE_BY_SIDE};
    const size_t plane = numbers.strides[0] / sizeof(double), first = (size_t)group * row * side;
    const double *rest = numbers.data + first, *part = rest + plane, *damping = part + plane, *soft = damping + plane;
    const double *from_mass = soft + plane, *to_mass = from_mass + plane;
    const auto *pairs_here = pairs.data + first;
    // of each place: what its spring spans, how that changed, and whether it continues the one before
    constexpr int room = row * side + 24;
    double x_[room], y_[room], z_[room], mx[room], my[room], mz[room], tied[room], lack[room], diagonal[room];
    int size = 0, sizes[side];
    for (int s = 0; s < side; ++s) {{
        int last = -1, k = 0;
        double bx = 0.0, by = 0.0, bz = 0.0, bmx = 0.0, bmy = 0.0, bmz = 0.0;
        #pragma clang loop vectorize(disable)
        for (; k < row; ++k) {{
            const int i = k * side + s;
            const auto ends = pairs_here[i];
            if (ends[0] < 0) break;
            if (ends[0] != last) {{
                const auto &at = x.data[ends[0]], &was = before.data[ends[0]];
                bx = at[0], by = at[1], bz = at[2];
                bmx = at[0] - was[0], bmy = at[1] - was[1], bmz = at[2] - was[2];
                tied[i] = 0.0;
            }} else
                tied[i] = 1.0;
            last = ends[1];
            const auto &at = x.data[last], &was = before.data[last];
            const double cx = at[0], cy = at[1], cz = at[2];
            const double cmx = cx - was[0], cmy = cy - was[1], cmz = cz - was[2];
            x_[i] = cx - bx, y_[i] = cy - by, z_[i] = cz - bz;
            mx[i] = cmx - bmx, my[i] = cmy - bmy, mz[i] = cmz - bmz;
            bx = cx, by = cy, bz = cz, bmx = cmx, bmy = cmy, bmz = cmz;
        }}
        sizes[s] = k;
        size = k > size ? k : size;
    }}
    for (int s = 0; s < side; ++s)
        #pragma clang loop vectorize(disable)
        for (int k = sizes[s]; k < size; ++k) {{
            const int i = k * side + s;
            x_[i] = y_[i] = z_[i] = mx[i] = my[i] = mz[i] = tied[i] = 0.0;
        }}
    // directions
    for (int i = 0; i < size * side; ++i) {{
        const double length = sqrt(x_[i] * x_[i] + y_[i] * y_[i] + z_[i] * z_[i]);
        const double per = length > 0.0 ? 1.0 / length : 0.0;
        x_[i] *= per, y_[i] *= per, z_[i] *= per;
        const double moved = x_[i] * mx[i] + y_[i] * my[i] + z_[i] * mz[i];
        lack[i] = -(part[i] * (length - rest[i]) + damping[i] * moved);
        diagonal[i] = from_mass[i] + to_mass[i] + soft[i];
    }}
    // what ties each to the one before: its place is free now
    double *beside = mx, *inverse = my;
    for (int i = side; i < size * side; ++i) {{
        const double turn = x_[i - side] * x_[i] + y_[i - side] * y_[i] + z_[i - side] * z_[i];
        beside[i] = -tied[i] * from_mass[i] * turn;
    }}
    for (int s = 0; s < side; ++s) inverse[s] = 1.0 / diagonal[s];
    for (int k = 1; k < size; ++k)
        for (int s = 0; s < side; ++s) {{
            const int i = k * side + s;
            const double share = beside[i] * inverse[i - side];
            lack[i] -= share * lack[i - side];
            inverse[i] = 1.0 / (diagonal[i] - share * beside[i]);
        }}
    for (int k = size - 1; k >= 0; --k)
        for (int s = 0; s < side; ++s) {{
            const int i = k * side + s;
            const double behind = k + 1 < size ? beside[i + side] * lack[i + side] : 0.0;
            lack[i] = (lack[i] - behind) * inverse[i];
        }}
    // pushes; those of springs that continue each other meet at a vertex
    for (int i = 0; i < size * side; ++i) x_[i] *= lack[i], y_[i] *= lack[i], z_[i] *= lack[i];
    for (int s = 0; s < side; ++s) {{
        #pragma clang loop vectorize(disable)
        for (int k = 0; k < sizes[s]; ++k) {{
            const int i = k * side + s;
            const auto ends = pairs_here[i];
            double fx = x_[i], fy = y_[i], fz = z_[i];
            if (tied[i] == 0.0) {{
                auto &a = x.data[ends[0]];
                const double from = from_mass[i];
                a[0] -= from * fx, a[1] -= from * fy, a[2] -= from * fz;
            }}
            if (k + 1 < sizes[s] && tied[i + side] != 0.0) fx -= x_[i + side], fy -= y_[i + side], fz -= z_[i + side];
            auto &b = x.data[ends[1]];
            const double to = to_mass[i];
            b[0] += to * fx, b[1] += to * fy, b[2] += to * fz;
        }}
    }}
#endif
    """
)
def stretch_rows(
    group: int,
    pairs: wp.array[wp.vec2i],
    numbers: wp.array2d[wp.float64],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """`SIDE_BY_SIDE` rows of one colour, whose places lie side by side."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const int lane = threadIdx.x & 31;
    double below = beside, above = __shfl_down_sync(0xffffffffu, beside, 1);
    if (lane == 31) above = 0.0;
    for (int step = 1; step < 32; step *= 2) {
        const double inverse = 1.0 / diagonal;
        const double lower = -below * __shfl_up_sync(0xffffffffu, inverse, step);
        const double upper = -above * __shfl_down_sync(0xffffffffu, inverse, step);
        const double lower_below = __shfl_up_sync(0xffffffffu, below, step);
        const double lower_above = __shfl_up_sync(0xffffffffu, above, step);
        const double upper_below = __shfl_down_sync(0xffffffffu, below, step);
        const double upper_above = __shfl_down_sync(0xffffffffu, above, step);
        const double lower_lack = __shfl_up_sync(0xffffffffu, lack, step);
        const double upper_lack = __shfl_down_sync(0xffffffffu, lack, step);
        diagonal += lower * lower_above + upper * upper_below;
        lack += lower * lower_lack + upper * upper_lack;
        // the ends of a row have nobody beyond
        below = lane >= 2 * step ? lower * lower_below : 0.0;
        above = lane + 2 * step < 32 ? upper * upper_above : 0.0;
    }
    return lack / diagonal;
#else
    return 0.0;
#endif
    """
)
def solve_in_warp(diagonal: wp.float64, beside: wp.float64, lack: wp.float64) -> wp.float64:
    """The pushes of the springs of a row, one each thread of a warp; `beside` is what ties it to the one before it."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return __shfl_up_sync(0xffffffffu, value, 1);
#else
    return value;
#endif
    """
)
def vertex_before(value: int) -> int:
    """What the thread before in the warp has."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return __shfl_down_sync(0xffffffffu, value, 1);
#else
    return value;
#endif
    """
)
def vertex_after(value: int) -> int:
    """What the thread after in the warp has."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return wp::vec_t<3, double>(__shfl_up_sync(0xffffffffu, value[0], 1), __shfl_up_sync(0xffffffffu, value[1], 1),
                                __shfl_up_sync(0xffffffffu, value[2], 1));
#else
    return value;
#endif
    """
)
def vector_before(value: wp.vec3d) -> wp.vec3d:
    """What the thread before in the warp has."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return wp::vec_t<3, double>(__shfl_down_sync(0xffffffffu, value[0], 1), __shfl_down_sync(0xffffffffu, value[1], 1),
                                __shfl_down_sync(0xffffffffu, value[2], 1));
#else
    return value;
#endif
    """
)
def vector_after(value: wp.vec3d) -> wp.vec3d:
    """What the thread after in the warp has."""
    ...


@wp.func
def pull_in_warp(
    lane: int,
    p: wp.vec2i,
    rest: wp.vec2d,
    parts: wp.vec4d,
    a: wp.vec3d,
    b: wp.vec3d,
    a0: wp.vec3d,
    b0: wp.vec3d,
    x: wp.array[wp.vec3d],
):
    """A spring of a row, or none, all of whose threads are here: they solve the row together."""
    there = p[0] >= 0
    n = b - a
    length = wp.length(n)
    if there and length > ZERO:
        n = n / length
    else:
        n = wp.vec3d()
        length = rest[0]
    lack = -(parts[0] * (length - rest[0]) + parts[1] * wp.dot(n, (b - b0) - (a - a0)))
    # all threads of the warp take part in what follows
    end_before = vertex_before(p[1])
    n_before = vector_before(n)
    tied = there and lane > 0 and end_before == p[0]
    beside = ZERO
    if tied:
        beside = -parts[2] * wp.dot(n_before, n)
    push = solve_in_warp(parts[2] + parts[3] + rest[1], beside, lack) * n
    start_after = vertex_after(p[0])
    push_after = vector_after(push)
    if there:
        if lane == ROW - 1 or start_after != p[1]:
            push_after = wp.vec3d()
        x[p[1]] = b + parts[3] * (push - push_after)
        if not tied:
            x[p[0]] = a - parts[2] * push


@wp.func
def stretch_on_card(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    numbers: wp.array2d[wp.float64],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """All rows after a meeting, with the next spring of each thread loaded while threads wait for each other.

    A warp has a row: its threads go the same ways.
    """
    colour = int(0)
    begin = ROW * offsets[0]
    end = ROW * offsets[1]
    i = begin + share_begin(t, threads, end - begin)
    left = share_rounds(threads, end - begin)
    k = wp.min(i, end - ROW + t % ROW)
    p = load_vec2i(pairs, k)
    rest = wp.vec2d(numbers[0, k], numbers[3, k])
    parts = wp.vec4d(numbers[1, k], numbers[2, k], numbers[4, k], numbers[5, k])
    meet(arrivals)
    a0 = before[wp.max(p[0], 0)]
    b0 = before[wp.max(p[1], 0)]
    while colour < colours:
        following = ROW * offsets[wp.min(colour + 2, colours)]
        a = x[wp.max(p[0], 0)]
        b = x[wp.max(p[1], 0)]
        row_there = i < end
        # the next in this colour or the first of the next one; who has none loads the last, as others do
        size = end - begin
        next_size = following - end
        left -= 1
        crosses = left == 0
        i += threads
        if crosses:
            begin = end
            end = following
            colour += 1
            i = begin + share_begin(t, threads, next_size)
            left = share_rounds(threads, next_size)
        k = wp.min(i, end - ROW + t % ROW)
        next_p = load_vec2i(pairs, k)
        next_rest = wp.vec2d(numbers[0, k], numbers[3, k])
        next_parts = wp.vec4d(numbers[1, k], numbers[2, k], numbers[4, k], numbers[5, k])

        if row_there:
            pull_in_warp(t % ROW, p, rest, parts, a, b, a0, b0, x)

        meets = crosses and colour < colours
        ticket = arrive(arrivals, meets, size, next_size)
        p = next_p
        rest = next_rest
        parts = next_parts
        a0 = before[wp.max(p[0], 0)]
        b0 = before[wp.max(p[1], 0)]
        await_others(arrivals, meets, size, next_size, ticket)

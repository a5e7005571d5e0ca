"""Rows of springs that continue each other, each solved as one tridiagonal system (see `weft.dynamics.yarns`).

With n_k the direction of spring k, C_k its lack of length and l_k its push, both over one substep of XPBD:

    -w_k (n_k-1 . n_k) l_k-1 + (w_k + w_k+1 + soft_k) l_k - w_k+1 (n_k . n_k+1) l_k+1 = C_k

A CPU eliminates row by row, eight rows side by side; a card has a thread for each spring (`weft.dynamics.yarns_on_card`).
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.yarns import ROW, SIDE_BY_SIDE

wp.set_module_options({"enable_backward": False})

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


def _side_by_side(kind: str, item: str) -> str:
    """C++ for a vector of one item of each of the rows, which `item` names by the row's number."""
    return f"{kind}{{{', '.join(item % side for side in range(SIDE_BY_SIDE))}}}"


@wp.func_native(
    f"""
    // only on a CPU
#if !defined(__CUDA_ARCH__)
    constexpr int row = {ROW}, side = {SIDE_BY_SIDE};
    // a number of each of the rows
    typedef double lanes __attribute__((vector_size(side * sizeof(double)), aligned(sizeof(double))));
    typedef int whole __attribute__((vector_size(side * sizeof(int)), aligned(sizeof(int))));
    typedef long long choice __attribute__((vector_size(side * sizeof(double))));
    struct vectors {{ lanes x, y, z; }};
    const auto minus = [](const vectors &a, const vectors &b) {{ return vectors{{a.x - b.x, a.y - b.y, a.z - b.z}}; }};
    const auto times = [](const lanes &a, const vectors &b) {{ return vectors{{a * b.x, a * b.y, a * b.z}}; }};
    const auto dot = [](const vectors &a, const vectors &b) {{ return a.x * b.x + a.y * b.y + a.z * b.z; }};
    const auto chosen = [](const whole &which, const vectors &a, const vectors &b) {{
        const choice c = __builtin_convertvector(which, choice);
        return vectors{{c ? a.x : b.x, c ? a.y : b.y, c ? a.z : b.z}};
    }};
    const auto all = [](const whole &which) {{ return __builtin_reduce_and(which) != 0; }};
    // a place without a spring names no vertex, and has no numbers: any vertex will do
    const auto gather = [](const auto *at, const whole &named) {{
        const whole i = named < 0 ? whole{{}} : named;
        return vectors{{{", ".join(_side_by_side("lanes", f"at[i[%d]][{axis}]") for axis in range(3))}}};
    }};
    const auto add = [&](const whole &named, const vectors &v) {{
        for (int s = 0; s < side; ++s)
            if (named[s] >= 0) {{
                auto &at = x.data[named[s]];
                at[0] += v.x[s], at[1] += v.y[s], at[2] += v.z[s];
            }}
    }};
    const size_t plane = numbers.strides[0] / sizeof(double), first = (size_t)group * row * side;
    const double *numbers_here = numbers.data + first;
    const int *ends_here = (const int *)(pairs.data + first);
    const auto number = [&](int which, int k) {{ return *(const lanes *)(numbers_here + which * plane + k * side); }};

    vectors n[row];
    lanes lack[row], beside[row], inverse[row];
    whole starts[row], ends[row], tied[row];
    vectors from, from_moved;
    whole last = whole{{}} - 2;
    int size = 0;
    for (; size < row; ++size) {{
        const int k = size;
        const int *e = ends_here + 2 * side * k;
        const whole start = {_side_by_side("whole", "e[2 * %d]")};
        const whole end = {_side_by_side("whole", "e[2 * %d + 1]")};
        if (all(start < 0)) break;
        tied[k] = start == last;
        if (!all(tied[k])) {{
            const vectors at = gather(x.data, start);
            from_moved = chosen(tied[k], from_moved, minus(at, gather(before.data, start)));
            from = chosen(tied[k], from, at);
        }}
        const vectors to = gather(x.data, end), to_moved = minus(to, gather(before.data, end));
        const vectors span = minus(to, from);
        lanes length;
        const lanes squared = dot(span, span);
        for (int s = 0; s < side; ++s) length[s] = sqrt(squared[s]);
        n[k] = times(length > 0.0 ? 1.0 / length : lanes{{}}, span);
        const lanes moved = dot(n[k], minus(to_moved, from_moved));
        lack[k] = -(number(1, k) * (length - number(0, k)) + number(2, k) * moved);
        const lanes from_mass = number(4, k);
        lanes diagonal = from_mass + number(5, k) + number(3, k);
        // what ties it to the one before
        if (k > 0) {{
            beside[k] = __builtin_convertvector(tied[k], choice) ? -from_mass * dot(n[k - 1], n[k]) : lanes{{}};
            const lanes share = beside[k] * inverse[k - 1];
            lack[k] -= share * lack[k - 1];
            diagonal -= share * beside[k];
        }}
        inverse[k] = 1.0 / diagonal;
        starts[k] = start, ends[k] = last = end;
        from = to, from_moved = to_moved;
    }}
    // pushes; those of springs that continue each other meet at a vertex
    vectors push_behind = {{}};
    for (int k = size - 1; k >= 0; --k) {{
        if (k + 1 < size) lack[k] -= beside[k + 1] * lack[k + 1];
        lack[k] *= inverse[k];
        const vectors push = times(lack[k], n[k]);
        add(ends[k], times(number(5, k), minus(push, push_behind)));
        if (!all(tied[k])) add(tied[k] ? whole{{}} - 1 : starts[k], times(-number(4, k), push));
        push_behind = chosen(tied[k], push, vectors{{}});
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

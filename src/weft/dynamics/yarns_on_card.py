"""Substeps of position-based cloth on a card: free motion, then rows of springs, each solved by the threads of a warp.

Vertices are rows (x, y, z, inverse mass) here, which two loads bring. A thread has a spring; the end of one is the start of
the next, so that most threads load one vertex and get the other from their neighbour. The tridiagonal system of a row (see
`weft.dynamics.yarn_kernels`) is halved five times.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.yarns import ROW
from weft.world.card import load_vec2d, load_vec2i, load_vec4d, store_row
from weft.world.together import BLOCK, arrive, await_others, meet, share_begin, share_rounds, share_step, shared

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.kernel
def prepare_springs(
    first: int,
    pairs: wp.array[wp.vec2i],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    numbers: wp.array[wp.vec2d],
):
    """What counts of each spring's lack of length, the rest being that of its motion, and its softness.

    Compliance is 1/k, delay = damping / k. How long a substep is, is the first of `lengths`.
    """
    i = first + wp.tid()
    # nobody's place pushes nothing
    found = wp.vec2d(ONE, ONE)
    if pairs[i][0] >= 0:
        h = lengths[0]
        part = ONE / (ONE + delay[i] / h)
        found = wp.vec2d(part, part * compliance[i] / (h * h))
    numbers[i] = found


@wp.kernel
def take_rows(
    first: int,
    x: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
):
    """Vertices as rows."""
    i = first + wp.tid()
    store_row(p, i, x[i], inverse_mass[i])


@wp.kernel
def give_rows(first: int, p: wp.array[wp.vec4d], x: wp.array[wp.vec3d]):
    """The positions of rows."""
    i = first + wp.tid()
    row = load_vec4d(p, i)
    x[i] = wp.vec3d(row[0], row[1], row[2])


@wp.kernel
def end_rows(
    first: int,
    h: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """The positions of rows, and the velocities that the last substep made of them."""
    i = first + wp.tid()
    row = load_vec4d(p, i)
    was = load_vec4d(before, i)
    x[i] = wp.vec3d(row[0], row[1], row[2])
    v[i] = wp.vec3d(row[0] - was[0], row[1] - was[1], row[2] - was[2]) / h


@wp.func
def predict_row(
    i: int,
    again: int,
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    per_h: wp.float64,
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
):
    """Free motion of a vertex over a substep, with the velocity of the substep before where there was one."""
    row = load_vec4d(p, i)
    x = wp.vec3d(row[0], row[1], row[2])
    speed = wp.vec3d()
    if again == 1:
        was = load_vec4d(before, i)
        speed = per_h * (x - wp.vec3d(was[0], was[1], was[2]))
    else:
        speed = v[i]
    if row[3] != ZERO:
        speed += h * (gravity + push[i] - air_damping * speed)
    store_row(before, i, x, row[3])
    store_row(p, i, x + h * speed, row[3])


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const int last = __shfl_up_sync(0xffffffffu, ends[1], 1);
    return (threadIdx.x & 31) > 0 && ends[0] >= 0 && last == ends[0];
#else
    return false;
#endif
    """
)
def continues(ends: wp.vec2i) -> bool:
    """Whether a spring continues that of the thread before it in the warp, all of whose threads are here."""
    ...


# the row at a vertex; that of the thread before where the spring continues
_LOAD = """
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
"""


@wp.func_native(
    "#if defined(__CUDA_ARCH__)"
    + _LOAD
    + """
    return wp::vec_t<3, double>(b.x - a.x, b.y - a.y, b.z - a.z);
#else
    return wp::vec_t<3, double>();
#endif
    """
)
def span(ends: wp.vec2i, tied: bool, p: wp.array[wp.vec4d]) -> wp.vec3d:
    """From one end of a spring to the other, by all threads of a warp."""
    ...


@wp.func_native(
    "#if defined(__CUDA_ARCH__)"
    + _LOAD
    + """
    const double w = __shfl_up_sync(all, b.w, 1);
    if (tied) a.w = w;
    const unsigned ties = __ballot_sync(all, tied);

    // directions, and how much each spring lacks
    double nx = b.x - a.x, ny = b.y - a.y, nz = b.z - a.z;
    const double squared = nx * nx + ny * ny + nz * nz;
    const double mx = nx - was[0], my = ny - was[1], mz = nz - was[2];
    const double per = squared > 0.0 ? rsqrt(squared) : 0.0;
    nx *= per, ny *= per, nz *= per;
    double lack = parts[0] * (rest - squared * per) - (1.0 - parts[0]) * (nx * mx + ny * my + nz * mz);
    if (!there) lack = 0.0;
    double diagonal = a.w + b.w + parts[1];

    // what ties each to the one before and to the one after: the same, since the system is symmetric, and stays so
    const double bx = __shfl_up_sync(all, nx, 1), by = __shfl_up_sync(all, ny, 1), bz = __shfl_up_sync(all, nz, 1);
    double below = tied ? -a.w * (nx * bx + ny * by + nz * bz) : 0.0;
    double above = __shfl_down_sync(all, below, 1);
    if (lane == 31) above = 0.0;
    #pragma unroll
    for (int step = 1; step < 32; step *= 2) {
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
        // the ends of a row have nobody beyond
        below = lane >= 2 * step ? lower * lower_below : 0.0;
        above = lane + 2 * step < 32 ? upper * upper_above : 0.0;
    }
    const double push = lack / diagonal;

    // pushes; those of springs that continue each other meet at a vertex
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
#endif
    """
)
def pull_row(
    ends: wp.vec2i,
    tied: bool,
    rest: wp.float64,
    parts: wp.vec2d,
    was: wp.vec3d,
    p: wp.array[wp.vec4d],
):
    """A spring of a row, or none, all of whose threads are here: they solve the row together.

    `was` is what the spring spanned at the start of the substep.
    """
    ...


@shared
@wp.kernel(launch_bounds=BLOCK)
def substep_on_card(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    again: int,
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rests: wp.array[wp.float64],
    numbers: wp.array[wp.vec2d],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    lengths: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
):
    """Free motion over a substep; then all rows, with the next spring of each thread loaded while threads wait for each
    other. A warp has a row: its threads go the same ways.

    How long a substep is, is the first of `lengths`.
    """
    t = first + wp.tid()
    h = lengths[0]
    per_h = ONE / h
    for i in range(share_begin(t, threads, count), count, share_step(threads, count)):
        predict_row(i, again, push, gravity, air_damping, h, per_h, v, p, before)
    if colours == 0:
        return
    colour = int(0)
    begin = ROW * offsets[0]
    end = ROW * offsets[1]
    i = begin + share_begin(t, threads, end - begin)
    left = share_rounds(threads, end - begin)
    k = wp.min(i, end - ROW + t % ROW)
    ends = load_vec2i(pairs, k)
    rest = rests[k]
    parts = load_vec2d(numbers, k)
    meet(arrivals)
    tied = continues(ends)
    was = span(ends, tied, before)
    while colour < colours:
        following = ROW * offsets[wp.min(colour + 2, colours)]
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
        next_ends = load_vec2i(pairs, k)
        next_rest = rests[k]
        next_parts = load_vec2d(numbers, k)

        if row_there:
            pull_row(ends, tied, rest, parts, was, p)

        meets = crosses and colour < colours
        ticket = arrive(arrivals, meets, size, next_size)
        ends = next_ends
        rest = next_rest
        parts = next_parts
        tied = continues(ends)
        was = span(ends, tied, before)
        await_others(arrivals, meets, size, next_size, ticket)

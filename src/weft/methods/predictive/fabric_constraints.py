"""The constraints of cloth on rows of vertices: springs and hinges (XPBD, Macklin et al. 2016).

Each solves the items from `first` to `last` one after another: the span of a thread on the CPU, one on a card. With more
than one sweep a substep the multipliers add up in `pull`, so that stiffness does not depend on how many there are. Hinges
are so much softer than springs that eight sweeps over them a step are enough: with more substeps they are left out of most,
and pull for all of them in the others. Damping of a spring whose delay is less than a tenth of a substep is left out: the
substep itself damps five times as much.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX, SHARED_VERTICES

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TENTH = wp.constant(wp.float64(0.1))
# sweeps over the hinges that are enough in a step, and the least in the prediction of one
HINGE_SWEEPS = wp.constant(8)
REHEARSED_SWEEPS = wp.constant(2)


# spring i with the vertices q and the numbers s, as C++; a loop around it goes on where there is nothing to do
_STRETCH = """
        const row4 a = rows[q[0]];
        const row4 b = rows[q[1]];
        row4 d = b - a;
        const double mass = a[3] + b[3];
        d[3] = 0.0;
        const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        if (!(squared * mass > 0.0))
            continue;
        const double alpha = s[1] * per_h * per_h;
        const double gamma = s[2] * per_h > 0.1 ? s[2] * per_h : 0.0;
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
    """
# spring i over the vertices q with the weights w, the numbers s and the ways g
_BEND = """
        const row4 a = rows[q[0]];
        const row4 b = rows[q[1]];
        const row4 c = rows[q[2]];
        const row4 d = rows[q[3]];
        row4 r = w[0] * a + w[1] * b + w[2] * c + w[3] * d;
        row4 wanted = r;
        if (s[0] > 0.0) {
            const double length = sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]);
            wanted = (1.0 - s[0] / (length > 1e-30 ? length : 1e-30)) * r;
        }
        if (s[2] * per_h > 0.1) {
            // damping resists the change of r over the substep
            const row4 then = w[0] * was[q[0]] + w[1] * was[q[1]] + w[2] * was[q[2]] + w[3] * was[q[3]];
            wanted = wanted + (s[2] * per_h) * (r - then);
        }
        if (sweeps > 1) {
            // multipliers add up
            const double alpha = s[1] * softness;
            const double gamma = s[2] * per_h > 0.1 ? s[2] * per_h : 0.0;
            const double mass = w[0] * w[0] * a[3] + w[1] * w[1] * b[3] + w[2] * w[2] * c[3] + w[3] * w[3] * d[3];
            if (!(mass > 0.0))
                continue;
            if (sweep > 0)
                wanted = wanted + alpha * pulls[i];
            const row4 step = (-1.0 / ((1.0 + gamma) * mass + alpha)) * wanted;
            pulls[i] = sweep > 0 ? pulls[i] + step : step;
        }
        wanted[3] = 0.0;
        // a stitch names its last vertex more than once, with weight only the first time: that one counts
        rows[q[3]] = d + g[3] * wanted;
        rows[q[2]] = c + g[2] * wanted;
        rows[q[1]] = b + g[1] * wanted;
        rows[q[0]] = a + g[0] * wanted;
    """


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    int i = first;
#if !defined(__CUDACC__)
    // four at once where that is the only sweep: a register holds a number of each
    typedef float half4 __attribute__((vector_size(16)));
    const size_t stride = moves.strides[0] / sizeof(double);
    for (; sweeps == 1 && i + 4 <= last; i += 4) {
        const wp::vec_t<2, int>* q = pairs.data + i;
        row4 a[4], b[4], d[4], m[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            a[k] = rows[q[k][0]];
            b[k] = rows[q[k][1]];
            d[k] = b[k] - a[k];
        }
        ACROSS(d[0], d[1], d[2], d[3], x, y, z)
        const row4 squared = x * x + y * y + z * z;
        // one over the length: a root of half the digits, and the others by Newton's method
        const half4 guess = 1.0f / __builtin_elementwise_sqrt(__builtin_convertvector(squared, half4));
        row4 inverse = __builtin_convertvector(guess, row4);
        inverse = inverse * (1.5 - 0.5 * squared * inverse * inverse);
        const row4 rest = *(const row4*)(moves.data + i), share = *(const row4*)(moves.data + stride + i);
        const row4 gamma = *(const row4*)(moves.data + 2 * stride + i);
        row4 wanted = 1.0 - rest * inverse;
        if (gamma[0] + gamma[1] + gamma[2] + gamma[3] > 0.0) {
            #pragma unroll
            for (int k = 0; k < 4; ++k)
                m[k] = d[k] - was[q[k][1]] + was[q[k][0]];
            ACROSS(m[0], m[1], m[2], m[3], u, v, w)
            wanted += gamma * inverse * inverse * (x * u + y * v + z * w);
        }
        const row4 step = squared > 1e-30 ? share * wanted : row4{0.0, 0.0, 0.0, 0.0};
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            d[k][3] = 0.0;
            rows[q[k][0]] = a[k] + (a[k][3] * step[k]) * d[k];
            rows[q[k][1]] = b[k] - (b[k][3] * step[k]) * d[k];
        }
    }
#endif
    for (; i < last; ++i) {
        const wp::vec_t<2, int> q = pairs.data[i];
        const wp::vec_t<3, double> s = springs.data[i];
    """
    + _STRETCH
    + """
    }
    """
)
def stretch_pairs(
    first: int,
    last: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    moves: wp.array2d[wp.float64],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs between two vertices: rest length, compliance 1/k, delay = damping / k. No two of them share a vertex.

    `moves` is what `prepare_pair` wrote; only four at once ask for it.
    """
    ...


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    for (bool there = given; there; there = false) {
    """
    + _STRETCH
    + """
    }
    """
)
def stretch_loaded(
    given: bool,
    i: int,
    q: wp.vec2i,
    s: wp.vec3d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Such a spring, if it is given, of which all is known but where its ends are now."""
    ...


@wp.func_native(
    SHARED_VERTICES
    + """
#if defined(__CUDA_ARCH__)
    const shared_rows rows{(double*)room - begin};
    const shared_rows_before was{(const double*)room - begin};
    for (bool there = true; there; there = false) {
    """
    + _STRETCH
    + """
    }
#endif
    """
)
def stretch_shared(
    i: int,
    q: wp.vec2i,
    s: wp.vec3d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    begin: int,
    room: wp.uint64,
):
    """The same with rows in the memory of a block, the first of which is that of the vertex `begin`."""
    ...


@wp.func_native(
    """
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
    """
)
def largest_stretch(
    first: int, last: int, pairs: wp.array[wp.vec2i], springs: wp.array[wp.vec3d], x: wp.array[wp.vec3d]
) -> wp.float64:
    """How much longer than at rest some springs are at most, in parts of their length."""
    ...


@wp.func
def hinge_interval(substeps: int, prediction: int) -> int:
    """Hinges are solved in the first of so many substeps of a step, or of its prediction."""
    interval = (substeps + HINGE_SWEEPS - 1) // HINGE_SWEEPS
    if prediction != 0:
        interval = wp.max(1, substeps // REHEARSED_SWEEPS)
    return interval


@wp.func
def hinge_softness(substeps: int, prediction: int, per_h: wp.float64) -> wp.float64:
    """What the compliance of a hinge is multiplied with, where it pulls for all substeps in some."""
    interval = hinge_interval(substeps, prediction)
    sweeps = (substeps + interval - 1) // interval
    return per_h * per_h * wp.float64(sweeps) / wp.float64(substeps)


@wp.func
def prepare_pair(
    i: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    per_h: wp.float64,
    inverse_mass: wp.array[wp.float64],
    moves: wp.array2d[wp.float64],
):
    """Rest length, the way of a unit of mass for a unit of what is wanted, damping; as long as those of a hinge."""
    q = pairs[i]
    s = springs[i]
    mass = inverse_mass[q[0]] + inverse_mass[q[1]]
    gamma = wp.where(s[2] * per_h > TENTH, s[2] * per_h, ZERO)
    moves[0, i] = s[0]
    moves[1, i] = ZERO
    if mass > ZERO:
        moves[1, i] = ONE / ((ONE + gamma) * mass + s[1] * per_h * per_h)
    moves[2, i] = gamma


@wp.func
def prepare_quad(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    stitches: int,
    per_h: wp.float64,
    softness: wp.float64,
    inverse_mass: wp.array[wp.float64],
    moves: wp.array[wp.vec4d],
):
    """The way that each corner of a stitch or hinge makes for a unit of what is wanted; the same until masses or h change.

    The first ones are stitches, which are solved in every substep.
    """
    q = quads[i]
    w = weights[i]
    s = springs[i]
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    mass = wp.dot(w, g)
    gamma = wp.where(s[2] * per_h > TENTH, s[2] * per_h, ZERO)
    soft = wp.where(i < stitches, per_h * per_h, softness)
    moves[i] = wp.vec4d()
    if mass > ZERO:
        moves[i] = (-ONE / ((ONE + gamma) * mass + s[1] * soft)) * g


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    row4* pulls = (row4*)pull.data;
    for (int i = first; i < last; ++i) {
        const wp::vec_t<4, int> q = quads.data[i];
        const wp::vec_t<3, double> s = springs.data[i];
        const row4 w = ((const row4*)weights.data)[i];
        const row4 g = ((const row4*)moves.data)[i];
    """
    + _BEND
    + """
    }
    """
)
def bend_quads(
    first: int,
    last: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    moves: wp.array[wp.vec4d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    softness: wp.float64,
    pull: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs over four vertices: r = sum w_k x_k is to vanish, or to have its rest length."""
    ...


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    row4* pulls = (row4*)pull.data;
    for (bool there = given; there; there = false) {
    """
    + _BEND
    + """
    }
    """
)
def bend_loaded(
    given: bool,
    i: int,
    q: wp.vec4i,
    w: wp.vec4d,
    s: wp.vec3d,
    g: wp.vec4d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    softness: wp.float64,
    pull: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Such a spring, if it is given, of which all is known but where its corners are now."""
    ...


@wp.func_native(
    SHARED_VERTICES
    + """
#if defined(__CUDA_ARCH__)
    const shared_rows rows{(double*)room - begin};
    const shared_rows_before was{(const double*)room - begin};
    row4* pulls = (row4*)pull.data;
    for (bool there = true; there; there = false) {
    """
    + _BEND
    + """
    }
#endif
    """
)
def bend_shared(
    i: int,
    q: wp.vec4i,
    w: wp.vec4d,
    s: wp.vec3d,
    g: wp.vec4d,
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    softness: wp.float64,
    pull: wp.array[wp.vec4d],
    begin: int,
    room: wp.uint64,
):
    """The same with rows in the memory of a block, the first of which is that of the vertex `begin`."""
    ...

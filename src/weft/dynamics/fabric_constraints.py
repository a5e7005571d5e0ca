"""The constraints of cloth on rows of vertices: springs, hinges, attachments and goals (XPBD, Macklin et al. 2016).

Each solves the items from `first` to `last` one after another: all of them where cloth is small, one where each thread
has its own. With more than one sweep a substep the multipliers add up in `pull`, so that stiffness does not depend on
how many there are. Damping of a spring whose delay is less than a tenth of a substep is left out: the substep itself
damps five times as much.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.world.rows import ROW

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TENTH = wp.constant(wp.float64(0.1))


@wp.func_native(
    ROW
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    int i = first;
#if !defined(__CUDACC__)
    // four at once where that is the only sweep: a register holds a number of each
    for (; sweeps == 1 && i + 4 <= last; i += 4) {
        const wp::vec_t<2, int>* q = pairs.data + i;
        const wp::vec_t<3, double>* s = springs.data + i;
        row4 a[4], b[4], d[4];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            a[k] = rows[q[k][0]];
            b[k] = rows[q[k][1]];
            d[k] = b[k] - a[k];
        }
        const row4 x = {d[0][0], d[1][0], d[2][0], d[3][0]};
        const row4 y = {d[0][1], d[1][1], d[2][1], d[3][1]};
        const row4 z = {d[0][2], d[1][2], d[2][2], d[3][2]};
        const row4 mass = {a[0][3] + b[0][3], a[1][3] + b[1][3], a[2][3] + b[2][3], a[3][3] + b[3][3]};
        const row4 squared = x * x + y * y + z * z;
        const row4 length = {sqrt(squared[0]), sqrt(squared[1]), sqrt(squared[2]), sqrt(squared[3])};
        const row4 rest = {s[0][0], s[1][0], s[2][0], s[3][0]};
        const row4 alpha = row4{s[0][1], s[1][1], s[2][1], s[3][1]} * (per_h * per_h);
        const row4 delay = row4{s[0][2], s[1][2], s[2][2], s[3][2]} * per_h;
        row4 wanted = (length - rest) * length;
        row4 share = mass;
        if (delay[0] > 0.1 || delay[1] > 0.1 || delay[2] > 0.1 || delay[3] > 0.1) {
            row4 moved;
            #pragma unroll
        for (int k = 0; k < 4; ++k) {
                const row4 m = d[k] * (d[k] - was[q[k][1]] + was[q[k][0]]);
                moved[k] = m[0] + m[1] + m[2];
            }
            const row4 gamma = delay > 0.1 ? delay : row4{0.0, 0.0, 0.0, 0.0};
            wanted += gamma * moved;
            share = (1.0 + gamma) * mass;
        }
        const row4 step = squared * mass > 0.0 ? wanted / ((share + alpha) * squared) : row4{0.0, 0.0, 0.0, 0.0};
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
        const row4 a = rows[q[0]];
        const row4 b = rows[q[1]];
        row4 d = b - a;
        const double mass = a[3] + b[3];
        d[3] = 0.0;
        const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        if (!(squared * mass > 0.0))
            continue;
        const double length = sqrt(squared);
        const double alpha = s[1] * per_h * per_h;
        const double gamma = s[2] * per_h > 0.1 ? s[2] * per_h : 0.0;
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
        rows[q[0]] = a + (a[3] * step) * d;
        rows[q[1]] = b - (b[3] * step) * d;
    }
    """
)
def stretch_pairs(
    first: int,
    last: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs between two vertices: rest length, compliance 1/k, delay = damping / k. No two of them share a vertex."""
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
def prepare_quad(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    per_h: wp.float64,
    inverse_mass: wp.array[wp.float64],
    moves: wp.array[wp.vec4d],
):
    """The way that each corner of a hinge makes for a unit of what is wanted; the same until masses or h change."""
    q = quads[i]
    w = weights[i]
    s = springs[i]
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    mass = wp.dot(w, g)
    gamma = wp.where(s[2] * per_h > TENTH, s[2] * per_h, ZERO)
    moves[i] = wp.vec4d()
    if mass > ZERO:
        moves[i] = (-ONE / ((ONE + gamma) * mass + s[1] * per_h * per_h)) * g


@wp.func_native(
    ROW
    + """
    row4* rows = (row4*)p.data;
    const row4* was = (const row4*)before.data;
    row4* pulls = (row4*)pull.data;
    for (int i = first; i < last; ++i) {
        const wp::vec_t<4, int> q = quads.data[i];
        const wp::vec_t<3, double> s = springs.data[i];
        const row4 w = ((const row4*)weights.data)[i];
        const row4 g = ((const row4*)moves.data)[i];
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
            const double alpha = s[1] * per_h * per_h;
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
        // a stitch names its last vertex more than once, with weight only the first time
        rows[q[0]] = a + g[0] * wanted;
        if (w[1] != 0.0)
            rows[q[1]] = b + g[1] * wanted;
        if (w[2] != 0.0)
            rows[q[2]] = c + g[2] * wanted;
        if (w[3] != 0.0)
            rows[q[3]] = d + g[3] * wanted;
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
    pull: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs over four vertices: r = sum w_k x_k is to vanish, or to have its rest length."""
    ...


@wp.func_native(
    ROW
    + """
    row4* rows = (row4*)p.data;
    for (int i = first; i < last; ++i) {
        const wp::vec_t<2, int> e = ends.data[i];
        const row4 a = rows[e[0]];
        row4 d = a - rows[e[1]];
        const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
        const double longest = lengths.data[i];
        if (squared > longest * longest && a[3] > 0.0) {
            d[3] = 0.0;
            rows[e[0]] = a - (1.0 - longest / sqrt(squared)) * d;
        }
    }
    """
)
def attach_vertices(
    first: int, last: int, ends: wp.array[wp.vec2i], lengths: wp.array[wp.float64], p: wp.array[wp.vec4d]
):
    """Long-range attachments: a vertex stays within its length of the pin."""
    ...


@wp.func_native(
    ROW
    + """
    row4* rows = (row4*)p.data;
    for (int i = first; i < last; ++i) {
        const int k = vertices.data[i];
        row4 row = rows[k];
        if (!(row[3] > 0.0))
            continue;
        const wp::vec_t<3, double> s = springs.data[i];
        const wp::vec_t<3, double> from = starts.data[i];
        const wp::vec_t<3, double> to = goals.data[i];
        row4 goal, way;
        for (int c = 0; c < 3; ++c) {
            way[c] = to[c] - from[c];
            goal[c] = from[c] + progress * way[c];
        }
        way[3] = 0.0;
        goal[3] = row[3];
        const double stiff = s[0] * s[0] * h * h;
        const double damp = 2.0 * s[1] * s[0] * h;
        const double share = 1.0 / (1.0 + stiff + damp);
        row4 away = row - goal;
        const row4 moved = row - ((const row4*)before.data)[k] - part * way;
        away = away - (share * stiff) * away - (share * damp) * moved;
        const double squared = away[0] * away[0] + away[1] * away[1] + away[2] * away[2];
        if (s[2] > 0.0 && squared > s[2] * s[2])
            away = (s[2] / sqrt(squared)) * away;
        away[3] = 0.0;
        rows[k] = goal + away;
    }
    """
)
def follow_goals(
    first: int,
    last: int,
    vertices: wp.array[int],
    springs: wp.array[wp.vec3d],
    starts: wp.array[wp.vec3d],
    goals: wp.array[wp.vec3d],
    h: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs to where the animation has vertices: angular frequency, damping ratio, reach (0: none).

    The goal goes straight from its start to its end; `part` is the share of the way that a substep makes.
    """
    ...

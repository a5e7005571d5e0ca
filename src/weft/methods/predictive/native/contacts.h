// Contacts of cloth with cloth, projected apart. A contact is a stencil of four vertices: weights w of sum zero, a unit
// normal n from the second side to the first, and the constraint C = n . sum w_k x_k - thickness >= 0. kind 0: an edge-edge
// or vertex-vertex contact, whose weights and normal are stored; kind +1 or -1: a vertex (first) on that side of a triangle
// (the other three), whose normal follows the triangle.

// [plane] plane_of(p, a, b, c, side): stencil of vertex p on one side of triangle abc: weights, normal, gap
typedef wp::vec_t<8, double> stencil8;
const auto plane_of = [](auto p, auto a, auto b, auto c, double side) {
    const double ux = b[0] - a[0], uy = b[1] - a[1], uz = b[2] - a[2];
    const double vx = c[0] - a[0], vy = c[1] - a[1], vz = c[2] - a[2];
    const double rx = p[0] - a[0], ry = p[1] - a[1], rz = p[2] - a[2];
    const double mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
    const double squared = mx * mx + my * my + mz * mz;
    stencil8 s;
    s[0] = 1.0;
    if (squared == 0.0) {
        // a triangle without area has no normal
        s[1] = s[2] = s[3] = -1.0 / 3.0;
        s[4] = s[5] = s[6] = s[7] = 0.0;
        return s;
    }
#if defined(__CUDA_ARCH__)
    const double one = rsqrt(squared), inverse = one * one, unit = side * one;
#else
    const double inverse = 1.0 / squared, unit = side / sqrt(squared);
#endif
    s[2] = -inverse * ((ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz);
    s[3] = -inverse * ((uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz);
    s[1] = -1.0 - s[2] - s[3];
    s[4] = unit * mx;
    s[5] = unit * my;
    s[6] = unit * mz;
    s[7] = s[4] * rx + s[5] * ry + s[6] * rz;
    return s;
};

// [four] CPU: contacts i..i+3 of a vertex with a triangle abc, one a SIMD lane: u = b - a, v = c - a, r = p - a, m = u x v,
// and the height of the vertex over the plane times |m|, positive on the contact's side
const wp::vec_t<4, int>* q = contacts.vertices.data + i;
const row4* at = (const row4*)vertices.p.data;
const row4 o0 = at[q[0][1]], o1 = at[q[1][1]], o2 = at[q[2][1]], o3 = at[q[3][1]];
const row4 r0 = at[q[0][0]] - o0, r1 = at[q[1][0]] - o1, r2 = at[q[2][0]] - o2, r3 = at[q[3][0]] - o3;
const row4 u0 = at[q[0][2]] - o0, u1 = at[q[1][2]] - o1, u2 = at[q[2][2]] - o2, u3 = at[q[3][2]] - o3;
const row4 v0 = at[q[0][3]] - o0, v1 = at[q[1][3]] - o1, v2 = at[q[2][3]] - o2, v3 = at[q[3][3]] - o3;
ACROSS(r0, r1, r2, r3, rx, ry, rz)
ACROSS(u0, u1, u2, u3, ux, uy, uz)
ACROSS(v0, v1, v2, v3, vx, vy, vz)
const row4 mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
const row4 squared = mx * mx + my * my + mz * mz;
const int* k = contacts.kinds.data + i;
const row4 side = {k[0] < 0 ? -1.0 : 1.0, k[1] < 0 ? -1.0 : 1.0, k[2] < 0 ? -1.0 : 1.0, k[3] < 0 ? -1.0 : 1.0};
const row4 height = side * (mx * rx + my * ry + mz * rz);

// [rows] what all contacts share; `$NEAREST` defines nearest_on_triangle
// [include plane]
$NEAREST
const double lever = $LEVER, outside = $OUTSIDE;
const int asleep = $ASLEEP;
row4* rows = (row4*)vertices.p.data;
row4* was_rows = (row4*)vertices.before.data;
const row4* home_rows = (const row4*)vertices.start.data;

// [contact] contact i
const wp::vec_t<4, int> q = contacts.vertices.data[i];
const double thick = contacts.thickness.data[i];
const wp::vec_t<2, double>& rubs = contacts.friction.data[i];
const auto was_at = [&](int k) { return was_rows[q[k]]; };
const auto home_at = [&](int k) { return home_rows[q[k]]; };

// [look] how deep contact i between the vertices q is, and how its corners share that: `continue` where it is open or where
// no corner can move; `seen` says that the height was tested already
const row4 a = rows[q[0]], b = rows[q[1]], c = rows[q[2]], d = rows[q[3]];
stencil8 s;
bool stored = kind == 0;
if (!stored) {
    if (!seen) {
        const double ux = c[0] - b[0], uy = c[1] - b[1], uz = c[2] - b[2];
        const double vx = d[0] - b[0], vy = d[1] - b[1], vz = d[2] - b[2];
        const double mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
        const double height = kind * (mx * (a[0] - b[0]) + my * (a[1] - b[1]) + mz * (a[2] - b[2]));
        if (height > 0.0 && height * height >= thick * thick * (mx * mx + my * my + mz * mz))
            continue;
    }
    s = plane_of(a, b, c, d, (double)kind);
    // far from its triangle a plane that tilts with it would sweep along whatever is there: that of the start is taken
    stored = s[1] > outside || s[2] > outside || s[3] > outside;
}
if (stored) {
    if (kind != 0 && contacts.weights.data[i][0] == 0.0) {
        // the plane at the start of the step is found when it is first needed
        const auto* x = vertices.x.data;
        s = plane_of(x[q[0]], x[q[1]], x[q[2]], x[q[3]], (double)kind);
        const auto w = nearest_on_triangle(x[q[0]], x[q[1]], x[q[2]], x[q[3]]);
        contacts.weights.data[i] = wp::vec_t<4, double>(1.0, -w[0], -w[1], -w[2]);
        contacts.normals.data[i] = wp::vec_t<3, double>(s[4], s[5], s[6]);
    }
    for (int k = 0; k < 4; ++k)
        s[k] = contacts.weights.data[i][k];
    for (int k = 0; k < 3; ++k)
        s[4 + k] = contacts.normals.data[i][k];
}
row4 n, r = s[0] * a + s[1] * b + s[2] * c + s[3] * d;
for (int k = 0; k < 3; ++k)
    n[k] = s[4 + k];
n[3] = r[3] = 0.0;
const double depth = thick - (n[0] * r[0] + n[1] * r[1] + n[2] * r[2]);
if (!(depth > 0.0))
    continue;
// displacement of each corner for a unit of depth, times the mass below
const double g[4] = {s[0] * a[3], s[1] * b[3], s[2] * c[3], s[3] * d[3]};
double mass = 0.0, most = 0.0;
for (int k = 0; k < 4; ++k) {
    mass += s[k] * g[k];
    most = most > fabs(g[k]) ? most : fabs(g[k]);
}
// where only a corner with little weight can move, it would have to go far
mass = mass > most / lever ? mass : most / lever;
if (!(mass > 0.0))
    continue;

// [push] the displacement of the corners: g[k] * step, of which g[k] * back is without velocity, if known > 0
row4 was = s[0] * was_at(0) + s[1] * was_at(1) + s[2] * was_at(2) + s[3] * was_at(3);
was[3] = 0.0;
// depth that was there before the substep, and depth that is new
double known = thick - (n[0] * was[0] + n[1] * was[1] + n[2] * was[2]);
known = known < 0.0 ? 0.0 : (known > depth ? depth : known);
const double met = depth - known;
double undone = 0.0;
if (known > 0.0) {
    // all contacts together separate the two sides by no more than `push` a substep
    const row4 home = s[0] * home_at(0) + s[1] * home_at(1) + s[2] * home_at(2) + s[3] * home_at(3);
    const row4 moved = was - home;
    double rest = push - (n[0] * moved[0] + n[1] * moved[1] + n[2] * moved[2]);
    rest = rest > 0.0 ? rest : 0.0;
    undone = known < rest ? known : rest;
}
row4 step = (met + undone) * n;
const double mu = rub * rubs[0];
if (mu > 0.0 && met > 0.0) {
    // friction takes back all of the sliding while it sticks, else the kinetic share
    row4 slip = r - was;
    slip = slip - (n[0] * slip[0] + n[1] * slip[1] + n[2] * slip[2]) * n;
    const double squared = slip[0] * slip[0] + slip[1] * slip[1] + slip[2] * slip[2];
    double share = 1.0;
    if (squared > mu * mu * met * met) {
        share = rub * rubs[1] * met / sqrt(squared);
        share = share < 1.0 ? share : 1.0;
    }
    step = step - share * slip;
}
step = (1.0 / mass) * step;
const row4 back = (undone / mass) * n;
const row4 corners[4] = {a, b, c, d};

// [write] move the corners
contacts.pushed.data[i] = 1;
// those after it in the four may share a vertex with it: test them again
left = 15;
seen = false;
for (int k = 0; k < 4; ++k) {
    // corners without weight stand for nothing, and may repeat another corner
    if (s[k] == 0.0)
        continue;
    rows[q[k]] = corners[k] + g[k] * step;
    if (known > 0.0)
        was_rows[q[k]] = was_rows[q[k]] + g[k] * back;
}

// [solve_contacts] contacts first..last-1 one after another
// [include rows]
for (int base = first; base < last; base += 4) {
    const int end = base + 4 < last ? base + 4 : last;
    int left = 15;
    bool seen = false;
#if !defined(__CUDACC__)
    if (end == base + 4) {
        // most contacts are open, which is seen for four of a kind without roots and divisions
        const int i = base;
        const int* all = contacts.kinds.data + i;
        const double* t = contacts.thickness.data + i;
        const row4 thick = {t[0], t[1], t[2], t[3]};
        if (all[0] != 0 && all[1] != 0 && all[2] != 0 && all[3] != 0) {
            // [include four]
            const auto open = (height > 0.0) & (height * height >= thick * thick * squared);
            seen = true;
            left = (open[0] ? 0 : 1) | (open[1] ? 0 : 2) | (open[2] ? 0 : 4) | (open[3] ? 0 : 8);
        } else if (all[0] == 0 && all[1] == 0 && all[2] == 0 && all[3] == 0) {
            row4 gap;
            #pragma unroll
            for (int k = 0; k < 4; ++k) {
                const wp::vec_t<4, int> q = contacts.vertices.data[i + k];
                const row4 w = ((const row4*)contacts.weights.data)[i + k];
                const wp::vec_t<3, double> n = contacts.normals.data[i + k];
                const row4 r = w[0] * rows[q[0]] + w[1] * rows[q[1]] + w[2] * rows[q[2]] + w[3] * rows[q[3]];
                gap[k] = n[0] * r[0] + n[1] * r[1] + n[2] * r[2];
            }
            const auto open = gap >= thick;
            left = (open[0] ? 0 : 1) | (open[1] ? 0 : 2) | (open[2] ? 0 : 4) | (open[3] ? 0 : 8);
        }
    }
#endif
    for (int i = base; i < end; ++i) {
        contacts.pushed.data[i] = 0;
        const int kind = contacts.kinds.data[i];
        if (!(left >> (i - base) & 1) || kind == asleep || kind == -asleep)
            continue;
        // [include contact]
        // [include look]
        // [include push]
        // [include write]
    }
}

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

// [measure] how deep contact i between the vertices q is, and how its corners share that; `continue` where it is open or where
// no corner can move
const row4 a = rows[q[0]], b = rows[q[1]], c = rows[q[2]], d = rows[q[3]];
stencil8 s;
bool stored = kind == 0;
if (!stored) {
    // most contacts are open, which is seen without roots and divisions
    const double ux = c[0] - b[0], uy = c[1] - b[1], uz = c[2] - b[2];
    const double vx = d[0] - b[0], vy = d[1] - b[1], vz = d[2] - b[2];
    const double mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
    const double height = kind * (mx * (a[0] - b[0]) + my * (a[1] - b[1]) + mz * (a[2] - b[2]));
    if (height > 0.0 && height * height >= thick * thick * (mx * mx + my * my + mz * mz))
        continue;
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
if (fresh != 0 && kind == 0 && s[0] * s[1] * s[2] * s[3] != 0.0) {
    // two edges after the substeps: nearest points and direction as they are now, on the side of the start
    const auto* x = vertices.x.data;
    const row4 u = b - a, v = d - c, gap = a - c;
    const auto dot = [](const row4& p, const row4& q) { return p[0] * q[0] + p[1] * q[1] + p[2] * q[2]; };
    const double mx = u[1] * v[2] - u[2] * v[1], my = u[2] * v[0] - u[0] * v[2], mz = u[0] * v[1] - u[1] * v[0];
    const double uu = dot(u, u), vv = dot(v, v), uv = dot(u, v), ur = dot(u, gap), vr = dot(v, gap);
    const double area = uu * vv - uv * uv, now = mx * s[4] + my * s[5] + mz * s[6];
    const auto m = wp::cross(x[q[1]] - x[q[0]], x[q[3]] - x[q[2]]);
    const double then = m[0] * s[4] + m[1] * s[5] + m[2] * s[6];
    const double along = uv * vr - ur * vv, across = uu * vr - uv * ur;
    if (now * then > 0.0 && now * now > $TURNED * area && area > $PARALLEL * uu * vv && along > 0.0 && along < area
        && across > 0.0 && across < area) {
        const double unit = (then > 0.0 ? 1.0 : -1.0) / sqrt(area), share = along / area, other = across / area;
        s[0] = 1.0 - share;
        s[1] = share;
        s[2] = other - 1.0;
        s[3] = -other;
        s[4] = unit * mx;
        s[5] = unit * my;
        s[6] = unit * mz;
    }
}
row4 n, r = s[0] * a + s[1] * b + s[2] * c + s[3] * d;
for (int k = 0; k < 3; ++k)
    n[k] = s[4 + k];
n[3] = r[3] = 0.0;
const double depth = thick - (n[0] * r[0] + n[1] * r[1] + n[2] * r[2]);
if (!(depth > 0.0))
    continue;
if (fresh != 0 && depth > $DEEP * thick)
    contacts.deep.data[fresh] = 1;
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
const double mu = friction_factor * rubs[0];
if (mu > 0.0 && met > 0.0) {
    // friction takes back all of the sliding while it sticks, else the kinetic share
    row4 slip = r - was;
    slip = slip - (n[0] * slip[0] + n[1] * slip[1] + n[2] * slip[2]) * n;
    const double squared = slip[0] * slip[0] + slip[1] * slip[1] + slip[2] * slip[2];
    double share = 1.0;
    if (squared > mu * mu * met * met) {
        share = friction_factor * rubs[1] * met / sqrt(squared);
        share = share < 1.0 ? share : 1.0;
    }
    step = step - share * slip;
}
step = (1.0 / mass) * step;
const row4 back = (undone / mass) * n;
const row4 corners[4] = {a, b, c, d};

// [write] move the corners
contacts.pushed.data[i] = 1;
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
for (int i = first; i < last; ++i) {
    contacts.pushed.data[i] = 0;
    const int kind = contacts.kinds.data[i];
    if (kind == asleep || kind == -asleep)
        continue;
    // [include contact]
    // [include measure]
    // [include push]
    // [include write]
}

// [refresh_contact] cached contact i at the start of a step: it walks to the neighbouring triangle that is nearest
$NEAREST
typedef wp::vec_t<3, double> point3;
const auto* x = vertices.x.data;
const auto* faces = vertices.faces.data;
const int q = contacts.vertices.data[i][0];
const double side = contacts.kinds.data[i] < 0 ? -1.0 : 1.0;
const point3 p = x[q];
const auto away_from = [&](wp::vec_t<3, int> f) {
    const auto w = nearest_on_triangle(p, x[f[0]], x[f[1]], x[f[2]]);
    return p - w[0] * x[f[0]] - w[1] * x[f[1]] - w[2] * x[f[2]];
};
int face = contacts.triangles.data[i];
double squared = 0.0, distance = -1.0;
point3 m;
for (int step = 0; step <= $WALK; ++step) {
    const wp::vec_t<3, int> f = faces[face];
    const point3 a = x[f[0]], u = x[f[1]] - a, v = x[f[2]] - a, r = p - a;
    m = wp::cross(u, v);
    squared = wp::dot(m, m);
    // barycentric coordinates of the foot, times |m|^2; the corner that it has left farthest behind
    const double wb = wp::dot(wp::cross(r, v), m), wc = wp::dot(wp::cross(u, r), m), wa = squared - wb - wc;
    const int corner = wb <= wa && wb <= wc ? 1 : (wc <= wa ? 2 : 0);
    const double least = corner == 1 ? wb : (corner == 2 ? wc : wa);
    const int other = vertices.across.data[face][corner];
    if (least >= $BORDER * squared || other < 0 || step == $WALK)
        break;
    // beside the edge the present triangle is nearest on the edge, and the one across is nearer if it rises from there towards
    // the vertex; where both are nearest on the edge, a comparison of distances would be decided by rounding
    const int s = corner == 0 ? f[1] : (corner == 1 ? f[2] : f[0]);
    const wp::vec_t<3, int> g = faces[other];
    const point3 e = x[f[0] + f[1] + f[2] - f[corner] - s] - x[s], from = p - x[s];
    const double ee = wp::dot(e, e), fe = wp::dot(from, e);
    if (fe >= 0.0 && fe <= ee) {
        const point3 w = x[g[0] + g[1] + g[2] - f[0] - f[1] - f[2] + f[corner]] - x[s];
        if (!(ee * wp::dot(from, w) > fe * wp::dot(e, w)))
            break;
        face = other;
        distance = -1.0;
        continue;
    }
    if (distance < 0.0) {
        const point3 away = away_from(f);
        distance = wp::dot(away, away);
    }
    const point3 away = away_from(g);
    if (wp::dot(away, away) >= distance)
        break;
    face = other;
    distance = wp::dot(away, away);
}
const wp::vec_t<3, int> f = faces[face];
if (face != contacts.triangles.data[i]) {
    contacts.triangles.data[i] = face;
    contacts.vertices.data[i] = wp::vec_t<4, int>(q, f[0], f[1], f[2]);
}
int kind = $AWAKE;
const double height = side * wp::dot(m, p - x[f[0]]);
if (height < 0.0) {
    // through the layer: certain only right over the triangle, and where both face the same way
    point3 normal(0.0, 0.0, 0.0);
    for (int s = vertices.corner_offsets.data[q]; s < vertices.corner_offsets.data[q + 1]; ++s) {
        const wp::vec_t<3, int> g = faces[vertices.corners.data[s] / 3];
        normal = normal + wp::cross(x[g[1]] - x[g[0]], x[g[2]] - x[g[0]]);
    }
    const point3 away = away_from(f);
    if (wp::dot(normal, m) <= 0.0 || height * height < $OVER * $OVER * squared * wp::dot(away, away))
        kind = $ASLEEP;
}
contacts.kinds.data[i] = side < 0.0 ? -kind : kind;
contacts.weights.data[i][0] = 0.0;

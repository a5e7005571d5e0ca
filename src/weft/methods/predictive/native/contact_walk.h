// Cached contacts of a vertex with a triangle at the start of a step: they walk to the neighbouring triangle that is nearest.

// [refresh_four] CPU: contacts i..i+3; a bit for each of those that must be looked at one by one, the others stay as they are
#if defined(__CUDACC__)
return 15;
#else
$FOUR
// barycentric coordinates of the foot, times |m|^2
const row4 wb = (ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz;
const row4 wc = (uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz;
const row4 wa = squared - wb - wc;
const row4 least = $BORDER * squared;
auto stays = (wa >= least) & (wb >= least) & (wc >= least) & (height >= 0.0);
const auto asked = (height >= 0.0) & ~stays;
if (asked[0] | asked[1] | asked[2] | asked[3]) {
    // the edge beyond which the foot lies: from s, along e, opposite the corner
    const row4 none = {0.0, 0.0, 0.0, 0.0};
    const auto second = (wb <= wa) & (wb <= wc), third = ~second & (wc <= wa);
    const row4 sx = second ? vx : (third ? none : ux), ex = second ? -vx : (third ? ux : vx - ux);
    const row4 sy = second ? vy : (third ? none : uy), ey = second ? -vy : (third ? uy : vy - uy);
    const row4 sz = second ? vz : (third ? none : uz), ez = second ? -vz : (third ? uz : vz - uz);
    const row4 fx = rx - sx, fy = ry - sy, fz = rz - sz;
    const row4 ee = ex * ex + ey * ey + ez * ez, fe = fx * ex + fy * ey + fz * ez;
    const auto beside = asked & (fe >= 0.0) & (fe <= ee);
    // the corner of the triangle across it, or that the cloth ends there
    row4 w[4] = {o0, o1, o2, o3};
    wp::int64 end[4] = {-1, -1, -1, -1};
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        if (!asked[j])
            continue;
        const int corner = second[j] ? 1 : (third[j] ? 2 : 0);
        const int other = vertices.across.data[contacts.triangles.data[i + j]][corner];
        if (other >= 0) {
            const wp::vec_t<3, int> f = vertices.faces.data[other];
            const int far = f[0] + f[1] + f[2] - q[j][1] - q[j][2] - q[j][3] + q[j][1 + corner];
            w[j] = at[far];
            end[j] = 0;
        }
    }
    ACROSS(w[0] - o0, w[1] - o1, w[2] - o2, w[3] - o3, gx, gy, gz)
    const row4 wx = gx - sx, wy = gy - sy, wz = gz - sz;
    const auto nearer = ee * (fx * wx + fy * wy + fz * wz) > fe * (ex * wx + ey * wy + ez * wz);
    const decltype(asked) ends = {end[0], end[1], end[2], end[3]};
    stays |= asked & (ends | (beside & ~nearer));
}
int left = 0;
for (int j = 0; j < 4; ++j) {
    contacts.kinds.data[i + j] = k[j] < 0 ? -$AWAKE : $AWAKE;
    contacts.weights.data[i + j][0] = 0.0;
    left |= stays[j] ? 0 : 1 << j;
}
return left;
#endif

// [refresh_contact] contact i
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

// Most candidates of a broad phase make no contact, which few operations show: these bounds reject no pair that would make one.
// `places` are positions, `*_ways` displacements of features over the step: their mean, and in the last number the radius of a
// ball around it that holds those of all corners.

// [may_touch_triangle] vertex pair[0] and triangle pair[1]
const row4* rows = (const row4*)motion.places.data;
const wp::vec_t<3, int> f = surface.faces.data[pair[1]];
const row4 a = rows[f[0]];
const row4 u = rows[f[1]] - a, v = rows[f[2]] - a, r = rows[pair[0]] - a;
const row4 own_way = ((const row4*)motion.vertex_ways.data)[pair[0]];
const row4 face_way = ((const row4*)motion.face_ways.data)[pair[1]];
const row4 c = own_way - face_way;
// the largest displacement of both against each other is that of the means and both radii
const double near = sqrt(c[0] * c[0] + c[1] * c[1] + c[2] * c[2]) + own_way[3] + face_way[3] + reach;
const double mx = u[1] * v[2] - u[2] * v[1], my = u[2] * v[0] - u[0] * v[2], mz = u[0] * v[1] - u[1] * v[0];
const double area = mx * mx + my * my + mz * mz;
const double height = mx * r[0] + my * r[1] + mz * r[2];
const double h = height * height, most = near * near * area;
// barycentric coordinates of the foot, times the area, and squares of the edges that they count from
const double wb = (r[1] * v[2] - r[2] * v[1]) * mx + (r[2] * v[0] - r[0] * v[2]) * my + (r[0] * v[1] - r[1] * v[0]) * mz;
const double wc = (u[1] * r[2] - u[2] * r[1]) * mx + (u[2] * r[0] - u[0] * r[2]) * my + (u[0] * r[1] - u[1] * r[0]) * mz;
const double wa = area - wb - wc;
const auto squared = [](double x, double y, double z) { return x * x + y * y + z * z; };
// beyond an edge: farther away than near, or at more than 60 degrees from the normal
const auto past = [&](double w, double e) {
    return w < 0.0 && (w * w > $STEEP * h * e || w * w + h * e > most * e);
};
return !(h > most || past(wa, squared(v[0] - u[0], v[1] - u[1], v[2] - u[2])) || past(wb, squared(v[0], v[1], v[2]))
    || past(wc, squared(u[0], u[1], u[2])));

// [may_touch_edge] edges pair[0] and pair[1]
const row4* rows = (const row4*)motion.places.data;
const wp::vec_t<2, int> e = surface.edges.data[pair[0]], f = surface.edges.data[pair[1]];
const row4 u = rows[e[1]] - rows[e[0]], v = rows[f[1]] - rows[f[0]], r = rows[e[0]] - rows[f[0]];
const row4 first_way = ((const row4*)motion.edge_ways.data)[pair[0]];
const row4 second_way = ((const row4*)motion.edge_ways.data)[pair[1]];
const row4 c = first_way - second_way;
const row4 rest = ((const row4*)surface.rest_middles.data)[pair[0]] - ((const row4*)surface.rest_middles.data)[pair[1]];
const auto dot = [](const row4& a, const row4& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; };
// the last number of a middle is the cloth: between two cloths nothing is straight
const double least = rest[3] == 0.0 ? $STRAIGHT * $STRAIGHT * dot(rest, rest) : 1e300;
const int m0 = surface.marks.data[pair[0]], m1 = surface.marks.data[pair[1]];
double near = sqrt(dot(c, c)) + first_way[3] + second_way[3];
const bool fast = near > $DISPLACEMENT_RATIO * reach;
near = near + reach;
const double uu = dot(u, u), vv = dot(v, v), uv = dot(u, v), ur = dot(u, r), vr = dot(v, r);
const double area = uu * vv - uv * uv;
double s = uv * vr - ur * vv, t = uu * vr - uv * ur;
if (uu == 0.0 || vv == 0.0)
    return true;
// inside both edges: how far apart the lines are
if (s > 0.0 && s < area && t > 0.0 && t < area) {
    const double volume = r[0] * (u[1] * v[2] - u[2] * v[1]) + r[1] * (u[2] * v[0] - u[0] * v[2])
        + r[2] * (u[0] * v[1] - u[1] * v[0]);
    return volume * volume <= near * near * area;
}
// where the middles are and stay as far apart as at rest, the cloth between them is straight
const row4 between = r + 0.5 * (u - v), later = between + c;
if (!(dot(between, between) < least || dot(later, later) < least))
    return false;
// an end of one and the inside of the other: only the first edge of that end, at a sharp fold or in fast motion
const bool take_first = fast || (m1 & $SHARP) != 0, take_second = fast || (m0 & $SHARP) != 0;
if (!(((m0 & ($FIRST | $SECOND)) != 0 && take_first) || ((m1 & ($FIRST | $SECOND)) != 0 && take_second)))
    return false;
// the nearest points
const auto unit = [](double w) { return w < 0.0 ? 0.0 : (w > 1.0 ? 1.0 : w); };
s = unit(area > 1e-14 * uu * vv ? s / area : 0.0);
t = (uv * s + vr) / vv;
s = t < 0.0 ? unit(-ur / uu) : (t > 1.0 ? unit((uv - ur) / uu) : s);
t = unit(t);
const row4 d = r + s * u - t * v;
const bool in_e = s > $END && s < 1.0 - $END, in_f = t > $END && t < 1.0 - $END;
const bool first_e = (m0 & (s < 0.5 ? $FIRST : $SECOND)) != 0, first_f = (m1 & (t < 0.5 ? $FIRST : $SECOND)) != 0;
const bool chosen = (in_e && in_f) || (!in_e && in_f && first_e && take_first) || (in_e && !in_f && first_f && take_second);
return chosen && dot(d, d) <= near * near;

// [fold] cosine of the angle between two triangles; 0 if one has no area
const auto normal_of = [&](wp::vec_t<3, int> f) {
    return wp::cross(x.data[f[1]] - x.data[f[0]], x.data[f[2]] - x.data[f[0]]);
};
const auto n = normal_of(faces.data[wings[0]]), m = normal_of(faces.data[wings[1]]);
const double both = wp::dot(n, n) * wp::dot(m, m);
return both > 0.0 ? wp::dot(n, m) / sqrt(both) : 0.0;

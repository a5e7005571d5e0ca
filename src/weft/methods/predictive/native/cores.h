// Which edges can be near to the core of a collider.

// [comes_near] whether the longest edge of vertex i, at the start and at the end of the step, reaches from it to the core of collider
// k; how near the vertex itself comes is looked at in the frame of the collider, about its centre
typedef wp::vec_t<3, double> point;
const point centre = c.shapes.data[k].centre;
const wp::vec_t<4, double> core = c.cores.data[k];
const row4* rows = (const row4*)a.p.data;
const row4 row = rows[i];
const point* starts = a.x.data;
const point start = starts[i];
// from the nearest point of the core to a point
const auto off_core = [&](const wp::mat_t<4, 4, double>& pose, const double x, const double y, const double z) {
    double off[3], to[3] = {x, y, z};
    for (int r = 0; r < 3; ++r)
        to[r] -= pose.data[r][0] * centre[0] + pose.data[r][1] * centre[1] + pose.data[r][2] * centre[2] + pose.data[r][3];
    for (int r = 0; r < 3; ++r)
        off[r] = pose.data[0][r] * to[0] + pose.data[1][r] * to[1] + pose.data[2][r] * to[2];
    const double squared = core[0] * core[0] + core[1] * core[1] + core[2] * core[2];
    double along = squared > 0.0 ? (off[0] * core[0] + off[1] * core[1] + off[2] * core[2]) / squared : 0.0;
    along = along < -1.0 ? -1.0 : (along > 1.0 ? 1.0 : along);
    return point(off[0] - along * core[0], off[1] - along * core[1], off[2] - along * core[2]);
};
const point off = off_core(c.start.data[k], start[0], start[1], start[2]);
const point way = off_core(c.end.data[k], row[0], row[1], row[2]) - off;
const double moved = wp::dot(way, way);
double share = moved > 0.0 ? -wp::dot(off, way) / moved : 0.0;
share = share < 0.0 ? 0.0 : (share > 1.0 ? 1.0 : share);
const point least = off + share * way;
double longest = 0.0;
for (int e = a.neighbour_offsets.data[i]; e < a.neighbour_offsets.data[i + 1]; ++e) {
    const int j = a.neighbours.data[e];
    const point u = starts[j] - start;
    const row4 v = rows[j] - row;
    const double before = wp::dot(u, u), now = v[0] * v[0] + v[1] * v[1] + v[2] * v[2];
    longest = longest > before ? longest : before;
    longest = longest > now ? longest : now;
}
const double near = $DEPTH * core[3], distance = wp::dot(least, least);
// longest >= distance - near, without roots where there is nothing near
return distance <= near * near || longest >= distance + near * near - 2.0 * near * sqrt(distance);

// Half-spaces that keep vertices out of colliders.

// [near_mask] which of the spots begin..begin+count-1 (at most 64) get in reach of a capsule or a plane: bit k for spot begin
// + k written without branches, sixteen spots at a time, so that the compiler uses vector instructions
const float* p = spots.data + begin;
const size_t stride = spots.strides[0] / sizeof(float);
const float px = place[0], py = place[1], pz = place[2];
const float ax = axis[0], ay = axis[1], az = axis[2];
const float sx = shift[0], sy = shift[1], sz = shift[2];
const float tx = spin[0], ty = spin[1], tz = spin[2];
wp::uint64 mask = 0;
for (int base = 0; base < count; base += 16, p += 16) {
    unsigned int bits = 0;
    for (int k = 0; k < 16; ++k) {
        const float x = p[k] - px, y = p[k + stride] - py, z = p[k + 2 * stride] - pz;
        // displacement relative to the collider, as if a point of it were at the spot
        const float a = p[k + 4 * stride] - sx - (ty * z - tz * y);
        const float b = p[k + 5 * stride] - sy - (tz * x - tx * z);
        const float c = p[k + 6 * stride] - sz - (tx * y - ty * x);
        const float limit = p[k + 3 * stride] + far;
        const float along = x * ax + y * ay + z * az;
        const float inner = along < -half ? -half : (along > half ? half : along);
        const float u = x - inner * ax, v = y - inner * ay, w = z - inner * az;
        const float squared = u * u + v * v + w * w, length = sqrtf(squared);
        // how much nearer it comes, times the distance
        float closer = u * a + v * b + w * c;
        if (loose)
            closer = -length * sqrtf(a * a + b * b + c * c);
        closer = closer < 0.0f ? closer : 0.0f;
        float direct = ax * a + ay * b + az * c;
        direct = direct < 0.0f ? direct : 0.0f;
        const unsigned int out = flat ? along + direct > limit : squared + closer > limit * length;
        bits |= (out ^ 1u) << k;
    }
    mask |= (wp::uint64)bits << base;
}
return count < 64 ? mask & (((wp::uint64)1 << count) - 1) : mask;

// [write_spot] a vertex in single precision; its reach grows by what that may lose
float* s = spots.data + i;
const size_t stride = spots.strides[0] / sizeof(float);
double size = reach;
for (int k = 0; k < 3; ++k) {
    s[k * stride] = (float)x[k];
    s[(4 + k) * stride] = (float)way[k];
    size += fabs(x[k]) + fabs(way[k]);
}
s[3 * stride] = (float)(reach + $ROUNDING * size);

// [faces_along] whether the normal of the cloth at vertex i is on the side of another normal
const auto* x = vertices.x.data;
const wp::vec_t<3, double> own = x[i];
double total = 0.0;
for (int s = vertices.corner_offsets.data[i]; s < vertices.corner_offsets.data[i + 1]; ++s) {
    const int face = vertices.corners.data[s] / 3, corner = vertices.corners.data[s] - 3 * face;
    const wp::vec_t<3, int>& f = vertices.faces.data[face];
    total += wp::dot(wp::cross(x[f[corner < 2 ? corner + 1 : 0]] - own, x[f[corner > 0 ? corner - 1 : 2]] - own), normal);
}
return total > 0.0;

// [measure_end_depths] how deep the other ends of edges are in half-spaces first..last-1, now and at the start of the substep
const row4* rows = (const row4*)vertices.p.data;
const row4* was_rows = (const row4*)vertices.before.data;
for (int i = first; i < last; ++i) {
    const int j = halves.others.data[i];
    if (j < 0)
        continue;
    const row4 row = rows[j], was = was_rows[j];
    const wp::vec_t<3, double> n = halves.normals.data[i];
    const wp::vec_t<2, double> plane = halves.offsets.data[i];
    const double out = halves.thickness.data[i] + plane[0];
    const double depth = out + progress * plane[1] - (n[0] * row[0] + n[1] * row[1] + n[2] * row[2]);
    const double known = out + (progress - share_of_step) * plane[1] - (n[0] * was[0] + n[1] * was[1] + n[2] * was[2]);
    halves.far.data[i] = wp::vec_t<2, double>(depth, known);
}

// [solve_half_spaces] half-spaces first..last-1, with friction
row4* rows = (row4*)vertices.p.data;
row4* was_rows = (row4*)vertices.before.data;
for (int i = first; i < last; ++i) {
    const int k = halves.vertices.data[i];
    const row4 row = rows[k];
    const wp::vec_t<3, double> normal = halves.normals.data[i];
    const wp::vec_t<2, double> plane = halves.offsets.data[i];
    const double out = halves.thickness.data[i] + plane[0];
    double depth = out + progress * plane[1] - (normal[0] * row[0] + normal[1] * row[1] + normal[2] * row[2]);
    halves.pushed.data[i] = 0;
    // of an edge the nearest point is kept out, and this end moves by its share
    const int j = halves.others.data[i];
    double gain = 1.0, weight = 1.0;
    if (j >= 0) {
        weight = halves.weights.data[i];
        const double rest = 1.0 - weight, own = weight * row[3];
        depth = weight * depth + rest * halves.far.data[i][0];
        gain = own / (weight * own + rest * rest * vertices.inverse_mass.data[j]);
        gain = gain < $GAIN ? gain : $GAIN;
    }
    if (!(depth > 0.0 && row[3] > 0.0))
        continue;
    halves.pushed.data[i] = 1;
    row4 n, x = row, was = was_rows[k];
    for (int c = 0; c < 3; ++c)
        n[c] = normal[c];
    n[3] = 0.0;
    // depth that was there before the substep, and depth that is new
    double known = out + (progress - share_of_step) * plane[1] - (n[0] * was[0] + n[1] * was[1] + n[2] * was[2]);
    if (j >= 0)
        known = weight * known + (1.0 - weight) * halves.far.data[i][1];
    known = known < 0.0 ? 0.0 : (known > depth ? depth : known);
    const double met = gain * (depth - known);
    known = gain * known;
    const row4 moved = was - ((const row4*)vertices.start.data)[k];
    double rest = push - (n[0] * moved[0] + n[1] * moved[1] + n[2] * moved[2]);
    rest = rest > 0.0 ? rest : 0.0;
    const double undone = known < rest ? known : rest;
    x = x + (met + undone) * n;
    was = was + undone * n;
    const double mu = friction_factor * halves.friction.data[i][0];
    if (mu > 0.0) {
        row4 slip = x - was;
        for (int c = 0; c < 3; ++c)
            slip[c] -= share_of_step * halves.ways.data[i][c];
        slip = slip - (n[0] * slip[0] + n[1] * slip[1] + n[2] * slip[2]) * n;
        slip[3] = 0.0;
        // friction takes back all of the sliding while it sticks, else the kinetic share
        const double squared = slip[0] * slip[0] + slip[1] * slip[1] + slip[2] * slip[2];
        double share = 1.0;
        if (squared > mu * mu * met * met) {
            share = friction_factor * halves.friction.data[i][1] * met / sqrt(squared);
            share = share < 1.0 ? share : 1.0;
        }
        x = x - share * slip;
    }
    rows[k] = x;
    was_rows[k] = was;
}

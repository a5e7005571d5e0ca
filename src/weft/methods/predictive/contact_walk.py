"""Cached contacts at the start of a step (Lewin 2018, section 5.2): layers slide, so contacts go on to other triangles."""

# mypy: disable-error-code="arg-type, empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.contacts import FOUR, NEAREST

wp.set_module_options({"enable_backward": False})

# a cached contact goes on to the next triangle when the foot is so far outside of its own
BORDER = wp.constant(wp.float64(-0.02))
# triangles that it passes in a step at most
WALK = wp.constant(4)
# how many contacts are looked at together
LANES = wp.constant(4)


@wp.func
def vertex_normal(
    i: int, x: wp.array[wp.vec3d], faces: wp.array[wp.vec3i], offsets: wp.array[int], corners: wp.array[int]
) -> wp.vec3d:
    """The sum of the normals of the triangles at a vertex, each as long as twice its area."""
    total = wp.vec3d()
    for s in range(offsets[i], offsets[i + 1]):
        f = faces[corners[s] // 3]
        total += wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    return total


@wp.func_native(
    PACKED_VERTEX
    + """
#if defined(__CUDACC__)
    return false;
#else
    const row4* rows = (const row4*)p.data;
    row4 total = {0.0, 0.0, 0.0, 0.0};
    for (int s = offsets.data[i]; s < offsets.data[i + 1]; ++s) {
        const wp::vec_t<3, int> f = faces.data[corners.data[s] / 3];
        const row4 a = rows[f[0]], u = rows[f[1]] - a, v = rows[f[2]] - a;
        // u x v, each coordinate two places on
        total += u * __builtin_shufflevector(v, v, 1, 2, 0, 3) - __builtin_shufflevector(u, u, 1, 2, 0, 3) * v;
    }
    return total[1] * normal[0] + total[2] * normal[1] + total[0] * normal[2] > 0.0;
#endif
    """
)
def faces_along(
    i: int,
    normal: wp.vec3d,
    faces: wp.array[wp.vec3i],
    offsets: wp.array[int],
    corners: wp.array[int],
    p: wp.array[wp.vec4d],
) -> bool:
    """Whether `vertex_normal` is on the side of another normal, from rows of vertices; on the CPU only."""
    ...


@wp.func_native(
    PACKED_VERTEX
    + """
#if defined(__CUDACC__)
    return 15;
#else
    """
    + FOUR
    + """
    // barycentric coordinates of the foot, times the square
    const row4 wb = (ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz;
    const row4 wc = (uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz;
    const row4 wa = squared - wb - wc;
    const row4 least = border * squared;
    auto stays = (wa >= least) & (wb >= least) & (wc >= least) & (height >= 0.0);
    const auto asked = (height >= 0.0) & ~stays;
    if (asked[0] | asked[1] | asked[2] | asked[3]) {
        // the edge that the foot has left behind: from s, along e, opposite the corner
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
            const int other = across.data[triangles.data[i + j]][corner];
            if (other >= 0) {
                const wp::vec_t<3, int> f = faces.data[other];
                const int far = f[0] + f[1] + f[2] - q[j][1] - q[j][2] - q[j][3] + q[j][1 + corner];
                w[j] = rows[far];
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
        kinds.data[i + j] = k[j] < 0 ? -awake : awake;
        weights.data[i + j][0] = 0.0;
        left |= stays[j] ? 0 : 1 << j;
    }
    return left;
#endif
    """
)
def refresh_lanes(
    i: int,
    border: wp.float64,
    awake: int,
    faces: wp.array[wp.vec3i],
    across: wp.array[wp.vec3i],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    triangles: wp.array[int],
    weights: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
) -> int:
    """Four cached contacts from i on, of which those that stay with their triangles are done with this.

    Their planes are not looked at until they are needed. Gives a bit for each of the others.
    """
    ...


@wp.func_native(
    PACKED_VERTEX
    + NEAREST
    + """
    typedef wp::vec_t<3, double> point3;
    const int q = vertices.data[i][0];
    const double side = kinds.data[i] < 0 ? -1.0 : 1.0;
    const point3 p = x.data[q];
    const auto away_from = [&](wp::vec_t<3, int> f) {
        const auto w = nearest_of(p, x.data[f[0]], x.data[f[1]], x.data[f[2]]);
        return p - w[0] * x.data[f[0]] - w[1] * x.data[f[1]] - w[2] * x.data[f[2]];
    };
    int face = triangles.data[i];
    double squared = 0.0, distance = -1.0;
    point3 m;
    for (int step = 0; step <= walk; ++step) {
        const wp::vec_t<3, int> f = faces.data[face];
        const point3 a = x.data[f[0]], u = x.data[f[1]] - a, v = x.data[f[2]] - a, r = p - a;
        m = wp::cross(u, v);
        squared = wp::dot(m, m);
        // barycentric coordinates of the foot, times the square; the corner that it has left farthest behind
        const double wb = wp::dot(wp::cross(r, v), m), wc = wp::dot(wp::cross(u, r), m), wa = squared - wb - wc;
        const int corner = wb <= wa && wb <= wc ? 1 : (wc <= wa ? 2 : 0);
        const double least = corner == 1 ? wb : (corner == 2 ? wc : wa);
        const int other = across.data[face][corner];
        if (least >= border * squared || other < 0 || step == walk)
            break;
        // beside the edge the own triangle is nearest there, and the one across is nearer if it rises from there to the
        // vertex; where both are nearest on the edge, a comparison of distances would go by rounding
        const int s = corner == 0 ? f[1] : (corner == 1 ? f[2] : f[0]);
        const wp::vec_t<3, int> g = faces.data[other];
        const point3 e = x.data[f[0] + f[1] + f[2] - f[corner] - s] - x.data[s], from = p - x.data[s];
        const double ee = wp::dot(e, e), fe = wp::dot(from, e);
        if (fe >= 0.0 && fe <= ee) {
            const point3 w = x.data[g[0] + g[1] + g[2] - f[0] - f[1] - f[2] + f[corner]] - x.data[s];
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
    const wp::vec_t<3, int> f = faces.data[face];
    if (face != triangles.data[i]) {
        triangles.data[i] = face;
        vertices.data[i] = wp::vec_t<4, int>(q, f[0], f[1], f[2]);
    }
    int kind = awake;
    const double height = side * wp::dot(m, p - x.data[f[0]]);
    if (height < 0.0) {
        // through the layer: certain only right over the triangle, and where both face the same way
        point3 normal(0.0, 0.0, 0.0);
        for (int s = offsets.data[q]; s < offsets.data[q + 1]; ++s) {
            const wp::vec_t<3, int> g = faces.data[corners.data[s] / 3];
            normal = normal + wp::cross(x.data[g[1]] - x.data[g[0]], x.data[g[2]] - x.data[g[0]]);
        }
        const point3 away = away_from(f);
        if (wp::dot(normal, m) <= 0.0 || height * height < over * over * squared * wp::dot(away, away))
            kind = asleep;
    }
    kinds.data[i] = side < 0.0 ? -kind : kind;
    weights.data[i][0] = 0.0;
    """
)
def refresh_contact(
    i: int,
    border: wp.float64,
    walk: int,
    over: wp.float64,
    awake: int,
    asleep: int,
    faces: wp.array[wp.vec3i],
    across: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    triangles: wp.array[int],
    weights: wp.array[wp.vec4d],
    offsets: wp.array[int],
    corners: wp.array[int],
):
    """A cached contact at the start of a step: from its triangle to the neighbour that is nearer to the vertex, and so on.

    It sleeps where the vertex is on the wrong side and not certainly through. Its plane is not looked at until needed.
    """
    ...

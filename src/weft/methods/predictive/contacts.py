"""Contacts of cloth with cloth (Lewin 2018, section 4): made once a step, kept apart in every sweep.

Three kinds, all of them stencils (four vertices, four weights of sum zero, a unit normal n from the second side to the
first), with the constraint C = n . sum w_k x_k - 2r >= 0:

- vertex p and triangle abc: only the side is kept. n is the triangle's normal as it is now, on that side; the weights
  are those of the foot of p in the triangle's plane, wherever that is: C = n . (p - a) - 2r, and its gradient with
  respect to a corner is minus the foot's barycentric coordinate there times n, for tilting the triangle moves its plane
  at p by just that. So one multiplication with n serves for all.
- edge and edge, vertex and vertex: n and the weights are those of the nearest points at the start of the step.

Contacts that are cached for many steps are of the first kind only.
"""

# mypy: disable-error-code="arg-type"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.runtime.buffers import Buffer

wp.set_module_options({"enable_backward": False})

# what a contact is; the sign of the latter two is its side
FROZEN = wp.constant(0)
TRIANGLE = wp.constant(1)
ASLEEP = wp.constant(2)
# cosine of the largest angle between a normal and the direction across it where two things lie over each other
OVER = wp.constant(wp.float64(0.9))

Stencil = wp.types.vector(length=8, dtype=wp.float64)
"""A constraint as it is now: four weights, the normal, the gap."""

# how a vertex p lies to a triangle abc, as C++: weights, normal and gap; a triangle without area has no normal
_PLANE = """
    typedef wp::vec_t<8, double> plane8;
    const auto plane_of = [](auto p, auto a, auto b, auto c, double side) {
        const double ux = b[0] - a[0], uy = b[1] - a[1], uz = b[2] - a[2];
        const double vx = c[0] - a[0], vy = c[1] - a[1], vz = c[2] - a[2];
        const double rx = p[0] - a[0], ry = p[1] - a[1], rz = p[2] - a[2];
        const double mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
        const double squared = mx * mx + my * my + mz * mz;
        plane8 s;
        s[0] = 1.0;
        if (squared == 0.0) {
            s[1] = s[2] = s[3] = -1.0 / 3.0;
            s[4] = s[5] = s[6] = s[7] = 0.0;
            return s;
        }
#if defined(__CUDA_ARCH__)
        const double one = rsqrt(squared), part = one * one, unit = side * one;
#else
        const double part = 1.0 / squared, unit = side / sqrt(squared);
#endif
        s[2] = -part * ((ry * vz - rz * vy) * mx + (rz * vx - rx * vz) * my + (rx * vy - ry * vx) * mz);
        s[3] = -part * ((uy * rz - uz * ry) * mx + (uz * rx - ux * rz) * my + (ux * ry - uy * rx) * mz);
        s[1] = -1.0 - s[2] - s[3];
        s[4] = unit * mx;
        s[5] = unit * my;
        s[6] = unit * mz;
        s[7] = s[4] * rx + s[5] * ry + s[6] * rz;
        return s;
    };
"""
# the barycentric coordinates of the point of a triangle that is nearest to p, as C++, as `nearest_on_triangle` has it
NEAREST = """
    const auto nearest_of = [](auto p, auto a, auto b, auto c) {
        typedef wp::vec_t<3, double> bary3;
        double d1 = 0.0, d2 = 0.0, d3 = 0.0, d4 = 0.0, d5 = 0.0, d6 = 0.0;
        for (int k = 0; k < 3; ++k) {
            const double u = b[k] - a[k], v = c[k] - a[k];
            d1 += u * (p[k] - a[k]);
            d2 += v * (p[k] - a[k]);
            d3 += u * (p[k] - b[k]);
            d4 += v * (p[k] - b[k]);
            d5 += u * (p[k] - c[k]);
            d6 += v * (p[k] - c[k]);
        }
        if (d1 <= 0.0 && d2 <= 0.0)
            return bary3(1.0, 0.0, 0.0);
        if (d3 >= 0.0 && d4 <= d3)
            return bary3(0.0, 1.0, 0.0);
        if (d6 >= 0.0 && d5 <= d6)
            return bary3(0.0, 0.0, 1.0);
        // areas opposite c, b and a
        const double vc = d1 * d4 - d3 * d2, vb = d5 * d2 - d1 * d6, va = d3 * d6 - d5 * d4;
        if (vc <= 0.0 && d1 >= 0.0 && d3 <= 0.0) {
            const double t = d1 / (d1 - d3);
            return bary3(1.0 - t, t, 0.0);
        }
        if (vb <= 0.0 && d2 >= 0.0 && d6 <= 0.0) {
            const double t = d2 / (d2 - d6);
            return bary3(1.0 - t, 0.0, t);
        }
        if (va <= 0.0 && d4 - d3 >= 0.0 && d5 - d6 >= 0.0) {
            const double t = (d4 - d3) / ((d4 - d3) + (d5 - d6));
            return bary3(0.0, 1.0 - t, t);
        }
        const double part = 1.0 / (va + vb + vc);
        return bary3(1.0 - part * (vb + vc), part * vb, part * vc);
    };
"""

# four contacts of a vertex and a triangle: u, v and r are b - a, c - a and p - a, m is u x v; a lane is a contact
FOUR = """
    const wp::vec_t<4, int>* q = vertices.data + i;
    const row4* rows = (const row4*)p.data;
    const row4 o0 = rows[q[0][1]], o1 = rows[q[1][1]], o2 = rows[q[2][1]], o3 = rows[q[3][1]];
    const row4 r0 = rows[q[0][0]] - o0, r1 = rows[q[1][0]] - o1, r2 = rows[q[2][0]] - o2, r3 = rows[q[3][0]] - o3;
    const row4 u0 = rows[q[0][2]] - o0, u1 = rows[q[1][2]] - o1, u2 = rows[q[2][2]] - o2, u3 = rows[q[3][2]] - o3;
    const row4 v0 = rows[q[0][3]] - o0, v1 = rows[q[1][3]] - o1, v2 = rows[q[2][3]] - o2, v3 = rows[q[3][3]] - o3;
    ACROSS(r0, r1, r2, r3, rx, ry, rz)
    ACROSS(u0, u1, u2, u3, ux, uy, uz)
    ACROSS(v0, v1, v2, v3, vx, vy, vz)
    const row4 mx = uy * vz - uz * vy, my = uz * vx - ux * vz, mz = ux * vy - uy * vx;
    const row4 squared = mx * mx + my * my + mz * mz;
    const int* k = kinds.data + i;
    const row4 side = {k[0] < 0 ? -1.0 : 1.0, k[1] < 0 ? -1.0 : 1.0, k[2] < 0 ? -1.0 : 1.0, k[3] < 0 ? -1.0 : 1.0};
    const row4 height = side * (mx * rx + my * ry + mz * rz);
    """


@wp.func_native(_PLANE + "return plane_of(p, a, b, c, side);")
def triangle_stencil(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, side: wp.float64) -> Stencil:
    """A vertex on one side of a triangle's plane; a triangle without area gives a normal of zero."""
    ...


# rows of vertices, and how far a corner goes at most
ROWS = (
    PACKED_VERTEX
    + _PLANE
    + NEAREST
    + """
    const double lever = 1.5, outside = 0.2;
    row4* rows = (row4*)p.data;
    row4* was_rows = (row4*)before.data;
    const row4* home_rows = (const row4*)start.data;
    """
)
# contact i; what only one that pushes needs is looked up then
CONTACT = """
            const wp::vec_t<4, int> q = vertices.data[i];
            const double thick = thickness.data[i];
            const wp::vec_t<2, double>& rubs = friction.data[i];
            const auto was_at = [&](int k) { return was_rows[q[k]]; };
            const auto home_at = [&](int k) { return home_rows[q[k]]; };
"""
# how deep contact i between the vertices q is, and how its corners share that; where it is not, or none can move, the loop
# around goes on
LOOK = """
            const row4 a = rows[q[0]], b = rows[q[1]], c = rows[q[2]], d = rows[q[3]];
            plane8 s;
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
                stored = s[1] > outside || s[2] > outside || s[3] > outside;
            }
            if (stored) {
                if (kind != 0 && weights.data[i][0] == 0.0) {
                    // the plane at the start of the step was not asked for yet
                    s = plane_of(x.data[q[0]], x.data[q[1]], x.data[q[2]], x.data[q[3]], (double)kind);
                    const auto w = nearest_of(x.data[q[0]], x.data[q[1]], x.data[q[2]], x.data[q[3]]);
                    weights.data[i] = wp::vec_t<4, double>(1.0, -w[0], -w[1], -w[2]);
                    normals.data[i] = wp::vec_t<3, double>(s[4], s[5], s[6]);
                }
                for (int k = 0; k < 4; ++k)
                    s[k] = weights.data[i][k];
                for (int k = 0; k < 3; ++k)
                    s[4 + k] = normals.data[i][k];
            }
            row4 n, r = s[0] * a + s[1] * b + s[2] * c + s[3] * d;
            for (int k = 0; k < 3; ++k)
                n[k] = s[4 + k];
            n[3] = r[3] = 0.0;
            const double depth = thick - (n[0] * r[0] + n[1] * r[1] + n[2] * r[2]);
            if (!(depth > 0.0))
                continue;
            // way that each corner makes for a unit of depth
            const double g[4] = {s[0] * a[3], s[1] * b[3], s[2] * c[3], s[3] * d[3]};
            double mass = 0.0, most = 0.0;
            for (int k = 0; k < 4; ++k) {
                mass += s[k] * g[k];
                most = most > fabs(g[k]) ? most : fabs(g[k]);
            }
            // where only a corner with little weight can move, it would have to go far: none goes farther than this
            mass = mass > most / lever ? mass : most / lever;
            if (!(mass > 0.0))
                continue;
"""
# by how much the corners go: times g by `step`, and by `back` of that without speed, if `known` is more than 0
PUSH = """
            row4 was = s[0] * was_at(0) + s[1] * was_at(1) + s[2] * was_at(2) + s[3] * was_at(3);
            was[3] = 0.0;
            double known = thick - (n[0] * was[0] + n[1] * was[1] + n[2] * was[2]);
            known = known < 0.0 ? 0.0 : (known > depth ? depth : known);
            const double met = depth - known;
            double undone = 0.0;
            if (known > 0.0) {
                // all contacts together part the two sides by no more than `push`
                const row4 home = s[0] * home_at(0) + s[1] * home_at(1) + s[2] * home_at(2) + s[3] * home_at(3);
                const row4 moved = was - home;
                double rest = push - (n[0] * moved[0] + n[1] * moved[1] + n[2] * moved[2]);
                rest = rest > 0.0 ? rest : 0.0;
                undone = known < rest ? known : rest;
            }
            row4 step = (met + undone) * n;
            const double mu = rub * rubs[0];
            if (mu > 0.0 && met > 0.0) {
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
"""
# and each corner goes its way
GO = """
            pushed.data[i] = 1;
            // those after it in the four may share a vertex with it: look again
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
"""


@wp.func_native(
    ROWS
    + """
    for (int base = first; base < last; base += 4) {
        const int end = base + 4 < last ? base + 4 : last;
        int left = 15;
        bool seen = false;
#if !defined(__CUDACC__)
        if (end == base + 4) {
            // most contacts are far enough apart, which is seen for four of a kind without roots and divisions
            const int i = base;
            const int* all = kinds.data + i;
            const double* t = thickness.data + i;
            const row4 thick = {t[0], t[1], t[2], t[3]};
            if (all[0] != 0 && all[1] != 0 && all[2] != 0 && all[3] != 0) {
    """
    + FOUR
    + """
                const auto clear = (height > 0.0) & (height * height >= thick * thick * squared);
                seen = true;
                left = (clear[0] ? 0 : 1) | (clear[1] ? 0 : 2) | (clear[2] ? 0 : 4) | (clear[3] ? 0 : 8);
            } else if (all[0] == 0 && all[1] == 0 && all[2] == 0 && all[3] == 0) {
                row4 gap;
                #pragma unroll
                for (int k = 0; k < 4; ++k) {
                    const wp::vec_t<4, int> q = vertices.data[i + k];
                    const row4 w = ((const row4*)weights.data)[i + k];
                    const wp::vec_t<3, double> n = normals.data[i + k];
                    const row4 r = w[0] * rows[q[0]] + w[1] * rows[q[1]] + w[2] * rows[q[2]] + w[3] * rows[q[3]];
                    gap[k] = n[0] * r[0] + n[1] * r[1] + n[2] * r[2];
                }
                const auto clear = gap >= thick;
                left = (clear[0] ? 0 : 1) | (clear[1] ? 0 : 2) | (clear[2] ? 0 : 4) | (clear[3] ? 0 : 8);
            }
        }
#endif
        for (int i = base; i < end; ++i) {
            pushed.data[i] = 0;
            const int kind = kinds.data[i];
            if (!(left >> (i - base) & 1) || kind == asleep || kind == -asleep)
                continue;
    """
    + CONTACT
    + LOOK
    + PUSH
    + GO
    + """
        }
    }
    """
)
def solve_contacts(
    first: int,
    last: int,
    asleep: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    x: wp.array[wp.vec3d],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Keep the two sides of contacts apart, and rub; overlap from before the substep is undone as by half-spaces.

    Where the foot of a vertex is farther outside its triangle than a fifth, in barycentric coordinates, the plane is
    that of the start of the step: far from the triangle a plane that tilts with it would sweep along whatever is there.
    A corner goes at most 1.5 times as far as the two sides are too near; a free triangle under a held vertex takes 1.37.
    """
    ...


class Contacts:
    """The contacts of a step, in the order in which they are solved; arrays grow and are kept."""

    def __init__(self, device: wp.Device) -> None:
        self.count = 0
        self._vertices, self._kinds = Buffer(wp.vec4i, device), Buffer(int, device)
        self._weights, self._normals = Buffer(wp.vec4d, device), Buffer(wp.vec3d, device)
        self._thickness, self._friction = Buffer(wp.float64, device), Buffer(wp.vec2d, device)
        self._pushed, self._triangles, self._near = (Buffer(int, device) for _ in range(3))
        self.arrays: list[wp.array] = []
        self.grow(0)

    def grow(self, count: int) -> None:
        """Make room for so many contacts; what was there is lost."""
        self.count = count
        buffers = [self._vertices, self._kinds, self._weights, self._normals, self._thickness, self._friction]
        self.arrays = [buffer.at_least(count) for buffer in buffers]
        """vertices (vec4i), kinds (int), weights (vec4d), normals (vec3d), thickness, friction (vec2d)"""
        self.pushed = self._pushed.at_least(count)
        """int: whether each contact pushed in the last sweep"""
        self.near = self._near.at_least(2 * (len(self.pushed) // 32 + 1))
        """int: room for two bits for each contact"""
        self.triangles = self._triangles.at_least(count)
        """int: the triangle of a contact of a vertex with one"""

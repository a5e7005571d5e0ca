"""Half-spaces that keep vertices out of colliders for a step (Lewin 2018, section 3)."""

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX

wp.set_module_options({"enable_backward": False})


@wp.func
def write_half_space(
    slot: int,
    i: int,
    xi: wp.vec3d,
    gap: wp.float64,
    normal: wp.vec3d,
    way: wp.vec3d,
    thick: wp.float64,
    mu: wp.vec2d,
    vertices: wp.array[int],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[wp.vec2d],
    ways: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
):
    """The half-space of a vertex in front of a collider."""
    vertices[slot] = i
    normals[slot] = normal
    offsets[slot] = wp.vec2d(wp.dot(normal, xi) - gap, wp.dot(normal, way))
    ways[slot] = way
    thickness[slot] = thick
    friction[slot] = mu


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    row4* was_rows = (row4*)before.data;
    for (int i = first; i < last; ++i) {
        const int k = vertices.data[i];
        const row4 row = rows[k];
        const wp::vec_t<3, double> normal = normals.data[i];
        const wp::vec_t<2, double> plane = offsets.data[i];
        const double out = thickness.data[i] + plane[0];
        const double depth =
            out + progress * plane[1] - (normal[0] * row[0] + normal[1] * row[1] + normal[2] * row[2]);
        pushed.data[i] = 0;
        if (!(depth > 0.0 && row[3] > 0.0))
            continue;
        pushed.data[i] = 1;
        row4 n, x = row, was = was_rows[k];
        for (int c = 0; c < 3; ++c)
            n[c] = normal[c];
        n[3] = 0.0;
        double known = out + (progress - part) * plane[1] - (n[0] * was[0] + n[1] * was[1] + n[2] * was[2]);
        known = known < 0.0 ? 0.0 : (known > depth ? depth : known);
        const double met = depth - known;
        const row4 moved = was - ((const row4*)start.data)[k];
        double rest = push - (n[0] * moved[0] + n[1] * moved[1] + n[2] * moved[2]);
        rest = rest > 0.0 ? rest : 0.0;
        const double undone = known < rest ? known : rest;
        x = x + (met + undone) * n;
        was = was + undone * n;
        const double mu = rub * friction.data[i][0];
        if (mu > 0.0) {
            row4 slip = x - was;
            for (int c = 0; c < 3; ++c)
                slip[c] -= part * ways.data[i][c];
            slip = slip - (n[0] * slip[0] + n[1] * slip[1] + n[2] * slip[2]) * n;
            slip[3] = 0.0;
            // friction takes back all of the sliding while it sticks, else the kinetic share
            const double squared = slip[0] * slip[0] + slip[1] * slip[1] + slip[2] * slip[2];
            double share = 1.0;
            if (squared > mu * mu * met * met) {
                share = rub * friction.data[i][1] * met / sqrt(squared);
                share = share < 1.0 ? share : 1.0;
            }
            x = x - share * slip;
        }
        rows[k] = x;
        was_rows[k] = was;
    }
    """
)
def solve_half_spaces(
    first: int,
    last: int,
    vertices: wp.array[int],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[wp.vec2d],
    ways: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Keep vertices out of their half-spaces, and rub.

    What was too near at the start of the substep already is undone by `push` metres at most and without speed: the
    vertex is moved as if it had always been there. What came too near since is stopped, and rubs with that.
    """
    ...

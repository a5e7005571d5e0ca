# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Nearest points of a mesh, inside kernels."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_nearest(
    first: int,
    mesh: wp.uint64,
    points: wp.array[wp.vec3],
    away: wp.array[wp.vec3],
    face: wp.array[int],
    behind: wp.array[int],
):
    """From each point to the nearest of the mesh, on which triangle that is, and whether the point is behind it."""
    i = first + wp.tid()
    query = wp.mesh_query_point_sign_normal(mesh, points[i], 1.0e6)
    away[i] = wp.mesh_eval_position(mesh, query.face, query.u, query.v) - points[i]
    face[i] = query.face
    behind[i] = 0
    if query.sign < 0.0:
        behind[i] = 1

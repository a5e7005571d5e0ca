"""CCD of many pairs at a time, by the kernels' own functions: point and triangle, or two edges."""

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


def point_triangle(
    start: ArrayLike, end: ArrayLike, tolerance: float = 1e-6, *, device: str = "cpu"
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which points collide with their triangles during a step, and when: arrays `hit` and `time` of length n.

    `start` and `end` hold the positions of p, a, b, c at both ends of the step, shape (n, 4, 3). Every pair that comes
    within `tolerance` (metres) is a hit. `time`, from 0 to 1, is at or before that moment; it is 1 where there is none,
    so the least of all times is a fraction of the step that is safe to take.
    """
    return _detect(point_triangle_pairs, start, end, tolerance, device)


def edge_edge(
    start: ArrayLike, end: ArrayLike, tolerance: float = 1e-6, *, device: str = "cpu"
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which edges collide during a step, and when; as `point_triangle`, with the order a0, a1, b0, b1."""
    return _detect(edge_edge_pairs, start, end, tolerance, device)


@wp.kernel
def point_triangle_pairs(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
) -> None:
    """CCD of pair i: vertices 4 i to 4 i + 3 are a point and the corners of a triangle."""
    i = first + wp.tid()
    k = 4 * i
    collides, t = ccd_point_triangle(
        start[k], start[k + 1], start[k + 2], start[k + 3], end[k], end[k + 1], end[k + 2], end[k + 3], tolerance
    )
    hit[i] = collides
    time[i] = t


@wp.kernel
def edge_edge_pairs(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
) -> None:
    """CCD of pair i: vertices 4 i to 4 i + 3 are the ends of two edges."""
    i = first + wp.tid()
    k = 4 * i
    collides, t = ccd_edge_edge(
        start[k], start[k + 1], start[k + 2], start[k + 3], end[k], end[k + 1], end[k + 2], end[k + 3], tolerance
    )
    hit[i] = collides
    time[i] = t


def _detect(kernel, start, end, tolerance, device):
    x0, x1 = (np.ascontiguousarray(x, dtype=np.float64).reshape(-1, 3) for x in (start, end))
    n = len(x0) // 4
    hit = wp.zeros(n, dtype=wp.bool, device=device)
    time = wp.zeros(n, dtype=wp.float64, device=device)
    ends = [wp.array(x, dtype=wp.vec3d, device=device, copy=False) for x in (x0, x1)]
    launch(kernel, n, [*ends, float(tolerance), hit, time], device=device)
    return hit.numpy(), time.numpy()

"""Distances and weights of many pairs at a time, by the kernels' own functions: point and triangle, or two edges."""

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.geometry.stencil import edge_weights, relative_position, triangle_weights
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _measure(
    first: int,
    kind: int,
    points: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    weights: wp.array[wp.vec4d],
):
    i = first + wp.tid()
    x0 = points[4 * i]
    x1 = points[4 * i + 1]
    x2 = points[4 * i + 2]
    x3 = points[4 * i + 3]
    w = triangle_weights(x0, x1, x2, x3)
    if kind == 1:
        w = edge_weights(x0, x1, x2, x3)
    weights[i] = w
    distances[i] = wp.length(relative_position(w, x0, x1, x2, x3))


def point_triangle(points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance of each point from its triangle, and the stencil's weights (1, -w1, -w2, -w3).

    `points` holds p, a, b, c, shape (n, 4, 3). The weighted sum of the four is the vector from the nearest point of the
    triangle to p.
    """
    return _run(0, points)


def edge_edge(points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Distance of each pair of edges, and the stencil's weights (1 - s, s, t - 1, -t).

    `points` holds a0, a1, b0, b1, shape (n, 4, 3). The weighted sum of the four is the vector from the nearest point
    of the second edge to that of the first.
    """
    return _run(1, points)


def _run(kind: int, points: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    values = np.ascontiguousarray(points, dtype=np.float64).reshape(-1, 4, 3)
    distances = wp.empty(len(values), dtype=wp.float64, device="cpu")
    weights = wp.empty(len(values), dtype=wp.vec4d, device="cpu")
    inputs = [kind, wp.array(values.reshape(-1, 3), dtype=wp.vec3d, device="cpu"), distances, weights]
    launch(_measure, len(values), inputs, device="cpu", grain=256)
    return distances.numpy(), weights.numpy().reshape(-1, 4)

"""The silhouette of a mesh seen from one side, and how much two of them differ."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# heights at which the width of a silhouette is read
LEVELS = 24
# points of every edge that are drawn
POINTS = 9


def silhouette(x: Floats, edges: NDArray[np.int32], low: float, high: float, *, axis: int = 0) -> Floats:
    """(levels, 2) the least and the greatest coordinate `axis` of the cloth in equal bands of height; NaN where none is.

    y is up: with axis 0 the cloth is seen from the front, along z, with axis 2 from the side, along x.
    """
    t = np.linspace(0.0, 1.0, POINTS)[:, None, None]
    points = ((1.0 - t) * x[edges[:, 0]] + t * x[edges[:, 1]]).reshape(-1, 3)
    band = np.floor((points[:, 1] - low) / (high - low) * LEVELS).astype(int)
    inside = (band >= 0) & (band < LEVELS)
    found = np.tile(np.array([np.inf, -np.inf]), (LEVELS, 1))
    np.minimum.at(found[:, 0], band[inside], points[inside, axis])
    np.maximum.at(found[:, 1], band[inside], points[inside, axis])
    return np.where(np.isfinite(found), found, np.nan)


def silhouette_change(
    a: tuple[Floats, NDArray[np.int32]], b: tuple[Floats, NDArray[np.int32]], *, axis: int = 0
) -> float:
    """The mean distance of two silhouettes over all heights that both have, in per cent of the height of the cloth.

    NaN for cloth without any height.
    """
    heights = np.concatenate([a[0][:, 1], b[0][:, 1]])
    low, high = float(heights.min()), float(heights.max())
    if not high > low:
        return float("nan")
    first, second = (silhouette(x, edges, low, high, axis=axis) for x, edges in (a, b))
    return float(100.0 * np.nanmean(np.abs(first - second)) / (high - low))

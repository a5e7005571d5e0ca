"""Crossings as line segments: each edge that passes through a triangle."""

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.view.colours import Floats


def crossing_marks(positions: Floats, faces: NDArray[np.int32]) -> Floats:
    """The edges that cross a triangle now, as (k, 2, 3) segments, each edge once."""
    try:
        from weft import intersections
    except (ImportError, AttributeError) as error:
        raise WeftError("this weft cannot count intersections yet, so crossings cannot be shown") from error
    rows = np.asarray(intersections(positions, faces)).reshape(-1, 3)
    edges = np.unique(np.sort(rows[:, :2], axis=1), axis=0)
    return positions[edges]

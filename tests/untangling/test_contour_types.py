"""The canonical kinds of contours of Wicke, Lanker and Gross 2006: each is found as what it is, and comes free."""

import numpy as np
import pytest

import weft
from weft.mesh import shapes

CELLS = 20
GRID = shapes.grid((1.0, 1.0), (CELLS, CELLS))
# so that nothing lies exactly on something
ASIDE = np.array([0.0031, 0.0, 0.0017])


def turned(angle: float, axis: int) -> np.ndarray:
    """The sheet turned about a coordinate axis."""
    cosine, sine = np.cos(angle), np.sin(angle)
    matrix = np.eye(3)
    one, other = [k for k in range(3) if k != axis]
    matrix[[one, one, other, other], [one, other, one, other]] = cosine, -sine, sine, cosine
    return GRID.vertices @ matrix.T


def raised(height: np.ndarray) -> np.ndarray:
    return np.column_stack([GRID.vertices[:, 0], height, GRID.vertices[:, 2]]) + ASIDE


def two_rims() -> list[np.ndarray]:
    """Boundary to boundary: each sheet's rim passes through the other sheet."""
    upright = turned(np.pi / 2.0, 2)
    return [GRID.vertices, upright + [0.45, 0.4, 0.45]]


def rim() -> list[np.ndarray]:
    """Both ends at the boundary of one sheet, in the middle of the other."""
    return [GRID.vertices, 0.4 * turned(np.pi / 2.0 - 0.2, 2) + [0.05, 0.15, 0.03]]


def loop() -> list[np.ndarray]:
    """Closed: a hill through a sheet."""
    x, _, z = GRID.vertices.T
    return [GRID.vertices, raised(0.06 - 0.12 * np.exp(-(x**2 + z**2) / 0.03))]


def cross() -> list[np.ndarray]:
    """From side to side of both sheets."""
    return [GRID.vertices, turned(0.9, 2) + [0.2, 0.0, 0.013]]


def figure_eight() -> list[np.ndarray]:
    """Closed, with a waist that nearly touches itself: two hills with a saddle between them just below the sheet."""
    x, _, z = GRID.vertices.T
    hills = np.exp(-((x - 0.17) ** 2 + z**2) / 0.02) + np.exp(-((x + 0.17) ** 2 + z**2) / 0.02)
    return [GRID.vertices, raised(0.045 - 0.1 * hills)]


def loop_vertices() -> list[np.ndarray]:
    """A fold through itself in the middle of the cloth: both ends at loop vertices."""
    x, y, z = GRID.vertices.T
    depth = np.exp(-(z**2) / 0.03)
    bent = x - 0.45 * depth * np.sin(2.0 * np.pi * np.clip(x / 0.5, -1.0, 1.0)) * (np.abs(x) < 0.5)
    return [np.column_stack([bent, y + 0.05 * depth * np.sin(3.0 * np.pi * x) * np.cos(8.0 * z), z])]


def boundary_to_loop() -> list[np.ndarray]:
    """A fold through itself that runs out over the boundary."""
    x, y, z = GRID.vertices.T
    depth = np.exp(-((z - 0.5) ** 2) / 0.06)
    bent = x - 0.45 * depth * np.sin(2.0 * np.pi * np.clip(x / 0.5, -1.0, 1.0)) * (np.abs(x) < 0.5)
    return [np.column_stack([bent, y + 0.05 * depth * np.sin(3.0 * np.pi * x) * np.cos(8.0 * z), z])]


TYPES = {
    two_rims: {"open"},
    rim: {"open"},
    loop: {"closed"},
    cross: {"open"},
    figure_eight: {"closed"},
    loop_vertices: {"loop"},
    boundary_to_loop: {"loop"},
}


@pytest.mark.parametrize("shape", TYPES, ids=lambda shape: shape.__name__)
def test_a_contour_of_each_type_comes_free(shape):
    sheets = shape()
    vertices = np.concatenate(sheets)
    faces = np.concatenate([GRID.faces + k * len(GRID.vertices) for k in range(len(sheets))])
    rest = np.concatenate([GRID.vertices + [2.0 * k, 0.0, 0.0] for k in range(len(sheets))])
    kinds = {path.kind for path in weft.analyse(vertices, faces).paths}
    assert kinds & TYPES[shape], kinds
    result = weft.untangle(vertices, faces, rest=rest)
    assert result.free, result.describe()
    assert len(weft.intersections(result.vertices, faces)) == 0

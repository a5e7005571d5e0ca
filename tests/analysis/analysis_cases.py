"""Surfaces that pass through themselves or one another in ways whose answer is known."""

from typing import NamedTuple

import numpy as np

from weft.mesh import shapes


class Tangle(NamedTuple):
    """A mesh, and which of its vertices are those of the second part."""

    vertices: np.ndarray
    faces: np.ndarray
    second: np.ndarray


def join(*parts: tuple[np.ndarray, np.ndarray]) -> Tangle:
    """Several meshes as one; `second` marks the vertices of all but the first."""
    counts = np.cumsum([0, *(len(vertices) for vertices, _ in parts)])
    vertices = np.concatenate([vertices for vertices, _ in parts])
    faces = np.concatenate([faces + first for (_, faces), first in zip(parts, counts[:-1], strict=True)])
    return Tangle(vertices, faces.astype(np.int32), np.arange(len(vertices)) >= counts[1])


def sheet(cells: int = 20, size: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    grid = shapes.grid((size, size), (cells, cells))
    return np.array(grid.vertices), np.array(grid.faces)


def bumps(points: np.ndarray, centres: list[tuple[float, float]], radius: float, height: float) -> np.ndarray:
    """Heights above the plane at these points: smooth hills at the centres."""
    total = np.zeros(len(points))
    for x, z in centres:
        total += height * np.exp(-((points[:, 0] - x) ** 2 + (points[:, 2] - z) ** 2) / radius**2)
    return total


def hills(centres: list[tuple[float, float]], *, second_size: float = 1.0) -> Tangle:
    """A flat sheet, and below it another whose hills pass through it. Shifted a little, so that nothing is in line."""
    flat, faces = sheet()
    hilly, hilly_faces = sheet(size=second_size)
    hilly[:, 1] = bumps(hilly, centres, 0.12, 0.1) - 0.05
    return join((flat, faces), (hilly + [0.0031, 0.0, 0.0017], hilly_faces))


def crater() -> Tangle:
    """A hill with a hollow on top that reaches below the flat sheet again: two paths, one inside the other."""
    flat, faces = sheet(30)
    hilly, hilly_faces = sheet(30)
    hilly[:, 1] = bumps(hilly, [(0.0, 0.0)], 0.2, 0.3) - bumps(hilly, [(0.0, 0.0)], 0.1, 0.4) - 0.05
    return join((flat, faces), (hilly + [0.0031, 0.0, 0.0017], hilly_faces))


def ball_through_sheets(heights: tuple[float, ...]) -> Tangle:
    """A ball, and sheets at these heights."""
    ball = shapes.icosphere(0.25, subdivisions=3)
    layers = []
    for number, height in enumerate(heights):
        vertices, faces = sheet(20)
        layers.append((vertices + [0.0031 + 0.002 * number, height, 0.0017], faces))
    return join((np.array(ball.vertices), np.array(ball.faces)), *layers)


def crossed_sheets() -> Tangle:
    """A vertical sheet cuts into a flat one from the side: the path runs from a boundary to the other's boundary."""
    flat, faces = sheet(10)
    upright = flat[:, [1, 0, 2]] + [0.013, 0.021, 0.517]
    return join((flat, faces), (upright, faces))


def folded_with_hill() -> Tangle:
    """One strip folded over itself, whose upper half has a hill through the lower one. `second`: the upper half."""
    grid = shapes.grid((2.0, 0.8), (50, 20))
    u, v = grid.vertices[:, 0], grid.vertices[:, 2]
    gap, turn = 0.2, 0.1
    bend = np.clip((u + turn) / (2.0 * turn), 0.0, 1.0) * np.pi
    x = np.where(u < -turn, u + turn, np.where(u > turn, -(u - turn), 0.0)) + 0.5 * gap * np.sin(bend)
    y = 0.5 * gap * (1.0 - np.cos(bend))
    upper = u > turn
    hill = 0.3 * np.exp(-((x + 0.5) ** 2 + (v - 0.011) ** 2) / 0.15**2)
    vertices = np.column_stack([x, y - np.where(upper, hill, 0.0), v])
    return Tangle(vertices + np.where(upper, 0.0023, 0.0)[:, None], np.array(grid.faces), upper)


# the rows of `pinched_fold` in which its inner columns are exchanged
EXCHANGED = (3, 4, 5)
FOLD_ROWS, FOLD_COLUMNS = 9, 5


def pinched_fold() -> Tangle:
    """A valley whose two slopes exchange sides near the crease, in the middle rows: one curve, two loop vertices.

    Columns 0 to 4 across, column 2 is the crease; vertex (row, column) is row * 5 + column.
    """
    grid = shapes.grid((1.0, 2.0), (FOLD_COLUMNS - 1, FOLD_ROWS - 1))
    row, column = np.divmod(np.arange(FOLD_ROWS * FOLD_COLUMNS), FOLD_COLUMNS)
    away = column - 2
    inner = np.where(np.isin(row, EXCHANGED), -0.3, 0.35)
    across = np.where(np.abs(away) == 1, inner, 0.8) * np.sign(away)
    # nothing is symmetric, so that no two edges meet in a point
    across = across * np.where(away > 0, 1.07, 1.0)
    height = np.abs(away) * np.where(away > 0, 0.97, 1.0)
    along = 0.7 * row + 0.031 * away
    return Tangle(np.column_stack([across, height, along]), np.array(grid.faces), np.isin(row, EXCHANGED))


def bent_sleeve() -> Tangle:
    """A tube bent so sharply that its inner side passes through itself. `second`: the inner side of the bend."""
    around, along, radius, length = 24, 40, 0.1, 0.9
    tube = shapes.cylinder(radius, length, segments=around, rings=along)
    axis = tube.vertices[:, 1]
    side, depth = tube.vertices[:, 0], tube.vertices[:, 2]
    # the middle of the axis goes round an arc that is tighter than the tube is thick
    arc, angle = 0.05, np.radians(150.0)
    turn = np.clip(axis / (arc * angle) + 0.5, 0.0, 1.0) * angle
    past = axis - np.clip(axis, -0.5 * arc * angle, 0.5 * arc * angle)
    centre = np.column_stack([arc * (1.0 - np.cos(turn)), arc * np.sin(turn)])
    forward = np.column_stack([np.sin(turn), np.cos(turn)])
    inward = np.column_stack([np.cos(turn), -np.sin(turn)])
    place = centre + past[:, None] * forward + side[:, None] * inward
    vertices = np.column_stack([place, depth + 0.003 * turn])
    return Tangle(vertices, np.array(tube.faces), (side > 0.5 * radius) & (np.abs(past) < 0.1))


def crumpled(seed: int, cells: int = 12, strength: float = 0.1) -> Tangle:
    """A sheet moved by smooth random vectors."""
    from scipy import ndimage

    rng = np.random.default_rng(seed)
    vertices, faces = sheet(cells)
    noise = rng.normal(size=(cells + 1, cells + 1, 3))
    smooth = np.stack([ndimage.gaussian_filter(noise[..., k], 1.3, mode="nearest") for k in range(3)], axis=-1)
    vertices = vertices + strength * smooth.reshape(-1, 3) / smooth.std()
    return Tangle(vertices, faces, np.zeros(len(vertices), dtype=bool))

"""The ground grid and the axes in the origin, as the browser draws them."""

from typing import Any

import numpy as np


def add_ground(scene: Any, size: float, height: float, *, shadow: bool) -> tuple[Any, Any]:
    """Add both to a scene of this extent, the grid at a height; gives their handles."""
    cell = 10.0 ** np.floor(np.log10(size / 2))
    grid = scene.add_grid(
        "/ground",
        plane="xz",
        infinite_grid=True,
        cell_size=cell / 2,
        section_size=cell * 2,
        fade_distance=12.0 * size,
        shadow_opacity=0.25 if shadow else 0.0,
        position=(0.0, height, 0.0),
    )
    return grid, scene.add_frame("/axes", axes_length=cell / 2, axes_radius=cell / 120)

"""Cloths that are sewn together, for the tests of several methods."""

from typing import Any

import numpy as np

import weft

STITCHES = [(5 * row + 4, 5 * row, 5 * row) for row in range(7)]


def sewn_panels() -> dict[str, Any]:
    """Of a scene, two panels that hang side by side and the seam between them, in air that damps them."""
    panels = [
        weft.Cloth(
            name=name,
            shape=weft.Grid(size=(0.2, 0.3), cells=(4, 6)),
            placement=weft.Placement(position=(x, 0.0, 0.0), rotation_deg=(90, 0, 0)),
            pins=[weft.Pin(boundary="top")],
        )
        for name, x in (("left", 0.0), ("right", 0.206))
    ]
    seam = weft.Seam(cloth="left", to="right", vertices=STITCHES)
    return {"cloths": panels, "seams": [seam], "forces": weft.Forces(air_damping=2.0)}


def gaps(x: np.ndarray) -> np.ndarray:
    """How far what is sewn together is apart, with all vertices here."""
    one, other, _ = np.array(STITCHES).T
    return np.linalg.norm(x[one] - x[35 + other], axis=1)

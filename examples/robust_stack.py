"""Ten sheets fall onto each other and come to rest on a table (Bridson et al. 2002, section 7)."""

from itertools import pairwise

import numpy as np
from common import expect, run
from measures import Measures, check_free, check_rest
from scipy.interpolate import LinearNDInterpolator

import weft

SHEETS = {"quick": 5, "full": 10}
VERTICES = {"quick": 21, "full": 40}
COLOURS = ("#c8553d", "#588b8b", "#f2d0a4", "#8c5e58", "#3c6e71")
GAP = 0.02
# m in the last second: friction should hold the sheets
CREEP = 0.002


def scene(size: str = "quick") -> weft.Scene:
    """Sheets of half a metre, each turned by 7 degrees against the one under it, over a table of 0.3 m."""
    cells = VERTICES[size] - 1
    return weft.Scene(
        name="stack",
        frames=240,
        method="robust",
        cloths=[
            weft.Cloth(
                name=f"sheet {k}",
                shape=weft.Grid(size=(0.5, 0.5), cells=(cells, cells)),
                placement=weft.Placement(position=(0.0, 0.01 + GAP * k, 0.0), rotation_deg=(0.0, 7.0 * k, 0.0)),
                material="cotton",
                colour=COLOURS[k % len(COLOURS)],
            )
            for k in range(SHEETS[size])
        ],
        colliders=[
            weft.Collider(
                name="table",
                shape=weft.Box(size=(0.3, 0.04, 0.3)),
                placement=weft.Placement(position=(0.0, -0.02, 0.0)),
            )
        ],
        forces=weft.Forces(air_damping=2.0),
        camera=weft.Camera(position=(0.6, 0.5, 0.9), target=(0.0, -0.08, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the sheets lie still and in their order, a thickness apart over the middle of the table."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=0.0)
    creep = _creep(cache)
    expect(f"a sheet creeps by {1e3 * creep:.1f} mm in the last second", creep < CREEP)
    x = cache.positions(cache.frames - 1)
    sheets = [x[body.vertices] for body in cache.bodies[:-1]]
    gaps = [np.median(_over_the_table(sheets[0]))]
    for below, above in pairwise(sheets):
        height = LinearNDInterpolator(below[:, [0, 2]], below[:, 1])
        gaps.append(np.median(_over_the_table(above) - height(_over_the_table(above, axes=[0, 2]))))
    apart = np.array(gaps) / cache.scene.thickness
    expect(f"the sheets lie {apart} thicknesses apart", (np.abs(apart - 1.0) < 0.2).all())
    return found | {
        "distance of the sheets, mm": f"{1e3 * min(gaps):.3f} .. {1e3 * max(gaps):.3f}",
        "creep in the last second, mm": f"{1e3 * creep:.2f}",
    }


def _creep(cache: weft.Cache) -> float:
    """How far the middle of a sheet goes in the last second at most, in m."""
    last = cache.frames - 1
    now, before = cache.positions(last), cache.positions(last - round(cache.fps))
    sheets = [body.vertices for body in cache.bodies[:-1]]
    moves = [(now[sheet] - before[sheet])[_in_the_middle(now[sheet])].mean(axis=0) for sheet in sheets]
    return float(np.linalg.norm(moves, axis=1).max())


def _over_the_table(sheet: np.ndarray, axes: int | list[int] = 1) -> np.ndarray:
    """Coordinates of the vertices over the middle of the table; its top is at height 0."""
    return sheet[_in_the_middle(sheet)][:, axes]


def _in_the_middle(sheet: np.ndarray) -> np.ndarray:
    """Which vertices those are."""
    return np.hypot(sheet[:, 0], sheet[:, 2]) < 0.1


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

"""A tablecloth falls on a square table (Liu, Ko and Chang 1998, table 1, figures 11 and 12)."""

import numpy as np
from common import expect, run
from measures import Measures, check_free

import weft
from weft.scene import Boxes

POINTS = {"quick": 21, "full": 51}
TOP = 0.5


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of cotton, 3 cm above a table of half a metre; 1000 steps."""
    cells = POINTS[size] - 1
    return weft.Scene(
        name="boxes table",
        fps=50,
        frames=100,
        method=Boxes(),
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
                placement=weft.Placement(position=(0.0, TOP + 0.03, 0.0)),
                material="cotton",
            )
        ],
        colliders=[
            weft.Collider(
                name="table",
                shape=weft.Box(size=(0.5, 0.04, 0.5)),
                placement=weft.Placement(position=(0.0, TOP - 0.02, 0.0)),
                friction=0.4,
            )
        ],
        camera=weft.Camera(position=(1.5, 1.1, 1.9), target=(0.0, 0.4, 0.0), fov_deg=30.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections, few runs; it lies on the table, and its corners hang lower than its sides."""
    found = check_free(Measures(cache))
    report = cache.report
    runs, steps = np.nansum(report["runs"]), np.sum(report["steps"])
    most = int(np.nanmax(report["most_runs"]))
    expect(f"a step took {most} runs", most <= 8)
    count = round(cache.bodies[0].vertices.stop ** 0.5)
    height = cache.positions(cache.frames - 1)[cache.bodies[0].vertices, 1].reshape(count, count)
    middle, corner, side = height[count // 2, count // 2], height[0, 0], height[0, count // 2]
    expect(f"the middle is at {middle:.3f} m, not on the table", abs(middle - TOP) < 0.01)
    expect(f"the corner ({corner:.2f} m) does not hang below the side ({side:.2f} m)", corner < side < TOP - 0.1)
    return found | {"runs a step": f"{runs / steps:.1f}, at most {most}", "the paper's": "2, at most 4"}


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

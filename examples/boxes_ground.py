"""A sheet falls to the floor almost upright and folds onto itself (Liu, Ko and Chang 1998, table 2, figures 13 to 16)."""

import numpy as np
from common import expect, run
from measures import Measures, check_free

import weft
from weft.scene import Boxes

POINTS = {"quick": 21, "full": 51}


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of cotton, tilted by a few degrees so that it does not stand; 1000 steps."""
    cells = POINTS[size] - 1
    return weft.Scene(
        name="boxes ground",
        fps=50,
        frames=100,
        method=Boxes(),
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
                placement=weft.Placement(position=(0.0, 0.68, 0.0), rotation_deg=(80.0, 25.0, 8.0)),
                material="cotton",
            )
        ],
        # the paper's floor stops vertices, and does not hold them
        colliders=[weft.Collider(name="floor", shape=weft.Plane(size=(6.0, 6.0)), friction=0.0)],
        camera=weft.Camera(position=(1.3, 1.1, 1.9), target=(0.0, 0.25, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections, few runs; it lies on the floor, folded."""
    found = check_free(Measures(cache))
    report = cache.report
    runs, steps = np.nansum(report["runs"]), np.sum(report["steps"])
    most = int(np.nanmax(report["most_runs"]))
    expect(f"a step took {most} runs", most <= 12)
    cloth = cache.positions(cache.frames - 1)[cache.bodies[0].vertices]
    expect(f"it stands {cloth[:, 1].max():.2f} m high", cloth[:, 1].min() > 0.0 and cloth[:, 1].max() < 0.3)
    covered = np.ptp(cloth[:, 0]) * np.ptp(cloth[:, 2])
    return found | {
        "runs a step": f"{runs / steps:.1f}, at most {most}",
        "the paper's": "3 to 4, at most 8",
        "box of the pile, m^2": f"{covered:.2f}",
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

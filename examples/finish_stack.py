"""Three napkins dropped on a box, then smoothed and refined twice (Bridson et al. 2002, section 8).

Layers that lie on each other and hang over edges are what smoothing gets wrong: Loop subdivision alone draws them
through each other and into the box. Finishing stops the few vertices that would pass, and nothing intersects at any
level.
"""

import numpy as np
from common import expect, run

import weft
from weft.check import check_cache

VERTICES = {"quick": 17, "full": 60}
LEVELS = 2


def scene(size: str = "quick") -> weft.Scene:
    """Three squares of cotton, each turned a little against the one below, over a box on the ground."""
    cells = VERTICES[size] - 1
    napkins = [
        weft.Cloth(
            name=f"napkin {k}",
            shape=weft.Grid(size=(0.5, 0.5), cells=(cells, cells)),
            placement=weft.Placement(position=(0.0, 0.18 + 0.02 * k, 0.0), rotation_deg=(0.0, 15.0 * k, 0.0)),
            material="cotton",
        )
        for k in range(3)
    ]
    return weft.Scene(
        name="finished stack",
        frames=60,
        method="robust",
        cloths=napkins,
        colliders=[
            weft.Collider(
                name="box",
                shape=weft.Box(size=(0.25, 0.15, 0.25)),
                placement=weft.Placement(position=(0.0, 0.075, 0.0)),
            ),
            weft.Collider(name="ground", shape=weft.Plane(size=(2.0, 2.0))),
        ],
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersection in any frame at any level; Loop subdivision alone makes some."""
    expect("the simulation itself is free of intersections", check_cache(cache, frames=range(0, cache.frames, 6)).clean)
    found: dict[str, object] = {}
    for level in range(1, LEVELS + 1):
        out = cache.path.with_name(f"{cache.path.stem}-level{level}.zarr")
        fine = weft.subdivide(
            cache, out, levels=level, frames=range(0, cache.frames, 6), compare=level == LEVELS, overwrite=True
        )
        expect(f"level {level} is free of intersections", np.all(fine.report["intersections"] == 0))
        expect(f"every frame of level {level} is ok", set(fine.report["status"]) == {"ok"})
        found[f"vertices at level {level}"] = fine.positions(0).shape[0]
        found[f"vertices stopped at level {level}, most in a frame"] = int(fine.report[f"stopped_{level}"].max())
    plain = fine.report["plain_intersections"]
    expect("smoothing alone makes intersections here", plain.sum() > 0)
    found["intersections that Loop subdivision alone makes"] = f"{int(plain.sum())} in {int((plain > 0).sum())} frames"
    return found


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

"""What `push` cannot do: a bar passes between the vertices of a sheet, and nothing brings it back out.

Only vertices are held off triangles. The bar meets no vertex, so that the sheet falls through it, edge through edge;
the same sheet under `robust` comes to lie on the bar.
"""

import numpy as np
from common import expect, run

import weft
from weft.check import check_cache
from weft.scene import Push


def scene(size: str = "quick", method: str = "push") -> weft.Scene:
    """A coarse sheet above a thin bar that lies between two rows of its vertices."""
    return weft.Scene(
        name=f"sheet and bar, {method}",
        frames=30 if size == "quick" else 60,
        method=Push(close=0.02) if method == "push" else method,
        forces=weft.Forces(air_damping=2.0),
        cloths=[
            weft.Cloth(
                name="sheet",
                shape=weft.Grid(size=(1.0, 1.0), cells=(5, 5)),
                placement=weft.Placement(position=(0.0, 0.2, 0.0)),
                material=weft.Material(damping=1e-3),
            )
        ],
        colliders=[
            weft.Collider(
                name="bar", shape=weft.Box(size=(1.6, 0.03, 0.03)), placement=weft.Placement(rotation_deg=(45, 0, 0))
            )
        ],
        camera=weft.Camera(position=(1.2, 0.8, 2.0), target=(0.0, -0.1, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """The sheet passes through the bar: the last frame has the bar inside the cloth or above it."""
    worst = check_cache(cache).worst
    sheet = cache.positions(cache.frames - 1)[cache.bodies[0].vertices]
    expect("nothing went through, and it should have", worst is not None and worst.intersections > 0)
    return {
        "intersections in the worst frame": worst.intersections if worst else 0,
        "vertices below the bar": f"{int(np.count_nonzero(sheet[:, 1] < 0.0))} of {len(sheet)}",
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

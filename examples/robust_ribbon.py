"""A ribbon that falls from hanging and piles up on itself (Bridson et al. 2002, figure 4).

It stands upright on its end, lets go, buckles where it meets the ground and lays itself in folds.
"""

from common import expect, run
from measures import Measures, check_free, check_rest

import weft

LENGTH, WIDTH = 2.0, 0.1
CELLS = {"quick": (200, 10), "full": (399, 19)}


def scene(size: str = "quick") -> weft.Scene:
    """Two metres of ribbon, 20 x 400 vertices in full, its lower end 2 cm above the ground."""
    return weft.Scene(
        name="ribbon",
        frames=300,
        method="robust",
        cloths=[
            weft.Cloth(
                name="ribbon",
                shape=weft.Strip(length=LENGTH, width=WIDTH, cells=CELLS[size]),
                placement=weft.Placement(position=(0.0, LENGTH / 2 + 0.02, 0.0), rotation_deg=(0.0, 0.0, 90.0)),
                material=weft.Material(preset="cotton", stretch=1000.0, bend=5e-6),
            )
        ],
        colliders=[weft.Collider(name="ground", shape=weft.Plane(size=(3.0, 3.0)))],
        camera=weft.Camera(position=(0.5, 0.35, 0.6), target=(0.0, 0.06, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; it falls freely at first, and lies in a low pile of many layers in the end."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=0.0)
    x = cache.positions(cache.frames - 1)[measures.cloth]
    height = float(x[:, 1].max())
    expect(f"the pile is {height:.3f} m high", height < 0.25)
    expect(f"the ribbon is under the ground, at {x[:, 1].min():.4f} m", x[:, 1].min() > 0.0)
    return found | {"height of the pile, m": f"{height:.3f}"}


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

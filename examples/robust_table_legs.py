"""A tablecloth over four square legs without a table top, dragged down by a sphere (Bridson et al. 2002, figure 3)."""

from common import expect, run
from measures import Measures, check_free, check_rest

import weft

VERTICES = {"quick": 41, "full": 150}
LEG, HEIGHT, HALF = 0.05, 0.6, 0.25
RADIUS = 0.15
BEGIN, END = 0.6, 2.1


def scene(size: str = "quick") -> weft.Scene:
    """1.2 m of cotton above legs 0.6 m high and 0.5 m apart; the sphere comes down between them."""
    cells = VERTICES[size] - 1
    legs = [
        weft.Collider(
            name=f"leg {k}",
            shape=weft.Box(size=(LEG, HEIGHT, LEG), cells=(1, 4, 1)),
            placement=weft.Placement(position=(HALF * sx, HEIGHT / 2, HALF * sz)),
            friction=0.3,
        )
        for k, (sx, sz) in enumerate([(-1, -1), (-1, 1), (1, -1), (1, 1)])
    ]
    top = HEIGHT + RADIUS + 0.1
    way = [
        weft.Keyframe(time=BEGIN),
        weft.Keyframe(time=END, position=(0.0, RADIUS + 0.02 - top, 0.0)),
    ]
    return weft.Scene(
        name="table legs",
        frames=330,
        method="robust",
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.2, 1.2), cells=(cells, cells)),
                placement=weft.Placement(position=(0.0, HEIGHT + 0.01, 0.0)),
                material=weft.Material(preset="cotton", stretch=2000.0),
            )
        ],
        colliders=[
            *legs,
            weft.Collider(
                name="sphere",
                shape=weft.Sphere(radius=RADIUS),
                placement=weft.Placement(position=(0.0, top, 0.0)),
                motion=weft.Path(keyframes=way, interpolation="smooth"),
                friction=0.3,
            ),
            weft.Collider(name="ground", shape=weft.Plane(size=(4.0, 4.0)), friction=0.5),
        ],
        camera=weft.Camera(position=(1.1, 1.1, 1.6), target=(0.0, 0.32, 0.0), fov_deg=36.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the sphere takes the middle of the cloth to the ground, and the cloth comes to rest."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=END)
    x = cache.positions(cache.frames - 1)[measures.cloth]
    expect(f"the cloth ends at {x[:, 1].min():.3f} m and not on the ground", 0.0 < x[:, 1].min() < 0.03)
    return found | {"height of the highest vertex at rest, m": f"{x[:, 1].max():.3f}"}


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

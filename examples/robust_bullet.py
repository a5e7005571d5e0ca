"""A ball of 0.1 m radius hits a hanging cloth at 50 m/s, stops 0.3 m behind it and draws back.

At that speed the ball moves by 0.8 m from frame to frame: only steps that see the whole way find it. It gives the cloth six
times the energy that lifts it over the line from which it hangs, so that it lies across that line in the end.
"""

from common import expect, run
from measures import Measures, check_free, check_rest

import weft

CELLS = {"quick": (32, 48), "full": (119, 178)}
WIDTH, HEIGHT = 1.0, 1.5
RADIUS, SPEED, FROM, TO = 0.1, 50.0, -0.7, 0.3
# when the ball begins to draw back, and when it has
STAY, BACK = 0.1, 0.8


def scene(size: str = "quick") -> weft.Scene:
    """1.5 m of leather hung by its upper edge; the ball comes from behind."""
    through = (0.0, 0.0, TO - FROM)
    way = [
        weft.Keyframe(time=0.0),
        weft.Keyframe(time=(TO - FROM) / SPEED, position=through),
        weft.Keyframe(time=STAY, position=through),
        weft.Keyframe(time=BACK),
    ]
    return weft.Scene(
        name="bullet",
        frames=300,
        method="robust",
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(WIDTH, HEIGHT), cells=CELLS[size]),
                placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
                material="leather",
                pins=[weft.Pin(boundary="top")],
            )
        ],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=RADIUS, subdivisions=3),
                placement=weft.Placement(position=(0.0, 0.0, FROM)),
                motion=weft.Path(keyframes=way),
            )
        ],
        forces=weft.Forces(air_damping=3.0),
        camera=weft.Camera(position=(2.1, 0.5, 2.4), target=(0.0, 0.0, 0.1), fov_deg=38.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the cloth is thrown forward by the ball, and is at rest in the end."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=BACK)
    farthest = max(float(cache.positions(f)[measures.cloth, 2].max()) for f in range(cache.frames))
    expect(f"the ball carries the cloth {farthest:.2f} m only", farthest > TO + RADIUS)
    return found | {"farthest way of the cloth, m": f"{farthest:.2f}"}


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

"""A ball of 0.1 m radius hits a hanging cloth at 50 m/s and stops 0.3 m behind it.

At that speed the ball moves by 0.8 m from frame to frame: only steps that see the whole way find it.
"""

from common import expect, run
from measures import Measures, check_free, check_rest

import weft

VERTICES = {"quick": 41, "full": 150}
RADIUS, SPEED, FROM, TO = 0.1, 50.0, -0.7, 0.3


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of leather hung by its upper edge; the ball comes from behind and stops."""
    cells = VERTICES[size] - 1
    way = [
        weft.Keyframe(time=0.0),
        weft.Keyframe(time=(TO - FROM) / SPEED, position=(0.0, 0.0, TO - FROM)),
    ]
    return weft.Scene(
        name="bullet",
        frames=180,
        method="robust",
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
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
        camera=weft.Camera(position=(1.9, 0.6, 2.1), target=(0.0, 0.15, 0.1), fov_deg=35.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the cloth is thrown forward by the ball and hangs over it in the end."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=(TO - FROM) / SPEED + 0.02)
    farthest = max(float(cache.positions(f)[measures.cloth, 2].max()) for f in range(cache.frames))
    expect(f"the ball carries the cloth {farthest:.2f} m only", farthest > TO + RADIUS)
    return found | {"farthest way of the cloth, m": f"{farthest:.2f}"}


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

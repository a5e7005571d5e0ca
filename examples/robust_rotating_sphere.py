"""Cloth on a sphere that begins to turn (Bridson et al. 2002, figure 2): friction winds it up.

The sphere rests above the ground. The cloth falls on it, drapes, and is carried round when the sphere turns.
"""

import numpy as np
from common import expect, run
from measures import Measures, check_free

import weft

VERTICES = {"quick": 40, "full": 150}
TURN, RATE_DEG = 1.0, 180.0


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of cotton over a sphere of 0.25 m that stands still for a second and then turns."""
    return rotating_sphere(VERTICES[size])


def rotating_sphere(vertices: int) -> weft.Scene:
    """The same with that many vertices a side."""
    return weft.Scene(
        name=f"rotating sphere, {vertices} x {vertices}",
        frames=180,
        method="robust",
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(vertices - 1, vertices - 1)),
                placement=weft.Placement(position=(0.0, 0.35, 0.0)),
                material="cotton",
            )
        ],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=0.25),
                motion=weft.Spin(rate_deg=RATE_DEG, start=TURN),
                friction=0.5,
            ),
            weft.Collider(
                name="ground", shape=weft.Plane(size=(4.0, 4.0)), placement=weft.Placement(position=(0.0, -0.35, 0.0))
            ),
        ],
        camera=weft.Camera(position=(1.3, 0.9, 1.7), target=(0.0, -0.08, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the cloth stays on the sphere, and its middle turns with it."""
    measures = Measures(cache)
    found = check_free(measures)
    last = cache.positions(cache.frames - 1)[measures.cloth]
    expect(f"the cloth ends {last[:, 1].max():.3f} m high and not on the sphere", 0.24 < last[:, 1].max() < 0.30)
    lowest = min(float(cache.positions(frame)[measures.cloth, 1].min()) for frame in range(cache.frames))
    expect(f"the cloth is under the ground, at {lowest:.3f} m", lowest > -0.35)
    # how far the cloth around the top has turned since the sphere began to
    began = cache.positions(round(TURN * cache.fps))[measures.cloth]
    near = np.flatnonzero(np.hypot(began[:, 0], began[:, 2]) < 0.1)
    turned = sum(
        _turn(cache.positions(frame)[near], cache.positions(frame + 1)[near])
        for frame in range(round(TURN * cache.fps), cache.frames - 1)
    )
    expected = RATE_DEG * ((cache.frames - 1) / cache.fps - TURN)
    expect(f"the top of the cloth turned by {turned:.0f} of {expected:.0f} degrees", turned > 0.9 * expected)
    return found | {"the top turned, of the sphere's turn": f"{turned / expected:.3f}"}


def _turn(before: np.ndarray, after: np.ndarray) -> float:
    """Angle about y from one frame to the next that fits best, in degrees."""
    a, b = (x[:, [0, 2]] for x in (before, after))
    across = (a[:, 1] * b[:, 0] - a[:, 0] * b[:, 1]).sum()
    return float(np.degrees(np.arctan2(across, (a * b).sum())))


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

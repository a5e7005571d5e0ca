"""A ball appears inside a tube that is too narrow for it: the tube comes free of it, around it."""

import numpy as np
from common import expect, run

import weft

SEGMENTS = {"quick": (40, 30), "full": (160, 120)}
RADIUS, NARROWER = 0.11, 0.01


def scene(size: str = "quick") -> weft.Scene:
    """The ball is 1 cm wider than the tube, without gravity."""
    segments, rings = SEGMENTS[size]
    tube = weft.Cloth(
        name="tube",
        shape=weft.Cylinder(radius=RADIUS - NARROWER, height=0.4, segments=segments, rings=rings),
    )
    ball = weft.Collider(
        name="ball",
        shape=weft.Sphere(radius=RADIUS, subdivisions=3),
        placement=weft.Placement(position=(0.0, 0.01, 0.0)),
    )
    forces = weft.Forces(gravity=(0.0, 0.0, 0.0), air_damping=2.0)
    return weft.Scene(name="tube", frames=60, method="guarded", cloths=[tube], colliders=[ball], forces=forces)


def check(cache: weft.Cache) -> dict[str, object]:
    """Free within a third of a second, and no vertex of the tube is left inside the ball."""
    report = cache.report
    crossing = np.flatnonzero(report["intersections"] > 0)
    expect("the tube starts free", len(crossing) and crossing[0] == 0)
    expect(f"the tube still crosses the ball in frame {crossing.max()}", crossing.max() < 20)
    expect("something new crosses", not report["newly_crossing"].any())
    x = cache.positions(cache.frames - 1)[cache.bodies[0].vertices] - [0.0, 0.01, 0.0]
    nearest = float(np.linalg.norm(x, axis=1).min())
    expect(f"a vertex is {nearest:.3f} m from the centre of the ball", nearest > 0.95 * RADIUS)
    return {
        "frames": cache.frames,
        "crossings at the start": int(report["intersections"][0]),
        "last frame with crossings": int(crossing.max()),
        "largest stretch": f"{report['stretch'].max():.3f}",
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

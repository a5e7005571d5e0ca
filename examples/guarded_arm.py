"""An arm, half inside a torso and motionless, in a sleeve that starts between them: the sleeve comes to rest, and stays.

What is inside both bodies is pinched, whatever their normals and whatever was before. It moves with them, so it does not move.
"""

import itertools

import numpy as np
from common import expect, run

import weft

SEGMENTS = {"quick": (36, 30), "full": (120, 100)}
# when the sleeve has come to rest, and how far a vertex may move in a frame from then on, m
REST, STILL = 1.0, 5e-4


def scene(size: str = "quick") -> weft.Scene:
    """Two capsules and a tube."""
    segments, rings = SEGMENTS[size]
    sleeve = weft.Cloth(name="sleeve", shape=weft.Cylinder(radius=0.055, height=0.3, segments=segments, rings=rings))
    arm = weft.Collider(name="arm", shape=weft.Capsule(radius=0.05, length=0.4))
    torso = weft.Collider(
        name="torso",
        shape=weft.Capsule(radius=0.15, length=0.6),
        placement=weft.Placement(position=(0.15, 0.0, 0.0)),
    )
    forces = weft.Forces(air_damping=5.0)
    camera = weft.Camera(position=(-1.0, 0.3, 0.6), target=(0.0, 0.0, 0.0))
    return weft.Scene(
        name="arm", frames=120, method="guarded", cloths=[sleeve], colliders=[arm, torso], forces=forces, camera=camera
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """The sleeve rests, is nowhere stretched, and nothing new crosses."""
    report, cloth = cache.report, cache.bodies[0].vertices
    expect("nothing is pinched", report["released"].min() > 0)
    expect("something crosses that nobody forced", not report["newly_crossing"].any())
    first = round(REST * cache.fps)
    x = [cache.positions(frame)[cloth] for frame in range(first, cache.frames)]
    moved = max(float(np.linalg.norm(b - a, axis=1).max()) for a, b in itertools.pairwise(x))
    expect(f"a vertex moves by {1000 * moved:.2f} mm in a frame", moved < STILL)
    stretch = float(report["stretch"].max())
    expect(f"an edge is stretched by {100 * stretch:.0f} %", stretch < 0.25)
    return {
        "frames": cache.frames,
        "released in the end": int(report["released"][-1]),
        "crossing in the end": int(report["crossing"][-1]),
        "largest motion in a frame at rest, mm": f"{1000 * moved:.4f}",
        "largest stretch": f"{stretch:.3f}",
    }


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

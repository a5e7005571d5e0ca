"""A curtain and two balls (Bridson et al. 2002, figure 1).

A curtain lies draped over a ball on the ground. The ball rises and moves away, flipping the curtain over on top of
itself: folds that static friction holds. A second ball has come by then, slips underneath and pushes through the folds.
"""

import numpy as np
from common import expect, run
from measures import Measures, check_free, check_rest

import weft

CELLS = {"quick": (72, 45), "full": (190, 119)}
LENGTH, WIDTH = 1.6, 1.0
RADIUS, SECOND = 0.2, 0.12
# the second ball leaves room for a folded cloth under it
ROOM = 0.015


def scene(size: str = "quick") -> weft.Scene:
    """1.6 m of cotton that falls over a ball near its left end."""
    first = weft.Path(
        interpolation="smooth",
        keyframes=[
            weft.Keyframe(time=0.9),
            weft.Keyframe(time=1.6, position=(0.15, 0.6, 0.0)),
            weft.Keyframe(time=2.3, position=(0.9, 0.55, 0.0)),
            weft.Keyframe(time=3.0, position=(2.6, 1.4, 0.0)),
        ],
    )
    second = weft.Path(
        interpolation="smooth",
        keyframes=[
            weft.Keyframe(time=1.0),
            weft.Keyframe(time=1.9, position=(-1.1, 0.0, 0.0)),
            weft.Keyframe(time=3.4, position=(-1.1, 0.0, 0.0)),
            weft.Keyframe(time=5.4, position=(-1.1, 0.0, 1.2)),
        ],
    )
    return weft.Scene(
        name="curtain",
        frames=450,
        method="robust",
        cloths=[
            weft.Cloth(
                name="curtain",
                shape=weft.Grid(size=(LENGTH, WIDTH), cells=CELLS[size]),
                placement=weft.Placement(position=(0.0, 2 * RADIUS + 0.02, 0.0)),
                material=weft.Material(preset="cotton", stretch=1000.0),
            )
        ],
        colliders=[
            weft.Collider(
                name="first ball",
                shape=weft.Sphere(radius=RADIUS),
                placement=weft.Placement(position=(-0.45, RADIUS + 0.004, 0.0)),
                motion=first,
                friction=0.4,
            ),
            weft.Collider(
                name="second ball",
                shape=weft.Sphere(radius=SECOND),
                placement=weft.Placement(position=(1.5, SECOND + ROOM, 0.0)),
                motion=second,
                friction=0.1,
            ),
            weft.Collider(name="ground", shape=weft.Plane(size=(6.0, 6.0)), friction=0.5),
        ],
        camera=weft.Camera(position=(0.8, 1.7, 3.1), target=(0.2, 0.1, 0.35), fov_deg=38.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """No intersections; the curtain is folded over by the first ball, and at rest in the end."""
    measures = Measures(cache)
    found = check_free(measures) | check_rest(measures, still_from=5.4)
    # the left edge has come over to the right of where the cloth folds
    x = cache.positions(round(3.3 * cache.fps))[measures.cloth]
    left = x[np.abs(cache.positions(0)[measures.cloth, 0] + LENGTH / 2) < 1e-6]
    expect(f"the left edge was flipped to x = {left[:, 0].mean():.2f} m only", left[:, 0].mean() > 0.0)
    covered = min(cover_of_second_ball(measures, time) for time in (2.6, 3.4, 4.2))
    expect("the second ball is not underneath", covered > 0)
    return found | {
        "where the left edge was flipped to, m": f"{left[:, 0].mean():.2f}",
        "vertices over the second ball, at least": covered,
    }


def cover_of_second_ball(measures: Measures, time: float) -> int:
    """Vertices of the cloth right above the second ball at a time."""
    x = measures.cache.positions(round(time * measures.cache.fps))
    centre = x[measures.world.bodies[2].vertices].mean(axis=0)
    above = x[measures.cloth] - centre
    return int(((above[:, 1] > 0.0) & (np.linalg.norm(above[:, [0, 2]], axis=1) < 0.5 * SECOND)).sum())


def main() -> None:
    run(__file__, scene, check)


if __name__ == "__main__":
    main()

"""Cloth on a sphere that begins to turn (Lewin 2018, figure 4 right): contacts found once in each 30 Hz step.

The cloth falls on the sphere and drapes; friction carries it round when the sphere turns, and winds it up.
"""

import numpy as np
from common import expect, run

import weft
from weft.scene import Predictive

TURN, RATE_DEG, RADIUS = 1.0, 180.0, 0.25
THICKNESS = 0.004


def scene(size: str = "quick") -> weft.Scene:
    """A square metre of cotton over a sphere that stands still for a second and then turns."""
    quick = size == "quick"
    cells = 39 if quick else 99
    return weft.Scene(
        name="rotating sphere",
        fps=30,
        frames=60 if quick else 90,
        thickness=THICKNESS,
        cloths=[
            weft.Cloth(
                name="cloth",
                shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
                placement=weft.Placement(position=(0.0, RADIUS + 0.02, 0.0)),
                material="cotton",
            )
        ],
        colliders=[
            weft.Collider(
                name="ball",
                shape=weft.Sphere(radius=RADIUS),
                analytic=True,
                motion=weft.Spin(rate_deg=RATE_DEG, start=TURN),
                friction=0.5,
            ),
            weft.Collider(
                name="ground",
                shape=weft.Plane(size=(4.0, 4.0)),
                analytic=True,
                placement=weft.Placement(position=(0.0, -0.35, 0.0)),
            ),
        ],
        method=Predictive(),
        camera=weft.Camera(position=(1.3, 0.9, 1.7), target=(0.0, -0.08, 0.0), fov_deg=32.0),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """The cloth stays on the sphere, turns with it, and passes through itself hardly anywhere.

    It collapses fast in the first half second: a few looks a step can miss a fold, and what has crossed stays.
    """
    cloth = cache.bodies[0].vertices
    last = cache.positions(cache.frames - 1)[cloth]
    expect(f"the cloth ends {last[:, 1].max():.3f} m high and not on the sphere", 0.24 < last[:, 1].max() < 0.29)
    inside = np.array([RADIUS - _nearest(cache.positions(frame)[cloth]) for frame in range(cache.frames)])
    expect(f"the cloth goes {1000 * inside.max():.1f} mm into the sphere", inside.max() < 0.002)
    # what fast folds press in comes out again in the next step
    expect(f"the cloth stays {1000 * inside[-1]:.1f} mm in the sphere", inside[-1] < 0.001)
    deep = int((inside > 0.001).sum())
    expect(f"the cloth is in the sphere in {deep} of {cache.frames} frames", deep <= 0.02 * cache.frames)
    lowest = min(float(cache.positions(frame)[cloth, 1].min()) for frame in range(cache.frames))
    expect(f"the cloth goes under the ground, to {lowest:.3f} m", lowest > -0.355)
    # how far the cloth around the top has turned since the sphere began to
    began = round(TURN * cache.fps)
    start = cache.positions(began)[cloth]
    near = np.flatnonzero(np.hypot(start[:, 0], start[:, 2]) < 0.08)
    turned = 0.0
    for frame in range(began, cache.frames - 1):
        a, b = (cache.positions(f)[cloth][near][:, [0, 2]] for f in (frame, frame + 1))
        across = (a[:, 1] * b[:, 0] - a[:, 0] * b[:, 1]).sum()
        turned += float(np.degrees(np.arctan2(across, (a * b).sum())))
    expected = RATE_DEG * ((cache.frames - 1) / cache.fps - TURN)
    expect(f"the top of the cloth turned by {turned:.0f} of {expected:.0f} degrees", turned > 0.8 * expected)
    # of cloth with cloth: the report counts edges in the sphere too
    faces = cache.faces[cache.bodies[0].faces]
    crossings = np.zeros(cache.frames, int)
    for frame in np.flatnonzero(cache.report["intersections"] != 0):
        crossings[frame] = len(weft.intersections(cache.positions(frame)[cloth], faces))
    expect(f"the cloth passes through itself in {crossings.max()} places", crossings.max() <= 0.001 * len(last))
    return {
        "vertices": len(last),
        "deepest into the sphere, mm": round(1000 * float(inside.max()), 2),
        "frames with a vertex more than 1 mm inside": deep,
        "the top turned, of the sphere's turn": round(turned / expected, 3),
        "most crossings in a frame": int(crossings.max()),
        "contacts in a step, at most": int(cache.report["contacts"].max()),
        "largest stretch": round(float(cache.report["stretch"].max()), 3),
    }


def _nearest(x: np.ndarray) -> float:
    """The least distance from the middle of the sphere."""
    return float(np.linalg.norm(x, axis=1).min())


if __name__ == "__main__":
    run(__file__, scene, check)

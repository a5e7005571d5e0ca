"""Two flaps against a leg (Lewin 2018, figure 5 left): 450 vertices, layers and cached contacts.

The leg kicks forward and back. The outer flap stays outside the inner one, and neither lets the leg through.
"""

import numpy as np
from common import expect, run

import weft
from weft.scene import Path, Predictive

WIDTH, LENGTH = 0.30, 0.55
LEG = (0.0, 0.56, -0.11)
HALF = 0.38


def scene(size: str = "quick") -> weft.Scene:
    """The flaps hang from the hip; a thigh and a shin kick through the place where they hang."""
    quick = size == "quick"
    cells = (9, 9) if quick else (14, 14)

    def flap(name: str, depth: float, colour: str) -> weft.Cloth:
        return weft.Cloth(
            name=name,
            shape=weft.Grid(size=(WIDTH, LENGTH), cells=cells),
            placement=weft.Placement(position=(0.0, 1.0 - LENGTH / 2, depth), rotation_deg=(90, 0, 0)),
            material=weft.Material(preset="wool", thickness=0.008),
            pins=[weft.Pin(boundary="top")],
            colour=colour,
        )

    # the thigh turns about the hip
    angles = [(0.0, 0), (0.4, 0), (0.8, -50), (1.1, -50), (1.5, 20), (1.9, -10), (2.2, -55), (2.6, 10), (2.9, 0)]
    thigh = _swing(angles, pivot=(0.0, 0.94, -0.11), rest=LEG)
    return weft.Scene(
        name="flaps",
        fps=30,
        frames=45 if quick else 120,
        thickness=0.004,
        cloths=[flap("inner", 0.0, "#7a3b2e"), flap("outer", 0.014, "#c9a24a")],
        colliders=[
            weft.Collider(
                name="leg",
                shape=weft.Capsule(radius=0.07, length=2 * HALF),
                analytic=True,
                placement=weft.Placement(position=LEG),
                motion=thigh,
            )
        ],
        method=Predictive(
            substeps=3,
            most_substeps=9,
            layers=[["inner", "outer"]],
            collide=[["inner", "outer"]],
            cache=True,
            cache_radius=0.03,
        ),
        forces=weft.Forces(air_damping=1.5),
        camera=weft.Camera(position=(1.3, 1.1, 1.5), target=(0.0, 0.75, 0.05)),
    )


def _swing(
    angles: list[tuple[float, float]], *, pivot: tuple[float, float, float], rest: tuple[float, float, float]
) -> Path:
    """Keyframes of a limb that turns about the x axis through a pivot; every frame is a keyframe."""
    times, degrees = np.array(angles).T
    frames = []
    arm = np.subtract(rest, pivot)
    for time in np.arange(0.0, times[-1] + 1e-9, 1 / 60):
        # ease in and out between the given angles
        i = min(max(int(np.searchsorted(times, time, side="right")) - 1, 0), len(times) - 2)
        u = min((time - times[i]) / (times[i + 1] - times[i]), 1.0)
        angle = degrees[i] + (degrees[i + 1] - degrees[i]) * u * u * (3 - 2 * u)
        c, s = np.cos(np.radians(angle)), np.sin(np.radians(angle))
        place = np.array(pivot) + [arm[0], c * arm[1] - s * arm[2], s * arm[1] + c * arm[2]]
        shift = tuple(float(v) for v in place - rest)
        frames.append(weft.Keyframe(time=float(time), position=shift, rotation_deg=(float(angle), 0.0, 0.0)))
    return Path(keyframes=frames)


def check(cache: weft.Cache) -> dict[str, object]:
    """The leg is never inside the cloth, and the flaps never cross."""
    scene = cache.scene
    motion = scene.colliders[0].motion.resolve(placement=scene.colliders[0].placement)
    inner, outer = (body.vertices for body in cache.bodies[:2])
    deepest, farthest = 0.0, 0.0
    for frame in range(cache.frames):
        x = cache.positions(frame)
        matrix = motion.matrix(frame / scene.fps)
        centre = matrix[:3, :3] @ scene.colliders[0].placement.position + matrix[:3, 3]
        local = (x[: outer.stop] - centre) @ matrix[:3, :3]
        along = np.clip(local[:, 1], -HALF, HALF)
        gap = np.linalg.norm(local - along[:, None] * [0, 1, 0], axis=1) - 0.07
        # the waist is held and may be passed by
        deepest = min(deepest, float(gap[x[: outer.stop, 1] < 0.93].min()))
        farthest = max(farthest, float(x[: outer.stop, 2].max()))
    expect(f"cloth goes into the leg by {-1000 * deepest:.1f} mm, more than 1", deepest > -0.001)
    stretch = float(cache.report["stretch"].max())
    expect(f"an edge is {100 * stretch:.0f} % longer than at rest", stretch < 0.9)
    expect(f"the leg lifts the flaps by {100 * farthest:.0f} cm only", farthest > 0.15)
    crossings = cache.report["intersections"]
    expect(f"the flaps cross, in frame {crossings.argmax()} in {crossings.max()} places", crossings.max() == 0)
    x = cache.positions(cache.frames - 1)
    expect("the outer flap is not outside at the end", (x[outer, 2] > x[inner, 2]).mean() > 0.98)
    expect("every contact comes from the cache", (cache.report["cached"][1:] > 0).all())
    return {
        "deepest into the leg, mm": round(-1000 * deepest, 2),
        "largest stretch": round(stretch, 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

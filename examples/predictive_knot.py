"""A tape wound into a knot by a collider (Lewin 2018, figure 4 left): 8,000 vertices, contacts found in each step.

A broad tape hangs between two bars, like spaghetti in a fork. The fork turns, and the tape winds up around it and around
itself from both sides, while the hand that holds its upper end gives way.
"""

import numpy as np
from common import expect, run

import weft
from weft.scene import Path, Predictive

LENGTH, WIDTH = 6.0, 1.2
TURNS, BEGIN, TIME, REST = 1.5, 0.7, 4.3, 1.0
BAR = 0.10
THICKNESS = 0.016
# the bars are this far from the axis of the fork
OFF = BAR + 1.5 * THICKNESS


def scene(size: str = "quick") -> weft.Scene:
    """The tape hangs along y from a hand, its middle between the bars, which are along z."""
    quick = size == "quick"
    cells = (119, 23) if quick else (199, 39)

    def bar(name: str, x: float) -> weft.Collider:
        return weft.Collider(
            name=name,
            shape=weft.Capsule(radius=BAR, length=1.2 * WIDTH),
            analytic=True,
            placement=weft.Placement(position=(x, 0.0, 0.0), rotation_deg=(90, 0, 0)),
            motion=_turn(x),
            friction=0.4,
        )

    return weft.Scene(
        name="knot",
        fps=30,
        frames=round(30 * (BEGIN + TIME + REST)),
        thickness=THICKNESS,
        cloths=[
            weft.Cloth(
                name="tape",
                shape=weft.Grid(size=(LENGTH, WIDTH), cells=cells),
                placement=weft.Placement(position=(0.0, 0.0, 0.0), rotation_deg=(0, 0, 90)),
                material=weft.Material(preset="cotton", friction=0.3),
                pins=[weft.Pin(boundary="right", motion=_lower())],
                colour="#c2552d",
            )
        ],
        colliders=[bar("left bar", -OFF), bar("right bar", OFF)],
        forces=weft.Forces(air_damping=1.0),
        # the tape is wound so tightly that overlap has to be undone five times as fast as by default
        method=Predictive(substeps=24, static_radius=0.010, push_speed=5.0),
        camera=weft.Camera(position=(3.0, 1.5, 6.0), target=(0.0, -0.2, 0.0), fov_deg=45.0),
    )


def _turn(x: float) -> Path:
    """The way of a bar of the fork, which gathers speed and comes to rest smoothly."""
    frames = []
    for time in np.arange(0.0, BEGIN + TIME + 1e-9, 1 / 60):
        u = max(time - BEGIN, 0.0) / TIME
        angle = 2 * np.pi * TURNS * u * u * (3 - 2 * u)
        c, s = np.cos(angle), np.sin(angle)
        shift = (float(c * x - x), float(s * x), 0.0)
        frames.append(
            weft.Keyframe(time=float(time), position=shift, rotation_deg=(0.0, 0.0, float(np.degrees(angle))))
        )
    return Path(keyframes=frames)


def _lower() -> Path:
    """The way of the hand: as much down as the fork takes up, and a little more."""
    times = np.arange(0.0, BEGIN + TIME + 1e-9, 1 / 60)
    frames = []
    for time in times:
        u = max(time - BEGIN, 0.0) / TIME
        turns = TURNS * u * u * (3 - 2 * u)
        # around both bars, and around what is on them already
        wound = turns * (4 * OFF + 2 * np.pi * (BAR + THICKNESS)) + 2 * np.pi * THICKNESS * turns**2
        frames.append(weft.Keyframe(time=float(time), position=(0.0, -float(wound), 0.0)))
    return Path(keyframes=frames)


def check(cache: weft.Cache) -> dict[str, object]:
    """The tape is wound up, in layers that do not pass through each other, and not much longer than it was."""
    tape = cache.bodies[0].vertices
    first, last = (cache.positions(frame)[tape] for frame in (0, cache.frames - 1))
    cells = cache.scene.cloths[0].shape.cells
    # the row of the middle of the tape: how often it goes round the axis of the fork
    line = last.reshape(cells[1] + 1, cells[0] + 1, 3)[cells[1] // 2]
    angles = np.unwrap(np.arctan2(line[:, 1], line[:, 0]))
    turns = float(np.ptp(angles)) / (2 * np.pi)
    expect(f"the tape goes round the fork {turns:.1f} times only", turns > 2 * TURNS - 1.3)
    near = float((np.hypot(last[:, 0], last[:, 1]) < 0.5).mean())
    expect(f"only {100 * near:.0f} % of the tape is at the fork", near > 0.4)
    crossings = cache.report["intersections"]
    expect(f"the tape passes through itself in {crossings.max()} places", crossings.max() <= 0.002 * len(first))
    stretch = float(cache.report["stretch"].max())
    expect(f"an edge is {100 * stretch:.0f} % longer than at rest", stretch < 0.6)
    return {
        "vertices": len(first),
        "turns of the tape about the fork": round(turns, 2),
        "most crossings in a frame": int(crossings.max()),
        "contacts in a step, at most": int(cache.report["contacts"].max()),
        "largest stretch": round(stretch, 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

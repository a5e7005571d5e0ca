"""An arm lies at the body, 5 cm deep in it, with a sleeve between (Baraff, Witkin and Kass 2003, figure 10).

The arm comes to the torso, stays there for two seconds, and leaves. There is no place for the sleeve between the two. While
they stand still the sleeve must, too, and when the arm is away again nothing may be left in either of them.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, run

import weft
from weft.scene import Path, Untangle

FOLDER = FilePath("out") / "untangle_arm"
ARM, TORSO, SLEEVE = 0.05, 0.14, 0.4
# how deep the arm goes into the torso, m, and when it comes, is there, leaves and is away, s
DEPTH = 0.05
TIMES = (0.1, 0.6, 2.6, 3.1)
SECONDS = 4.0
# s after which the sleeve has settled, and m that a vertex may then move a frame
SETTLING, MOST_MOTION = 0.5, 5e-4


def apart(time: float) -> float:
    """How far the arm is from where it lies in the torso, m."""
    comes, there, leaves, away = TIMES
    near = np.clip((time - comes) / (there - comes), 0.0, 1.0) - np.clip((time - leaves) / (away - leaves), 0.0, 1.0)
    return float((DEPTH + 0.03) * (1.0 - near))


def scene(size: str = "quick") -> weft.Scene:
    """A sleeve, held at its upper end by the arm, and two capsules."""
    around, rows = (37, 21) if size == "quick" else (74, 42)
    angle = 2.0 * np.pi * np.arange(around) / around
    # held by the arm where it stays outside of the torso
    outer = np.flatnonzero(np.cos(angle) < -0.3)
    ring = (ARM + 0.004) * np.column_stack([np.cos(angle), np.zeros(around), np.sin(angle)])
    vertices = np.concatenate([ring + [0.0, y, 0.0] for y in np.linspace(0.5 * SLEEVE, -0.5 * SLEEVE, rows + 1)])
    i, j = (a.ravel() for a in np.meshgrid(np.arange(around), np.arange(rows)))
    a, b = j * around + i, j * around + (i + 1) % around
    faces = np.concatenate([np.column_stack([a, b, b + around]), np.column_stack([a, b + around, a + around])])
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / "sleeve.npz"
    start = np.array([apart(0.0), 0.0, 0.0])
    np.savez(file, vertices=vertices - start, faces=faces)
    times = np.arange(0.0, SECONDS + 1e-9, 1 / 60)
    path = [weft.Keyframe(time=float(t), position=(apart(0.0) - apart(t), 0.0, 0.0)) for t in times]
    return weft.Scene(
        name="arm",
        frames=round(60 * SECONDS),
        thickness=0.002,
        method=Untangle(),
        cloths=[
            weft.Cloth(
                name="sleeve",
                mesh=str(file.absolute()),
                material="cotton",
                pins=[weft.Pin(indices=outer.tolist(), motion=Path(keyframes=path))],
                colour="#b5485d",
            )
        ],
        colliders=[
            weft.Collider(
                name="arm",
                shape=weft.Capsule(radius=ARM, length=0.5),
                placement=weft.Placement(position=tuple((-start).tolist())),
                motion=Path(keyframes=path),
            ),
            weft.Collider(
                name="torso",
                shape=weft.Capsule(radius=TORSO, length=0.6),
                placement=weft.Placement(position=(ARM + TORSO - DEPTH, 0.0, 0.0)),
            ),
        ],
        camera=weft.Camera(position=(-0.3, 0.2, 1.2), target=(0.05, 0.0, 0.0)),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """The sleeve stands still while the arm does, and is free when the arm has left."""
    cloth = cache.bodies[0].vertices
    first, last = round(60 * (TIMES[1] + SETTLING)), round(60 * TIMES[2])
    positions = [cache.positions(frame)[cloth] for frame in range(first, last + 1)]
    moved = np.linalg.norm(np.diff(positions, axis=0), axis=2).max(axis=1)
    pinched = int(cache.report["pinched"][last])
    expect(f"only {pinched} vertices are pinched", pinched > 100)
    expect(f"a vertex moves by {1e3 * moved.max():.2f} mm a frame", moved.max() < MOST_MOTION)
    left = int(cache.report["intersections"][-1])
    expect(f"{left} intersections are left", left == 0)
    return {
        "vertices": cloth.stop,
        "pinched": pinched,
        "farthest that a vertex moves a frame, mm": round(1e3 * float(moved.max()), 3),
        "intersections in the end": left,
    }


if __name__ == "__main__":
    run(__file__, scene, check)

"""A bent elbow: two arms sink into each other with a sleeve around them (Baraff, Witkin and Kass 2003, figures 2 and 7).

The forearm folds back until both arms overlap deeply, holds still, and opens again. Between the arms the sleeve is
pinched: it is carried with both of them, and does not move at all while they hold still. Once they open it comes free.
"""

from itertools import pairwise
from pathlib import Path as FilePath

import numpy as np
from common import expect, run

import weft
from weft.scene import Path, Untangle

FOLDER = FilePath("out") / "untangle_elbow"
RADIUS, LENGTH = 0.05, 0.24
# how far the forearm folds, and when it begins to fold, is folded, begins to open, is open
ANGLE = 120.0
TIMES = (0.3, 1.1, 2.1, 2.9)
SECONDS = 3.9
THICKNESS = 0.002
# a step while the arms hold still, from this long after they stopped
SETTLING = 0.25


def sleeve(around: int, rows: int) -> weft.TriMesh:
    """A tube along x from the shoulder to the wrist, a little wider than the arm."""
    angle = 2.0 * np.pi * np.arange(around) / around
    along = np.linspace(-0.9 * LENGTH, 0.9 * LENGTH, rows + 1)
    ring = np.column_stack([np.zeros(around), np.cos(angle), np.sin(angle)]) * (RADIUS + 0.008)
    vertices = np.concatenate([ring + [x, 0.0, 0.0] for x in along])
    faces = []
    for j in range(rows):
        for i in range(around):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = b + around, a + around
            faces += [(a, b, c), (a, c, d)] if (i + j) % 2 else [(a, b, d), (b, c, d)]
    return weft.TriMesh(vertices, np.array(faces))


def fold(time: float) -> float:
    """The angle of the forearm, degrees."""
    begin, folded, release, opened = TIMES
    up = np.clip((time - begin) / (folded - begin), 0.0, 1.0)
    down = np.clip((time - release) / (opened - release), 0.0, 1.0)
    # smooth starts and ends
    return float(ANGLE * ((3.0 - 2.0 * up) * up**2 - (3.0 - 2.0 * down) * down**2))


def scene(size: str = "quick", *, pinch: bool = True) -> weft.Scene:
    """An upper arm along x that stays, a forearm that folds in the xy plane, and the sleeve, held at the shoulder."""
    quick = size == "quick"
    around, rows = (20, 30) if quick else (36, 54)
    mesh = sleeve(around, rows)
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / "sleeve.npz"
    np.savez(file, vertices=mesh.vertices, faces=mesh.faces)
    middle = np.array([0.5 * LENGTH, 0.0, 0.0])
    keyframes = []
    for time in np.arange(0.0, SECONDS + 1e-9, 1 / 60):
        angle = np.radians(fold(time))
        way = middle[0] * np.array([np.cos(angle), np.sin(angle), 0.0]) - middle
        keyframes.append(
            weft.Keyframe(time=float(time), position=tuple(way.tolist()), rotation_deg=(0.0, 0.0, fold(time)))
        )
    arm = weft.Capsule(radius=RADIUS, length=LENGTH)
    return weft.Scene(
        name="elbow",
        frames=round(60 * SECONDS),
        thickness=THICKNESS,
        method=Untangle(pinch=pinch, steps=1),
        cloths=[
            weft.Cloth(
                name="sleeve",
                mesh=str(file.absolute()),
                material="cotton",
                pins=[weft.Pin(indices=list(range(around)))],
                colour="#b5485d",
            )
        ],
        colliders=[
            weft.Collider(
                name="upper arm",
                shape=arm,
                placement=weft.Placement(position=tuple((-middle).tolist()), rotation_deg=(0.0, 0.0, 90.0)),
            ),
            weft.Collider(
                name="forearm",
                shape=arm,
                placement=weft.Placement(position=tuple(middle.tolist()), rotation_deg=(0.0, 0.0, 90.0)),
                motion=Path(keyframes=keyframes),
            ),
        ],
        camera=weft.Camera(position=(0.15, 0.25, 0.9), target=(0.0, 0.08, 0.0)),
    )


def inside_both(x: np.ndarray, time: float) -> np.ndarray:
    """Which points are well inside both arms, by the arms' formulas, and between them: the way out of one is not that out of
    the other, as it is at the point of the elbow."""
    angle = np.radians(fold(time))
    ways = []
    for end in (np.array([-1.0, 0.0, 0.0]), np.array([np.cos(angle), np.sin(angle), 0.0])):
        part = np.clip(x @ end, 0.0, LENGTH)
        ways.append(x - part[:, None] * end)
    lengths = [np.linalg.norm(way, axis=1) for way in ways]
    return (RADIUS - np.maximum(*lengths) > THICKNESS) & (
        (ways[0] * ways[1]).sum(axis=1) < 0.5 * np.prod(lengths, axis=0)
    )


def held_motion(cache: weft.Cache, pinched: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """While the arms hold still: which vertices are inside both, and how far the cloth moves from frame to frame.

    The second is (steps, 2), m: the farthest of those inside both (or of those given), and of all others.
    """
    cloth = cache.bodies[0].vertices
    first, last = round(60 * (TIMES[1] + SETTLING)), round(60 * TIMES[2])
    positions = [cache.positions(frame)[cloth] for frame in range(first, last + 1)]
    if pinched is None:
        pinched = np.logical_and.reduce([inside_both(x, frame / 60) for frame, x in enumerate(positions, start=first)])
    moved = []
    for before, after in pairwise(positions):
        way = np.linalg.norm(after - before, axis=1)
        moved.append((way[pinched].max(initial=0.0), way[~pinched].max(initial=0.0)))
    return pinched, np.array(moved)


def check(cache: weft.Cache) -> dict[str, object]:
    """What is pinched does not move while the arms hold still, and the sleeve is free within a second of opening."""
    mask, moved = held_motion(cache)
    pinched = int(mask.sum())
    expect(f"only {pinched} vertices are inside both arms", pinched >= 5)
    expect(f"pinched vertices move by {moved[:, 0].max():.1e} m a step", moved[:, 0].max() < 1e-9)
    crossings = cache.report["intersections"]
    opened = round(60 * TIMES[3])
    # free for good: from the frame after the last that has an intersection
    free = max(opened, int(np.flatnonzero(crossings)[-1]) + 1)
    expect(f"{crossings[-1]} intersections are left, or came back, a second after opening", free < len(crossings))
    return {
        "vertices": cache.bodies[0].vertices.stop,
        "inside both arms": pinched,
        "most pinched in a step": int(np.nanmax(cache.report["pinched"])),
        "farthest that one of them moves a step, m": float(moved[:, 0].max()),
        "farthest that another vertex moves a step, mm": round(1e3 * float(moved[:, 1].max()), 3),
        "most intersections": int(crossings.max()),
        "free for good after opening, s": round((free - opened) / 60, 2),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

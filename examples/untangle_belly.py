"""A hand rubs a belly under a shirt, three times (Baraff, Witkin and Kass 2003, figure 9).

The hand, a ball, presses into the torso and goes to and fro. Where both pinch the shirt its weight tells how much the
cloth goes with the hand: 10 %, 50 % or 100 %, and the rest stays with the torso.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, run

import weft
from weft.scene import Flypaper, Path, Untangle

FOLDER = FilePath("out") / "untangle_belly"
WEIGHTS = (0.1, 0.5, 1.0)
# where the three stand, and what they wear
SIDES, COLOURS = (-0.45, 0.0, 0.45), ("#7a9cc6", "#d8c26a", "#b5485d")
TORSO, HAND = 0.14, 0.05
# how deep the hand presses, how far it goes to a side, and when it comes, rubs and leaves
DEPTH, RUB = 0.015, 0.05
TIMES = (0.2, 0.5, 1.5, 1.8)
SECONDS = 2.0


def place(time: float) -> np.ndarray:
    """Where the hand is."""
    comes, rubs, leaves, gone = TIMES
    near = np.clip((time - comes) / (rubs - comes), 0.0, 1.0) - np.clip((time - leaves) / (gone - leaves), 0.0, 1.0)
    side = RUB * np.sin(2.0 * np.pi * np.clip((time - rubs) / (leaves - rubs), 0.0, 1.0))
    return np.array([0.0, side, TORSO + HAND - DEPTH + 0.06 * (1.0 - near)])


def scene(size: str = "quick") -> weft.Scene:
    """Three torsos side by side, each in a shirt held at its upper border, with a hand before it; one weight each."""
    quick = size == "quick"
    around, rows = (40, 20) if quick else (72, 36)
    angle = 2.0 * np.pi * np.arange(around) / around
    ring = (TORSO + 0.008) * np.column_stack([np.sin(angle), np.zeros(around), np.cos(angle)])
    vertices = np.concatenate([ring + [0.0, y, 0.0] for y in np.linspace(0.2, -0.2, rows + 1)])
    faces = []
    for j in range(rows):
        for i in range(around):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = b + around, a + around
            faces += [(a, c, b), (a, d, c)] if (i + j) % 2 else [(a, d, b), (b, d, c)]
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / "shirt.npz"
    np.savez(file, vertices=vertices, faces=np.array(faces))
    times = np.arange(0.0, SECONDS + 1e-9, 1 / 60)
    path = [weft.Keyframe(time=float(t), position=tuple((place(t) - place(0.0)).tolist())) for t in times]
    cloths, colliders, flypaper = [], [], []
    for weight, side, colour in zip(WEIGHTS, SIDES, COLOURS, strict=True):
        beside = np.array([side, 0.0, 0.0])
        hand, torso = f"hand {100 * weight:.0f}", f"torso {100 * weight:.0f}"
        flypaper += [Flypaper(collider=hand, weight=weight), Flypaper(collider=torso, weight=1.0 - weight)]
        cloths.append(
            weft.Cloth(
                name=f"shirt {100 * weight:.0f}",
                mesh=str(file.absolute()),
                placement=weft.Placement(position=tuple(beside.tolist())),
                material="cotton",
                pins=[weft.Pin(indices=list(range(around)))],
                colour=colour,
            )
        )
        colliders += [
            weft.Collider(
                name=torso,
                shape=weft.Capsule(radius=TORSO, length=0.45),
                placement=weft.Placement(position=tuple(beside.tolist())),
            ),
            weft.Collider(
                name=hand,
                shape=weft.Sphere(radius=HAND),
                placement=weft.Placement(position=tuple((beside + place(0.0)).tolist())),
                motion=Path(keyframes=path),
            ),
        ]
    return weft.Scene(
        name="belly",
        frames=round(60 * SECONDS),
        thickness=0.002,
        method=Untangle(flypaper=flypaper),
        cloths=cloths,
        colliders=colliders,
        camera=weft.Camera(position=(0.5, 0.15, 1.6), target=(0.0, 0.0, 0.05)),
    )


def following(cache: weft.Cache) -> list[float]:
    """How far each shirt goes with its hand in the first quarter of the rub, as a part of the hand's way."""
    rubs, leaves = TIMES[1], TIMES[2]
    first, last = round(60 * (rubs + 0.02)), round(60 * (rubs + 0.25 * (leaves - rubs)))
    way = place(last / 60)[1] - place(first / 60)[1]
    parts = []
    for shirt, side in zip(cache.bodies[: len(WEIGHTS)], SIDES, strict=True):
        start, end = cache.positions(first)[shirt.vertices], cache.positions(last)[shirt.vertices]
        # what lay deepest under the hand when it began
        under = np.argsort(np.linalg.norm(start - place(first / 60) - [side, 0.0, 0.0], axis=1))[:5]
        parts.append(float((end - start)[under, 1].mean() / way))
    return parts


def check(cache: weft.Cache) -> dict[str, object]:
    """The cloth under each hand follows it by the hand's weight."""
    parts = following(cache)
    for weight, part in zip(WEIGHTS, parts, strict=True):
        expect(f"the cloth follows by {part:.2f} of the hand's way, not by {weight}", abs(part - weight) < 0.2)
    expect("they do not follow in the order of the weights", parts == sorted(parts))
    expect("nothing is pinched", np.nanmax(cache.report["pinched"]) > 0)
    return {
        "weights of the hands": WEIGHTS,
        "parts of their way that the cloth goes with them": [round(part, 3) for part in parts],
        "most pinched": int(np.nanmax(cache.report["pinched"])),
        "largest stretch": round(float(cache.report["stretch"].max()), 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

"""A hand rubs a belly under a shirt (Baraff, Witkin and Kass 2003, figure 9).

The hand, a ball, presses into the torso and goes to and fro. Where both pinch the shirt its weight tells how much the
cloth goes with the hand: 10 %, 50 % or 100 %, and the rest stays with the torso.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, main

import weft
from weft.scene import Flypaper, Path, Untangle

FOLDER = FilePath("out") / "untangle_belly"
WEIGHTS = (0.1, 0.5, 1.0)
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


def build(quick: bool, weight: float = WEIGHTS[1]) -> weft.Scene:
    """A shirt around a torso, held at its upper border, and the hand before it; `weight` is the hand's, of 1."""
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
    return weft.Scene(
        name=f"belly {100 * weight:.0f}",
        frames=round(60 * SECONDS),
        thickness=0.002,
        method=Untangle(
            flypaper=[Flypaper(collider="hand", weight=weight), Flypaper(collider="torso", weight=1.0 - weight)]
        ),
        cloths=[
            weft.Cloth(
                name="shirt",
                mesh=str(file.absolute()),
                material="cotton",
                pins=[weft.Pin(indices=list(range(around)))],
                colour="#d8c26a",
            )
        ],
        colliders=[
            weft.Collider(name="torso", shape=weft.Capsule(radius=TORSO, length=0.45)),
            weft.Collider(
                name="hand",
                shape=weft.Sphere(radius=HAND),
                placement=weft.Placement(position=tuple(place(0.0).tolist())),
                motion=Path(keyframes=path),
            ),
        ],
        camera=weft.Camera(position=(0.5, 0.15, 0.8), target=(0.0, 0.0, 0.05)),
    )


def following(cache: weft.Cache) -> float:
    """How far the cloth under the hand goes with it in the first quarter of the rub, as a part of the hand's way."""
    rubs, leaves = TIMES[1], TIMES[2]
    first, last = round(60 * (rubs + 0.02)), round(60 * (rubs + 0.25 * (leaves - rubs)))
    cloth = cache.bodies[0].vertices
    start, end = cache.positions(first)[cloth], cache.positions(last)[cloth]
    # what lay deepest under the hand when it began
    under = np.argsort(np.linalg.norm(start - place(first / 60), axis=1))[:5]
    way = place(last / 60)[1] - place(first / 60)[1]
    return float((end - start)[under, 1].mean() / way)


def check(cache: weft.Cache) -> dict[str, object]:
    """The cloth under the hand follows it by the hand's weight."""
    weight = next(one.weight for one in cache.scene.method.flypaper if one.collider == "hand")
    part = following(cache)
    expect(f"the cloth follows by {part:.2f} of the hand's way, not by {weight}", abs(part - weight) < 0.2)
    expect("nothing is pinched", np.nanmax(cache.report["pinched"]) > 0)
    return {
        "weight of the hand": weight,
        "part of its way that the cloth goes with it": round(part, 3),
        "most pinched": int(np.nanmax(cache.report["pinched"])),
        "largest stretch": round(float(cache.report["stretch"].max()), 3),
    }


if __name__ == "__main__":
    main(__file__, build, check)

"""A tortured shirt (Baraff, Witkin and Kass 2003, figure 8).

Its cuffs and its hem are dragged through it and through each other for a second, and nothing keeps the cloth out of
itself: it has hundreds of crossings when it is let go and untangling begins. Soon after it is free, and stays so.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, run

import weft
from weft.scene import Path, Untangle

FOLDER = FilePath("out") / "untangle_shirt"
DRAG, SECONDS = 1.2, 2.0
# squares around the body and down it, of the side of an arm hole, from the neck to it, along a sleeve
QUICK = {"around": 28, "rows": 24, "hole": 4, "drop": 2, "sleeve": 9}
FULL = {"around": 40, "rows": 36, "hole": 6, "drop": 3, "sleeve": 14}


def shirt(
    around: int, rows: int, hole: int, drop: int, sleeve: int, *, length: float = 0.55, droop: float = 0.12
) -> weft.TriMesh:
    """A tube with two sleeves, in one piece; neck, hem and cuffs are open.

    length: of the tube, m; droop: how much lower than their beginning the sleeves end, m.
    """
    angle = 2.0 * np.pi * np.arange(around) / around
    heights = np.linspace(length, 0.0, rows + 1)
    radii = np.where(np.arange(rows + 1) < drop, 0.65 + 0.35 * np.arange(rows + 1) / drop, 1.0)
    ring = np.column_stack([0.184 * np.cos(angle), np.zeros(around), 0.112 * np.sin(angle)])
    vertices = [*(r * ring + [0.0, y, 0.0] for r, y in zip(radii, heights, strict=True))]
    faces: list[tuple[int, int, int]] = []

    def join(a: int, b: int, c: int, d: int, turn: int) -> None:
        faces.extend([(a, b, c), (a, c, d)] if turn % 2 else [(a, b, d), (b, c, d)])

    def body(row: int, column: int) -> int:
        return row * around + column % around

    sides = {1.0: -(hole // 2), -1.0: around // 2 - hole // 2}
    holes = {body(drop + j, first + i) for first in sides.values() for j in range(hole) for i in range(hole)}
    for j in range(rows):
        for i in range(around):
            if body(j, i) not in holes:
                join(body(j, i), body(j, i + 1), body(j + 1, i + 1), body(j + 1, i), i + j)

    # a sleeve starts from the border of its hole and soon becomes round
    count = (rows + 1) * around
    for side, first in sides.items():
        border = [body(drop, first + k) for k in range(hole)]
        border += [body(drop + k, first + hole) for k in range(hole)]
        border += [body(drop + hole, first + hole - k) for k in range(hole)]
        border += [body(drop + hole - k, first) for k in range(hole)]
        start = np.concatenate(vertices)[border]
        middle = start.mean(axis=0)
        arm = start - middle
        turn = np.arctan2(arm[:, 1], arm[:, 2])
        round_ = np.column_stack([np.full(len(turn), 0.02 * side), np.sin(turn), np.cos(turn)])
        round_[:, 1:] *= 0.95 * np.linalg.norm(arm[:, 1:], axis=1).mean()
        before = border
        for k in range(1, sleeve + 1):
            part = k / sleeve
            blend = min(1.0, 3.0 * part)
            out = np.array([0.25 * side * part, -droop * part**2, 0.0])
            vertices.append(middle + (1.0 - blend) * arm + blend * round_ + out)
            now = list(range(count, count + len(border)))
            count += len(border)
            for i in range(len(border)):
                j = (i + 1) % len(border)
                join(before[i], before[j], now[j], now[i], i + k)
            before = now

    # vertices inside the holes belong to no triangle
    used, renumbered = np.unique(np.array(faces), return_inverse=True)
    return weft.TriMesh(np.concatenate(vertices)[used], renumbered.reshape(-1, 3))


def scene(size: str = "quick") -> weft.Scene:
    """Held at the neck; hem and cuffs are dragged along paths and let go."""
    quick = size == "quick"
    mesh = shirt(**(QUICK if quick else FULL))
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / "shirt.npz"
    np.savez(file, vertices=mesh.vertices, faces=mesh.faces)
    loops = mesh.boundary_loops
    centres = np.array([mesh.vertices[loop].mean(axis=0) for loop in loops])
    neck, hem = loops[centres[:, 1].argmax()], loops[centres[:, 1].argmin()]
    left, right = loops[centres[:, 0].argmin()], loops[centres[:, 0].argmax()]

    def drag(loop: np.ndarray, *places: tuple[float, float, float]) -> weft.Pin:
        times = np.linspace(0.0, DRAG, len(places) + 1)[1:]
        keyframes = [weft.Keyframe(time=0.0)]
        keyframes += [weft.Keyframe(time=float(t), position=p) for t, p in zip(times, places, strict=True)]
        return weft.Pin(indices=loop.tolist(), motion=Path(keyframes=keyframes), until=DRAG)

    pins = [
        weft.Pin(indices=neck.tolist()),
        drag(left, (0.35, -0.1, 0.05), (0.55, -0.2, 0.1), (0.3, -0.2, -0.15)),
        drag(right, (-0.3, 0.0, 0.0), (-0.5, -0.2, -0.05), (-0.35, -0.1, 0.15)),
        drag(hem, (0.0, 0.2, 0.15), (0.05, 0.35, -0.1), (0.0, 0.2, -0.25)),
    ]
    return weft.Scene(
        name="tortured shirt",
        frames=round(60 * (DRAG + SECONDS)),
        thickness=0.002,
        method=Untangle(begin=DRAG),
        cloths=[weft.Cloth(name="shirt", mesh=str(file.absolute()), material="cotton", pins=pins, colour="#7a9cc6")],
        camera=weft.Camera(position=(0.35, 0.55, 1.35), target=(0.0, 0.3, 0.0)),
    )


def check(cache: weft.Cache) -> dict[str, object]:
    """Hundreds of crossings when it is let go, none in the end."""
    crossings = cache.report["intersections"]
    begin = round(60 * DRAG)
    expect(f"only {crossings[begin]} crossings when untangling begins", crossings[begin] >= 300)
    expect(f"{crossings[begin:].min()} crossings are left within {SECONDS} s", crossings[begin:].min() == 0)
    # free for good: in the last half second nothing crosses. What the drag makes of it differs from rounding to rounding, and
    # so does the time, from 0.2 to 0.8 s
    free = int(np.flatnonzero(crossings)[-1]) + 1
    expect(
        f"{crossings[free - 1]} crossings {len(crossings) - free} frames before the end", free <= len(crossings) - 30
    )
    stretch = float(cache.report["stretch"][-1])
    expect(f"an edge is {stretch:.0%} longer than at rest in the end", stretch < 0.2)
    return {
        "vertices": cache.bodies[0].vertices.stop,
        "crossings when untangling begins": int(crossings[begin]),
        "free for the first time after, s": round(int(np.argmax(crossings[begin:] == 0)) / 60, 2),
        "free to the end after, s": round((free - begin) / 60, 2),
        "seconds a frame while untangling": round(float(np.mean(cache.report["wall_time"][begin + 1 :])), 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

"""A skirt of three layers (Lewin 2018, figure 5 right): 800 vertices, layers and cached contacts.

The dancer turns to and fro, bends her knees and kicks. Each layer stays outside the one under it.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, run

import weft
from weft.scene import Follow, Path, Predictive

LAYERS = ("under", "middle", "over")
COLOURS = ("#f2e6d0", "#b5485d", "#5d2a42")
WAIST = 1.0
FOLDER = FilePath("out") / "predictive_skirt"


def cone(top: float, bottom: float, length: float, around: int, rows: int) -> weft.TriMesh:
    """A skirt that widens downwards, about the y axis, its normals outwards."""
    down = np.linspace(0.0, 1.0, rows)
    angle = 2.0 * np.pi * np.arange(around) / around
    radius = top + (bottom - top) * down
    height = -down * np.sqrt(length**2 - (bottom - top) ** 2)
    ring = np.stack([np.cos(angle), np.zeros(around), -np.sin(angle)], axis=1)
    vertices = (radius[:, None, None] * ring + height[:, None, None] * np.array([0.0, 1.0, 0.0])).reshape(-1, 3)
    faces = []
    for j in range(rows - 1):
        for i in range(around):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = a + around, b + around
            faces += [(a, c, b), (b, c, d)] if (i + j) % 2 else [(a, c, d), (a, d, b)]
    return weft.TriMesh(vertices, np.array(faces))


def dance(seconds: float) -> list[tuple[float, float, float, float, float]]:
    """Time, turn (deg), height (m), kick of the right and of the left leg (deg)."""
    rows = []
    for time in np.arange(0.0, seconds + 1e-9, 1 / 60):
        on = np.clip((time - 0.3) / 0.5, 0.0, 1.0) * np.clip((seconds - 1.2 - time) / 0.4, 0.0, 1.0)
        turn = 55.0 * on * np.sin(2.0 * np.pi * 0.55 * (time - 0.3))
        height = -0.05 * on * (1.0 - np.cos(2.0 * np.pi * 1.1 * (time - 0.3))) / 2
        kick = 28.0 * on * np.sin(2.0 * np.pi * 1.1 * (time - 0.3))
        rows.append((time, turn, height, max(kick, -15.0), max(-kick, -15.0)))
    return rows


def scene(size: str = "quick") -> weft.Scene:
    """Waist pinned to the hips, which turn; two legs kick under the skirt."""
    quick = size == "quick"
    around, rows = (18, 8) if quick else (24, 11)
    seconds = 2.0 if quick else 6.0
    FOLDER.mkdir(parents=True, exist_ok=True)
    steps = dance(seconds)

    def path(place: np.ndarray, leg: int | None) -> Path:
        """The way of a point of the hips, or of the middle of a leg, with its rotation."""
        frames = []
        for time, turn, height, *kicks in steps:
            turned = _about_y(turn)
            shift, angles = np.zeros(3), (0.0, turn, 0.0)
            if leg is None:
                shift = turned @ place - place
            else:
                hip = np.array([place[0], WAIST - 0.10, 0.0])
                swung = turned @ (hip + _about_x(-kicks[leg]) @ (place - hip))
                shift, angles = swung - place, (-kicks[leg], turn, 0.0)
            shift = shift + [0.0, height, 0.0]
            frames.append(weft.Keyframe(time=time, position=tuple(shift.tolist()), rotation_deg=angles))
        return Path(keyframes=frames)

    waist = path(np.array([0.0, WAIST, 0.0]), None)
    cloths = []
    for k, (name, colour) in enumerate(zip(LAYERS, COLOURS, strict=True)):
        file = FOLDER / f"{name}.obj"
        length = 0.62 - 0.12 * k
        mesh = cone(0.135 + 0.012 * k, 0.135 + 0.012 * k + (0.34 + 0.03 * k) * length, length, around, rows)
        weft.save_mesh(mesh, file)
        cloths.append(
            weft.Cloth(
                name=name,
                mesh=str(file.absolute()),
                placement=weft.Placement(position=(0.0, WAIST, 0.0)),
                material=weft.Material(preset="wool", thickness=0.007),
                pins=[weft.Pin(indices=list(range(around)), motion=waist)],
                colour=colour,
            )
        )
    colliders = [
        _limb("hips", (0.0, WAIST - 0.04, 0.0), 0.115, 0.06, path(np.array([0.0, WAIST - 0.04, 0.0]), None)),
        *(
            _limb(name, (side, WAIST - 0.45, 0.0), 0.068, 0.66, path(np.array([side, WAIST - 0.45, 0.0]), leg))
            for leg, (name, side) in enumerate((("right leg", -0.075), ("left leg", 0.075)))
        ),
    ]
    return weft.Scene(
        name="skirt",
        fps=30,
        frames=round(30 * seconds),
        # an edge of the hem is two thirds as long as a leg is wide: vertices keep so far off that it does not cut the leg
        thickness=0.024,
        cloths=cloths,
        colliders=colliders,
        forces=weft.Forces(air_damping=0.6),
        method=Predictive(
            substeps=3,
            layers=[LAYERS],
            collide=[LAYERS[:2], LAYERS[1:]],
            cache=True,
            cache_radius=0.05,
            # weak springs to the dancer's own motion, as games have them
            follow=[Follow(cloth=name, motion=waist, frequency=0.7, reach=0.25) for name in LAYERS],
        ),
        camera=weft.Camera(position=(0.9, 1.25, 2.0), target=(0.0, 0.72, 0.0)),
    )


def _limb(name: str, place: tuple[float, float, float], radius: float, length: float, path: Path) -> weft.Collider:
    return weft.Collider(
        name=name,
        shape=weft.Capsule(radius=radius, length=length),
        analytic=True,
        placement=weft.Placement(position=place),
        motion=path,
        friction=0.2,
    )


def _about_x(angle_deg: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def _about_y(angle_deg: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def layer_crossings(cache: weft.Cache) -> np.ndarray:
    """In how many places the layers pass through each other, frame by frame.

    The report counts edges that cut the corner of a limb, and folds of one layer, too.
    """
    cloths = [body for body in cache.bodies if body.kind == "cloth"]
    faces = cache.faces[: cloths[-1].faces.stop]
    layer = np.concatenate([np.full(c.vertices.stop - c.vertices.start, k) for k, c in enumerate(cloths)])
    found = np.zeros(cache.frames, int)
    for frame in np.flatnonzero(cache.report["intersections"] != 0):
        rows = weft.intersections(cache.positions(frame)[: len(layer)], faces)
        found[frame] = (layer[rows[:, 0]] != layer[faces[rows[:, 2], 0]]).sum()
    return found


def limbs_in_cloth(cache: weft.Cache) -> np.ndarray:
    """In how many places limbs show through the cloth, frame by frame."""
    cloths = [body for body in cache.bodies if body.kind == "cloth"]
    faces, count = cache.faces[: cloths[-1].faces.stop], cloths[-1].vertices.stop
    found = np.array(cache.report["intersections"])
    for frame in np.flatnonzero(found != 0):
        found[frame] -= len(weft.intersections(cache.positions(frame)[:count], faces))
    return found


def check(cache: weft.Cache) -> dict[str, object]:
    """The layers cross seldom and little, and not at all once the dancer stands; her legs stay under them."""
    crossings = layer_crossings(cache)
    expect(f"the layers cross in {crossings[-1]} places at the end", crossings[-1] == 0)
    expect(f"frames with crossings: {(crossings > 0).sum()} of {cache.frames}", (crossings > 0).mean() < 0.05)
    shown = limbs_in_cloth(cache)
    expect(f"a leg shows through in {(shown > 0).sum()} of {cache.frames} frames", (shown > 0).mean() < 0.02)
    last = cache.positions(cache.frames - 1)
    widest = [float(np.hypot(*last[body.vertices][:, [0, 2]].T).max()) for body in cache.bodies[:3]]
    expect(f"the skirt hangs {widest} m wide", min(widest) > 0.2 and max(widest) < 0.6)
    expect("every contact of cloth with cloth comes from the cache", (cache.report["cached"][1:] > 0).all())
    return {
        "frames with crossings": int((crossings > 0).sum()),
        "most crossings in a frame": int(crossings.max()),
        "frames in which a leg shows through": int((shown > 0).sum()),
        "largest stretch": round(float(cache.report["stretch"].max()), 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

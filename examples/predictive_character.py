"""A character of capsules in a garment of three layers, playing a violent motion (Lewin 2018, figure 1): 1,500 vertices.

The layers may crash through each other while the body jerks about, faster than any body does. They know their order, so
within a second after it has come to rest they lie in order again.
"""

from pathlib import Path as FilePath

import numpy as np
from common import expect, run
from predictive_skirt import layer_crossings

import weft
from weft.scene import Follow, Path, Predictive

LAYERS = ("tunic", "coat", "cape")
COLOURS = ("#ead9b8", "#7d2f3c", "#2f4858")
# the middle of the chest, about which the body turns; the garment hangs from here
ROOT = np.array([0.0, 1.34, 0.0])
FOLDER = FilePath("out") / "predictive_character"
STILL = 1.5


def robe(
    top: float, bottom: float, length: float, around: int, rows: int, arc_deg: float = 360.0
) -> tuple[weft.TriMesh, int]:
    """A tube that widens downwards about the y axis, or an arc of one around the back; normals outwards.

    Gives the mesh and how many vertices a row has.
    """
    closed = arc_deg == 360.0
    steps = np.arange(around) / (around if closed else around - 1)
    angle = 2.0 * np.pi * steps if closed else np.radians(90.0 - arc_deg / 2 + arc_deg * steps)
    down = np.linspace(0.0, 1.0, rows)
    radius = top + (bottom - top) * down
    height = -down * np.sqrt(length**2 - (bottom - top) ** 2)
    ring = np.stack([np.cos(angle), np.zeros(around), -np.sin(angle)], axis=1)
    vertices = (radius[:, None, None] * ring + height[:, None, None] * np.array([0.0, 1.0, 0.0])).reshape(-1, 3)
    faces = []
    for j in range(rows - 1):
        for i in range(around if closed else around - 1):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = a + around, b + around
            faces += [(a, c, b), (b, c, d)] if (i + j) % 2 else [(a, c, d), (a, d, b)]
    return weft.TriMesh(vertices, np.array(faces)), around


def motion(time: float, violent: float) -> dict[str, float]:
    """Angles in degrees and shifts in metres of the body at a time."""
    on = float(np.clip((time - 0.3) / 0.3, 0.0, 1.0) * np.clip((violent - time) / 0.3, 0.0, 1.0))

    def swing(rate: float, phase: float = 0.0) -> float:
        return on * float(np.sin(2.0 * np.pi * (rate * (time - 0.3) + phase)))

    return {
        "turn": 75.0 * swing(1.3),
        "lean": 22.0 * swing(1.0, 0.2),
        "aside": 0.35 * swing(0.8),
        "jump": 0.25 * abs(swing(0.9)),
        "right hip": 55.0 * swing(1.2),
        "left hip": -55.0 * swing(1.2),
        "right knee": 30.0 * on * (1.0 + float(np.sin(2.0 * np.pi * 1.2 * time))),
        "left knee": 30.0 * on * (1.0 - float(np.sin(2.0 * np.pi * 1.2 * time))),
        "right arm": 80.0 * swing(1.5),
        "left arm": -80.0 * swing(1.5),
    }


def scene(size: str = "quick") -> weft.Scene:
    """Ten capsules, and three layers that hang from the chest."""
    quick = size == "quick"
    violent = 1.2 if quick else 2.4
    seconds = violent + STILL
    times = np.arange(0.0, seconds + 1e-9, 1 / 60)
    poses = [motion(float(t), violent) for t in times]
    roots = [_rigid(_about_y(p["turn"]) @ _about_x(p["lean"]), ROOT, (p["aside"], p["jump"], 0.0)) for p in poses]

    # each limb hangs from the one before it: joint, angle of the joint, tilt to the side
    bodies: list[tuple[str, np.ndarray, float, float, list[np.ndarray]]] = [
        ("torso", ROOT + [0, -0.14, 0], 0.13, 0.34, roots),
        ("hips", ROOT + [0, -0.42, 0], 0.135, 0.06, roots),
        ("head", ROOT + [0, 0.34, 0], 0.09, 0.06, roots),
    ]
    for side, sign in (("right", -1.0), ("left", 1.0)):
        hip, knee = ROOT + [sign * 0.085, -0.44, 0.0], ROOT + [sign * 0.085, -0.86, 0.0]
        thigh = [m @ _rigid(_about_x(-p[f"{side} hip"]), hip) for m, p in zip(roots, poses, strict=True)]
        shin = [m @ _rigid(_about_x(p[f"{side} knee"]), knee) for m, p in zip(thigh, poses, strict=True)]
        bodies.append((f"{side} thigh", (hip + knee) / 2, 0.075, 0.36, thigh))
        bodies.append((f"{side} shin", knee + [0, -0.2, 0], 0.055, 0.36, shin))
        shoulder = ROOT + [sign * 0.22, 0.16, 0.0]
        arm = [
            m @ _rigid(_about_z(sign * 50.0) @ _about_x(-p[f"{side} arm"]), shoulder)
            for m, p in zip(roots, poses, strict=True)
        ]
        bodies.append((f"{side} arm", shoulder + [0, -0.25, 0], 0.045, 0.46, arm))

    FOLDER.mkdir(parents=True, exist_ok=True)
    pinned = _path(times, roots, ROOT)
    cloths = []
    size = 14 if quick else 20
    shapes = (
        robe(0.150, 0.29, 0.72, 26 if not quick else 18, size),
        robe(0.162, 0.31, 0.66, 26 if not quick else 18, size),
        robe(0.178, 0.335, 0.62, 20 if not quick else 14, size + 3, 190.0),
    )
    for name, colour, (mesh, around) in zip(LAYERS, COLOURS, shapes, strict=True):
        file = FOLDER / f"{name}.obj"
        weft.save_mesh(mesh, file)
        cloths.append(
            weft.Cloth(
                name=name,
                mesh=str(file.absolute()),
                placement=weft.Placement(position=tuple(ROOT.tolist())),
                material=weft.Material(preset="wool", thickness=0.006),
                pins=[weft.Pin(indices=list(range(around)), motion=pinned)],
                colour=colour,
            )
        )
    return weft.Scene(
        name="character",
        fps=30,
        frames=round(30 * seconds),
        thickness=0.004,
        cloths=cloths,
        colliders=[
            weft.Collider(
                name=name,
                shape=weft.Capsule(radius=radius, length=length),
                analytic=True,
                placement=weft.Placement(position=tuple(place.tolist())),
                motion=_path(times, chain, place),
                friction=0.2,
            )
            for name, place, radius, length, chain in bodies
        ],
        forces=weft.Forces(air_damping=0.8),
        method=Predictive(
            substeps=3,
            most_substeps=9,
            layers=[LAYERS],
            collide=[LAYERS[:2], LAYERS[1:]],
            cache=True,
            cache_radius=0.05,
            # weak springs to the body's own motion, as games have them: cloth never escaped farther than the reach
            follow=[Follow(cloth=name, motion=pinned, frequency=0.9, reach=0.25) for name in LAYERS],
        ),
        camera=weft.Camera(position=(1.5, 1.5, -3.0), target=(0.0, 1.0, 0.0), fov_deg=34.0),
    )


def _rigid(turn: np.ndarray, centre: np.ndarray, shift: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> np.ndarray:
    """Turn about a centre, then shift, as a 4x4 matrix."""
    matrix = np.eye(4)
    matrix[:3, :3] = turn
    matrix[:3, 3] = centre - turn @ centre + shift
    return matrix


def _path(times: np.ndarray, matrices: list[np.ndarray], place: np.ndarray) -> Path:
    """Keyframes of something placed there that the matrices carry."""
    frames = []
    for time, m in zip(times, matrices, strict=True):
        shift = m[:3, :3] @ place + m[:3, 3] - place
        # the angles of Rz Ry Rx
        angles = np.degrees(
            [np.arctan2(m[2, 1], m[2, 2]), -np.arcsin(np.clip(m[2, 0], -1.0, 1.0)), np.arctan2(m[1, 0], m[0, 0])]
        )
        frames.append(
            weft.Keyframe(time=float(time), position=tuple(shift.tolist()), rotation_deg=tuple(angles.tolist()))
        )
    return Path(keyframes=frames)


def _about_x(angle_deg: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    return np.array([[1, 0, 0], [0, c, -s], [0, s, c]])


def _about_y(angle_deg: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    return np.array([[c, 0, s], [0, 1, 0], [-s, 0, c]])


def _about_z(angle_deg: float) -> np.ndarray:
    c, s = np.cos(np.radians(angle_deg)), np.sin(np.radians(angle_deg))
    return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])


def outside(x: np.ndarray, upper: slice, lower: slice, faces: np.ndarray) -> float:
    """The share of the upper layer's vertices that are on the outer side of the lower layer."""
    own = faces[(faces >= lower.start).all(axis=1) & (faces < lower.stop).all(axis=1)]
    a, b, c = (x[own[:, k]] for k in range(3))
    middles, normals = (a + b + c) / 3, np.cross(b - a, c - a)
    nearest = ((x[upper][:, None] - middles[None]) ** 2).sum(axis=2).argmin(axis=1)
    return float((((x[upper] - middles[nearest]) * normals[nearest]).sum(axis=1) > 0.0).mean())


def check(cache: weft.Cache) -> dict[str, object]:
    """However the layers crashed through each other, a second after the motion they are in order."""
    crossings = layer_crossings(cache)
    stop = cache.frames - 1 - round(STILL * cache.fps)
    after = crossings[stop:]
    late = after[round(1.0 * cache.fps) :]
    expect(f"the layers cross in {late.max()} places a second after the motion", late.max() == 0)
    x = cache.positions(cache.frames - 1)
    tunic, coat, cape = (body.vertices for body in cache.bodies[:3])
    for upper, lower, names in ((coat, tunic, "coat is over the tunic"), (cape, coat, "cape is over the coat")):
        share = outside(x, upper, lower, cache.faces)
        expect(f"only {100 * share:.0f} % of the {names}", share > 0.97)
    stretch = float(cache.report["stretch"].max())
    expect(f"an edge is {100 * stretch:.0f} % longer than at rest", stretch < 1.1)
    crossed = np.flatnonzero(after > 0)
    return {
        "most crossings in a frame of the motion": int(crossings.max()),
        "frames with crossings": int((crossings > 0).sum()),
        "in order again after, s": round(float(crossed[-1] + 1) / cache.fps if len(crossed) else 0.0, 2),
        "largest stretch": round(stretch, 3),
    }


if __name__ == "__main__":
    run(__file__, scene, check)

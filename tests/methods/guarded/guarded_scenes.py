"""Small scenes with tangles: what bodies pinch, what starts tangled, what is too fast."""

from pathlib import Path

import numpy as np

import weft
from weft.mesh import shapes

FPS = 60.0
FLOATING = weft.Forces(gravity=(0.0, 0.0, 0.0), air_damping=2.0)


def hanging(cells: int = 16, size: float = 0.6) -> weft.Cloth:
    """A sheet in the plane z = 0, pinned at its upper edge."""
    return weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(size, size), cells=(cells, cells)),
        placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
        pins=[weft.Pin(boundary="top")],
    )


def jaw(overlap: float = 0.05, cells: int = 16) -> weft.Scene:
    """Two plates close on a hanging sheet until they overlap, from frame 12 to 16, and open again until frame 28."""
    way = 0.1 + 0.5 * overlap
    plates = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.3, 0.2, 0.1)),
            placement=weft.Placement(position=(0.0, -0.1, 0.15 * side)),
            motion=weft.Path(
                keyframes=[
                    weft.Keyframe(time=0.0),
                    weft.Keyframe(time=12 / FPS, position=(0.0, 0.0, -side * way)),
                    weft.Keyframe(time=16 / FPS, position=(0.0, 0.0, -side * way)),
                    weft.Keyframe(time=28 / FPS),
                ]
            ),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    return weft.Scene(name="jaw", frames=32, method="guarded", cloths=[hanging(cells)], colliders=plates)


def bar(distance: float, rings: int = 25, width: float = 0.05) -> tuple[np.ndarray, np.ndarray]:
    """A bent bar: vertices and faces of tongs whose ends are twice the distance apart."""
    points = np.array([[0.0, -0.25, -distance], [0.0, 0.2, -0.2], [0.0, 0.2, 0.2], [0.0, -0.25, distance]])
    along = np.concatenate([[0.0], np.cumsum(np.linalg.norm(np.diff(points, axis=0), axis=1))])
    at = np.linspace(0.0, along[-1], rings)
    centre = np.stack([np.interp(at, along, points[:, k]) for k in range(3)], axis=1)
    tangent = np.gradient(centre, axis=0)
    across = np.cross(tangent / np.linalg.norm(tangent, axis=1)[:, None], [1.0, 0.0, 0.0])
    corners = [
        centre + 2.0 * a * width * np.array([1.0, 0.0, 0.0]) + b * width * across
        for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1))
    ]
    faces = []
    for i in range(rings - 1):
        for k in range(4):
            a, b = 4 * i + k, 4 * i + (k + 1) % 4
            faces += [[a, a + 4, b], [b, a + 4, b + 4]]
    last = 4 * (rings - 1)
    faces += [[0, 1, 2], [0, 2, 3], [last, last + 2, last + 1], [last, last + 3, last + 2]]
    return np.stack(corners, axis=1).reshape(-1, 3), np.array(faces)


def tongs(folder: Path) -> weft.Scene:
    """One mesh whose arms close until frame 12, passing through each other with cloth between, and open until frame 28."""
    distance = np.concatenate([np.linspace(0.15, 0.02, 13), np.full(4, 0.02), np.linspace(0.02, 0.15, 12)])
    vertices, faces = bar(distance[0])
    np.savez(folder / "tongs.npz", vertices=vertices, faces=faces, poses=np.array([bar(d)[0] for d in distance]))
    file = str(folder / "tongs.npz")
    motion = weft.Sequence(file=file, array="poses", fps=FPS)
    sheet = hanging(size=0.5).replace(placement=weft.Placement(rotation_deg=(90, 0, 0), position=(0.0, -0.2, 0.0)))
    collider = weft.Collider(name="tongs", mesh=file, motion=motion)
    return weft.Scene(name="tongs", frames=32, method="guarded", cloths=[sheet], colliders=[collider])


def arm_in_torso(folder: Path) -> weft.Scene:
    """A motionless arm, half inside a torso, with a sleeve between them."""
    tube = shapes.cylinder(0.055, 0.3, segments=24, rings=16)
    sleeve = cloth(folder, "sleeve", tube.vertices - tube.vertices.mean(axis=0), tube.faces)
    arm = weft.Collider(name="arm", shape=weft.Capsule(radius=0.05, length=0.4, segments=20, rings=4))
    torso = weft.Collider(
        name="torso",
        shape=weft.Capsule(radius=0.15, length=0.6, segments=24, rings=4),
        placement=weft.Placement(position=(0.15, 0.0, 0.0)),
    )
    # what hangs freely comes to rest soon
    forces = weft.Forces(air_damping=20.0)
    return weft.Scene(name="arm", frames=40, method="guarded", cloths=[sleeve], colliders=[arm, torso], forces=forces)


def cloth(
    folder: Path, name: str, vertices: np.ndarray, faces: np.ndarray, rest: np.ndarray | None = None
) -> weft.Cloth:
    """A cloth from arrays; `rest` (n, 2) is its flat shape."""
    arrays = {"vertices": vertices, "faces": faces} | ({} if rest is None else {"uv": rest})
    np.savez(folder / f"{name}.npz", **arrays)
    return weft.Cloth(name=name, mesh=str(folder / f"{name}.npz"))


def floating(cloths: list[weft.Cloth], colliders: tuple[weft.Collider, ...] = (), frames: int = 30) -> weft.Scene:
    """Without gravity, so that nothing but the method moves the cloth."""
    return weft.Scene(
        name="start", frames=frames, method="guarded", cloths=cloths, colliders=colliders, forces=FLOATING
    )


def turned(vertices: np.ndarray, angle: float) -> np.ndarray:
    """Turned about the z axis."""
    cosine, sine = np.cos(angle), np.sin(angle)
    return vertices @ np.array([[cosine, sine, 0.0], [-sine, cosine, 0.0], [0.0, 0.0, 1.0]])


def flat(cells: int = 16, size: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices, faces and rest shape of a sheet in the plane y = 0."""
    grid = shapes.grid((size, size), (cells, cells))
    return grid.vertices.copy(), grid.faces, np.ascontiguousarray(grid.vertices[:, [0, 2]])


def tangled_start(kind: str, folder: Path) -> weft.Scene:
    """Cloth that starts tangled, in one of seven ways."""
    v, faces, rest = flat()
    radius = np.linalg.norm(v[:, [0, 2]], axis=1)
    shapes_of = {
        "hill": lambda: [
            v,
            np.column_stack([v[:, 0], 0.03 - 0.06 * np.exp(-((radius / 0.05) ** 2)), v[:, 2]]) + 0.0031,
        ],
        "corner": lambda: [v, _corner(v)],
        "cross": lambda: [v, turned(v, 0.9) + [0.05, 0.0, 0.0013]],
        "rims": lambda: [v, turned(v, 1.0) + [0.221, 0.116, 0.0013]],
        "flap": lambda: [_flap(v)],
        "roll": lambda: [_roll(v)],
        "layers": lambda: [_waves(v, number) for number in range(3)],
    }
    return floating([cloth(folder, f"{kind}{i}", x, faces, rest) for i, x in enumerate(shapes_of[kind]())])


def _corner(v: np.ndarray) -> np.ndarray:
    cosine, sine = np.cos(0.78), np.sin(0.78)
    upright = turned(v, -0.6) @ np.array([[cosine, 0.0, -sine], [0.0, 1.0, 0.0], [sine, 0.0, cosine]])
    return upright - upright[upright[:, 1].argmin()] + [0.01, -0.03, 0.013]


def _flap(v: np.ndarray, radius: float = 0.015, bend: float = 5.0) -> np.ndarray:
    """Half of the sheet is bent over so far that it passes through the other half."""
    s = np.maximum(v[:, 0], 0.0)
    angle, beyond = np.minimum(s / radius, bend), np.maximum(s - bend * radius, 0.0)
    x = np.where(v[:, 0] > 0.0, radius * np.sin(angle) + beyond * np.cos(bend), v[:, 0])
    y = np.where(v[:, 0] > 0.0, radius * (1.0 - np.cos(angle)) + beyond * np.sin(bend), 0.0)
    return np.column_stack([x, y, v[:, 2]])


def _roll(v: np.ndarray) -> np.ndarray:
    """A roll whose layers pass through each other."""
    turn = (v[:, 0] + 0.15) / 0.03
    radius = 0.03 * (1.0 - 0.03 * turn * np.sin(40.0 * v[:, 2] + 0.3))
    return np.column_stack([radius * np.sin(turn), radius * (1.0 - np.cos(turn)), v[:, 2]])


def _waves(v: np.ndarray, number: int) -> np.ndarray:
    rng = np.random.default_rng(number)
    waves = [np.sin(30.0 * (a * v[:, 0] + b * v[:, 2]) + c) for a, b, c in rng.normal(size=(3, 3))]
    return (
        v + np.column_stack([np.full(len(v), 0.0013), 0.004 + 0.01 * np.sum(waves, axis=0), 0.0017 * v[:, 0]]) * number
    )

"""Random small scenes over many decades of size, thickness, speed, distance from the origin and time step.

What a method promises must hold in all of them, or the scene must be refused, or a frame must say what it could not do.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import Delaunay

import weft
from weft.errors import WeftError
from weft.geometry.intersection import intersection_finder
from weft.run.simulation import compile_scene

FRAMES = 6
KINDS = ("drape", "sheets", "impact", "spin", "press")
HARD_KINDS = ("materials", "layers", "pins", "drum", "tori", "needles")
ODD_KINDS = ("seams", "turning", "deforming", "crossed pins", "thicknesses", "slivers", "limits", "wind")


class Verdict(NamedTuple):
    """What came of a scene: how many frames crossed without a word of the method."""

    seed: int
    described: str
    refused: str
    silent: int
    crossings: int
    statuses: tuple[str, ...]


def easy_scene(seed: int, method: str) -> weft.Scene:
    """One or two sheets of one material and a ball or a floor."""
    rng = np.random.default_rng(seed)
    kind = KINDS[seed % len(KINDS)]
    size = 10.0 ** rng.uniform(-3.0, 2.0)
    cells = int(rng.integers(5, 12))
    edge = size / cells
    # from a tenth of the edge down to a millionth of it
    thickness = edge * 10.0 ** rng.uniform(-6.0, -1.0)
    gap = thickness * rng.uniform(1.5, 20.0)
    fps = 10.0 ** rng.uniform(1.0, 3.0)
    # how far things move in a frame, in edges
    speed = edge * fps * 10.0 ** rng.uniform(-2.0, 1.0)
    gravity = speed * fps / FRAMES
    far = size * 10.0 ** rng.uniform(0.0, 5.0) * (rng.random() < 0.3)
    origin = far * rng.normal(size=3)
    grid = weft.Grid(size=(size, size), cells=(cells, cells))

    def place(height: float, **more: Any) -> weft.Placement:
        x, y, z = origin + np.array([0.0, height, 0.0])
        return weft.Placement(position=(x, y, z), **more)

    cloths: list[weft.Cloth] = [weft.Cloth(name="cloth", shape=grid, placement=place(0.0))]
    colliders: list[weft.Collider] = []
    radius = size * rng.uniform(0.1, 0.3)
    ball = weft.Sphere(radius=radius, subdivisions=int(rng.integers(1, 4)))
    if kind == "drape":
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(-radius - gap)))
    elif kind == "sheets":
        turn = (0.0, float(rng.uniform(-40.0, 40.0)), 0.0)
        cloths.append(weft.Cloth(name="lower", shape=grid, placement=place(-gap, rotation_deg=turn)))
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(-radius - 2.5 * gap)))
    elif kind == "impact":
        way = tuple(float(v) for v in (0.0, speed * FRAMES / fps, 0.0))
        keys = [weft.Keyframe(time=0.0, position=(0.0, 0.0, 0.0)), weft.Keyframe(time=FRAMES / fps, position=way)]
        motion = weft.Path(keyframes=keys)
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(-radius - gap), motion=motion))
    elif kind == "spin":
        spin = weft.Spin(axis=(0.0, 1.0, 0.0), rate_deg=float(np.degrees(speed / size)))
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(-radius - gap), motion=spin))
    else:
        box = weft.Box(size=(2.0 * size, 0.5 * size, 2.0 * size))
        colliders.append(weft.Collider(name="floor", shape=box, placement=place(-0.25 * size - gap)))
        cloths.append(weft.Cloth(name="upper", shape=grid, placement=place(gap, rotation_deg=(0.0, 15.0, 0.0))))
    return weft.Scene(
        name=f"hunt {seed} {kind}",
        frames=FRAMES,
        fps=fps,
        method=method,
        thickness=thickness,
        forces=weft.Forces(gravity=(0.0, -gravity, 0.0)),
        cloths=tuple(cloths),
        colliders=tuple(colliders),
    )


def torus(across: float, thick: float, cells: tuple[int, int], rng: np.random.Generator) -> weft.TriMesh:
    """A ring of cloth about y, its vertices moved by up to a fifth of an edge along the surface's directions."""
    around, ring = cells
    u, v = np.meshgrid(np.arange(around), np.arange(ring), indexing="ij")
    places = np.stack([u, v], axis=-1) + rng.uniform(-0.2, 0.2, size=(around, ring, 2))
    a, b = 2.0 * np.pi * places[..., 0] / around, 2.0 * np.pi * places[..., 1] / ring
    out = across + thick * np.cos(b)
    x = np.stack([out * np.cos(a), thick * np.sin(b), out * np.sin(a)], axis=-1).reshape(-1, 3)
    corner = (u * ring + v).ravel()
    right = ((u + 1) % around * ring + v).ravel()
    above = (u * ring + (v + 1) % ring).ravel()
    across_corner = ((u + 1) % around * ring + (v + 1) % ring).ravel()
    faces = np.vstack([np.column_stack([corner, above, right]), np.column_stack([right, above, across_corner])])
    return weft.TriMesh(x, faces)


def needles(size: float, cells: int, slimness: float, rng: np.random.Generator) -> weft.TriMesh:
    """A flat sheet whose rows of triangles are up to so many times longer than wide, at uneven distances."""
    steps = slimness ** rng.uniform(-1.0, 0.0, size=cells)
    x = size * (np.concatenate([[0.0], np.cumsum(steps)]) / steps.sum() - 0.5)
    z = size * (np.arange(4) / 3.0 - 0.5)
    grid = np.stack(np.meshgrid(x, [0.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    corner = (np.arange(cells)[:, None] * 4 + np.arange(3)).ravel()
    faces = np.vstack(
        [np.column_stack([corner, corner + 1, corner + 4]), np.column_stack([corner + 4, corner + 1, corner + 5])]
    )
    return weft.TriMesh(grid, faces)


def drum(radius: float, width: float, sides: int) -> weft.TriMesh:
    """The inside of a washing drum about x, with four paddles: an open surface."""
    angles = 2.0 * np.pi * np.arange(4 * sides) / (4 * sides)
    rim = np.column_stack([np.zeros(4 * sides), np.cos(angles), np.sin(angles)])
    profile = np.vstack([rim, 0.95 * rim[::sides], 0.7 * rim[::sides]])
    rings = [radius * profile + np.array([side * width, 0.0, 0.0]) for side in (-0.5, 0.5)]
    one = len(profile)
    low = np.concatenate([np.arange(4 * sides), 4 * sides + np.arange(4)])
    high = np.concatenate([(np.arange(4 * sides) + 1) % (4 * sides), 4 * sides + 4 + np.arange(4)])
    faces = np.vstack([np.column_stack([low, high, low + one]), np.column_stack([high, high + one, low + one])])
    return weft.TriMesh(np.vstack(rings), faces)


def path(way: Any, time: float) -> weft.Path:
    """A straight way there and back."""
    x, y, z = (float(v) for v in way)
    keys = [(0.0, (0.0, 0.0, 0.0)), (0.5 * time, (x, y, z)), (time, (0.0, 0.0, 0.0))]
    return weft.Path(keyframes=[weft.Keyframe(time=t, position=p) for t, p in keys])


def hard_scene(seed: int, method: str) -> weft.Scene:
    """Materials that differ, layers, moving pins, drums, rings, needles, very long and very short frames, far away."""
    rng = np.random.default_rng([seed, 1])
    kind = HARD_KINDS[seed % len(HARD_KINDS)]
    size = 10.0 ** rng.uniform(-2.0, 1.0)
    cells = int(rng.integers(4, 10))
    edge = size / cells
    thickness = edge * 10.0 ** rng.uniform(-5.0, -0.8)
    gap = thickness * rng.uniform(1.5, 5.0)
    fps = 10.0 ** rng.uniform(-0.5, 4.5)
    speed = edge * fps * 10.0 ** rng.uniform(-2.0, 1.0)
    gravity = speed * fps / FRAMES
    time = FRAMES / fps
    far = size * 10.0 ** rng.uniform(3.0, 7.0) * (rng.random() < 0.4)
    origin = far * rng.normal(size=3)

    def place(x: float, y: float, z: float, **more: Any) -> weft.Placement:
        a, b, c = origin + np.array([x, y, z])
        return weft.Placement(position=(a, b, c), **more)

    def some_material() -> weft.Material:
        factor = 10.0 ** rng.uniform(-2.0, 2.0, size=3)
        return weft.Material(
            density=0.2 * factor[0],
            stretch=500.0 * factor[1],
            shear=50.0 * factor[1],
            bend=1e-5 * factor[2],
            friction=rng.uniform(0.0, 2.0),
        )

    grid = weft.Grid(size=(size, size), cells=(cells, cells))
    cloths: list[weft.Cloth] = []
    colliders: list[weft.Collider] = []
    if kind == "materials":
        for k, height in enumerate((gap, 0.0)):
            turn = (0.0, float(rng.uniform(-40.0, 40.0)), 0.0)
            cloths.append(
                weft.Cloth(
                    name=f"c{k}",
                    shape=grid,
                    material=some_material(),
                    placement=place(0.0, height, 0.0, rotation_deg=turn),
                )
            )
        ball = weft.Sphere(radius=0.2 * size, subdivisions=2)
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(0.0, -0.2 * size - gap, 0.0)))
    elif kind == "layers":
        for k in range(int(rng.integers(4, 9))):
            turn = (0.0, float(rng.uniform(-40.0, 40.0)), 0.0)
            cloths.append(weft.Cloth(name=f"c{k}", shape=grid, placement=place(0.0, k * gap, 0.0, rotation_deg=turn)))
        ball = weft.Sphere(radius=0.3 * size, subdivisions=2)
        way = (0.0, speed * time, 0.0)
        colliders.append(
            weft.Collider(name="ball", shape=ball, placement=place(0.0, -0.3 * size - gap, 0.0), motion=path(way, time))
        )
    elif kind == "pins":
        rows = [range(cells + 1), range(cells * (cells + 1), (cells + 1) ** 2)]
        pins = [
            weft.Pin(indices=list(row), motion=path(speed * time * rng.normal(size=3), time))
            for row in (rows if rng.random() < 0.7 else [r[:1] for r in rows])
        ]
        cloths.append(weft.Cloth(name="c", shape=grid, pins=pins, placement=place(0.0, 0.0, 0.0)))
    elif kind == "drum":
        width = 1.5 * size
        mesh = drum(size, width, int(rng.integers(3, 9)))
        spin = weft.Spin(axis=(1.0, 0.0, 0.0), rate_deg=float(np.degrees(speed / size)))
        colliders.append(weft.Collider(name="drum", mesh=mesh, placement=place(0.0, 0.0, 0.0), motion=spin))
        for k in range(2):
            cloths.append(
                weft.Cloth(name=f"c{k}", shape=grid, material=some_material(), placement=place(0.0, k * gap, 0.0))
            )
        cloths = [c.replace(placement=place(0.0, k * gap, 0.0, scale=0.7)) for k, c in enumerate(cloths)]
    elif kind == "tori":
        cut = int(rng.integers(8, 14)), int(rng.integers(5, 8))
        for k in range(2):
            mesh = torus(0.5 * size, 0.12 * size, cut, rng)
            cloths.append(weft.Cloth(name=f"c{k}", mesh=mesh, placement=place(0.0, k * (0.25 * size + gap), 0.0)))
        ball = weft.Sphere(radius=0.45 * size, subdivisions=2)
        way = (0.0, speed * time, 0.0)
        colliders.append(
            weft.Collider(name="ball", shape=ball, placement=place(0.0, -0.7 * size, 0.0), motion=path(way, time))
        )
    else:
        slim = 10.0 ** rng.uniform(0.0, 2.0)
        for k in range(2):
            turn = (0.0, 90.0 * k, 0.0)
            mesh = needles(size, cells, slim, rng)
            cloths.append(weft.Cloth(name=f"c{k}", mesh=mesh, placement=place(0.0, -k * gap, 0.0, rotation_deg=turn)))
        ball = weft.Sphere(radius=0.2 * size, subdivisions=2)
        colliders.append(weft.Collider(name="ball", shape=ball, placement=place(0.0, -0.2 * size - 2.5 * gap, 0.0)))
    return weft.Scene(
        name=f"hunt {seed} {kind}",
        frames=FRAMES,
        fps=fps,
        method=method,
        thickness=thickness,
        forces=weft.Forces(gravity=(0.0, -gravity, 0.0)),
        cloths=tuple(cloths),
        colliders=tuple(colliders),
    )


def scattered(size: float, count: int, slimness: float, rng: np.random.Generator) -> weft.TriMesh:
    """A flat sheet of the Delaunay triangles of random points, some pairs of them as near as the slimness says."""
    points = rng.uniform(-0.5, 0.5, size=(count, 2))
    near = points[: count // 4] + rng.normal(size=(count // 4, 2)) / (slimness * np.sqrt(count))
    corners = np.array([[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]])
    points = np.concatenate([corners, points, np.clip(near, -0.5, 0.5)])
    faces = Delaunay(points).simplices
    a, b, c = points[faces].swapaxes(0, 1)
    area = (b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0]
    faces = np.where((area > 0.0)[:, None], faces[:, ::-1], faces)[np.abs(area) > 1e-15]
    used, faces = np.unique(faces, return_inverse=True)
    return weft.TriMesh(size * np.insert(points[used], 1, 0.0, axis=1), faces.reshape(-1, 3))


def deformation(mesh: weft.TriMesh, speed: float, size: float, rng: np.random.Generator) -> np.ndarray:
    """Positions of a body at all frames: it shrinks to a point, turns inside out, jumps, or every vertex goes its own way."""
    times = np.linspace(0.0, 1.0, FRAMES + 1)[:, None, None]
    x = mesh.vertices[None]
    kind = rng.integers(4)
    if kind == 0:
        return x * (1.0 - times)
    if kind == 1:
        return x * (1.0 - 2.0 * times)
    if kind == 2:
        where = size * rng.normal(size=(FRAMES + 1, 1, 3)) * (times > 0.4)
        return x + where
    return x + 0.3 * speed * times * np.sin(20.0 * times + rng.uniform(0.0, 6.3, size=x.shape))


def odd_scene(seed: int, method: str) -> weft.Scene:
    """Seams, fast rotations, bodies that deform, pins that pass each other, thin on thick, slivers, limits, storms."""
    rng = np.random.default_rng([seed, 2])
    kind = ODD_KINDS[seed % len(ODD_KINDS)]
    size = 10.0 ** rng.uniform(-2.5, 1.5)
    cells = int(rng.integers(4, 10))
    edge = size / cells
    thickness = edge * 10.0 ** rng.uniform(-5.0, -0.8)
    gap = thickness * rng.uniform(1.5, 5.0)
    fps = 10.0 ** rng.uniform(0.0, 3.5)
    speed = edge * fps * 10.0 ** rng.uniform(-2.0, 1.0)
    time = FRAMES / fps
    grid = weft.Grid(size=(size, size), cells=(cells, cells))
    far = size * 10.0 ** rng.uniform(0.0, 5.0) * (rng.random() < 0.2)
    origin = far * rng.normal(size=3)

    def place(x: float, y: float, z: float, **more: Any) -> weft.Placement:
        a, b, c = origin + np.array([x, y, z])
        return weft.Placement(position=(a, b, c), **more)

    turn = (0.0, float(rng.uniform(-40.0, 40.0)), 0.0)
    upper = weft.Cloth(name="upper", shape=grid, placement=place(0.0, 0.0, 0.0))
    lower = weft.Cloth(name="lower", shape=grid, placement=place(0.0, -gap, 0.0, rotation_deg=turn))
    low = 0.2 * size + 2.5 * gap
    ball = weft.Collider(
        name="ball", shape=weft.Sphere(radius=0.2 * size, subdivisions=2), placement=place(0.0, -low, 0.0)
    )
    more: dict[str, Any] = {"cloths": [upper, lower], "colliders": [ball]}
    if kind == "seams":
        beside = upper.replace(name="lower", placement=place(size * rng.uniform(1.01, 1.5), 0.0, 0.0))
        row = np.arange(cells + 1) * (cells + 1)
        stitches = [(int(k) + cells, int(k), int(k)) for k in row]
        way: dict[str, Any] = {"kind": "weld"} if rng.random() < 0.5 else {}
        if method != "boxes" and rng.random() < 0.7:
            way |= {"closing": time * rng.uniform(0.1, 1.0), "delay": 0.2 * time * rng.random()}
        more |= {"cloths": [upper, beside], "seams": [weft.Seam(cloth="upper", to="lower", vertices=stitches, **way)]}
    elif kind == "turning":
        bar = weft.Box(size=(2.0 * size, 0.1 * size, 0.1 * size))
        low = 0.05 * size + 2.5 * gap
        rate = float(np.degrees(speed / size)) * rng.choice([-1.0, 1.0, 30.0])
        axis = tuple(float(v) for v in rng.normal(size=3))
        motion = weft.Spin(axis=axis, rate_deg=rate)
        more["colliders"] = [weft.Collider(name="bar", shape=bar, placement=place(0.0, -low, 0.0), motion=motion)]
    elif kind == "deforming":
        mesh = weft.mesh.shapes.icosphere(0.3 * size, subdivisions=2)
        samples = deformation(mesh, speed * time, size, rng)
        motion = weft.Sequence(positions=samples, fps=fps)
        body = weft.Collider(name="ball", mesh=mesh, placement=place(0.0, -0.3 * size - 2.5 * gap, 0.0), motion=motion)
        more["colliders"] = [body]
    elif kind == "crossed pins":
        down = [-speed * time * rng.uniform(0.1, 1.0), speed * time * rng.uniform(0.1, 1.0)]
        held = [rng.choice((cells + 1) ** 2, int(rng.integers(1, 2 * cells)), replace=False).tolist() for _ in down]
        both = [
            c.replace(pins=[weft.Pin(indices=i, motion=path((0.0, y, 0.3 * y), time))])
            for c, i, y in zip((upper, lower), held, down, strict=True)
        ]
        more["cloths"] = both
    elif kind == "thicknesses":
        thick = [weft.Material(thickness=thickness * 10.0 ** rng.uniform(-3.0, 0.0)) for _ in range(2)]
        both = [
            c.replace(material=m, velocity=(0.0, s, 0.0))
            for c, m, s in zip((upper, lower), thick, (-speed, speed), strict=True)
        ]
        more["cloths"] = both
    elif kind == "slivers":
        slim = 10.0 ** rng.uniform(0.0, 6.0)
        meshes = needles(size, cells, slim, rng), scattered(size, 8 * cells, slim, rng)
        more["cloths"] = [
            weft.Cloth(name=c.name, mesh=m, placement=c.placement) for c, m in zip((upper, lower), meshes, strict=True)
        ]
    elif kind == "limits":
        if method != "boxes":
            made = weft.Material(stretch_limit=0.02, yield_curvature=0.1 / edge, bend_hysteresis=1e-4)
            more["cloths"] = [c.replace(material=made) for c in (upper, lower)]
        more["colliders"] = [ball.replace(motion=path((0.0, speed * time, 0.0), time), friction=rng.uniform(0.0, 3.0))]
    else:
        wind = weft.Wind(velocity=tuple(float(v) for v in speed * rng.normal(size=3)), gust=1.0, gust_period=0.3 * time)
        more["cloths"] = [upper.replace(pins=[weft.Pin(indices=[0, cells])]), lower]
        more["forces"] = weft.Forces(gravity=(0.0, -speed / time, 0.0), wind=wind)
    more.setdefault("forces", weft.Forces(gravity=(0.0, -speed / time, 0.0)))
    name = f"hunt {seed} {kind}"
    return weft.Scene(name=name, frames=FRAMES, fps=fps, method=method, thickness=thickness, **more)


FAMILIES = {"simple": easy_scene, "harder": hard_scene, "odd": odd_scene}


def explained(columns: dict[str, Any], crossed_before: bool, failed_before: bool = False) -> bool:
    """Whether the method says why the frame crosses: by its status, or by a ledger of what it released and is parting still.

    A method without a ledger that has said so (`failed_before`) does not promise anything any more as long as it crosses. What
    opened beside a contour had one in a step of the frame, which may have been released and be gone at its end.
    """
    if columns["status"] != "ok":
        return True
    if "newly_crossing" not in columns:
        return failed_before
    return columns["newly_crossing"] == 0 and (columns["released"] + columns["opened"] > 0 or crossed_before)


def judge(seed: int, method: str = "robust", family: str = "simple") -> Verdict:
    """Simulate the scene of a family that belongs to a seed, and look at every frame with exact arithmetic."""
    try:
        scene = FAMILIES[family](seed, method)
        world, solver = compile_scene(scene)
    except WeftError as error:
        return Verdict(seed, f"seed {seed}", str(error), 0, 0, ())
    extent = float(np.ptp(world.rest_positions, axis=0).max())
    described = f"{scene.name}: thickness {scene.thickness:.2g} m, {scene.fps:.3g} fps, extent {extent:.3g} m"
    finder, state = intersection_finder(world), world.initial_state()
    solver.begin(state)
    silent, worst, statuses, crossed, failed = 0, 0, [], False, False
    for _ in range(scene.frames):
        try:
            row = solver.advance_frame(state)
        except WeftError as error:
            return Verdict(seed, described, str(error), silent, worst, tuple(statuses))
        count = len(finder.find(state.positions()))
        if count:
            silent += not explained({**row, **solver.columns_after_check(state)}, crossed, failed)
        crossed, failed = count > 0, count > 0 and (failed or row["status"] != "ok")
        worst = max(worst, count)
        statuses.append(row["status"])
    return Verdict(seed, described, "", silent, worst, tuple(statuses))

"""Random small scenes over many decades of size, thickness, speed, distance from the origin and time step.

What a method promises must hold in all of them, or the scene must be refused, or a frame must say what it could not do.
"""

from typing import Any, NamedTuple

import numpy as np

import weft
from weft.errors import WeftError
from weft.geometry.intersection import intersection_finder
from weft.run.runner import compile_scene

FRAMES = 6
KINDS = ("drape", "sheets", "impact", "spin", "press")


class Verdict(NamedTuple):
    """What came of a scene: how often frames crossed that said they were ok."""

    seed: int
    described: str
    refused: str
    silent: int
    crossings: int
    statuses: tuple[str, ...]


def random_scene(seed: int, method: str = "robust") -> weft.Scene:
    """A scene that starts free of intersections; the same for the same seed."""
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


def judge(seed: int, method: str = "robust") -> Verdict:
    """Simulate a scene and look at every frame with exact arithmetic."""
    try:
        scene = random_scene(seed, method)
        world, solver = compile_scene(scene)
    except WeftError as error:
        return Verdict(seed, f"seed {seed}", str(error), 0, 0, ())
    extent = float(np.ptp(world.rest_positions, axis=0).max())
    described = f"{scene.name}: thickness {scene.thickness:.2g} m, {scene.fps:.3g} fps, extent {extent:.3g} m"
    finder, state = intersection_finder(world), world.initial_state()
    solver.begin(state)
    silent, worst, statuses = 0, 0, []
    for _ in range(scene.frames):
        try:
            row = solver.advance_frame(state)
        except WeftError as error:
            return Verdict(seed, described, str(error), silent, worst, tuple(statuses))
        count = len(finder.find(state.positions()))
        worst = max(worst, count)
        silent += int(count > 0 and row["status"] == "ok")
        statuses.append(row["status"])
    return Verdict(seed, described, "", silent, worst, tuple(statuses))

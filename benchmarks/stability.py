"""What `predictive` does where it is treated badly: small scenes of games with default options, crossings at their end.

Columns: vertices; intersections of cloth with itself, with other cloths and with colliders in the last frame, which is a
second or more after everything that moves has stopped; the most with colliders in any frame; the largest stretch of an edge;
frames that report a problem; processor time of a step of 1/30 s, the mean and the longest.

    python -m benchmarks.stability [names of scenes]
"""

import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.geometry.intersection import intersection_finder
from weft.methods import make_method
from weft.methods.base import worst_stretch
from weft.runtime import set_threads
from weft.scene import Keyframe, Predictive
from weft.scene import Path as Way
from weft.world import World

FPS = 30


def tube(radius: tuple[float, float], length: float, around: int, rows: int, axis: int = 1) -> weft.TriMesh:
    """A tube from its first row at 0 down to -length, its normals outwards; about y, or about x towards +x."""
    down = np.linspace(0.0, 1.0, rows)
    angle = 2.0 * np.pi * np.arange(around) / around
    r = radius[0] + (radius[1] - radius[0]) * down
    ring = np.stack([np.cos(angle), np.zeros(around), -np.sin(angle)], axis=1)
    vertices = (r[:, None, None] * ring - length * down[:, None, None] * np.array([0.0, 1.0, 0.0])).reshape(-1, 3)
    faces = []
    for j in range(rows - 1):
        for i in range(around):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = a + around, b + around
            faces += [(a, c, b), (b, c, d)] if (i + j) % 2 else [(a, c, d), (a, d, b)]
    if axis == 0:
        vertices = np.stack([-vertices[:, 1], vertices[:, 0], vertices[:, 2]], axis=1)
    return weft.TriMesh(vertices, np.array(faces))


def merged(meshes: Sequence[weft.TriMesh]) -> weft.TriMesh:
    """Several meshes as one."""
    first = np.cumsum([0, *(len(m.vertices) for m in meshes)])
    faces = [m.faces + k for m, k in zip(meshes, first, strict=False)]
    return weft.TriMesh(np.concatenate([m.vertices for m in meshes]), np.concatenate(faces))


def saved(mesh: weft.TriMesh, name: str) -> str:
    """A mesh as a file, which a scene can name."""
    path = Path(tempfile.mkdtemp()) / f"{name}.obj"
    weft.save_mesh(mesh, path)
    return str(path)


def way(rows: Sequence[tuple[float, Sequence[float], Sequence[float]]]) -> Way:
    """A path of time, shift and rotation in degrees, straight between its keyframes."""
    keys = [Keyframe(time=t, position=tuple(p), rotation_deg=tuple(r)) for t, p, r in rows]
    return Way(keyframes=keys, interpolation="linear")


def limb(name: str, radius: float, length: float, position: Sequence[float], motion: Any, axis: int = 1) -> Any:
    turn = (0.0, 0.0, 0.0) if axis == 1 else (0.0, 0.0, 90.0)
    return weft.Collider(
        name=name,
        shape=weft.Capsule(radius=radius, length=length),
        analytic=True,
        placement=weft.Placement(position=tuple(position), rotation_deg=turn),
        motion=motion,
    )


def sheet(name: str, size: tuple[float, float], cells: tuple[int, int], place: Sequence[float], **more: Any) -> Any:
    turn = more.pop("turn", (0.0, 0.0, 0.0))
    placement = weft.Placement(position=tuple(place), rotation_deg=tuple(turn))
    return weft.Cloth(name=name, shape=weft.Grid(size=size, cells=cells), placement=placement, **more)


def about(motion: Sequence[tuple[float, Sequence[float], Sequence[float]]], place: Sequence[float]) -> Way:
    """The motion of a body about the y axis of the world, for something that stands at `place`; turns in y only."""
    rows = []
    for t, shift, turn in motion:
        c, s = np.cos(np.radians(turn[1])), np.sin(np.radians(turn[1]))
        x, y, z = place
        moved = np.array([c * x + s * z, y, -s * x + c * z]) - np.array(place)
        rows.append((t, tuple((moved + shift).tolist()), turn))
    return way(rows)


def jerks(stop: float, far: float, turn: float, beat: float) -> list[tuple[float, Sequence[float], Sequence[float]]]:
    """A body that jumps to and fro and turns, until it stops dead."""
    rows: list[tuple[float, Sequence[float], Sequence[float]]] = [(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))]
    sign = 1.0
    for t in np.arange(0.3, stop - beat, 2 * beat):
        last = rows[-1]
        rows.append((float(t), last[1], last[2]))
        goal = (sign * far, 0.0, 0.5 * sign * far)
        rows.append((float(t + beat), goal, (0.0, sign * turn, 0.0)))
        sign = -sign
    return rows


def garments() -> weft.Scene:
    """A shirt and a jacket with sleeves on a body that jumps and turns, as layers."""
    motion = jerks(1.5, 0.3, 60.0, 0.1)
    cloths = []
    for name, extra, material in (("shirt", 0.0, "cotton"), ("jacket", 0.02, "wool")):
        torso = tube((0.15 + extra, 0.17 + extra), 0.5, 28, 18)
        sleeves = []
        for side in (1.0, -1.0):
            arm = tube((0.065 + extra, 0.06 + extra), 0.4, 14, 14, axis=0)
            at = arm.vertices + [0.21, -0.06, 0.0]
            faces = arm.faces if side > 0 else arm.faces[:, ::-1]
            sleeves.append(weft.TriMesh(at * [side, 1.0, 1.0], faces))
        mesh = merged([torso, *sleeves])
        rings = [*range(28), *range(504, 518), *range(700, 714)]
        cloths.append(
            weft.Cloth(
                name=name,
                mesh=saved(mesh, name),
                material=weft.Material(preset=material, thickness=0.006),
                pins=[weft.Pin(indices=rings, motion=about(motion, (0.0, 0.0, 0.0)))],
            )
        )
    colliders = [
        limb("torso", 0.12, 0.4, (0.0, -0.25, 0.0), about(motion, (0.0, -0.25, 0.0))),
        limb("left arm", 0.045, 0.4, (0.46, -0.06, 0.0), about(motion, (0.46, -0.06, 0.0)), axis=0),
        limb("right arm", 0.045, 0.4, (-0.46, -0.06, 0.0), about(motion, (-0.46, -0.06, 0.0)), axis=0),
    ]
    return weft.Scene(
        fps=FPS, frames=90, cloths=cloths, colliders=colliders, method=Predictive(layers=[("shirt", "jacket")])
    )


def crossed(angle: float) -> weft.Scene:
    """Two sheets that hang from parallel rods and cross at an angle, as layers."""
    cloths = []
    for name, z, sign in (("back", -0.02, -1.0), ("front", 0.02, 1.0)):
        tilt = 0.5 * sign * angle
        c, s = np.cos(np.radians(tilt)), np.sin(np.radians(tilt))
        # the top edge is at y = 0 and z; the sheet tilts about it towards the other one
        middle = (0.0, -0.25 * c, z - 0.25 * s)
        turn = (90.0 + tilt, 0.0, 0.0)
        cloths.append(sheet(name, (0.4, 0.5), (16, 20), middle, turn=turn, pins=[weft.Pin(boundary="top")]))
    return weft.Scene(fps=FPS, frames=60, cloths=cloths, method=Predictive(layers=[("back", "front")]))


def cape(speed: float) -> weft.Scene:
    """A cape that a rod of 3 cm strikes from both sides."""
    far = 0.5
    beat = 2 * far / speed
    rows: list[tuple[float, Sequence[float], Sequence[float]]] = [(0.0, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))]
    z = 0.0
    for t in (0.3, 0.9, 1.5):
        rows.append((t, (0.0, 0.0, z), (0.0, 0.0, 0.0)))
        z = -2 * far - z
        rows.append((t + beat, (0.0, 0.0, z), (0.0, 0.0, 0.0)))
    rod = limb("rod", 0.015, 1.2, (0.0, -0.45, far), way(rows), axis=0)
    cloth = sheet("cape", (0.6, 0.8), (18, 24), (0.0, -0.4, 0.0), turn=(90, 0, 0), pins=[weft.Pin(boundary="top")])
    return weft.Scene(fps=FPS, frames=90, cloths=[cloth], colliders=[rod], method=Predictive())


def ball(name: str = "ball", *, analytic: bool = False, radius: float = 0.25) -> Any:
    return weft.Collider(name=name, shape=weft.Sphere(radius=radius), analytic=analytic)


def felt() -> weft.Scene:
    """Felt of 3 cm over chiffon on a ball."""
    cloths = [
        sheet("chiffon", (0.9, 0.9), (22, 22), (0.0, 0.28, 0.0), material=weft.Material(preset="silk", density=0.03)),
        sheet("felt", (0.8, 0.8), (16, 16), (0.0, 0.36, 0.0),
              material=weft.Material(preset="wool", density=1.0, thickness=0.03)),
    ]  # fmt: skip
    return weft.Scene(fps=FPS, frames=75, cloths=cloths, colliders=[ball()], method=Predictive())


def silks() -> weft.Scene:
    """Silk on silk on a ball."""
    cloths = [
        sheet(f"silk {k}", (0.9, 0.9), (24, 24), (0.02 * k, 0.28 + 0.03 * k, 0.0), turn=(0, 20 * k, 0), material="silk")
        for k in range(2)
    ]
    return weft.Scene(fps=FPS, frames=75, cloths=cloths, colliders=[ball()], method=Predictive())


def silk() -> weft.Scene:
    """24 x 24 silk over a ball, 40 frames."""
    cloth = sheet("silk", (1.0, 1.0), (24, 24), (0.0, 0.27, 0.0), material="silk")
    return weft.Scene(fps=24, frames=40, cloths=[cloth], colliders=[ball()], method=Predictive())


def fallen() -> weft.Scene:
    """A tube that falls upright onto the floor and collapses."""
    floor = weft.Collider(name="floor", shape=weft.Plane(size=(4, 4)), analytic=True)
    cloth = weft.Cloth(
        name="tube",
        mesh=saved(tube((0.12, 0.12), 0.6, 32, 24), "tube"),
        placement=weft.Placement(position=(0.0, 0.65, 0.0)),
    )
    return weft.Scene(fps=FPS, frames=75, cloths=[cloth], colliders=[floor], method=Predictive())


def napkins(count: int = 40) -> weft.Scene:
    """Forty napkins that fall into a tray."""
    rng = np.random.default_rng(1)
    cloths = []
    for k in range(count):
        x, z = rng.uniform(-0.1, 0.1, 2)
        place = (float(x), 0.04 + 0.03 * k, float(z))
        cloths.append(sheet(f"napkin {k}", (0.2, 0.2), (6, 6), place, turn=(0, float(rng.uniform(0, 90)), 0)))
    walls = [
        weft.Collider(
            name=f"wall {k}",
            shape=weft.Box(size=(0.04, 0.4, 0.6) if k < 2 else (0.6, 0.4, 0.04)),
            analytic=True,
            placement=weft.Placement(position=place),
        )
        for k, place in enumerate([(0.25, 0.1, 0.0), (-0.25, 0.1, 0.0), (0.0, 0.1, 0.25), (0.0, 0.1, -0.25)])
    ]
    floor = weft.Collider(name="floor", shape=weft.Plane(size=(4, 4)), analytic=True)
    return weft.Scene(fps=FPS, frames=90, cloths=cloths, colliders=[floor, *walls], method=Predictive())


def skirt() -> weft.Scene:
    """A skirt of four layers that spins at 720 degrees a second and stops dead, without cache."""
    motion = [(0.0, (0, 0, 0), (0, 0, 0)), (0.5, (0, 0, 0), (0, 0, 0))]
    motion += [(0.5 + t, (0, 0, 0), (0, 720.0 * t, 0)) for t in np.arange(0.125, 1.0001, 0.125)]
    names = tuple(f"layer {k}" for k in range(4))
    cloths = []
    for k, name in enumerate(names):
        mesh = tube((0.13 + 0.012 * k, 0.30 + 0.03 * k), 0.5, 28, 14)
        pin = weft.Pin(indices=list(range(28)), motion=about(motion, (0.0, 0.0, 0.0)))
        material = weft.Material(preset="cotton", thickness=0.005)
        cloths.append(weft.Cloth(name=name, mesh=saved(mesh, f"layer{k}"), pins=[pin], material=material))
    colliders = [limb("hips", 0.11, 0.06, (0.0, -0.02, 0.0), about(motion, (0.0, -0.02, 0.0)))]
    for side in (-0.07, 0.07):
        place = (side, -0.42, 0.0)
        colliders.append(limb(f"leg {side}", 0.06, 0.6, place, about(motion, place)))
    return weft.Scene(fps=FPS, frames=75, cloths=cloths, colliders=colliders, method=Predictive(layers=[names]))


def bar(turns: float) -> weft.Scene:
    """A bar that spins through a hanging sheet for a second."""
    rows = [(0.0, (0, 0, 0), (0, 0, 90)), (0.3, (0, 0, 0), (0, 0, 90))]
    # a key every eighth of a turn
    rows += [(0.3 + t / turns, (0, 0, 0), (360.0 * t, 0, 90)) for t in np.arange(0.125, turns + 1e-9, 0.125)]
    keys = [Keyframe(time=t, position=p, rotation_deg=(r[0], 0.0, 0.0)) for t, p, r in rows]
    stick = weft.Collider(
        name="bar",
        shape=weft.Capsule(radius=0.02, length=0.6),
        analytic=True,
        placement=weft.Placement(position=(0.0, -0.4, 0.25), rotation_deg=(0.0, 0.0, 0.0)),
        motion=Way(keyframes=keys, interpolation="linear"),
    )
    cloth = sheet("sheet", (0.6, 0.8), (20, 26), (0.0, -0.4, 0.0), turn=(90, 0, 0), pins=[weft.Pin(boundary="top")])
    return weft.Scene(fps=FPS, frames=75, cloths=[cloth], colliders=[stick], method=Predictive())


def sprint(speed: float) -> weft.Scene:
    """A runner with a cape and a skirt who sprints, turns round and rests."""
    t1 = 0.3 + 3.0 / speed
    motion = [(0.0, (0, 0, 0), (0, 0, 0)), (0.3, (0, 0, 0), (0, 0, 0)), (t1, (0, 0, 3.0), (0, 0, 0))]
    motion += [(t1 + 0.15, (0, 0, 3.0), (0, 180, 0)), (t1 + 0.15 + 3.0 / speed, (0, 0, 0), (0, 180, 0))]
    torso = (0.0, 0.0, 0.0)
    cloth = weft.Cloth(
        name="skirt",
        mesh=saved(tube((0.14, 0.3), 0.5, 30, 16), "skirt"),
        pins=[weft.Pin(indices=list(range(30)), motion=about(motion, torso))],
        placement=weft.Placement(position=(0.0, -0.2, 0.0)),
    )
    back = (0.0, -0.2, -0.2)
    cape_ = sheet(
        "cape", (0.4, 0.8), (14, 24), back, turn=(90, 0, 0), pins=[weft.Pin(boundary="top", motion=about(motion, back))]
    )
    colliders = [limb("torso", 0.12, 0.4, torso, about(motion, torso))]
    for side in (-0.08, 0.08):
        place = (side, -0.6, 0.0)
        colliders.append(limb(f"leg {side}", 0.06, 0.6, place, about(motion, place)))
    frames = round(FPS * (motion[-1][0] + 1.0))
    return weft.Scene(fps=FPS, frames=frames, cloths=[cloth, cape_], colliders=colliders, method=Predictive())


SCENES: dict[str, Callable[[], weft.Scene]] = {
    "garments": garments,
    **{f"crossed {angle}": lambda angle=angle: crossed(angle) for angle in (5, 10, 20, 30, 45)},  # type: ignore[misc]
    **{f"cape {speed}": lambda speed=speed: cape(speed) for speed in (2, 5, 10, 15)},  # type: ignore[misc]
    "felt": felt,
    "silks": silks,
    "silk": silk,
    "fallen": fallen,
    "napkins": napkins,
    "skirt": skirt,
    **{f"bar {turns}": lambda turns=turns: bar(turns) for turns in (3, 7, 14)},  # type: ignore[misc]
    **{f"sprint {speed}": lambda speed=speed: sprint(speed) for speed in (4, 7, 10)},  # type: ignore[misc]
}


class Crossings:
    """Counts the intersections of a world: of cloth with itself, with other cloth, and with colliders."""

    def __init__(self, world: World) -> None:
        self.cloths, self.finder = len(world.cloths), intersection_finder(world)
        self.of_vertex, self.of_face = np.zeros(world.vertex_count, int), np.zeros(len(world.faces), int)
        for k, body in enumerate(world.bodies):
            self.of_vertex[body.vertices] = k
            self.of_face[body.faces] = k

    def count(self, x: np.ndarray) -> tuple[int, int, int]:
        if not np.isfinite(x).all():
            return -1, -1, -1
        rows = self.finder.find(x)
        a, b = self.of_vertex[rows[:, 0]], self.of_face[rows[:, 2]]
        solid = (a >= self.cloths) | (b >= self.cloths)
        return int((a == b).sum()), int((~solid & (a != b)).sum()), int(solid.sum())


def measure(scene: weft.Scene, frames: int | None = None, watch: bool = False) -> dict[str, Any]:
    """Simulate a scene and count what its last frame has."""
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    method.begin(state)
    crossings = Crossings(world)
    times, problems, stretch, worst = [], 0, 0.0, 0
    for k in range(scene.frames if frames is None else frames):
        start = time.process_time()
        row = method.advance_frame(state)
        times.append(time.process_time() - start)
        problems += row["status"] != "ok"
        stretch = worst_stretch(world, state)
        own, other, solid = crossings.count(state.positions())
        worst = max(worst, solid)
        if watch:
            print(k + 1, (own, other, solid), f"{stretch:.2f}", row["status"], flush=True)
    speed = np.linalg.norm(state.velocities()[: world.cloth_vertex_count], axis=1)
    return {
        "vertices": world.cloth_vertex_count,
        "own": own,
        "other": other,
        "solid": solid,
        "worst": worst,
        "stretch": stretch,
        "speed": float(np.sqrt((speed**2).mean())),
        "problems": problems,
        "mean": 1e3 * float(np.mean(times[3:])),
        "longest": 1e3 * float(np.max(times[3:])),
    }


def main(names: Sequence[str]) -> None:
    set_threads(1)
    columns = ("vertices", "own", "other", "solid", "worst", "stretch", "speed", "problems", "mean", "longest")
    print(f"{'scene':<12}" + "".join(f"{name:>10}" for name in columns))
    for name, make in SCENES.items():
        if not names or any(name.startswith(n) for n in names):
            row = measure(make())
            print(
                f"{name:<12}"
                + "".join(f"{row[c]:10.2f}" if isinstance(row[c], float) else f"{row[c]:10d}" for c in columns)
            )


if __name__ == "__main__":
    main(sys.argv[1:])

"""Guarded: what a tangle costs, on cloth of 20,000 vertices.

Three scenes: a sheet between two plates that overlap, a sleeve of which half is inside an arm or a torso, and three layers that
cross each other. For some frames the processor time of a frame is given, and how much of it is the search of what crosses
(crossings, paths, regions, winding numbers) and the choice of how it is parted.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.mesh import shapes
from weft.methods.base import make_method
from weft.methods.guarded.method import Guarded
from weft.runtime import get_threads
from weft.world import World


def main(quick: bool = False) -> None:
    cells = 70 if quick else 140
    print(f"threads {get_threads()}\n")
    with tempfile.TemporaryDirectory() as folder:
        for name, (scene, frame) in {
            "plates": plates(cells),
            "sleeve": sleeve(Path(folder), cells),
            "layers": layers(Path(folder), cells * 4 // 7),
        }.items():
            print(f"{name}: {measure(scene, frame, 1 if quick else 3)}", flush=True)


def measure(scene: weft.Scene, first: int, frames: int) -> str:
    """The processor times of some frames from frame `first` on, as text."""
    world = World(scene)
    method = make_method(world, scene.method)
    assert isinstance(method, Guarded)
    state = world.initial_state()
    method.begin(state)
    for _ in range(first):
        method.advance_frame(state)
    spent: dict[str, float] = {"find": 0.0, "displacements": 0.0}
    for what in spent:
        setattr(method.finder, what, timed(getattr(method.finder, what), spent, what))
    start = time.process_time()
    for _ in range(frames):
        method.advance_frame(state)
    whole = time.process_time() - start
    crossing = 0 if method.tangles is None else len(method.tangles.counted)
    shares = [f"{what} {1e3 * spent[what] / frames:.0f} ms ({100 * spent[what] / whole:.0f} %)" for what in spent]
    vertices = f"{world.cloth_vertex_count} vertices, {crossing} crossings"
    return f"{vertices}, {1e3 * whole / frames:.0f} ms a frame, of which {', '.join(shares)}"


def timed(function: Callable[..., Any], spent: dict[str, float], what: str) -> Callable[..., Any]:
    """The function, whose processor time is added up."""

    def run(*given: Any) -> Any:
        start = time.process_time()
        result = function(*given)
        spent[what] += time.process_time() - start
        return result

    return run


def plates(cells: int) -> tuple[weft.Scene, int]:
    """Two plates close on a hanging sheet until they overlap by 5 cm; and a frame in which they do."""
    plates = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=(0.3, 0.2, 0.1)),
            placement=weft.Placement(position=(0.0, -0.1, 0.15 * side)),
            motion=weft.Path(
                keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=0.2, position=(0.0, 0.0, -0.125 * side))]
            ),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.6, 0.6), cells=(cells, cells)),
        placement=weft.Placement(rotation_deg=(90.0, 0.0, 0.0)),
        pins=[weft.Pin(boundary="top")],
    )
    return weft.Scene(name="plates", method="guarded", cloths=[sheet], colliders=plates), 14


def sleeve(folder: Path, cells: int) -> tuple[weft.Scene, int]:
    """A sleeve around an arm that is half inside a torso."""
    tube = shapes.cylinder(0.055, 0.3, segments=cells, rings=cells)
    arm = weft.Collider(name="arm", shape=weft.Capsule(radius=0.05, length=0.4, segments=20, rings=4))
    torso = weft.Collider(
        name="torso",
        shape=weft.Capsule(radius=0.15, length=0.6, segments=24, rings=4),
        placement=weft.Placement(position=(0.15, 0.0, 0.0)),
    )
    cloth = stored(folder, "sleeve", tube.vertices - tube.vertices.mean(axis=0), tube.faces)
    return weft.Scene(name="sleeve", method="guarded", cloths=[cloth], colliders=[arm, torso]), 3


def layers(folder: Path, cells: int) -> tuple[weft.Scene, int]:
    """Three layers of waves that cross each other."""
    grid = shapes.grid((0.3, 0.3), (cells, cells))
    x, _, z = grid.vertices.T
    cloths = []
    for number in range(3):
        rng = np.random.default_rng(number)
        waves = sum(np.sin(30.0 * (a * x + b * z) + c) for a, b, c in rng.normal(size=(3, 3)))
        away = np.column_stack([np.full(len(x), 0.0013), 0.004 + 0.01 * waves, 0.0017 * x])
        cloths.append(
            stored(folder, f"layer{number}", grid.vertices + number * away, grid.faces, uv=grid.vertices[:, [0, 2]])
        )
    floating = weft.Forces(gravity=(0.0, 0.0, 0.0), air_damping=2.0)
    return weft.Scene(name="layers", method="guarded", cloths=cloths, forces=floating), 2


def stored(folder: Path, name: str, vertices: Any, faces: Any, **more: Any) -> weft.Cloth:
    """A cloth from arrays."""
    file = str(folder / f"{name}.npz")
    np.savez(file, vertices=vertices, faces=faces, **more)
    return weft.Cloth(name=name, mesh=file)


if __name__ == "__main__":
    main()

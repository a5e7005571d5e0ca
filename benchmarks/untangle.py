"""Untangling: what analysis and flypapering add to a step of 18,000 cloth vertices, and the implicit step of 10,000.

The cloth is a skirt around two legs that close on each other, with a hand that presses it against one of them. After some
frames single steps are timed from the same state; then by themselves the analysis of the cloth, and what flypapering takes:
the search of the surfaces, the analysis of the colliders and the choice of pinched vertices. The best of several is
taken, since other programs may run. Then the implicit step alone, as in `implicit`.
"""

import time
from collections.abc import Callable

import numpy as np

import weft
from benchmarks.implicit import hanging_sheet, measure
from weft.methods.base import make_method
from weft.methods.untangle.method import Untangle as UntangleMethod
from weft.runtime import get_threads
from weft.scene import Path, Untangle
from weft.world import World

FRAME = 1.0 / 60.0


def main(quick: bool = False) -> None:
    world, method, state = skirt(around=60, rows=50, frames=10) if quick else skirt(around=180, rows=99, frames=10)
    repeats = 3 if quick else 5
    x, v = state.positions(), state.velocities()
    saved = method.saved()

    def step() -> None:
        state.x.assign(x)
        state.v.assign(v)
        method.restore(saved)
        method.step(state, FRAME)

    whole = best(step, repeats)
    pinched, crossings = len(method.pinched_vertices), method.crossings
    # the parts that untangling adds
    analysis = best(lambda: method.analyser.analyse_in_place(state.x), repeats)
    flypaper = best(lambda: method.hold_pinched(state), repeats)
    added = analysis + flypaper
    print(
        f"cloth vertices {world.cloth_vertex_count}, threads {get_threads()}, crossings {crossings}, pinched {pinched}"
    )
    print(f"a step: {whole:.1f} ms; analysis {analysis:.1f} ms, flypapering {flypaper:.1f} ms")
    print(f"they add {added:.1f} ms, {100 * added / (whole - added):.1f} % of the step without them\n")

    size = 50 if quick else 100
    sheet, hanging = hanging_sheet(size, frames=10 if quick else 30)
    row = measure(sheet, hanging, get_threads(), repeats=repeats)
    print(f"the implicit step: {size * size} vertices, {row['wall']:.1f} ms, {row['iterations']} iterations")


def best(what: Callable[[], object], repeats: int) -> float:
    """The shortest time of several, ms."""
    times = []
    for _ in range(repeats + 1):
        start = time.perf_counter()
        what()
        times.append(time.perf_counter() - start)
    return 1e3 * min(times[1:])


def skirt(*, around: int, rows: int, frames: int) -> tuple[World, UntangleMethod, weft.world.State]:
    """A skirt of around x (rows + 1) vertices around two legs that close on each other, after some frames."""
    import tempfile

    angle = 2.0 * np.pi * np.arange(around) / around
    heights = np.linspace(0.0, -0.6, rows + 1)
    widths = np.linspace(1.0, 1.5, rows + 1)
    ring = np.column_stack([0.2 * np.sin(angle), np.zeros(around), 0.12 * np.cos(angle)])
    vertices = np.concatenate([w * ring + [0.0, y, 0.0] for w, y in zip(widths, heights, strict=True)])
    faces = []
    for j in range(rows):
        for i in range(around):
            a, b = j * around + i, j * around + (i + 1) % around
            c, d = b + around, a + around
            faces += [(a, c, b), (a, d, c)] if (i + j) % 2 else [(a, d, b), (b, d, c)]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/skirt.npz"
        np.savez(file, vertices=vertices, faces=np.array(faces))
        legs = [
            weft.Collider(
                name=name,
                shape=weft.Capsule(radius=0.08, length=0.6, segments=48, bands=40),
                placement=weft.Placement(position=(0.1 * side, -0.35, 0.0)),
                motion=Path(
                    keyframes=[weft.Keyframe(time=0.0), weft.Keyframe(time=0.15, position=(-0.03 * side, 0, 0))]
                ),
            )
            for name, side in (("left", -1.0), ("right", 1.0))
        ]
        press = [weft.Keyframe(time=0.0), weft.Keyframe(time=0.15, position=(0.0, 0.0, -0.115))]
        hand = weft.Collider(
            name="hand",
            shape=weft.Sphere(radius=0.06),
            placement=weft.Placement(position=(0.08, -0.3, 0.25)),
            motion=Path(keyframes=press),
        )
        cloth = weft.Cloth(name="skirt", mesh=file, pins=[weft.Pin(indices=list(range(around)))])
        scene = weft.Scene(cloths=[cloth], colliders=[*legs, hand], thickness=0.002, method=Untangle())
        world = World(scene)
    method = make_method(world, scene.method)
    assert isinstance(method, UntangleMethod)
    state = world.initial_state()
    for _ in range(frames):
        method.advance_frame(state)
    return world, method, state


if __name__ == "__main__":
    main()

"""The robust method: time a frame on its scenes, where it goes, and how it grows with the number of vertices.

The rows are 60 Hz frames of the examples at full size: median and mean over all frames, contacts, collisions and zones
a frame, and intersections by the independent check in every tenth frame. The stages are measured in one more run on
one thread, in which every kernel is timed by itself. Growth: the rotating sphere from 50 x 50 to 400 x 400 vertices,
median of the frames in which the cloth lies on the sphere.

`python -m benchmarks.robust` prints the tables and, where matplotlib is there, writes two charts into the folder that
`--charts` names. `--quick` takes small sizes and few frames.
"""

import argparse
import importlib.util
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import weft
from benchmarks.stages import stage_of
from weft.geometry.intersection import IntersectionFinder
from weft.methods import make_method
from weft.runtime import get_threads, set_threads
from weft.world import World

EXAMPLES = Path(__file__).parent.parent / "examples"
# the bar for each scene: seconds a frame, and whether it is meant for the median or the mean
SCENES = {
    "sphere 100 x 100": ("robust_rotating_sphere", 100, 180, 0.2, "median"),
    "sphere 150 x 150": ("robust_rotating_sphere", 150, 180, 0.5, "median"),
    "ribbon 20 x 400": ("robust_ribbon", None, 180, 0.8, "mean"),
    "twist 100 x 100": ("robust_twist", None, 180, 0.5, "mean"),
}
QUICK = {
    "sphere 40 x 40": ("robust_rotating_sphere", 40, 60, None, "median"),
    "ribbon 11 x 201": ("robust_ribbon", "quick", 60, None, "mean"),
    "twist 41 x 41": ("robust_twist", "quick", 60, None, "mean"),
}


class Frames(NamedTuple):
    """What a run took and found, frame by frame."""

    seconds: np.ndarray
    reports: list[dict[str, Any]]
    intersections: int
    vertices: int


def example(name: str) -> Any:
    """An example as a module; they import their neighbours by bare names."""
    if str(EXAMPLES) not in sys.path:
        sys.path.insert(0, str(EXAMPLES))
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def scene_of(name: str, size: int | str | None) -> weft.Scene:
    """An example's scene, full by default; a number is the side of its only cloth in vertices."""
    made: weft.Scene = example(name).scene(size if isinstance(size, str) else "full")
    if isinstance(size, int):
        cloth = made.cloths[0]
        shape = cloth.shape.replace(cells=(size - 1, size - 1))
        made = made.replace(cloths=[cloth.replace(shape=shape)])
    return made


def run(scene: weft.Scene, frames: int, *, check_every: int = 10) -> Frames:
    """Simulate in memory; only the method's own work is timed."""
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    surface = world.surface
    finder = IntersectionFinder(world.faces, face_body=surface.face_body.numpy(), body_pairs=surface.body_pairs.numpy())
    seconds, reports, intersections = [], [], 0
    for frame in range(frames):
        start = time.perf_counter()
        reports.append(method.advance_frame(state))
        seconds.append(time.perf_counter() - start)
        if frame % check_every == check_every - 1 or frame == frames - 1:
            intersections += len(finder.find(state.positions()))
    return Frames(np.array(seconds), reports, intersections, world.cloth_vertex_count)


@contextmanager
def timed_kernels(spent: dict[str, float]) -> Iterator[None]:
    """Add up the time of all kernels on the CPU by stage."""
    launcher = sys.modules["weft.runtime.launch"]._cpu

    def timed(launch: Callable[..., None]) -> Callable[..., None]:
        def call(kernel: Any, *arguments: Any) -> None:
            start = time.perf_counter()
            launch(kernel, *arguments)
            spent[stage_of(kernel)] += time.perf_counter() - start

        return call

    launcher.launch, launcher.run_each = timed(launcher.launch), timed(launcher.run_each)
    try:
        yield
    finally:
        del launcher.launch, launcher.run_each


def stages(scene: weft.Scene, *, skip: int, frames: int) -> dict[str, float]:
    """Milliseconds a frame of each stage, on one thread, over some frames after the first ones."""
    world = World(scene)
    method, state = make_method(world, scene.method), world.initial_state()
    for _ in range(skip):
        method.advance_frame(state)
    spent: dict[str, float] = defaultdict(float)
    threads = get_threads()
    set_threads(1)
    try:
        method.advance_frame(state)
        start = time.perf_counter()
        with timed_kernels(spent):
            for _ in range(frames):
                method.advance_frame(state)
        whole = time.perf_counter() - start
    finally:
        set_threads(threads)
    spent["Python and Warp"] = whole - sum(spent.values())
    return {stage: 1e3 * seconds / frames for stage, seconds in spent.items()}


def print_scenes(quick: bool) -> None:
    print(f"{'scene':18} {'median s':>9} {'mean s':>8} {'bar s':>12} {'contacts':>9} {'collisions':>11} ", end="")
    print(f"{'zones':>6} {'free steps':>11} {'intersections':>14}", flush=True)
    for title, (name, size, frames, bar, kind) in (QUICK if quick else SCENES).items():
        found = run(scene_of(name, size), frames)
        contacts, collisions, zones = (
            np.mean([r[key] for r in found.reports]) for key in ("contacts", "collisions", "zones")
        )
        free = np.mean([report["collisions"] == 0 for report in found.reports])
        wanted = f"{bar} {kind}" if bar else ""
        print(
            f"{title:18} {np.median(found.seconds):9.3f} {found.seconds.mean():8.3f} {wanted:>12} {contacts:9.0f} "
            f"{collisions:11.1f} {zones:6.2f} {free:10.0%}  {found.intersections:14d}",
            flush=True,
        )


def print_stages(quick: bool) -> dict[str, dict[str, float]]:
    """Where the time goes, scene by scene."""
    chosen = {
        "sphere": ("robust_rotating_sphere", 40 if quick else 100, 60),
        "ribbon": ("robust_ribbon", "quick" if quick else "full", 45),
        "twist": ("robust_twist", "quick" if quick else "full", 60),
    }
    table = {}
    for title, (name, size, skip) in chosen.items():
        table[title] = stages(scene_of(name, size), skip=skip, frames=2 if quick else 4)
    print(f"\n{'ms a frame, one thread':32}" + "".join(f"{title:>12}" for title in table))
    for stage in sorted_stages(table):
        print(f"{stage:32}" + "".join(f"{column.get(stage, 0.0):12.1f}" for column in table.values()), flush=True)
    return table


def sorted_stages(table: dict[str, dict[str, float]]) -> list[str]:
    """All stages of all scenes, the longest first."""
    total: dict[str, float] = defaultdict(float)
    for column in table.values():
        for stage, milliseconds in column.items():
            total[stage] += milliseconds
    return sorted(total, key=lambda stage: -total[stage])


def print_growth(quick: bool) -> list[tuple[int, float]]:
    """The cost of the rotating sphere against its vertices."""
    sizes = (30, 50, 70) if quick else (50, 75, 100, 150, 200, 300, 400)
    rows = []
    print(f"\n{'vertices':>9} {'s a frame':>10} {'us a vertex':>12} {'intersections':>14}")
    for size in sizes:
        # from 0.5 s to 0.75 s it lies on the sphere and folds
        found = run(scene_of("robust_rotating_sphere", size), 45, check_every=45)
        median = float(np.median(found.seconds[30:]))
        rows.append((found.vertices, median))
        print(
            f"{found.vertices:9d} {median:10.3f} {1e6 * median / found.vertices:12.1f} {found.intersections:14d}",
            flush=True,
        )
    return rows


def draw(folder: Path, table: dict[str, dict[str, float]], growth: list[tuple[int, float]]) -> None:
    """Two charts: stages as bars, growth with logarithmic axes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7.0, 2.6), layout="constrained")
    left = np.zeros(len(table))
    for stage in sorted_stages(table):
        width = np.array([column.get(stage, 0.0) / sum(column.values()) for column in table.values()])
        axes.barh(list(table), width, left=left, label=stage)
        left += width
    axes.set_xlabel("fraction of the time of a frame, one thread")
    axes.set_xlim(0.0, 1.0)
    figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize="small")
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / "robust_stages.png", dpi=110)

    figure, axes = pyplot.subplots(figsize=(5.0, 3.6), layout="constrained")
    vertices, seconds = (np.array(column) for column in zip(*growth, strict=True))
    axes.loglog(vertices, seconds, "o-", label="rotating sphere")
    axes.loglog(vertices, seconds[0] * vertices / vertices[0], ":", color="grey", label="in proportion to the vertices")
    axes.set_xlabel("vertices")
    axes.set_ylabel("s a frame")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(folder / "robust_growth.png", dpi=110)


def main(quick: bool = False, charts: Path | None = None) -> None:
    print(f"{get_threads()} threads\n")
    print_scenes(quick)
    table = print_stages(quick)
    growth = print_growth(quick)
    if charts is not None:
        draw(charts, table, growth)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="small sizes, few frames")
    parser.add_argument("--charts", type=Path, help="where the charts go")
    options = parser.parse_args()
    main(options.quick, options.charts)

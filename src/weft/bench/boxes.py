"""Tables 1 and 2 of Liu, Ko and Chang 1998: cloth that falls on a table and to the ground, avoided in three ways.

S1 and S2 are the searches that the paper compares its tree with. Every triangle is compared with every other, without a
hierarchy and without stored boxes: S1 tests whether the triangles intersect at the end of a step, S2 whether their boxes
overlap during it. No method uses this; the broad phase `brute` does the comparisons of S2 about ten times as fast, with
stored boxes and vector instructions.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from weft.methods.boxes.limits import edges_intersect, has
from weft.methods.boxes.plane_kernels import span_of
from weft.runtime import launch
from weft.scene import MATERIALS, Box, Boxes, Camera, Cloth, Collider, Grid, Placement, Plane, Scene
from weft.world import World

if TYPE_CHECKING:
    from rich.table import Table

    from weft.methods.boxes.method import Boxes as BoxesMethod
    from weft.world import State

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_pairs(
    first: int,
    geometric: int,
    count: int,
    faces: wp.array[wp.vec3i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    margin: wp.float64,
    capacity: int,
    found: wp.array2d[int],
    counts: wp.array[int],
):
    """The later triangles that a triangle intersects at the end (`geometric`), or whose boxes overlap its own in the step."""
    i = first + wp.tid()
    f = faces[i]
    n = int(0)
    for j in range(i + 1, count):
        g = faces[j]
        if not has(g, f[0]) and not has(g, f[1]) and not has(g, f[2]):
            hit = bool(True)
            if geometric == 1:
                hit = edges_intersect(f, g, end) or edges_intersect(g, f, end)
            else:
                a = span_of(f, start, end)
                b = span_of(g, start, end)
                for d in range(3):
                    if (
                        wp.min(a.low[d], a.low_end[d]) > wp.max(b.high[d], b.high_end[d]) + margin
                        or wp.min(b.low[d], b.low_end[d]) > wp.max(a.high[d], a.high_end[d]) + margin
                    ):
                        hit = False
            if hit:
                if n < capacity:
                    found[i, n] = j
                n += 1
    counts[i] = n


class PlainSearch:
    """All pairs of triangles of a world, found by comparing all."""

    def __init__(self, world: World, *, geometric: bool, capacity: int = 64) -> None:
        self.world, self.geometric = world, geometric
        # S1 looks at cloth only
        self.count = world.cloth_face_count if geometric else len(world.faces)
        self._counts = wp.zeros(self.count, dtype=int, device=world.device)
        self._grow(capacity)

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        self._found: Any = wp.zeros((self.count, capacity), dtype=int, device=self.world.device)

    def find(self, start: wp.array, end: wp.array) -> np.ndarray:
        """The pairs (k, 2), smaller index first, in order."""
        world = self.world
        while True:
            inputs = [int(self.geometric), self.count, world.surface.faces, start, end, world.largest_thickness]
            inputs += [self.capacity, self._found, self._counts]
            launch(find_pairs, self.count, inputs, device=world.device, grain=16)
            counts = self._counts.numpy()
            if counts.max(initial=0) <= self.capacity:
                break
            self._grow(2 * int(counts.max()))
        first = np.repeat(np.arange(self.count), counts)
        second = self._found.numpy()[np.arange(self.capacity)[None] < counts[:, None]]
        return np.column_stack([first, second]).astype(np.int32)


# 1000 steps of 2 ms
FRAMES = 100
WAYS = ("S1", "S2", "S3")


def table_scene(points: int, **options: Any) -> Scene:
    """A square metre of cotton with that many points a side, a little above a square table."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(points - 1, points - 1)),
        placement=Placement(position=(0.0, 0.53, 0.0)),
        material=MATERIALS["cotton"],
    )
    table = Collider(
        name="table", shape=Box(size=(0.5, 0.04, 0.5)), placement=Placement(position=(0.0, 0.48, 0.0)), friction=0.4
    )
    return Scene(
        name=f"cloth on a table, {points} x {points}",
        fps=50,
        frames=FRAMES,
        method=Boxes(**options),
        camera=Camera(position=(1.5, 1.1, 1.9), target=(0.0, 0.4, 0.0), fov_deg=30.0),
        cloths=(cloth,),
        colliders=(table,),
    )


def ground_scene(points: int, **options: Any) -> Scene:
    """A square metre of cotton that falls to the floor almost upright and folds."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(points - 1, points - 1)),
        placement=Placement(position=(0.0, 0.68, 0.0), rotation_deg=(80.0, 25.0, 8.0)),
        material=MATERIALS["cotton"],
    )
    floor = Collider(name="floor", shape=Plane(size=(6.0, 6.0)))
    return Scene(
        name=f"cloth to the ground, {points} x {points}",
        fps=50,
        frames=FRAMES,
        method=Boxes(**options),
        camera=Camera(position=(1.3, 1.1, 1.9), target=(0.0, 0.25, 0.0), fov_deg=32.0),
        cloths=(cloth,),
        colliders=(floor,),
    )


@dataclass(frozen=True)
class Numbers:
    """One column of a table: runs a step, and seconds a step."""

    mean_runs: float
    most_runs: float
    detection: float
    total: float


# tables 1 and 2, in seconds on a DEC 5000/260
PAPER = {
    ("table", 21): {"S1": Numbers(2, 4, 3.97, 12.96), "S2": Numbers(2, 4, 1.33, 2.79), "S3": Numbers(2, 4, 0.05, 0.39)},
    ("table", 51): {
        "S1": Numbers(2, 4, 116.53, 272.76),
        "S2": Numbers(2, 4, 40.14, 73.26),
        "S3": Numbers(2, 4, 0.23, 2.02),
    },
    ("ground", 21): {
        "S1": Numbers(3, 4, 4.07, 10.42),
        "S2": Numbers(3, 5, 1.32, 4.04),
        "S3": Numbers(3, 5, 0.03, 0.40),
    },
    ("ground", 51): {
        "S1": Numbers(4, 5, 118.43, 312.87),
        "S2": Numbers(4, 8, 40.09, 149.54),
        "S3": Numbers(4, 8, 0.21, 3.56),
    },
}
SCENES: dict[str, Callable[..., Scene]] = {"table": table_scene, "ground": ground_scene}
# points a side -> frames, and how many steps come between two that are searched without a hierarchy too
FULL = {21: (FRAMES, 25), 51: (FRAMES, 100)}
QUICK = {21: (40, 20), 51: (20, 50)}


@dataclass
class Watch:
    """Measurements of a run, step by step; times in s of processor time."""

    runs: list[int] = field(default_factory=list)
    detection: list[float] = field(default_factory=list)
    total: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    """detection without a hierarchy, in the sampled steps"""
    intersections: int = 0


@dataclass(frozen=True)
class Result:
    """The measurements of weft for one scene and size."""

    scene: str
    points: int
    steps: int
    columns: dict[str, Numbers]
    intersections: int
    """in all frames of both runs"""


def measure(
    scene: str, points: int, frames: int, every: int, *, progress: Callable[[str], None] | None = None
) -> Result:
    """Run a scene with planes (S2 and S3 move alike) and with held triangles (S1), on one thread.

    The time that the searches of S1 and S2 take is measured in one of `every` steps. All times are processor time, so that
    other work on the machine does not count.
    """
    from weft.runtime import get_threads, set_threads

    say = progress or (lambda text: None)
    threads = get_threads()
    set_threads(1)
    try:
        say(f"{scene} {points} x {points}: S2 and S3")
        boxes = _watch(SCENES[scene](points), frames, every, geometric=False)
        say(f"{scene} {points} x {points}: S1")
        held = _watch(SCENES[scene](points, avoid="triangles"), frames, every, geometric=True)
    finally:
        set_threads(threads)
    columns = {
        "S1": _numbers(held, held.plain),
        "S2": _numbers(boxes, boxes.plain),
        "S3": _numbers(boxes, boxes.detection),
    }
    return Result(scene, points, len(boxes.runs), columns, boxes.intersections + held.intersections)


def _numbers(watch: Watch, detection: list[float]) -> Numbers:
    """The averages of a run, with the given times of detection instead of those that it took."""
    rest = float(np.mean(watch.total)) - float(np.mean(watch.detection))
    search = float(np.mean(detection))
    return Numbers(float(np.mean(watch.runs)), float(np.max(watch.runs)), search, rest + search)


def _watch(scene: Scene, frames: int, every: int, *, geometric: bool) -> Watch:
    """Run a scene and measure its steps."""
    from weft.geometry.intersection import intersection_finder
    from weft.run.simulation import compile_scene

    watch = Watch()
    world, method = compile_scene(scene)
    finder = intersection_finder(world)
    plain = PlainSearch(world, geometric=geometric)
    spent = [0.0, 0.0]

    # the search of a run and, in sampled steps, the same search without a hierarchy
    find = method.find_boxes

    def find_boxes(state: "State") -> Any:
        begun = time.thread_time()
        pairs = find(state)
        spent[0] += time.thread_time() - begun
        if len(watch.runs) % every == 0:
            begun = time.thread_time()
            plain.find(state.x, method.x_end)
            spent[1] += time.thread_time() - begun
        return pairs

    step = method.step

    def timed_step(state: "State", dt: float) -> Any:
        spent[:] = [0.0, 0.0]
        sampled = len(watch.runs) % every == 0
        begun = time.thread_time()
        report = step(state, dt)
        watch.total.append(time.thread_time() - begun - spent[1])
        watch.detection.append(spent[0])
        if sampled:
            watch.plain.append(spent[1])
        watch.runs.append(method.counts[-1])
        return report

    _warm_up(method, world)
    method.find_boxes, method.step = find_boxes, timed_step
    state = world.initial_state()
    for _ in range(frames):
        method.advance_frame(state)
        watch.intersections += len(finder.find(state.positions()))
    return watch


def _warm_up(method: "BoxesMethod", world: Any) -> None:
    """Compile what has to be compiled before the clock runs."""
    method.counts = []
    method.step(world.initial_state(), 1e-3)


def make_table(number: int, result: Result) -> "Table":
    """Half a table of the paper, that of one size, beside ours; fits into 80 columns."""
    from rich.table import Table

    title = {1: "Table 1: cloth falling on a table", 2: "Table 2: cloth falling to the ground"}[number]
    table = Table(title=f"{title}, {result.points} x {result.points}", title_justify="left")
    table.add_column("")
    both = (PAPER[result.scene, result.points], result.columns)
    for who in ("paper", "weft"):
        for way in WAYS:
            table.add_column(f"{who}\n{way}", justify="right", no_wrap=True)
    rows: list[tuple[str, Callable[[Numbers], float], str]] = [
        ("mean runs", lambda n: n.mean_runs, "{:.1f}"),
        ("most runs", lambda n: n.most_runs, "{:.0f}"),
        ("detection, ms a step", lambda n: 1e3 * n.detection, "{:,.3g}"),
        ("whole step, ms", lambda n: 1e3 * n.total, "{:,.3g}"),
    ]
    for name, value, form in rows:
        table.add_row(name, *(_plain(form, value(columns[way])) for columns in both for way in WAYS))
    for name, value in (("detection : S3", lambda n: n.detection), ("whole step : S3", lambda n: n.total)):
        ratios = (f"{value(columns[way]) / value(columns['S3']):.3g}" for columns in both for way in WAYS)
        table.add_row(name, *ratios, style="bold")
    return table


def _plain(form: str, value: float) -> str:
    """A number without exponent."""
    return f"{value:,.0f}" if value >= 1000 else form.format(value)

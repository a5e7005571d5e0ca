"""The suite: what a case is, the simulation that cases measure, and the run over methods, cases and resolutions."""

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, WeftWarning, missing_extra, writing
from weft.mesh import TriMesh
from weft.scene import MethodOptions, Scene
from weft.scene.messages import unknown

Floats = npt.NDArray[np.float64]
Size = Literal["quick", "full"]
Status = Literal["ok", "miss", "listed", "passes"]

# subject -> the module that has its cases, in a tuple such as `BENDING_CASES`; in the order of the table
SUBJECTS = {
    "bending": "elasticity",
    "stretching": "elasticity",
    "materials": "materials",
    "friction": "contact",
    "impact": "contact",
    "drape": "drape",
    "resolution": "drape",
}
# what a measurement may take, in seconds of processor time; beyond it the method has missed. Explicit methods need more
PATIENCE: dict[Size, float] = {"quick": 60.0, "full": 900.0}
# reasons for misses that many cases share
BOXES = {"boxes": "explicit springs on grids, made to show how collisions are avoided"}
PUSH = {"push": "explicit springs, made for pictures"}
CLASSICAL = {**BOXES, **PUSH}
# no cloth gets so far, m; NaN is not below it either
_FARTHEST = 1e3


@dataclass(frozen=True)
class Expected:
    """What a measurement should be: a theory with a range about it, or a range alone."""

    low: float
    high: float
    theory: float | None = None

    @classmethod
    def near(cls, theory: float, bound: float) -> "Expected":
        """The theory, up to a relative error."""
        return cls(theory * (1.0 - bound), theory * (1.0 + bound), theory)

    @classmethod
    def at_most(cls, high: float) -> "Expected":
        """A limit that is not to be exceeded."""
        return cls(-inf, high)

    def holds(self, value: float) -> bool:
        """Whether a value is in the range; NaN is in none."""
        return self.low <= value <= self.high

    def error(self, value: float) -> float:
        """The relative error where there is a theory, else by how much of the nearer limit the range is left."""
        if self.theory is not None:
            return (value - self.theory) / self.theory
        if self.holds(value):
            return 0.0
        limit = self.high if not value < self.low else self.low
        return (value - limit) / abs(limit) if limit else nan

    def text(self, unit: str = "") -> str:
        """The theory and its relative bound, or the range."""
        after = f" {unit}" if unit else ""
        if self.theory is not None:
            return f"{self.theory:.4g}{after} ± {100.0 * (self.high / self.theory - 1.0):.3g} %"
        return f"≤ {self.high:.3g}{after}" if self.low == -inf else f"{self.low:.3g} to {self.high:.3g}{after}"


@dataclass(frozen=True)
class Case:
    """One thing that is measured, the same in all methods, at one or more resolutions."""

    name: str
    what: str
    """a few words about what is measured"""
    expected: Expected | Callable[[int], Expected]
    """one for all resolutions, or one for each"""
    measure: Callable[[str, int], float]
    """from the name of a method and a resolution (what that counts, the note says) to the measured number"""
    full: tuple[int, ...]
    """resolutions of the full size"""
    quick: tuple[int, ...] = ()
    """resolutions of the quick size"""
    unit: str = ""
    note: str = ""
    contact: bool = False
    """whether cloth touches something: `plain`, which does nothing about contact, is not measured then"""
    misses: Mapping[str, str] = field(default_factory=dict)
    """methods that are known to miss, and why"""

    def expects(self, resolution: int) -> Expected:
        """What is expected at a resolution."""
        return self.expected if isinstance(self.expected, Expected) else self.expected(resolution)


@dataclass(frozen=True)
class Row:
    """One measurement, as plain numbers and texts."""

    subject: str
    case: str
    method: str
    resolution: int
    theory: float | None
    low: float
    high: float
    value: float
    """NaN where the method could not be measured"""
    error: float
    """relative to the theory, or to the limit that it is beyond"""
    unit: str
    status: Status
    """ok; miss; listed: misses, and the case says why; passes: in the range, though the case lists it as a miss"""
    note: str
    """why a method misses, or what kept it from being measured"""
    seconds: float


class CaseRun:
    """A scene in memory that a case moves on with a method: no cache, no count of intersections.

    method: its name; it runs with its default options. meshes: what the scene names as mesh files, by file name.
    """

    deadline = inf
    """when measuring stops, in seconds of processor time; the same for all runs of cases"""

    def __init__(self, method: str, scene: Scene, meshes: Mapping[str, TriMesh] | None = None) -> None:
        from weft.run.simulation import compile_scene

        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            # a strip of 3 cm is meant
            warnings.simplefilter("ignore", WeftWarning)
            for name, mesh in (meshes or {}).items():
                arrays: dict[str, Any] = {"vertices": mesh.vertices, "faces": mesh.faces}
                if mesh.uv is not None:
                    arrays["uv"] = mesh.uv
                np.savez(Path(folder) / name, **arrays)
            self.world, self.method = compile_scene(scene.replace(method=method).at(folder))
        self.state = self.world.initial_state()
        self.method.begin(self.state)
        self.count = self.world.cloth_vertex_count
        self.mass: Floats = self.world.mass[: self.count]

    @property
    def time(self) -> float:
        """Seconds since the start."""
        return float(self.state.time)

    @property
    def x(self) -> Floats:
        """(n, 3) positions of all cloths."""
        return np.asarray(self.state.positions()[: self.count])

    @property
    def v(self) -> Floats:
        """(n, 3) velocities of all cloths."""
        return np.asarray(self.method.velocities(self.state)[: self.count])

    @property
    def speed(self) -> float:
        """Of the fastest vertex, m/s."""
        return float(np.linalg.norm(self.v, axis=1).max())

    def frames(self, seconds: float) -> list[Floats]:
        """Move on; gives the positions at the end of each frame."""
        found = []
        for _ in range(round(seconds * self.world.scene.fps)):
            self.method.advance_frame(self.state)
            found.append(self.x)
            if not np.abs(found[-1]).max() < _FARTHEST:
                raise WeftError(f"the cloth flew away after {self.time:.2f} s")
            if time.process_time() > self.deadline:
                raise WeftError(f"too slow to be measured: only {self.time:.2f} s were simulated")
        return found

    def settle(self, most: float, *, least: float = 0.0, speed: float = 1e-3, quiet: float = 0.3) -> Floats:
        """Move on until no vertex was faster than `speed` for `quiet` seconds, for `least` to `most` seconds in all.

        Gives the mean of the positions over the last `quiet` seconds: the place about which cloth that swings does so.
        """
        recent: list[Floats] = []
        since, long = 0, round(quiet * self.world.scene.fps)
        while self.time < most - 1e-9 and (since < long or self.time < least):
            recent = [*recent[-long + 1 :], *self.frames(1.0 / self.world.scene.fps)]
            since = since + 1 if self.speed < speed else 0
        return np.asarray(np.mean(recent, axis=0))

    def fastest(self, seconds: float) -> float:
        """The largest speed of a vertex at the end of any frame of the next seconds, m/s."""
        found = 0.0
        for _ in range(round(seconds * self.world.scene.fps)):
            self.frames(1.0 / self.world.scene.fps)
            found = max(found, self.speed)
        return found


def all_cases() -> dict[str, dict[str, Case]]:
    """Subject -> name -> case."""
    found = {}
    for name, module in SUBJECTS.items():
        cases: tuple[Case, ...] = getattr(import_module(f"weft.validate.{module}"), f"{name.upper()}_CASES")
        found[name] = {case.name: case for case in cases}
    return found


def run_suite(
    methods: Sequence[str] | None = None,
    *,
    size: Size = "quick",
    only: Sequence[str] | None = None,
    progress: Callable[[Row, int, int], None] | None = None,
) -> list[Row]:
    """Measure cases with methods; gives a row for each case, resolution and method, in this order.

    methods: names; all that there are by default.
    only: names of cases or subjects; all by default, and then of those with a quick size where `size` is quick.
    progress: called with each row, how many are done and how many there will be.
    """
    known = list(MethodOptions.known)
    chosen = list(dict.fromkeys(methods)) if methods else known
    for name in chosen:
        if name not in known:
            raise WeftError(unknown("method", name, known))
    work = [
        (subject, case, resolution, method)
        for subject, case in _choose(only)
        # a case that is asked for by its name has no empty quick size
        for resolution in (case.full if size == "full" else case.quick or (case.full[:1] if only else ()))
        for method in chosen
        if not (case.contact and method == "plain")
    ]
    rows: list[Row] = []
    for subject, case, resolution, method in work:
        CaseRun.deadline = time.process_time() + PATIENCE[size]
        rows.append(_measure(subject, case, resolution, method))
        if progress is not None:
            progress(rows[-1], len(rows), len(work))
    CaseRun.deadline = inf
    return rows


def failed(rows: Sequence[Row]) -> list[Row]:
    """The rows that miss without being listed."""
    return [row for row in rows if row.status == "miss"]


def shrinking(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Cases and methods that are listed as misses and passed at every resolution of these rows."""
    listed: dict[tuple[str, str], bool] = {}
    for row in rows:
        if row.status in ("listed", "passes"):
            key = row.case, row.method
            listed[key] = listed.get(key, True) and row.status == "passes"
    return [key for key, passes in listed.items() if passes]


def _choose(only: Sequence[str] | None) -> list[tuple[str, Case]]:
    """Subjects and cases by their names."""
    subjects = all_cases()
    names = [name for subject, cases in subjects.items() for name in (subject, *cases)]
    for name in only or ():
        if name not in names:
            raise WeftError(unknown("case or subject", name, names))
    return [
        (subject, case)
        for subject, cases in subjects.items()
        for case in cases.values()
        if not only or subject in only or case.name in only
    ]


def _measure(subject: str, case: Case, resolution: int, method: str) -> Row:
    """One row; a method that refuses the scene or lets it fly away has missed, and the note says how."""
    expected = case.expects(resolution)
    began = time.perf_counter()
    # while nothing crosses, guarded is robust
    known = "robust" if method == "guarded" else method
    note, listed = case.misses.get(known, ""), known in case.misses
    try:
        value = float(case.measure(method, resolution))
    except WeftError as error:
        said = str(error).splitlines()[0]
        value, note = nan, f"{note}: {said}" if note else said
    good = expected.holds(value)
    status: Status = ("passes" if good else "listed") if listed else ("ok" if good else "miss")
    return Row(
        subject,
        case.name,
        method,
        resolution,
        expected.theory,
        expected.low,
        expected.high,
        value,
        expected.error(value),
        case.unit,
        status,
        note,
        time.perf_counter() - began,
    )


def draw_charts(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw each subject, a panel a case, and the cantilevers over their weight; gives the files."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    # file name -> what draws each of its panels
    panels: dict[str, list[Callable[[Any], None]]] = {}
    for (subject, _), mine in _grouped(rows, lambda row: (row.subject, row.case)).items():
        panels.setdefault(subject, []).append(partial(_draw_case, rows=mine))
    if strips := [row for row in rows if row.case.startswith("cantilever_")]:
        panels["cantilever"] = [partial(_draw_cantilevers, rows=strips)]
    written = []
    for name, drawn in panels.items():
        across = min(len(drawn), 3)
        down = -(-len(drawn) // across)
        figure = Figure(figsize=(4.2 * across, 3.0 * down), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for axis, draw in zip(axes, drawn, strict=False):
            draw(axis)
            axis.tick_params(labelsize=8)
            axis.legend(fontsize=6)
        for axis in axes[len(drawn) :]:
            axis.axis("off")
        written.append(folder / f"{name}.png")
        with writing(written[-1]):
            figure.savefig(written[-1])
    return written


def _grouped(rows: Sequence[Row], key: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by a key, in the order in which the keys come."""
    groups: dict[Any, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def _draw_case(axis: Any, rows: list[Row]) -> None:
    """One case: a curve a method over the resolution, the expected range grey, the theory black."""
    sizes = sorted({row.resolution for row in rows})
    at = {row.resolution: row for row in rows}
    values = [row.value for row in rows if isfinite(row.value)]
    for i, size in enumerate(sizes):
        low = max(at[size].low, min([0.0, *values]))
        axis.fill_between([i - 0.5, i + 0.5], low, at[size].high, color="0.88", linewidth=0.0)
        if at[size].theory is not None:
            axis.plot([i - 0.5, i + 0.5], [at[size].theory] * 2, color="black", linewidth=1.0)
    for method, mine in _grouped(rows, lambda row: row.method).items():
        places = [sizes.index(row.resolution) for row in mine]
        axis.plot(places, [row.value for row in mine], marker="o", markersize=4, linewidth=1.2, label=method)
    if values and min(values) > 0.0 and max(values) > 20.0 * min(values):
        axis.set_yscale("log")
    axis.set_xticks(range(len(sizes)), [str(size) for size in sizes])
    axis.set_title(rows[0].case, fontsize=9)
    axis.set_ylabel(rows[0].unit, fontsize=8)


def _draw_cantilevers(axis: Any, rows: list[Row]) -> None:
    """Drop over reach of heavy cantilevers over their weight number, each method at its finest resolution, and theory."""
    from weft.validate.theory import heavy_cantilever

    weights = np.geomspace(0.5, 200.0, 60)
    axis.loglog(weights, [heavy_cantilever(weight).ratio for weight in weights], color="black", label="theory")
    for method, mine in _grouped(rows, lambda row: row.method).items():
        found = {float(row.case.split("_")[1]): row.value for row in sorted(mine, key=lambda row: row.resolution)}
        found = {weight: value for weight, value in found.items() if value > 0.0}
        axis.loglog(list(found), list(found.values()), linestyle="", marker="o", markersize=4, label=method)
    axis.set_xlabel("density g L³ / bend", fontsize=8)
    axis.set_ylabel("drop over reach", fontsize=8)

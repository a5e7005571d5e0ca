"""The suite: what a case is, the simulation that cases measure, and the run over methods, cases and resolutions."""

import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from math import inf, isfinite, nan
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError, WeftWarning, missing_extra, writing
from weft.mesh import TriMesh
from weft.scene import Scene
from weft.scene.messages import unknown

Floats = npt.NDArray[np.float64]
Size = Literal["quick", "full"]
Status = Literal["ok", "miss", "listed", "passes"]

# the modules with the cases, each with a tuple `CASES`, in the order of the table
SUBJECTS = ("bending", "stretching", "friction", "impact", "drape", "resolution")
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

    def __str__(self) -> str:
        if self.theory is not None:
            return f"{self.theory:.4g} ± {100.0 * (self.high / self.theory - 1.0):.3g} %"
        return f"≤ {self.high:.3g}" if self.low == -inf else f"{self.low:.3g} to {self.high:.3g}"


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


class Simulation:
    """A scene in memory that a case moves on with a method: no cache, no count of intersections.

    method: its name; it runs with its default options. meshes: what the scene names as mesh files, by file name.
    """

    def __init__(self, method: str, scene: Scene, meshes: Mapping[str, TriMesh] | None = None) -> None:
        from weft.run.runner import compile_scene

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
    return {name: {case.name: case for case in import_module(f"weft.validate.{name}").CASES} for name in SUBJECTS}


def known_methods() -> list[str]:
    """The names of all methods."""
    from weft.methods.base import _METHODS

    return list(_METHODS)


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
    known = known_methods()
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
        rows.append(_measure(subject, case, resolution, method))
        if progress is not None:
            progress(rows[-1], len(rows), len(work))
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
    note, listed = case.misses.get(method, ""), method in case.misses
    try:
        value = float(case.measure(method, resolution))
    except WeftError as error:
        value, note = nan, note or str(error).splitlines()[0]
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
    """Draw the measured values of each subject over the resolution, with the range that is expected; gives the files."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing_extra("render", "matplotlib") from error
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    written = []
    for subject in dict.fromkeys(row.subject for row in rows):
        mine = [row for row in rows if row.subject == subject]
        names = list(dict.fromkeys(row.case for row in mine))
        across = min(len(names), 3)
        down = -(-len(names) // across)
        figure = Figure(figsize=(4.2 * across, 3.0 * down), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(down, across, squeeze=False).ravel()
        for axis in axes[len(names) :]:
            axis.axis("off")
        for axis, name in zip(axes, names, strict=False):
            _draw_case(axis, [row for row in mine if row.case == name])
        path = folder / f"{subject}.png"
        with writing(path):
            figure.savefig(path)
        written.append(path)
    return written


def _draw_case(axis: Any, rows: list[Row]) -> None:
    """One case: a curve a method over the resolution, the expected range grey, the theory black."""
    sizes = sorted({row.resolution for row in rows})
    at = {row.resolution: row for row in rows}
    low, high = ([getattr(at[n], side) for n in sizes] for side in ("low", "high"))
    values = [row.value for row in rows if isfinite(row.value)]
    floor = min([0.0, *values])
    axis.fill_between(sizes, [max(v, floor) for v in low], high, color="0.88")
    theory = [at[n].theory for n in sizes]
    if None not in theory:
        axis.plot(sizes, theory, color="black", linewidth=1.0, marker="_")
    for method in dict.fromkeys(row.method for row in rows):
        drawn = [(row.resolution, row.value) for row in rows if row.method == method and isfinite(row.value)]
        if drawn:
            axis.plot(*zip(*drawn, strict=True), marker="o", markersize=4, linewidth=1.2, label=method)
    axis.set_title(rows[0].case, fontsize=9)
    axis.set_ylabel(rows[0].unit, fontsize=8)
    axis.set_xticks(sizes)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=6)

"""A study on disk: its runs, the record of each, and the table of all.

study/
  study.json            the scene and the keys that are varied
  runs/NAME.zarr        the cache of a run
  runs/NAME.json        the record of a run, written by the process that ran it
  table.csv .parquet    a row a run
  sheet.png             the last frames
  plots/KEY.png         columns against a key
"""

import csv
import hashlib
import io
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from weft import __version__
from weft.cache import layout, open_cache
from weft.errors import CacheError, WeftError, missing_extra
from weft.farm.sweeps import Combination, name_run
from weft.run.origin import NOT_PHYSICS
from weft.scene import Scene


@dataclass(frozen=True)
class Run:
    """One simulation of a study."""

    name: str
    values: Combination
    scene: Scene = field(repr=False, compare=False)

    @property
    def digest(self) -> str:
        """A hash of all settings of the scene; a finished run counts only if its hash is the same."""
        text = json.dumps(self.scene.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


class Study:
    """The folder of a study."""

    def __init__(self, path: str | Path, runs: list[Run]) -> None:
        self.path = Path(path)
        self.runs = runs

    @property
    def keys(self) -> list[str]:
        """The keys that are varied."""
        return list(dict.fromkeys(key for run in self.runs for key in run.values))

    def cache_path(self, run: Run) -> Path:
        return self.path / "runs" / f"{run.name}.zarr"

    def record_path(self, run: Run) -> Path:
        return self.path / "runs" / f"{run.name}.json"

    def record(self, run: Run) -> dict[str, Any] | None:
        """The record of a run on disk, if it was of the same scene, else None."""
        try:
            record = json.loads(self.record_path(run).read_bytes())
        except (OSError, ValueError):
            return None
        return record if isinstance(record, dict) and record.get("digest") == run.digest else None

    def is_done(self, run: Run) -> bool:
        """Whether a run is complete and need not be run again."""
        record = self.record(run)
        if record is None or record.get("status") != "ok":
            return False
        try:
            return open_cache(self.cache_path(run)).complete
        except CacheError:
            return False

    def rows(self, records: Mapping[str, Mapping[str, Any]] | None = None) -> list[dict[str, Any]]:
        """The table: a row a run, in the order of the study. `records` take precedence over those on disk."""
        rows = []
        for run in self.runs:
            record = (records or {}).get(run.name) or self.record(run) or {}
            found = record.get("row", {})
            rows.append(
                {
                    "run": run.name,
                    **{key: run.values.get(key) for key in self.keys},
                    **{name: found.get(name) for name in COLUMNS},
                    "status": record.get("status", "missing"),
                    "error": record.get("error", ""),
                }
            )
        return rows

    def prepare(self, scene: Scene, *, resume: bool, overwrite: bool) -> None:
        """Create the folder, or continue an existing one if it is a study of the same scene."""
        if resume and overwrite:
            raise CacheError("resume goes on with a study and overwrite replaces it: choose one of them")
        manifest = self.path / "study.json"
        if self.path.is_dir() and any(self.path.iterdir()):
            self._check_mine(manifest, scene, resume=resume, overwrite=overwrite)
        content = {"weft": __version__, "scene": _physics(scene), "keys": self.keys, "runs": _listed(self.runs)}
        with layout.writing(f"the study {self.path}", lambda: "Choose another output, or make room."):
            if overwrite and manifest.is_file() and (self.path / "runs").is_dir():
                shutil.rmtree(self.path / "runs")
            (self.path / "runs").mkdir(parents=True, exist_ok=True)
            write_bytes(manifest, json.dumps(content, indent=1).encode())

    def _check_mine(self, manifest: Path, scene: Scene, *, resume: bool, overwrite: bool) -> None:
        if not manifest.is_file():
            raise CacheError(f"{self.path} is not empty and holds no study: choose another output")
        begun = (self.path / "runs").is_dir() and any((self.path / "runs").iterdir())
        if begun and not resume and not overwrite:
            raise CacheError(
                f"{self.path} holds a study already: --resume does what is missing or failed, --overwrite replaces it, "
                "or choose another output"
            )
        before = read_manifest(self.path).get("scene")
        if resume and before != _physics(scene):
            raise CacheError(f"{self.path} is a study of another scene: choose another output, or say --overwrite")


# the result columns of a run, filled by `summarise_run`
COLUMNS = (
    "frames",
    "intersections",
    "worst_frame",
    "last_intersections",
    "stretch",
    "stretch_frame",
    "contacts",
    "troubled",
    "time",
    "frame_time",
)


def make_runs(scene: Scene, combinations: list[Combination]) -> list[Run]:
    """The runs of a study; a wrong value gives an error that names its key, before anything runs."""
    from weft.farm.keys import change_scene, find_key
    from weft.scene.files import missing_files

    if not combinations:
        raise WeftError("a study needs keys to vary: --set key=values, or --list with a file of runs")
    paths = {key: find_key(scene, key) for combination in combinations for key in combination}
    twice = [key for key in paths if list(paths.values()).count(paths[key]) > 1]
    if twice:
        raise WeftError(f"{twice[0]} is given twice" + (f", also as {twice[1]}" if twice[1:] else ""))
    _check_values(scene, combinations, paths)

    runs: dict[str, Run] = {}
    for combination in combinations:
        name = name_run(combination)
        if name in runs:
            raise WeftError(f"the run {name} is listed twice")
        try:
            changed = change_scene(scene, {paths[key]: value for key, value in combination.items()})
        except WeftError as error:
            raise WeftError(f"the run {name} is no good scene: {_first(error)}") from None
        missing = missing_files(changed)
        if missing:
            raise WeftError(f"the run {name}: {missing[0][1]}")
        runs[name] = Run(name, combination, changed)
    return list(runs.values())


def _check_values(scene: Scene, combinations: list[Combination], paths: Mapping[str, Any]) -> None:
    """Check each value alone, so that the message can name the wrong one."""
    from weft.farm.keys import change_scene

    seen: set[tuple[str, str]] = set()
    for combination in combinations:
        for key, value in combination.items():
            if (mark := (key, repr(value))) in seen:
                continue
            seen.add(mark)
            try:
                change_scene(scene, {paths[key]: value})
            except WeftError as error:
                # it may conflict with a value that is varied too: then the complete run is checked later
                if len(combination) == 1 or _first(error).startswith(_place(scene, paths[key])):
                    raise WeftError(f"{key} = {json.dumps(value)}: {_message(scene, paths[key], error)}") from None


def _place(scene: Scene, path: Any) -> str:
    from weft.scene.messages import problem

    return problem(scene.source or "scene", path, "")


def _message(scene: Scene, path: Any, error: WeftError) -> str:
    """The message of an error without the location, which is the varied key."""
    return _first(error).removeprefix(_place(scene, path)).lstrip(": ")


def _first(error: WeftError) -> str:
    return str(error).splitlines()[0]


def write_bytes(path: Path, data: bytes) -> None:
    """Write a file atomically."""
    layout.write_atomic(path, lambda file: file.write(data))


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a study: its scene, keys and runs."""
    manifest = path / "study.json"
    if not manifest.is_file():
        raise CacheError(f"{path} is no study: {manifest} is missing")
    content = layout.read_json(manifest)
    if not isinstance(content, dict) or not isinstance(content.get("keys"), list):
        raise CacheError(f"{manifest} is damaged: it does not describe a study")
    return content


def _physics(scene: Scene) -> dict[str, Any]:
    table = json.loads(json.dumps(scene.model_dump(mode="json")))
    return {key: value for key, value in table.items() if key not in NOT_PHYSICS}


def _listed(runs: list[Run]) -> list[dict[str, Any]]:
    return [{"run": run.name, **run.values} for run in runs]


def write_tables(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write `table.csv` and `table.parquet`, each atomically."""
    paths = [folder / "table.csv", folder / "table.parquet"]
    for path, text in zip(paths, (to_csv(rows), to_parquet(rows)), strict=True):
        write_bytes(path, text)
    return paths


def to_csv(rows: Sequence[dict[str, Any]]) -> bytes:
    """The table as CSV with a header line; unknown values are empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def to_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    """The table as Parquet, with one type a column; a column of mixed types becomes text."""
    pyarrow = import_parquet()
    columns = {name: _column([row[name] for row in rows]) for name in rows[0]}
    file = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(columns), file)
    return file.getvalue()


def read_table(folder: Path) -> list[dict[str, Any]]:
    """The rows of a study's Parquet table."""
    rows: list[dict[str, Any]] = import_parquet().parquet.read_table(folder / "table.parquet").to_pylist()
    return rows


def import_parquet() -> Any:
    """PyArrow with Parquet support; an error says what to install."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise missing_extra("farm", "pyarrow") from error
    return pyarrow


def _column(values: list[Any]) -> list[Any]:
    known = [type(value) for value in values if value is not None]
    if all(kind in (int, float) for kind in known) and float in known:
        return [None if value is None else float(value) for value in values]
    if len(set(known)) <= 1 and not {list, dict} & set(known):
        return values
    return [None if value is None else _cell(value) for value in values]


def _cell(value: Any) -> Any:
    """A value as text for a table."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | dict) else value

"""The runs of a study: values from `--set key=values`, all their combinations, a Latin hypercube, or a list from a file."""

import csv
import hashlib
import itertools
import json
import math
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import SceneError

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?")
_INTERVAL = re.compile(rf"({_NUMBER}):({_NUMBER})(:log)?")

# the largest number of values of a range, and of runs of a study: more are taken for a mistake
MAX_RUNS = 100_000


@dataclass(frozen=True)
class Interval:
    """Numbers between two ends, to sample from; whole where both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, fraction: float) -> float:
        """The number at a fraction of the interval, 0 <= fraction < 1, rounded to six digits."""
        if self.whole:
            return int(self.low + fraction * (self.high - self.low + 1))
        if self.log:
            value = float(self.low) * (float(self.high) / float(self.low)) ** fraction
        else:
            value = self.low + fraction * (self.high - self.low)
        return min(max(float(f"{value:.6g}"), float(self.low)), float(self.high))


@dataclass(frozen=True)
class Axis:
    """A key and the values it takes."""

    key: str
    values: tuple[Any, ...] | Interval


def parse_axis(text: str) -> Axis:
    """`cloth.material.friction=0.1,0.3,0.5`, `seed=1..20`, `forces.air_damping=0.1:0.5`."""
    key, equals, values = text.partition("=")
    key = key.strip()
    if not key or not equals:
        raise SceneError(f"--set {text}: write a key and its values, such as seed=1..20")
    return Axis(key, parse_values(key, values))


def parse_values(key: str, text: str) -> tuple[Any, ...] | Interval:
    """The values of a key; anything but a number, boolean, list or table is a string."""
    items = [item.strip() for item in split_list(text)]
    if len(items) == 1 and (found := _INTERVAL.fullmatch(items[0])):
        return _interval(key, items[0], *found.groups())
    values: list[Any] = []
    for item in items:
        if not item:
            raise SceneError(f"--set {key}={text}: a value is missing")
        if _INTERVAL.fullmatch(item):
            raise SceneError(f"--set {key}={text}: the interval {item} must stand alone")
        found = _RANGE.fullmatch(item)
        values += _range(key, item, *found.groups()) if found else [parse_value(item)]
    return tuple(values)


def parse_value(text: str) -> Any:
    """A TOML value, or a string without quotes."""
    try:
        value = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        # no TOML, or a whole number of thousands of digits, which Python does not read
        return text
    plain = len(value) == 1 and isinstance(value["value"], bool | int | float | str | list | dict)
    return value["value"] if plain else text


def split_list(text: str) -> list[str]:
    """The items between commas, but not those inside brackets or quotes."""
    items, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        if letter == "," and depth <= 0 and not quote:
            items.append("")
        else:
            items[-1] += letter
    return items


def _number(text: str) -> Any:
    # Python reads no whole numbers of thousands of digits
    return int(text) if re.fullmatch(r"[+-]?\d{1,30}", text) else float(text)


def _range(key: str, text: str, first: str, last: str, step: str | None) -> Sequence[Any]:
    """Both ends included, in decimal arithmetic: 0.1..0.3..0.1 ends with 0.3."""
    numbers = [_number(t) for t in (first, last, step or "1")]
    if not all(map(math.isfinite, numbers)):
        raise SceneError(f"--set {key}={text[:60]}: a number of it is too large")
    whole = all(isinstance(number, int) for number in numbers)
    if step is None and not whole:
        raise SceneError(f"--set {key}={text}: say the step, such as {first}..{last}..0.1")
    low, high, by = Decimal(first), Decimal(last), Decimal(step or "1")
    if by <= 0 or high < low:
        raise SceneError(f"--set {key}={text}: a range goes upwards, such as 1..20 or 0..1..0.25")
    if (high - low) / by >= MAX_RUNS:
        raise SceneError(f"--set {key}={text}: are {(high - low) / by + 1:.6g} values; at most {MAX_RUNS} are allowed")
    count = int((high - low) / by) + 1
    return [int(low + k * by) if whole else float(low + k * by) for k in range(count)]


def _interval(key: str, text: str, low: str, high: str, log: str | None) -> Interval:
    found = Interval(_number(low), _number(high), bool(log))
    if not found.low < found.high:
        raise SceneError(f"--set {key}={text}: an interval goes upwards, such as 0.1:0.5")
    if found.log and not found.low > 0:
        raise SceneError(f"--set {key}={text}: on a logarithmic scale the ends must be more than 0")
    return Interval(float(found.low), float(found.high), log=True) if found.log else found


# key -> value, in the order in which the keys were given
Combination = dict[str, Any]

# a file name may have 255 bytes, and caches add to it while they are made
_LONGEST = 140


def combine(axes: Sequence[Axis]) -> list[Combination]:
    """Every value of every key with every value of the others; the last key changes fastest."""
    lists = []
    for axis in axes:
        if isinstance(axis.values, Interval):
            low, high = axis.values.low, axis.values.high
            raise SceneError(f"--set {axis.key}={low}:{high}: an interval is for --sample latin:N; give a list here")
        lists.append(axis.values)
    count = math.prod(len(values) for values in lists)
    if count > MAX_RUNS:
        raise SceneError(
            f"these are {count} combinations; at most {MAX_RUNS} are allowed. Take a sample of them instead"
        )
    return [dict(zip([a.key for a in axes], values, strict=True)) for values in itertools.product(*lists)]


def sample_latin(axes: Sequence[Axis], count: int, seed: int = 0) -> list[Combination]:
    """A Latin hypercube (McKay, Beckman, Conover 1979): every one of `count` strata of each key is sampled once.

    Intervals are divided into strata of equal length, lists of values into equal fractions. Equal seeds, equal samples.
    """
    random = np.random.default_rng(seed)
    columns = []
    for axis in axes:
        fractions = (random.permutation(count) + random.random(count)) / count
        if isinstance(axis.values, Interval):
            columns.append([axis.values.at(float(fraction)) for fraction in fractions])
        else:
            columns.append([axis.values[int(fraction * len(axis.values))] for fraction in fractions])
    # with whole numbers and lists a run can occur twice
    found: dict[str, Combination] = {}
    for values in zip(*columns, strict=True):
        combination = dict(zip([a.key for a in axes], values, strict=True))
        found.setdefault(json.dumps(combination), combination)
    return list(found.values())


def parse_sample(text: str) -> tuple[int, int]:
    """How many runs `latin:50` or `latin:50:7` means, and the seed."""
    match = re.fullmatch(r"latin:(\d{1,6})(?::(\d{1,9}))?", text.strip())
    if match is None or not 1 <= int(match[1]) <= MAX_RUNS:
        raise SceneError(
            f"--sample {text}: write latin: and how many runs, such as latin:50, or with a seed latin:50:7"
        )
    return int(match[1]), int(match[2] or 0)


def read_list(path: Path) -> list[Combination]:
    """The runs that a CSV file (keys in its first line) or a TOML file (a [[run]] each) lists."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SceneError(f"{path}: cannot be read: {(error.strerror or str(error)).lower()}") from None
    except UnicodeDecodeError:
        raise SceneError(f"{path}: is not UTF-8 text") from None
    if path.suffix.lower() == ".csv":
        runs = _read_csv(path, text)
    elif path.suffix.lower() == ".toml":
        runs = _read_toml(path, text)
    else:
        raise SceneError(f"{path}: a list of runs ends in .csv or .toml")
    if not runs:
        raise SceneError(f"{path}: lists no run")
    return runs


def name_run(combination: Mapping[str, Any]) -> str:
    """A file name with the values of the run; different combinations have different names."""
    # sorted: the order in which keys were given does not matter
    pairs = [(key, _short(value)) for key, value in sorted(combination.items())]
    exact = json.dumps(dict(combination), sort_keys=True)
    name = ",".join(f"{_plain(key)}={_plain(value)}" for key, value in pairs) or "as-it-is"
    if all(_plain(text) == text for pair in pairs for text in pair) and len(name) <= _LONGEST:
        return name
    return f"{name[:_LONGEST]}-{hashlib.sha256(exact.encode()).hexdigest()[:10]}"


def _short(value: Any) -> str:
    # a string that could be read as another value keeps its quotes
    return (
        value if isinstance(value, str) and parse_value(value) == value and not _is_json(value) else json.dumps(value)
    )


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _plain(text: str) -> str:
    """Letters, digits and a few signs only: no separators, and nothing that starts a hidden file."""
    return re.sub(r"[^A-Za-z0-9._+-]+", "_", text)


def _read_csv(path: Path, text: str) -> list[Combination]:
    try:
        lines = [row for row in csv.reader(text.splitlines(), strict=True) if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise SceneError(f"{path}: is not CSV: {error}") from None
    if not lines:
        return []
    keys = [key.strip() for key in lines[0]]
    if not all(keys) or len(set(keys)) < len(keys):
        raise SceneError(f"{path}: its first line must name a key in every column, each once")
    runs = []
    for number, row in enumerate(lines[1:], start=1):
        if len(row) != len(keys):
            raise SceneError(f"{path}: run {number} has {len(row)} values for {len(keys)} keys")
        # an empty cell keeps the value of the scene
        runs.append({k: parse_value(cell.strip()) for k, cell in zip(keys, row, strict=True) if cell.strip()})
    return runs


def _read_toml(path: Path, text: str) -> list[Combination]:
    try:
        table = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise SceneError(f"{path}: is not TOML: {error}") from None
    runs = table.pop("run", [])
    if table or not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise SceneError(f"{path}: each run is a table [[run]] with keys of the scene, and there is nothing else")
    return [dict(_flat(run)) for run in runs]


def _flat(table: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Nested tables, as TOML reads `cloth.material.friction = 0.1`, as dotted keys again."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value

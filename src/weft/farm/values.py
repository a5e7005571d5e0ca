"""What `--set key=values` says: a list, ranges, or an interval to sample from."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from weft.errors import SceneError

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_RANGE = re.compile(rf"({_NUMBER})\.\.({_NUMBER})(?:\.\.({_NUMBER}))?")
_INTERVAL = re.compile(rf"({_NUMBER}):({_NUMBER})(:log)?")

# a range with more values is a slip
MOST = 100_000


@dataclass(frozen=True)
class Interval:
    """Numbers between two ends, to sample from; whole where both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> float:
        """The number at a share of the way, 0 <= share < 1; six digits are enough for a sample."""
        if self.whole:
            return int(self.low + share * (self.high - self.low + 1))
        if self.log:
            value = float(self.low) * (float(self.high) / float(self.low)) ** share
        else:
            value = self.low + share * (self.high - self.low)
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
    """The values of a key; what is no number, truth value, list or table is text."""
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
    """A value as TOML writes it, or text without quotes."""
    try:
        value = tomllib.loads(f"value = {text}")
    except (tomllib.TOMLDecodeError, RecursionError):
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
    return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)


def _range(key: str, text: str, first: str, last: str, step: str | None) -> Sequence[Any]:
    """Both ends included, in decimal arithmetic: 0.1..0.3..0.1 ends with 0.3."""
    whole = all(isinstance(_number(t), int) for t in (first, last, step or "1"))
    if step is None and not whole:
        raise SceneError(f"--set {key}={text}: say the step, such as {first}..{last}..0.1")
    low, high, by = Decimal(first), Decimal(last), Decimal(step or "1")
    if by <= 0 or high < low:
        raise SceneError(f"--set {key}={text}: a range goes upwards, such as 1..20 or 0..1..0.25")
    count = int((high - low) / by) + 1
    if count > MOST:
        raise SceneError(f"--set {key}={text}: are {count} values; at most {MOST} are allowed")
    return [int(low + k * by) if whole else float(low + k * by) for k in range(count)]


def _interval(key: str, text: str, low: str, high: str, log: str | None) -> Interval:
    found = Interval(_number(low), _number(high), bool(log))
    if not found.low < found.high:
        raise SceneError(f"--set {key}={text}: an interval goes upwards, such as 0.1:0.5")
    if found.log and not found.low > 0:
        raise SceneError(f"--set {key}={text}: on a logarithmic scale the ends must be more than 0")
    return Interval(float(found.low), float(found.high), log=True) if found.log else found

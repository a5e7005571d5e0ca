"""The types that scene keys have: numbers that are numbers, vectors that are vectors, file names.

Numbers are strict: `"60"` and `true` are refused where a number is meant, a whole number is taken as a real one.
numpy scalars and arrays are accepted wherever Python numbers and lists are.
"""

import math
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, Strict


def unwrap(value: Any) -> Any:
    """numpy scalars and arrays as plain Python values; anything else as it is."""
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def sliding_friction(table: Mapping[str, Any]) -> dict[str, Any]:
    """`friction_kinetic` for a table that gives only `friction`: the same."""
    static = unwrap(table.get("friction"))
    # what is no coefficient is a mistake of `friction` alone
    good = isinstance(static, int | float) and not isinstance(static, bool) and 0.0 <= static < math.inf
    return {"friction_kinetic": static} if good and "friction_kinetic" not in table else {}


def check_friction(static: float, kinetic: float) -> None:
    """Refuse cloth and colliders that hold better while they slide."""
    if kinetic > static:
        raise ValueError(
            f"friction_kinetic = {kinetic:g} is more than friction = {static:g}: "
            "sliding friction cannot exceed static friction"
        )


def _as_text(value: Any) -> Any:
    """A `pathlib.Path` as text with forward slashes."""
    return os.fspath(value).replace(os.sep, "/") if isinstance(value, os.PathLike) else value


def _checked_name(value: str) -> str:
    """Names end up in file names and USD paths: no separators and no control characters."""
    if not value.strip():
        raise ValueError("must not be empty")
    if any(c in "/\\" or not c.isprintable() for c in value):
        raise ValueError(f"must not hold slashes or control characters, not {value!r}")
    return value


def _checked_colour(value: str) -> str:
    if not re.fullmatch("#[0-9a-fA-F]{6}", value):
        raise ValueError(f"must be a colour like '#3366cc', not {value!r}")
    return value


def _checked_device(value: str) -> str:
    if not re.fullmatch(r"cpu|cuda(:\d+)?", value):
        raise ValueError(f"must be 'cpu', 'cuda' or 'cuda:' with a number, not {value!r}")
    return value


def _checked_file(value: str) -> str:
    if not value.strip():
        raise ValueError("must name a file, not an empty string")
    if "\0" in value:
        raise ValueError("must not hold a null character")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("must be a file name that can be written as UTF-8") from None
    return value


Number = Annotated[float, Strict(), BeforeValidator(unwrap)]
Whole = Annotated[int, Strict(), BeforeValidator(unwrap)]
Flag = Annotated[bool, Strict(), BeforeValidator(unwrap)]
Positive = Annotated[Number, Field(gt=0)]
NotNegative = Annotated[Number, Field(ge=0)]

Vector = Annotated[tuple[Number, Number, Number], BeforeValidator(unwrap)]
Pair = Annotated[tuple[Positive, Positive], BeforeValidator(unwrap)]
Count = Annotated[Whole, Field(ge=1)]
CountPair = Annotated[tuple[Count, Count], BeforeValidator(unwrap)]
CountTriple = Annotated[tuple[Count, Count, Count], BeforeValidator(unwrap)]
PositiveVector = Annotated[tuple[Positive, Positive, Positive], BeforeValidator(unwrap)]

# a number that may be infinite: one side of a box that is open there
Bound = Annotated[float, Strict(), Field(allow_inf_nan=True), BeforeValidator(unwrap)]
BoundVector = Annotated[tuple[Bound, Bound, Bound], BeforeValidator(unwrap)]

# as much as TOML and random generators take
Seed = Annotated[Whole, Field(ge=0, lt=2**63)]
Index = Annotated[Whole, Field(ge=0)]
Indices = Annotated[tuple[Index, ...], BeforeValidator(unwrap)]

Name = Annotated[str, AfterValidator(_checked_name)]
Colour = Annotated[str, AfterValidator(_checked_colour)]
Device = Annotated[str, AfterValidator(_checked_device)]
FileName = Annotated[str, BeforeValidator(_as_text), AfterValidator(_checked_file)]

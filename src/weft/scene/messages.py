"""Messages about mistakes in a scene: what is wrong, where, and what to write instead.

pydantic finds the mistakes; here each becomes one line in plain words with the path of its key.
"""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, cast

from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError, ValidationError

from weft.errors import printable

# where something stands in a scene: names of keys, and numbers of items in lists
Key = tuple[str | int, ...]

# mistakes that are listed; the others are counted
MOST_MISTAKES = 50

# the type of an error that already carries its final text
_EXPLAINED = "weft"

_WANTED = {
    "float_type": "a number",
    "float_parsing": "a number",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}

_BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like `name`, or None where nothing is like it."""
    by_lower = {k.lower(): k for k in known}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def suggest(name: str, known: Sequence[str]) -> str:
    """The end of a message about an unknown name: the nearest known one, or all of them."""
    near = nearest(name, known)
    return f"did you mean {near!r}?" if near else f"known are {listed(known)}"


def unknown(what: str, name: str, known: Sequence[str]) -> str:
    """The message about a name that no cloth, collider or region has."""
    end = suggest(name, list(known)) if known else "there is none"
    return f"no {what} is called {name!r}, {end}"


def listed(names: Iterable[object], limit: int = 12) -> str:
    """Names separated by commas; after `limit` of them, how many more there are."""
    texts = [str(n) for n in names]
    more = f" and {len(texts) - limit} more" if len(texts) > limit else ""
    return ", ".join(texts[:limit]) + more


def shown(value: object) -> str:
    """A value for a message: as TOML would write it, shortened."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a number of more than 300 digits"
    if isinstance(value, str | int | float):
        text = repr(value)
    elif isinstance(value, list | tuple):
        text = "[" + ", ".join(_item(v) for v in value[:4]) + (", ..." if len(value) > 4 else "") + "]"
    else:
        text = f"a {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def _item(value: object) -> str:
    """An item of a list for a message; lists in lists in lists are cut short."""
    nested = isinstance(value, list | tuple) and any(isinstance(v, list | tuple) for v in value)
    return "[...]" if nested else shown(value)


def key_path(location: Iterable[str | int]) -> str:
    """`("cloth", 0, "material")` as `cloth[0].material`."""
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else printable(f".{step}" if path else step)
    return path


def problem(where: str, location: Iterable[str | int], text: str) -> str:
    """One line of a message: the file or class, the key, what is wrong with it."""
    return ": ".join(piece for piece in (where, key_path(location), text) if piece)


def mistakes(title: str, found: Iterable[tuple[Key, str]]) -> ValidationError:
    """An error from mistakes whose keys and texts are final."""
    lines = [
        InitErrorDetails(type=PydanticCustomError(_EXPLAINED, "{text}", {"text": text}), loc=key, input=None)
        for key, text in found
    ]
    return ValidationError.from_exception_data(title, lines)


def reword(error: ValidationError, title: str, keys: Sequence[str], inner: Mapping[str, str]) -> ValidationError:
    """The same mistakes with final texts; `keys` are the known keys of the model that was being read.

    `inner` are the keys of the tables in it, each with its path.
    """
    details = _merged(error.errors(include_url=False))
    # a file of another kind can have a mistake in every line; each level of nesting passes on what it was given
    if len(details) > MOST_MISTAKES:
        last = details[-1]
        if last["type"] != _EXPLAINED or not str(last["ctx"]["text"]).startswith("and more than"):
            more = {"text": f"and more than {len(details) - MOST_MISTAKES - 1:,} other mistakes"}
            last = cast(ErrorDetails, {**last, "type": _EXPLAINED, "loc": (), "ctx": more})
        details = [*details[:MOST_MISTAKES], last]
    return mistakes(title, [(tuple(detail["loc"]), _text(detail, keys, inner)) for detail in details])


def _merged(details: Sequence[ErrorDetails]) -> list[ErrorDetails]:
    """Merge errors with the same cause: pydantic reports a list that is too short once for each missing item."""
    kept: list[ErrorDetails] = []
    # where lists of a wrong length are in `kept`
    lengths: dict[Key, int] = {}
    inside = {d["loc"][:depth] for d in details for depth in range(len(d["loc"]))}
    for detail in details:
        location = detail["loc"]
        if detail["type"] == "missing" and location and isinstance(location[-1], int):
            # pydantic names each missing item; the last index gives the required length
            context = {"length": location[-1] + 1}
            detail = {**detail, "type": "wrong_length", "loc": location[:-1], "ctx": context}
            if detail["loc"] in lengths:
                kept[lengths[detail["loc"]]] = detail
                continue
            lengths[detail["loc"]] = len(kept)
        # items with mistakes are not counted
        if detail["type"] != "too_short" or location not in inside:
            kept.append(detail)
    return kept


def _text(detail: ErrorDetails, keys: Sequence[str], inner: Mapping[str, str]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == _EXPLAINED:
        return str(context["text"])
    if kind == "extra_forbidden":
        name = str(detail["loc"][-1])
        if name in inner:
            return f"unknown key here, did you mean {inner[name]!r}?"
        return f"unknown key, {suggest(name, keys)}"
    if kind == "missing":
        return "is missing"
    if kind in ("tuple_type", "list_type") and isinstance(value, Mapping):
        return "must be a list, not a table; square brackets around it make it one"
    if kind in _WANTED:
        return f"must be {_WANTED[kind]}, not {shown(value)}"
    if kind in _BOUNDS:
        words, name = _BOUNDS[kind]
        return f"must be {words} {context[name]:g}, not {shown(value)}"
    if kind == "finite_number":
        return f"must be a finite number, not {shown(value)}"
    if kind == "literal_error":
        return _wrong_choice(value, str(context["expected"]))
    if kind == "wrong_length":
        return f"must have {context['length']} values, not {shown(value)}"
    if kind == "too_long":
        return f"must have {context['max_length']} values, not {shown(value)}"
    if kind == "too_short":
        return "must not be empty"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    return str(detail["msg"])


def _wrong_choice(value: Any, expected: str) -> str:
    """pydantic lists the choices as `'a', 'b' or 'c'`."""
    choices = [c.strip().strip("'") for c in expected.replace(" or ", ", ").split(", ")]
    near = nearest(value, choices) if isinstance(value, str) else None
    end = f"; did you mean {near!r}?" if near else ""
    one_of = "one of " if len(choices) > 1 else ""
    return f"must be {one_of}{listed(choices, 20)}, not {shown(value)}{end}"

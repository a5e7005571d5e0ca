"""A small TOML writer: plain tables to text that people like to read.

Python reads TOML (`tomllib`) and does not write it. Small tables stay on one line inside the body that
they belong to, a list of them on one line each; larger ones get headers of their own.
"""

import json
from collections.abc import Mapping
from typing import Any

WIDTH = 100


def write_toml(table: Mapping[str, Any]) -> str:
    """The table as a TOML document. Values are tables, lists, texts, numbers and truth values."""
    lines: list[str] = []
    _write_body(lines, table, ())
    return "\n".join(lines).strip("\n") + "\n"


def _write_body(lines: list[str], table: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """The keys of a table under its header: first those that need no header, then the tables."""
    below: list[tuple[str, Any]] = []
    for key, value in table.items():
        if _needs_header(key, value, top=not path):
            below.append((key, value))
        else:
            lines.append(_assignment(key, value))
    for key, value in below:
        here = (*path, key)
        header = ".".join(_key(k) for k in here)
        if isinstance(value, Mapping):
            lines += ["", f"[{header}]"]
            _write_body(lines, value, here)
            continue
        for item in value:
            lines += ["", f"[[{header}]]"]
            _write_body(lines, item, here)


def _needs_header(key: str, value: Any, *, top: bool) -> bool:
    tables = isinstance(value, list) and bool(value) and all(isinstance(v, Mapping) for v in value)
    if not tables and not isinstance(value, Mapping):
        return False
    if tables and not top:
        return any(len(write_value(v)) + 5 > WIDTH for v in value)
    return top or len(f"{_key(key)} = {write_value(value)}") > WIDTH


def _assignment(key: str, value: Any) -> str:
    """`key = value`, a long list over several lines."""
    line = f"{_key(key)} = {write_value(value)}"
    if len(line) <= WIDTH or not isinstance(value, list):
        return line
    rows, row = [], "   "
    if isinstance(value[0], Mapping):
        return "\n".join([f"{_key(key)} = [", *(f"    {write_value(v)}," for v in value), "]"])
    for item in value:
        text = f" {write_value(item)},"
        if len(row) + len(text) > WIDTH and row.strip():
            rows.append(row)
            row = "   "
        row += text
    return "\n".join([f"{_key(key)} = [", *rows, row, "]"])


def write_value(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # repr gives back the same number; inf and nan are TOML too
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {write_value(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write_value(v) for v in value) + "]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _key(key: str) -> str:
    bare = key.isascii() and key.replace("_", "a").replace("-", "a").isalnum()
    return key if bare else _text(key)


def _text(value: str) -> str:
    """A basic string; JSON escapes the same way, save for one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

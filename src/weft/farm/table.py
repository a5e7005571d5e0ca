"""The table of a study, as CSV for people and as Parquet for programs."""

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from weft.errors import missing_extra
from weft.farm.study import write_bytes


def write_tables(rows: Sequence[dict[str, Any]], folder: Path) -> list[Path]:
    """Write `table.csv` and `table.parquet`, each whole or not at all."""
    paths = [folder / "table.csv", folder / "table.parquet"]
    for path, text in zip(paths, (to_csv(rows), to_parquet(rows)), strict=True):
        write_bytes(path, text)
    return paths


def to_csv(rows: Sequence[dict[str, Any]]) -> bytes:
    """The table with a header line; what is not known is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return text.getvalue().encode()


def to_parquet(rows: Sequence[dict[str, Any]]) -> bytes:
    """The table with a type a column; a column of different types is text."""
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
    """PyArrow with its reader and writer of Parquet."""
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
    """A value in a line of text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return json.dumps(value) if isinstance(value, list | dict) else value

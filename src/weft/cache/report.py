"""The report of a run: a table with one row a frame."""

import csv
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import missing_extra, writing

# rows that a notebook shows of the beginning and of the end of a report
_SHOWN_ROWS = 5

# the columns that every run has, in the order they are shown
COLUMNS = (
    "frame",
    "time",
    "wall_time",
    "steps",
    "contacts",
    "collisions",
    "zones",
    "stretch",
    "stretch_99",
    "intersections",
    "status",
)


class Report(dict[str, Any]):
    """A table: `report["stretch"]` is a column, `report.rows()` are the frames; `pandas.DataFrame(report)` takes it.

    Numeric columns are NumPy arrays, others lists. A method may add columns of its own; a frame that lacks one has
    None there (NaN in a numeric column).
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]
        seen = {name: None for row in self._rows for name in row}
        self.columns: list[str] = [c for c in COLUMNS if c in seen] + [c for c in seen if c not in COLUMNS]
        super().__init__({name: self._column(name) for name in self.columns})

    def _column(self, name: str) -> Any:
        values = [row.get(name) for row in self._rows]
        if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return np.array(values, dtype=np.int64)
        if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        return values

    def __missing__(self, name: Any) -> Any:
        if not isinstance(name, str):
            raise KeyError(f"the report has columns by name, such as report['status']; rows()[{name!r}] is a row")
        raise KeyError(f"the report has no column {name!r}; it has {', '.join(self.columns) or 'none'}")

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame`, a row a frame, whose index is the number of the frame."""
        try:
            import pandas
        except ImportError:
            raise missing_extra("notebook", "pandas") from None
        table = pandas.DataFrame(self)
        return table.set_index("frame", drop=False).rename_axis(None) if "frame" in table else table

    def _repr_html_(self) -> str:
        """How a notebook shows it."""
        head = "".join(f"<th>{html.escape(name)}</th>" for name in self.columns)
        shown = self.rows()
        shown = shown if len(shown) <= 2 * _SHOWN_ROWS else [*shown[:_SHOWN_ROWS], {}, *shown[-_SHOWN_ROWS:]]
        rows = "".join(
            "<tr>" + "".join(f"<td>{_cell(row.get(name, '...'))}</td>" for name in self.columns) + "</tr>"
            for row in shown
        )
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"

    @property
    def frames(self) -> int:
        """How many rows."""
        return len(self._rows)

    def rows(self) -> list[dict[str, Any]]:
        """One dictionary a frame, with every column."""
        return [{name: row.get(name) for name in self.columns} for row in self._rows]

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV with a header line; written to `path` too if one is given."""
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        if path is not None:
            with writing(Path(path)):
                Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    def __repr__(self) -> str:
        return f"Report({self.frames} frames: {', '.join(self.columns)})"


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else html.escape(str(value))

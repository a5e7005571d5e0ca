"""The report of a run: one row a frame, as a table."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.errors import writing

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
    "intersections",
    "status",
)


class Report(Mapping[str, Any]):
    """A table: `report["stretch"]` is a column, `report.rows()` are the frames.

    Numeric columns are NumPy arrays, others lists. A method may add columns of its own; a frame that lacks one has
    None there (NaN in a numeric column).
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = [dict(row) for row in rows]
        seen = {name: None for row in self._rows for name in row}
        self.columns: list[str] = [c for c in COLUMNS if c in seen] + [c for c in seen if c not in COLUMNS]

    def __getitem__(self, name: str) -> Any:
        if name not in self.columns:
            raise KeyError(f"the report has no column {name!r}; it has {', '.join(self.columns) or 'none'}")
        values = [row.get(name) for row in self._rows]
        if all(isinstance(v, int) and not isinstance(v, bool) for v in values):
            return np.array(values, dtype=np.int64)
        if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
            return np.array([np.nan if v is None else v for v in values], dtype=np.float64)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        """How many columns (it is a mapping of columns); `frames` is how many rows."""
        return len(self.columns)

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

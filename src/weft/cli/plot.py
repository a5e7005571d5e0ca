"""`weft plot`: the report of a run as a picture."""

from pathlib import Path
from typing import Annotated

import typer


def plot(
    cache: Annotated[Path, typer.Argument(help="The cache of a run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A .png, .pdf or .svg file; default: <name>-report.png", show_default=False),
    ] = None,
) -> None:
    """Draw the report of a run: time, contacts, stretch and intersections, frame by frame."""
    from weft.cache import open_cache
    from weft.view.plots import plot_report

    path = plot_report(open_cache(cache), out or Path(f"{cache.resolve().stem}-report.png"))
    print(path)

"""`weft validate`: the cloth of each method against theory and measurement."""

import json
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from weft.validate import Row


def validate(
    method: Annotated[
        list[str] | None, typer.Option("--method", "-m", help="A method; can be repeated.", show_default="all")
    ] = None,
    full: Annotated[
        bool, typer.Option("--full/--quick", help="All cases at all resolutions, or some of them in a minute or two.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option("--only", help="A case or a subject; can be repeated.", show_default="all")
    ] = None,
    charts: Annotated[Path | None, typer.Option("--charts", help="Draw the curves into this folder.")] = None,
    report: Annotated[Path | None, typer.Option("--json", help="Write the rows of the table to this file.")] = None,
) -> None:
    """Measure how cloth bends, stretches, shears, rubs and falls in each method, and compare it with theory.

    The exit code is 1 where a measurement is outside of its range, unless the case lists the method as one that misses it.
    """
    from dataclasses import asdict

    from rich.console import Console

    from weft.cli.terminal import progress_bar
    from weft.errors import MissingExtraError, writing
    from weft.validate.suite import draw_charts, failed, run_suite, shrinking

    if report is not None:
        # better now than after all has been measured
        with writing(report):
            report.touch()
    with progress_bar("measuring") as show:
        rows = run_suite(
            method, size="full" if full else "quick", only=only, progress=lambda row, done, total: show(done, total)
        )
    console = Console(highlight=False, markup=False)
    console.print(_table(rows))
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for row in rows:
        if row.status in ("miss", "listed") and row.note:
            reasons.setdefault((row.method, row.note), {})[row.case] = None
    for (name, note), cases in reasons.items():
        console.print(f"{name}: {note} ({', '.join(cases)})")
    for case, name in shrinking(rows):
        console.print(f"{case}, {name}: passes, and is listed as a miss: take it off the list")
    if report is not None:
        # JSON has neither NaN nor infinity
        plain = [
            {k: v if not isinstance(v, float) or isfinite(v) else None for k, v in asdict(r).items()} for r in rows
        ]
        with writing(report):
            report.write_text(json.dumps(plain, indent=1), encoding="utf-8")
    if charts is not None:
        try:
            console.print(f"written: {', '.join(str(path) for path in draw_charts(rows, charts))}")
        except MissingExtraError as error:
            console.print(f"no charts: {error}")
    if wrong := failed(rows):
        console.print(f"{len(wrong)} of {len(rows)} measurements are off")
        raise typer.Exit(1)


def _table(rows: list["Row"]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    from weft.validate import Expected

    caption = "listed: a miss that the case gives a reason for; passes: listed as a miss, and is none"
    table = Table(box=SIMPLE, pad_edge=False, caption=caption, caption_justify="left")
    table.add_column("case", overflow="fold")
    table.add_column("method", no_wrap=True)
    for title in ("cells", "expected", "measured", "error %"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    styles = {"miss": "red", "listed": "dim", "passes": "green", "ok": None}
    for row in rows:
        table.add_row(
            row.case,
            row.method,
            str(row.resolution),
            Expected(row.low, row.high, row.theory).text(row.unit),
            f"{row.value:.4g}",
            f"{100.0 * row.error:.3g}",
            row.status,
            style=styles[row.status],
        )
    return table

"""`weft bench`: the tables of the papers behind the classical methods, beside ours."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


class Tables(StrEnum):
    """Whose tables."""

    boxes = "boxes"
    push = "push"


def bench(
    tables: Annotated[Tables, typer.Argument(help="boxes (bounding-box avoidance) or push (draping on meshes).")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer steps: a few minutes instead of half an hour.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder for tables and charts.")] = Path("bench"),
) -> None:
    """Measure the tables of a paper and print both side by side.

    Times are of one processor thread; only ratios can be compared between machines.
    """
    from rich.console import Console

    from weft.errors import writing

    console = Console()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        report = Console(record=True, width=200, file=(out / f"{tables}.txt").open("w", encoding="utf-8"))
    with console.status("measuring") as status:
        shown = _boxes(status.update, quick) if tables == Tables.boxes else _push(status.update, quick, out)
    for item in shown:
        console.print(item)
        report.print(item)
    report.file.close()
    console.print(f"written to {out}")


def _boxes(say: Callable[[str], None], quick: bool) -> list[Any]:
    """Tables 1 and 2."""
    from weft.bench import boxes

    sizes = boxes.QUICK if quick else boxes.FULL
    shown: list[Any] = []
    for number, scene in enumerate(boxes.SCENES, start=1):
        results = [boxes.measure(scene, n, *how, progress=say) for n, how in sizes.items()]
        shown += [boxes.make_table(number, result) for result in results]
        found = sum(result.intersections for result in results)
        steps = ", ".join(f"{result.points} x {result.points}: {result.steps} steps" for result in results)
        shown.append(f"{steps}; {found} intersections in all frames\n")
    return shown


def _push(say: Callable[[str], None], quick: bool, out: Path) -> list[Any]:
    """Tables 1 to 6, and the chart."""
    from weft.bench import push
    from weft.errors import MissingExtraError

    frames, patience = (20, 5.0) if quick else (push.FRAMES, push.PATIENCE)
    results = push.measure(out, frames=frames, patience=patience, progress=say)
    shown: list[Any] = [push.make_table(scene, rows) for scene, rows in results.items()]
    shown.append(f"{frames} frames of 1/60 s; ~ was cut short and scaled up\n")
    try:
        push.draw_chart(results, out / "push.png")
    except MissingExtraError as error:
        shown.append(f"no chart: {error}")
    return shown

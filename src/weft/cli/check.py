"""`weft check`: counts the intersections of every frame"""

import itertools
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.terminal import FRAMES_HELP, count
from weft.errors import WeftError

if TYPE_CHECKING:
    from rich.table import Table

    from weft.check import CheckResult, FrameCheck

# a table with more lines than this is shortened by joining neighbouring frames
LINES = 40


def check(
    cache: Annotated[
        list[Path],
        typer.Argument(
            help="A cache, or the result of any program: .abc, .usd, .glb, .npz, .pc2, .mdd, OBJ, PLY or npy folders.",
            show_default=False,
        ),
    ],
    frame: Annotated[
        list[int] | None,
        typer.Option(help="Check this frame (-1: the last); can be given again. Default: all.", show_default=False),
    ] = None,
    frames: Annotated[str | None, typer.Option(help=FRAMES_HELP, show_default="all")] = None,
    every: Annotated[int, typer.Option(help="Check every so many frames.", min=1)] = 1,
    colliders: Annotated[bool, typer.Option(help="Check cloth against colliders too.")] = True,
    seams: Annotated[bool, typer.Option(help="Leave out triangles that a seam joins.")] = True,
    still: Annotated[
        Path | None, typer.Option(help="Draw the worst frame with its crossings in red.", show_default=False)
    ] = None,
    certificate: Annotated[
        Path | None,
        typer.Option(help="Write hashes, versions and exact counts to this JSON file.", show_default=False),
    ] = None,
    all_frames: Annotated[bool, typer.Option("--all", help="A line for every frame, however many.")] = False,
    repair: Annotated[
        bool, typer.Option("--repair", help="First compute damaged frames again, and only those; this may take long.")
    ] = False,
    collider: Annotated[
        list[str] | None,
        typer.Option(
            help="An object of such a file that is a collider: not checked against itself. Can be given again.",
            show_default=False,
        ),
    ] = None,
    fps: Annotated[
        float | None, typer.Option(help="Frames a second, for files that do not say.", show_default="24")
    ] = None,
    crossings: Annotated[
        Path | None,
        typer.Option(
            help="Write every intersection to an npz file: frames, edges (two vertices), triangles.", show_default=False
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Spread frames over a Dask scheduler, tcp://..., or local.", show_default=False)
    ] = None,
) -> None:
    """Count the intersections in every frame; the exit code is 1 if there are any.

    An intersection is an edge that touches or passes through a triangle with which it shares no vertex, decided by exact
    arithmetic: nearly touching does not count.
    """
    from weft.cache import ForeignResult, choose_frames, open_result
    from weft.check import check_cache, crossing_marks
    from weft.cli.terminal import progress_bar

    if repair and (len(cache) > 1 or not cache[0].is_dir()):
        raise WeftError("--repair is for caches: it computes frames again from their scene")
    if repair:
        from weft.run.repair import repair as repair_frames

        repaired = repair_frames(cache[0], progress=True)
        typer.echo(
            f"{count(len(repaired), 'damaged frame')} computed again" if repaired else "no frame is damaged", err=json
        )
    opened = open_result(cache, fps=fps, colliders=collider or ())
    foreign = opened if isinstance(opened, ForeignResult) else None
    if foreign is not None and not json:
        print(
            f"{opened.path}: {foreign.about}; {count(opened.frames, 'frame')} of {', '.join(b.name for b in opened.bodies)}"
        )
    if frame and frames:
        raise WeftError("--frame and --frames both choose frames: give one of them")
    chosen_frames = frame or choose_frames(opened, frames)[::every]
    done = itertools.count(1)
    with progress_bar("checking") as bar:
        chosen: dict[str, Any] = {"frames": chosen_frames, "colliders": colliders, "seams": seams}
        chosen["progress"] = lambda _, total: bar(next(done), total)
        if scheduler is not None and foreign is not None:
            raise WeftError("--scheduler is for caches: other files are checked here")
        if scheduler is None:
            result = check_cache(opened, **chosen)
        else:
            from weft.farm.frames import check_on

            result = check_on(scheduler, opened, **chosen)
    if json:
        head = {"cache": str(opened.path), "format": foreign.about if foreign else "cache", "complete": opened.complete}
        print(dumps({**head, **result.describe()}, indent=1))
    else:
        _show(result, all_frames=all_frames)
        if not opened.complete:
            print(f"the cache is not complete: it has {opened.frames} of {opened.planned} frames")
    if crossings is not None:
        from weft.check import write_crossings

        write_crossings(opened, result, crossings, colliders=colliders, seams=seams)
    if certificate is not None:
        from weft.check import certificate as certify
        from weft.errors import writing

        with writing(certificate):
            certificate.write_text(dumps(certify(opened, result), indent=1) + "\n", encoding="utf-8")
        typer.echo(f"certificate: {certificate}", err=json)
    if still is not None and result.worst is not None:
        from weft.view import render_still

        worst = result.worst.frame
        marks = crossing_marks(opened, worst, colliders=colliders, seams=seams)
        render_still(opened, worst, still, marks=marks)
        typer.echo(f"frame {worst} is drawn in {still}", err=json)
    raise typer.Exit(0 if result.clean else 1)


def _show(result: "CheckResult", *, all_frames: bool) -> None:
    """Print the table and a summary line."""
    from rich.console import Console

    console = Console(highlight=False)
    short = len(result.frames) > LINES and not all_frames
    console.print(_table(_runs(result) if short else [(f,) for f in result.frames]))
    worst = result.worst
    if worst is None or result.clean:
        console.print(f"[green]no intersections[/] in {count(len(result.frames), 'frame')}")
        return
    bad = sum(frame.intersections > 0 for frame in result.frames)
    console.print(
        f"[red]intersections[/] in {bad} of {count(len(result.frames), 'frame')}; "
        f"the worst is frame {worst.frame} with {worst.intersections}"
    )


def _runs(result: "CheckResult") -> list[tuple["FrameCheck", ...]]:
    """Group neighbouring frames: clean ones, and, if there are still too many lines, those with intersections."""
    dirty = sum(frame.intersections > 0 for frame in result.frames)
    runs: list[tuple[FrameCheck, ...]] = []
    for frame in result.frames:
        clean = frame.intersections == 0
        if runs and (runs[-1][0].intersections == 0) == clean and (clean or dirty > LINES):
            runs[-1] = (*runs[-1], frame)
        else:
            runs.append((frame,))
    return runs


def _table(runs: list[tuple["FrameCheck", ...]]) -> "Table":
    from rich.table import Table

    table = Table()
    for title in ("frame", "time (s)", "intersections"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("where")
    for run in runs:
        worst = max(run, key=lambda frame: frame.intersections)
        low, high = min(frame.intersections for frame in run), worst.intersections
        table.add_row(
            _span(str(run[0].frame), str(run[-1].frame)),
            _span(f"{run[0].time:.3f}", f"{run[-1].time:.3f}"),
            _span(str(low), str(high)),
            _where(worst),
            style="red" if high else None,
        )
    return table


def _span(first: str, last: str) -> str:
    return first if first == last else f"{first} to {last}"


def _where(frame: "FrameCheck") -> str:
    return ", ".join(
        f"{one} with {'itself' if one == other else other} {number}" for (one, other), number in frame.bodies.items()
    )

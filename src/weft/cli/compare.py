"""`weft compare`: one scene under several methods, or with several lengths of cells."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from weft.compare import Row


def compare(
    scene: Annotated[Path, typer.Argument(help="A scene file.", show_default=False)],
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between them, such as robust,push.",
            show_default="all; with resolutions the scene's",
        ),
    ] = None,
    resolutions: Annotated[
        str | None,
        typer.Option(
            help="Lengths of cells in m with commas between them, such as 0.01,0.005: each method runs with cloths that are "
            "divided so.",
            show_default="that of the scene",
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder. Default: the scene's name.")] = None,
    frames: Annotated[int | None, typer.Option(help="Simulate so many frames instead of the scene's.", min=1)] = None,
    device: Annotated[str | None, typer.Option(help="Run on cpu, cuda or cuda:1 instead of the scene's.")] = None,
    size: Annotated[str, typer.Option(help="Width and height of each picture in pixels.")] = "640x480",
    resume: Annotated[bool, typer.Option("--resume", "-r", help="Continue where the caches end.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace caches that are there.")] = False,
) -> None:
    """Run a scene with several methods or lengths of cells: a table of times and intersections, and the last frames."""
    from rich.console import Console

    from weft.cli.terminal import choose_size, progress_bar
    from weft.compare import compare as run_all
    from weft.run import Interrupted
    from weft.scene import MethodOptions

    names = _split(methods)
    lengths = _lengths(resolutions)
    runs = (len(names) if names else 1 if lengths else len(MethodOptions.known)) * (len(lengths) if lengths else 1)
    folder = out if out is not None else Path(f"compare-{scene.stem}")
    with progress_bar("comparing") as show:
        done: dict[str, int] = {}

        def show_frame(label: str, frame: int, total: int) -> None:
            done[label] = frame
            show(sum(done.values()), total * runs)

        try:
            result = run_all(
                scene,
                names,
                folder,
                resolutions=lengths,
                frames=frames,
                device=device,
                size=choose_size(size),
                resume=resume,
                overwrite=overwrite,
                progress=show_frame,
            )
        except Interrupted as stop:
            raise KeyboardInterrupt(f"{stop.summary}. Go on with the same command and --resume") from None
    console = Console(highlight=False)
    console.print(_table(list(result.rows)))
    for row in result.rows:
        if row.problem:
            console.print(f"{row.label}: {row.problem}")
    written = [result.table] + ([result.picture] if result.picture is not None else [])
    console.print(f"written: {', '.join(str(path) for path in written)}")
    if result.no_picture:
        console.print(f"no picture: {result.no_picture}")


def _split(text: str | None) -> list[str] | None:
    """The parts between commas; None for none."""
    parts = [part.strip() for part in (text or "").split(",")]
    return [part for part in parts if part] or None


def _lengths(text: str | None) -> list[float] | None:
    """The numbers between commas."""
    parts = _split(text)
    if parts is None:
        return None
    try:
        return [float(part) for part in parts]
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not a list of lengths in m, such as 0.01,0.005", param_hint="--resolutions"
        ) from None


def _table(rows: list["Row"]) -> "Table":
    from rich.table import Table

    divided = any(not math.isnan(row.cell) for row in rows)
    caption = "worst and last: intersections in the worst and in the last frame; energy: of the motion at the end"
    if divided:
        caption += "; outline: distance from that with the smallest cells, in per cent of the height of the cloth"
    table = Table(caption=caption, caption_justify="left")
    table.add_column("run" if divided else "method", no_wrap=True)
    titles = ["frames", "ms a\nframe", "worst", "last", "stretch\n%", "energy\nmJ", "troubled\nframes"]
    for title in titles + ["outline\n%"] * divided:
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        if row.frames == 0:
            table.add_row(row.label, *["-"] * (len(titles) + divided), style="dim")
            continue
        table.add_row(
            row.label,
            str(row.frames),
            f"{row.frame_ms:.0f}",
            str(row.worst_intersections),
            str(row.last_intersections),
            f"{100 * row.stretch:.1f}",
            f"{row.kinetic_mj:.3g}",
            str(row.troubled),
            *[f"{row.outline:.2f}"] * divided,
            style="red" if row.last_intersections else None,
        )
    return table

"""`weft compare`: one scene under several methods."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from weft.compare import Row


def compare(
    scene: Annotated[Path, typer.Argument(help="A scene file.", show_default=False)],
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between them, such as robust,push.", show_default="all")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The folder. Default: the scene's name.")] = None,
    frames: Annotated[int | None, typer.Option(help="Simulate so many frames instead of the scene's.", min=1)] = None,
    device: Annotated[str | None, typer.Option(help="Run on cpu, cuda or cuda:1 instead of the scene's.")] = None,
    size: Annotated[str, typer.Option(help="Width and height of each picture in pixels.")] = "640x480",
    resume: Annotated[bool, typer.Option("--resume", "-r", help="Continue where the caches end.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace caches that are there.")] = False,
) -> None:
    """Run a scene with several methods: a table of times and intersections, and their last frames side by side."""
    from rich.console import Console

    from weft.cli.terminal import choose_size, progress_bar
    from weft.compare import compare as run_all
    from weft.run import Interrupted

    names = [name.strip() for name in methods.split(",") if name.strip()] if methods else None
    folder = out if out is not None else Path(f"compare-{scene.stem}")
    with progress_bar("comparing") as show:
        done: dict[str, int] = {}

        def show_frame(method: str, frame: int, total: int) -> None:
            done[method] = frame
            show(sum(done.values()), total * (len(names) if names else max(len(done), 1)))

        try:
            result = run_all(
                scene,
                names,
                folder,
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
            console.print(f"{row.method}: {row.problem}")
    written = [result.table] + ([result.picture] if result.picture is not None else [])
    console.print(f"written: {', '.join(str(path) for path in written)}")
    if result.no_picture:
        console.print(f"no picture: {result.no_picture}")


def _table(rows: list["Row"]) -> "Table":
    from rich.table import Table

    caption = "worst and last: intersections in the worst and in the last frame; energy: of the motion at the end"
    table = Table(caption=caption, caption_justify="left")
    table.add_column("method", no_wrap=True)
    for title in ("frames", "ms a\nframe", "worst", "last", "stretch\n%", "energy\nmJ", "troubled\nframes"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        if row.frames == 0:
            table.add_row(row.method, *["-"] * 7, style="dim")
            continue
        table.add_row(
            row.method,
            str(row.frames),
            f"{row.frame_ms:.0f}",
            str(row.worst_intersections),
            str(row.last_intersections),
            f"{100 * row.stretch:.1f}",
            f"{row.kinetic_mj:.3g}",
            str(row.troubled),
            style="red" if row.last_intersections else None,
        )
    return table

"""`weft export`: a cache for other programs."""

from pathlib import Path
from typing import Annotated

import typer


def export(
    cache: Annotated[Path, typer.Argument(help="The cache of a run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="A folder; default: the cache's name", show_default=False),
    ] = None,
    format: Annotated[str, typer.Option(help="obj or ply.")] = "obj",
    frames: Annotated[
        str | None, typer.Option(help="Frames, first:last or first:last:step.", show_default="all")
    ] = None,
    body: Annotated[
        list[str] | None, typer.Option(help="Only this body; can be given several times.", show_default="all")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a sequence that is already there.")] = False,
) -> None:
    """Write a cache as a sequence of mesh files, one a frame."""
    from weft.cache import open_cache
    from weft.cli.choices import choose_frames, progress_bar
    from weft.exchange import export_sequence

    source = open_cache(cache)
    folder = out or Path(cache.resolve().stem)
    with progress_bar("writing") as progress:
        paths = export_sequence(
            source,
            folder,
            format=format,
            frames=choose_frames(frames, source.frames),
            bodies=body or None,
            overwrite=overwrite,
            progress=progress,
        )
    print(f"{folder}: {len(paths)} files, {paths[0].name} to {paths[-1].name}")

"""`weft export`: writes a cache for other programs."""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.terminal import FRAMES_HELP

FORMAT_HELP = "usd, glb, abc, pc2, mdd, obj, ply, npz or npy; default: what the ending of --out means, else obj"


def export(
    cache: Annotated[
        Path, typer.Argument(help="The cache of a run, or a file that `weft check` reads.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A file (usd, glb, abc, npz) or a folder (pc2, mdd, obj, ply, npy); default: the cache's name",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP, show_default=False)] = None,
    frames: Annotated[str | None, typer.Option(help=FRAMES_HELP, show_default="all")] = None,
    body: Annotated[
        list[str] | None, typer.Option(help="Only this body; can be given several times.", show_default="all")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")] = False,
    check: Annotated[
        bool, typer.Option(help="Check whether rounding to 32 bits (usd, glb, abc, pc2, mdd) made intersections.")
    ] = True,
    usd_schema: Annotated[
        str | None,
        typer.Option(
            help="Of usd: describe cloth and colliders to simulators too, by a proposed schema: physics or omniphysics.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write a cache for other programs: USD, Alembic, animated glTF, point caches, mesh sequences, NumPy."""
    from weft.cache import open_result
    from weft.cli.terminal import choose_frames, count, progress_bar, size_of
    from weft.exchange.formats import choose_format
    from weft.exchange.formats import export as export_cache
    from weft.exchange.selection import warn_of_rounding

    source = open_result(cache)
    with progress_bar("writing") as progress:
        made = export_cache(
            source,
            out,
            format=format,
            frames=choose_frames(frames, source.frames),
            bodies=body or None,
            overwrite=overwrite,
            check=check,
            progress=progress,
            usd_schema=usd_schema,
        )
    first = made.paths[0]
    if choose_format(format, out) in ("obj", "ply"):
        print(f"{first.parent}: {len(made.paths)} files, {first.name} to {made.paths[-1].name}")
    elif len(made.paths) == 1:
        print(f"{first}: {count(len(made.frames), 'frame')}, {size_of(first)}")
    else:
        names = ", ".join(path.name for path in made.paths[:6]) + (", ..." if len(made.paths) > 6 else "")
        print(f"{first.parent}: {count(len(made.frames), 'frame')} in {names}")
    warn_of_rounding(made.rounding, str(first if len(made.paths) == 1 else first.parent))

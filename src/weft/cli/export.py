"""`weft export`: writes a cache for other programs. `weft bind`: a detailed mesh follows a simulated sheet."""

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
    from weft.cli.terminal import count, progress_bar, size_of
    from weft.exchange.formats import choose_format
    from weft.exchange.formats import export as export_cache
    from weft.exchange.selection import warn_of_rounding

    source = open_result(cache)
    with progress_bar("writing") as progress:
        made = export_cache(
            source,
            out,
            format=format,
            frames=frames,
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


def bind(
    cache: Annotated[
        Path, typer.Argument(help="The cache of a run, or a file that `weft check` reads.", show_default=False)
    ],
    mesh: Annotated[
        Path, typer.Argument(help="The detailed mesh, where it lies on the sheet at the start.", show_default=False)
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A file (usd, glb, abc, npz) or a folder, as of `weft export`; default: the mesh's name, as USD",
            show_default=False,
        ),
    ] = None,
    format: Annotated[str | None, typer.Option(help=FORMAT_HELP, show_default=False)] = None,
    body: Annotated[
        str | None, typer.Option(help="The cloth that the mesh follows.", show_default="the only one")
    ] = None,
    frame: Annotated[int, typer.Option(help="The frame at which the mesh lies on the sheet.")] = 0,
    rigid: Annotated[
        float, typer.Option(help="Pieces smaller than this, in metres, keep their shape: buttons.", min=0.0)
    ] = 0.02,
    frames: Annotated[
        str | None, typer.Option(help="Frames, first:last or first:last:step.", show_default="all")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace what is already there.")] = False,
    check: Annotated[bool, typer.Option(help="Count the intersections of the result.")] = True,
) -> None:
    """Let a detailed mesh with thickness, buttons and hems follow a sheet, and write it for other programs."""
    from weft.cache import choose_frames, open_result
    from weft.check import check_cache
    from weft.cli.terminal import count, progress_bar
    from weft.exchange.bind import bind as bind_mesh
    from weft.exchange.formats import export
    from weft.mesh import load_mesh

    source = open_result(cache)
    bound = bind_mesh(source, load_mesh(mesh), body=body, frame=frame, rigid=rigid, name=mesh.stem)
    chosen = choose_frames(source, frames)
    target = out if out is not None or format is not None else Path(f"{mesh.stem}.usdc")
    with progress_bar("writing") as progress:
        made = export(bound, target, format=format, frames=chosen, overwrite=overwrite, check=False, progress=progress)
    place = made.paths[0] if len(made.paths) == 1 else made.paths[0].parent
    print(f"{place}: {count(len(made.frames), 'frame')} of {count(len(bound.positions(0)), 'vertex', 'vertices')}")
    if check:
        found = check_cache(bound, frames=chosen)
        worst = found.worst
        if worst is None or found.clean:
            print("no intersections")
        else:
            bad = sum(frame.intersections > 0 for frame in found.frames)
            print(f"intersections in {count(bad, 'frame')}, at most {worst.intersections} (frame {worst.frame})")
            print("there are fewer if the sheet is simulated with a larger thickness, since it then folds less tightly")

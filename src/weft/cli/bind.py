"""`weft bind`: a detailed mesh follows a simulated sheet"""

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.export import FORMAT_HELP


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
    from weft.cache import open_result
    from weft.check import check_cache
    from weft.cli.terminal import choose_frames, count, progress_bar
    from weft.exchange.bind import bind as bind_mesh
    from weft.exchange.formats import export
    from weft.mesh import load_mesh

    source = open_result(cache)
    bound = bind_mesh(source, load_mesh(mesh), body=body, frame=frame, rigid=rigid, name=mesh.stem)
    chosen = choose_frames(frames, source.frames)
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

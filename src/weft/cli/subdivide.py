"""`weft subdivide`: refines and smooths a cache."""

import shlex
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from weft.cli.terminal import FRAMES_HELP

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.mesh.subdivide import Weights


def subdivide(
    cache: Annotated[Path, typer.Argument(help="The cache of a run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The cache to write; default: <name>-fine.zarr", show_default=False),
    ] = None,
    levels: Annotated[int, typer.Option("--levels", "-l", help="How often every triangle is split in four.")] = 2,
    weights: Annotated[
        str, typer.Option(help="Loop's weights: loop (1987), or bounded for bounded curvature (2001).")
    ] = "loop",
    frames: Annotated[str | None, typer.Option(help=FRAMES_HELP, show_default="all")] = None,
    processes: Annotated[
        int | None, typer.Option("--processes", "-p", help="Frames at a time.", show_default="one a core", min=1)
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also count the intersections of smoothing without collision handling.")
    ] = False,
    check: Annotated[bool, typer.Option(help="Count the intersections of every finished frame.")] = True,
    device: Annotated[str, typer.Option(help="Where to compute: cpu, cuda or cuda:1.")] = "cpu",
    resume: Annotated[bool, typer.Option("--resume", "-r", help="Continue where the output ends.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a cache that is there.")] = False,
    scheduler: Annotated[
        str | None, typer.Option(help="Spread frames over a Dask scheduler, tcp://..., or local.", show_default=False)
    ] = None,
) -> None:
    """Smooth and refine the cloth of every frame without making intersections.

    Every triangle is split in four at each level, and vertices move to their positions of Loop subdivision, or as far
    towards them as possible without a collision. Colliders are not changed.
    """
    from weft.cache import open_cache
    from weft.cli.terminal import progress_bar
    from weft.run import Interrupted

    if scheduler is None:
        from weft.finish import subdivide as subdivide_cache
    else:
        from weft.farm.frames import subdivide_on

        subdivide_cache = partial(subdivide_on, scheduler)

    source = open_cache(cache)
    target = out if out is not None else Path(f"{cache.resolve().stem}-fine.zarr")
    try:
        with progress_bar("subdividing") as progress:
            made = subdivide_cache(
                source,
                target,
                levels=levels,
                weights=cast("Weights", weights),
                frames=frames,
                processes=processes,
                check=check,
                compare=compare,
                device=device,
                resume=resume,
                overwrite=overwrite,
                progress=progress,
            )
    except Interrupted as stop:
        command = ["weft", "subdivide", str(cache), "-o", str(target), "--levels", str(levels), "--resume"]
        if weights != "loop":
            command += ["--weights", weights]
        if scheduler is not None:
            command += ["--scheduler", scheduler]
        if frames is not None:
            command += ["--frames", frames]
        raise KeyboardInterrupt(f"{stop.summary}. Go on with:  {shlex.join(command)}") from None
    for line in summary(made):
        print(line)


def summary(cache: "Cache") -> list[str]:
    """Summary lines: size, vertices that were stopped, intersections."""
    import numpy as np

    from weft.cli.terminal import count, quoted
    from weft.run.progress import quality, span

    report = cache.report
    vertices = sum(b.vertices.stop - b.vertices.start for b in cache.bodies if b.kind == "cloth")
    lines = [f"{cache.path}: {count(cache.frames, 'frame')} with {count(vertices, 'vertex', 'vertices')} of cloth"]
    lines[0] += f", median {span(float(np.median(report['wall_time'])))} a frame"
    stopped = report["stopped"]
    lines.append(
        f"{int(np.sum(stopped)):,} vertices were stopped before a collision, at most {int(np.max(stopped)):,} a frame"
    )
    if "plain_intersections" in report:
        plain = np.nan_to_num(report["plain_intersections"])
        lines.append(
            f"Loop subdivision alone makes {int(plain.sum()):,} intersections in {int((plain > 0).sum())} frames"
        )
    lines += quality(report)
    lines.append(f"look at it:  weft view {quoted(cache.path)}")
    return lines

"""`weft run`: from a scene file to a cache. `weft warmup`: compiles kernels beforehand."""

import shlex
from pathlib import Path
from typing import Annotated

import typer


def run(
    scene: Annotated[Path, typer.Argument(help="A scene file; `weft new` writes one to start from.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="The cache to write. Default: the scene's file name with .zarr, here."),
    ] = None,
    method: Annotated[str | None, typer.Option(help="Use this method instead of the scene's.")] = None,
    device: Annotated[str | None, typer.Option(help="Run on cpu, cuda or cuda:1 instead of the scene's.")] = None,
    frames: Annotated[int | None, typer.Option(help="Simulate so many frames instead of the scene's.")] = None,
    resume: Annotated[bool, typer.Option("--resume", "-r", help="Continue where the cache ends.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a cache that is there.")] = False,
    threads: Annotated[int | None, typer.Option(help="Use so many CPU threads. Default: all cores.", min=1)] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Compute also what exceeds the memory, and frames that take hours.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors.")] = False,
) -> None:
    """Simulate a scene and write its frames to a cache.

    Every frame is written before the next one begins. A run that was stopped by Ctrl-C, a crash or a power cut continues
    with --resume and gives the same result as an uninterrupted one.
    """
    from weft.errors import WeftError
    from weft.run import Interrupted, simulate

    if scene.suffix == ".zarr":
        raise WeftError(
            f"{scene} is a cache, the result of a run: give the scene file (with --resume to continue); to look at a cache "
            f"use  weft view {shlex.quote(str(scene))}"
        )
    if threads is not None:
        from weft.runtime import set_threads

        set_threads(threads)
    target = out if out is not None else Path(f"{scene.stem}.zarr")
    try:
        simulate(
            scene,
            target,
            method=method,
            device=device,
            frames=frames,
            resume=resume,
            overwrite=overwrite,
            progress=not quiet,
            force=force,
        )
    except Interrupted as stop:
        options = {"--method": method, "--device": device, "--frames": frames, "--threads": threads}
        given = [text for name, value in options.items() if value is not None for text in (name, str(value))]
        command = shlex.join(["weft", "run", str(scene), "-o", str(target), *given, "--resume"])
        raise KeyboardInterrupt(f"{stop.summary}. Go on with:  {command}") from None


def warmup(
    method: Annotated[
        list[str] | None,
        typer.Option(help="Only the kernels of this method; can be given again.", show_default="all methods"),
    ] = None,
    device: Annotated[str, typer.Option(help="For cpu, cuda or cuda:1.")] = "cpu",
) -> None:
    """Compile the kernels, so that no run has to wait for that.

    Kernels are compiled once on a machine, by the first run that needs them, which takes seconds to a minute. They are kept in
    Warp's cache; the environment variable WARP_CACHE_PATH names another folder for it.
    """
    import time

    from weft.run.warmup import METHODS, warm_up

    names = method or list(METHODS)
    started, compiled = time.perf_counter(), 0
    from rich.console import Console

    console = Console(stderr=True, highlight=False)
    with console.status("compiling") as status:

        def announce(module: str, seconds: float | None) -> None:
            nonlocal compiled
            if seconds is None:
                status.update(f"compiling {module}")
                return
            compiled += 1
            console.print(f"{module}: {seconds:.1f} s", markup=False)

        warm_up(names, device, announce)
    what = "1 module" if compiled == 1 else f"{compiled} modules"
    done = f"{what} compiled in {time.perf_counter() - started:.0f} s" if compiled else "all was compiled already"
    print(f"{done}: {', '.join(names)} on {device}")

"""`weft warmup`: compiles kernels beforehand."""

from typing import Annotated

import typer


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

        def told(module: str, seconds: float | None) -> None:
            nonlocal compiled
            if seconds is None:
                status.update(f"compiling {module}")
                return
            compiled += 1
            console.print(f"{module}: {seconds:.1f} s", markup=False)

        warm_up(names, device, told)
    what = "1 module" if compiled == 1 else f"{compiled} modules"
    done = f"{what} compiled in {time.perf_counter() - started:.0f} s" if compiled else "all was compiled already"
    print(f"{done}: {', '.join(names)} on {device}")

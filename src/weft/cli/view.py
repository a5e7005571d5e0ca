"""`weft view`: a cache in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def view(
    cache: Annotated[
        Path, typer.Argument(help="The cache of a run; the run may still be going on.", show_default=False)
    ],
    port: Annotated[
        int, typer.Option(help="Where to serve; the next free port is taken if it is not.", min=1, max=65535)
    ] = 8080,
    host: Annotated[
        str, typer.Option(help="Who may look: this machine only, or 0.0.0.0 for the network.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--open", help="Open the browser too.")] = False,
) -> None:
    """Look at a cache in the browser: play, scrub, colour by strain or speed, follow a running simulation."""
    from weft.view.viewer import view_cache

    view_cache(cache, host=host, port=port, browser=browser)

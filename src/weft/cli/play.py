"""`weft play`: a live simulation in the browser."""

from pathlib import Path
from typing import Annotated

import typer


def play(
    scene: Annotated[Path, typer.Argument(help="The scene, a TOML file.", show_default=False)],
    port: Annotated[
        int, typer.Option(help="Where to serve; the next free port is taken if it is not.", min=1, max=65535)
    ] = 8080,
    host: Annotated[
        str, typer.Option(help="Who may look: this machine only, or 0.0.0.0 for the network.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--open", help="Open the browser too.")] = False,
) -> None:
    """Simulate a scene live in the browser: drag cloth and colliders, change stiffness, friction and wind."""
    from weft.view.play import play_scene

    play_scene(scene, host=host, port=port, browser=browser)

"""`weft view` and `weft play`: a cache or a live simulation in the browser. `weft plot`: reports as pictures."""

from pathlib import Path
from typing import Annotated

import typer

from weft.errors import WeftError


def view(
    cache: Annotated[
        Path, typer.Argument(help="The cache of a run; the run may still be going on.", show_default=False)
    ],
    port: Annotated[
        int, typer.Option(help="The port; if it is in use, the next free one is taken.", min=1, max=65535)
    ] = 8080,
    host: Annotated[
        str, typer.Option(help="The address to listen on: this machine only, or 0.0.0.0 for the network.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--open", help="Open the browser too.")] = False,
) -> None:
    """Show a cache in the browser: play, scrub, colour by strain or speed, follow a running simulation.

    The printed address holds a token that is new at every start: whoever has the address can use the controls, nobody else.
    With --host 0.0.0.0 others on the network can open it; the connection is not encrypted.
    """
    from weft.view.viewer import view_cache

    view_cache(cache, host=host, port=port, browser=browser)


def play(
    scene: Annotated[Path, typer.Argument(help="The scene, a TOML file.", show_default=False)],
    method: Annotated[
        str | None,
        typer.Option(help="Another method than the scene's, such as predictive.", show_default="the scene's"),
    ] = None,
    port: Annotated[
        int, typer.Option(help="The port; if it is in use, the next free one is taken.", min=1, max=65535)
    ] = 8080,
    host: Annotated[
        str, typer.Option(help="The address to listen on: this machine only, or 0.0.0.0 for the network.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--open", help="Open the browser too.")] = False,
    share: Annotated[
        Path | None,
        typer.Option(help="Write what it shows as a web page instead, to send to somebody.", show_default=False),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Of --share: how long.", min=0.0, show_default="as long as the scene")
    ] = None,
) -> None:
    """Simulate a scene live in the browser: drag cloth and colliders, change method, material, gravity and wind.

    The method is the scene's until another is chosen. predictive runs in real time, others as fast as they compute.
    The printed address holds a token that is new at every start, as that of `weft view`. --share out.html serves nothing: it
    simulates the scene and writes a page that plays it, at 60 Hz with predictive, without a server or a network.
    """
    if share is not None:
        from weft.view.page import share_play

        print(share_play(scene, share, method=method, seconds=seconds))
        return
    if seconds is not None:
        raise WeftError("--seconds is for --share: without it the scene plays until it is stopped")
    from weft.view.play import play_scene

    play_scene(scene, method=method, host=host, port=port, browser=browser)


def plot(
    cache: Annotated[Path, typer.Argument(help="The cache of a run, or the folder of a study.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="A .png, .pdf or .svg file; default: <name>-report.png, for a study in its folder plots",
            show_default=False,
        ),
    ] = None,
    column: Annotated[
        str | None, typer.Option(help="Of a study: a column of its table, such as stretch.", show_default=False)
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Of a study: a key that it varies.", show_default="the first")
    ] = None,
) -> None:
    """Draw the report of a run, frame by frame; or, of a study, a column of its table against a key that it varies."""
    if (cache / "study.json").is_file():
        from weft.farm.pictures import plot_study
        from weft.farm.study import read_manifest

        if column is None:
            raise WeftError(f"{cache} is a study: say which column to draw, such as --column stretch")
        print(plot_study(cache, column, against or read_manifest(cache)["keys"][0], out))
        return
    if column is not None or against is not None:
        raise WeftError(f"{cache} is no study: --column and --against are for those")
    from weft.cache import open_cache
    from weft.view.plots import plot_report

    path = plot_report(open_cache(cache), out or Path(f"{cache.resolve().stem}-report.png"))
    print(path)

"""`weft new`: a scene file to start from. `weft demo`: a flag in the wind, from the scene to the pictures."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.terminal import program_name, quoted, size_of

if TYPE_CHECKING:
    from weft.cache import Cache


TEMPLATE = Path(__file__).parent / "scenes" / "new.toml"


def new(
    scene: Annotated[Path, typer.Argument(help="The scene file to write, ending in .toml.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write a scene file with comments, to start from."""
    from weft.cli.terminal import quoted
    from weft.errors import WeftError, writing

    if scene.suffix != ".toml":
        raise WeftError(f"{scene}: a scene file ends in .toml")
    text = TEMPLATE.read_text(encoding="utf-8").replace('name = "curtain"', f'name = "{_name(scene)}"', 1)
    if scene.exists() and not overwrite:
        raise WeftError(f"{scene} exists already: choose another name, or replace it with --overwrite")
    with writing(scene):
        scene.parent.mkdir(parents=True, exist_ok=True)
        with scene.open("w" if overwrite else "x", encoding="utf-8") as file:
            file.write(text)
    print(f"{scene} is written. Change it as you like, then:")
    print(f"  weft run {quoted(scene)}")
    print(f"  weft view {quoted(scene.with_suffix('.zarr').name)}")


def _name(scene: Path) -> str:
    """The scene's name from the file's, without characters that a name or TOML cannot hold."""
    kept = "".join(c for c in scene.stem if c.isprintable() and c not in '"\\/').strip()
    return kept or "scene"


SCENE = Path(__file__).parent / "scenes" / "flag.toml"
# every second frame is drawn, at half the rate, which takes half the time
STEP = 2
SIZE = (960, 720)


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write to.")] = Path("out"),
    frames: Annotated[int | None, typer.Option(help="Simulate so many frames instead of 120.", min=1)] = None,
) -> None:
    """Simulate a flag in the wind, render a film and a picture, and print the command that shows it."""
    from weft.run import simulate

    made = [write_scene(out / "flag.toml"), out / "flag.zarr"]
    cache = simulate(made[0], made[1], frames=frames, overwrite=is_demo(made[1]))
    for what, draw in (("picture", draw_still), ("film", draw_film)):
        path = tried(what, draw, cache, out)
        if path is not None:
            made.append(path)
    print("written:")
    for path in made:
        print(f"  {path}  ({size_of(path)})")
    print(f"look at it in the browser:\n  {program_name()} view {quoted(made[1])}")


def write_scene(path: Path) -> Path:
    """Copy the scene beside its results, to be changed."""
    from weft.errors import writing

    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(SCENE.read_bytes())
    return path


def is_demo(path: Path) -> bool:
    """Whether a cache is one of an earlier demo, which a new one may replace."""
    from weft.cache import open_cache
    from weft.errors import WeftError
    from weft.scene import load_scene

    try:
        return open_cache(path).scene.name == load_scene(SCENE).name
    except WeftError:
        return False


def tried(what: str, draw: Callable[["Cache", Path], Path], cache: "Cache", out: Path) -> Path | None:
    """Draw a picture, or print why there is none; the simulation is kept without it."""
    from weft.cli.main import print_error
    from weft.errors import WeftError

    try:
        return draw(cache, out)
    except WeftError as error:
        print_error(f"no {what}: {error}")
        return None


def draw_still(cache: "Cache", out: Path) -> Path:
    """A still of the last frame."""
    from weft.view import render_still

    return Path(render_still(cache, -1, out / "flag.png", size=SIZE))


def draw_film(cache: "Cache", out: Path) -> Path:
    """A film of the whole run."""
    from weft.cli.terminal import progress_bar
    from weft.view import render_film

    frames = range(0, cache.frames, STEP)
    with progress_bar("drawing") as progress:
        film = render_film(cache, out / "flag.mp4", frames=frames, fps=cache.fps / STEP, size=SIZE, progress=progress)
    return Path(film)

"""`weft new`: a scene to start from."""

from pathlib import Path
from typing import Annotated

import typer

TEMPLATE = Path(__file__).parent / "scenes" / "new.toml"


def new(
    scene: Annotated[Path, typer.Argument(help="The scene file to write, ending in .toml.")],
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there.")] = False,
) -> None:
    """Write a scene file with comments, to start from."""
    from weft.cli.said import quoted
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
    """The file's name as the scene's, without what a name or TOML cannot hold."""
    kept = "".join(c for c in scene.stem if c.isprintable() and c not in '"\\/').strip()
    return kept or "scene"

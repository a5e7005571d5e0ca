"""What all examples share: run a scene, check the result, say so.

An example has `scene(size)`, which gives its scene, quick or full, and `check(cache)`, which raises if the result is not
what it should be. `python examples/NAME.py --full` runs it at the size of the paper, `--device cuda` on a GPU.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import weft


class CheckError(Exception):
    """A result that is not what the example promises."""


def expect(what: str, fulfilled: object) -> None:
    """Raise with a sentence unless it is fulfilled."""
    if not fulfilled:
        raise CheckError(what)


def run(file: str, scene: Callable[[str], weft.Scene], check: Callable[[weft.Cache], dict[str, object]]) -> None:
    """The command line of an example: simulate, check, print a table, exit with 1 where something is not as it should."""
    name = Path(file).stem
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the size of the paper; takes long")
    parser.add_argument("--device", help="cpu or cuda; otherwise what the scene says")
    parser.add_argument("--out", type=Path, default=Path("out") / f"{name}.zarr", help="where the cache goes")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        size = "full" if options.full else "quick"
        cache = weft.simulate(scene(size), options.out, device=options.device, overwrite=True)
        found = check(cache)
    except (CheckError, weft.WeftError) as error:
        raise SystemExit(f"{name}: {error}") from None
    width = max(len(key) for key in found)
    for key, value in found.items():
        print(f"{key:{width}}  {value}")
    print(f"checked: {name} is as it should be")

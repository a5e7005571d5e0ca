"""What all examples share: run a scene, check the result, say so.

An example has `build(quick)`, which gives its scene, and `check(cache)`, which raises if the result is not what it
should be. `python examples/NAME.py --quick` runs it small.
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
    """The command line of an example of two sizes: simulate, check, print a table, exit with 1 where a check fails."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true", help="the size of the paper; takes long")
    parser.add_argument(
        "--out", type=Path, default=Path("out") / f"{Path(file).stem}.zarr", help="where the cache goes"
    )
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    cache = weft.simulate(scene("full" if options.full else "quick"), options.out, overwrite=True)
    try:
        found = check(cache)
    except CheckError as error:
        print(f"{Path(file).stem}: {error}")
        raise SystemExit(1) from None
    width = max(len(name) for name in found)
    for name, value in found.items():
        print(f"{name:{width}}  {value}")


def main(file: str, build: Callable[[bool], weft.Scene], check: Callable[[weft.Cache], dict[str, object]]) -> None:
    """The command line of an example: simulate, check, and print what `check` found out."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a small size, for a test")
    parser.add_argument(
        "--out", type=Path, default=Path("out") / f"{Path(file).stem}.zarr", help="where the cache goes"
    )
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    try:
        scene = build(options.quick)
    except weft.WeftError as error:
        raise SystemExit(f"{Path(file).stem}: {error}") from None
    cache = weft.simulate(scene, options.out, overwrite=True)
    for name, value in check(cache).items():
        print(f"{name}: {value}")
    print(f"checked: {Path(file).stem} is as it should be")

"""How commands say things: aligned lines, short numbers, paths that can be pasted."""

import shlex
import shutil
import sys
from collections.abc import Iterable
from pathlib import Path


def quoted(path: str | Path) -> str:
    """A path as it can be pasted into a shell."""
    return shlex.quote(str(path))


def called() -> str:
    """How the command that runs now can be called again from here: `weft`, or `.venv/bin/weft` if that is not found."""
    program = Path(sys.argv[0])
    if program.stem != "weft" or not program.exists():
        return "weft"
    known = shutil.which("weft")
    if known is not None and program.samefile(known):
        return "weft"
    place = program.absolute()
    return quoted(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Names and values in two columns."""
    listed = list(pairs)
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        print(f"{name:<{width}}  {value}".rstrip())


def count(number: int, singular: str, plural: str | None = None) -> str:
    """1 triangle, 12,345 triangles, 2 vertices."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size_of(path: Path) -> str:
    """The room that a file or folder takes: 812 kB, 1.4 GB."""
    files = path.rglob("*") if path.is_dir() else [path]
    room = float(sum(f.stat().st_size for f in files if f.is_file()))
    for unit in ("B", "kB", "MB", "GB"):
        if room < 1000:
            return f"{room:.0f} {unit}" if unit == "B" or room >= 10 else f"{room:.1f} {unit}"
        room /= 1000
    return f"{room:.1f} TB"

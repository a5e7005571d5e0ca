"""Options and output that commands share: ranges of frames, sizes, progress bars, aligned lines, short numbers."""

import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.errors import WeftError, printable

# the one way in which all commands choose frames
FRAMES_HELP = (
    "Frames first:end or first:end:step; the end is not included: 10:20 is 10 to 19, -30: the last 30, 7 one frame."
)


def choose_size(text: str) -> tuple[int, int]:
    """Width and height from "1280x960"."""
    match = re.fullmatch(r"(\d+)x(\d+)", text.strip())
    if match is None:
        raise WeftError(f"--size {text}: write width and height in pixels, such as 1280x960")
    width, height = int(match[1]), int(match[2])
    if not (16 <= width <= 8192 and 16 <= height <= 8192):
        raise WeftError(f"--size {text}: width and height must be 16 to 8192 pixels")
    return width, height


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar if stderr is a terminal; yields a function to call with (done, total)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # elsewhere it would print only an empty line
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def quoted(path: str | Path) -> str:
    """A path as it can be pasted into a shell."""
    return shlex.quote(str(path))


def program_name() -> str:
    """How this program can be called again from here: `weft`, or a path such as `.venv/bin/weft`."""
    program = Path(sys.argv[0])
    if program.stem != "weft" or not program.exists():
        return "weft"
    known = shutil.which("weft")
    if known is not None and program.samefile(known):
        return "weft"
    place = program.absolute()
    return quoted(place.relative_to(Path.cwd()) if place.is_relative_to(Path.cwd()) else place)


def print_pairs(pairs: Iterable[tuple[str, str]]) -> None:
    """Print names and values in two columns."""
    listed = list(pairs)
    width = max((len(name) for name, _ in listed), default=0)
    for name, value in listed:
        print(printable(f"{name:<{width}}  {value}".rstrip()))


def count(number: int, singular: str, plural: str | None = None) -> str:
    """1 triangle, 12,345 triangles, 2 vertices."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def size_of(path: Path) -> str:
    """The size of a file or folder: 812 kB, 1.4 GB."""
    files = path.rglob("*") if path.is_dir() else [path]
    room = float(sum(f.stat().st_size for f in files if f.is_file()))
    for unit in ("B", "kB", "MB", "GB"):
        if room < 1000:
            return f"{room:.0f} {unit}" if unit == "B" or room >= 10 else f"{room:.1f} {unit}"
        room /= 1000
    return f"{room:.1f} TB"

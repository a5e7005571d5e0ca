"""What several commands read in the same way: which frames, how large, and a bar that shows how far."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from weft.errors import WeftError


def choose_frames(text: str | None, count: int) -> list[int]:
    """The frames that "12", "10:20", ":100", "-30:" or "::5" mean (as a Python slice; the end is not included)."""
    if text is None:
        return list(range(count))
    fields = text.split(":")
    if len(fields) > 3 or not all(re.fullmatch(r"[+-]?\d*", field.strip()) for field in fields):
        raise WeftError(f"--frames {text}: write one number, or first:last or first:last:step, such as 10:20")
    try:
        numbers = [int(field) if field.strip() else None for field in fields]
    except ValueError:
        raise WeftError(f"--frames {text}: a sign needs a number after it") from None
    if len(numbers) == 1:
        only = numbers[0]
        if only is None or not -count <= only < count:
            raise WeftError(f"--frames {text}: the cache has frames 0 to {count - 1}")
        return [only % count]
    if len(numbers) == 3 and numbers[2] == 0:
        raise WeftError(f"--frames {text}: the step must not be 0")
    frames = list(range(count))[slice(*numbers)]
    if not frames:
        raise WeftError(f"--frames {text}: no frame is left; the cache has frames 0 to {count - 1}")
    return frames


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
    """A bar on the terminal, if there is one; call what it gives with (done, total)."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(label), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    # elsewhere nothing would come of it but an empty line
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label)
        yield lambda done, total: bar.update(task, completed=done, total=total)

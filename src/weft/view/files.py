"""Writing what was drawn: whole or not at all, and faults as one sentence."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import writing


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to; it takes the place of `path` when all went well, and is removed when not."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def save_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """Write (height, width, 3) bytes as PNG or JPEG, by the suffix."""
    from PIL import Image

    with replacing(path) as partial:
        Image.fromarray(picture).save(partial, quality=92)

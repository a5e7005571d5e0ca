"""Loaded by the workers of tests: lets accidents happen while frames are written.

An accident is a file in the folder WEFT_ACCIDENTS, named "what frame run"; it is removed when it happens, so that it
happens once. What: `kill` the process before the frame is written, `half` kill it in the middle of the write, `full`
fill the disk first, `stop` wait until the file "go" is there.
"""

import contextlib
import os
import signal
import time
from pathlib import Path

from weft.cache import FrameWriter, layout

ACCIDENTS = Path(os.environ["WEFT_ACCIDENTS"])
# a worker may load this twice
if not hasattr(FrameWriter, "before"):
    FrameWriter.before = (FrameWriter.write, layout.write_atomic)
write_frame, write_atomic = FrameWriter.before


def happens(what: str, frame: int, cache: Path) -> bool:
    try:
        (ACCIDENTS / f"{what} {frame} {cache.stem}").unlink()
    except FileNotFoundError:
        return False
    return True


def write(self, frame, *arguments, **options):
    if happens("kill", frame, self.path):
        os.kill(os.getpid(), signal.SIGKILL)
    if happens("stop", frame, self.path):
        while not (ACCIDENTS / "go").exists():
            time.sleep(0.02)
    if happens("full", frame, self.path):
        with contextlib.suppress(OSError), (self.path.parents[2] / "ballast").open("wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(4096))
    write_frame(self, frame, *arguments, **options)


def write_half(path, fill):
    if path.parent.name == "frames" and path.stem.isdigit() and happens("half", int(path.stem), path.parents[2]):
        partial = path.with_name(f".{path.name}.{os.getpid()}{layout.PARTIAL}")
        with partial.open("wb") as file:
            file.write(b'{"crc32": 1')
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    write_atomic(path, fill)


FrameWriter.write = write
layout.write_atomic = write_half

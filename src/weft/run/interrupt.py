"""Ctrl-C that stops a run after the frame at hand."""

import os
import signal
import threading
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self


class Interrupted(KeyboardInterrupt):
    """A run was stopped by Ctrl-C; its frames are complete and it can be continued."""

    def __init__(self, out: Path, frames: int, planned: int) -> None:
        self.out, self.frames, self.planned = out, frames, planned
        super().__init__(f"{self.summary}. To go on, run the same with resume=True")

    @property
    def summary(self) -> str:
        """How many frames are complete, without how to continue."""
        if self.frames == 0:
            return f"stopped before frame 0 of {self.out} was complete"
        return f"stopped after frame {self.frames - 1} of {self.planned - 1}; {self.out} keeps all frames up to it"


class StopAtFrame:
    """While active, the first Ctrl-C only sets `asked`, so that the frame at hand can be completed; a second stops at once.

    Outside of the main thread, and in programs with their own handler of Ctrl-C, it does nothing.
    """

    def __init__(self, *, say: bool) -> None:
        self.asked = False
        self._say = say
        self._before: Any = None

    def __enter__(self) -> Self:
        in_main = threading.current_thread() is threading.main_thread()
        if in_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        self._restore()
        if self._say:
            # os.write, since a signal can arrive in the middle of a print
            os.write(2, b"\nstopping after this frame; Ctrl-C again stops at once\n")

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

"""Python's garbage collector and a loop over frames.

The collector goes through all objects again and again, and a program that has loaded Warp and compiled a scene has hundreds of
thousands of them that stay. On a card, where Python must keep up with kernels of microseconds, that was measured to cost up to
2 ms of a frame of 14. So once the first frames have loaded what they need, what is there then is left out until the loop ends.
"""

import gc
from types import TracebackType
from typing import Self

# frames after which all that a method needs is there
WARM = 3


class Settled:
    """Leaves out what stays; tell it of every frame that is done. What somebody else has frozen is not touched."""

    def __init__(self) -> None:
        self._done = 0
        self._frozen = False

    def __enter__(self) -> Self:
        return self

    def frame_done(self) -> None:
        """Another frame is complete."""
        self._done += 1
        if self._done == WARM and gc.isenabled() and gc.get_freeze_count() == 0:
            gc.collect()
            gc.freeze()
            self._frozen = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._frozen:
            gc.unfreeze()

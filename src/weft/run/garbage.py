"""Python's garbage collector during the loop over frames."""

import gc
from types import TracebackType
from typing import Self

# frames after which a method has allocated and compiled all that it needs
WARM = 3


class FrozenGarbage:
    """Keeps Python's garbage collector from scanning long-lived objects during the loop over frames.

    A program that has loaded Warp and compiled a scene has hundreds of thousands of objects that stay. On a GPU, where
    Python must keep up with kernels of microseconds, scanning them again and again was measured to cost up to 2 ms of a
    frame of 14 ms. So after `WARM` frames all objects are frozen (excluded from collection) until the loop ends. Objects
    that somebody else has frozen are not touched.
    """

    def __init__(self) -> None:
        self._done = 0
        self._frozen = False

    def __enter__(self) -> Self:
        return self

    def frame_done(self) -> None:
        """Count a completed frame, and freeze after `WARM` of them."""
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

"""From a scene to a cache: the loop over frames, its report, its interruptions."""

from weft.run.interrupt import Interrupted
from weft.run.runner import simulate

__all__ = ["Interrupted", "simulate"]

"""Simulating a scene into a cache: the loop over frames, its report, Ctrl-C and resuming."""

from weft.run.interrupt import Interrupted
from weft.run.runner import simulate

__all__ = ["Interrupted", "simulate"]

"""The scene compiled to flat device arrays, and the way kernels run on them."""

from weft.world.launch import get_threads, launch, set_threads
from weft.world.surface import Surface

__all__ = ["Surface", "get_threads", "launch", "set_threads"]

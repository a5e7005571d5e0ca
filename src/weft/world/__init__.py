"""The scene compiled to flat device arrays, and the way kernels run on them."""

from weft.world.launch import get_threads, launch, set_threads
from weft.world.state import State
from weft.world.surface import Surface
from weft.world.world import Body, ClothPart, Seams, World

__all__ = ["Body", "ClothPart", "Seams", "State", "Surface", "World", "get_threads", "launch", "set_threads"]

"""The scene compiled to flat device arrays."""

from weft.world.state import State
from weft.world.surface import Surface
from weft.world.world import Body, ClothPart, Seams, World

__all__ = ["Body", "ClothPart", "Seams", "State", "Surface", "World"]

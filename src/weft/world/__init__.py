"""A scene compiled to flat device arrays: `World`, its triangles (`Surface`), and its `State` at one moment."""

from weft.world.seams import Seams
from weft.world.surface import Surface
from weft.world.world import Body, RestCloth, State, World

__all__ = ["Body", "RestCloth", "Seams", "State", "Surface", "World"]

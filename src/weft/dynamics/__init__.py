"""Internal dynamics: how cloth moves if nothing is in its way. One file or folder a model; `interface` has what they share."""

from weft.dynamics.interface import Dynamics
from weft.world import World


def make_dynamics(name: str, world: World) -> Dynamics:
    """The model that a scene names, for all cloths of a world. Models are imported here, on demand: they compile kernels."""
    match name:
        case "mass_spring":
            from weft.dynamics.mass_spring import MassSpring

            return MassSpring.from_world(world)
        case "position_based":
            from weft.dynamics.position_based.model import PositionBased

            return PositionBased.from_world(world)
        case "implicit":
            from weft.dynamics.implicit.model import Implicit

            return Implicit.from_world(world)
    raise ValueError(f"no dynamics is called {name!r}")

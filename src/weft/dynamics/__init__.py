"""Internal dynamics: what cloth would do if nothing were in its way. One file a model."""

from collections.abc import Callable
from typing import Protocol

import warp as wp

from weft.world import State, World

Contacts = Callable[[wp.array, wp.array], None]
"""Corrects positions that were elsewhere, its second argument, at the start of a substep; launches kernels only."""


class Dynamics(Protocol):
    """A model of cloth that proposes where it would go in a step."""

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: Contacts | None = None,
    ) -> int:
        """Write positions and velocities of the cloth after dt; gives the number of substeps it took.

        Vertices without inverse mass go straight from where they are to `target`. Dynamics that solve positions call
        `contacts` in each substep; others leave contacts to what comes after them.
        """


def make_dynamics(name: str, world: World) -> Dynamics:
    """The model that a scene names, for all cloths of a world."""
    match name:
        case "mass_spring":
            from weft.dynamics.mass_spring import MassSpring

            return MassSpring.from_world(world)
        case "position_based":
            from weft.dynamics.position_based import PositionBased

            return PositionBased.from_world(world)
        case "implicit":
            from weft.dynamics.implicit import Implicit

            return Implicit.from_world(world)
    raise ValueError(f"no dynamics is called {name!r}")

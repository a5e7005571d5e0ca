"""Internal dynamics: what cloth would do if nothing were in its way. One file a model."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import warp as wp

from weft.world import State, World


class Contacts(Protocol):
    """What position-based dynamics call in every substep."""

    @property
    def given(self) -> tuple[Any, ...]:
        """What a call depends on besides the positions (see `weft.runtime.graph_cache`)."""

    def __len__(self) -> int:
        """How many there are."""

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct positions that were at `before` at the start of the substep; launches kernels only.

        Both are rows: a position and the inverse mass.
        """


class Dynamics(Protocol):
    """A model of cloth that proposes where it would go in a step."""

    @property
    def central(self) -> bool:
        """Whether the average velocity over a step is that of its middle; else substeps move with their end velocity."""

    def foresee(self, state: State, dt: float) -> None:
        """Find out early what `propose` will have to know of the state; may be left out."""

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

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step depends on besides the state."""

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Take up what `saved` gave."""


class Forgetful:
    """Dynamics whose steps depend on the state alone."""

    def saved(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        pass


def make_dynamics(name: str, world: World) -> Dynamics:
    """The model that a scene names, for all cloths of a world."""
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

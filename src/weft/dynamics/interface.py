"""What every model of cloth dynamics offers, and what position-based models ask of contacts."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import warp as wp

from weft.world import State


class SubstepContacts(Protocol):
    """Contacts that position-based dynamics solve together with their springs, once in every substep."""

    @property
    def given(self) -> tuple[Any, ...]:
        """All that a call depends on besides the positions: the key of its CUDA graph (see `weft.runtime.graph_cache`)."""

    def __len__(self) -> int:
        """The number of contacts."""

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct the positions `x`, which were `before` at the start of the substep. Only launches kernels.

        Both arrays hold packed vertices (see `packed_vertices`): x, y, z and the inverse mass.
        """


class Dynamics(Protocol):
    """A model of cloth without contact: from the state at the start of a step to positions and velocities at its end."""

    @property
    def central(self) -> bool:
        """Whether the average velocity over a step is the velocity at its middle, as it is with central differences.

        Else the substeps move with the velocity of their ends, and so does a step of a single substep.
        """

    def measure_ahead(self, state: State, dt: float) -> None:
        """Launch on the device what `propose` will need to know of this state for a step of `dt`.

        Optional: it only lets other work overlap with the readback.
        """

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: SubstepContacts | None = None,
    ) -> int:
        """Write the positions and velocities of the cloth after dt; returns the number of substeps taken.

        Vertices without inverse mass move on a straight line to `target`. Models that solve for positions call
        `contacts` in each substep; models that solve for velocities ignore them, and the caller answers contacts later.
        """

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step depends on besides the state, for a run that is resumed."""

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Restore what `saved` returned."""


class StatelessDynamics:
    """Base of models whose steps depend on the state alone: nothing to save."""

    def saved(self) -> dict[str, np.ndarray]:
        return {}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        pass

"""Contacts inside the substeps of position-based dynamics: springs and contacts find their balance together.

Contacts are found once a step; in every substep the pairs that are nearer than they should be are moved apart, and
their sliding is held back by friction, as far as the push of that substep allows: that since the start of the step where
they touched then, else that over the substep.
"""

from typing import Any

import warp as wp

from weft.contact.contact_sweeps import part_together
from weft.contact.impulses import ImpulseRows, ImpulseSolver


class PositionContacts:
    """The contacts of a step as position-based dynamics meet them: called once a substep."""

    def __init__(self, solver: ImpulseSolver, rows: ImpulseRows) -> None:
        self.solver, self.rows = solver, rows
        self._inputs: tuple[Any, ...] = ()

    def __len__(self) -> int:
        """How many there are."""
        return self.rows.count

    @property
    def given(self) -> tuple[Any, ...]:
        """What a call depends on besides the positions."""
        return self.solver.threads_for(self.rows.most), *self._arrays

    @property
    def _arrays(self) -> tuple[wp.array, ...]:
        rows = self.rows
        return rows.vertices, rows.weights, rows.normals, rows.distances, rows.gaps, rows.gains, rows.friction

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct positions x that were at `before` when the substep started; both are rows, beside inverse masses."""
        solver = self.solver
        inputs = (solver.offsets, *self._arrays, before, x)
        # the same tuple in all substeps of a step is looked at once
        if len(inputs) != len(self._inputs) or any(a is not b for a, b in zip(inputs, self._inputs, strict=True)):
            self._inputs = inputs
        solver.run(self.rows.most, part_together, self._inputs)

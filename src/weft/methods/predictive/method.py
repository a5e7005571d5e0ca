"""`predictive`: Lewin 2018, *Cloth self collision with predictive contacts*.

A step: pins, colliders and animations say where they will be at its end; a prediction without self-contact shows where the
cloth goes; contacts are made once, for everything that is near or will be (`search`, `half_spaces`); then every substep
solves bending and lines of springs, and sweeps over animations, attachments, contacts and colliders (`substeps`, on CUDA
`cuda_substeps`).
The order of these is in `solver`, and `plan` decides on which path they are executed.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.methods.base import Method, StepReport
from weft.methods.predictive.solver import PredictiveSolver
from weft.scene import Predictive as PredictiveOptions
from weft.world import State, World


class Predictive(Method):
    """Position-based cloth with predictive contacts."""

    name = "predictive"

    def __init__(self, world: World, options: PredictiveOptions) -> None:
        super().__init__(world, options)
        self.steps = options.steps
        self.solver = PredictiveSolver(world, options)
        self._phase = -1
        self._counts: list[dict[str, int]] = []
        self._carried, self._carried_v = wp.zeros_like(world.target), wp.zeros_like(world.target)
        if options.cache and self.solver.search is not None:
            world.begin_step(world.initial_state(), 1.0 / world.scene.fps)
            pose = self.solver.read_pose()
            self.solver.cache_contacts(world.initial_state().x if pose is None else pose)

    def early_impulse(self, dt: float) -> float:
        # substeps run from half of one after the start of the step to half of one after its end
        return 0.5

    def steps_a_frame(self) -> int:
        return self.steps

    def step(self, state: State, dt: float) -> StepReport:
        world, solver = self.world, self.solver
        # where pins, colliders and animations are at the end of the step
        world.begin_step(state, dt)
        self._attach(state)
        solver.colliders.follow(state.time, state.time + dt)
        solver.goals.follow(state.time, state.time + dt)
        world.carry_colliders(state, dt, self._carried, self._carried_v)
        # predict, find contacts, and solve all substeps
        solver.advance(state.x, state.v, world.target, state.time, dt)
        self._take_colliders(state)
        self._counts.append(solver.counts())
        return StepReport(contacts=self._counts[-1]["contacts"])

    def begin_frame(self) -> None:
        self._counts.clear()

    def frame_columns(self) -> dict[str, Any]:
        own = ("generated", "cached", "with_colliders", "pushed")
        return {name: sum(c[name] for c in self._counts) for name in own}

    def touching_distance(self) -> np.ndarray:
        """Vertices keep farther from round colliders, so that the edges between them do not dip in."""
        found = self.world.thickness.numpy().copy()
        bodies = self.world.bodies[len(self.world.cloths) :]
        for body, shape in zip(bodies, self.solver.colliders.shapes.numpy(), strict=True):
            found[body.vertices] += 2.0 * shape["rise"]
        return found

    def saved(self) -> dict[str, np.ndarray]:
        return self.solver.saved()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.solver.restore(saved)

    def _attach(self, state: State) -> None:
        """Attach vertices to the pins that hold now, when these have changed."""
        phase = self.world.kinematics.phase(state.time)
        if phase != self._phase:
            self._phase = phase
            self.solver.attach(self.world.kinematics.fixed(self.world.vertex_count, state.time))

    def _take_colliders(self, state: State) -> None:
        """Take the positions and velocities of collider vertices at the end of the step."""
        first = self.world.cloth_vertex_count
        count = self.world.vertex_count - first
        if count:
            wp.copy(state.x, self._carried, first, first, count)
            wp.copy(state.v, self._carried_v, first, first, count)

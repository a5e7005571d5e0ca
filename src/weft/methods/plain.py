"""`plain`: internal dynamics alone. Nothing is done about contact; cloth passes through everything."""

import numpy as np
import warp as wp

from weft.dynamics import make_dynamics
from weft.errors import SceneError
from weft.methods.base import Method, StepReport, early_impulse_of
from weft.scene import Plain as PlainOptions
from weft.world import State, World

# steps of a frame with position-based dynamics, as many as `robust` takes: bending is solved once a step, and with steps of a
# whole frame it is 20 % too soft and cloth at rest trembles
POSITION_BASED_STEPS = 6


class Plain(Method):
    """Springs, gravity, wind and pins."""

    name = "plain"

    def __init__(self, world: World, options: PlainOptions) -> None:
        super().__init__(world, options)
        if world.scene.broad_phase is not None:
            text = "plain does not search for contact, so that nothing would use it; leave it out"
            raise SceneError(world.scene.problem(("broad_phase",), text))
        self.dynamics = make_dynamics(options.dynamics, world)
        self.x_end = wp.zeros_like(world.target)
        self.v_end = wp.zeros_like(world.target)

        self.steps = POSITION_BASED_STEPS if options.dynamics == "position_based" else 1

    def early_impulse(self, dt: float) -> float:
        return early_impulse_of(self.dynamics)

    def steps_a_frame(self) -> int:
        return self.steps

    def step(self, state: State, dt: float) -> StepReport:
        world = self.world
        world.begin_step(state, dt)
        self.dynamics.propose(state, world.target, dt, self.x_end, self.v_end)
        world.carry_colliders(state, dt, self.x_end, self.v_end)
        state.take(self.x_end, self.v_end)
        return StepReport(problems=list(getattr(self.dynamics, "problems", ())))

    def saved(self) -> dict[str, np.ndarray]:
        return self.dynamics.saved()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.dynamics.restore(saved)

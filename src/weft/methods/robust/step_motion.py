"""The steps of a frame, and the motion within a step.

A step that cannot be resolved is tried again with half its length. A frame has a number of steps of equal length, each of
which may be halved several times. Time within a frame is counted in ticks, the shortest steps, so that steps of all
lengths end exactly with the frame.

`StepMotion` has the positions and velocities of all vertices within a step: free flight, what the dynamics propose, what
contacts leave of it.
"""

from typing import Any, Protocol

import warp as wp

from weft.methods.base import StepReport
from weft.runtime import launch
from weft.runtime.graph_cache import GraphCache
from weft.world import State, World

wp.set_module_options({"enable_backward": False})


# steps in a row that succeed before twice their length is tried again
GOOD_STEPS = 3


class TryStep(Protocol):
    """Takes a step of length dt that ends at the time `end`; gives None, with the state unchanged, if it is to be halved."""

    def __call__(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None: ...


class StepLengths:
    """How often the longest step is halved now, from frame to frame."""

    def __init__(self, steps: int, most_halvings: int) -> None:
        """`steps` of a frame while nothing goes wrong, each of which may be halved so often."""
        self._ticks, self._most = steps << most_halvings, most_halvings
        self.halvings = 0
        self.good_steps = 0

    def longest(self, fps: float) -> float:
        """The length of a step that is not halved, s."""
        return (1 << self._most) / (self._ticks * fps)

    def start(self, state: State, fps: float) -> float:
        """The time at which the next of the equal steps of a frame begins, s."""
        return state.frame / fps + (state.step << self._most) / (self._ticks * fps)

    def advance(self, state: State, fps: float, try_step: TryStep) -> list[StepReport]:
        """Take one of the longest steps of a frame, whole or in halves; gives the reports of those that succeeded."""
        ticks, most = self._ticks, self._most
        start, tick = state.frame / fps, state.step << most
        last = tick + (1 << most)
        reports: list[StepReport] = []
        while tick < last:
            length = 1 << (most - self.halvings)
            state.time = start + tick / (ticks * fps)
            ends_frame = tick + length == ticks
            end = (state.frame + 1) / fps if ends_frame else start + (tick + length) / (ticks * fps)
            report = try_step(state, length / (ticks * fps), end, may_halve=self.halvings < most)
            if report is None:
                self.halvings, self.good_steps = self.halvings + 1, 0
                continue
            reports.append(report)
            tick += length
            self.good_steps += 1
            # a longer step must begin at a multiple of its length
            if self.good_steps >= GOOD_STEPS and self.halvings > 0 and tick % (2 * length) == 0:
                self.halvings, self.good_steps = self.halvings - 1, 0
        return reports


ZERO = wp.constant(wp.float64(0.0))


@wp.kernel
def free_flight(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    target: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    dt: wp.float64,
    expected: wp.array[wp.vec3d],
):
    """Where each vertex would be after a step under gravity alone; prescribed ones are at their target."""
    i = first + wp.tid()
    if inverse_mass[i] == ZERO:
        expected[i] = target[i]
    else:
        expected[i] = x[i] + dt * (v[i] + dt * gravity)


@wp.kernel
def average_velocity(first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], dt: wp.float64, v: wp.array[wp.vec3d]):
    """The velocity that leads from x to the end in a step."""
    i = first + wp.tid()
    v[i] = (end[i] - x[i]) / dt


@wp.kernel
def move_along(first: int, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], dt: wp.float64, end: wp.array[wp.vec3d]):
    """Where the velocity leads in a step."""
    i = first + wp.tid()
    end[i] = x[i] + dt * v[i]


@wp.kernel
def add_change(first: int, free: wp.array[wp.vec3d], v: wp.array[wp.vec3d], v_end: wp.array[wp.vec3d]):
    """Change the velocity at the end by as much as contacts and collisions changed the average velocity."""
    i = first + wp.tid()
    v_end[i] = v_end[i] + v[i] - free[i]


class StepMotion:
    """The arrays of a step (vec3d, all vertices), and the passes over them."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.gravity = wp.vec3d(*world.scene.forces.gravity)
        self.expected = wp.zeros_like(world.target)
        """where vertices would be after free flight: what the search looks around"""
        self.proposed = wp.zeros_like(world.target)
        """where the internal dynamics propose that they are"""
        self.v = wp.zeros_like(world.target)
        """the average velocity of the step, which contacts and collisions change"""
        self.v_free = wp.zeros_like(world.target)
        """the average velocity before they do"""
        self.v_end = wp.zeros_like(world.target)
        """the velocity at the end of the step"""
        self.x_end = wp.zeros_like(world.target)
        """where the average velocity leads"""
        self._graphs = GraphCache(world.device)

    def fly_freely(self, state: State, dt: float) -> None:
        """Find the expected positions."""
        world = self.world
        inputs = [state.x, state.v, world.inverse_mass, world.target, self.gravity, dt, self.expected]
        self._graphs.run(lambda: self._run(free_flight, inputs), "free flight", state.x, state.v, dt)

    def average(self, state: State, dt: float) -> None:
        """Find the average velocity of the proposed motion; colliders take their prescribed one."""
        self.world.carry_colliders(state, dt, self.proposed, self.v_end)
        self._run(average_velocity, [state.x, self.proposed, dt, self.v])

    def note_free_velocity(self) -> None:
        """Remember the average velocity as it is before contacts change it."""
        wp.copy(self.v_free, self.v)

    def move(self, state: State, dt: float) -> None:
        """Find the positions at the end."""
        inputs = [state.x, self.v, dt, self.x_end]
        self._graphs.run(lambda: self._run(move_along, inputs), "move", state.x, dt)

    def carry_velocity(self, state: State, dt: float) -> None:
        """End the step: move, and carry the change of the average velocity over to the velocity at the end."""

        def finish() -> None:
            self._run(move_along, [state.x, self.v, dt, self.x_end])
            self._run(add_change, [self.v_free, self.v, self.v_end])
            state.take(self.x_end, self.v_end)

        self._graphs.run(finish, "carry velocity", state.x, state.v, dt)

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        launch(kernel, self.world.vertex_count, inputs, device=self.world.device)

"""`robust`: Bridson, Fedkiw and Anderson 2002. Cloth that starts without intersections stays without.

A step: the internal dynamics propose an end; contacts repel and rub; what would still collide gets impulses, then
impact zones, until nothing collides any more; only then do positions move.
"""

import math

import warp as wp

from weft.detection.broad_phase import make_broad_phase
from weft.detection.step_search import StepSearch
from weft.dynamics import make_dynamics
from weft.methods.base import Method, StepReport
from weft.response.impulses import ImpulseRows, ImpulseSolver
from weft.response.repulsion import LARGEST_PART, set_repulsion
from weft.scene import Robust as RobustOptions
from weft.world import State, World, launch

wp.set_module_options({"enable_backward": False})


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
def touch_vertices(first: int, vertices: wp.array[wp.vec4i], push: wp.array[wp.float64], touched: wp.array[int]):
    """Mark the vertices of contacts that pushed; whoever writes writes the same."""
    i = first + wp.tid()
    if push[i] > wp.float64(0.0):
        for k in range(4):
            touched[vertices[i][k]] = 1


@wp.kernel
def end_velocity(
    first: int,
    x: wp.array[wp.vec3d],
    proposed: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    dt: wp.float64,
    touched: wp.array[int],
    v_end: wp.array[wp.vec3d],
):
    """A touched vertex goes on with its average velocity, any other with the proposed one, changed as much."""
    i = first + wp.tid()
    if touched[i] != 0:
        v_end[i] = v[i]
    else:
        v_end[i] = v_end[i] + v[i] - (proposed[i] - x[i]) / dt


class Robust(Method):
    """Contacts, collisions and friction for any of the internal dynamics."""

    name = "robust"

    def __init__(self, world: World, options: RobustOptions) -> None:
        super().__init__(world, options)
        self.steps = options.steps
        self.sweeps = options.sweeps
        self.dynamics = make_dynamics(options.dynamics, world)
        self.search = StepSearch(
            make_broad_phase(world.scene.broad_phase, world.surface),
            world.thickness,
            world.rest_shape,
            world.largest_thickness,
        )
        self.rows = ImpulseRows(world.device)
        self.solver = ImpulseSolver(world.vertex_count, world.inverse_mass)
        self.stiffness = max(part.material.stretch for part in world.cloths)
        self.proposed, self.v_end, self.v, self.x_end = (wp.zeros_like(world.target) for _ in range(4))
        self.touched = wp.zeros(world.vertex_count, dtype=int, device=world.device)

    def steps_a_frame(self) -> int:
        return self.steps

    def step(self, state: State, dt: float) -> StepReport:
        world = self.world
        world.begin_step(state, dt)
        self.dynamics.propose(state, world.target, dt, self.proposed, self.v_end)
        world.carry_colliders(state, dt, self.proposed, self.v_end)
        self._run(average_velocity, [state.x, self.proposed, dt, self.v])

        contacts = self._repel(state, dt)
        report = self._collide(state, dt)
        report.contacts = contacts

        self._finish(state, dt)
        return report

    def _repel(self, state: State, dt: float) -> int:
        """Contacts at the start of the step: repulsion and friction."""
        contacts = self.search.find_contacts(state.x, self.proposed, self.rows)
        self._solve(0, LARGEST_PART, self.stiffness, dt)
        return contacts

    def _collide(self, state: State, dt: float) -> StepReport:
        """Impulses until the motion is free of collisions."""
        report = StepReport()
        for _ in range(20):
            self._run(move_along, [state.x, self.v, dt, self.x_end])
            known = self.rows.count
            found = self.search.find_collisions(state.x, self.x_end, self.rows)
            if found == 0:
                return report
            report.collisions += found
            self._solve(known, 1.0, math.inf, dt)
        report.problems.append("collisions were left over")
        return report

    def _finish(self, state: State, dt: float) -> None:
        """Move, and find the velocity that the next step starts with."""
        self.touched.zero_()
        launch(
            touch_vertices,
            self.rows.count,
            [self.rows.vertices, self.rows.push, self.touched],
            device=self.world.device,
        )
        self._run(end_velocity, [state.x, self.proposed, self.v, dt, self.touched, self.v_end])
        state.take(self.x_end, self.v_end)

    def _solve(self, known: int, part: float, stiffness: float, dt: float) -> None:
        """Set up the rows from `known` on, and solve all of them."""
        world, rows = self.world, self.rows
        tables = [world.inverse_mass, world.surface.vertex_body, world.friction_static, world.friction_kinetic]
        inputs = [known, rows.vertices, rows.weights, rows.gaps, rows.thickness, *tables, part, stiffness, dt]
        launch(set_repulsion, rows.count - known, [*inputs, *rows.impulses], device=world.device)
        self.solver.colour(rows)
        self.solver.sweep(rows, self.v, self.sweeps)

    def _run(self, kernel: wp.Kernel, inputs: list) -> None:
        launch(kernel, self.world.vertex_count, inputs, device=self.world.device)

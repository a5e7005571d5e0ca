"""Implicit cloth after Baraff and Witkin 1998: backward Euler, one linear solve a step, steps as long as a frame.

The change of velocity dv solves

    (M - h dF/dv - h^2 dF/dx) dv = h (F + dF/dx (h v + y))

with y the position corrections that constraints ask for; then v += dv, x += h v + y. What forces act on is in `elements`, the
forces and their derivatives are in `forces`, the matrix in `block_matrix`, the solver in `conjugate_gradients`.

One solve takes the forces as linear over the step. A step that strains a triangle by more than `largest_growth` is
discarded and taken again in halves (section 6 of the paper), down to 1/64.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air, WindField
from weft.dynamics.implicit.bending import Bending
from weft.dynamics.implicit.block_matrix import BlockMatrix, ExternalForces
from weft.dynamics.implicit.conjugate_gradients import ConjugateGradients, Solution
from weft.dynamics.implicit.elements import Elements, from_world
from weft.dynamics.implicit.forces import (
    Terms,
    TriangleArrays,
    measure_growth,
    pull_stitches,
    resist_wind,
    strain_triangles,
)
from weft.dynamics.implicit.free_flight import FreeFlight
from weft.dynamics.implicit.step_springs import WIDTH, StepSprings
from weft.dynamics.interface import SubstepContacts
from weft.errors import WeftError
from weft.runtime import launch
from weft.runtime.compaction import lanes_on
from weft.world import State, World
from weft.world.constraints import SETTLED, UNSURE, WRONG, ConstraintArrays, Constraints, ConstraintSource

wp.set_module_options({"enable_backward": False})

# halvings of a step at most: 0.26 ms of a step of 1/60 s, which is then taken however much it strains the cloth
MOST_HALVINGS = 6
# solves of a step at most, as long as a restraint calls the result unsure, or wrong
UNSURE_ROUNDS = 4
MOST_ROUNDS = 10
# factor of the solver's tolerance while restraints still change: their decisions need few digits
ROUGH = 10.0
# the solver's tolerance in the first step of a run: so tight that all devices, which round differently, start alike
FIRST_TOLERANCE = 1e-10
# triangles whose growth of strain one item measures
GROWTH_CHUNK = 128


@wp.kernel
def move_vertices(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    row_of: wp.array[int],
    change: wp.array[wp.vec3d],
    held: ConstraintArrays,
    h: wp.float64,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """Positions and velocities at the end of the step; a vertex held in all directions ends exactly where it must."""
    i = first + wp.tid()
    if held.directions[i] == 3:
        v_end[i] = held.velocity[i]
        x_end[i] = x[i] + (h * held.velocity[i] + held.shift[i])
        if inverse_mass[i] == wp.float64(0.0):
            x_end[i] = goal[i]
    else:
        speed = v[i] + change[row_of[i]]
        v_end[i] = speed
        x_end[i] = x[i] + (h * speed + held.shift[i])


@wp.kernel
def interpolate_goals(
    first: int,
    start: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    progress: wp.float64,
    goal: wp.array[wp.vec3d],
):
    """Where prescribed vertices and colliders are at the fraction `progress` of a step."""
    i = first + wp.tid()
    goal[i] = start[i] + progress * (target[i] - start[i])


def _triangle_arrays(elements: Elements, device: wp.Device | None) -> Any:
    """The triangles' part of the elements on a device."""

    def upload(values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=device)

    triangles: Any = TriangleArrays()
    triangles.faces, triangles.moduli = upload(elements.faces, wp.vec3i), upload(elements.moduli, wp.vec4d)
    triangles.p, triangles.q = upload(elements.p, wp.vec3d), upload(elements.q, wp.vec3d)
    triangles.delay, triangles.limit = upload(elements.delay, wp.float64), upload(elements.limit, wp.float64)
    return triangles


def _external_forces(air: Air, mass: wp.array, face_drag: wp.array) -> Any:
    """Gravity and air as the right-hand side reads them; `face_drag` holds the drag of each triangle."""
    external: Any = ExternalForces()
    external.mass = mass
    external.gravity, external.damping = air.gravity, wp.float64(air.damping)
    external.windy = int(air.wind is not None)
    external.face_offsets, external.face_items, external.face_force = air.lists
    external.face_drag = face_drag
    return external


class Implicit:
    """Backward Euler over stretch, shear and bend conditions."""

    central = False

    def __init__(
        self,
        elements: Elements,
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        tolerance: float = 3e-4,
        largest_growth: float = 0.25,
        most_iterations: int = 1000,
        pins_at: Callable[[float], int] | None = None,
        flight: bool = False,
    ) -> None:
        """`tolerance` is the fraction of the residual that the solver may leave, in the norm of its preconditioner.

        3e-4 leaves errors of up to 1 cm/s where cloth whips (see `benchmarks/implicit.py`). `largest_growth` is the growth of
        strain above which a step is taken again in halves. `pins_at` gives a number for a time, which changes when pinned
        vertices do; without it they never change. `flight`: whether cloth that nothing holds moves as `free_flight` says; not
        for methods that know only afterwards what holds it.
        """
        device = inverse_mass.device
        self.device = device
        self.count = len(mass)
        self.inverse_mass = inverse_mass
        self.air = air
        self.largest_growth = largest_growth
        self.problems: list[str] = []
        """what went wrong in the last step, as sentences for the report"""
        self.solutions: list[Solution] = []
        """the solves of the last step"""

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        def zeros(count: int, dtype: Any) -> wp.array:
            return wp.zeros(count, dtype=dtype, device=device)

        faces, stitches = len(elements.faces), len(elements.stitches)
        self._triangles = _triangle_arrays(elements, device)
        self.bending = Bending(elements.hinges, elements.bend_delay, self.count, device)
        self._pins_at, self._pins = pins_at, -1
        stitch_numbers = (elements.stitch_stiffness, elements.stitch_damping)
        self._stitches = [upload(elements.stitches, wp.vec3i), upload(elements.stitch_weights, wp.vec3d)]
        self._stitches += [upload(a, wp.float64) for a in stitch_numbers]

        terms = self._terms = Terms()
        terms.uu, terms.vv, terms.uv = (zeros(faces, wp.mat33d) for _ in range(3))
        terms.along_u, terms.along_v = (zeros(faces, wp.vec3d) for _ in range(2))
        terms.moment = self.bending.moment
        terms.stitch_along, terms.stitch_factor = zeros(stitches, wp.vec3d), zeros(stitches, wp.float64)

        self._drag = zeros(len(air.faces), wp.mat33d)
        self._external = _external_forces(air, upload(mass, wp.float64), self._drag)

        self.matrix = BlockMatrix(elements, self.bending.pairs(), self.count, device)
        self.step_springs = StepSprings(self.matrix, inverse_mass)
        """springs that act in the next step only"""
        self.solver = ConjugateGradients(
            self.matrix,
            self.step_springs,
            mass=float(mass.sum()),
            tolerance=tolerance,
            least_velocity=1e-9,
            most_iterations=most_iterations,
        )
        joined = [elements.faces[:, :2], elements.faces[:, 1:], elements.stitches[:, :2], elements.stitches[:, 1:]]
        self._flight = FreeFlight(np.concatenate(joined), np.asarray(mass, float)) if flight else None
        self.constraints = Constraints(self.count, device)
        self.matrix.set_bending(self.bending.pin(np.zeros(self.count, bool)))
        self._b, self._change, self._force = (zeros(self.count, wp.vec3d) for _ in range(3))
        self._tolerances = tolerance, tolerance
        """of final and of rough solves in this step"""
        self._growth = zeros(-(-faces // GROWTH_CHUNK), wp.float64)
        self._buffers: list[wp.array] = []

    @classmethod
    def from_world(cls, world: World, **options: Any) -> "Implicit":
        """All cloths and seams of a world, its masses and its forces."""
        elements = from_world(world)
        mass = world.mass[: world.cloth_vertex_count]
        phase = world.kinematics.phase
        return cls(elements, mass, world.inverse_mass, Air.from_world(world), pins_at=phase, **options)

    def measure_ahead(self, state: State, dt: float) -> None:
        """`propose` needs nothing measured early."""

    def saved(self) -> dict[str, np.ndarray]:
        return self.bending.memory.saved()

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self.bending.memory.restore(saved)

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: SubstepContacts | None = None,
        *,
        restraints: Sequence[ConstraintSource] = (),
    ) -> int:
        """Write where the cloth is after dt; returns the number of substeps taken.

        Vertices without inverse mass move on a straight line to `target`. Later restraints override earlier ones at the
        same vertex. `step_springs` act in this step and its substeps. `contacts` are ignored: they are for models that
        solve for positions.
        """
        self.problems, self.solutions = [], []
        self._pin(state.time)
        self.bending.memory.follow(state.x)
        usual = self.solver.tolerance
        first = min(usual, FIRST_TOLERANCE)
        self._tolerances = (first, first) if state.time == 0.0 else (usual, ROUGH * usual)
        growth = self._step(state.x, state.v, target, state.time, dt, x_end, v_end, restraints)
        substeps = 1
        if growth > self.largest_growth:
            substeps = self._take_smaller_steps(state, target, dt, x_end, v_end, restraints)
        if self._flight is not None:
            self._fly(self._flight, state, dt, x_end, v_end)
        return substeps

    def _fly(self, flight: FreeFlight, state: State, dt: float, x_end: wp.array, v_end: wp.array) -> None:
        """Correct the motion of the cloth that nothing holds."""
        arrays = [a[: self.count].numpy() for a in (state.x, state.v, x_end, v_end)]
        held = self.constraints.directions.numpy() > 0
        springs = self.step_springs
        joined = springs.columns[0].numpy()[: WIDTH * springs.count].reshape(-1, WIDTH)
        before, after = (arrays[0], arrays[1]), (arrays[2], arrays[3])
        turn = self.air.wind is None
        if flight.correct(before, after, held, joined, dt, damping=float(self.air.damping), turn=turn):
            x_end[: self.count].assign(after[0])
            v_end[: self.count].assign(after[1])

    def _pin(self, time: float) -> None:
        """Make the bending matrix that of the vertices which are pinned at this time."""
        pins = 0 if self._pins_at is None else self._pins_at(time)
        if pins != self._pins:
            self._pins = pins
            self.matrix.set_bending(self.bending.pin(self.inverse_mass.numpy()[: self.count] == 0.0))

    def _take_smaller_steps(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        restraints: Sequence[ConstraintSource],
    ) -> int:
        """The step in substeps, halved where they strain the cloth too much, doubled again where they do not."""
        if not self._buffers:
            self._buffers = [wp.zeros_like(state.x) for _ in range(3)]
        x, v, goal = self._buffers
        wp.copy(x, state.x)
        wp.copy(v, state.v)
        finest = 2**MOST_HALVINGS
        done, size, substeps = 0, finest // 2, 0
        worst = 0.0
        while done < finest:
            h = dt * size / finest
            progress = (done + size) / finest
            launch(interpolate_goals, len(goal), [state.x, target, progress, goal], device=self.device)
            growth = self._step(x, v, goal, state.time + dt * done / finest, h, x_end, v_end, restraints)
            if growth > self.largest_growth and size > 1:
                size //= 2
                continue
            worst = max(worst, growth)
            done += size
            substeps += 1
            wp.copy(x, goal)
            wp.copy(x, x_end, count=self.count)
            wp.copy(v, v_end, count=self.count)
            # doubled where a substep of twice the length may begin
            if growth < 0.5 * self.largest_growth and done % (2 * size) == 0 and done + 2 * size <= finest:
                size *= 2
        if np.isinf(worst):
            self.problems.append(f"contacts were not settled after {MOST_ROUNDS} solves of an implicit step")
        elif worst > self.largest_growth:
            self.problems.append(
                f"cloth was strained by {100.0 * worst:.0f} % within {1e3 * dt / finest:.2g} ms, "
                "the shortest step of the implicit dynamics"
            )
        return substeps

    def _step(
        self,
        x: wp.array,
        v: wp.array,
        goal: wp.array,
        time: float,
        h: float,
        x_end: wp.array,
        v_end: wp.array,
        restraints: Sequence[ConstraintSource],
    ) -> float:
        """One backward Euler step; returns the largest growth of strain in it, or infinity if restraints did not settle."""
        constraints = self.constraints
        constraints.begin(self.inverse_mass, x, goal, h)
        for restraint in restraints:
            restraint.begin(x, v, goal, h, constraints)
        self._blow(x, v, time)
        self._strain(x, v, h)
        self.matrix.assemble(self._terms, self._external, h)
        # restraints change on rough solves; then a final solve, which they review once more
        rough = bool(restraints)
        for round_ in range(MOST_ROUNDS):
            if round_ > 0:
                # a changed position correction changes the right-hand side, a solution the springs that act
                self._strain(x, v, h, solved=True)
            self.matrix.right_hand_side(self._terms, self._external, v, constraints.push, h, self._b)
            self.step_springs.pull(self._b)
            self._solve(v, first=round_ == 0, rough=rough)
            self._move(x, v, goal, h, x_end, v_end)
            if not restraints:
                break
            self.solver.constraint_forces(constraints, self._b, self._change, h, self._force)
            verdict = max(restraint.review(x_end, v_end, self._force, constraints) for restraint in restraints)
            if self.step_springs.press(self._change, h):
                verdict = max(verdict, UNSURE)
            if not rough and (verdict == SETTLED or (verdict == UNSURE and round_ >= UNSURE_ROUNDS)):
                break
            rough = verdict == WRONG or (verdict == UNSURE and round_ + 1 < UNSURE_ROUNDS)
        else:
            # a shorter step changes fewer contacts
            return np.inf
        return self._measure(x, x_end)

    def _blow(self, x: wp.array, v: wp.array, time: float) -> None:
        wind: WindField | None = self.air.wind
        if wind is not None:
            self.air.blow(x, v, time)
            launch(resist_wind, len(self._drag), [x, v, self.air.faces, wind, time, self._drag], device=self.device)

    def _strain(self, x: wp.array, v: wp.array, h: float, *, solved: bool = False) -> None:
        """Compute the terms of all elements and springs for a step h; `solved`: there was a solve in this step."""
        t, moved = self._terms, [x, v, self.constraints.shift]
        faces, stitches = len(t.uu), len(t.stitch_along)
        inputs = [*moved, self._triangles, h, t]
        launch(strain_triangles, faces, inputs, device=self.device, grain=256)
        self.bending.bend(x, v, self.constraints.shift, h)
        launch(
            pull_stitches, stitches, [*moved, *self._stitches, h, t.stitch_along, t.stitch_factor], device=self.device
        )
        self.step_springs.strain(x, v, self.constraints.shift, h, solved=solved)

    def _solve(self, v: wp.array, *, first: bool, rough: bool) -> None:
        tolerance = self._tolerances[int(rough)]
        solution = self.solver.solve(self._b, v, self.constraints, self._change, warm=not first, tolerance=tolerance)
        self.solutions.append(solution)
        if not np.isfinite(solution.residual):
            raise WeftError(
                "the implicit step has no finite answer: positions or velocities grew beyond all bounds; "
                "take shorter steps or check the forces and motions of the scene"
            )
        # the first step tries for more than it needs
        if not solution.converged and solution.residual > self.solver.tolerance:
            self.problems.append(
                f"the implicit step's solver stopped after {solution.iterations} iterations "
                f"with {solution.residual:.1g} of the residual left"
            )

    def _move(self, x: wp.array, v: wp.array, goal: wp.array, h: float, x_end: wp.array, v_end: wp.array) -> None:
        inputs = [x, v, goal, self.inverse_mass, self.matrix.row_of, self._change, self.constraints.held, h]
        launch(move_vertices, self.count, [*inputs, x_end, v_end], device=self.device)

    def _measure(self, x: wp.array, x_end: wp.array) -> float:
        inputs = [x, x_end, self._triangles, GROWTH_CHUNK, self._growth]
        launch(measure_growth, len(self._growth) * lanes_on(self.device), inputs, device=self.device, grain=8)
        return float(np.max(self._growth.numpy(), initial=0.0))

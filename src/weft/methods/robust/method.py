"""`robust`: Bridson, Fedkiw and Anderson 2002. Cloth that starts without intersections stays without.

A step: contacts are found; the internal dynamics propose an end that respects them; what would still come too near is
repelled and rubs; what would still collide gets impulses, then impact zones, until nothing collides any more. Only
then do positions move. A step that cannot be made free by impulses is tried again with half its length.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import warp as wp

from weft.broad_phase.lists import LIMIT, TooManyPairs
from weft.contact.impulses import ContactList, ImpulseSolver
from weft.contact.repulsion import REMOVED_OVERLAP, set_repulsion
from weft.contact.step_search import USUAL_REACH, StepSearch, length_scale
from weft.contact.substep_contacts import PositionContacts
from weft.contact.touching import TOUCHING, move_off
from weft.dynamics import make_dynamics
from weft.dynamics.springs import from_world
from weft.errors import SceneError
from weft.methods.base import Method, StepReport, exact_broad_phase, summarise, worst_stretch
from weft.methods.robust.impact_zones import Zones, carried_velocity, rigid_velocity
from weft.methods.robust.kernels import average_velocity, end_velocity, expect, move_along
from weft.methods.robust.strain_limits import StrainLimits
from weft.runtime import launch
from weft.runtime.buffers import allocation_epoch
from weft.runtime.graph_cache import GraphCache
from weft.scene import Robust as RobustOptions
from weft.world import State, World

if TYPE_CHECKING:
    from weft.methods.robust.end_velocity import EndVelocitySolver

# pairs of features a triangle from which on a step is better halved than searched
MANY_PAIRS = 60
# pairs of one cloth that are nearer along it than this many edges do not rub
FOLD = 3.0
# steps between neighbouring numbers (float64) that the thickness must have, or rounding would decide about contacts
LEAST_SPACINGS = 1000
# sweeps over the springs that would break a strain limit
STRAIN_SWEEPS = 8
# cloth counts as pressed for so many steps after one with collisions: then contacts are looked for farther away and swept
# more often
PRESSED_STEPS = 8
# collisions a vertex in a step from which on it counts as crushed
CRUSHED_PART = 0.003
# how far beyond the thickness contacts of such cloth are looked for, in parts of it. Folds under tension move by more than a
# thickness in a step, and not as they flew before: what is near may be met
PRESSED_REACH, CRUSHED_REACH = 1.0, 1.5
# sweeps over the contacts of pressed cloth, and in each of the rounds of impulses; then come rounds in which all rows are
# solved to the end
PRESSED_SWEEPS = 10
# so many sweeps do in a round of at most this part of all rows, where there are more than `MANY_ROWS`: all of them are swept
# for the few that collide
FEW_SWEEPS = 5
FEW_PART = 1e-3
MANY_ROWS = 100_000
IMPULSE_ROUNDS = 5
INELASTIC_ROUNDS = 8
INELASTIC_SWEEPS = 20
# rounds of rigid zones: first they turn, then they only translate, then they stop
TURNING_ROUNDS = 4
RIGID_ROUNDS = 40


class Robust(Method):
    """Contacts, collisions and friction for any of the internal dynamics."""

    name = "robust"

    def __init__(self, world: World, options: RobustOptions) -> None:
        super().__init__(world, options)
        self.options: RobustOptions = options
        self.dynamics = make_dynamics(options.dynamics, world)
        _refuse_coarse_numbers(world)
        colliders = range(len(world.cloths), len(world.bodies))
        self.search = StepSearch(
            exact_broad_phase(world, world.surface, self.name, passive=colliders),
            world.thickness,
            world.rest_shape,
            world.largest_thickness,
            finest_length=world.finest_length,
            stitches=world.seams.nearest(),
        )
        self.rows = ContactList(world.device)
        self.solver = ImpulseSolver(world.vertex_count, world.inverse_mass)
        self.position_contacts = PositionContacts(self.solver, self.rows)
        self.end_velocity_solver = self._make_half_step()
        self.strain_limits = StrainLimits(from_world(world), world.inverse_mass)
        self.stiffness = max((part.material.stretch for part in world.cloths), default=0.0)
        self.folds = wp.array(FOLD * _edge_lengths(world), dtype=wp.float64, device=world.device)
        self.gravity = wp.vec3d(*world.scene.forces.gravity)
        self.expected, self.proposed, self.x_end = (wp.zeros_like(world.target) for _ in range(3))
        self.v, self.v_free, self.v_end = (wp.zeros_like(world.target) for _ in range(3))
        self._graphs = GraphCache(world.device)
        self.many_collisions = max(20, world.cloth_vertex_count // 8)
        self.many_pairs = MANY_PAIRS * len(world.faces) + 1_000_000
        # how often the longest step is halved now, how many steps went well since, and for how many
        # steps to come the cloth counts as pressed and as crushed
        self.halvings = 0
        self.good_steps = 0
        self.pressed = 0
        self.crushed = 0
        # when the next step starts
        self._next_time = 0.0

    def _make_half_step(self) -> "EndVelocitySolver | None":
        """What finds the velocity at the end of steps, where it is to be solved for."""
        if self.options.end_velocity == "carried":
            return None
        from weft.methods.robust.end_velocity import EndVelocitySolver

        return EndVelocitySolver.from_world(self.world)

    def begin(self, state: State) -> int:
        return move_off(self.world, state, self._find_touching)

    def steps_a_frame(self) -> int:
        return self.options.steps

    def advance_frame(self, state: State) -> dict[str, Any]:
        """Steps of varying length that end with the frame; the clock counts the shortest ones."""
        fps, finest = self.world.scene.fps, self.options.halvings
        ticks = self.options.steps << finest
        start, tick = state.frame / fps, 0
        reports: list[StepReport] = []
        while tick < ticks:
            length = 1 << (finest - self.halvings)
            state.time = start + tick / (ticks * fps)
            ends_frame = tick + length == ticks
            self._next_time = (state.frame + 1) / fps if ends_frame else start + (tick + length) / (ticks * fps)
            report = self._try_step(state, length / (ticks * fps), may_halve=self.halvings < finest)
            if report is None:
                self.halvings, self.good_steps = self.halvings + 1, 0
                continue
            reports.append(report)
            tick += length
            self.good_steps += 1
            # after three good steps try twice the length, where that fits the clock
            if self.good_steps >= 3 and self.halvings > 0 and tick % (2 * length) == 0:
                self.halvings, self.good_steps = self.halvings - 1, 0
        state.frame += 1
        state.time = state.frame / fps
        return {"steps": len(reports), **summarise(reports), "stretch": worst_stretch(self.world, state)}

    def velocities(self, state: State) -> np.ndarray:
        """Where contacts changed the motion of a vertex in the last step, that motion.

        The velocity that the next step goes on from may be a part of it that contacts will hold back again.
        """
        if self.end_velocity_solver is not None:
            return state.velocities()
        v = self.v.numpy()
        held = (v != self.v_free.numpy()).any(axis=1)
        return np.where(held[:, None], v, state.velocities())

    def saved(self) -> dict[str, np.ndarray]:
        stepping = np.array([self.halvings, self.good_steps, self.pressed, self.crushed])
        return {"stepping": stepping, **self.dynamics.saved()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.halvings, self.good_steps, self.pressed, self.crushed = saved["stepping"].tolist()[:4]
        self.dynamics.restore(saved)

    def step(self, state: State, dt: float) -> StepReport:
        self._next_time = state.time + dt
        report = self._try_step(state, dt, may_halve=False)
        assert report is not None
        return report

    def _try_step(self, state: State, dt: float, *, may_halve: bool) -> StepReport | None:
        """A step of dt; None where it could not be resolved, or its pairs are too many, and a shorter step may do."""
        self.search.broad_phase.set_limit(self.many_pairs if may_halve else LIMIT)
        try:
            return self._resolve_step(state, dt, may_halve=may_halve)
        except TooManyPairs:
            # so much moves farther than its triangles are large that a shorter step is less work
            if may_halve:
                return None
            raise

    def _resolve_step(self, state: State, dt: float, *, may_halve: bool) -> StepReport | None:
        """A step of dt; None where impulses alone could not resolve it and a shorter step may."""
        world = self.world
        world.begin_step(state, dt)
        report = StepReport(contacts=self._find_contacts(state, dt))
        with self._graphs.fuse():
            substeps = self.dynamics.propose(state, world.target, dt, self.proposed, self.v_end, self.position_contacts)
            self._graphs.run(lambda: self._take_proposal(state, dt), "take", state.x, dt)
            self.solver.sweep(self.rows, self.v, PRESSED_SWEEPS if self.pressed else self.options.sweeps)
            # while a card is busy with all that, the host has time to see where colliders will be
            if self.world.kinematics.moving:
                self.world.kinematics.poses(self._next_time, self._next_time + dt)
            found = self._collisions(state, dt, report)
        if not self._give_impulses(state, dt, report, found, may_halve=may_halve):
            if may_halve:
                return None
            self._move_in_zones(state, dt, report)
        if self.end_velocity_solver is not None and self.rows.count:
            self._finish_implicitly(self.end_velocity_solver, state, dt, substeps, report)
        else:
            self._finish(state, dt)
        self.pressed = PRESSED_STEPS if report.collisions else max(0, self.pressed - 1)
        crushed = report.collisions > CRUSHED_PART * world.cloth_vertex_count
        self.crushed = PRESSED_STEPS if crushed else max(0, self.crushed - 1)
        return report

    def _take_proposal(self, state: State, dt: float) -> None:
        """The velocities of what the dynamics propose, within the limits on strain."""
        self.world.carry_colliders(state, dt, self.proposed, self.v_end)
        self._run(average_velocity, [state.x, self.proposed, dt, self.v])
        # both velocities on their own: carrying the change of one over to the other would add energy
        self.strain_limits.apply(state.x, self.v, self.options.strain_limit, dt, STRAIN_SWEEPS, v_too=self.v_end)
        wp.copy(self.v_free, self.v)

    def _find_touching(self, x: wp.array) -> tuple[np.ndarray, np.ndarray]:
        """The stencils that touch where everything is."""
        rows = self.rows
        self.search.find_contacts(x, x, rows)
        touching = np.flatnonzero(rows.gaps[: rows.count].numpy() < TOUCHING * length_scale(self.world.finest_length))
        return rows.vertices.numpy()[touching], rows.weights.numpy()[touching]

    def _find_contacts(self, state: State, dt: float) -> int:
        """Contacts of the step, from where everything would fly freely."""
        world, rows = self.world, self.rows
        inputs = [state.x, state.v, world.inverse_mass, world.target, self.gravity, dt, self.expected]
        reach = CRUSHED_REACH if self.crushed else PRESSED_REACH if self.pressed else USUAL_REACH
        with self._graphs.fuse():
            self._graphs.run(lambda: self._run(expect, inputs), "expect", state.x, state.v, dt)
            self.dynamics.foresee(state, dt)
            contacts = self.search.find_contacts(state.x, self.expected, rows, reach=reach)
            self.solver.order_by_colour(rows)
            given = ("repulsion", rows.launch_bound, rows.vertices, dt, allocation_epoch())
            self._graphs.run(lambda: self._set_up(0, REMOVED_OVERLAP, self.stiffness, dt), *given)
        return contacts

    def _limit_strain(self, state: State, v: wp.array, dt: float) -> None:
        """Slow the springs that would stretch or shrink too far or too fast."""
        self.strain_limits.apply(state.x, v, self.options.strain_limit, dt, STRAIN_SWEEPS)

    def _give_impulses(self, state: State, dt: float, report: StepReport, found: int, *, may_halve: bool) -> bool:
        """Stop the pairs that would collide, of which so many were found; True if none is left.

        A few rounds with few sweeps, then rounds that solve all contacts and collisions to the end together: those are
        the inelastic impact zones of Harmon et al. 2008, found by Gauss-Seidel.
        """
        for round_number in range(IMPULSE_ROUNDS + INELASTIC_ROUNDS):
            if round_number > 0:
                found = self._collisions(state, dt, report)
            if found == 0:
                return True
            known = self.rows.count - found
            many = may_halve and round_number == 0 and found > self.many_collisions
            if many and self._real_collisions(known) > self.many_collisions:
                return False
            # limits that pull against the impulses would never let all of them be resolved
            if round_number < IMPULSE_ROUNDS:
                self._limit_strain(state, self.v, dt)
                few = known > MANY_ROWS and found < FEW_PART * known
                self.solver.sweep(self.rows, self.v, FEW_SWEEPS if few else PRESSED_SWEEPS)
            else:
                self.solver.sweep(self.rows, self.v, INELASTIC_SWEEPS)
        return False

    def _move_in_zones(self, state: State, dt: float, report: StepReport) -> None:
        """Rigid impact zones that grow until the motion is free."""
        zones = Zones()
        for round_number in range(RIGID_ROUNDS):
            known = self.rows.count
            if self._collisions(state, dt, report) == 0:
                break
            zones.add(self.rows.vertices[known : self.rows.count].numpy())
            if not self._move_rigidly(zones, state, dt, round_number):
                report.problems.append("colliders that close on the cloth or deform hold it between them")
                break
        else:
            report.problems.append(f"collisions were left after {RIGID_ROUNDS} rounds of impact zones")
        report.zones += len(zones.groups())

    def _move_rigidly(self, zones: Zones, state: State, dt: float, round_number: int) -> bool:
        """Give every zone a rigid motion; False where none can be right."""
        x, v = state.x.numpy(), self.v.numpy()
        inverse_mass, target = self.world.inverse_mass.numpy(), self.world.target.numpy()
        possible = True
        for group in zones.groups():
            fixed = group[inverse_mass[group] == 0.0]
            if len(fixed):
                carried = carried_velocity(x[group], x[fixed], target[fixed], dt)
                if carried is None:
                    possible = False
                    continue
                v[group] = carried
            elif round_number < RIGID_ROUNDS // 2:
                turning = round_number < TURNING_ROUNDS
                v[group] = rigid_velocity(x[group], v[group], 1.0 / inverse_mass[group], dt, turning=turning)
            else:
                v[group] = 0.0
        self.v.assign(v)
        return possible

    def _finish(self, state: State, dt: float) -> None:
        """Move, and find the velocity that the next step starts with."""

        def finish() -> None:
            self._run(move_along, [state.x, self.v, dt, self.x_end])
            self._run(end_velocity, [self.v_free, self.v, self.v_end])
            state.take(self.x_end, self.v_end)

        self._graphs.run(finish, "finish", state.x, state.v, dt)

    def _finish_implicitly(
        self, end_velocity_solver: "EndVelocitySolver", state: State, dt: float, substeps: int, report: StepReport
    ) -> None:
        """The same where something touched and the velocity at the end is to be solved for (section 7 of the paper)."""
        self._run(move_along, [state.x, self.v, dt, self.x_end])
        # substeps that kick before they drift are ahead by half of one
        left = 0.5 * (dt if self.dynamics.central else dt - dt / substeps)
        solution = end_velocity_solver.take(state, self.world.target, dt, self.x_end, self.v, left, self.v_end)
        if not solution.converged:
            report.problems.append(f"the velocity at the end was not found in {solution.iterations} iterations")
        state.take(self.x_end, self.v_end)

    def _collisions(self, state: State, dt: float, report: StepReport) -> int:
        """Move along the velocities and add what would collide to the rows; gives how many."""
        known = self.rows.count
        with self._graphs.fuse():
            inputs = [state.x, self.v, dt, self.x_end]
            self._graphs.run(lambda: self._run(move_along, inputs), "move", state.x, dt)
            found = self.search.find_collisions(state.x, self.x_end, self.rows)
        report.collisions += found
        if found:
            self._set_up(known, 1.0, math.inf, dt)
            self.solver.colour_appended(self.rows)
        return found

    def _real_collisions(self, known: int) -> int:
        """How many of the rows from `known` on were no contacts when the step began."""
        gaps = self.rows.gaps[known : self.rows.count].numpy()
        return int((gaps > self.world.largest_thickness).sum())

    def _set_up(self, known: int, part: float, stiffness: float, dt: float) -> None:
        """What the rows from `known` on ask of the velocities."""
        world, rows = self.world, self.rows
        tables = [world.inverse_mass, world.surface.vertex_body, world.friction_static, world.friction_kinetic]
        tables += [world.rest_shape, self.folds]
        inputs = [known, rows.size, rows.vertices, rows.weights, rows.gaps, rows.thickness, *tables]
        inputs += [part, stiffness, dt, *rows.impulses, rows.kept_distances]
        launch(set_repulsion, rows.launch_bound - known, inputs, device=world.device)

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        launch(kernel, self.world.vertex_count, inputs, device=self.world.device)


def _refuse_coarse_numbers(world: World) -> None:
    """Refuse a scene so far from the origin that its thickness is a few steps of the floating-point numbers there."""
    farthest = float(np.abs(world.rest_positions).max(initial=0.0))
    spacing = float(np.spacing(farthest))
    if world.finest_length < LEAST_SPACINGS * spacing:
        raise SceneError(
            world.scene.problem(
                (),
                f"something is {farthest:.3g} m from the origin, where numbers are {spacing:.2g} m apart: too coarse for "
                f"contact within {world.finest_length:.2g} m, the least of thickness and half an edge. Place the scene "
                f"nearer to the origin, or take a thickness of {LEAST_SPACINGS * spacing:.2g} m or more",
            )
        )


def _edge_lengths(world: World) -> np.ndarray:
    """The usual length of an edge of each body at rest; nothing for colliders."""
    edges, body = world.surface.edges.numpy(), world.surface.vertex_body.numpy()
    rest = world.rest_shape.numpy()
    lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    of_body = [lengths[body[edges[:, 0]] == number] for number in range(len(world.bodies))]
    return np.array([np.median(found) if number < len(world.cloths) else 0.0 for number, found in enumerate(of_body)])

"""`robust`: Bridson, Fedkiw and Anderson 2002. Cloth that starts without intersections stays without.

A step (`_advance`) follows section 3 of the paper. Contacts are found; the internal dynamics propose an end of the step
that respects them; its average velocity gets repulsion and friction; pairs that would still collide get impulses, and
where these do not suffice the step is tried again with half its length, or rigid impact zones move what is left.
Positions change only when nothing collides any more.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import warp as wp

from weft.broad_phase.lists import LIMIT, TooManyPairs
from weft.contact.execution_plan import ExecutionPlan
from weft.contact.impulses import ImpulseSolver
from weft.contact.lists import ContactList
from weft.contact.step_search import StepSearch, length_scale
from weft.contact.touching import TOUCHING, move_off
from weft.dynamics import make_dynamics
from weft.dynamics.seam_hinges import welded_pairs
from weft.dynamics.springs import from_world
from weft.errors import SceneError
from weft.methods.base import ContactForces, Method, StepReport, early_impulse_of, exact_broad_phase
from weft.methods.robust.collision_rounds import CollisionRounds, ContactStage
from weft.methods.robust.step_motion import StepLengths, StepMotion
from weft.methods.robust.strain_limits import StrainLimits
from weft.methods.robust.substep_contacts import PositionContacts
from weft.runtime.graph_cache import GraphCache
from weft.scene import Robust as RobustOptions
from weft.world import State, World

if TYPE_CHECKING:
    from weft.methods.robust.end_velocity import EndVelocitySolver

# a step with more candidates than so many a triangle, and so many besides, is halved rather than searched
MANY_PAIRS = 60
SOME_PAIRS = 1_000_000
# the finest length must be this many times the spacing of float64 numbers where the scene is, or rounding would decide
# about contacts
LEAST_SPACINGS = 1000
# sweeps over the springs that would break a strain limit
STRAIN_SWEEPS = 8
# the arrays of contacts that their forces come from
CONTACT_ARRAYS = (
    *("vertices", "weights", "normals", "gaps"),
    *("normal_impulses", "tangential_impulses", "least_impulses", "corrections"),
)


class LastStep(NamedTuple):
    """The step that was taken last, as far as the forces of its contacts need it."""

    dt: float
    substeps: int
    contacts: Callable[[], dict[str, np.ndarray]]
    """gives the arrays of its contacts on the host, by `CONTACT_ARRAYS`"""


class Robust(Method):
    """Contacts, collisions and friction for any of the internal dynamics."""

    name = "robust"

    def __init__(self, world: World, options: RobustOptions) -> None:
        super().__init__(world, options)
        _refuse_coarse_numbers(world)
        self.options: RobustOptions = options
        self.plan = ExecutionPlan.for_device(world.device)
        self.dynamics = self._make_dynamics()
        self.motion = StepMotion(world)
        self.strain_limits = self._make_strain_limits()
        self.contact_list = ContactList(world.device)
        self.search = self._make_search()
        self.solver = self._make_solver()
        self.contacts = ContactStage(world, self.search, self.solver, self.contact_list)
        self.collisions = CollisionRounds(world, self.contacts, self.motion, self._limit_strain)
        self.substep_contacts = PositionContacts(self.solver, self.contact_list)
        self.end_velocity_solver = self._make_end_velocity_solver()
        self.lengths = StepLengths(options.steps, options.halvings)
        self.many_pairs = MANY_PAIRS * len(world.faces) + SOME_PAIRS
        self._graphs = GraphCache(world.device)
        self.last_step = LastStep(1.0, 1, self._read_contacts)
        self.joined_report: StepReport | None = None
        """the report of the next step if it was taken already, with those of other worlds: the state is then at its end"""

    def _make_dynamics(self) -> Any:
        return make_dynamics(self.options.dynamics, self.world)

    def _make_strain_limits(self) -> StrainLimits:
        world = self.world
        seams = world.seams
        return StrainLimits.from_network(
            from_world(world), world.inverse_mass, welds=welded_pairs(seams), seams=seams.vertices
        )

    def _make_solver(self) -> ImpulseSolver:
        return ImpulseSolver(self.world.vertex_count, self.world.inverse_mass, self.plan)

    def _make_search(self) -> StepSearch:
        world = self.world
        colliders = range(len(world.cloths), len(world.bodies))
        return StepSearch(
            exact_broad_phase(world, world.surface, self.name, passive=colliders),
            world.thickness,
            world.rest_shape,
            world.largest_thickness,
            finest_length=world.finest_length,
            stitches=world.seams.nearest(),
            sewn=world.seams.vertices,
            plan=self.plan,
        )

    def _make_end_velocity_solver(self) -> "EndVelocitySolver | None":
        """What solves for the velocity at the end of a step, where the options ask for that."""
        if self.options.end_velocity == "carried":
            return None
        from weft.methods.robust.end_velocity import EndVelocitySolver

        return EndVelocitySolver.from_world(self.world)

    def begin(self, state: State) -> int:
        return move_off(self.world, state, self._find_touching)

    def early_impulse(self, dt: float) -> float:
        return early_impulse_of(self.dynamics)

    def steps_a_frame(self) -> int:
        return self.options.steps

    def divide_step(self, state: State, dt: float) -> list[StepReport]:
        return self.lengths.advance(state, self.world.scene.fps, self._try_step)

    def step(self, state: State, dt: float) -> StepReport:
        report = self._try_step(state, dt, state.time + dt, may_halve=False)
        assert report is not None
        return report

    def _try_step(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None:
        """A step of dt that ends at the time `end`; None where a shorter step is better."""
        if self.joined_report is not None:
            report, self.joined_report = self.joined_report, None
            return report
        self.search.broad_phase.set_limit(self.many_pairs if may_halve else LIMIT)
        try:
            return self._advance(state, dt, end, may_halve=may_halve)
        except TooManyPairs:
            # so much moves farther than its triangles are large that two half steps are less work
            if may_halve:
                return None
            raise

    def begin_together(self, state: State) -> bool:
        """Begin the next step, which is to be taken together with those of other worlds; False where that is impossible.

        Then, or if the step turns out to be one that cannot, it is taken alone as if it had not begun.
        """
        if self.lengths.halvings or self.contacts.pressed or self.contacts.crushed or self.world.on_step is not None:
            return False
        fps = self.world.scene.fps
        state.time = self.lengths.start(state, fps)
        self.world.prescribe(state, self.lengths.longest(fps))
        self.dynamics.pin(state)
        return True

    def _advance(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None:
        """A step of dt; None where impulses alone do not resolve all collisions and a shorter step may."""
        self._begin_step(state, dt)
        report = StepReport(contacts=self._find_contacts(state, dt))
        # one CUDA graph as far as the first test for collisions
        with self._graphs.fuse():
            substeps = self._propose(state, dt)
            self._average_velocity(state, dt)
            self.contacts.repel(self.motion.v, self.options.sweeps)
            # while a GPU is busy with all that, the host computes where colliders will be after the next step
            if self.world.kinematics.moving:
                self.world.kinematics.poses(end, end + dt)
            found = self.collisions.find(state, dt, report)
        if not self._resolve(state, dt, report, found, may_halve=may_halve):
            return None
        self._end_step(state, dt, substeps, report)
        self.contacts.note_collisions(report.collisions)
        self.last_step = LastStep(dt, substeps, self._read_contacts)
        return report

    def _begin_step(self, state: State, dt: float) -> None:
        """Set what is prescribed in the step."""
        self.world.begin_step(state, dt)

    def _find_contacts(self, state: State, dt: float) -> int:
        """Contacts of the step, found around the free flight of all vertices."""
        with self._graphs.fuse():
            self.motion.fly_freely(state, dt)
            self.dynamics.measure_ahead(state, dt)
            return self.contacts.find(state.x, self.motion.expected, dt)

    def _propose(self, state: State, dt: float) -> int:
        """Candidate positions and velocities by the internal dynamics; gives the number of substeps."""
        motion, contacts = self.motion, self.substep_contacts
        substeps: int = self.dynamics.propose(state, self.world.target, dt, motion.proposed, motion.v_end, contacts)
        contacts.take_impulses(dt / substeps)
        return substeps

    def _average_velocity(self, state: State, dt: float) -> None:
        """The average velocity of the step, and that at its end, within the limits on strain."""

        def average() -> None:
            self.motion.average(state, dt)
            # both on their own: carrying the change of one over to the other would add energy
            self._limit_strain(state, dt, v_too=self.motion.v_end)
            self.motion.note_free_velocity()

        self._graphs.run(average, "average velocity", state.x, dt)

    def _limit_strain(self, state: State, dt: float, *, v_too: wp.array | None = None) -> None:
        """Slow down the springs that would stretch or shrink too far or too fast in the step.

        Those that are too long come back by the proposed motion, which is limited together with the velocity at its end,
        `v_too`. Rounds of collisions, in which there may be many, would add as much each, and cause more collisions.
        """
        limits, v = self.strain_limits, self.motion.v
        limits.apply(state.x, v, self.options.strain_limit, dt, STRAIN_SWEEPS, v_too=v_too, returning=v_too is not None)

    def _resolve(self, state: State, dt: float, report: StepReport, found: int, *, may_halve: bool) -> bool:
        """Stop the pairs that would collide, of which `found` were found; False where a shorter step is to be tried."""
        if self.collisions.resolve(state, dt, report, found, may_halve=may_halve):
            return True
        if not may_halve:
            self.collisions.move_rigid_zones(state, dt, report)
        return not may_halve

    def _end_step(self, state: State, dt: float, substeps: int, report: StepReport) -> None:
        """Move to the end of the step, and find the velocity that the next one starts with."""
        if self.end_velocity_solver is None or self.contact_list.count == 0:
            self.motion.carry_velocity(state, dt)
            return
        motion = self.motion
        motion.move(state, dt)
        # the average velocity is that of the middle of the step, or half a substep later where substeps move with the
        # velocity at their end
        left = 0.5 * (dt if self.dynamics.central else dt - dt / substeps)
        arrays = motion.x_end, motion.v, left, motion.v_end
        solution = self.end_velocity_solver.take(state, self.world.target, dt, *arrays)
        if not solution.converged:
            report.problems.append(f"the velocity at the end was not found in {solution.iterations} iterations")
        state.take(motion.x_end, motion.v_end)

    def _find_touching(self, x: wp.array) -> tuple[np.ndarray, np.ndarray]:
        """Vertices and weights of the stencils that touch at the positions x."""
        contacts, distance = self.contact_list, TOUCHING * length_scale(self.world.finest_length)
        self.search.find_contacts(x, x, contacts)
        touching = np.flatnonzero(contacts.gaps[: contacts.count].numpy() < distance)
        return contacts.vertices.numpy()[touching], contacts.weights.numpy()[touching]

    def note_forces(self) -> bool:
        return True

    def contact_forces(self) -> ContactForces:
        """Impulses on velocities, and corrections of positions in substeps of length h, which are impulses of c / (W h).

        Those of contacts that touched when the step began are among the impulses on velocities.
        """
        dt, substeps, read_contacts = self.last_step
        found = read_contacts()
        vertices, weights, normals = (found[name] for name in ("vertices", "weights", "normals"))
        inverse = (weights**2 * self.world.inverse_mass.numpy()[vertices]).sum(axis=1)
        impulses = found["normal_impulses"][:, None] * normals + found["tangential_impulses"]
        corrections = np.where(found["least_impulses"][:, None] > 0.0, 0.0, found["corrections"])
        impulses += corrections * (substeps / dt / np.where(inverse > 0.0, inverse, np.inf))[:, None]
        return ContactForces(vertices, weights, normals, found["gaps"], impulses / dt)

    def _read_contacts(self) -> dict[str, np.ndarray]:
        """What the forces of the contacts of the last step come from."""
        contacts = self.contact_list
        return {name: getattr(contacts, name).numpy()[: contacts.count].copy() for name in CONTACT_ARRAYS}

    def velocities(self, state: State) -> np.ndarray:
        """The average velocity of the last step where contacts changed it, else the velocity at its end.

        The velocity that the next step starts from may contain motion that contacts will hold back again.
        """
        if self.end_velocity_solver is not None:
            return state.velocities()
        v = self.motion.v.numpy()
        held = (v != self.motion.v_free.numpy()).any(axis=1)
        return np.where(held[:, None], v, state.velocities())

    def saved(self) -> dict[str, np.ndarray]:
        stepping = [self.lengths.halvings, self.lengths.good_steps, self.contacts.pressed, self.contacts.crushed]
        return {"stepping": np.array(stepping), **self.dynamics.saved()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        # earlier versions saved more, which nothing depends on any more
        stepping = saved["stepping"].tolist()[:4]
        self.lengths.halvings, self.lengths.good_steps, self.contacts.pressed, self.contacts.crushed = stepping
        self.dynamics.restore(saved)


def _refuse_coarse_numbers(world: World) -> None:
    """Refuse a scene so far from the origin that its thickness is a few spacings of the floating-point numbers there."""
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

"""Steps of several worlds in the same launches: what Python and small kernels cost a step, they cost once for all worlds.

A step is that of `Robust` as far as worlds have it in common: contacts, the dynamics, repulsion, and the first test for
collisions. Each world has the bytes that it has alone. A world takes its step alone where that depends on more: where pairs
would collide, after steps that collided or were halved, where something crosses, or where nothing of this kind is known yet.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.contact.impulses import ImpulseSolver
from weft.dynamics.position_based.model import PositionBased
from weft.errors import WeftError
from weft.geometry.stencil import Kind
from weft.methods.base import StepReport
from weft.methods.joined.cloth import JoinedPositionBased
from weft.methods.joined.world import JoinedWorld
from weft.methods.robust.method import LastStep, Robust
from weft.methods.robust.strain_limits import StrainLimits
from weft.runtime import launch
from weft.world import State

wp.set_module_options({"enable_backward": False})

# the fraction of the worlds that must take a step together: all are computed, for less than half of what each costs alone
LEAST_FRACTION = 0.5


@wp.struct
class StepArrays:
    """What a step reads and writes, in a world of its own or in all of them together."""

    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    inverse_mass: wp.array[wp.float64]
    average: wp.array[wp.vec3d]
    """the average velocity of the step"""
    average_free: wp.array[wp.vec3d]
    """the same before contacts change it"""
    substep: wp.array[wp.float64]
    """its length: one for the vertices of a world, one for each vertex of all of them together"""
    rests: wp.array[wp.float64]
    pushes: wp.array[wp.float64]
    compliance: wp.array[wp.float64]
    """empty where no spring is limited in stretch"""


@wp.func
def copy_spring(source: StepArrays, i: int, to: StepArrays, k: int):
    """Copy what spring i remembers from one step to the next to spring k of others."""
    to.rests[k] = source.rests[i]
    to.pushes[k] = source.pushes[i]
    if to.compliance.shape[0] > 0:
        to.compliance[k] = source.compliance[i]


@wp.kernel
def gather_vertices(
    first: int,
    worlds: wp.array[StepArrays],
    world: wp.array[int],
    number: wp.array[int],
    joined: StepArrays,
    targets: wp.array2d[wp.vec3d],
):
    """Take positions, velocities and what is prescribed from the worlds; number[i] is the number of vertex i in world[i]."""
    i = first + wp.tid()
    k = number[i]
    own = worlds[world[i]]
    joined.x[i] = own.x[k]
    joined.v[i] = own.v[k]
    joined.target[i] = targets[world[i], k]
    joined.inverse_mass[i] = own.inverse_mass[k]
    joined.substep[i] = own.substep[0]


@wp.kernel
def gather_springs(
    first: int, worlds: wp.array[StepArrays], world: wp.array[int], slot: wp.array[int], joined: StepArrays
):
    """Take what springs remember; slot[i] is the number of spring i in world[i], which is negative for an empty slot."""
    i = first + wp.tid()
    if world[i] >= 0:
        copy_spring(worlds[world[i]], slot[i], joined, i)


@wp.kernel
def scatter_vertices(
    first: int,
    worlds: wp.array[StepArrays],
    world: wp.array[int],
    number: wp.array[int],
    joined: StepArrays,
    chosen: wp.array[int],
):
    """Give the chosen worlds the end of their step."""
    i = first + wp.tid()
    if chosen[world[i]] != 0:
        k = number[i]
        own = worlds[world[i]]
        own.x[k] = joined.x[i]
        own.v[k] = joined.v[i]
        own.average[k] = joined.average[i]
        own.average_free[k] = joined.average_free[i]
        if k == 0:
            own.substep[0] = joined.substep[i]


@wp.kernel
def scatter_springs(
    first: int,
    worlds: wp.array[StepArrays],
    world: wp.array[int],
    slot: wp.array[int],
    joined: StepArrays,
    chosen: wp.array[int],
):
    """Give the chosen worlds what springs remember."""
    i = first + wp.tid()
    if world[i] >= 0 and chosen[wp.max(world[i], 0)] != 0:
        copy_spring(joined, i, worlds[world[i]], slot[i])


class JoinedRobust(Robust):
    """The steps of several worlds, taken together as far as each then has the bytes that it has alone."""

    def __init__(self, methods: Sequence[Robust], states: Sequence[State]) -> None:
        """The methods can be joined (see `join_key`); their states keep their arrays."""
        self.methods, self.states = list(methods), list(states)
        joined = self.joined = JoinedWorld([method.world for method in methods])
        super().__init__(joined, methods[0].options)
        device = joined.device
        self.state = State.from_numpy(*np.zeros((2, joined.vertex_count, 3)), device=device)
        self._world, self._number = (
            wp.array(values, dtype=int, device=device) for values in (joined.world_of_vertex, joined.number)
        )
        self._slot = wp.array(self.dynamics.slot, dtype=int, device=device)
        self._arrays = [_arrays_of(method, state) for method, state in zip(methods, states, strict=True)]
        self._worlds = wp.array(self._arrays, dtype=StepArrays, device=device)
        self._joined_arrays = _arrays_of(self, self.state)
        targets = joined.targets
        self._targets = targets if device.is_cpu else wp.empty_like(targets, device=device, pinned=False)
        self._chosen = wp.zeros(len(methods), dtype=int, device=device)
        self._solves = 1
        self._taking: NDArray[np.int64] = np.zeros(0, np.int64)
        """the worlds that take the step together"""
        self._touched, self._substeps = (np.zeros(len(methods), np.int64) for _ in range(2))
        """the contacts and the substeps of each world in the step"""
        self._given: dict[int, LastStep] = {}
        """the last step of the worlds that took it together"""
        self._known = 0
        """contacts at the start of the last step, before pairs that would collide were appended"""
        self._own: dict[str, Any] | None = None
        """the contacts of the last step as host arrays, once they are read"""

    def _make_dynamics(self) -> Any:
        return JoinedPositionBased([method.dynamics for method in self.methods], self.joined)

    def _make_strain_limits(self) -> StrainLimits:
        limits = [method.strain_limits for method in self.methods]
        return StrainLimits.joined(limits, self.joined.place, self.joined.inverse_mass)

    def _make_solver(self) -> ImpulseSolver:
        world = self.joined
        return ImpulseSolver(world.vertex_count, world.inverse_mass, self.plan, numbers=world.number)

    def take_step(self, chosen: Sequence[int]) -> None:
        """Compute the next step of as many of the chosen worlds as possible, which their methods take as it is."""
        least = max(2, LEAST_FRACTION * len(self.methods))
        if len(chosen) < least:
            return
        ready = [k for k in chosen if self._begins(k)]
        # what all worlds of a step have in common
        common = [self._common(k) for k in ready]
        if not common:
            return
        most, _ = Counter(common).most_common(1)[0]
        self._solves = most[0]
        taking = [k for k, one in zip(ready, common, strict=True) if one == most]
        if len(taking) < least:
            return
        self._keep_contacts(taking)
        self.state.time = self.states[taking[0]].time
        self._taking = np.array(taking)
        refined = [method.dynamics.substeps.refined for method in self.methods]
        dt = self.methods[taking[0]].lengths.longest(self.joined.scene.fps)
        # where something is wrong each world takes its step alone, and names its own error
        with suppress(WeftError):
            self._advance(self.state, dt, self.state.time + dt, may_halve=False)
            self._give(dt)
        for method, before in zip(self.methods, refined, strict=True):
            if method.joined_report is None:
                method.dynamics.substeps.refined = before

    def _begins(self, k: int) -> bool:
        """Whether world k begins a step that can be taken together; where that fails, its own step raises the error."""
        try:
            return self.methods[k].begin_together(self.states[k])
        except Exception:
            return False

    def _common(self, k: int) -> tuple[int, float]:
        """How often a world solves bending in a step, and, where that matters, its time."""
        dt = self.methods[k].lengths.longest(self.joined.scene.fps)
        return self.methods[k].dynamics.solves(dt), 0.0 if self.dynamics.air.wind is None else self.states[k].time

    def _begin_step(self, state: State, dt: float) -> None:
        """Take the state of all worlds."""
        self._own = None
        if self.joined.device.is_cuda:
            wp.copy(self._targets, self.joined.targets)
        self._exchange(gather_vertices, gather_springs, [self._joined_arrays, self._targets], [self._joined_arrays])

    def _propose(self, state: State, dt: float) -> int:
        """What the dynamics propose, each world with its own number of substeps; one that needs far more drops out."""
        dynamics, ends = self.dynamics, (self.motion.proposed, self.motion.v_end)
        self._touched = np.bincount(self._worlds_of_contacts(0), minlength=len(self.methods))
        substeps = self._substeps = dynamics.count_substeps(self._solves, dt, self._touched > 0, self._taking)
        self._taking = self._taking[substeps[self._taking] > 0]
        target, contacts = self.joined.target, self.substep_contacts
        contacts.take_impulses(dynamics.propose_each(state, target, dt, ends, contacts, self._solves, substeps))
        return int(substeps.max())

    def _resolve(self, state: State, dt: float, report: StepReport, found: int, *, may_halve: bool) -> bool:
        """Worlds in which something would collide, or whose step is rather halved, drop out; nothing is left then."""
        self._known = self.contact_list.count - found
        report.collisions = 0
        alone = self._with_too_many_pairs()
        if found:
            alone = np.append(alone, self._worlds_of_contacts(self._known))
        self._taking = np.setdiff1d(self._taking, alone)
        return True

    def _end_step(self, state: State, dt: float, substeps: int, report: StepReport) -> None:
        super()._end_step(state, dt, substeps, report)
        flags = np.zeros(len(self.methods), np.int32)
        flags[self._taking] = 1
        self._chosen.assign(flags)
        given = [self._joined_arrays, self._chosen]
        self._exchange(scatter_vertices, scatter_springs, given, given)

    def _exchange(
        self, of_vertices: wp.Kernel, of_springs: wp.Kernel, vertices: Sequence[Any], springs: Sequence[Any]
    ) -> None:
        """Copy vertices and springs between the worlds and all of them together."""
        device, of_slot = self.joined.device, self.dynamics.of_slot
        launch(of_vertices, len(self._number), [self._worlds, self._world, self._number, *vertices], device=device)
        launch(of_springs, len(self._slot), [self._worlds, of_slot, self._slot, *springs], device=device)

    def _give(self, dt: float) -> None:
        """Let the methods of the worlds that took the step know that it is taken."""
        for k in self._taking.tolist():
            method, contacts = self.methods[k], partial(self._contacts_of, k)
            method.joined_report = StepReport(contacts=int(self._touched[k]))
            method.contacts.note_collisions(0)
            method.last_step = self._given[k] = LastStep(dt, int(self._substeps[k]), contacts)

    def _with_too_many_pairs(self) -> NDArray[np.int64]:
        """The worlds with so many candidates that their step is rather halved."""
        found = [np.zeros(0, np.int64)]
        surface, most = self.methods[0].world.surface, self.methods[0].many_pairs
        possible = max(surface.vertex_count * surface.face_count, surface.edge_count**2 // 2)
        for lists in (self.search.candidates, *self.search.escaped_candidates):
            for candidates in lists:
                if min(possible, candidates.count) > most:
                    features = candidates.pairs.numpy().reshape(-1, 2)[: candidates.count, 0]
                    if candidates.kind == Kind.EDGE_EDGE:
                        features = self.joined.surface.edges.numpy()[features, 0]
                    counts = np.bincount(self.joined.world_of_vertex[features])
                    found.append(np.flatnonzero(counts > most))
        return np.unique(np.concatenate(found))

    def _worlds_of_contacts(self, first: int) -> NDArray[np.int64]:
        """The world of each contact from `first` on."""
        vertices = self.contact_list.vertices[: self.contact_list.count].numpy().reshape(-1, 4)[first:, 0]
        return np.asarray(self.joined.world_of_vertex[vertices], np.int64)

    def _contacts_of(self, k: int) -> dict[str, np.ndarray]:
        """The contacts of the last step of world k, with its own vertex numbers."""
        if self._own is None:
            self._own = {name: values[: self._known] for name, values in self._read_contacts().items()}
        vertices = self._own["vertices"].reshape(-1, 4)
        chosen = self.joined.world_of_vertex[vertices[:, 0]] == k
        found = {name: values[chosen] for name, values in self._own.items()}
        return {**found, "vertices": self.joined.number[vertices[chosen]]}

    def _keep_contacts(self, taking: Sequence[int]) -> None:
        """Read the contacts of the last step of the worlds that do not take the next one, before they are gone."""
        for k, step in self._given.items():
            if k not in taking and self.methods[k].last_step is step:
                self.methods[k].last_step = step._replace(contacts=partial(dict, step.contacts()))
        self._given = {}


def _arrays_of(method: Robust, state: State) -> Any:
    """What the step of a method reads and writes."""
    arrays: Any = StepArrays()
    arrays.x, arrays.v = state.x, state.v
    arrays.target, arrays.inverse_mass = method.world.target, method.world.inverse_mass
    arrays.average, arrays.average_free = method.motion.v, method.motion.v_free
    for name, array in method.dynamics.kept().items():
        setattr(arrays, name, array)
    return arrays


def join_key(method: Any) -> bytes | None:
    """What worlds must have in common to take their steps together; None where a world takes them alone in any case."""
    if not isinstance(method, Robust) or not isinstance(method.dynamics, PositionBased):
        return None
    world, dynamics = method.world, method.dynamics
    if method.end_velocity_solver is not None or len(world.seams.vertices) or dynamics.bending.memory.changes:
        return None
    scene = world.scene
    kinds = "compliance" in dynamics.kept(), dynamics.bending.active, dynamics.bending.memory.curved
    numbers = world.largest_thickness, world.finest_length, kinds
    return repr((scene.method, scene.fps, scene.forces, scene.broad_phase, scene.seed, numbers)).encode()


def join_worlds(methods: Sequence[Any], states: Sequence[State], most: int) -> list[tuple[list[int], JoinedRobust]]:
    """Groups of at most so many worlds that take their steps together, and which they are."""
    of_key: dict[bytes, list[int]] = {}
    for k, method in enumerate(methods):
        key = join_key(method)
        if key is not None:
            of_key.setdefault(key, []).append(k)
    groups = []
    for numbers in of_key.values():
        pieces = -(-len(numbers) // most)
        for piece in np.array_split(numbers, pieces):
            chosen = piece.tolist()
            if len(chosen) > 1:
                groups.append((chosen, JoinedRobust([methods[k] for k in chosen], [states[k] for k in chosen])))
    return groups

"""Steps of several worlds in the same launches: what Python and small kernels cost a step, they cost once for all worlds.

A step is the common part of one of `Robust`: contacts, the dynamics, repulsion, and the first test for collisions. Each world
has the bytes that it has alone. A world takes its step alone where that depends on more: where pairs would collide, after steps
that collided or were halved, where something crosses, or where nothing of this kind is known yet.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
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
from weft.methods.robust.method import CONTACT_ARRAYS, Robust
from weft.methods.robust.strain_limits import StrainLimits
from weft.runtime import launch
from weft.world import State

wp.set_module_options({"enable_backward": False})

# the fraction of the worlds that must take a step together: all are computed, for less than half of what each costs alone
LEAST_FRACTION = 0.5


@wp.struct
class WorldArrays:
    """What a step of a world reads and writes, where the world has it."""

    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    inverse_mass: wp.array[wp.float64]
    average: wp.array[wp.vec3d]
    """the average velocity of the step"""
    average_free: wp.array[wp.vec3d]
    """the same before contacts change it"""
    length: wp.array[wp.float64]
    """of a substep"""
    rests: wp.array[wp.float64]
    pushes: wp.array[wp.float64]
    compliance: wp.array[wp.float64]


@wp.kernel
def gather_vertices(
    first: int,
    worlds: wp.array[WorldArrays],
    world: wp.array[int],
    number: wp.array[int],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
):
    """Take positions, velocities and what is prescribed from the worlds; number[i] is the number of vertex i in world[i]."""
    i = first + wp.tid()
    k = number[i]
    own = worlds[world[i]]
    x[i] = own.x[k]
    v[i] = own.v[k]
    target[i] = own.target[k]
    inverse_mass[i] = own.inverse_mass[k]
    lengths[i] = own.length[0]


@wp.kernel
def gather_springs(
    first: int,
    worlds: wp.array[WorldArrays],
    world: wp.array[int],
    slot: wp.array[int],
    rests: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
):
    """The same for what springs remember; an empty slot has no world."""
    i = first + wp.tid()
    if world[i] >= 0:
        own = worlds[world[i]]
        rests[i] = own.rests[slot[i]]
        pushes[i] = own.pushes[slot[i]]
        compliance[i] = own.compliance[slot[i]]


@wp.kernel
def scatter_vertices(
    first: int,
    worlds: wp.array[WorldArrays],
    chosen: wp.array[int],
    world: wp.array[int],
    number: wp.array[int],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    average: wp.array[wp.vec3d],
    average_free: wp.array[wp.vec3d],
    lengths: wp.array[wp.float64],
):
    """Give the chosen worlds the end of their step."""
    i = first + wp.tid()
    if chosen[world[i]] != 0:
        k = number[i]
        own = worlds[world[i]]
        own.x[k] = x[i]
        own.v[k] = v[i]
        own.average[k] = average[i]
        own.average_free[k] = average_free[i]
        if k == 0:
            own.length[0] = lengths[i]


@wp.kernel
def scatter_springs(
    first: int,
    worlds: wp.array[WorldArrays],
    chosen: wp.array[int],
    world: wp.array[int],
    slot: wp.array[int],
    rests: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
):
    """The same for what springs remember."""
    i = first + wp.tid()
    if world[i] >= 0 and chosen[wp.max(world[i], 0)] != 0:
        own = worlds[world[i]]
        own.rests[slot[i]] = rests[i]
        own.pushes[slot[i]] = pushes[i]
        own.compliance[slot[i]] = compliance[i]


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
        self._worlds = wp.array(self._arrays, dtype=WorldArrays, device=device)
        self._chosen = wp.zeros(len(methods), dtype=int, device=device)
        self._solves = 1
        self._taking: NDArray[np.int64] = np.zeros(0, np.int64)
        """the worlds that take the step together"""
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
        # where something is wrong each world takes its step alone, and tells its own error
        with suppress(WeftError):
            self._take(self.methods[taking[0]].lengths.longest(self.joined.scene.fps))
        for method, before in zip(self.methods, refined, strict=True):
            if not method.together:
                method.dynamics.substeps.refined = before

    def _begins(self, k: int) -> bool:
        """Whether world k begins a step that can be taken together; one in which that fails tells why when it goes on alone."""
        try:
            return self.methods[k].begin_together(self.states[k])
        except Exception:
            return False

    def _common(self, k: int) -> tuple[int, float]:
        """How often a world solves bending in a step, and, where that matters, its time."""
        dt = self.methods[k].lengths.longest(self.joined.scene.fps)
        return self.methods[k].dynamics._solves(dt), 0.0 if self.dynamics.air.wind is None else self.states[k].time

    def _take(self, dt: float) -> None:
        """A step of dt of all worlds, as `_advance`; those that can take it get it."""
        state, dynamics, motion = self.state, self.dynamics, self.motion
        self._gather()
        self._own = None
        self._find_contacts(state, dt)
        listed = self._worlds_of_contacts(0)
        touched = np.bincount(listed, minlength=len(self.methods))
        substeps = dynamics.count_substeps(self._solves, dt, touched > 0, self._taking)
        self._taking = self._taking[substeps[self._taking] > 0]
        with self._graphs.fuse():
            ends = motion.proposed, motion.v_end
            lengths = dynamics.propose_each(
                state, self.joined.target, dt, ends, self.substep_contacts, self._solves, substeps
            )
            self._average_velocity(state, dt)
            self.substep_contacts.take_impulses_of(lengths)
            self.contacts.repel(motion.v, self.options.sweeps)
            known, report = self.contact_list.count, StepReport()
            self.collisions.find(state, dt, report)
        alone = self._with_too_many_pairs()
        if report.collisions:
            alone = np.union1d(alone, self._worlds_of_contacts(known))
        self._known = known
        motion.carry_velocity(state, dt)
        free = np.setdiff1d(self._taking, alone)
        self._scatter(free)
        for k in free.tolist():
            report = StepReport(contacts=int(touched[k]))
            self.methods[k].take_together(report, dt, int(substeps[k]), lambda k=k: self._contacts_of(k))

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

    def _gather(self) -> None:
        """Take the state of all worlds."""
        joined, dynamics, state = self.joined, self.dynamics, self.state
        given = [self._worlds, self._world, self._number]
        inputs = [*given, state.x, state.v, joined.target, joined.inverse_mass, dynamics._length]
        launch(gather_vertices, joined.vertex_count, inputs, device=joined.device)
        launch(gather_springs, len(self._slot), [self._worlds, *self._springs], device=joined.device)

    def _scatter(self, chosen: NDArray[np.int64]) -> None:
        """Give these worlds the end of the step."""
        joined, motion = self.joined, self.motion
        flags = np.zeros(len(self.methods), np.int32)
        flags[chosen] = 1
        self._chosen.assign(flags)
        given = [self._worlds, self._chosen, self._world, self._number]
        inputs = [*given, self.state.x, self.state.v, motion.v, motion.v_free, self.dynamics._length]
        launch(scatter_vertices, joined.vertex_count, inputs, device=joined.device)
        inputs = [self._worlds, self._chosen, *self._springs]
        launch(scatter_springs, len(self._slot), inputs, device=joined.device)

    @property
    def _springs(self) -> list[wp.array]:
        dynamics = self.dynamics
        return [dynamics.of_slot, self._slot, dynamics._rests, dynamics._pushes, dynamics._compliance]

    def _contacts_of(self, k: int) -> dict[str, np.ndarray]:
        """The contacts of the last step of world k, with its own vertex numbers."""
        if self._own is None:
            self._own = {
                name: getattr(self.contact_list, name).numpy()[: self._known].copy() for name in CONTACT_ARRAYS
            }
        vertices = self._own["vertices"].reshape(-1, 4)
        chosen = self.joined.world_of_vertex[vertices[:, 0]] == k
        found = {name: values[chosen] for name, values in self._own.items()}
        return {**found, "vertices": self.joined.number[vertices[chosen]]}

    def _keep_contacts(self, taking: Sequence[int]) -> None:
        """Let the worlds that do not take the next step have the contacts of their last one."""
        for k in set(range(len(self.methods))).difference(taking):
            self.methods[k].keep_contacts()


def _arrays_of(method: Robust, state: State) -> Any:
    arrays: Any = WorldArrays()
    dynamics = method.dynamics
    arrays.x, arrays.v = state.x, state.v
    arrays.target, arrays.inverse_mass = method.world.target, method.world.inverse_mass
    arrays.average, arrays.average_free = method.motion.v, method.motion.v_free
    arrays.length, arrays.rests, arrays.pushes = dynamics._length, dynamics._rests, dynamics._pushes
    arrays.compliance = dynamics._compliance
    return arrays


def join_key(method: Any) -> bytes | None:
    """What worlds must have in common to take their steps together; None where a world takes them alone in any case."""
    if not isinstance(method, Robust) or not isinstance(method.dynamics, PositionBased):
        return None
    world, dynamics = method.world, method.dynamics
    if method.end_velocity_solver is not None or len(world.seams.vertices) or dynamics.bending.memory.changes:
        return None
    scene = world.scene
    kinds = len(dynamics._faces[2]) > 0, dynamics.bending.active, dynamics.bending.memory.curved
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

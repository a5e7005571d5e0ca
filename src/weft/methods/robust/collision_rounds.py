"""Contacts and collisions of a step, from repulsion to rigid impact zones (Bridson et al. 2002, sections 7.2 to 7.5).

`ContactStage` finds the contacts at the start of a step, sets the relative speed and the friction that each of them asks for,
and solves them. `CollisionRounds` then tests the motion along the average velocity by continuous detection, which misses no
collision: rounds of impulses, then of all contacts and collisions together, then rigid impact zones.

In a rigid impact zone vertices that keep colliding move as one body (Provot 1997). The four vertices of each collision that
is left are put into one zone; zones that share a vertex become one. A zone takes the rigid motion that has its linear and
angular momentum. Vertices that are prescribed have infinite mass: a zone with some of them moves with them, where their own
motion is rigid. Zones are the last resort, for few vertices at a time, so they are computed on the host.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import warp as wp

from weft.contact.friction import REMOVED_OVERLAP, contact_tables, set_repulsion
from weft.contact.impulses import ImpulseSolver
from weft.contact.lists import ContactList
from weft.contact.step_search import USUAL_REACH, StepSearch
from weft.methods.base import StepReport
from weft.methods.robust.step_motion import StepMotion
from weft.runtime import launch
from weft.runtime.buffers import allocation_epoch
from weft.runtime.graph_cache import GraphCache
from weft.world import State, World

# pairs of one cloth that are nearer to each other along it than this many edges have no friction: creases of the size of
# the mesh would lock forever
CREASE_EDGES = 3.0
# cloth counts as pressed for so many steps after one with collisions, and as crushed after one with so many collisions a
# vertex
PRESSED_STEPS = 8
CRUSHED_FRACTION = 0.003
# how far beyond the thickness contacts of such cloth are looked for, as a fraction of it. Folds under tension move by
# more than a thickness in a step, and not as in free flight: a pair that is near may collide
PRESSED_REACH, CRUSHED_REACH = 1.0, 1.5


class ContactStage:
    """Finds contacts and gives them repulsion and friction; remembers how pressed the cloth is."""

    def __init__(self, world: World, search: StepSearch, solver: ImpulseSolver, contacts: ContactList) -> None:
        self.world, self.search, self.solver, self.contacts = world, search, solver, contacts
        creases, soft, rigid = (
            wp.array(values, dtype=wp.float64, device=world.device)
            for values in (
                CREASE_EDGES * _edge_lengths(world),
                world.contact_stiffness(),
                np.full(len(world.bodies), math.inf),
            )
        )
        self._tables, self._rigid_tables = (
            contact_tables(world, world.inverse_mass, creases, stiffness) for stiffness in (soft, rigid)
        )
        self._graphs = GraphCache(world.device)
        self.turn: Callable[[ContactList], None] | None = None
        """called with the contacts of a step as they are found: turns those whose sides are wrong"""
        self.loosen: Callable[[ContactList], None] | None = None
        """called with the contacts when they are complete: takes friction from those that hold a tangle"""
        self.pressed = 0
        """for how many steps to come the cloth counts as pressed"""
        self.crushed = 0
        """and as crushed"""

    def find(self, x: wp.array, expected: wp.array, dt: float) -> int:
        """Find the contacts of a step from x to the expected positions, in the order of their colours; gives their number."""
        contacts = self.contacts
        reach = CRUSHED_REACH if self.crushed else PRESSED_REACH if self.pressed else USUAL_REACH
        count = self.search.find_contacts(x, expected, contacts, reach=reach)
        if self.turn is not None:
            self.turn(contacts)
        self.solver.order_by_colour(contacts)
        given = ("repulsion", contacts.launch_bound, contacts.vertices, dt, allocation_epoch())
        self._graphs.run(lambda: self._ask(0, self._tables, REMOVED_OVERLAP, dt), *given)
        if self.loosen is not None:
            self.loosen(contacts)
        return count

    def repel(self, v: wp.array, sweeps: int) -> None:
        """Repulsion and friction on the velocities, by some sweeps."""
        self.solver.sweep(self.contacts, v, sweeps)

    def add_collisions(self, known: int, dt: float) -> None:
        """Let the collisions from `known` on, which were appended to the contacts, ask for their whole gap at once."""
        self._ask(known, self._rigid_tables, 1.0, dt)
        self.solver.colour_appended(self.contacts)

    def note_collisions(self, collisions: int) -> None:
        """How many collisions the step had decides how pressed the cloth is in the next ones."""
        self.pressed = PRESSED_STEPS if collisions else max(0, self.pressed - 1)
        crushed = collisions > CRUSHED_FRACTION * self.world.cloth_vertex_count
        self.crushed = PRESSED_STEPS if crushed else max(0, self.crushed - 1)

    def _ask(self, first: int, tables: Any, removed: float, dt: float) -> None:
        """Set what the contacts from `first` on ask of velocities and positions."""
        world, contacts = self.world, self.contacts
        inputs = [first, contacts.size, contacts.arrays, tables, removed, dt]
        launch(set_repulsion, contacts.launch_bound - first, inputs, device=world.device)


def _edge_lengths(world: World) -> np.ndarray:
    """The median length of the edges of each body at rest; 0 for colliders."""
    edges, body = world.surface.edges.numpy(), world.surface.vertex_body.numpy()
    rest = world.rest_shape.numpy()
    lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    of_body = [lengths[body[edges[:, 0]] == number] for number in range(len(world.bodies))]
    return np.array([np.median(found) if number < len(world.cloths) else 0.0 for number, found in enumerate(of_body)])


# a zone turns at most this far in a step, in rad; faster ones would spiral outwards
LARGEST_ANGLE = 0.5
# an axis about which a zone has less than this fraction of its largest moment of inertia has none: vertices lie in a line
LEAST_INERTIA = 1e-9
# prescribed vertices of one zone move rigidly if none is farther than this from a rigid motion, in m
RIGID_WITHIN = 1e-7
# rounds of rigid zones. In the first ones zones may turn, until half of them they translate, then they stop: each is a
# simpler motion, with fewer new collisions where zones are squeezed
RIGID_ROUNDS = 40
TURNING_ROUNDS = 4
TRANSLATING_ROUNDS = 20


@dataclass
class Zones:
    """Groups of vertices that move as one, as a forest over the vertices."""

    parent: dict[int, int] = field(default_factory=dict)

    def add(self, stencils: np.ndarray) -> None:
        """Unite the four vertices of each stencil."""
        for corners in stencils.tolist():
            first = self._root(corners[0])
            for vertex in corners[1:]:
                other = self._root(vertex)
                # the lower index is the root, so that the zones do not depend on the order of the stencils
                first, other = min(first, other), max(first, other)
                self.parent[other] = first

    def groups(self) -> list[np.ndarray]:
        """The vertices of each zone, ascending, zones in the order of their first vertex."""
        members: dict[int, list[int]] = {}
        for vertex in sorted(self.parent):
            members.setdefault(self._root(vertex), []).append(vertex)
        return [np.array(group) for group in members.values()]

    def _root(self, vertex: int) -> int:
        parent = self.parent
        parent.setdefault(vertex, vertex)
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex


def move_zones(
    zones: Zones,
    x: np.ndarray,
    v: np.ndarray,
    inverse_mass: np.ndarray,
    target: np.ndarray,
    dt: float,
    round_number: int,
) -> bool:
    """Write a rigid motion of every zone into the average velocities v; False where no rigid motion can be right.

    A zone with prescribed vertices, which reach `target` in the step, moves with them.
    """
    possible = True
    for group in zones.groups():
        fixed = group[inverse_mass[group] == 0.0]
        if len(fixed):
            carried = carried_velocity(x[group], x[fixed], target[fixed], dt)
            if carried is None:
                possible = False
                continue
            v[group] = carried
        else:
            v[group] = free_velocity(x[group], v[group], 1.0 / inverse_mass[group], dt, round_number)
    return possible


def free_velocity(x: np.ndarray, v: np.ndarray, mass: np.ndarray, dt: float, round_number: int) -> np.ndarray:
    """Average velocities of a zone without prescribed vertices: it turns, in later rounds only translates, or stops."""
    if round_number >= TRANSLATING_ROUNDS:
        return np.zeros_like(v)
    return rigid_velocity(x, v, mass, dt, turning=round_number < TURNING_ROUNDS)


def rigid_velocity(x: np.ndarray, v: np.ndarray, mass: np.ndarray, dt: float, *, turning: bool = True) -> np.ndarray:
    """Average velocities of the rigid motion with the momentum of the given vertices, all of finite mass.

    The positions at the end of the step come from the exact rotation, so that all distances stay as they are.
    """
    total = mass.sum()
    centre = (mass[:, None] * x).sum(axis=0) / total
    drift = (mass[:, None] * v).sum(axis=0) / total
    if not turning:
        return np.broadcast_to(drift, x.shape).copy()
    arm = x - centre
    spin = (mass[:, None] * np.cross(arm, v - drift)).sum(axis=0)
    squares = (mass * (arm**2).sum(axis=1)).sum()
    inertia = squares * np.eye(3) - np.einsum("i,ij,ik->jk", mass, arm, arm)

    # collinear or coincident vertices have no inertia about some axes: no rotation about those
    values, axes = np.linalg.eigh(inertia)
    along = axes.T @ spin
    turns = values > LEAST_INERTIA * max(values[-1], 0.0)
    rate = axes @ np.divide(along, values, out=np.zeros(3), where=turns)
    speed = np.linalg.norm(rate)
    if speed == 0.0:
        return np.broadcast_to(drift, x.shape).copy()
    axis = rate / speed
    angle = min(speed * dt, LARGEST_ANGLE)
    fixed = np.outer(arm @ axis, axis)
    across = arm - fixed
    turned = fixed + np.cos(angle) * across + np.sin(angle) * np.cross(axis, across)
    return drift + (turned - arm) / dt


def carried_velocity(x: np.ndarray, fixed: np.ndarray, fixed_end: np.ndarray, dt: float) -> np.ndarray | None:
    """Average velocities of vertices x that are carried by prescribed ones; None where those do not move rigidly.

    `fixed` and `fixed_end` are positions of prescribed vertices at the start and at the end of the step.
    """
    centre, centre_end = fixed.mean(axis=0), fixed_end.mean(axis=0)
    # the rotation that fits best (Kabsch); reflections are no motions
    covariance = (fixed_end - centre_end).T @ (fixed - centre)
    # about a line of prescribed vertices any rotation fits: the least one is taken
    u, _, vt = np.linalg.svd(covariance + 1e-8 * np.linalg.norm(covariance) * np.eye(3))
    sign = np.diag([1.0, 1.0, np.linalg.det(u @ vt)])
    turn = u @ sign @ vt
    miss = (fixed - centre) @ turn.T + centre_end - fixed_end
    if np.abs(miss).max() > RIGID_WITHIN:
        return None
    return ((x - centre) @ turn.T + centre_end - x) / dt


# rounds with few sweeps, then rounds in which few collisions are swept alone, then rounds in which all contacts and
# collisions are solved to the end together: the inelastic impact zones of Harmon et al. 2008, found by Gauss-Seidel
IMPULSE_ROUNDS = 3
IMPULSE_SWEEPS = 10
ALONE_ROUNDS = 5
ALONE_SWEEPS = 50
INELASTIC_ROUNDS = 10
INELASTIC_SWEEPS = 20
# few collisions are so many, or this fraction of the contacts. They press on each other and need many sweeps, in which the
# contacts around them, whose gaps are wide, have no part: with all contacts in all sweeps late steps of the twist had 11
# rounds instead of 5. Among so many contacts few collisions are swept alone in the first rounds too
FEW_COLLISIONS = 8
FEW_FRACTION = 1e-3
MANY_CONTACTS = 100_000
# collisions in the first round from which on a step is rather halved: so many, and this fraction of the cloth vertices
MANY_COLLISIONS = 20
MANY_COLLISIONS_FRACTION = 1 / 8


class CollisionRounds:
    """Changes the average velocity of a step until the motion along it is free of collisions."""

    def __init__(
        self, world: World, stage: ContactStage, motion: StepMotion, limit_strain: Callable[[State, float], None]
    ) -> None:
        self.world, self.stage, self.motion = world, stage, motion
        self.contacts, self.solver = stage.contacts, stage.solver
        self._limit_strain = limit_strain
        self._graphs = GraphCache(world.device)
        self.many_collisions = max(MANY_COLLISIONS, int(MANY_COLLISIONS_FRACTION * world.cloth_vertex_count))

    def find(self, state: State, dt: float, report: StepReport) -> int:
        """Move along the average velocity and append the pairs that would collide to the contacts; gives how many do."""
        known = self.contacts.count
        with self._graphs.fuse():
            self.motion.move(state, dt)
            found = self.stage.search.find_collisions(state.x, self.motion.x_end, self.contacts)
        report.collisions += found
        if found:
            self.stage.add_collisions(known, dt)
        return found

    def resolve(self, state: State, dt: float, report: StepReport, found: int, *, may_halve: bool) -> bool:
        """Stop the pairs that would collide, of which `found` were found; True if none is left."""
        for round_number in range(IMPULSE_ROUNDS + ALONE_ROUNDS + INELASTIC_ROUNDS):
            if round_number > 0:
                found = self.find(state, dt, report)
            if found == 0:
                return True
            known = self.contacts.count - found
            many = may_halve and round_number == 0 and found > self.many_collisions
            if many and self._new_pairs(known) > self.many_collisions:
                return False
            self._push_apart(state, dt, round_number, known, found)
        # few are rather left to rigid zones than to shorter steps, in which others are left: without, a tight twist had up to
        # forty steps a frame instead of six
        return may_halve and found <= FEW_COLLISIONS and self._move_few_zones(state, dt, report)

    def _push_apart(self, state: State, dt: float, round_number: int, known: int, found: int) -> None:
        """Solve the collisions of the step, of which the last `found` are new, and the contacts where these have a part."""
        few = found <= max(FEW_COLLISIONS, FEW_FRACTION * known)
        first = round_number < IMPULSE_ROUNDS
        # limits of strain belong to the first rounds: if they pulled against all impulses, collisions would be left forever
        if few and round_number < IMPULSE_ROUNDS + ALONE_ROUNDS and (not first or known > MANY_CONTACTS):
            self.solver.sweep(self.contacts, self.motion.v, ALONE_SWEEPS, appended_only=True)
        elif first:
            self._limit_strain(state, dt)
            self.solver.sweep(self.contacts, self.motion.v, IMPULSE_SWEEPS)
        else:
            self.solver.sweep(self.contacts, self.motion.v, INELASTIC_SWEEPS)

    def _move_few_zones(self, state: State, dt: float, report: StepReport) -> bool:
        """Let what is left move as rigid impact zones of free vertices; False where they grow for too long, or meet others."""
        zones = Zones()
        for round_number in range(TURNING_ROUNDS):
            known = self.contacts.count
            if self.find(state, dt, report) == 0:
                report.zones += len(zones.groups())
                return True
            inverse_mass = self.world.inverse_mass.numpy()
            if (inverse_mass[self.contacts.vertices[known : self.contacts.count].numpy()] == 0.0).any():
                return False
            self._move_zones(zones, known, state, dt, round_number)
        return False

    def _move_zones(self, zones: Zones, known: int, state: State, dt: float, round_number: int) -> bool:
        """Let zones grow by the collisions from `known` on, and move; False where they cannot move rigidly."""
        v = self.motion.v
        zones.add(self.contacts.vertices[known : self.contacts.count].numpy())
        velocities = v.numpy()
        inverse_mass, target = self.world.inverse_mass.numpy(), self.world.target.numpy()
        possible = move_zones(zones, state.x.numpy(), velocities, inverse_mass, target, dt, round_number)
        v.assign(velocities)
        return possible

    def move_rigid_zones(self, state: State, dt: float, report: StepReport) -> None:
        """Let what is left move as rigid impact zones, which grow until the motion is free."""
        zones = Zones()
        for round_number in range(RIGID_ROUNDS):
            known = self.contacts.count
            if self.find(state, dt, report) == 0:
                break
            if not self._move_zones(zones, known, state, dt, round_number):
                inverse_mass = self.world.inverse_mass.numpy()
                what = self._who_holds([vertex for vertex in zones.parent if inverse_mass[vertex] == 0.0])
                report.problems.append(f"{what} between them")
                break
        else:
            report.problems.append(f"collisions were left after {RIGID_ROUNDS} rounds of impact zones")
        report.zones += len(zones.groups())

    def _who_holds(self, prescribed: list[int]) -> str:
        """What the vertices with a prescribed motion, between which cloth has no way to go, belong to."""
        kinds = {vertex >= self.world.cloth_vertex_count for vertex in prescribed}
        if len(kinds) == 2:
            return "pins and colliders that meet hold the cloth"
        return (
            "colliders that close on the cloth or deform hold it" if True in kinds else "pins that cross hold the cloth"
        )

    def _new_pairs(self, known: int) -> int:
        """How many of the collisions from `known` on were farther apart than a contact when the step began."""
        gaps = self.contacts.gaps[known : self.contacts.count].numpy()
        return int((gaps > self.world.largest_thickness).sum())

"""The contacts of a step: how far away they are looked for, what they ask for, and how often they are solved."""

import math

import numpy as np
import warp as wp

from weft.contact.contact_list import ContactList
from weft.contact.impulses import ImpulseSolver
from weft.contact.repulsion import REMOVED_OVERLAP, set_repulsion
from weft.contact.step_search import USUAL_REACH, StepSearch
from weft.runtime import launch
from weft.runtime.buffers import allocation_epoch
from weft.runtime.graph_cache import GraphCache
from weft.world import World

# pairs of one cloth that are nearer to each other along it than this many edges have no friction: creases of the size of
# the mesh would lock for ever
CREASE_EDGES = 3.0
# cloth counts as pressed for so many steps after one with collisions, and as crushed after one with so many collisions a
# vertex
PRESSED_STEPS = 8
CRUSHED_FRACTION = 0.003
# how far beyond the thickness contacts of such cloth are looked for, as a fraction of it. Folds under tension move by
# more than a thickness in a step, and not as in free flight: a pair that is near may collide
PRESSED_REACH, CRUSHED_REACH = 1.0, 1.5
# sweeps over the contacts of pressed cloth
PRESSED_SWEEPS = 10


class ContactStage:
    """Finds contacts and gives them repulsion and friction; remembers how pressed the cloth is."""

    def __init__(self, world: World, search: StepSearch, solver: ImpulseSolver, contacts: ContactList) -> None:
        self.world, self.search, self.solver, self.contacts = world, search, solver, contacts
        self.stiffness = max((part.material.stretch for part in world.cloths), default=0.0)
        self.crease_lengths = wp.array(CREASE_EDGES * _edge_lengths(world), dtype=wp.float64, device=world.device)
        self._graphs = GraphCache(world.device)
        self.pressed = 0
        """for how many steps to come the cloth counts as pressed"""
        self.crushed = 0
        """and as crushed"""

    def find(self, x: wp.array, expected: wp.array, dt: float) -> int:
        """Find the contacts of a step from x to the expected positions, in the order of their colours; gives their number."""
        contacts = self.contacts
        reach = CRUSHED_REACH if self.crushed else PRESSED_REACH if self.pressed else USUAL_REACH
        count = self.search.find_contacts(x, expected, contacts, reach=reach)
        self.solver.order_by_colour(contacts)
        given = ("repulsion", contacts.launch_bound, contacts.vertices, dt, allocation_epoch())
        self._graphs.run(lambda: self._ask(0, REMOVED_OVERLAP, self.stiffness, dt), *given)
        return count

    def repel(self, v: wp.array, sweeps: int) -> None:
        """Repulsion and friction on the velocities, by some sweeps, or more where the cloth is pressed."""
        self.solver.sweep(self.contacts, v, PRESSED_SWEEPS if self.pressed else sweeps)

    def add_collisions(self, known: int, dt: float) -> None:
        """Let the collisions from `known` on, which were appended to the contacts, ask for their whole gap at once."""
        self._ask(known, 1.0, math.inf, dt)
        self.solver.colour_appended(self.contacts)

    def note_collisions(self, collisions: int) -> None:
        """How many collisions the step had decides how pressed the cloth is in the next ones."""
        self.pressed = PRESSED_STEPS if collisions else max(0, self.pressed - 1)
        crushed = collisions > CRUSHED_FRACTION * self.world.cloth_vertex_count
        self.crushed = PRESSED_STEPS if crushed else max(0, self.crushed - 1)

    def _ask(self, first: int, removed: float, stiffness: float, dt: float) -> None:
        """Set what the contacts from `first` on ask of velocities and positions."""
        world, contacts = self.world, self.contacts
        inputs = [first, contacts.size, contacts.arrays, world.inverse_mass, world.surface.vertex_body]
        inputs += [world.friction_static, world.friction_kinetic, world.rest_shape, self.crease_lengths]
        inputs += [removed, stiffness, dt]
        launch(set_repulsion, contacts.launch_bound - first, inputs, device=world.device)


def _edge_lengths(world: World) -> np.ndarray:
    """The median length of the edges of each body at rest; 0 for colliders."""
    edges, body = world.surface.edges.numpy(), world.surface.vertex_body.numpy()
    rest = world.rest_shape.numpy()
    lengths = np.linalg.norm(rest[edges[:, 1]] - rest[edges[:, 0]], axis=1)
    of_body = [lengths[body[edges[:, 0]] == number] for number in range(len(world.bodies))]
    return np.array([np.median(found) if number < len(world.cloths) else 0.0 for number, found in enumerate(of_body)])

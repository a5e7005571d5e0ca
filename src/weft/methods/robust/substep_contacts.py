"""Contacts inside the substeps of position-based dynamics: one Gauss-Seidel sweep over positions in every substep.

Contacts are found once a step. In every substep the pairs that are nearer than the distance they keep are moved apart, and
friction holds back their sliding (see `friction`), so that springs and contacts find their balance together. What contacts
gave goes on into the sweeps over velocities after the dynamics: one sweep a substep does not pass the force of all layers of a
pile on to the lowest.

Positions are packed with inverse masses, four numbers a vertex. Most contacts are far enough apart: gains, friction and the
positions before the substep are loaded only for those that are not.
"""

from functools import partial
from typing import Any

import warp as wp

from weft.contact.friction import contact_correction, touched_at_start
from weft.contact.gauss_seidel import contacts_below, make_sweep
from weft.contact.impulses import ImpulseSolver, stencil_inverse_mass
from weft.contact.lists import ContactArrays, ContactList
from weft.contact.stencil_colours import COLOURS
from weft.dynamics.packed_vertices import first_three, length_at
from weft.runtime import launch
from weft.runtime.buffers import allocation_epoch
from weft.runtime.cooperative import BLOCK, grid_barrier
from weft.runtime.graph_cache import GraphCache
from weft.runtime.native import load_vec2d, load_vec4d, load_vec4i, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# fraction of kinetic friction from which on a contact counts as one that slid in the substeps. Friction that turns while cloth
# slides sums to a little less than the whole
SLIDING = wp.constant(wp.float64(0.9))


@wp.struct
class SubstepContactArrays:
    """The contacts of a step: stencils, the distances that they keep, and the gaps that they had when it started."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    kept_distances: wp.array[wp.float64]
    gaps: wp.array[wp.float64]
    gains: wp.array[wp.vec4d]
    friction: wp.array[wp.vec2d]
    before: wp.array[wp.vec4d]
    """packed vertices at the start of the substep"""
    corrections: wp.array[wp.vec3d]
    """the sum of the corrections of each contact"""


@wp.struct
class SubstepContact:
    """What is loaded of every contact, to tell whether it is too near."""

    q: wp.vec4i
    w: wp.vec4d
    n: wp.vec3d
    kept_distance: wp.float64


@wp.func
def load_contact(i: int, q: wp.vec4i, contacts: SubstepContactArrays) -> SubstepContact:
    """Contact i, whose vertices q are loaded already."""
    contact = SubstepContact()
    contact.q = q
    contact.w = load_vec4d(contacts.weights, i)
    contact.n = contacts.normals[i]
    contact.kept_distance = contacts.kept_distances[i]
    return contact


@wp.func
def sliding_start(
    q: wp.vec4i, w: wp.vec4d, gap: wp.float64, distance: wp.float64, before: wp.array[wp.vec4d]
) -> wp.vec3d:
    """The relative position from which the sliding of a contact is measured, up to a multiple of its normal."""
    start = wp.vec3d()
    # at the start of the step the sides were apart along the normal only: zero
    if not touched_at_start(gap, distance):
        a = first_three(load_vec4d(before, q[0]))
        b = first_three(load_vec4d(before, q[1]))
        c = first_three(load_vec4d(before, q[2]))
        d = first_three(load_vec4d(before, q[3]))
        start = w[0] * a + w[1] * b + w[2] * c + w[3] * d
    return start


@wp.func
def move_vertex(i: int, row: wp.vec4d, gain: wp.float64, correction: wp.vec3d, p: wp.array[wp.vec4d]):
    """Move a vertex; one with a gain of 0 cannot move, and other contacts of the same colour may have it too."""
    if gain != ZERO:
        store_vec4d(p, i, first_three(row) + gain * correction, row[3])


@wp.func
def solve_contact(i: int, exists: bool, contact: SubstepContact, contacts: SubstepContactArrays, p: wp.array[wp.vec4d]):
    """If the contact is nearer than the distance it keeps, move its sides apart and against their sliding."""
    q = contact.q
    w = contact.w
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    r = w[0] * first_three(a) + w[1] * first_three(b) + w[2] * first_three(c) + w[3] * first_three(d)
    depth = contact.kept_distance - wp.dot(contact.n, r)
    if exists and depth > ZERO:
        g = load_vec4d(contacts.gains, i)
        r_before = sliding_start(q, w, contacts.gaps[i], contact.kept_distance, contacts.before)
        correction = contact_correction(depth, contact.n, r, r_before, load_vec2d(contacts.friction, i))
        move_vertex(q[0], a, g[0], correction, p)
        move_vertex(q[1], b, g[1], correction, p)
        move_vertex(q[2], c, g[2], correction, p)
        move_vertex(q[3], d, g[3], correction, p)
        contacts.corrections[i] = contacts.corrections[i] + correction


@wp.func
def active_contacts(i: int, count: int, contacts: SubstepContactArrays, p: wp.array[wp.vec4d]) -> wp.uint64:
    """Mask of the contacts from i on that are too near."""
    return contacts_below(i, count, contacts.vertices, contacts.weights, contacts.normals, contacts.kept_distances, p)


sweep_colours = make_sweep(load_contact, solve_contact, active_contacts)


@wp.kernel(launch_bounds=BLOCK)
def sweep_positions(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    arrays: ContactArrays,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """A sweep over contacts that are stored in the order of their colours, then over those for which there was no colour."""
    t = first + wp.tid()
    contacts = SubstepContactArrays()
    contacts.vertices = arrays.vertices
    contacts.weights = arrays.weights
    contacts.normals = arrays.normals
    contacts.kept_distances = arrays.kept_distances
    contacts.gaps = arrays.gaps
    contacts.gains = arrays.gains
    contacts.friction = arrays.friction
    contacts.before = before
    contacts.corrections = arrays.corrections
    sweep_colours(t, threads, arrivals, offsets, contacts, p)
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        grid_barrier(arrivals)
        if t == 0:
            for i in range(offsets[COLOURS], offsets[COLOURS + 1]):
                solve_contact(i, True, load_contact(i, load_vec4i(arrays.vertices, i), contacts), contacts, p)


@wp.kernel
def take_impulses(
    first: int,
    size: wp.array[int],
    contacts: ContactArrays,
    inverse_mass: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
):
    """The impulses that the substeps of these lengths gave at contacts that touched at the start of the step.

    So the sweeps over velocities know the load that a contact bears: friction that holds is enforced for the step as a whole.
    A contact that slid keeps the friction that it had for this load. No spring pulls in those sweeps: friction that is allowed
    a little more, as static friction is, stops there whatever the springs move in a step.
    """
    i = first + wp.tid()
    if i >= size[0]:
        return
    c = contacts.corrections[i]
    if wp.length_sq(c) == ZERO or not touched_at_start(contacts.gaps[i], contacts.kept_distances[i]):
        return
    q = contacts.vertices[i]
    w = contacts.weights[i]
    m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
    total = stencil_inverse_mass(w, wp.cw_mul(w, m), m)
    if total == ZERO:
        return
    n = contacts.normals[i]
    impulse = c / (total * length_at(lengths, q[0]))
    along = wp.dot(n, impulse)
    tangential = impulse - along * n
    contacts.normal_impulses[i] = along
    contacts.least_impulses[i] = along
    contacts.tangential_impulses[i] = tangential
    mu = contacts.friction[i]
    rubbed = wp.length(tangential)
    if along > ZERO and rubbed > SLIDING * mu[1] * along:
        had = wp.min(rubbed / along, mu[0])
        contacts.friction[i] = wp.vec2d(had, had)


class PositionContacts:
    """The contacts of a step as the callable that position-based dynamics call once a substep."""

    def __init__(self, solver: ImpulseSolver, contacts: ContactList) -> None:
        self.solver, self.contacts = solver, contacts
        self._inputs: tuple[Any, ...] = ()
        self._length = wp.zeros(1, dtype=wp.float64, device=solver.device)
        """the length of a substep, on the device, so that CUDA graphs serve substeps of any length"""
        self._graphs = GraphCache(solver.device)

    def __len__(self) -> int:
        """How many there are."""
        return self.contacts.count

    @property
    def given(self) -> tuple[Any, ...]:
        """All that a call depends on besides the positions: the key of its CUDA graph."""
        return self.solver.threads_for(self.contacts.launch_bound), *self._arrays

    @property
    def _arrays(self) -> tuple[wp.array, ...]:
        c = self.contacts
        return c.vertices, c.weights, c.normals, c.kept_distances, c.gaps, c.gains, c.friction, c.corrections

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct positions x that were at `before` when the substep started; both are packed vertices."""
        inputs = (self.solver.offsets, self.contacts.arrays, before, x)
        # the launcher examines a tuple only once, so give it the same one in all substeps of a step
        if len(inputs) != len(self._inputs) or any(a is not b for a, b in zip(inputs, self._inputs, strict=True)):
            self._inputs = inputs
        self.solver.run(self.contacts.launch_bound, sweep_positions, self._inputs)

    def take_impulses(self, lengths: float | wp.array) -> None:
        """Let the contacts have the impulses that they gave in substeps of this length, or of these at each vertex."""
        if isinstance(lengths, float):
            self._length.fill_(lengths)
            lengths = self._length
        bound, solver = self.contacts.launch_bound, self.solver
        inputs = [self.contacts.size, self.contacts.arrays, solver.inverse_mass, lengths]
        take = partial(launch, take_impulses, bound, inputs, device=solver.device)
        self._graphs.run(take, "take impulses", lengths, bound, self.contacts.vertices, allocation_epoch())

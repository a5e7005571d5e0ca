"""Impulses at contacts and collisions: Gauss-Seidel on velocities until no pair approaches faster than it may.

An impulse j along a direction d changes the velocity of vertex k of a stencil by (j w_k / m_k) d; momentum is conserved
since the weights sum to zero. Each contact accumulates the impulse that it has given and may take it back, but never
pulls. Sweeps go colour by colour, so that one thread, many threads and a GPU give the same bytes. The contacts of a step
are stored in the order of their colours; the fewer collisions that are found later are appended with colours of their
own, so that the many contacts need not be coloured again. The sweep itself is in `gauss_seidel`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp

from weft.contact.execution_plan import ExecutionPlan
from weft.contact.friction import contact_impulse
from weft.contact.gauss_seidel import contacts_below_or_given, make_sweep
from weft.contact.lists import ContactArrays, ContactList
from weft.contact.stencil_colours import COLOURS, StencilColouring
from weft.dynamics.packed_vertices import first_three
from weft.runtime import launch
from weft.runtime.buffers import allocation_epoch
from weft.runtime.cooperative import (
    BLOCK,
    CooperativeLauncher,
    barrier_between,
    grid_barrier,
    partition_begin,
    partition_end,
    partition_step,
)
from weft.runtime.graph_cache import GraphCache
from weft.runtime.native import load_vec2d, load_vec4d, load_vec4i, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# which contacts are swept: those that are stored in the order of their colours, all, or the appended ones
ORDERED, ALL, APPENDED = (wp.constant(which) for which in range(3))
# the least inverse mass of a stencil, as a fraction of the largest one of its vertices
LEAST_INVERSE_MASS = wp.constant(wp.float64(0.01))


@wp.func
def stencil_inverse_mass(w: wp.vec4d, g: wp.vec4d, m: wp.vec4d) -> wp.float64:
    """W = sum w_k g_k of a stencil with weights w, inverse masses m and g_k = w_k m_k; 0 if an impulse moves no vertex.

    Where prescribed vertices have nearly all the weight, a free vertex with weight w would need 1 / w times the speed that the
    pair asks for. A lower bound leaves that to the sweeps: a free vertex gets at most ten times the speed in each of them.
    """
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    if total > ZERO:
        total = wp.max(total, LEAST_INVERSE_MASS * wp.max(m))
    return total


@wp.struct
class ImpulseContacts:
    """Contacts and collisions of a step: stencils, what they ask for, and the impulses that they have given."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    least_speeds: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    normal_impulses: wp.array[wp.float64]
    tangential_impulses: wp.array[wp.vec3d]
    least_impulses: wp.array[wp.float64]
    last: bool
    """in the last sweep"""


@wp.struct
class ImpulseContact:
    """All that is loaded of one contact, except the velocities of its vertices."""

    q: wp.vec4i
    w: wp.vec4d
    n: wp.vec3d
    least_speed: wp.float64
    mu: wp.vec2d
    normal_impulse: wp.float64
    tangential_impulse: wp.vec3d
    least_impulse: wp.float64


@wp.func
def load_contact(i: int, q: wp.vec4i, contacts: ImpulseContacts) -> ImpulseContact:
    """Contact i, whose vertices q are loaded already."""
    contact = ImpulseContact()
    contact.q = q
    contact.w = load_vec4d(contacts.weights, i)
    contact.n = contacts.normals[i]
    contact.least_speed = contacts.least_speeds[i]
    contact.mu = load_vec2d(contacts.friction, i)
    contact.normal_impulse = contacts.normal_impulses[i]
    contact.tangential_impulse = contacts.tangential_impulses[i]
    contact.least_impulse = contacts.least_impulses[i]
    return contact


@wp.func
def solve_contact(i: int, exists: bool, contact: ImpulseContact, contacts: ImpulseContacts, p: wp.array[wp.vec4d]):
    """Change the velocities so that the contact has at least its least normal speed, and apply friction."""
    q = contact.q
    w = contact.w
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    # velocity change of each vertex under a unit impulse, and of the stencil
    g = wp.vec4d(w[0] * a[3], w[1] * b[3], w[2] * c[3], w[3] * d[3])
    total = stencil_inverse_mass(w, g, wp.vec4d(a[3], b[3], c[3], d[3]))
    u = w[0] * first_three(a) + w[1] * first_three(b) + w[2] * first_three(c) + w[3] * first_three(d)
    normal_speed = wp.dot(contact.n, u)
    if exists and total > ZERO and (contact.normal_impulse != ZERO or normal_speed < contact.least_speed):
        normal_impulse, tangential_impulse, impulse = contact_impulse(
            contact.normal_impulse,
            contact.least_impulse,
            contact.least_speed,
            u,
            normal_speed,
            contact.n,
            total,
            contact.mu,
            contact.tangential_impulse,
            contacts.last,
        )
        contacts.normal_impulses[i] = normal_impulse
        contacts.tangential_impulses[i] = tangential_impulse
        # a vertex without weight may fill up the stencil, and one without inverse mass belongs to other contacts too
        if g[0] != ZERO:
            store_vec4d(p, q[0], first_three(a) + g[0] * impulse, a[3])
        if g[1] != ZERO:
            store_vec4d(p, q[1], first_three(b) + g[1] * impulse, b[3])
        if g[2] != ZERO:
            store_vec4d(p, q[2], first_three(c) + g[2] * impulse, c[3])
        if g[3] != ZERO:
            store_vec4d(p, q[3], first_three(d) + g[3] * impulse, d[3])


@wp.func
def load_and_solve(i: int, contacts: ImpulseContacts, p: wp.array[wp.vec4d]):
    """Solve contact i."""
    solve_contact(i, True, load_contact(i, load_vec4i(contacts.vertices, i), contacts), contacts, p)


@wp.func
def active_contacts(i: int, count: int, contacts: ImpulseContacts, p: wp.array[wp.vec4d]) -> wp.uint64:
    """Mask of the contacts from i on that approach too fast, or have given an impulse, which they may take back."""
    return contacts_below_or_given(
        i,
        count,
        contacts.vertices,
        contacts.weights,
        contacts.normals,
        contacts.least_speeds,
        p,
        contacts.normal_impulses,
    )


sweep_colours = make_sweep(load_contact, solve_contact, active_contacts)


@wp.func
def sweep_uncoloured(
    t: int, arrivals: wp.array[int], begin: int, end: int, contacts: ImpulseContacts, p: wp.array[wp.vec4d]
):
    """One sweep over the contacts for which there was no colour, one after another by one thread."""
    if end > begin:
        if t == 0:
            for i in range(begin, end):
                load_and_solve(i, contacts, p)
        grid_barrier(arrivals)


@wp.func
def sweep_appended(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    first_appended: int,
    offsets: wp.array[int],
    order: wp.array[int],
    contacts: ImpulseContacts,
    p: wp.array[wp.vec4d],
):
    """One sweep over the contacts from `first_appended` on; `order` lists them by colour, and colours begin at `offsets`."""
    begin = offsets[0]
    end = offsets[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = offsets[colour + 2]
        first_k = begin + partition_begin(t, threads, end - begin)
        last_k = begin + partition_end(t, threads, end - begin)
        for k in range(first_k, last_k, partition_step(threads, end - begin)):
            load_and_solve(first_appended + order[k], contacts, p)
        barrier_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            for k in range(begin, end):
                load_and_solve(first_appended + order[k], contacts, p)
        grid_barrier(arrivals)


@wp.kernel(launch_bounds=BLOCK)
def sweep_impulses(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    ordered_offsets: wp.array[int],
    which: int,
    offsets: wp.array[int],
    order: wp.array[int],
    arrays: ContactArrays,
    inverse_mass: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """Sweeps over the contacts that are stored in the order of their colours, then the appended ones, as `which` says.

    `p` is a buffer.
    """
    t = first + wp.tid()
    ordered = ordered_offsets[COLOURS + 1]
    contacts = ImpulseContacts()
    contacts.vertices = arrays.vertices
    contacts.weights = arrays.weights
    contacts.normals = arrays.normals
    contacts.least_speeds = arrays.least_speeds
    contacts.friction = arrays.friction
    contacts.normal_impulses = arrays.normal_impulses
    contacts.tangential_impulses = arrays.tangential_impulses
    contacts.least_impulses = arrays.least_impulses
    count = p.shape[0]
    begin = partition_begin(t, threads, count)
    end = partition_end(t, threads, count)
    step = partition_step(threads, count)
    for i in range(begin, end, step):
        store_vec4d(p, i, v[i], inverse_mass[i])
    grid_barrier(arrivals)
    for sweep in range(sweeps):
        contacts.last = sweep == sweeps - 1
        if ordered > 0 and which != APPENDED:
            sweep_colours(t, threads, arrivals, ordered_offsets, contacts, p)
            sweep_uncoloured(t, arrivals, ordered_offsets[COLOURS], ordered, contacts, p)
        if which != ORDERED:
            sweep_appended(t, threads, arrivals, ordered, offsets, order, contacts, p)
    for i in range(begin, end, step):
        v[i] = first_three(load_vec4d(p, i))


@wp.kernel
def reorder_contacts(
    first: int,
    size: wp.array[int],
    order: wp.array[int],
    inverse_mass: wp.array[wp.float64],
    contacts: ContactArrays,
    reordered: ContactArrays,
):
    """Copy contact order[k] to place k, and write its gains: the move of each vertex that moves the sides apart by one."""
    k = first + wp.tid()
    if k >= size[0]:
        return
    i = order[k]
    q = contacts.vertices[i]
    w = contacts.weights[i]
    m = wp.vec4d(inverse_mass[q[0]], inverse_mass[q[1]], inverse_mass[q[2]], inverse_mass[q[3]])
    g = wp.cw_mul(w, m)
    total = stencil_inverse_mass(w, g, m)
    reordered.gains[k] = wp.vec4d()
    if total > ZERO:
        reordered.gains[k] = g / total
    reordered.vertices[k] = q
    reordered.weights[k] = w
    reordered.normals[k] = contacts.normals[i]
    reordered.gaps[k] = contacts.gaps[i]
    reordered.thickness[k] = contacts.thickness[i]


class ImpulseSolver:
    """Gauss-Seidel over a `ContactList`; buffers are kept between steps."""

    def __init__(
        self,
        vertex_count: int,
        inverse_mass: wp.array,
        plan: ExecutionPlan | None = None,
        *,
        numbers: np.ndarray | None = None,
    ) -> None:
        """`numbers` of the vertices in worlds that are solved together, see `StencilColouring`."""
        self.inverse_mass = inverse_mass
        self.device = wp.get_device(inverse_mass.device)
        self.plan = plan or ExecutionPlan.for_device(self.device)
        by_dependencies = self.plan.colour_by_dependencies
        self._colouring = StencilColouring(vertex_count, inverse_mass, by_dependencies=by_dependencies, numbers=numbers)
        self._cooperative = CooperativeLauncher(self.device)
        # packed vertices: velocities and inverse masses
        self._packed = wp.zeros(vertex_count, dtype=wp.vec4d, device=self.device)
        self.ordered = 0
        """contacts that are stored in the order of their colours"""
        self.offsets = wp.zeros_like(self._colouring.offsets)
        """where their colours begin"""
        self._graphs = GraphCache(self.device)

    def order_by_colour(self, contacts: ContactList) -> None:
        """Store all contacts in the order of their colours, so that sweeps go through memory from front to back.

        To be called before it is set what they ask for. Contacts that are appended later need `colour_appended`.
        """
        self.ordered, bound = contacts.count, contacts.launch_bound
        vertices, reordered = contacts.vertices, contacts.reordered_arrays()
        found = contacts.arrays

        def reorder() -> None:
            self._colouring.colour(vertices, bound, self.offsets, contacts.size)
            inputs = [contacts.size, self._colouring.order, self.inverse_mass, found, reordered]
            launch(reorder_contacts, bound, inputs, device=self.device)

        self._graphs.run(reorder, "order by colour", bound, vertices, allocation_epoch())
        contacts.take_reordered()

    def colour_appended(self, contacts: ContactList) -> None:
        """Colour the contacts behind the ordered ones; needed once after they change."""
        vertices = contacts.vertices[self.ordered : contacts.count] if self.ordered else contacts.vertices
        self._colouring.colour(vertices, contacts.count - self.ordered)

    def sweep(self, contacts: ContactList, v: wp.array, sweeps: int, *, appended_only: bool = False) -> None:
        """Solve contacts a number of times, colour by colour; changes the velocities v and the accumulated impulses.

        `appended_only` leaves out those that are stored in the order of their colours: they give no other impulse than before.
        """
        appended = contacts.count - self.ordered
        which = APPENDED if appended_only else ALL if appended else ORDERED
        colouring, bound = self._colouring, appended if appended_only else contacts.launch_bound
        inputs = [sweeps, self.offsets, which, colouring.offsets, colouring.order]
        inputs += [contacts.arrays, self.inverse_mass, v, self._packed]
        given = ("sweep", sweeps, which, bound, v, contacts.vertices, allocation_epoch())
        self._graphs.run(lambda: self.run(bound, sweep_impulses, inputs, sweeps), *given)

    def threads_for(self, count: int) -> int:
        """How many CUDA threads sweep so many contacts."""
        return self._cooperative.threads_for(count)

    def run(self, count: int, kernel: wp.Kernel, inputs: Sequence[Any], sweeps: int = 1) -> None:
        """One cooperative launch of sweeps over `count` coloured contacts."""
        self._cooperative.launch(kernel, count, inputs, work=sweeps * count)

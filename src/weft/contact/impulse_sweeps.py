"""Kernels for impulses: Gauss-Seidel sweeps over the contacts and collisions of a step, on velocities.

All sweeps are one cooperative launch. Contacts found at the start of the step are stored in the order of their colours;
collisions found later come behind them in the order of a list. Velocities are packed with inverse masses, four numbers a
vertex.
"""

import warp as wp

from weft.contact.friction import contact_impulse
from weft.contact.gauss_seidel import contacts_below_or_given, make_sweep
from weft.contact.stencil_colours import COLOURS
from weft.dynamics.packed_vertices import first_three
from weft.runtime.cooperative import BLOCK, barrier_between, grid_barrier
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.vector_loads import load_vec2d, load_vec4d, load_vec4i, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


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
    total = w[0] * g[0] + w[1] * g[1] + w[2] * g[2] + w[3] * g[3]
    u = w[0] * first_three(a) + w[1] * first_three(b) + w[2] * first_three(c) + w[3] * first_three(d)
    normal_speed = wp.dot(contact.n, u)
    if exists and total > ZERO and (contact.normal_impulse != ZERO or normal_speed < contact.least_speed):
        normal_impulse, tangential_impulse, impulse = contact_impulse(
            contact.normal_impulse,
            contact.least_speed,
            u,
            normal_speed,
            contact.n,
            total,
            contact.mu,
            contact.tangential_impulse,
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
    any_appended: int,
    offsets: wp.array[int],
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    least_speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    normal_impulses: wp.array[wp.float64],
    tangential_impulses: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
):
    """Sweeps over all contacts: those stored in the order of their colours first, then the appended ones. `p` is a buffer."""
    t = first + wp.tid()
    ordered = ordered_offsets[COLOURS + 1]
    contacts = ImpulseContacts()
    contacts.vertices = vertices
    contacts.weights = weights
    contacts.normals = normals
    contacts.least_speeds = least_speeds
    contacts.friction = friction
    contacts.normal_impulses = normal_impulses
    contacts.tangential_impulses = tangential_impulses
    count = p.shape[0]
    begin = partition_begin(t, threads, count)
    end = partition_end(t, threads, count)
    step = partition_step(threads, count)
    for i in range(begin, end, step):
        store_vec4d(p, i, v[i], inverse_mass[i])
    grid_barrier(arrivals)
    for _sweep in range(sweeps):
        if ordered > 0:
            sweep_colours(t, threads, arrivals, ordered_offsets, contacts, p)
            sweep_uncoloured(t, arrivals, ordered_offsets[COLOURS], ordered, contacts, p)
        if any_appended != 0:
            sweep_appended(t, threads, arrivals, ordered, offsets, order, contacts, p)
    for i in range(begin, end, step):
        v[i] = first_three(load_vec4d(p, i))


@wp.kernel
def reorder_contacts(
    first: int,
    size: wp.array[int],
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
    vertices_out: wp.array[wp.vec4i],
    weights_out: wp.array[wp.vec4d],
    normals_out: wp.array[wp.vec3d],
    gaps_out: wp.array[wp.float64],
    thickness_out: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
):
    """Copy contact order[k] to place k, and write its gains: the move of each vertex that moves the sides apart by one."""
    k = first + wp.tid()
    if k >= size[0]:
        return
    i = order[k]
    q = vertices[i]
    w = weights[i]
    g = wp.vec4d(
        w[0] * inverse_mass[q[0]], w[1] * inverse_mass[q[1]], w[2] * inverse_mass[q[2]], w[3] * inverse_mass[q[3]]
    )
    total = wp.dot(w, g)
    gains[k] = wp.vec4d()
    if total > ZERO:
        gains[k] = g / total
    vertices_out[k] = q
    weights_out[k] = w
    normals_out[k] = normals[i]
    gaps_out[k] = gaps[i]
    thickness_out[k] = thickness[i]

"""Sweeps over contacts inside the substeps of position-based dynamics, for all threads together.

Positions lie beside inverse masses in rows of four numbers. Most contacts are not too near, so that gains, friction and where a
pair has slid from are loaded only where it is.
"""

import warp as wp

from weft.contact.active_masks import rows_below
from weft.contact.colour_words import COLOURS
from weft.contact.gauss_seidel import make_sweep
from weft.contact.packed_stencils import slid_from
from weft.contact.project_contact import parting
from weft.dynamics.packed_vertices import first_three
from weft.runtime.cooperative import BLOCK, grid_barrier
from weft.runtime.vector_loads import load_vec2d, load_vec4d, load_vec4i, store_vec4d

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.struct
class Contacts:
    """All contacts of a step: stencils, the gaps that they keep, and those that they had when it started."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    distances: wp.array[wp.float64]
    gaps: wp.array[wp.float64]
    gains: wp.array[wp.vec4d]
    friction: wp.array[wp.vec2d]
    before: wp.array[wp.vec4d]
    """where vertices were when the substep started"""


@wp.struct
class Contact:
    """What tells whether a contact is too near, but for where its corners are now."""

    q: wp.vec4i
    w: wp.vec4d
    n: wp.vec3d
    distance: wp.float64


@wp.func
def load_contact(i: int, q: wp.vec4i, contacts: Contacts) -> Contact:
    """Contact i, whose corners are known."""
    contact = Contact()
    contact.q = q
    contact.w = load_vec4d(contacts.weights, i)
    contact.n = contacts.normals[i]
    contact.distance = contacts.distances[i]
    return contact


@wp.func
def shift_corner(i: int, row: wp.vec4d, gain: wp.float64, shift: wp.vec3d, p: wp.array[wp.vec4d]):
    """Move a corner; one that cannot move is shared."""
    if gain != ZERO:
        store_vec4d(p, i, first_three(row) + gain * shift, row[3])


@wp.func
def part_contact(i: int, there: bool, contact: Contact, contacts: Contacts, p: wp.array[wp.vec4d]):
    """Move a pair, if there is one, apart, and back against its sliding."""
    q = contact.q
    w = contact.w
    a = load_vec4d(p, q[0])
    b = load_vec4d(p, q[1])
    c = load_vec4d(p, q[2])
    d = load_vec4d(p, q[3])
    r = w[0] * first_three(a) + w[1] * first_three(b) + w[2] * first_three(c) + w[3] * first_three(d)
    lack = contact.distance - wp.dot(contact.n, r)
    if there and lack > ZERO:
        g = load_vec4d(contacts.gains, i)
        was = slid_from(q, w, contacts.gaps[i], contact.distance, contacts.before)
        shift = parting(lack, contact.n, r, was, load_vec2d(contacts.friction, i))
        shift_corner(q[0], a, g[0], shift, p)
        shift_corner(q[1], b, g[1], shift, p)
        shift_corner(q[2], c, g[2], shift, p)
        shift_corner(q[3], d, g[3], shift, p)


@wp.func
def part_at(i: int, contacts: Contacts, p: wp.array[wp.vec4d]):
    """The same for a contact of which nothing is known yet."""
    part_contact(i, True, load_contact(i, load_vec4i(contacts.vertices, i), contacts), contacts, p)


@wp.func
def near_contacts(i: int, count: int, contacts: Contacts, p: wp.array[wp.vec4d]) -> wp.uint64:
    """Which of so many contacts from i on are too near."""
    return rows_below(i, count, contacts.vertices, contacts.weights, contacts.normals, contacts.distances, p)


part_coloured = make_sweep(load_contact, part_contact, near_contacts)


@wp.func
def part_uncoloured(t: int, arrivals: wp.array[int], offsets: wp.array[int], contacts: Contacts, p: wp.array[wp.vec4d]):
    """Those that found no colour, one after another."""
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        grid_barrier(arrivals)
        if t == 0:
            for i in range(offsets[COLOURS], offsets[COLOURS + 1]):
                part_at(i, contacts, p)


@wp.func
def gather_contacts(
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
) -> Contacts:
    contacts = Contacts()
    contacts.vertices = vertices
    contacts.weights = weights
    contacts.normals = normals
    contacts.distances = distances
    contacts.gaps = gaps
    contacts.gains = gains
    contacts.friction = friction
    contacts.before = before
    return contacts


@wp.kernel(launch_bounds=BLOCK)
def part_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """A sweep over contacts that lie in the order of their colours, then over those that found none."""
    t = first + wp.tid()
    contacts = gather_contacts(vertices, weights, normals, distances, gaps, gains, friction, before)
    part_coloured(t, threads, arrivals, offsets, contacts, p)
    part_uncoloured(t, arrivals, offsets, contacts, p)

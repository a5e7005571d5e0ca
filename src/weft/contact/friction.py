"""Friction and repulsion of contacts.

Friction is Coulomb's, with static and kinetic coefficients, on velocities and on positions (Bridson et al. 2002, section
7.3). While the tangential impulse that would stop the sliding is at most mu_s times the normal impulse, it is applied whole
and the contact sticks. Beyond that the contact slides, and friction is mu_k times the normal impulse against the sliding.
In the substeps of position-based dynamics the same holds for displacements: the depth by which two sides are moved apart
takes the place of the normal impulse.

Repulsion says how fast the two sides of a contact must separate (Bridson et al. 2002, section 7.2). Given the gap g at the
start of a step and the thickness h, a pair nearer than h stops approaching and is pushed apart like a spring of stiffness
k, but by at most a tenth of the overlap in a step: contacts that are pushed out at once jitter. A pair farther apart than h
may approach until h is reached at the end of the step (a speculative contact): resting cloth then lies exactly at the
thickness, and most collisions never come about.
"""

from typing import Any

import warp as wp

from weft.contact.lists import ContactArrays
from weft.runtime.native import divide
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# successive over-relaxation of friction where contacts bear a load since the substeps: the slip of a pile of layers goes
# down to the table in a quarter of the sweeps. With 12 of them a pile of five creeps by 0.06 mm/s with 1.6, by 0.05 with
# 1.7, by 1 with 1.0
OVER_RELAXATION = wp.constant(wp.float64(1.6))
# a contact counts as touching at the start of a step if its gap is below this many times the distance that it keeps
TOUCHING_FACTOR = wp.constant(wp.float64(1.1))


@wp.func
def friction_impulse(
    before: wp.vec3d,
    sliding: wp.vec3d,
    inverse_mass: wp.float64,
    normal_impulse: wp.float64,
    static: wp.float64,
    kinetic: wp.float64,
    relaxation: wp.float64,
) -> wp.vec3d:
    """The contact's accumulated tangential impulse, updated for the sliding velocity that is left.

    `before` is the tangential impulse given so far, `normal_impulse` the accumulated normal one (not negative),
    `inverse_mass` the stencil's W, `relaxation` how many times the impulse that would stop this contact alone is asked for.
    """
    wanted = before - relaxation * divide(sliding, inverse_mass)
    size = wp.length(wanted)
    if size <= static * normal_impulse:
        return wanted
    return (kinetic * normal_impulse / size) * wanted


@wp.func
def contact_impulse(
    given: wp.float64,
    least: wp.float64,
    least_speed: wp.float64,
    u: wp.vec3d,
    normal_speed: wp.float64,
    n: wp.vec3d,
    inverse_mass: wp.float64,
    mu: wp.vec2d,
    before: wp.vec3d,
    last: bool,
):
    """New accumulated normal and tangential impulse of a contact with relative velocity u, and the change of their sum.

    `given` and `before` are the accumulated impulses so far, `least` that normal impulse which is not taken back, and `mu` the
    static and kinetic coefficient. The last sweep does not over-relax, so that single contacts hold to rounding.
    """
    # the accumulated normal impulse may shrink, but never pull
    now = wp.max(given + (least_speed - normal_speed) / inverse_mass, least)
    impulse = (now - given) * n
    after = before
    if mu[0] > ZERO:
        sliding = u - normal_speed * n
        relaxation = ONE
        if least > ZERO and not last:
            relaxation = OVER_RELAXATION
        after = friction_impulse(before, sliding, inverse_mass, now, mu[0], mu[1], relaxation)
        # the normal may have turned since the impulse was given: keep the tangential component only
        after = after - wp.dot(n, after) * n
        impulse += after - before
    return now, after, impulse


@wp.func
def touched_at_start(gap: wp.float64, distance: wp.float64) -> bool:
    """Whether a contact that keeps this distance touched when the step started.

    Then sliding is measured from the start of the step: what friction lets slip in one substep, it pulls back in the
    next, and resting layers do not creep. A contact that closes during the step has slid freely before; its sliding is
    measured from the start of the substep.
    """
    return gap < TOUCHING_FACTOR * distance


@wp.func
def contact_correction(depth: wp.float64, n: wp.vec3d, r: wp.vec3d, r_before: wp.vec3d, mu: wp.vec2d) -> wp.vec3d:
    """The relative displacement that moves two sides apart by `depth` and, within friction, back from r to `r_before`."""
    slide = r - r_before
    slide = slide - wp.dot(slide, n) * n
    # a sticking contact needs no square root, which would take long where a thread has nothing else to do meanwhile
    squared = wp.length_sq(slide)
    held = mu[0] * depth
    fraction = ONE
    if squared > held * held:
        fraction = mu[1] * depth / wp.sqrt(squared)
    return depth * n - fraction * slide


# fraction of the overlap that a step may remove from a contact
REMOVED_OVERLAP = 0.1


@wp.func
def separation_speed(
    gap: wp.float64,
    thickness: wp.float64,
    removed: wp.float64,
    dt: wp.float64,
    stiffness: wp.float64,
    inverse_mass: wp.float64,
) -> wp.float64:
    """The least relative normal velocity that a contact accepts over a step of dt.

    `removed` is the fraction of an overlap that may be removed, `stiffness` that of the spring in N/m, `inverse_mass` the
    stencil's W: the spring's impulse dt k d changes the normal velocity by dt k d W.
    """
    overlap = thickness - gap
    if overlap <= wp.float64(0.0):
        return overlap / dt
    return wp.min(removed * overlap / dt, dt * stiffness * overlap * inverse_mass)


@wp.func
def kept_distance(gap: wp.float64, thickness: wp.float64, removed: wp.float64) -> wp.float64:
    """The gap that a contact keeps in the substeps: its thickness, or where it is nearer a little more than the gap it has."""
    return wp.min(thickness, gap + removed * wp.max(thickness - gap, wp.float64(0.0)))


@wp.struct
class ContactTables:
    """What a contact asks for depends on these numbers of its vertices and bodies."""

    inverse_mass: wp.array[wp.float64]
    vertex_body: wp.array[int]
    friction_static: wp.array2d[wp.float64]
    """the static friction coefficient of two bodies"""
    friction_kinetic: wp.array2d[wp.float64]
    rest_shape: wp.array[wp.vec3d]
    crease_lengths: wp.array[wp.float64]
    """m, for each body: pairs of one body that are nearer to each other along the cloth have no friction"""
    stiffness: wp.array[wp.float64]
    """N/m, for each body: of the springs that push the two sides of its contacts apart"""


def contact_tables(world: World, inverse_mass: wp.array, crease_lengths: wp.array, stiffness: wp.array) -> Any:
    """The tables of a world, with the inverse masses that contacts shall see, and numbers of each body."""
    tables: Any = ContactTables()
    tables.inverse_mass, tables.vertex_body = inverse_mass, world.surface.vertex_body
    tables.friction_static, tables.friction_kinetic = world.friction_static, world.friction_kinetic
    tables.rest_shape, tables.crease_lengths, tables.stiffness = world.rest_shape, crease_lengths, stiffness
    return tables


@wp.kernel
def set_repulsion(
    first: int,
    offset: int,
    size: wp.array[int],
    contacts: ContactArrays,
    tables: ContactTables,
    removed: wp.float64,
    dt: wp.float64,
):
    """What each contact from `offset` on asks of velocities and positions; no impulse is given yet."""
    i = offset + first + wp.tid()
    if i >= size[0]:
        return
    q = contacts.vertices[i]
    w = contacts.weights[i]
    total = wp.float64(0.0)
    for k in range(4):
        total += w[k] * w[k] * tables.inverse_mass[q[k]]
    # corners 0 and 3 are on different sides in both kinds of stencils
    a = tables.vertex_body[q[0]]
    b = tables.vertex_body[q[3]]
    stiffness = tables.stiffness[a]
    contacts.least_speeds[i] = separation_speed(contacts.gaps[i], contacts.thickness[i], removed, dt, stiffness, total)
    contacts.kept_distances[i] = kept_distance(contacts.gaps[i], contacts.thickness[i], removed)
    contacts.friction[i] = wp.vec2d(tables.friction_static[a, b], tables.friction_kinetic[a, b])
    if a == b:
        # creases of a few edges would lock for ever if there was friction in them
        rest = tables.rest_shape
        along = w[0] * rest[q[0]] + w[1] * rest[q[1]] + w[2] * rest[q[2]] + w[3] * rest[q[3]]
        if wp.length(along) < tables.crease_lengths[a]:
            contacts.friction[i] = wp.vec2d()
    contacts.normal_impulses[i] = wp.float64(0.0)
    contacts.least_impulses[i] = wp.float64(0.0)
    contacts.tangential_impulses[i] = wp.vec3d()
    contacts.corrections[i] = wp.vec3d()

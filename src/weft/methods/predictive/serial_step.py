"""A whole step of `predictive` as one serial kernel, for small cloth on a CPU.

There a kernel over one item is plain compiled serial code. A step of a few hundred vertices takes less time than it takes
to hand work to threads or to launch a kernel for each stage. What comes before the substeps is in its own way here: four to
sixteen vertices or contacts at once, one after another.
"""

import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.dynamics.packed_vertices import start_vertex
from weft.methods.predictive.arrays import Arrays, Numbers, collider_reach, way_of, wind_on
from weft.methods.predictive.collider_contacts import place_shape, touch_shape
from weft.methods.predictive.collider_cull import SPOTS, spots_in_reach, write_spot
from weft.methods.predictive.contact_walk import BORDER, LANES, WALK, faces_along, refresh_contact, refresh_lanes
from weft.methods.predictive.contacts import ASLEEP, OVER, TRIANGLE
from weft.methods.predictive.defaults import substeps_for
from weft.methods.predictive.fabric_constraints import largest_stretch, prepare_pair, prepare_quad
from weft.methods.predictive.half_spaces import write_half_space
from weft.methods.predictive.substeps import Offsets, pace_of, take_substeps

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# a bit for each of the contacts that are looked at together
ALL_LANES = wp.constant((1 << LANES) - 1)


@wp.kernel
def advance_in_order(first: int, alone: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: Offsets):
    """A whole step, serial: launched with one item, which waits for nobody."""
    begin = first + wp.tid()
    s = settings[begin]
    dt = s.dt
    springs = a.pairs.shape[0]
    substeps = s.substeps
    if s.most_substeps > 0:
        substeps = substeps_for(substeps, s.most_substeps, largest_stretch(0, springs, a.pairs, a.pair_springs, a.x))
    pace = pace_of(substeps, s)
    per_h = pace.per_h
    softness = pace.softness

    for i in range(s.vertices):
        if not start_vertex(i, a.x, a.v, a.inverse_mass, pace.h, a.p, a.before):
            a.prepared[0] = wp.vec2d()
            a.prepared[1] = wp.vec2d()
        if s.windy != 0:
            a.force[i] = wind_on(i, a.face_offsets, a.face_items, a.face_force)
        if s.colliders > 0:
            a.ways[i] = way_of(i, dt, s.gravity, a.x, a.v, a.target, a.inverse_mass, a.force)
            reach = collider_reach(HALF * (a.cloth_thickness[i] + s.collider_thickness), a.stack[i], s.radius)
            write_spot(i, a.x[i], a.ways[i], reach, a.spots)

    # half-spaces of the colliders, collider by collider
    halves = int(0)
    for k in range(s.colliders):
        shape = place_shape(a.shapes[k], a.pose_start[k], a.pose_end[k])
        for block in range((s.vertices + SPOTS - 1) / SPOTS):
            near = spots_in_reach(shape, a.spots, block * SPOTS, wp.min(s.vertices - block * SPOTS, SPOTS))
            while near != wp.uint64(0):
                i = block * SPOTS + lowest_bit(near)
                near = near & (near - wp.uint64(1))
                if a.inverse_mass[i] > ZERO:
                    xi = a.x[i]
                    thick = HALF * (a.cloth_thickness[i] + s.collider_thickness)
                    far = collider_reach(thick, a.stack[i], s.radius)
                    touch = touch_shape(shape, xi, a.ways[i], far, a.mesh_start, a.mesh_end, a.mesh_ridges)
                    if touch.found != 0:
                        between = a.stack[i]
                        if between[0] != between[1]:
                            if faces_along(i, touch.normal, a.faces, a.corner_offsets, a.corners, a.p):
                                between[1] = between[0]
                        thick += touch.rise + between[1]
                        mu = wp.vec2d(a.sticking[a.cloth[i], shape.body], a.sliding[a.cloth[i], shape.body])
                        write_half_space(
                            halves, i, xi, touch.gap, touch.normal, touch.way, thick, mu, a.half_vertices,
                            a.half_normals, a.half_offsets, a.half_ways, a.half_thickness, a.half_friction,
                        )  # fmt: skip
                        halves += 1
    o.half_counts[0] = halves
    if s.cached != 0:
        for c in range(0, s.contacts, LANES):
            left = int(ALL_LANES)
            if c + LANES <= s.contacts:
                left = refresh_lanes(
                    c, BORDER, TRIANGLE, a.faces, a.across, a.contact_vertices, a.contact_kinds, a.contact_triangles,
                    a.contact_weights, a.p,
                )  # fmt: skip
            for i in range(c, wp.min(c + LANES, s.contacts)):
                if (left >> (i - c)) & 1 != 0:
                    refresh_contact(
                        i, BORDER, WALK, OVER, TRIANGLE, ASLEEP, a.faces, a.across, a.x, a.contact_vertices,
                        a.contact_kinds, a.contact_triangles, a.contact_weights, a.corner_offsets, a.corners,
                    )  # fmt: skip
    # all are one colour: they are solved in the order of the list
    o.contacts[1] = s.contacts
    o.contacts[2] = s.contacts
    known = a.prepared[s.prediction]
    if known[0] != per_h or known[1] != softness:
        for i in range(s.quads):
            prepare_quad(
                i, a.quads, a.quad_weights, a.quad_springs, s.stitches, per_h, softness, a.inverse_mass, a.quad_moves
            )
        for i in range(springs):
            prepare_pair(i, a.pairs, a.pair_springs, per_h, a.inverse_mass, a.pair_moves)
        a.prepared[s.prediction] = wp.vec2d(per_h, softness)

    take_substeps(0, 1, alone, s, pace, a, o)
    if s.prediction == 0:
        for k in range(s.colliders):
            a.pose_start[k] = a.pose_end[k]

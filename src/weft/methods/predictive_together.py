"""The substeps of `predictive` in one launch: all threads share each colour and wait for each other between them."""

import warp as wp

from weft.dynamics.fabric_constraints import (
    attach_vertices,
    bend_quads,
    follow_goals,
    hinge_interval,
    hinge_softness,
    stretch_pairs,
)
from weft.methods.predictive_arrays import Arrays, Numbers
from weft.response.half_spaces import solve_half_spaces
from weft.response.predictive_contacts import ASLEEP, solve_contacts
from weft.response.stencil_colours import COLOURS
from weft.world.rows import end_vertex, predict_vertices
from weft.world.together import BLOCK, meet, meet_between, share_begin, share_end, share_step, spread

wp.set_module_options({"enable_backward": False})

ONE = wp.constant(wp.float64(1.0))


@wp.struct
class Offsets:
    """Where the colours of each kind of constraint start, and the order of the contacts."""

    stretch: wp.array[int]
    bend: wp.array[int]
    attachments: wp.array[int]
    contacts: wp.array[int]
    order: wp.array[int]
    """empty where contacts lie in their order"""
    half_counts: wp.array[int]
    half_places: wp.array[int]


@wp.func
def contact_at(k: int, o: Offsets, s: Numbers, h: wp.float64, a: Arrays):
    """Solve the contact at a place in the order."""
    i = int(k)
    if o.order.shape[0] > 0:
        i = o.order[k]
    solve_contacts(
        i, i + 1, ASLEEP, a.contact_vertices, a.contact_kinds, a.contact_weights, a.contact_normals,
        a.contact_thickness, a.contact_friction, s.friction, h * s.push_speed, a.contact_pushed, a.x, a.start, a.before,
        a.p,
    )  # fmt: skip


@wp.kernel(launch_bounds=BLOCK)
def advance_together(
    first: int, threads: int, arrivals: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: Offsets
):
    """All substeps, then positions; contacts and half-spaces are there."""
    t = first + wp.tid()
    s = settings[0]
    h = s.dt / wp.float64(s.substeps)
    per_h = ONE / h
    part = ONE / wp.float64(s.substeps)
    slowed = ONE / (ONE + h * s.air_damping)
    stretches = o.stretch.shape[0] - 1
    bends = o.bend.shape[0] - 1
    interval = hinge_interval(s.substeps)
    softness = hinge_softness(s.substeps, per_h)
    ranks = o.attachments.shape[0] - 1

    for substep in range(s.substeps):
        progress = wp.float64(substep + 1) * part
        # what a thread did to its vertices last in the substep before, it goes on from: no need to wait
        for i in range(t, s.vertices, threads):
            predict_vertices(i, i + 1, a.x, a.target, a.force, s.gravity, slowed, h, progress, a.p, a.before, a.start)
        for sweep in range(s.sweeps):
            end = o.stretch[0]
            for colour in range(stretches):
                meet(arrivals)
                begin = end
                end = o.stretch[colour + 1]
                for i in range(begin + spread(t, threads), end, threads):
                    stretch_pairs(
                        i, i + 1, a.pairs, a.pair_springs, a.pair_moves, sweep, s.sweeps, per_h, a.pair_pull, a.before,
                        a.p,
                    )  # fmt: skip
            end = o.bend[0]
            for colour in range(wp.where(substep % interval == 0, bends, s.stitch_colours)):
                meet(arrivals)
                begin = end
                end = o.bend[colour + 1]
                soft = softness
                if colour < s.stitch_colours:
                    soft = per_h * per_h
                for i in range(begin + spread(t, threads), end, threads):
                    bend_quads(
                        i, i + 1, a.quads, a.quad_weights, a.quad_springs, a.quad_moves, sweep, s.sweeps, per_h,
                        soft, a.quad_pull, a.before, a.p,
                    )  # fmt: skip
            if s.goals > 0:
                meet(arrivals)
                for i in range(t, s.goals, threads):
                    follow_goals(
                        i, i + 1, a.goal_vertices, a.goal_springs, a.goal_starts, a.goals, h, progress, part, a.before,
                        a.p,
                    )  # fmt: skip
            end = o.attachments[0]
            for rank in range(ranks):
                meet(arrivals)
                begin = end
                end = o.attachments[rank + 1]
                for i in range(begin + t, end, threads):
                    attach_vertices(i, i + 1, a.attached, a.lengths, a.p)
            meet(arrivals)
            if s.contacts > 0:
                begin = o.contacts[0]
                end = o.contacts[1]
                colour = int(0)
                while colour < COLOURS and end > begin:
                    following = o.contacts[colour + 2]
                    first_k = begin + share_begin(t, threads, end - begin)
                    last_k = begin + share_end(t, threads, end - begin)
                    for k in range(first_k, last_k, share_step(threads, end - begin)):
                        contact_at(k, o, s, h, a)
                    meet_between(arrivals, end - begin, following - end)
                    begin = end
                    end = following
                    colour += 1
                if colour == COLOURS and end > begin:
                    if t == 0:
                        for k in range(begin, end):
                            contact_at(k, o, s, h, a)
                    meet(arrivals)
            for i in range(t, s.vertices, threads):
                k = o.half_places[i]
                solve_half_spaces(
                    k, k + o.half_counts[i], a.half_vertices, a.half_normals, a.half_offsets, a.half_ways,
                    a.half_thickness, a.half_friction, s.friction, progress, part, h * s.push_speed, a.half_pushed,
                    a.start, a.before, a.p,
                )  # fmt: skip

    for i in range(t, s.vertices, threads):
        end_vertex(i, per_h, a.p, a.before, a.x, a.v)

"""The substeps of `predictive` in one launch: all threads share each colour and wait for each other between them."""

import warp as wp

from weft.dynamics.attachments import attach_vertices
from weft.dynamics.fabric_constraints import (
    bend_loaded,
    bend_quads,
    hinge_interval,
    hinge_softness,
    stretch_loaded,
    stretch_pairs,
)
from weft.dynamics.goals import follow_goals
from weft.methods.predictive_arrays import Arrays, Numbers
from weft.response.half_spaces import solve_half_spaces
from weft.response.predictive_contacts import ASLEEP, solve_contacts
from weft.response.stencil_colours import COLOURS
from weft.world.card import load_vec2i, load_vec4d, load_vec4i
from weft.world.rows import end_vertex, predict_vertices
from weft.world.together import (
    BLOCK,
    begin_meeting,
    end_meeting,
    meet,
    meet_between,
    share_begin,
    share_end,
    share_step,
    shared,
    spread,
)

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
    stop: wp.array[int]
    """not 0 where the step is not to be done"""


@wp.func
def stretch_all(
    t: int, threads: int, arrivals: wp.array[int], sweep: int, s: Numbers, per_h: wp.float64, a: Arrays, o: Offsets
):
    """All springs between two vertices; what a thread needs for its next one is loaded while threads wait."""
    colours = o.stretch.shape[0] - 1
    place = spread(t, threads)
    last = a.pairs.shape[0] - 1
    end = int(0)
    following = o.stretch[wp.min(1, colours)]
    for colour in range(colours):
        ticket = begin_meeting(arrivals)
        i = end + place
        k = wp.min(i, last)
        q = load_vec2i(a.pairs, k)
        spring = a.pair_springs[k]
        end = following
        following = o.stretch[wp.min(colour + 2, colours)]
        end_meeting(arrivals, ticket)
        stretch_loaded(i < end, k, q, spring, sweep, s.sweeps, per_h, a.pair_pull, a.before, a.p)
        for j in range(i + threads, end, threads):
            stretch_pairs(
                j, j + 1, a.pairs, a.pair_springs, a.pair_moves, sweep, s.sweeps, per_h, a.pair_pull, a.before, a.p
            )


@wp.func
def bend_all(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    sweep: int,
    s: Numbers,
    per_h: wp.float64,
    softness: wp.float64,
    a: Arrays,
    o: Offsets,
):
    """The first colours of springs over four vertices, likewise."""
    place = spread(t, threads)
    last = a.quads.shape[0] - 1
    most = o.bend.shape[0] - 1
    end = int(0)
    following = o.bend[wp.min(1, most)]
    for colour in range(colours):
        ticket = begin_meeting(arrivals)
        i = end + place
        k = wp.min(i, last)
        q = load_vec4i(a.quads, k)
        w = load_vec4d(a.quad_weights, k)
        spring = a.quad_springs[k]
        g = load_vec4d(a.quad_moves, k)
        end = following
        following = o.bend[wp.min(colour + 2, most)]
        soft = softness
        if colour < s.stitch_colours:
            soft = per_h * per_h
        end_meeting(arrivals, ticket)
        bend_loaded(i < end, k, q, w, spring, g, sweep, s.sweeps, per_h, soft, a.quad_pull, a.before, a.p)
        for j in range(i + threads, end, threads):
            bend_quads(
                j, j + 1, a.quads, a.quad_weights, a.quad_springs, a.quad_moves, sweep, s.sweeps, per_h, soft,
                a.quad_pull, a.before, a.p,
            )  # fmt: skip


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


@wp.func
def part_by_colours(t: int, threads: int, arrivals: wp.array[int], s: Numbers, h: wp.float64, a: Arrays, o: Offsets):
    """All contacts of cloth with cloth, one colour after another, then those that found none."""
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


@shared
@wp.kernel(launch_bounds=BLOCK)
def advance_together(
    first: int, threads: int, arrivals: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: Offsets
):
    """All substeps, then positions; contacts and half-spaces are there."""
    t = first + wp.tid()
    if o.stop[0] != 0:
        return
    s = settings[0]
    h = s.dt / wp.float64(s.substeps)
    per_h = ONE / h
    part = ONE / wp.float64(s.substeps)
    slowed = ONE / (ONE + h * s.air_damping)
    bends = o.bend.shape[0] - 1
    interval = hinge_interval(s.substeps, s.rehearsal)
    softness = hinge_softness(s.substeps, s.rehearsal, per_h)
    ranks = o.attachments.shape[0] - 1

    for substep in range(s.substeps):
        progress = wp.float64(substep + 1) * part
        # what a thread did to its vertices last in the substep before, it goes on from: no need to wait
        for i in range(t, s.vertices, threads):
            predict_vertices(i, i + 1, a.x, a.target, a.force, s.gravity, slowed, h, progress, a.p, a.before, a.start)
        for sweep in range(s.sweeps):
            stretch_all(t, threads, arrivals, sweep, s, per_h, a, o)
            hinges = wp.where(substep % interval == 0, bends, s.stitch_colours)
            bend_all(t, threads, arrivals, hinges, sweep, s, per_h, softness, a, o)
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
                part_by_colours(t, threads, arrivals, s, h, a, o)
            for i in range(t, s.vertices, threads):
                k = o.half_places[i]
                solve_half_spaces(
                    k, k + o.half_counts[i], a.half_vertices, a.half_normals, a.half_offsets, a.half_ways,
                    a.half_thickness, a.half_friction, s.friction, progress, part, h * s.push_speed, a.half_pushed,
                    a.start, a.before, a.p,
                )  # fmt: skip

    for i in range(t, s.vertices, threads):
        end_vertex(i, per_h, a.p, a.before, a.x, a.v)

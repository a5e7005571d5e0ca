"""The substeps of `predictive`, however many threads share them: one that does small cloth alone, all cores, a card.

Threads that wait for each other share each colour of springs, hinges and contacts. Where a card has large cloth, springs and
contacts go another way (`predictive_in_parts`); all else is here.
"""

import warp as wp

from weft.contact.stencil_colours import COLOURS
from weft.dynamics.packed_vertices import end_vertex, predict_vertices
from weft.methods.predictive.arrays import Arrays, Numbers
from weft.methods.predictive.attachments import attach_vertices
from weft.methods.predictive.contacts import ASLEEP, solve_contacts
from weft.methods.predictive.fabric_constraints import (
    bend_loaded,
    bend_quads,
    hinge_interval,
    hinge_softness,
    stretch_loaded,
    stretch_pairs,
)
from weft.methods.predictive.goals import follow_goals
from weft.methods.predictive.grid_stride import (
    beyond_loaded,
    go_end,
    go_step,
    in_fours,
    item_step,
    span_begin,
    span_end,
)
from weft.methods.predictive.half_spaces import solve_half_spaces
from weft.runtime.cooperative import barrier_arrive, barrier_between, barrier_wait, grid_barrier, on_gpu
from weft.runtime.partition import interleaved_thread, partition_begin, partition_end, partition_step
from weft.runtime.vector_loads import load_vec2i, load_vec4d, load_vec4i

wp.set_module_options({"enable_backward": False})

ONE = wp.constant(wp.float64(1.0))


@wp.struct
class Pace:
    """The numbers that all substeps of a step share."""

    substeps: int
    h: wp.float64
    per_h: wp.float64
    part: wp.float64
    """of the step"""
    slowed: wp.float64
    """what the air leaves of a way"""
    push: wp.float64
    """by how much overlap from before is undone at most"""
    interval: int
    """hinges are solved in the first of so many substeps"""
    softness: wp.float64
    """of hinges"""


@wp.struct
class Offsets:
    """Where the colours of each kind of constraint start, and the order of the contacts.

    A thread that does all alone needs colours of springs only, which it does four at once: all else is one colour.
    """

    stretch: wp.array[int]
    bend: wp.array[int]
    stitch_colours: int
    """so many of those of `bend`, the first ones"""
    attachments: wp.array[int]
    contacts: wp.array[int]
    order: wp.array[int]
    """empty where contacts lie in their order"""
    half_counts: wp.array[int]
    """of half-spaces: of each vertex, or of all together"""
    half_places: wp.array[int]
    stop: wp.array[int]
    """not 0 where the step is not to be done"""


@wp.func
def pace_of(substeps: int, s: Numbers) -> Pace:
    """The numbers of so many substeps."""
    pace = Pace()
    pace.substeps = substeps
    pace.h = s.dt / wp.float64(substeps)
    pace.per_h = ONE / pace.h
    pace.part = ONE / wp.float64(substeps)
    pace.slowed = ONE / (ONE + pace.h * s.air_damping)
    pace.push = pace.h * s.push_speed
    pace.interval = hinge_interval(substeps, s.prediction)
    pace.softness = hinge_softness(substeps, s.prediction, pace.per_h)
    return pace


@wp.func
def predict_some(first: int, last: int, progress: wp.float64, s: Numbers, pace: Pace, a: Arrays):
    """Free motion of some vertices, up to `progress` of the step."""
    predict_vertices(
        first, last, a.x, a.target, a.force, s.gravity, pace.slowed, pace.h, progress, a.p, a.before, a.start
    )


@wp.func
def stretch_some(first: int, last: int, sweep: int, s: Numbers, pace: Pace, a: Arrays):
    """Some springs between two vertices, no two of which share one."""
    stretch_pairs(
        first, last, a.pairs, a.pair_springs, a.pair_moves, sweep, s.sweeps, pace.per_h, a.pair_pull, a.before, a.p
    )


@wp.func
def bend_some(first: int, last: int, softness: wp.float64, sweep: int, s: Numbers, pace: Pace, a: Arrays):
    """Some springs over four vertices, one after another."""
    bend_quads(
        first, last, a.quads, a.quad_weights, a.quad_springs, a.quad_moves, sweep, s.sweeps, pace.per_h, softness,
        a.quad_pull, a.before, a.p,
    )  # fmt: skip


@wp.func
def stretch_all(
    t: int, threads: int, arrivals: wp.array[int], sweep: int, s: Numbers, pace: Pace, a: Arrays, o: Offsets
):
    """All springs between two vertices; what a thread of a card needs for its next one is loaded while threads wait."""
    colours = o.stretch.shape[0] - 1
    place = interleaved_thread(t, threads)
    last = a.pairs.shape[0] - 1
    end = int(0)
    following = o.stretch[wp.min(1, colours)]
    for colour in range(colours):
        ticket = barrier_arrive(arrivals)
        begin = end
        end = following
        i = span_begin(place, threads, begin, end)
        k = wp.min(i, last)
        q = load_vec2i(a.pairs, k)
        spring = a.pair_springs[k]
        following = o.stretch[wp.min(colour + 2, colours)]
        barrier_wait(arrivals, ticket)
        stretch_loaded(on_gpu() and i < end, k, q, spring, sweep, s.sweeps, pace.per_h, a.pair_pull, a.before, a.p)
        stop = span_end(place, threads, begin, end)
        for j in range(i + beyond_loaded(threads), stop, go_step(threads, i, stop)):
            stretch_some(j, go_end(j, stop), sweep, s, pace, a)


@wp.func
def bend_all(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    colours: int,
    sweep: int,
    s: Numbers,
    pace: Pace,
    a: Arrays,
    o: Offsets,
):
    """The first colours of springs over four vertices, likewise."""
    place = interleaved_thread(t, threads)
    last = a.quads.shape[0] - 1
    most = o.bend.shape[0] - 1
    end = int(0)
    following = o.bend[wp.min(1, most)]
    for colour in range(colours):
        ticket = barrier_arrive(arrivals)
        begin = end
        end = following
        i = span_begin(place, threads, begin, end)
        k = wp.min(i, last)
        q = load_vec4i(a.quads, k)
        w = load_vec4d(a.quad_weights, k)
        spring = a.quad_springs[k]
        g = load_vec4d(a.quad_moves, k)
        following = o.bend[wp.min(colour + 2, most)]
        soft = pace.softness
        if colour < o.stitch_colours:
            soft = pace.per_h * pace.per_h
        barrier_wait(arrivals, ticket)
        bend_loaded(
            on_gpu() and i < end, k, q, w, spring, g, sweep, s.sweeps, pace.per_h, soft, a.quad_pull, a.before, a.p
        )
        stop = span_end(place, threads, begin, end)
        for j in range(i + beyond_loaded(threads), stop, go_step(threads, i, stop)):
            bend_some(j, go_end(j, stop), soft, sweep, s, pace, a)


@wp.func
def lead(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    progress: wp.float64,
    ranks: wp.array[int],
    s: Numbers,
    pace: Pace,
    a: Arrays,
):
    """What leads single vertices: goals, then attachments, of which those of a rank have different vertices."""
    if s.goals > 0:
        begin = span_begin(t, threads, 0, s.goals)
        end = span_end(t, threads, 0, s.goals)
        for i in range(begin, end, go_step(threads, begin, end)):
            follow_goals(
                i, go_end(i, end), a.goal_vertices, a.goal_springs, a.goal_starts, a.goals, pace.h, progress, pace.part,
                a.before, a.p,
            )  # fmt: skip
        grid_barrier(arrivals)
    for rank in range(ranks.shape[0] - 1):
        begin = span_begin(t, threads, ranks[rank], ranks[rank + 1])
        end = span_end(t, threads, ranks[rank], ranks[rank + 1])
        for i in range(begin, end, go_step(threads, begin, end)):
            attach_vertices(i, go_end(i, end), a.attached, a.lengths, a.p)
        grid_barrier(arrivals)


@wp.func
def part_some(first: int, last: int, step: int, s: Numbers, pace: Pace, a: Arrays, o: Offsets):
    """Contacts of cloth with cloth from one place in the order to another: where they lie in it, the CPU's in one go."""
    ordered = o.order.shape[0] > 0
    go = int(step)
    if not ordered:
        go = go_step(step, first, last)
    for k in range(first, last, go):
        i = int(k)
        end = int(last)
        if ordered:
            i = o.order[k]
            end = i + 1
        solve_contacts(
            i, go_end(i, end), ASLEEP, a.contact_vertices, a.contact_kinds, a.contact_weights, a.contact_normals,
            a.contact_thickness, a.contact_friction, s.friction, pace.push, a.contact_pushed, a.x, a.start, a.before, a.p,
        )  # fmt: skip


@wp.func
def part_by_colours(t: int, threads: int, arrivals: wp.array[int], s: Numbers, pace: Pace, a: Arrays, o: Offsets):
    """All contacts of cloth with cloth, one colour after another, then those that found none."""
    begin = o.contacts[0]
    end = o.contacts[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = o.contacts[colour + 2]
        size = end - begin
        first = begin + in_fours(partition_begin(t, threads, size), size)
        last = begin + in_fours(partition_end(t, threads, size), size)
        part_some(first, last, partition_step(threads, size), s, pace, a, o)
        barrier_between(arrivals, size, following - end)
        begin = end
        end = following
        colour += 1
    if colour == COLOURS and end > begin:
        if t == 0:
            part_some(begin, end, 1, s, pace, a, o)
        grid_barrier(arrivals)


@wp.func
def keep_out(
    first: int,
    last: int,
    counts: wp.array[int],
    places: wp.array[int],
    progress: wp.float64,
    s: Numbers,
    pace: Pace,
    a: Arrays,
):
    """The half-spaces of some vertices; those of more than one lie one after another."""
    solve_half_spaces(
        places[first], places[last - 1] + counts[last - 1], a.half_vertices, a.half_normals, a.half_offsets, a.half_ways,
        a.half_thickness, a.half_friction, s.friction, progress, pace.part, pace.push, a.half_pushed, a.start, a.before,
        a.p,
    )  # fmt: skip


@wp.func
def take_substeps(t: int, threads: int, arrivals: wp.array[int], s: Numbers, pace: Pace, a: Arrays, o: Offsets):
    """All substeps, then positions; contacts and half-spaces are there."""
    begin = span_begin(t, threads, 0, s.vertices)
    end = span_end(t, threads, 0, s.vertices)
    owners = o.half_counts.shape[0]
    first_owner = span_begin(t, threads, 0, owners)
    last_owner = span_end(t, threads, 0, owners)
    for substep in range(pace.substeps):
        progress = wp.float64(substep + 1) * pace.part
        # what a thread did to its vertices last in the substep before, it goes on from: no need to wait
        for i in range(begin, end, go_step(threads, begin, end)):
            predict_some(i, go_end(i, end), progress, s, pace, a)
        for sweep in range(s.sweeps):
            stretch_all(t, threads, arrivals, sweep, s, pace, a, o)
            bends = wp.where(substep % pace.interval == 0, o.bend.shape[0] - 1, o.stitch_colours)
            bend_all(t, threads, arrivals, bends, sweep, s, pace, a, o)
            grid_barrier(arrivals)
            lead(t, threads, arrivals, progress, o.attachments, s, pace, a)
            if s.contacts > 0:
                part_by_colours(t, threads, arrivals, s, pace, a, o)
            for i in range(first_owner, last_owner, go_step(threads, first_owner, last_owner)):
                keep_out(i, go_end(i, last_owner), o.half_counts, o.half_places, progress, s, pace, a)

    for i in range(begin, end, item_step(threads)):
        end_vertex(i, pace.per_h, a.p, a.before, a.x, a.v)

"""A step of `predictive` on the CPU as one kernel: half-spaces, cached contacts, then all substeps.

One thread, which is plain serial code, or several that share each pass and wait for each other between passes: that is the only
difference, and results are the same bytes. Lines of springs, stitches and attachments go colour by colour. Contacts of cloth
with cloth are solved in the order of the list, by the first thread.
"""

import warp as wp

from weft.dynamics.packed_vertices import end_vertex, predict_vertices
from weft.methods.predictive.bending import BendingArrays, solve_bending
from weft.methods.predictive.collider_shapes import ColliderArrays
from weft.methods.predictive.contacts import LAST_SWEEPS, StepContactArrays, refresh_contact, solve_contacts
from weft.methods.predictive.cores import carry, find_carried, free_lost, lose_pierced
from weft.methods.predictive.fabric import FabricArrays, follow_triangles, solve_fabric
from weft.methods.predictive.guides import GuideArrays, solve_guides
from weft.methods.predictive.half_spaces import HalfSpaceArrays, find_half_spaces, measure_end_depths, solve_half_spaces
from weft.methods.predictive.state import (
    Pace,
    Settings,
    VertexArrays,
    pace_of,
    progress_of,
    range_begin,
    span_end,
    start_moving,
    stop_moving,
)
from weft.runtime.cooperative import grid_barrier

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def measure_edge_depths(
    first: int,
    last: int,
    progress: wp.float64,
    pace: Pace,
    arrivals: wp.array[int],
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
):
    """How deep the other ends of edges are, where there may be edges; all threads wait for each other before and after."""
    if halves.with_edges != 0:
        grid_barrier(arrivals)
        measure_end_depths(first, last, progress, pace.share, halves, vertices)
        grid_barrier(arrivals)


@wp.func
def keep_out_of_cores(
    t: int,
    begin: int,
    end: int,
    first: int,
    last: int,
    arrivals: wp.array[int],
    share: wp.float64,
    up: wp.vec3d,
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
    colliders: ColliderArrays,
):
    """At the end of a step: colliders carry along the vertices begin..end-1, of half-spaces first..last-1, or lose them."""
    for i in range(begin, end):
        vertices.carrier[i] = -1
    if t == 0:
        for k in range(vertices.carries.shape[0]):
            vertices.carries[k] = 0
    grid_barrier(arrivals)
    for number in range(vertices.carries.shape[0]):
        find_carried(first, last, number, halves, vertices, colliders)
        grid_barrier(arrivals)
        if vertices.carries[number] == 0:
            break
        for i in range(begin, end):
            carry(i, share, up, vertices, colliders)
        grid_barrier(arrivals)
    for i in range(begin, end):
        free_lost(i, vertices, colliders)
    lose_pierced(first, last, up, halves, vertices, colliders)


@wp.kernel
def advance(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    settings: wp.array[Settings],
    vertices: VertexArrays,
    fabric: FabricArrays,
    bending: BendingArrays,
    guides: GuideArrays,
    contacts: StepContactArrays,
    halves: HalfSpaceArrays,
    colliders: ColliderArrays,
):
    """One step, or its prediction; contacts that are not cached were found before."""
    t = first + wp.tid()
    s = settings[0]
    pace = pace_of(s)
    begin = range_begin(t, threads, s.vertices)
    end = span_end(t, threads, s.vertices)

    # vertices, where nothing would stop them, and their half-spaces
    for i in range(begin, end):
        start_moving(i, s, pace, vertices)
    first_half = begin * halves.room
    count = find_half_spaces(begin, end, s, vertices, colliders, halves)
    halves.counts[2 * t] = first_half
    halves.counts[2 * t + 1] = count
    if t == 0:
        for k in range(2 * threads, halves.counts.shape[0]):
            halves.counts[k] = 0
    grid_barrier(arrivals)
    if halves.full[0] != 0:
        return

    if s.cached != 0:
        for i in range(range_begin(t, threads, s.contacts), span_end(t, threads, s.contacts)):
            refresh_contact(i, contacts, vertices)
    grid_barrier(arrivals)

    interval = bending.intervals[s.prediction]
    if interval == 0:
        interval = pace.substeps
    for substep in range(pace.substeps):
        progress = progress_of(substep, pace)
        if substep % interval == 0 and bending.intervals[s.prediction] > 0:
            solve_bending(t, threads, arrivals, s, pace, vertices, bending)
        # a thread moved its vertices last itself, so it need not wait for others here
        predict_vertices(
            begin, end, vertices.x, vertices.target, vertices.pull, s.gravity, pace.slowed, pace.h, progress, vertices.p,
            vertices.before, vertices.start,
        )  # fmt: skip
        for sweep in range(s.sweeps):
            if sweep == 0:
                solve_fabric(t, threads, arrivals, pace.h, fabric, vertices)
            solve_guides(t, threads, arrivals, progress, pace, guides, vertices)
            if s.contacts > 0:
                if t == 0:
                    solve_contacts(0, s.contacts, 0, s.friction, pace.push, contacts, vertices)
                grid_barrier(arrivals)
            measure_edge_depths(first_half, first_half + count, progress, pace, arrivals, halves, vertices)
            solve_half_spaces(
                first_half, first_half + count, progress, pace.share, s.friction, pace.push, halves, vertices
            )
            if sweep < s.sweeps - 1:
                grid_barrier(arrivals)
        if s.prediction == 0 and ((substep + 1) % interval == 0 or substep + 1 == pace.substeps):
            follow_triangles(t, threads, arrivals, pace.per_h, fabric)

    for i in range(begin, end):
        stop_moving(i, s, pace, vertices)
    if t == 0 and s.prediction == 0:
        contacts.deep[1] = 0
    # at the end of the step contacts count more than springs: the next search takes the sides as they are then
    if s.contacts > 0 and s.prediction == 0:
        for k in range(1, LAST_SWEEPS + 1):
            # half-spaces of other threads may still move vertices of contacts
            grid_barrier(arrivals)
            if t == 0:
                contacts.deep[k] = 0
                solve_contacts(0, s.contacts, k, s.friction, pace.push, contacts, vertices)
            grid_barrier(arrivals)
            measure_edge_depths(first_half, first_half + count, ONE, pace, arrivals, halves, vertices)
            solve_half_spaces(first_half, first_half + count, ONE, pace.share, s.friction, pace.push, halves, vertices)
            grid_barrier(arrivals)
            if contacts.deep[k] == 0:
                break

    if s.prediction == 0:
        grid_barrier(arrivals)
        keep_out_of_cores(
            t, begin, end, first_half, first_half + count, arrivals, pace.share, -s.gravity, halves, vertices, colliders
        )
        if t == 0 and vertices.carries[0] != 0:
            contacts.deep[1] = 1
    for i in range(begin, end):
        end_vertex(i, pace.per_h, vertices.p, vertices.before, vertices.x, vertices.v)
    if t == 0 and s.prediction == 0:
        for k in range(colliders.start.shape[0]):
            colliders.start[k] = colliders.end[k]

"""The substeps of `predictive` on CUDA in one launch: all threads share each colour of spring lines, each round of contacts and
each iteration of bending, and wait for each other in between.

Contacts of cloth with cloth are solved by reservations (Luby). Of the contacts of a step a few in a hundred push in a sweep,
and over a hundred share some vertices: to go through all colours of all contacts takes fifty times as long as those that push
need. So all contacts are tested side by side, and those that are nearly too near are solved in rounds. In each round every
contact that would push reserves its vertices that can move, and pushes if none with a lower number reserves one of them.
Numbers are a hash of the vertices, another one in each sweep, so that the order does not depend on that of the list. Each
contact pushes once a sweep at most. Where only few had to let others go first, they wait for the next sweep: where cloth has
crossed itself they would push each other back and forth for many rounds.

A CPU executes the same kernel with one thread, which tests need.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX, end_vertex, predict_vertices
from weft.methods.predictive.bending import BendingArrays, solve_bending
from weft.methods.predictive.collider_shapes import ColliderArrays
from weft.methods.predictive.contacts import CONTACT_CPP, LAST_SWEEPS, StepContactArrays
from weft.methods.predictive.cores import carry, find_carried, free_lost, lose_pierced
from weft.methods.predictive.fabric import FabricArrays, follow_triangles, solve_fabric
from weft.methods.predictive.guides import GuideArrays, solve_guides
from weft.methods.predictive.half_spaces import HalfSpaceArrays, measure_end_depths, solve_half_spaces
from weft.methods.predictive.state import Pace, Settings, VertexArrays, pace_of, progress_of, stop_moving
from weft.runtime.cooperative import SMALL_BLOCK, SYNC_GRID, clusterable, grid_barrier
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# rounds of a batch of contacts at most, and of all batches of a sweep: more leave fewer contacts for the next sweep
ROUNDS = 64
MOST_ROUNDS = 256
# no further round for fewer waiting contacts than one in so many vertices: with fewer vertices a sweep has up to sixty rounds
# where cloth has crossed itself, and leaves more crossings
WAITING = 48
# a contact is nearly too near if it would be with this many times its thickness: it may be pushed in a later round
MARGIN = 1.03
# contacts that a thread tests before those that are near are solved: as many as a block's list has room for
TESTS = 8
# counters of threads, all 0 at first: in turn how many contacts wait, for each of two sweeps; in turn how many batches there
# are, and how many contacts push
FLAGS, LISTS = 4, 3
COUNTERS = 2 * FLAGS + 2 * LISTS
ONE = wp.constant(wp.float64(1.0))
NOBODY = wp.constant(wp.uint64(2**64 - 1))

_reservations = NativeHeader(__file__, "reservations.h")


@wp.struct
class Reservations:
    """What contacts need, and whether the step is to be done."""

    masks: wp.array[int]
    """two bits for each contact"""
    reservations: wp.array[wp.uint64]
    """the lowest number of a contact that wants to move each vertex"""
    counters: wp.array[int]
    stop: wp.array[int]
    """not 0 where the step is not to be done"""


@wp.func_native(
    PACKED_VERTEX
    + _reservations.body(
        "solve_near",
        **CONTACT_CPP,
        SYNC_GRID=SYNC_GRID,
        BLOCK=SMALL_BLOCK,
        ROUNDS=ROUNDS,
        MOST_ROUNDS=MOST_ROUNDS,
        WAITING=WAITING,
        MARGIN=MARGIN,
        TESTS=TESTS,
        FLAGS=FLAGS,
        LISTS=LISTS,
    )
)
def solve_near(
    thread: int,
    arrivals: wp.array[int],
    count: int,
    turn: int,
    fresh: int,
    friction_factor: wp.float64,
    push: wp.float64,
    masks: wp.array[int],
    reservations: wp.array[wp.uint64],
    counters: wp.array[int],
    contacts: StepContactArrays,
    vertices: VertexArrays,
):
    """Solve those of so many contacts that are too near, by all threads; `turn` counts the sweeps of a step from 0.

    It must leave out no number: a sweep clears the counters of the next one. `fresh` is as in `solve_contacts`.

    Before the first sweep reservations and counters are cleared, and all threads wait for each other.
    """
    ...


@wp.func
def clear_reservations(t: int, threads: int, reservations: wp.array[wp.uint64], counters: wp.array[int]):
    """No contact has reserved a vertex."""
    for v in range(t, reservations.shape[0], threads):
        reservations[v] = NOBODY
    for k in range(t, counters.shape[0], threads):
        counters[k] = 0


@wp.func
def predict_one(i: int, progress: wp.float64, s: Settings, pace: Pace, a: VertexArrays):
    """Free motion of a vertex over a substep that ends at `progress` of the step."""
    predict_vertices(i, i + 1, a.x, a.target, a.pull, s.gravity, pace.slowed, pace.h, progress, a.p, a.before, a.start)


@wp.func
def measure_edge_depths(
    t: int,
    threads: int,
    progress: wp.float64,
    pace: Pace,
    arrivals: wp.array[int],
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
):
    """How deep the other ends of edges are, where there may be edges; all threads wait for each other before and after."""
    if halves.with_edges != 0:
        grid_barrier(arrivals)
        for i in range(t, halves.counts.shape[0], threads):
            measure_end_depths(
                i * halves.room, i * halves.room + halves.counts[i], progress, pace.share, halves, vertices
            )
        grid_barrier(arrivals)


@wp.func
def keep_out_of_cores(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    share: wp.float64,
    up: wp.vec3d,
    halves: HalfSpaceArrays,
    vertices: VertexArrays,
    colliders: ColliderArrays,
):
    """At the end of a step: colliders carry vertices along, or lose them, as on the CPU."""
    count = vertices.carrier.shape[0]
    for i in range(t, count, threads):
        vertices.carrier[i] = -1
    if t == 0:
        for k in range(vertices.carries.shape[0]):
            vertices.carries[k] = 0
    grid_barrier(arrivals)
    for number in range(vertices.carries.shape[0]):
        for i in range(t, count, threads):
            find_carried(i * halves.room, i * halves.room + halves.counts[i], number, halves, vertices, colliders)
        grid_barrier(arrivals)
        if vertices.carries[number] == 0:
            break
        for i in range(t, count, threads):
            carry(i, share, up, vertices, colliders)
        grid_barrier(arrivals)
    for i in range(t, count, threads):
        free_lost(i, vertices, colliders)
        lose_pierced(i * halves.room, i * halves.room + halves.counts[i], up, halves, vertices, colliders)


@clusterable
@wp.kernel(launch_bounds=SMALL_BLOCK)
def advance_on_cuda(
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
    o: Reservations,
):
    """All substeps, then positions; contacts and half-spaces were found before."""
    t = first + wp.tid()
    if o.stop[0] != 0:
        return
    s = settings[0]
    pace = pace_of(s)
    clear_reservations(t, threads, o.reservations, o.counters)
    if t == 0:
        for k in range(LAST_SWEEPS + 1):
            contacts.deep[k] = 0
    interval = bending.intervals[s.prediction]
    if interval == 0:
        interval = s.substeps
    for substep in range(s.substeps):
        progress = progress_of(substep, pace)
        if substep % interval == 0:
            if bending.intervals[s.prediction] > 0:
                solve_bending(t, threads, arrivals, s, pace, vertices, bending)
            for i in range(t, s.vertices, threads):
                predict_one(i, progress, s, pace, vertices)
        for sweep in range(s.sweeps):
            if sweep == 0:
                solve_fabric(t, threads, arrivals, pace.h, fabric, vertices)
            solve_guides(t, threads, arrivals, progress, pace, guides, vertices)
            if s.contacts > 0:
                # its last round ends with a barrier
                solve_near(
                    t, arrivals, s.contacts, substep * s.sweeps + sweep, 0, s.friction, pace.push, o.masks,
                    o.reservations, o.counters, contacts, vertices,
                )  # fmt: skip
            measure_edge_depths(t, threads, progress, pace, arrivals, halves, vertices)
            for i in range(t, s.vertices, threads):
                place = i * halves.room
                solve_half_spaces(
                    place, place + halves.counts[i], progress, pace.share, s.friction, pace.push, halves, vertices
                )
                # no other thread moves this vertex until the next substep
                if sweep == s.sweeps - 1 and substep < s.substeps - 1 and (substep + 1) % interval != 0:
                    predict_one(i, progress + pace.share, s, pace, vertices)
            if sweep < s.sweeps - 1:
                grid_barrier(arrivals)
        if s.prediction == 0 and ((substep + 1) % interval == 0 or substep + 1 == s.substeps):
            follow_triangles(t, threads, arrivals, pace.per_h, fabric)

    for i in range(t, s.vertices, threads):
        stop_moving(i, s, pace, vertices)
    # as on the CPU, contacts alone after the last substep
    last = wp.where(s.contacts > 0 and s.prediction == 0, LAST_SWEEPS, 0)
    for number in range(1, last + 1):
        grid_barrier(arrivals)
        solve_near(
            t, arrivals, s.contacts, s.substeps * s.sweeps + number - 1, number, s.friction, pace.push, o.masks,
            o.reservations, o.counters, contacts, vertices,
        )  # fmt: skip
        measure_edge_depths(t, threads, ONE, pace, arrivals, halves, vertices)
        for i in range(t, s.vertices, threads):
            place = i * halves.room
            solve_half_spaces(place, place + halves.counts[i], ONE, pace.share, s.friction, pace.push, halves, vertices)
        grid_barrier(arrivals)
        if contacts.deep[number] == 0:
            break

    if s.prediction == 0:
        grid_barrier(arrivals)
        keep_out_of_cores(t, threads, arrivals, pace.share, -s.gravity, halves, vertices, colliders)
        if t == 0 and vertices.carries[0] != 0:
            contacts.deep[1] = 1
        grid_barrier(arrivals)
    for i in range(t, s.vertices, threads):
        end_vertex(i, pace.per_h, vertices.p, vertices.before, vertices.x, vertices.v)

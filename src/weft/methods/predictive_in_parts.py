"""The substeps of `predictive` on a card, of cloth that the shared memory of a cluster's blocks holds, a part in each.

Springs and hinges within a part are its block's own, whose threads wait for each other only; those between two neighbouring
parts are done by the block of the first then, and what reaches farther by all (`weft.world.part_order`). So all blocks wait
for each other four times a substep, and six times where hinges are solved.
"""

import warp as wp

from weft.dynamics.fabric_constraints import bend_loaded, hinge_interval, hinge_softness, stretch_loaded
from weft.methods.predictive_arrays import Arrays, Numbers, PartOffsets
from weft.methods.predictive_together import part_near
from weft.response.half_spaces import solve_half_spaces
from weft.world.card import load_vec2i, load_vec4d, load_vec4i
from weft.world.cluster_rows import (
    ROOM,
    Parts,
    Rows,
    all_rows,
    one_part,
    own_rows,
    parts_of_cluster,
    places_of_four,
    places_of_two,
)
from weft.world.rows import end_vertex, predict_vertices
from weft.world.together import BLOCK, CLUSTER, meet, meet_in_block, on_card

wp.set_module_options({"enable_backward": False})

ONE = wp.constant(wp.float64(1.0))


@wp.struct
class Team:
    """Which blocks' constraints a thread does, and which of them: its own block's on a card, all of all elsewhere."""

    first: int
    last: int
    place: int
    size: int


@wp.func
def team_of(t: int) -> Team:
    team = Team()
    if on_card():
        team.first = t // BLOCK
        team.last = team.first + 1
        team.place = t % BLOCK
        team.size = BLOCK
    elif t == 0:
        team.last = CLUSTER
        team.size = 1
    return team


@wp.func
def stretch_at(i: int, sweep: int, s: Numbers, per_h: wp.float64, a: Arrays, rows: Rows, parts: Parts):
    """A spring between two vertices."""
    q = places_of_two(load_vec2i(a.pairs, i), parts)
    stretch_loaded(True, i, q, a.pair_springs[i], sweep, s.sweeps, per_h, a.pair_pull, rows.before, rows.p)


@wp.func
def bend_at(
    i: int, sweep: int, s: Numbers, per_h: wp.float64, softness: wp.float64, a: Arrays, rows: Rows, parts: Parts
):
    """A spring over four vertices."""
    q = places_of_four(load_vec4i(a.quads, i), parts)
    w = load_vec4d(a.quad_weights, i)
    g = load_vec4d(a.quad_moves, i)
    bend_loaded(True, i, q, w, a.quad_springs[i], g, sweep, s.sweeps, per_h, softness, a.quad_pull, rows.before, rows.p)


@wp.func
def stretch_blocks(
    team: Team,
    table: int,
    colours: int,
    sweep: int,
    s: Numbers,
    per_h: wp.float64,
    a: Arrays,
    starts: wp.array[int],
    rows: Rows,
    parts: Parts,
):
    """The springs of blocks; what a thread needs for the next one is on its way while it does one."""
    last = a.pairs.shape[0] - 1
    for block in range(team.first, team.last):
        row = table + block * colours
        i = starts[row] + team.place
        end = starts[wp.min(row + 1, starts.shape[0] - 1)]
        q = load_vec2i(a.pairs, wp.min(i, last))
        spring = a.pair_springs[wp.min(i, last)]
        for colour in range(colours):
            following = end + team.place
            next_q = load_vec2i(a.pairs, wp.min(following, last))
            next_spring = a.pair_springs[wp.min(following, last)]
            next_end = starts[wp.min(row + colour + 2, starts.shape[0] - 1)]
            meet_in_block(1)
            at = places_of_two(q, parts)
            stretch_loaded(i < end, i, at, spring, sweep, s.sweeps, per_h, a.pair_pull, rows.before, rows.p)
            for j in range(i + team.size, end, team.size):
                stretch_at(j, sweep, s, per_h, a, rows, parts)
            i = following
            end = next_end
            q = next_q
            spring = next_spring


@wp.func
def bend_blocks(
    team: Team,
    table: int,
    colours: int,
    sweep: int,
    s: Numbers,
    per_h: wp.float64,
    softness: wp.float64,
    a: Arrays,
    starts: wp.array[int],
    rows: Rows,
    parts: Parts,
):
    """The hinges of blocks, likewise."""
    last = a.quads.shape[0] - 1
    for block in range(team.first, team.last):
        row = table + block * colours
        i = starts[row] + team.place
        end = starts[wp.min(row + 1, starts.shape[0] - 1)]
        q = load_vec4i(a.quads, wp.min(i, last))
        w = load_vec4d(a.quad_weights, wp.min(i, last))
        spring = a.quad_springs[wp.min(i, last)]
        g = load_vec4d(a.quad_moves, wp.min(i, last))
        for colour in range(colours):
            following = end + team.place
            k = wp.min(following, last)
            next_q = load_vec4i(a.quads, k)
            next_w = load_vec4d(a.quad_weights, k)
            next_spring = a.quad_springs[k]
            next_g = load_vec4d(a.quad_moves, k)
            next_end = starts[wp.min(row + colour + 2, starts.shape[0] - 1)]
            meet_in_block(1)
            at = places_of_four(q, parts)
            bend_loaded(
                i < end, i, at, w, spring, g, sweep, s.sweeps, per_h, softness, a.quad_pull, rows.before, rows.p
            )
            for j in range(i + team.size, end, team.size):
                bend_at(j, sweep, s, per_h, softness, a, rows, parts)
            i = following
            end = next_end
            q = next_q
            w = next_w
            spring = next_spring
            g = next_g


@wp.func
def advance(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    s: Numbers,
    a: Arrays,
    o: PartOffsets,
    rows: Rows,
    own: Rows,
    parts: Parts,
):
    """All substeps, then positions; contacts and half-spaces are there."""
    h = s.dt / wp.float64(s.substeps)
    per_h = ONE / h
    part = ONE / wp.float64(s.substeps)
    slowed = ONE / (ONE + h * s.air_damping)
    interval = hinge_interval(s.substeps)
    softness = hinge_softness(s.substeps, per_h)
    team = team_of(t)
    # a block's own rows are one array for it
    whole = one_part(t, threads, s.vertices)
    across = CLUSTER * o.stretch_colours[0] + 1
    bends_across = CLUSTER * o.bend_colours[0] + 1

    for substep in range(s.substeps):
        progress = wp.float64(substep + 1) * part
        for i in range(parts.first, parts.last, parts.step):
            predict_vertices(
                i, i + 1, a.x, a.target, a.force, s.gravity, slowed, h, progress, own.p, own.before, own.start
            )
        for sweep in range(s.sweeps):
            stretch_blocks(team, 0, o.stretch_colours[0], sweep, s, per_h, a, o.stretch, own, whole)
            meet(arrivals)
            stretch_blocks(team, across, o.stretch_colours[1], sweep, s, per_h, a, o.stretch, rows, parts)
            meet(arrivals)
            for colour in range(o.stretch_far.shape[0] - 1):
                for i in range(o.stretch_far[colour] + t, o.stretch_far[colour + 1], threads):
                    stretch_at(i, sweep, s, per_h, a, rows, parts)
                meet(arrivals)
            if substep % interval == 0:
                bend_blocks(team, 0, o.bend_colours[0], sweep, s, per_h, softness, a, o.bend, own, whole)
                meet(arrivals)
                bend_blocks(team, bends_across, o.bend_colours[1], sweep, s, per_h, softness, a, o.bend, rows, parts)
                meet(arrivals)
                for colour in range(o.bend_far.shape[0] - 1):
                    for i in range(o.bend_far[colour] + t, o.bend_far[colour + 1], threads):
                        bend_at(i, sweep, s, per_h, softness, a, rows, parts)
                    meet(arrivals)
            if s.contacts > 0:
                part_near(t, threads, arrivals, substep * s.sweeps + sweep, s, h, a, o.near, rows, parts)
            for i in range(parts.first, parts.last, parts.step):
                k = o.half_places[i]
                solve_half_spaces(
                    k, k + o.half_counts[i], a.half_vertices, a.half_normals, a.half_offsets, a.half_ways,
                    a.half_thickness, a.half_friction, s.friction, progress, part, h * s.push_speed, a.half_pushed,
                    own.start, own.before, own.p,
                )  # fmt: skip

    for i in range(parts.first, parts.last, parts.step):
        end_vertex(i, per_h, own.p, own.before, a.x, a.v)


@wp.kernel(launch_bounds=BLOCK, cluster_dim=CLUSTER)
def advance_in_parts(
    first: int, threads: int, arrivals: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: PartOffsets
):
    """All substeps of a step; on the CPU, which has no such memory, with rows in one array."""
    t = first + wp.tid()
    wp.tile_empty(shape=ROOM, dtype=wp.float64, storage="shared")
    if o.stop[0] != 0:
        return
    s = settings[0]
    if on_card():
        parts = parts_of_cluster(t, s.vertices)
        own = own_rows(t, s.vertices)
        for i in range(parts.first, parts.last, parts.step):
            own.p[i] = a.p[i]
            own.before[i] = a.before[i]
        # all blocks must be there before anyone writes to their memory, and as long as someone does
        meet(arrivals)
        advance(t, threads, arrivals, s, a, o, all_rows(s.vertices), own, parts)
        meet(arrivals)
    else:
        rows = Rows()
        rows.p = a.p
        rows.before = a.before
        rows.start = a.start
        advance(t, threads, arrivals, s, a, o, rows, rows, one_part(t, threads, s.vertices))

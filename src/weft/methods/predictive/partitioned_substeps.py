"""The substeps of `predictive` in one launch, of cloth whose vertices lie in parts, one for each block of threads.

Springs and hinges within a part are its block's own, whose threads wait for each other only, and have its rows in the memory
that they share; those between two neighbouring parts are done by the block of the first then, and what reaches farther by all
(`weft.methods.predictive.partition_order`). So all blocks wait for each other twice a substep, besides what contacts need.
"""

import warp as wp

from weft.dynamics.packed_vertices import SHARED_CAPACITY, SHARED_VERTICES, end_vertex
from weft.methods.predictive.arrays import Arrays, Numbers
from weft.methods.predictive.contacts import ASLEEP
from weft.methods.predictive.fabric import Stages
from weft.methods.predictive.fabric_constraints import bend_loaded, bend_shared, stretch_loaded, stretch_shared
from weft.methods.predictive.reservations import clear_reservations, solve_near
from weft.methods.predictive.substeps import Pace, bend_some, keep_out, lead, pace_of, predict_some, stretch_some
from weft.runtime.cooperative import SMALL_BLOCK, block_barrier, clusterable, grid_barrier, on_gpu
from weft.runtime.vector_loads import load_vec2i, load_vec4d, load_vec4i

wp.set_module_options({"enable_backward": False})


@wp.struct
class Places:
    """Where the vertices and constraints of each part lie, and what contacts need."""

    blocks: int
    part: int
    """vertices of a part"""
    vertices: wp.array[int]
    """in the order of parts, none where that is their own"""
    stretch: Stages
    bend: Stages
    attachments: wp.array[int]
    """where the ranks of attachments start"""
    half_counts: wp.array[int]
    half_places: wp.array[int]
    near: wp.array[int]
    """room for two bits for each contact"""
    reservations: wp.array[wp.uint64]
    """who comes first at each vertex"""
    told: wp.array[int]
    """what threads tell each other about contacts"""
    stop: wp.array[int]
    """not 0 where the step is not to be done"""


@wp.struct
class Team:
    """Whose constraints and vertices a thread does, and which of them: its own block's on a card, all of all elsewhere."""

    first: int
    last: int
    place: int
    size: int


@wp.func
def team_of(t: int, blocks: int) -> Team:
    team = Team()
    if on_gpu():
        team.first = t // SMALL_BLOCK
        team.last = team.first + 1
        team.place = t % SMALL_BLOCK
        team.size = SMALL_BLOCK
    elif t == 0:
        team.last = blocks
        team.size = 1
    return team


@wp.func
def vertex_at(k: int, o: Places) -> int:
    """The vertex at a place in the order of parts."""
    i = int(k)
    if o.vertices.shape[0] > 0:
        i = o.vertices[k]
    return i


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    __shared__ double room[{7 * SHARED_CAPACITY}];
    return (unsigned long long)room;
#else
    return 0;
#endif
    """
)
def room_of_block() -> wp.uint64:  # type: ignore[empty-body]
    """The address of the memory that the threads of a block share."""
    ...


@wp.func_native(
    SHARED_VERTICES
    + f"""
#if defined(__CUDA_ARCH__)
    double* x = (double*)room + place;
    const row4 row = ((const row4*)p.data)[i], was = ((const row4*)before.data)[i];
    for (int k = 0; k < 4; ++k)
        x[k * {SHARED_CAPACITY}] = row[k];
    for (int k = 0; k < 3; ++k)
        x[(4 + k) * {SHARED_CAPACITY}] = was[k];
#endif
    """
)
def take_row(i: int, p: wp.array[wp.vec4d], before: wp.array[wp.vec4d], place: int, room: wp.uint64):
    """Copy a row into it, and what it was before."""
    ...


@wp.func_native(
    SHARED_VERTICES
    + f"""
#if defined(__CUDA_ARCH__)
    const double* x = (const double*)room + place;
    double* row = (double*)(p.data + i);
    *(double2*)row = make_double2(x[0], x[{SHARED_CAPACITY}]);
    row[2] = x[2 * {SHARED_CAPACITY}];
#endif
    """
)
def put_row(i: int, p: wp.array[wp.vec4d], place: int, room: wp.uint64):
    """Bring a row back; its mass is the same."""
    ...


@wp.struct
class Stage:
    """A part of a stage: within parts (0), or from the middle of each to that of the next (1)."""

    number: int
    own: bool
    """whether its rows are in the memory of the block"""
    room: wp.uint64
    begin: int
    end: int
    """its vertices"""


@wp.func
def begin_stage(
    team: Team, number: int, count: int, o: Places, p: wp.array[wp.vec4d], before: wp.array[wp.vec4d]
) -> Stage:
    """Copy the rows of a stage's part, where they have room; vertices have to be numbered in the order of parts for that."""
    stage = Stage()
    stage.number = number
    stage.own = on_gpu() and o.part <= SHARED_CAPACITY and o.vertices.shape[0] == 0
    if stage.own:
        stage.room = room_of_block()
        stage.begin = team.first * o.part + number * (o.part // 2)
        stage.end = wp.min(stage.begin + o.part, count)
        for i in range(stage.begin + team.place, stage.end, team.size):
            take_row(i, p, before, i - stage.begin, stage.room)
    return stage


@wp.func
def end_stage(team: Team, stage: Stage, p: wp.array[wp.vec4d]):
    """Bring them back."""
    if stage.own:
        block_barrier(1)
        for i in range(stage.begin + team.place, stage.end, team.size):
            put_row(i, p, i - stage.begin, stage.room)


@wp.func
def stretch_one(i: int, q: wp.vec2i, spring: wp.vec3d, stage: Stage, sweep: int, s: Numbers, pace: Pace, a: Arrays):
    """A spring."""
    if stage.own:
        stretch_shared(i, q, spring, sweep, s.sweeps, pace.per_h, a.pair_pull, stage.begin, stage.room)
    else:
        stretch_loaded(True, i, q, spring, sweep, s.sweeps, pace.per_h, a.pair_pull, a.before, a.p)


@wp.func
def bend_one(
    i: int,
    q: wp.vec4i,
    w: wp.vec4d,
    spring: wp.vec3d,
    g: wp.vec4d,
    stage: Stage,
    sweep: int,
    s: Numbers,
    pace: Pace,
    softness: wp.float64,
    a: Arrays,
):
    """A spring over four vertices."""
    if stage.own:
        bend_shared(i, q, w, spring, g, sweep, s.sweeps, pace.per_h, softness, a.quad_pull, stage.begin, stage.room)
    else:
        bend_loaded(True, i, q, w, spring, g, sweep, s.sweeps, pace.per_h, softness, a.quad_pull, a.before, a.p)


@wp.func
def stretch_stage(team: Team, stage: Stage, stages: Stages, sweep: int, s: Numbers, pace: Pace, a: Arrays):
    """The springs of a stage; what a thread needs for its first one of a colour is loaded a colour before."""
    colours = stages.colours[stage.number]
    last = a.pairs.shape[0] - 1
    rows = stages.starts.shape[0] - 1
    for block in range(team.first, team.last):
        row = stages.tables[stage.number] + block * colours
        begin = stages.starts[row]
        end = stages.starts[wp.min(row + 1, rows)]
        k = wp.min(begin + team.place, last)
        q = load_vec2i(a.pairs, k)
        spring = a.pair_springs[k]
        for colour in range(colours):
            following = stages.starts[wp.min(row + colour + 2, rows)]
            k = wp.min(end + team.place, last)
            next_q = load_vec2i(a.pairs, k)
            next_spring = a.pair_springs[k]
            block_barrier(1)
            for i in range(begin + team.place, end, team.size):
                stretch_one(i, q, spring, stage, sweep, s, pace, a)
                k = wp.min(i + team.size, last)
                q = load_vec2i(a.pairs, k)
                spring = a.pair_springs[k]
            q = next_q
            spring = next_spring
            begin = end
            end = following


@wp.func
def bend_stage(
    team: Team,
    stage: Stage,
    kinds: int,
    stages: Stages,
    sweep: int,
    s: Numbers,
    pace: Pace,
    a: Arrays,
):
    """Stitches and, with two kinds, hinges, likewise."""
    last = a.quads.shape[0] - 1
    rows = stages.starts.shape[0] - 1
    for kind in range(kinds):
        soft = pace.per_h * pace.per_h
        if kind > 0:
            soft = pace.softness
        colours = stages.colours[2 * kind + stage.number]
        for block in range(team.first, team.last):
            row = stages.tables[2 * kind + stage.number] + block * colours
            begin = stages.starts[row]
            end = stages.starts[wp.min(row + 1, rows)]
            k = wp.min(begin + team.place, last)
            q = load_vec4i(a.quads, k)
            w = load_vec4d(a.quad_weights, k)
            spring = a.quad_springs[k]
            g = load_vec4d(a.quad_moves, k)
            for colour in range(colours):
                following = stages.starts[wp.min(row + colour + 2, rows)]
                k = wp.min(end + team.place, last)
                next_q = load_vec4i(a.quads, k)
                next_w = load_vec4d(a.quad_weights, k)
                next_spring = a.quad_springs[k]
                next_g = load_vec4d(a.quad_moves, k)
                block_barrier(1)
                for i in range(begin + team.place, end, team.size):
                    bend_one(i, q, w, spring, g, stage, sweep, s, pace, soft, a)
                    k = wp.min(i + team.size, last)
                    if k < end:
                        q = load_vec4i(a.quads, k)
                        w = load_vec4d(a.quad_weights, k)
                        spring = a.quad_springs[k]
                        g = load_vec4d(a.quad_moves, k)
                q = next_q
                w = next_w
                spring = next_spring
                g = next_g
                begin = end
                end = following


@wp.func
def reach_far(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    kinds: int,
    o: Places,
    sweep: int,
    s: Numbers,
    pace: Pace,
    a: Arrays,
):
    """Springs, stitches and, with two kinds, hinges that reach farther, by all threads."""
    for colour in range(o.stretch.far.shape[0]):
        span = o.stretch.far[colour]
        for i in range(span[0] + t, span[1], threads):
            stretch_some(i, i + 1, sweep, s, pace, a)
        grid_barrier(arrivals)
    colours = wp.where(kinds > 1, o.bend.far.shape[0], o.bend.firm)
    for colour in range(colours):
        soft = pace.per_h * pace.per_h
        if colour >= o.bend.firm:
            soft = pace.softness
        span = o.bend.far[colour]
        for i in range(span[0] + t, span[1], threads):
            bend_some(i, i + 1, soft, sweep, s, pace, a)
        grid_barrier(arrivals)


@clusterable
@wp.kernel(launch_bounds=SMALL_BLOCK)
def advance_in_parts(
    first: int, threads: int, arrivals: wp.array[int], settings: wp.array[Numbers], a: Arrays, o: Places
):
    """All substeps, then positions; contacts and half-spaces are there."""
    t = first + wp.tid()
    if o.stop[0] != 0:
        return
    s = settings[0]
    pace = pace_of(s.substeps, s)
    team = team_of(t, o.blocks)
    # a number that is not known before: loops that are written out twice have twice the instructions
    stages = wp.min(s.substeps, 1) + 1
    begin = team.first * o.part + team.place
    end = wp.min(team.last * o.part, s.vertices)

    clear_reservations(t, threads, o.reservations, o.told)
    for k in range(begin, end, team.size):
        i = vertex_at(k, o)
        predict_some(i, i + 1, pace.part, s, pace, a)
    for substep in range(s.substeps):
        progress = wp.float64(substep + 1) * pace.part
        for sweep in range(s.sweeps):
            kinds = wp.where(substep % pace.interval == 0, 2, 1)
            for number in range(stages):
                stage = begin_stage(team, number, s.vertices, o, a.p, a.before)
                stretch_stage(team, stage, o.stretch, sweep, s, pace, a)
                bend_stage(team, stage, kinds, o.bend, sweep, s, pace, a)
                end_stage(team, stage, a.p)
                grid_barrier(arrivals)
            reach_far(t, threads, arrivals, kinds, o, sweep, s, pace, a)
            lead(t, threads, arrivals, progress, o.attachments, s, pace, a)
            if s.contacts > 0:
                # the last round of contacts ends with a meeting
                solve_near(
                    t, arrivals, s.contacts, substep * s.sweeps + sweep, o.near, o.reservations, o.told, ASLEEP,
                    a.contact_vertices, a.contact_kinds, a.contact_weights, a.contact_normals, a.contact_thickness,
                    a.contact_friction, s.friction, pace.push, a.contact_pushed, a.x, a.start, a.before, a.p,
                )  # fmt: skip
            for k in range(begin, end, team.size):
                i = vertex_at(k, o)
                keep_out(i, i + 1, o.half_counts, o.half_places, progress, s, pace, a)
                # nobody else has to do with it until the next substep
                if sweep == s.sweeps - 1 and substep < s.substeps - 1:
                    predict_some(i, i + 1, progress + pace.part, s, pace, a)

    for k in range(begin, end, team.size):
        end_vertex(vertex_at(k, o), pace.per_h, a.p, a.before, a.x, a.v)

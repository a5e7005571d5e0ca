"""Contacts that are too near now, solved side by side on a card; the others are only looked at.

Of the contacts of a step a few in a hundred push in a sweep, and over a hundred meet at some vertices: to go through all
colours of all of them takes a card fifty times as long as those that push need. So all contacts are looked at side by
side, and those that are nearly too near are solved in rounds. In each of them whoever would push reserves its vertices that
can move, and pushes if nobody with a lower number reserves one of them. Numbers are a hash of the vertices, another one in each
sweep, so that the order does not depend on that of the list. Each contact pushes once at most. Where only few had to let others
go first, they wait for the next sweep: where cloth has crossed itself they would fight each other for many rounds.

A block has those of its contacts that are near in a list of its own, each thread one of them. What it finds out about its
contact in the first half of a round it keeps: in the second half it only asks who came first, and writes.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.methods.predictive.contacts import CONTACT, GO, LOOK, PUSH, ROWS
from weft.runtime.cooperative import SMALL_BLOCK, SYNC_GRID

wp.set_module_options({"enable_backward": False})

# rounds of a batch at most, and of all batches of a sweep
ROUNDS = 64
MOST_ROUNDS = 256
# there is no other round for fewer contacts than one in so many vertices: they wait for the next sweep
WAITING = 48
# a contact is nearly too near if it would be, were it so many times as thick
SLACK = 1.03
# contacts that a thread looks at before those of them that are near are solved: as many as a list has room for
LOOKS = 8
# what threads tell each other, all 0 at first: in turn how many had to wait, in each of two sweeps; and in turn how many
# batches there are, and how many would push at first
FLAGS, LISTS = 4, 3
TOLD = 2 * FLAGS + 2 * LISTS
NOBODY = wp.constant(wp.uint64(2**64 - 1))

# who of those that push in a round comes first: each number once, and lower than all of rounds before
_NUMBER = f"""
    const auto number_of = [&](const wp::vec_t<4, int>& q, unsigned i) {{
        unsigned hash = ((unsigned)q[0] * 2654435761u ^ (unsigned)q[1]) * 2246822507u;
        hash = ((hash ^ (unsigned)q[2]) * 3266489909u ^ (unsigned)q[3]) * 668265263u;
        hash = (hash + (unsigned)turn * 2654435761u) * 2246822519u;
        return ((unsigned long long)(hash >> 11) << 21) + (i & 0x1fffffu);
    }};
    const auto in_round = [&](unsigned long long number, unsigned round) {{
        return ((0x3fffffull - ({MOST_ROUNDS}ull * turn + round) % 0x3fffffull) << 42) + number;
    }};
    const int few = (int)reservations.shape[0] / {WAITING};
    """
# contact i, if it is awake
_AWAKE = """
            const int kind = kinds.data[i];
            if (kind == asleep || kind == -asleep)
                continue;
    """
# whether contact i is nearly too near (1), or would push (2)
_LOOK_AT = (
    """
    int left = 15;
    bool seen = false;
    const auto look_at = [&](const int i, const int kind, const wp::vec_t<4, int>& q, double thick, const auto& claim) {
        for (bool once = kind != asleep && kind != -asleep; once; once = false) {
    """
    + f"thick *= {SLACK};"
    + LOOK
    + f"""
            if (!(depth > {1.0 - 1.0 / SLACK} * thick))
                return 1;
            claim(a[3] > 0.0, b[3] > 0.0, c[3] > 0.0, d[3] > 0.0);
            return 2;
        }}
        return 0;
    }};
    """
)

_ON_CARD = (
    SYNC_GRID
    + """
    const auto load = [](const row4* row) {
        row4 v(0.0, 0.0, 0.0, 0.0);
        asm volatile("ld.global.v2.f64 {%0, %1}, [%2];" : "=d"(v[0]), "=d"(v[1]) : "l"(row));
        asm volatile("ld.global.f64 %0, [%1];" : "=d"(v[2]) : "l"((const double*)row + 2));
        return v;
    };
    const auto store = [](row4* row, const row4& v) {
        ((double2*)row)[0] = make_double2(v[0], v[1]);
        ((double*)row)[2] = v[2];
    };
    """
    + f"""
    __shared__ int chosen[{LOOKS * SMALL_BLOCK}];
    __shared__ int near_in[{SMALL_BLOCK // 32}];
    const int place = threadIdx.x, lane = place & 31, blocks = gridDim.x, threads = blocks * {SMALL_BLOCK};
    const int mine = (place / 32 * blocks + blockIdx.x) * 32 + lane;
    const bool speaker = blockIdx.x == 0 && place == 0;
    // those of the sweep before are not asked for any more, and are the next one's
    int* waiting = told.data + turn % 2 * {FLAGS};
    int* batches_told = told.data + 2 * {FLAGS};
    int* pushing_told = batches_told + {LISTS};
    for (int k = 0; speaker && k < {FLAGS}; ++k)
        told.data[(turn + 1) % 2 * {FLAGS} + k] = 0;
    for (int list = 0, base = 0; base < count; ++list, base += {LOOKS} * threads) {{
        // those that would push claim their vertices for the first round already
        ++round;
        // what is known of a contact before it is looked at, while the one before is
        int kind, next_kind;
        wp::vec_t<4, int> q, next_q;
        double thick, next_thick;
        const auto fetch = [&](int i) {{
            i = i < count ? i : 0;
            next_kind = kinds.data[i];
            next_q = vertices.data[i];
            next_thick = thickness.data[i];
        }};
        fetch(base + mine);
        // what a thread found out about its contacts, and how many of its warp's are near, and would push
        unsigned found_as = 0u;
        int near = 0, pushing = 0;
        for (int look = 0; look < {LOOKS} && base + look * threads < count; ++look) {{
            const int i = base + look * threads + mine;
            kind = next_kind;
            q = next_q;
            thick = next_thick;
            if (look + 1 < {LOOKS})
                fetch(i + threads);
            int found = 0;
            if (i < count) {{
                pushed.data[i] = 0;
                found = look_at(i, kind, q, thick, [&](bool a, bool b, bool c, bool d) {{
                    const unsigned long long claim = in_round(number_of(q, i), round);
                    const bool moves[4] = {{a, b, c, d}};
                    for (int k = 0; k < 4; ++k)
                        if (moves[k])
                            atomicMin((unsigned long long*)reservations.data + q[k], claim);
                }});
            }}
            found_as |= (unsigned)found << (2 * look);
            near += __popc(__ballot_sync(0xffffffffu, found > 0));
            pushing += __popc(__ballot_sync(0xffffffffu, found > 1));
        }}
        if (lane == 0)
            near_in[place / 32] = near;
        if (lane == 0 && pushing > 0)
            atomicAdd(pushing_told + list % {LISTS}, pushing);
        __syncthreads();
        // those of each warp after those of the one before: who is done with whom must not depend on who is faster
        int next = 0, chosen_count = 0;
        for (int k = 0; k < {SMALL_BLOCK // 32}; ++k) {{
            next += k < place / 32 ? near_in[k] : 0;
            chosen_count += near_in[k];
        }}
        for (int look = 0; near > 0 && look < {LOOKS}; ++look) {{
            const unsigned found = found_as >> (2 * look) & 3u, all = __ballot_sync(0xffffffffu, found > 0u);
            if (found > 0u)
                chosen[next + __popc(all & ((1u << lane) - 1u))] = 2 * (base + look * threads + mine) + found - 1;
            next += __popc(all);
        }}
        if (place == 0 && chosen_count > 0)
            atomicMax(batches_told + list % {LISTS}, (chosen_count + {SMALL_BLOCK} - 1) / {SMALL_BLOCK});
        if (speaker)
            batches_told[(list + 1) % {LISTS}] = pushing_told[(list + 1) % {LISTS}] = 0;
        sync_grid();
        const int batches = pushing_told[list % {LISTS}] > 0 ? batches_told[list % {LISTS}] : 0;
        for (int batch = 0; batch < batches; ++batch) {{
            bool open = batch * {SMALL_BLOCK} + place < chosen_count;
            const int listed = open ? chosen[batch * {SMALL_BLOCK} + place] : 0, i = listed / 2;
            // what does not change meanwhile
            const wp::vec_t<4, int> q = vertices.data[i];
            const int kind = kinds.data[i];
            const double thick = thickness.data[i];
            const wp::vec_t<2, double> rubs = friction.data[i];
            const unsigned long long number = number_of(q, i);
            unsigned moves = 0u;
            for (int k = 0; k < 4; ++k)
                moves |= rows[q[k]][3] > 0.0 ? 1u << k : 0u;
            // whether a contact is the first at all its vertices that can move; all are asked at once
            const auto holds = [&](const unsigned long long claim) {{
                bool all = true;
                for (int k = 0; k < 4; ++k)
                    all = (reservations.data[q[k]] == claim || (moves >> k & 1u) == 0u) & all;
                return all;
            }};
            bool claimed = batch == 0;
            const unsigned earlier = claimed ? round - 1 : round;
            while (true) {{
                if (!claimed) {{
                    const bool last = round - earlier >= {ROUNDS} || round >= {MOST_ROUNDS} - 1;
                    if (round > earlier && (last || waiting[round % {FLAGS}] <= few))
                        break;
                    ++round;
                }}
                bool pushes = false, undoes = false;
                unsigned goes = 0u;
                double share[4];
                row4 way, way_back;
                // on their way at once, whether all of them will be asked for or not
                row4 was_now[4], home_now[4];
                for (int k = 0; k < 4; ++k) {{
                    was_now[k] = load(was_rows + q[k]);
                    home_now[k] = load(home_rows + q[k]);
                }}
                const auto was_at = [&](int k) {{ return was_now[k]; }};
                const auto home_at = [&](int k) {{ return home_now[k]; }};
                const unsigned long long claim = in_round(number, round);
                // others may move already what those have that come later
                bool first = claimed && open && (listed & 1) != 0 && holds(claim);
                for (bool once = claimed ? first : open; once; once = false) {{
    """
    + LOOK
    + PUSH
    + """
                    pushes = true;
                    undoes = known > 0.0;
                    way = step;
                    way_back = back;
                    for (int k = 0; k < 4; ++k) {
                        goes |= s[k] != 0.0 ? 1u << k : 0u;
                        share[k] = g[k];
                    }
                }
    """
    + f"""
                bool waits = claimed && open && (listed & 1) != 0 && !first;
                if (!claimed) {{
                    for (int k = 0; pushes && k < 4; ++k)
                        if (moves >> k & 1u)
                            atomicMin((unsigned long long*)reservations.data + q[k], claim);
                    sync_grid();
                    first = pushes && holds(claim);
                    waits = pushes && !first;
                }}
                const unsigned those = __ballot_sync(0xffffffffu, waits);
                if (lane == 0 && those != 0u)
                    atomicAdd(waiting + round % {FLAGS}, __popc(those));
                if (speaker)
                    waiting[(round + 2) % {FLAGS}] = 0;
                if (first && pushes) {{
                    open = false;
                    pushed.data[i] = 1;
                    row4 at[4];
                    for (int k = 0; k < 4; ++k)
                        at[k] = load(rows + q[k]);
                    for (int k = 0; k < 4; ++k) {{
                        if (goes >> k & 1u)
                            store(rows + q[k], at[k] + share[k] * way);
                        if (undoes && (goes >> k & 1u))
                            store(was_rows + q[k], load(was_rows + q[k]) + share[k] * way_back);
                    }}
                }}
                sync_grid();
                claimed = false;
            }}
        }}
        __syncthreads();
    }}
    if (speaker)
        batches_told[0] = pushing_told[0] = 0;
    """
)

# the same in turn: a bit says who is left, another who pushes
_IN_TURN = (
    """
    const int words = (count + 31) / 32;
    const auto would_push = [&](const int i) {
        for (bool once = true; once; once = false) {
    """
    + _AWAKE
    + CONTACT
    + LOOK
    + """
            return true;
        }
        return false;
    };
    const auto solve = [&](const int i) {
        for (bool once = true; once; once = false) {
    """
    + _AWAKE
    + CONTACT
    + LOOK
    + PUSH
    + GO
    + f"""
        }}
    }};
    if (thread != 0)
        return;
    const auto nothing = [](bool, bool, bool, bool) {{}};
    for (int word = 0; word < words; ++word)
        masks.data[word] = 0;
    for (int i = 0; i < count; ++i) {{
        pushed.data[i] = 0;
        masks.data[i / 32] |= look_at(i, kinds.data[i], vertices.data[i], thickness.data[i], nothing) > 0 ? 1 << (i % 32) : 0;
    }}
    for (int waiting = few + 1; waiting > few && round < {ROUNDS};) {{
        ++round;
        waiting = 0;
        for (int word = 0; word < words; ++word) {{
            unsigned pushing = 0u;
            for (unsigned bits = (unsigned)masks.data[word]; bits != 0u; bits &= bits - 1u) {{
                const int k = __builtin_ctz(bits), i = 32 * word + k;
                if (!would_push(i))
                    continue;
                pushing |= 1u << k;
                const wp::vec_t<4, int> q = vertices.data[i];
                const unsigned long long claim = in_round(number_of(q, i), round);
                for (int corner = 0; corner < 4; ++corner)
                    if (rows[q[corner]][3] > 0.0 && claim < reservations.data[q[corner]])
                        reservations.data[q[corner]] = claim;
            }}
            masks.data[words + word] = (int)pushing;
        }}
        for (int word = 0; word < words; ++word)
            for (unsigned bits = (unsigned)masks.data[words + word]; bits != 0u; bits &= bits - 1u) {{
                const int k = __builtin_ctz(bits), i = 32 * word + k;
                const wp::vec_t<4, int> q = vertices.data[i];
                const unsigned long long claim = in_round(number_of(q, i), round);
                bool first = true;
                for (int corner = 0; corner < 4; ++corner)
                    first = first && (!(rows[q[corner]][3] > 0.0) || reservations.data[q[corner]] == claim);
                waiting += first ? 0 : 1;
                if (first) {{
                    solve(i);
                    masks.data[word] &= ~(1 << k);
                }}
            }}
    }}
    """
)


@wp.func_native(
    ROWS
    + _NUMBER
    + _LOOK_AT
    + """
    unsigned round = 0;
#if defined(__CUDA_ARCH__)
    """
    + _ON_CARD
    + """
#else
    """
    + _IN_TURN
    + """
#endif
    """
)
def solve_near(
    thread: int,
    arrivals: wp.array[int],
    count: int,
    turn: int,
    masks: wp.array[int],
    reservations: wp.array[wp.uint64],
    told: wp.array[int],
    asleep: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    x: wp.array[wp.vec3d],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Solve those of so many contacts that are too near: all threads of a card, which meet, or the first of a CPU.

    `turn` counts sweeps from 0; before the first, reservations and what is told are cleared, and all meet. `masks` has room
    for two bits a contact, where they are solved in turn.
    """
    ...


@wp.func
def clear_reservations(t: int, threads: int, reservations: wp.array[wp.uint64], told: wp.array[int]):
    """Begin anew: nobody has claimed a vertex, or told anything."""
    for v in range(t, reservations.shape[0], threads):
        reservations[v] = NOBODY
    for k in range(t, told.shape[0], threads):
        told[k] = 0

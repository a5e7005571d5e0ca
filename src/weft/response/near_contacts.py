"""Contacts that are too near now, solved by one block of a card; the others are only looked at.

Of the contacts of a step a few in a hundred push in a sweep, and over a hundred meet at some vertices: to go through all
colours of all of them takes a card fifty times as long as those that push need. So all contacts are looked at side by
side, and one block solves those that are nearly too near, in rounds. In each of them whoever would push claims its vertices
that can move, and pushes if nobody with a lower number claims one of them; numbers jump through the list, and in another way
in each sweep. Each contact pushes once at most.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.response.predictive_contacts import LOOK, PUSH, ROWS
from weft.world.together import BLOCK, on_card, spread

wp.set_module_options({"enable_backward": False})

# rounds of as many contacts as the block has threads, at most
ROUNDS = 64
# vertices share so many claims; a power of two
CLAIMS = 4096
# a contact is nearly too near if it would be, were it so many times as thick
SLACK = 1.03

# contact i, if it is awake
_CONTACT = """
            const int kind = kinds.data[i];
            const wp::vec_t<4, int> q = vertices.data[i];
            if (kind == asleep || kind == -asleep)
                continue;
    """


@wp.func_native(
    ROWS
    + """
    const bool seen = false;
    for (bool once = true; once; once = false) {
    """
    + _CONTACT
    + f"const double thick = {SLACK} * thickness.data[i];"
    + LOOK
    + """
        return true;
    }
    return false;
    """
)
def is_near(
    i: int,
    asleep: int,
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
) -> bool:
    """Whether a contact is nearly too near."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const unsigned all = __ballot_sync(0xffffffffu, near);
    if ((threadIdx.x & 31) == 0)
        masks.data[i / 32] = (int)all;
#else
    const int bit = 1 << (i % 32);
    masks.data[i / 32] = near ? masks.data[i / 32] | bit : masks.data[i / 32] & ~bit;
#endif
    """
)
def note(i: int, near: bool, masks: wp.array[int]):
    """Note something about item i as a bit; on CUDA by a whole warp, whose first has a multiple of 32."""
    ...


@wp.func
def look_end(count: int) -> int:
    """The end of those: the last word is written to its end."""
    return (count + 31) // 32 * 32


@wp.func
def look_begin(t: int, threads: int, count: int) -> int:
    """The first contact that a thread looks at."""
    begin = wp.where(t == 0, 0, look_end(count))
    if on_card():
        begin = spread(t, threads)
    return begin


@wp.func
def look_step(threads: int) -> int:
    """From one of them to the next."""
    step = int(1)
    if on_card():
        step = threads
    return step


@wp.func_native(
    ROWS
    + """
    const int words = (count + 31) / 32;
    int left = 15;
    bool seen = false;
    const auto would_push = [&](const int i) {
        for (bool once = true; once; once = false) {
    """
    + _CONTACT
    + """
            const double thick = thickness.data[i];
    """
    + LOOK
    + """
            return true;
        }
        return false;
    };
    const auto solve = [&](const int i) {
        for (bool once = true; once; once = false) {
    """
    + _CONTACT
    + """
            const double thick = thickness.data[i];
    """
    + LOOK
    + PUSH
    + """
        }
    };
"""
    + f"""
    // who comes first of those in the places of a batch: each number once, and lower than all of rounds before
    const auto number_of = [&](unsigned round, unsigned place) {{
        return 0xffffffffu - round * {BLOCK}u - (181u * place + turn) % {BLOCK}u;
    }};
    unsigned round = 0;
#if defined(__CUDA_ARCH__)
    if (blockIdx.x != 0)
        return;
    __shared__ unsigned claims[{CLAIMS}];
    __shared__ int chosen[{BLOCK}];
    __shared__ int sums[{BLOCK // 32}];
    const int place = threadIdx.x, lane = place & 31;
    for (int k = place; k < {CLAIMS}; k += {BLOCK})
        claims[k] = 0xffffffffu;
    for (int word = 0; word < words; word += {BLOCK}) {{
        const unsigned mask = word + place < words ? (unsigned)masks.data[word + place] : 0u;
        // how many come before, in the order of the list
        const int mine = __popc(mask);
        int before_me = mine;
        for (int far = 1; far < 32; far *= 2) {{
            const int other = __shfl_up_sync(0xffffffffu, before_me, far);
            before_me += lane >= far ? other : 0;
        }}
        __syncthreads();
        if (lane == 31)
            sums[place / 32] = before_me;
        __syncthreads();
        before_me -= mine;
        int all = 0;
        for (int k = 0; k < {BLOCK // 32}; ++k) {{
            before_me += k < place / 32 ? sums[k] : 0;
            all += sums[k];
        }}
        for (int batch = 0; batch < all; batch += {BLOCK}) {{
            int next = before_me - batch;
            for (unsigned bits = mask; bits != 0u; bits &= bits - 1u, ++next)
                if (next >= 0 && next < {BLOCK})
                    chosen[next] = 32 * (word + place) + __ffs(bits) - 1;
            __syncthreads();
            bool open = batch + place < all;
            const int i = open ? chosen[place] : 0;
            wp::vec_t<4, int> q;
            unsigned moves = 0u;
            if (open) {{
                q = vertices.data[i];
                for (int k = 0; k < 4; ++k)
                    moves |= rows[q[k]][3] > 0.0 ? 1u << k : 0u;
            }}
            for (const unsigned last = round + {ROUNDS}; round < last;) {{
                const unsigned number = number_of(++round, place);
                const bool pushes = open && would_push(i);
                if (pushes)
                    for (int k = 0; k < 4; ++k)
                        if (moves >> k & 1u)
                            atomicMin(claims + (q[k] & {CLAIMS - 1}), number);
                if (!__syncthreads_or(pushes))
                    break;
                bool first = pushes;
                for (int k = 0; k < 4; ++k)
                    if (first && (moves >> k & 1u))
                        first = claims[q[k] & {CLAIMS - 1}] == number;
                if (first) {{
                    solve(i);
                    open = false;
                }}
                __syncthreads();
            }}
        }}
    }}
#else
    if (thread != 0)
        return;
    // the same in turn
    unsigned claims[{CLAIMS}];
    for (int k = 0; k < {CLAIMS}; ++k)
        claims[k] = 0xffffffffu;
    int chosen[{BLOCK}], n = 0;
    bool open[{BLOCK}], pushes[{BLOCK}];
    const auto solve_batch = [&]() {{
        bool any = true;
        for (const unsigned last = round + {ROUNDS}; round < last && any;) {{
            ++round;
            any = false;
            for (int place = 0; place < n; ++place) {{
                const int i = chosen[place];
                pushes[place] = open[place] && would_push(i);
                any = any || pushes[place];
                const unsigned number = number_of(round, place);
                for (int k = 0; k < 4 && pushes[place]; ++k) {{
                    unsigned& claim = claims[vertices.data[i][k] & {CLAIMS - 1}];
                    if (rows[vertices.data[i][k]][3] > 0.0 && number < claim)
                        claim = number;
                }}
            }}
            for (int place = 0; place < n; ++place) {{
                const int i = chosen[place];
                const unsigned number = number_of(round, place);
                bool first = pushes[place];
                for (int k = 0; k < 4 && first; ++k) {{
                    const int vertex = vertices.data[i][k];
                    first = !(rows[vertex][3] > 0.0) || claims[vertex & {CLAIMS - 1}] == number;
                }}
                if (first) {{
                    solve(i);
                    open[place] = false;
                }}
            }}
        }}
        n = 0;
    }};
    for (int word = 0; word < words; ++word) {{
        for (unsigned bits = (unsigned)masks.data[word]; bits != 0u; bits &= bits - 1u) {{
            open[n] = true;
            chosen[n++] = 32 * word + __builtin_ctz(bits);
            if (n == {BLOCK})
                solve_batch();
        }}
        if (n > 0 && (word == words - 1 || word % {BLOCK} == {BLOCK - 1}))
            solve_batch();
    }}
#endif
    """
)
def solve_near(
    thread: int,
    count: int,
    turn: int,
    masks: wp.array[int],
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
    """Solve the noted ones of so many contacts: the first block of a card, or the first thread of a CPU."""
    ...

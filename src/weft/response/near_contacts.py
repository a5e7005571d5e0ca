"""Contacts that are too near now, solved one after another by one block of a card; the others are only looked at.

Of the contacts of a step a few in a hundred push in a sweep, and over a hundred meet at some vertices: to go through all
colours of all of them takes a card fifty times as long as those that push need. So all contacts are looked at side by
side, and what pushes is solved, in an order that jumps through the list: a contact waits for those before it that share a
vertex which can move, and for no others. What comes too near by that, or had to wait for too many, is seen by the next look.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.response.predictive_contacts import LOOK, PUSH, ROWS
from weft.world.together import BLOCK, on_card, spread

wp.set_module_options({"enable_backward": False})

# looks in a sweep
LOOKS = wp.constant(4)
# contacts at a vertex that are solved after a look at most; the others are seen again by the next one
ROUNDS = 3
# vertices share so many places at which contacts wait for each other; a power of two
PLACES = 4096

# contact i pushes, if it still has to; `asleep` ones never do
_ASLEEP = """
            const int kind = kinds.data[i];
            if (kind == asleep || kind == -asleep)
                continue;
    """
# who comes first of two contacts: each has a number of its own
_NUMBER = "((unsigned)(i + turn) * 2654435761u)"


@wp.func_native(
    ROWS
    + """
    const bool seen = false;
    for (bool once = true; once; once = false) {
    """
    + _ASLEEP
    + LOOK
    + """
        return true;
    }
    return false;
    """
)
def is_too_near(
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
    """Whether a contact would push."""
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
    // contact i as the last of all that it waits for
    const auto solve = [&](const int i) {
        for (bool once = true; once; once = false) {
    """
    + _ASLEEP
    + LOOK
    + PUSH
    + """
        }
        seen = false;
    };
"""
    + f"""
#if defined(__CUDA_ARCH__)
    if (blockIdx.x != 0)
        return;
    __shared__ unsigned claims[{PLACES}];
    __shared__ int chosen[{BLOCK}];
    __shared__ int sums[{BLOCK // 32}];
    const int t = threadIdx.x, lane = t & 31;
    for (int word = 0; word < words; word += {BLOCK}) {{
        const unsigned mask = word + t < words ? (unsigned)masks.data[word + t] : 0u;
        // how many come before, in the order of the list
        const int mine = __popc(mask);
        int before_me = mine;
        for (int far = 1; far < 32; far *= 2) {{
            const int other = __shfl_up_sync(0xffffffffu, before_me, far);
            before_me += lane >= far ? other : 0;
        }}
        __syncthreads();
        if (lane == 31)
            sums[t / 32] = before_me;
        __syncthreads();
        before_me -= mine;
        int all = 0;
        for (int k = 0; k < {BLOCK // 32}; ++k) {{
            before_me += k < t / 32 ? sums[k] : 0;
            all += sums[k];
        }}
        for (int batch = 0; batch < all; batch += {BLOCK}) {{
            int place = before_me - batch;
            for (unsigned bits = mask; bits != 0u; bits &= bits - 1u, ++place)
                if (place >= 0 && place < {BLOCK})
                    chosen[place] = 32 * (word + t) + __ffs(bits) - 1;
            __syncthreads();
            bool open = batch + t < all;
            const int i = open ? chosen[t] : 0;
            const unsigned number = {_NUMBER};
            int at[4];
            unsigned moves = 0u;
            if (open) {{
                const wp::vec_t<4, int> q = vertices.data[i];
                for (int k = 0; k < 4; ++k) {{
                    at[k] = q[k] & {PLACES - 1};
                    moves |= rows[q[k]][3] > 0.0 ? 1u << k : 0u;
                }}
                // what a push needs is brought near while threads wait for each other; no sum is that large
                double sum = weights.data[i][0] + normals.data[i][0] + friction.data[i][0] + thickness.data[i];
                for (int k = 0; k < 4; ++k)
                    sum += was_rows[q[k]][0] + home_rows[q[k]][0];
                if (sum > 1e300)
                    pushed.data[i] = 1;
            }}
            int round = 0;
            do {{
                if (open)
                    for (int k = 0; k < 4; ++k)
                        claims[at[k]] = 0xffffffffu;
                __syncthreads();
                if (open)
                    for (int k = 0; k < 4; ++k)
                        if (moves >> k & 1u)
                            atomicMin(claims + at[k], number);
                __syncthreads();
                bool first = open;
                for (int k = 0; k < 4; ++k)
                    if (first && (moves >> k & 1u))
                        first = claims[at[k]] == number;
                if (first) {{
                    solve(i);
                    open = false;
                }}
            }} while (__syncthreads_or(open) && ++round < {ROUNDS});
        }}
    }}
#else
    if (thread != 0)
        return;
    // the same in turn
    unsigned claims[{PLACES}];
    int chosen[{BLOCK}], n = 0;
    for (int word = 0; word < words; ++word) {{
        unsigned bits = (unsigned)masks.data[word];
        const bool last = word == words - 1 || word % {BLOCK} == {BLOCK - 1};
        do {{
            if (bits != 0u)
                chosen[n++] = 32 * word + __builtin_ctz(bits);
            bits &= bits - 1u;
            for (int round = 0; (n == {BLOCK} || (last && bits == 0u)) && n > 0; ++round) {{
                if (round == {ROUNDS}) {{
                    n = 0;
                    break;
                }}
                for (int c = 0; c < n; ++c)
                    for (int k = 0; k < 4; ++k)
                        claims[vertices.data[chosen[c]][k] & {PLACES - 1}] = 0xffffffffu;
                for (int c = 0; c < n; ++c) {{
                    const int i = chosen[c];
                    for (int k = 0; k < 4; ++k) {{
                        unsigned& claim = claims[vertices.data[i][k] & {PLACES - 1}];
                        if (rows[vertices.data[i][k]][3] > 0.0 && {_NUMBER} < claim)
                            claim = {_NUMBER};
                    }}
                }}
                int open = 0;
                for (int c = 0; c < n; ++c) {{
                    const int i = chosen[c];
                    bool first = true;
                    for (int k = 0; k < 4; ++k) {{
                        const int vertex = vertices.data[i][k];
                        first = first && (!(rows[vertex][3] > 0.0) || claims[vertex & {PLACES - 1}] == {_NUMBER});
                    }}
                    if (first)
                        solve(i);
                    else
                        chosen[open++] = i;
                }}
                n = open;
            }}
        }} while (bits != 0u);
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

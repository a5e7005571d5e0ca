// Contacts that are too near, solved side by side in rounds on CUDA: `weft.methods.predictive.cuda_substeps` explains
// how.

// [number] the order of contacts in a round: a hash of the vertices, another one in each sweep; lower comes first, and
// numbers of later rounds are lower than all before, so that reservations need not be cleared
const auto number_of = [&](const wp::vec_t<4, int>& q, unsigned i) {
    unsigned hash = ((unsigned)q[0] * 2654435761u ^ (unsigned)q[1]) * 2246822507u;
    hash = ((hash ^ (unsigned)q[2]) * 3266489909u ^ (unsigned)q[3]) * 668265263u;
    hash = (hash + (unsigned)turn * 2654435761u) * 2246822519u;
    return ((unsigned long long)(hash >> 11) << 21) + (i & 0x1fffffu);
};
const auto in_round = [&](unsigned long long number, unsigned round) {
    return ((0x3fffffull - ((unsigned long long)$MOST_ROUNDS * turn + round) % 0x3fffffull) << 42) + number;
};
const int few = (int)reservations.shape[0] / $WAITING;

// [awake] contact i, if it is awake
const int kind = contacts.kinds.data[i];
if (kind == asleep || kind == -asleep)
    continue;

// [classify] classify(i, kind, q, thick, reserve): 0 if contact i is open, 1 if it is nearly too near, 2 if it would push
const auto classify = [&](const int i, const int kind, const wp::vec_t<4, int>& q, double thick, const auto& reserve) {
    for (bool once = kind != asleep && kind != -asleep; once; once = false) {
        thick *= $MARGIN;
        $MEASURE
        if (!(depth > (1.0 - 1.0 / $MARGIN) * thick))
            return 1;
        reserve(a[3] > 0.0, b[3] > 0.0, c[3] > 0.0, d[3] > 0.0);
        return 2;
    }
    return 0;
};

// [solve_near]
$ROWS
// [include number]
// [include classify]
unsigned round = 0;
#if defined(__CUDA_ARCH__)
// [include cuda]
#else
// [include serial]
#endif

// [cuda] all threads of all blocks
$SYNC_GRID
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
__shared__ int chosen[$TESTS * $BLOCK];
__shared__ int near_in[$BLOCK / 32];
const int place = threadIdx.x, lane = place & 31, blocks = gridDim.x, threads = blocks * $BLOCK;
const int mine = (place / 32 * blocks + blockIdx.x) * 32 + lane;
const bool leader = blockIdx.x == 0 && place == 0;
// counters of this sweep; those of the one before are cleared for the next
int* waiting = counters.data + turn % 2 * $FLAGS;
int* batch_counts = counters.data + 2 * $FLAGS;
int* push_counts = batch_counts + $LISTS;
for (int k = 0; leader && k < $FLAGS; ++k)
    counters.data[(turn + 1) % 2 * $FLAGS + k] = 0;
for (int list = 0, base = 0; base < count; ++list, base += $TESTS * threads) {
    // contacts that would push reserve their vertices for the first round already
    ++round;
    // the data of a contact are loaded while the one before is tested
    int kind, next_kind;
    wp::vec_t<4, int> q, next_q;
    double thick, next_thick;
    const auto fetch = [&](int i) {
        i = i < count ? i : 0;
        next_kind = contacts.kinds.data[i];
        next_q = contacts.vertices.data[i];
        next_thick = contacts.thickness.data[i];
    };
    fetch(base + mine);
    // two bits for each of the thread's contacts, and how many of its warp's are near, and would push
    unsigned found_as = 0u;
    int near = 0, pushing = 0;
    for (int test = 0; test < $TESTS && base + test * threads < count; ++test) {
        const int i = base + test * threads + mine;
        kind = next_kind;
        q = next_q;
        thick = next_thick;
        if (test + 1 < $TESTS)
            fetch(i + threads);
        int found = 0;
        if (i < count) {
            contacts.pushed.data[i] = 0;
            found = classify(i, kind, q, thick, [&](bool a, bool b, bool c, bool d) {
                const unsigned long long ticket = in_round(number_of(q, i), round);
                const bool moves[4] = {a, b, c, d};
                for (int k = 0; k < 4; ++k)
                    if (moves[k])
                        atomicMin((unsigned long long*)reservations.data + q[k], ticket);
            });
        }
        found_as |= (unsigned)found << (2 * test);
        near += __popc(__ballot_sync(0xffffffffu, found > 0));
        pushing += __popc(__ballot_sync(0xffffffffu, found > 1));
    }
    if (lane == 0)
        near_in[place / 32] = near;
    if (lane == 0 && pushing > 0)
        atomicAdd(push_counts + list % $LISTS, pushing);
    __syncthreads();
    // the list holds those of each warp after those of the one before: the order must not depend on which thread is faster
    int next = 0, chosen_count = 0;
    for (int k = 0; k < $BLOCK / 32; ++k) {
        next += k < place / 32 ? near_in[k] : 0;
        chosen_count += near_in[k];
    }
    for (int test = 0; near > 0 && test < $TESTS; ++test) {
        const unsigned found = found_as >> (2 * test) & 3u, all = __ballot_sync(0xffffffffu, found > 0u);
        if (found > 0u)
            chosen[next + __popc(all & ((1u << lane) - 1u))] = 2 * (base + test * threads + mine) + found - 1;
        next += __popc(all);
    }
    if (place == 0 && chosen_count > 0)
        atomicMax(batch_counts + list % $LISTS, (chosen_count + $BLOCK - 1) / $BLOCK);
    if (leader)
        batch_counts[(list + 1) % $LISTS] = push_counts[(list + 1) % $LISTS] = 0;
    sync_grid();
    const int batches = push_counts[list % $LISTS] > 0 ? batch_counts[list % $LISTS] : 0;
    for (int batch = 0; batch < batches; ++batch) {
        bool open = batch * $BLOCK + place < chosen_count;
        const int listed = open ? chosen[batch * $BLOCK + place] : 0, i = listed / 2;
        // what does not change in the rounds of this batch
        const wp::vec_t<4, int> q = contacts.vertices.data[i];
        const int kind = contacts.kinds.data[i];
        const double thick = contacts.thickness.data[i];
        const wp::vec_t<2, double> rubs = contacts.friction.data[i];
        const unsigned long long number = number_of(q, i);
        unsigned moves = 0u;
        for (int k = 0; k < 4; ++k)
            moves |= rows[q[k]][3] > 0.0 ? 1u << k : 0u;
        // whether a contact has the lowest number at all its vertices that can move
        const auto owns_all = [&](const unsigned long long ticket) {
            bool all = true;
            for (int k = 0; k < 4; ++k)
                all = (reservations.data[q[k]] == ticket || (moves >> k & 1u) == 0u) & all;
            return all;
        };
        bool reserved = batch == 0;
        const unsigned earlier = reserved ? round - 1 : round;
        while (true) {
            if (!reserved) {
                const bool last = round - earlier >= $ROUNDS || round >= $MOST_ROUNDS - 1;
                if (round > earlier && (last || waiting[round % $FLAGS] <= few))
                    break;
                ++round;
            }
            bool pushes = false, undoes = false;
            unsigned goes = 0u;
            double share[4];
            row4 way, way_back;
            // loaded early, whether they will be needed or not
            row4 was_now[4], home_now[4];
            for (int k = 0; k < 4; ++k) {
                was_now[k] = load(was_rows + q[k]);
                home_now[k] = load(home_rows + q[k]);
            }
            const auto was_at = [&](int k) { return was_now[k]; };
            const auto home_at = [&](int k) { return home_now[k]; };
            const unsigned long long ticket = in_round(number, round);
            // a contact that comes later may see vertices that others move already: it is tested in the next round
            bool first = reserved && open && (listed & 1) != 0 && owns_all(ticket);
            for (bool once = reserved ? first : open; once; once = false) {
$MEASURE
$PUSH
                pushes = true;
                undoes = known > 0.0;
                way = step;
                way_back = back;
                for (int k = 0; k < 4; ++k) {
                    goes |= s[k] != 0.0 ? 1u << k : 0u;
                    share[k] = g[k];
                }
            }
            bool waits = reserved && open && (listed & 1) != 0 && !first;
            if (!reserved) {
                for (int k = 0; pushes && k < 4; ++k)
                    if (moves >> k & 1u)
                        atomicMin((unsigned long long*)reservations.data + q[k], ticket);
                sync_grid();
                first = pushes && owns_all(ticket);
                waits = pushes && !first;
            }
            const unsigned those = __ballot_sync(0xffffffffu, waits);
            if (lane == 0 && those != 0u)
                atomicAdd(waiting + round % $FLAGS, __popc(those));
            if (leader)
                waiting[(round + 2) % $FLAGS] = 0;
            if (first && pushes) {
                open = false;
                contacts.pushed.data[i] = 1;
                row4 at[4];
                for (int k = 0; k < 4; ++k)
                    at[k] = load(rows + q[k]);
                for (int k = 0; k < 4; ++k) {
                    if (goes >> k & 1u)
                        store(rows + q[k], at[k] + share[k] * way);
                    if (undoes && (goes >> k & 1u))
                        store(was_rows + q[k], load(was_rows + q[k]) + share[k] * way_back);
                }
            }
            sync_grid();
            reserved = false;
        }
    }
    __syncthreads();
}
if (leader)
    batch_counts[0] = push_counts[0] = 0;

// [serial] the same one after another, by the first thread of a CPU: a bit says which contact is left, another which pushes
const int words = (count + 31) / 32;
const auto would_push = [&](const int i) {
    for (bool once = true; once; once = false) {
        // [include awake]
        $CONTACT
        $MEASURE
        return true;
    }
    return false;
};
const auto solve = [&](const int i) {
    for (bool once = true; once; once = false) {
        // [include awake]
        $CONTACT
        $MEASURE
        $PUSH
        $WRITE
    }
};
if (thread != 0)
    return;
const auto nothing = [](bool, bool, bool, bool) {};
for (int word = 0; word < words; ++word)
    masks.data[word] = 0;
for (int i = 0; i < count; ++i) {
    contacts.pushed.data[i] = 0;
    const int near = classify(i, contacts.kinds.data[i], contacts.vertices.data[i], contacts.thickness.data[i], nothing);
    masks.data[i / 32] |= near > 0 ? 1 << (i % 32) : 0;
}
for (int waiting = few + 1; waiting > few && round < $ROUNDS;) {
    ++round;
    waiting = 0;
    for (int word = 0; word < words; ++word) {
        unsigned pushing = 0u;
        for (unsigned bits = (unsigned)masks.data[word]; bits != 0u; bits &= bits - 1u) {
            const int k = __builtin_ctz(bits), i = 32 * word + k;
            if (!would_push(i))
                continue;
            pushing |= 1u << k;
            const wp::vec_t<4, int> q = contacts.vertices.data[i];
            const unsigned long long ticket = in_round(number_of(q, i), round);
            for (int corner = 0; corner < 4; ++corner)
                if (rows[q[corner]][3] > 0.0 && ticket < reservations.data[q[corner]])
                    reservations.data[q[corner]] = ticket;
        }
        masks.data[words + word] = (int)pushing;
    }
    for (int word = 0; word < words; ++word)
        for (unsigned bits = (unsigned)masks.data[words + word]; bits != 0u; bits &= bits - 1u) {
            const int k = __builtin_ctz(bits), i = 32 * word + k;
            const wp::vec_t<4, int> q = contacts.vertices.data[i];
            const unsigned long long ticket = in_round(number_of(q, i), round);
            bool first = true;
            for (int corner = 0; corner < 4; ++corner)
                first = first && (!(rows[q[corner]][3] > 0.0) || reservations.data[q[corner]] == ticket);
            waiting += first ? 0 : 1;
            if (first) {
                solve(i);
                masks.data[word] &= ~(1 << k);
            }
        }
}

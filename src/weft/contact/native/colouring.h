// Dependency colouring on CUDA (see stencil_colours.py); on the CPU the same code runs with one thread, for tests.

// [load_acquire] read a counter that other threads decrement: once it is 0, what they wrote before is visible
#if defined(__CUDA_ARCH__)
int number;
asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(number) : "l"(numbers.data + i) : "memory");
return number;
#else
return numbers.data[i];
#endif

// [take_lowest_colour] take the lowest colour that is free at all four vertices and release the stencils that wait for it
// q are the vertices, ~vertex where it cannot move; `followers` are the numbers + 1 of the stencils that come next at these
// vertices, whose counters are decremented, with the bit $HAS_PREDECESSOR, which is masked out
#if defined(__CUDA_ARCH__)
// other threads wrote these words: never from a register or the first-level cache
#define COLOUR_WORD volatile wp::int64
#else
#define COLOUR_WORD wp::int64
#endif
COLOUR_WORD* words[4];
wp::int64 low[4], high[4];
for (int k = 0; k < 4; ++k) {
    words[k] = used.data + (size_t)$WORDS * (q[k] < 0 ? ~q[k] : q[k]);
    low[k] = words[k][0];
    high[k] = words[k][1];
}
// mostly a colour of the first two words is free
int word = 0;
wp::int64 mask = low[0] | low[1] | low[2] | low[3];
if (mask == $FULL) {
    word = 1;
    mask = high[0] | high[1] | high[2] | high[3];
    for (int k = 0; k < 4; ++k) low[k] = high[k];
    while (mask == $FULL && word < $WORDS - 1) {
        ++word;
        for (int k = 0; k < 4; ++k) low[k] = words[k][word];
        mask = low[0] | low[1] | low[2] | low[3];
    }
}
#undef COLOUR_WORD
int bit = 0;
#if defined(__CUDA_ARCH__)
bit = __ffsll(~mask) - 1;
#else
bit = __builtin_ctzll(~mask);
#endif
const int colour = $BITS * word + bit;
if (colour < $COLOURS)
    for (int k = 0; k < 4; ++k)
        // vertices that cannot move may be shared within a colour
        if (q[k] >= 0) words[k][word] = low[k] | (wp::int64)1 << bit;
#if defined(__CUDA_ARCH__)
asm volatile("fence.acq_rel.gpu;" : : : "memory");
#endif
for (int k = 0; k < 4; ++k) {
    const int follower = (followers[k] & ($HAS_PREDECESSOR - 1)) - 1;
    if (follower >= 0)
#if defined(__CUDA_ARCH__)
        atomicSub(pending.data + follower, 1);
#else
        --pending.data[follower];
#endif
}
return colour;

"""How the threads of a kernel that wait for each other share a pass (see `weft.runtime.cooperative`).

Thread t takes the items from `partition_begin` to `partition_end` of a pass, in steps of `partition_step`.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})

# threads a block: what one block can do needs no meeting of all
BLOCK = 512
# items that one block does sooner alone than all do with a meeting: more of them wait for the one multiprocessor's memory
FEW = BLOCK
# items that one thread of a CPU does sooner alone
ALONE = 160


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    // a warp of each block in turn, so that all multiprocessors have as much to do
    return ((t % {BLOCK}) / 32 * (threads / {BLOCK}) + t / {BLOCK}) * 32 + t % 32;
#else
    return t;
#endif
"""
)
def spread(t: int, threads: int) -> int:
    """The number of a thread such that few items are shared by all blocks."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    if (count <= {FEW}) return t < {BLOCK} ? t : count;
    return ((t % {BLOCK}) / 32 * (threads / {BLOCK}) + t / {BLOCK}) * 32 + t % 32;
#else
    if (count <= {ALONE}) return t == 0 ? 0 : count;
    return (int)((wp::int64)count * t / threads);
#endif
"""
)
def partition_begin(t: int, threads: int, count: int) -> int:
    """The first item of a thread: neighbouring threads take neighbours on CUDA, where the first block does a few items
    alone; on the CPU stretches of their own, and the first thread does a few items alone."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return count;
#else
    if (count <= {ALONE}) return count;
    return (int)((wp::int64)count * (t + 1) / threads);
#endif
"""
)
def partition_end(t: int, threads: int, count: int) -> int:
    """The end of a thread's items."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return count <= {FEW} ? {BLOCK} : threads;
#else
    return 1;
#endif
"""
)
def partition_step(threads: int, count: int) -> int:
    """From one item of a thread to its next."""
    ...


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return count <= {FEW} ? 1 : (count + threads - 1) / threads;
#else
    return count <= {ALONE} ? count : (count + threads - 1) / threads;
#endif
"""
)
def partition_rounds(threads: int, count: int) -> int:
    """How many items a thread has at most: what threads do together they must all do as often."""
    ...

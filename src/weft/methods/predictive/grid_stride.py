"""What a thread does of a pass: every so many-th item on a card, one by one; a span of its own on the CPU, in one go, since
loops over many items are fast there where each does the same.

One loop serves for both: from `span_begin` to `span_end` in steps of `go_step`, each time up to `go_end`. Spans begin at every
fourth item, so that what takes four at once takes the same ones however many threads there are.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return place;
#else
    const int next = (place + 3) & ~3;
    return next < count ? next : count;
#endif
    """
)
def in_fours(place: int, count: int) -> int:
    """A place among so many items; on the CPU the next one where four begin."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return begin + t;
#else
    const int next = ((int)((wp::int64)(end - begin) * t / threads) + 3) & ~3;
    return begin + (next < end - begin ? next : end - begin);
#endif
    """
)
def span_begin(t: int, threads: int, begin: int, end: int) -> int:
    """The first of a thread's items among those from `begin` to `end`."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return end;
#else
    const int next = ((int)((wp::int64)(end - begin) * (t + 1) / threads) + 3) & ~3;
    return begin + (next < end - begin ? next : end - begin);
#endif
    """
)
def span_end(t: int, threads: int, begin: int, end: int) -> int:
    """The end of them."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return step;
#else
    return begin < end ? end - begin : 1;
#endif
    """
)
def go_step(step: int, begin: int, end: int) -> int:
    """From what a thread does in one go to what it does next: on a card so many items on."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return i + 1;
#else
    return end;
#endif
    """
)
def go_end(i: int, end: int) -> int:
    """The end of what is done in one go from item i on, of those up to `end`."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return threads;
#else
    return 1;
#endif
    """
)
def item_step(threads: int) -> int:
    """From an item of a thread to its next, where each is done by itself."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return threads;
#else
    return 0;
#endif
    """
)
def beyond_loaded(threads: int) -> int:
    """From the first item of a thread to the first that it has not loaded beforehand: on the CPU it loads none."""
    ...

"""Independent pieces of work side by side on the CPU: a core for each, instead of all cores for one after the other.

Small cloths leave most cores idle, since a kernel with few items runs on one thread, and threads wait for each other after
each kernel. Python threads that each step a cloth of their own need no barrier. Kernels run without Python's lock.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import TypeVar

from weft.runtime.launch import get_threads, own_threads

Item = TypeVar("Item")


def run_side_by_side(act: Callable[[Item], object], items: Sequence[Item], *, together: bool = True) -> None:
    """Call a function for each item; all are done when this returns, or raises the error of the first that failed.

    The number of threads changes no result. What the function does for one item must not touch what it does for another, unless
    they are not to run `together` but one after the other.
    """
    errors: dict[int, Exception] = {}
    left = iter(range(len(items)))

    def act_on(k: int) -> None:
        try:
            act(items[k])
        except Exception as error:
            errors[k] = error

    def take_items(threads: int) -> None:
        with own_threads(threads):
            # only one thread at a time gets the next number: range iterators are written in C, under Python's lock
            while (k := next(left, None)) is not None:
                act_on(k)

    cores = get_threads()
    workers = min(cores, len(items)) if together else 1
    if workers <= 1:
        for k in left:
            act_on(k)
    else:
        pool = _pool(cores)
        running = [pool.submit(take_items, cores // workers) for _ in range(workers)]
        try:
            wait(running)
        finally:
            # interrupted: nothing new begins, and nothing goes on behind the caller's back
            left = iter(())
            wait(running)
        for one in running:
            one.result()
    if errors:
        raise errors[min(errors)]


@cache
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, "weft-beside")


if hasattr(os, "register_at_fork"):
    # threads do not survive a fork; the child starts its own
    os.register_at_fork(after_in_child=_pool.cache_clear)

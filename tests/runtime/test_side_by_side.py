"""Work side by side: all of it is done, errors come in order, and kernels of several Python threads are independent."""

import os
import threading

import numpy as np
import pytest
import warp as wp

import weft
from weft.runtime import launch
from weft.runtime.compaction import exclusive_scan
from weft.runtime.launch import threads_now
from weft.runtime.side_by_side import run_side_by_side
from weft.runtime.thread_pool import ThreadLimit


@pytest.fixture
def four_threads():
    before = weft.runtime.get_threads()
    weft.runtime.set_threads(4)
    yield
    weft.runtime.set_threads(before)


@wp.kernel
def add_one(first: int, values: wp.array[int]):
    i = first + wp.tid()
    values[i] = values[i] + 1


def test_kernels_and_scans_of_many_threads(four_threads):
    arrays = [wp.zeros(50 + k, dtype=int, device="cpu") for k in range(40)]
    totals = [0] * len(arrays)

    def work(k):
        for _ in range(100):
            launch(add_one, len(arrays[k]), [arrays[k]])
            totals[k] = exclusive_scan(arrays[k], wp.zeros_like(arrays[k]))

    run_side_by_side(work, range(len(arrays)))
    for k, array in enumerate(arrays):
        assert np.all(array.numpy() == 100) and totals[k] == 100 * len(array)


@pytest.mark.parametrize("together", [True, False])
def test_all_is_done_before_the_first_error_is_raised(four_threads, together):
    done = []

    def work(k):
        if k in (3, 7):
            raise ValueError(f"number {k}")
        done.append(k)

    with pytest.raises(ValueError, match="number 3"):
        run_side_by_side(work, range(10), together=together)
    assert sorted(done) == [0, 1, 2, 4, 5, 6, 8, 9]


def test_few_items_share_the_threads(four_threads, monkeypatch):
    # what earlier tests and other processes made of the limit is no matter here
    monkeypatch.setattr(ThreadLimit, "apply", lambda self, threads: threads)
    seen = []
    meet = threading.Barrier(2)

    def work(k):
        meet.wait(10)
        seen.append((threads_now(), threading.current_thread() is threading.main_thread()))

    run_side_by_side(work, range(2))
    assert seen == [(2, False)] * 2 and threads_now() == 4
    run_side_by_side(lambda k: seen.append((threads_now(), True)), range(1))
    assert seen[2:] == [(4, True)]
    run_side_by_side(work, [])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_has_its_own_threads(four_threads):
    run_side_by_side(lambda k: None, range(8))
    child = os.fork()
    if child == 0:
        done = []
        run_side_by_side(done.append, range(8))
        os._exit(0 if sorted(done) == list(range(8)) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0

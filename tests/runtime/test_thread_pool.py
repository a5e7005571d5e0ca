"""The thread pool: no job is lost, whether helpers are awake, asleep, late or many."""

import threading
import time

import numpy as np
import pytest
import warp as wp

from weft.runtime import get_threads, launch, set_threads
from weft.runtime.launch import launch_threads
from weft.runtime.thread_pool import PackedKernel, ThreadPool, run_role_kernel

wp.set_module_options({"enable_backward": False})


@wp.kernel
def add_number(first: int, number: int, sums: wp.array[wp.int64]):
    i = first + wp.tid()
    sums[i] = sums[i] + wp.int64(number)


@wp.kernel
def note_thread(first: int, visits: wp.array[int]):
    i = first + wp.tid()
    visits[i] = visits[i] + 1


@pytest.fixture(autouse=True)
def restore_threads():
    before = get_threads()
    yield
    set_threads(before)


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_no_range_is_lost_or_done_twice(threads):
    """Jobs in quick succession, of all sizes, with other arguments each time."""
    set_threads(threads)
    rng = np.random.default_rng(threads)
    sums, expected = wp.zeros(3000, dtype=wp.int64, device="cpu"), np.zeros(3000, np.int64)
    for number in rng.integers(1, 1000, 3000).tolist():
        count = int(rng.integers(1, 3001))
        launch(add_number, count, [number, sums], grain=7)
        expected[:count] += number
    assert np.array_equal(sums.numpy(), expected)


def test_helpers_that_went_to_sleep_are_woken():
    set_threads(3)
    visits = wp.zeros(3, dtype=int, device="cpu")
    for pause in (0.0, 1e-4, 2e-4, 5e-4, 1e-3, 1e-2) * 20:
        time.sleep(pause)
        launch_threads(note_thread, 3, (visits,))
    assert visits.numpy().tolist() == [120] * 3


def test_callers_from_several_threads_take_turns():
    set_threads(2)
    sums = [wp.zeros(500, dtype=wp.int64, device="cpu") for _ in range(4)]

    def call(mine):
        for _ in range(300):
            launch(add_number, 500, [1, mine], grain=10)

    callers = [threading.Thread(target=call, args=(mine,)) for mine in sums]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert all((mine.numpy() == 300).all() for mine in sums)


def test_fewer_threads_than_there_are_helpers():
    visits = wp.zeros(1000, dtype=int, device="cpu")
    for threads in (4, 2, 1, 3):
        set_threads(threads)
        for _ in range(50):
            launch(note_thread, 1000, [visits], grain=10)
    assert (visits.numpy() == 200).all()


def test_a_second_pool_runs_all_ranges():
    pool = ThreadPool()
    visits = wp.zeros(100, dtype=int, device="cpu")
    job = PackedKernel(wp.launch(note_thread, dim=1, inputs=[0, visits], device="cpu", record_cmd=True))
    for ranges in (1, 3, 100):
        pool.run(job, 100, ranges, 2)
    assert (visits.numpy() == 3).all()


def test_too_many_arguments_are_refused(monkeypatch):
    monkeypatch.setattr("weft.runtime.thread_pool.MAX_ARGUMENT_BYTES", 8)
    board = wp.zeros(4, dtype=wp.int64, device="cpu")
    with pytest.raises(ValueError, match="bytes of arguments: at most 8"):
        PackedKernel(wp.launch(run_role_kernel, dim=1, inputs=[0, board], device="cpu", record_cmd=True))

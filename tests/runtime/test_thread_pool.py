"""The thread pool: no job is lost, whether helpers are awake, asleep, late or many."""

import threading
import time

import numpy as np
import pytest
import warp as wp

from weft.runtime import get_threads, launch, set_threads, thread_pool
from weft.runtime.launch import launch_threads
from weft.runtime.thread_pool import MEMORY, MIN_PAUSE, PackedKernel, ThreadLimit, ThreadPool, run_role_kernel

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


@pytest.fixture
def clock(monkeypatch):
    """A clock that the test sets."""
    now = [100.0]
    monkeypatch.setattr(thread_pool, "perf_counter", lambda: now[0])
    return now


def run_jobs(limit, clock, wanted, waits, *, jobs=10):
    """Jobs of half the memory each; `waits` says for what part of it all threads wait together, given how many they are."""
    used = []
    for _ in range(jobs):
        threads = limit.apply(wanted)
        used.append(threads)
        clock[0] += 0.5 * MEMORY
        if threads > 1:
            limit.report(threads, 0.5 * MEMORY, 0.5 * MEMORY * waits(threads))
    return used


@pytest.mark.parametrize("wanted", [2, 4, 16])
def test_threads_that_seldom_wait_are_all_used(clock, wanted):
    """A wait of one tenth of the time is what little differences in their work are."""
    assert set(run_jobs(ThreadLimit(), clock, wanted, lambda threads: 0.1, jobs=100)) == {wanted}


@pytest.mark.parametrize(("wanted", "free"), [(2, 1), (4, 3), (4, 1)])
def test_no_more_threads_than_there_are_free_cores(clock, wanted, free):
    """While more of them run than there are cores, one is always absent for half of the time, and the others wait."""
    limit = ThreadLimit()

    def waits(threads):
        return 0.5 * threads if threads > free else 0.0

    run_jobs(limit, clock, wanted, waits, jobs=50)
    # trials of one more thread cost a twentieth of the time
    used = run_jobs(limit, clock, wanted, waits, jobs=2000)
    assert sum(threads == free for threads in used) > 0.9 * len(used) and max(used) == free + 1
    # all are used again when the cores are free
    clock[0] += 100.0
    for _ in range(wanted):
        run_jobs(limit, clock, wanted, lambda threads: 0.0)
        clock[0] += 100.0
    assert set(run_jobs(limit, clock, wanted, lambda threads: 0.0)) == {wanted}


def test_one_bad_moment_costs_a_short_pause(clock):
    """After a long time without waits, a neighbour that computes for a moment does not cost the second thread for long."""
    limit = ThreadLimit()
    run_jobs(limit, clock, 2, lambda threads: 0.0, jobs=1000)
    assert run_jobs(limit, clock, 2, lambda threads: 1.0, jobs=3)[-1] == 1
    clock[0] += 10.0 * MIN_PAUSE
    assert set(run_jobs(limit, clock, 2, lambda threads: 0.0)) == {2}

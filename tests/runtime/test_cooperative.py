"""Cooperative kernels: barriers, tickets, and the same bytes for any number of threads."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.methods import make_method
from weft.methods.predictive import plan, search_cpu
from weft.runtime import cooperative, get_threads, set_threads
from weft.runtime.cooperative import (
    ONE_THREAD_ITEMS,
    CooperativeLauncher,
    grid_barrier,
    partition_begin,
    partition_end,
    partition_step,
    take_ticket,
)
from weft.scene import Predictive
from weft.world import World


@wp.kernel
def number(first: int, threads: int, arrivals: wp.array[int], count: int, counters: wp.array[int], out: wp.array[int]):
    t = first + wp.tid()
    for i in range(t, count, threads):
        out[i] = take_ticket(counters, i % 3)


def test_every_number_is_given_once():
    counters, out = wp.zeros(3, dtype=int, device="cpu"), wp.zeros(10, dtype=int, device="cpu")
    CooperativeLauncher("cpu").launch(number, 10, [10, counters, out])
    assert counters.numpy().tolist() == [4, 3, 3]
    assert out.numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def drape(method, cells=11):
    """Two sheets over a ball."""
    sheet = weft.Grid(size=(0.4, 0.4), cells=(cells, cells))
    return weft.Scene(
        method=method,
        cloths=[
            weft.Cloth(name="a", shape=sheet, placement={"position": (0, 0.13, 0)}),
            weft.Cloth(name="b", shape=sheet, placement={"position": (0, 0.14, 0)}),
        ],
        colliders=[weft.Collider(shape=weft.Sphere(radius=0.12), friction=0.5)],
    )


def launched(monkeypatch):
    """The names of the cooperative kernels launched from now on, and the rooms they are from."""
    names, plain = set(), CooperativeLauncher.launch

    def launch(self, kernel, *rest, **options):
        names.update((kernel.key, ".".join(kernel.module.name.split(".")[:2])))
        plain(self, kernel, *rest, **options)

    monkeypatch.setattr(CooperativeLauncher, "launch", launch)
    return names


def run(world, *, frames=8, **solver):
    made, state = make_method(world, world.scene.method), world.initial_state()
    for name, value in solver.items():
        setattr(made.solver, name, value)
    for _ in range(frames):
        made.advance_frame(state)
    return state.positions()


@pytest.mark.parametrize("cache", [False, True])
def test_threads_of_predictive_give_the_same_bytes(monkeypatch, cache):
    monkeypatch.setattr(search_cpu, "WORTH_SHARING", 0)
    monkeypatch.setattr(plan, "SHARED_FROM", 0)
    threads, found = get_threads(), []
    world = World(drape(Predictive(cache=cache, cache_radius=0.01 if cache else None), 60), "cpu")
    try:
        for count in (1, 2, 3):
            set_threads(count)
            made, state = make_method(world, world.scene.method), world.initial_state()
            assert made.solver.plan.shared
            for _ in range(6):
                report = made.advance_frame(state)
            found.append(state.positions())
    finally:
        set_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    assert (report["cached"] > 0) == cache


def test_threads_that_wait_for_each_other_give_the_same_bytes(monkeypatch):
    monkeypatch.setattr(cooperative, "MIN_PARALLEL_ITEMS", 0)
    names, world, threads, found = launched(monkeypatch), World(drape("robust"), "cpu"), get_threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(run(world))
    finally:
        set_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    assert {"weft.dynamics", "weft.contact"} <= names


@wp.kernel
def add_up(first: int, threads: int, arrivals: wp.array[int], count: int, passes: int, x: wp.array[int]):
    """Every pass reads what another thread wrote in the pass before."""
    t = first + wp.tid()
    for number in range(passes):
        for i in range(
            partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
        ):
            x[(number + 1) % 2 * count + i] = x[number % 2 * count + (i + count // 2) % count] + 1
        grid_barrier(arrivals)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_nobody_goes_on_before_all_are_there(count):
    """More items than one thread takes alone, and as many threads as are said, however busy the machine is."""
    threads, passes, items = get_threads(), 301, 2 * ONE_THREAD_ITEMS
    try:
        set_threads(count)
        launcher = CooperativeLauncher("cpu")
        for _ in range(20):
            x = wp.zeros(2 * items, dtype=int, device="cpu")
            launcher.launch(add_up, items, [items, passes, x], threads=count)
            assert (x.numpy()[items:] == passes).all()
    finally:
        set_threads(threads)

"""Launches whose threads wait for each other: the same bytes for any number of them."""

import numpy as np
import pytest
import warp as wp

import weft
from weft.methods import make_method
from weft.response import predictive_quick
from weft.world import World, get_threads, set_threads, together
from weft.world.together import Together, meet, share_begin, share_end, share_step, take_number


@wp.kernel
def number(first: int, threads: int, arrivals: wp.array[int], count: int, counters: wp.array[int], out: wp.array[int]):
    t = first + wp.tid()
    for i in range(t, count, threads):
        out[i] = take_number(counters, i % 3)


def test_every_number_is_given_once():
    counters, out = wp.zeros(3, dtype=int, device="cpu"), wp.zeros(10, dtype=int, device="cpu")
    Together("cpu").launch(number, 10, [10, counters, out])
    assert counters.numpy().tolist() == [4, 3, 3]
    assert out.numpy().tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]


def drape(method):
    """Two sheets over a ball."""
    sheet = weft.Grid(size=(0.4, 0.4), cells=(11, 11))
    return weft.Scene(
        method=method,
        cloths=[
            weft.Cloth(name="a", shape=sheet, placement={"position": (0, 0.13, 0)}),
            weft.Cloth(name="b", shape=sheet, placement={"position": (0, 0.14, 0)}),
        ],
        colliders=[weft.Collider(shape=weft.Sphere(radius=0.12), friction=0.5)],
    )


def launched(monkeypatch):
    """The names of what is launched together from now on."""
    names, plain = set(), Together.launch

    def launch(self, kernel, *rest, **options):
        names.add(kernel.key)
        plain(self, kernel, *rest, **options)

    monkeypatch.setattr(Together, "launch", launch)
    return names


def run(world, *, frames=8, **solver):
    made, state = make_method(world, world.scene.method), world.initial_state()
    for name, value in solver.items():
        setattr(made.solver, name, value)
    for _ in range(frames):
        made.advance_frame(state)
    return state.positions()


def test_predictive_in_one_launch(monkeypatch):
    names, world = launched(monkeypatch), World(drape("predictive"), "cpu")
    assert np.array_equal(*(run(world, serial=False, by_colours=by_colours) for by_colours in (True, False)))
    assert "advance_together" in names


@pytest.mark.parametrize("near", [True, False])
def test_threads_of_predictive_give_the_same_bytes(monkeypatch, near):
    for module in (together, predictive_quick):
        monkeypatch.setattr(module, "WORTH_SHARING", 0)
    world, threads, found = World(drape("predictive"), "cpu"), get_threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(run(world, serial=False, by_colours=False, near=near))
    finally:
        set_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


def test_threads_that_wait_for_each_other_give_the_same_bytes(monkeypatch):
    monkeypatch.setattr(together, "WORTH_SHARING", 0)
    names, world, threads, found = launched(monkeypatch), World(drape("robust"), "cpu"), get_threads(), []
    try:
        for count in (1, 2, 3):
            set_threads(count)
            found.append(run(world))
    finally:
        set_threads(threads)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])
    assert {"substep_together", "pull_together", "part_together", "solve_together"} <= names


@wp.kernel
def add_up(first: int, threads: int, arrivals: wp.array[int], count: int, passes: int, x: wp.array[int]):
    """Every pass reads what another thread wrote in the pass before."""
    t = first + wp.tid()
    for number in range(passes):
        for i in range(share_begin(t, threads, count), share_end(t, threads, count), share_step(threads, count)):
            x[(number + 1) % 2 * count + i] = x[number % 2 * count + (i + count // 2) % count] + 1
        meet(arrivals)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_nobody_goes_on_before_all_are_there(monkeypatch, count):
    monkeypatch.setattr(together, "WORTH_SHARING", 0)
    threads, passes, items = get_threads(), 501, 64
    try:
        set_threads(count)
        meeting = Together("cpu")
        for _ in range(20):
            x = wp.zeros(2 * items, dtype=int, device="cpu")
            meeting.launch(add_up, items, [items, passes, x])
            assert (x.numpy()[items:] == passes).all()
    finally:
        set_threads(threads)

"""launch: every item once, the same bytes for any number of threads, failures reach the caller."""

import os
import sys

import numpy as np
import pytest
import warp as wp

from weft.errors import WeftError, WeftWarning
from weft.runtime import get_threads, launch, set_threads, warp_version
from weft.runtime.launch import _default_threads

wp.set_module_options({"enable_backward": False})
# `weft.runtime.launch` is the function
launch_module = sys.modules[launch.__module__]


@wp.kernel
def count_visits(first: int, visits: wp.array[int]):
    i = first + wp.tid()
    visits[i] = visits[i] + 1


@wp.kernel
def spring_like(first: int, x: wp.array[wp.vec3d], scale: wp.float64, out: wp.array[wp.vec3d]):
    i = first + wp.tid()
    a = x[i]
    b = x[(i * 7 + 1) % x.shape[0]]
    d = b - a
    out[i] = scale * d * (wp.float64(1.0) / (wp.length(d) + wp.float64(1e-3)))


@wp.struct
class Scaling:
    factor: wp.float64
    shift: wp.array[wp.vec3d]


@wp.kernel
def transform(first: int, scaling: Scaling, direction: wp.vec3d, flip: bool, out: wp.array[wp.vec3d]):
    i = first + wp.tid()
    out[i] = scaling.factor * direction + scaling.shift[i]
    if flip:
        out[i] = -out[i]


@pytest.fixture(autouse=True)
def restore_threads():
    before = get_threads()
    yield
    set_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 3, 7])
@pytest.mark.parametrize("dim", [1, 2, 63, 64, 1000, 4097])
def test_each_item_runs_once(threads, dim):
    set_threads(threads)
    visits = wp.zeros(dim, dtype=int, device="cpu")
    for _ in range(3):
        launch(count_visits, dim, [visits], grain=16)
    assert (visits.numpy() == 3).all()


def test_same_bytes_for_any_number_of_threads():
    x = wp.array(np.random.default_rng(0).normal(size=(5000, 3)), dtype=wp.vec3d, device="cpu")
    results = []
    for threads in (1, 2, 3):
        set_threads(threads)
        out = wp.zeros(5000, dtype=wp.vec3d, device="cpu")
        launch(spring_like, 5000, [x, 2.5, out], grain=64)
        results.append(out.numpy().tobytes())
    assert results[0] == results[1] == results[2]


def test_changed_arguments_are_seen():
    x = wp.array(np.random.default_rng(1).normal(size=(300, 3)), dtype=wp.vec3d, device="cpu")
    one, two = (wp.zeros(300, dtype=wp.vec3d, device="cpu") for _ in range(2))
    launch(spring_like, 300, [x, 1.0, one])
    launch(spring_like, 300, [x, 2.0, two])
    assert np.allclose(two.numpy(), 2.0 * one.numpy())
    launch(spring_like, 300, [x, 0.0, one])
    assert (one.numpy() == 0).all() and (two.numpy() != 0).any()


def test_arguments_that_change_in_place_are_seen():
    scaling, direction, out = Scaling(), wp.vec3d(1.0, 2.0, 3.0), wp.zeros(2, dtype=wp.vec3d, device="cpu")
    scaling.factor, scaling.shift = 2.0, wp.zeros(2, dtype=wp.vec3d, device="cpu")
    launch(transform, 2, [scaling, direction, False, out])
    assert out.numpy().tolist() == [[2.0, 4.0, 6.0]] * 2
    scaling.factor, scaling.shift = 3.0, wp.array([[1.0, 0.0, 0.0]] * 2, dtype=wp.vec3d, device="cpu")
    direction[2] = -1.0
    launch(transform, 2, [scaling, direction, False, out])
    assert out.numpy().tolist() == [[4.0, 6.0, -3.0]] * 2
    launch(transform, 2, [scaling, direction, True, out])
    assert out.numpy().tolist() == [[-4.0, -6.0, 3.0]] * 2


def test_wrong_arguments_raise():
    visits = wp.zeros(4, dtype=int, device="cpu")
    launch(count_visits, 4, [visits])
    with pytest.raises(TypeError, match="inputs"):
        launch(count_visits, 4, [visits, 1])
    with pytest.raises(WeftError, match="at least 1"):
        set_threads(0)


def test_nothing_to_do():
    visits = wp.zeros(4, dtype=int, device="cpu")
    launch(count_visits, 0, [visits])
    assert (visits.numpy() == 0).all()


def test_a_forked_child_has_its_own_pool():
    set_threads(2)
    visits = wp.zeros(5000, dtype=int, device="cpu")
    launch(count_visits, 5000, [visits], grain=16)
    child = os.fork()
    if child == 0:
        launch(count_visits, 5000, [visits], grain=16)
        os._exit(0 if (visits.numpy() == 2).all() else 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


def test_the_number_of_threads_to_start_with(monkeypatch):
    monkeypatch.delenv("WEFT_THREADS", raising=False)
    assert 1 <= _default_threads() <= os.cpu_count()
    # macOS and Windows do not say which cores a process may use
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert _default_threads() == os.cpu_count()
    monkeypatch.setenv("WEFT_THREADS", "3")
    assert _default_threads() == 3
    monkeypatch.setenv("WEFT_THREADS", "0")
    assert _default_threads() == 1
    monkeypatch.setenv("WEFT_THREADS", "all")
    with pytest.raises(WeftError, match="WEFT_THREADS is 'all': it says how many threads to use"):
        _default_threads()


@pytest.fixture
def unknown_warp(monkeypatch):
    """As with a version of Warp that weft has not seen: launches go through Warp's public interface."""
    monkeypatch.setattr(warp_version, "KNOWN", ("0.9",))
    warp_version.launches_are_known.cache_clear()
    with pytest.warns(WeftWarning, match=r"weft knows Warp 0\.9 to 0\.9, and Warp .* is installed: kernels run on one"):
        monkeypatch.setattr(launch_module, "_cpu", launch_module._CpuLauncher())
    yield
    warp_version.launches_are_known.cache_clear()


def test_an_unknown_warp_runs_on_one_thread_with_the_same_bytes(unknown_warp, monkeypatch):
    set_threads(7)
    assert get_threads() == 1
    x = wp.array(np.random.default_rng(3).normal(size=(5000, 3)), dtype=wp.vec3d, device="cpu")
    results = []
    for known in (False, True):
        if known:
            monkeypatch.setattr(launch_module, "_cpu", launch_module._CpuLauncher())
            monkeypatch.setattr(launch_module, "launches_are_known", lambda: True)
        out = wp.zeros(5000, dtype=wp.vec3d, device="cpu")
        # other arguments and other numbers of items every time
        for scale, items in ((1.0, 5000), (2.5, 3000), (-1.0, 17)):
            launch(spring_like, items, [x, wp.float64(scale), out])
        scaling = Scaling()
        scaling.factor, scaling.shift = wp.float64(2.0), wp.clone(out)
        moved = wp.zeros(5000, dtype=wp.vec3d, device="cpu")
        for factor, flip in ((2.0, False), (3.0, True)):
            scaling.factor = wp.float64(factor)
            launch(transform, 4000, [scaling, wp.vec3d(1.0, 2.0, 3.0), flip, moved])
        results.append(out.numpy().tobytes() + moved.numpy().tobytes())
    assert results[0] == results[1]

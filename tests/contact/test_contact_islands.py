"""The last colours of contacts in clumps, as a card has them: the same as colour after colour."""

import numpy as np
import pytest
import warp as wp
from robust_rows import CPU, numbers, random_pairs, rows_of, upload, vectors

from weft.contact import impulses
from weft.contact.impulses import ImpulseSolver
from weft.contact.substep_contacts import PositionContacts
from weft.runtime import get_threads, set_threads

CARD = pytest.param(
    "cuda:0", marks=[pytest.mark.cuda, pytest.mark.skipif(not wp.is_cuda_available(), reason="no CUDA device")]
)


@pytest.fixture(autouse=True)
def one_thread():
    """A CPU has one place for the vertices of a clump."""
    threads = get_threads()
    set_threads(1)
    yield
    set_threads(threads)


def some_pairs(count, points):
    """Random contacts, a fifth of whose vertices cannot move, and everything that sweeps need."""
    rng = np.random.default_rng(count)
    pairs = random_pairs(rng, count, points)
    inverse = np.where(rng.uniform(size=points) < 0.2, 0.0, rng.uniform(0.5, 2.0, points))
    before = pairs.x + rng.normal(scale=0.1, size=pairs.x.shape)
    return pairs, inverse, before, rng.normal(size=pairs.x.shape)


def solve(pairs, inverse, before, v, device, *, clumped=True, solver=None):
    """Positions after a sweep over contacts, velocities and impulses after some sweeps, and the solver."""
    rows = upload(pairs, speeds=0.1, friction=(0.6, 0.4), device=device)
    if solver is None:
        solver = ImpulseSolver(len(pairs.x), numbers(inverse, device), clumped=clumped)
    solver.place(rows)
    rows.distances[: rows.count].assign(1.0 + 0.1 * np.abs(rows.gaps.numpy()[: rows.count]))
    x, was = (rows_of(at, inverse, device) for at in (pairs.x, before))
    PositionContacts(solver, rows)(x, was)
    moved = x.numpy()[:, :3]
    speed = vectors(v, device)
    solver.sweep(rows, speed, 5)
    # a CPU and a card have the rows of a colour in different orders
    in_order = np.lexsort(rows.vertices.numpy()[: rows.count].T)
    return moved, speed.numpy(), rows.push.numpy()[: rows.count][in_order], solver


@pytest.mark.parametrize("device", ["cpu", CARD])
def test_clumps_do_not_depend_on_those_of_the_step_before(device):
    pairs, inverse, before, v = some_pairs(900, 2000)
    others = random_pairs(np.random.default_rng(1), 900, 2000)
    solver = solve(others, inverse, before, v, wp.get_device(device))[-1]
    for _ in range(3):
        after = solve(pairs, inverse, before, v, wp.get_device(device), solver=solver)
    for expected, found in zip(solve(pairs, inverse, before, v, CPU, clumped=False)[:3], after[:3], strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("device", ["cpu", CARD])
@pytest.mark.parametrize(
    ("count", "points"), [(1, 4), (40, 2000), (900, 60), (900, 150), (3000, 60000), (12000, 20000), (60000, 15000)]
)
def test_clumps_give_what_colour_after_colour_gives(count, points, device):
    given = some_pairs(count, points)
    plain = solve(*given, CPU, clumped=False)
    first, second = (solve(*given, wp.get_device(device)) for _ in range(2))
    for expected, found, again in zip(plain[:3], first[:3], second[:3], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert found.tobytes() == again.tobytes()
    solver = first[3]
    assert np.array_equal(solver.offsets.numpy(), plain[3].offsets.numpy())
    # all contacts with a vertex that can move and a colour from the first one on are in the clumps
    begin = solver.offsets.numpy()[solver.clumps.first_colour.numpy()[0]]
    movable = (inverse_of(given) > 0.0).any(axis=1).sum()
    assert 0 < solver.clumps.sizes.numpy().sum() <= count - begin
    if count <= 3000 and points > 150:
        assert begin == 0 and solver.clumps.sizes.numpy().sum() == movable


@pytest.mark.parametrize("device", ["cpu", CARD])
def test_millions_go_colour_by_colour(monkeypatch, device):
    monkeypatch.setattr(impulses, "MOST_CLUMPED", 100)
    given = some_pairs(900, 150)
    plain, many = solve(*given, CPU, clumped=False), solve(*given, wp.get_device(device))
    assert not many[3].clumped
    for expected, found in zip(plain[:3], many[:3], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def inverse_of(given):
    """Inverse masses of the corners of all contacts."""
    return given[1][given[0].vertices]

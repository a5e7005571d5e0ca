"""Impulses over stencils: momenta, the solution they come to, colours, friction inside the sweeps."""

from itertools import pairwise

import numpy as np
import pytest
import warp as wp
from contact_pairs import Pairs, momenta, numbers, random_pairs, relative, upload, vectors
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from weft.contact.impulses import ImpulseSolver, reorder_contacts
from weft.contact.stencil_colours import COLOURS, StencilColouring
from weft.runtime import cooperative, get_threads, launch, set_threads

SEEDS = st.integers(0, 2**32 - 1)


def solve(pairs, mass, v, sweeps, **options):
    """Velocities after some sweeps, and the contacts with the impulses they gave."""
    contacts = upload(pairs, **options)
    # mass inf is a prescribed vertex
    solver = ImpulseSolver(len(mass), numbers(1.0 / mass))
    solver.colour_appended(contacts)
    out = vectors(v)
    solver.sweep(contacts, out, sweeps)
    return out.numpy(), contacts


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, friction=st.sampled_from([(0.0, 0.0), (0.5, 0.4), (2.0, 0.1)]))
def test_impulses_conserve_momentum_to_rounding(seed, friction):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 30, 40)
    mass, v = rng.uniform(0.5, 2.0, 40), rng.normal(size=(40, 3))
    after, contacts = solve(pairs, mass, v, 5, speeds=0.3, friction=friction)
    assert contacts.normal_impulses.numpy()[:30].max() > 0.0
    scale = (mass[:, None] * np.abs(v)).sum() + contacts.normal_impulses.numpy()[:30].sum()
    change = ((after - v) * mass[:, None]).sum(axis=0)
    assert np.abs(change).max() < 1e-13 * scale


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_normal_impulses_conserve_angular_momentum_at_any_gap(seed):
    """The impulse acts along the line between the two points: no torque, however far apart they are."""
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 30, 40)
    mass, v = rng.uniform(0.5, 2.0, 40), rng.normal(size=(40, 3))
    after, _ = solve(pairs, mass, v, 5, speeds=0.3)
    change = momenta(mass, pairs.x, after) - momenta(mass, pairs.x, v)
    assert np.abs(change).max() < 1e-12 * np.abs(mass[:, None] * np.cross(pairs.x, v)).sum()


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS)
def test_friction_conserves_angular_momentum_where_sides_touch(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 10, 40, gap=0.0)
    assert np.abs(pairs.gaps).max() < 1e-14
    mass, v = rng.uniform(0.5, 2.0, 40), rng.normal(size=(40, 3))
    after, contacts = solve(pairs, mass, v, 5, speeds=0.3, friction=(0.5, 0.4))
    assert np.abs(contacts.tangential_impulses.numpy()[:10]).max() > 0.0
    change = momenta(mass, pairs.x, after) - momenta(mass, pairs.x, v)
    assert np.abs(change).max() < 1e-12 * np.abs(mass[:, None] * np.cross(pairs.x, v)).sum()


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_sweeps_come_to_the_least_change_that_meets_all_speeds(seed):
    """Gauss-Seidel with impulses that only push solves a quadratic programme; NNLS solves the same one directly."""
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 12, 30)
    mass, v = rng.uniform(0.5, 2.0, 30), rng.normal(size=(30, 3))
    mass[:3] = np.inf
    speeds = rng.normal(scale=0.3, size=12)
    after, contacts = solve(pairs, mass, v, 3000, speeds=speeds)

    jacobian = np.zeros((12, 90))
    for row, q, w, n in zip(jacobian, pairs.vertices, pairs.weights, pairs.normals, strict=True):
        for corner, weight in zip(q, w, strict=True):
            row[3 * corner : 3 * corner + 3] += weight * n
    root = np.repeat(np.sqrt(1.0 / mass), 3)
    # minimise |root J' j|^2 / 2 - (s - J v) . j over j >= 0
    a = root[:, None] * jacobian.T
    lack = speeds - jacobian @ v.ravel()
    b = np.linalg.lstsq(a.T, lack, rcond=None)[0]
    push = nnls(a, b, maxiter=10_000)[0]
    expected = v + ((root**2) * (jacobian.T @ push)).reshape(-1, 3)
    assert np.abs(after - expected).max() < 1e-6

    # every pair is fast enough, and only those at their least speed are pushed
    given, slack = (
        contacts.normal_impulses.numpy()[:12],
        np.einsum("id,id->i", relative(pairs, after), pairs.normals) - speeds,
    )
    assert given.min() >= 0.0 and slack.min() > -1e-6
    assert (given * slack).max() < 1e-6


def one_pair(mass=(1.0, 1.0, 1.0, 1.0)):
    """A vertex over the middle of a triangle, normal up."""
    x = np.array([[0.0, 0.0, 0.0], [-1.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, -1.0]])
    weights = np.array([[1.0, -0.25, -0.25, -0.5]])
    return Pairs(x, np.array([[0, 1, 2, 3]]), weights, np.array([[0.0, 1.0, 0.0]]), np.zeros(1)), np.array(mass)


def test_an_impulse_is_taken_back_but_never_pulls():
    pairs, mass = one_pair()
    contacts = upload(pairs)
    solver = ImpulseSolver(4, numbers(1.0 / mass))
    solver.colour_appended(contacts)
    v = vectors([[0, -1, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]])
    solver.sweep(contacts, v, 1)
    given = contacts.normal_impulses.numpy()[0]
    # W = 1 + 1/16 + 1/16 + 1/4
    assert given == pytest.approx(1.0 / 1.375, rel=1e-14)

    # something else lifts the vertex: part of the impulse goes back
    v.assign(v.numpy() + np.array([[0, 0.5, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]))
    solver.sweep(contacts, v, 1)
    assert contacts.normal_impulses.numpy()[0] == pytest.approx(0.5 / 1.375, rel=1e-12)
    # it flies off: all of it, and no more
    v.assign(v.numpy() + np.array([[0, 5.0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]]))
    solver.sweep(contacts, v, 1)
    assert contacts.normal_impulses.numpy()[0] == 0.0
    assert np.allclose(v.numpy(), [[0, 4.5, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], atol=1e-14)


def test_prescribed_vertices_keep_their_velocity_and_a_pair_of_them_is_left_alone():
    pairs, mass = one_pair((1.0, np.inf, np.inf, np.inf))
    moving = np.array([[0, -1, 0], [0, 0.5, 0], [0, 0.5, 0], [0, 0.5, 0]], float)
    after, _ = solve(pairs, mass, moving, 1)
    assert np.array_equal(after[1:], moving[1:])
    assert np.allclose(after[0], [0, 0.5, 0], atol=1e-15)
    still, contacts = solve(pairs, np.full(4, np.inf), moving, 1)
    assert np.array_equal(still, moving) and contacts.normal_impulses.numpy()[0] == 0.0


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_no_two_contacts_of_a_colour_share_a_vertex_that_can_move(seed):
    rng = np.random.default_rng(seed)
    pairs = random_pairs(rng, 200, 60)
    inverse = np.where(rng.uniform(size=60) < 0.2, 0.0, 1.0)
    contacts, solver = upload(pairs), ImpulseSolver(60, numbers(inverse))
    solver.colour_appended(contacts)
    order = solver._colouring.order.numpy()[:200]
    assert sorted(order.tolist()) == list(range(200))
    offsets = solver._colouring.offsets.numpy()
    assert offsets[0] == 0 and offsets[-1] == 200 and (np.diff(offsets) >= 0).all()
    for start, end in pairwise(offsets[: COLOURS + 1].tolist()):
        met = pairs.vertices[order[start:end]].ravel()
        met = met[inverse[met] > 0.0]
        assert len(set(met.tolist())) == len(met)


def star(count):
    """More pairs at one vertex than there are colours."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3 * count + 1, 3))
    vertices = np.column_stack([np.zeros(count, int), np.arange(3 * count).reshape(count, 3) + 1])
    weights = np.tile([1.0, -0.5, -0.3, -0.2], (count, 1))
    r = np.einsum("ik,ikd->id", weights, x[vertices])
    gaps = np.linalg.norm(r, axis=1)
    return Pairs(x, vertices, weights, r / gaps[:, None], gaps), rng.normal(size=x.shape)


def test_pairs_that_find_all_colours_taken_are_solved_one_after_another():
    count = COLOURS + 20
    pairs, v = star(count)
    mass = np.ones(len(v))
    contacts, solver = upload(pairs), ImpulseSolver(len(v), numbers(1.0 / mass))
    solver.colour_appended(contacts)
    assert solver._colouring.offsets.numpy()[COLOURS:].tolist() == [COLOURS, count]
    after, _ = solve(pairs, mass, v, 2000)
    assert np.einsum("id,id->i", relative(pairs, after), pairs.normals).min() > -1e-6


@pytest.mark.parametrize("make", [lambda: star(COLOURS + 20), None], ids=["crowded", "random"])
def test_bytes_do_not_depend_on_threads(make, monkeypatch):
    rng = np.random.default_rng(2)
    pairs, v = make() if make else (random_pairs(rng, 900, 400), rng.normal(size=(400, 3)))
    results = []
    threads = get_threads()
    try:
        monkeypatch.setattr(cooperative, "MIN_PARALLEL_ITEMS", 0)
        for count in (1, 2, 3):
            set_threads(count)
            after, contacts = solve(pairs, np.ones(len(v)), v, 4, speeds=0.1, friction=(0.4, 0.3))
            columns = contacts.normal_impulses, contacts.tangential_impulses
            given = (column.numpy()[: contacts.count].tobytes() for column in columns)
            results.append((after.tobytes(), *given))
    finally:
        set_threads(threads)
    assert all(result == results[0] for result in results)


def test_contacts_stored_in_the_order_of_colours_give_the_same_bytes():
    rng = np.random.default_rng(6)
    pairs, mass = random_pairs(rng, 300, 100), numbers(np.ones(100))
    start, found = rng.normal(size=(100, 3)), []
    for order in (ImpulseSolver.colour_appended, ImpulseSolver.order_by_colour):
        contacts, solver, v = upload(pairs, speeds=0.1, friction=(0.4, 0.3)), ImpulseSolver(100, mass), vectors(start)
        order(solver, contacts)
        solver.sweep(contacts, v, 5)
        found.append(v.numpy())
    assert np.array_equal(*found)
    assert sorted(contacts.vertices.numpy()[:300].tolist()) == sorted(pairs.vertices.tolist())


def test_appended_contacts_are_solved_after_the_ordered_ones():
    rng = np.random.default_rng(7)
    pairs, mass = random_pairs(rng, 300, 100), numbers(np.ones(100))
    start, options = rng.normal(size=(100, 3)), {"speeds": 0.1, "friction": (0.4, 0.3)}
    first, later = (Pairs(pairs.x, *(column[part] for column in pairs[1:])) for part in (slice(200), slice(200, 300)))
    # two solvers in turn
    parts = []
    for chosen in (first, later):
        contacts, solver = upload(chosen, **options), ImpulseSolver(100, mass)
        solver.colour_appended(contacts)
        parts.append((solver, contacts))
    apart = vectors(start)
    for _ in range(5):
        for solver, contacts in parts:
            solver.sweep(contacts, apart, 1)
    # one solver that learns of the rest when some are placed
    contacts, solver, v = upload(pairs, **options), ImpulseSolver(100, mass), vectors(start)
    contacts.count = 200
    solver.order_by_colour(contacts)
    rest = upload(pairs, **options)
    for name in (
        "vertices",
        "weights",
        "normals",
        "least_speeds",
        "friction",
        "normal_impulses",
        "tangential_impulses",
    ):
        getattr(contacts, name)[200:300].assign(getattr(rest, name)[200:300])
    contacts.count = 300
    solver.colour_appended(contacts)
    solver.sweep(contacts, v, 5)
    assert np.array_equal(v.numpy(), apart.numpy())
    # or alone
    given = contacts.normal_impulses.numpy()[:200].copy()
    solver.sweep(contacts, v, 5, appended_only=True)
    solver, alone = parts[1]
    solver.sweep(alone, apart, 5)
    assert np.array_equal(v.numpy(), apart.numpy())
    assert np.array_equal(contacts.normal_impulses.numpy()[:300], [*given, *alone.normal_impulses.numpy()[:100]])


def test_no_contacts_are_no_work():
    contacts = upload(Pairs(np.zeros((4, 3)), np.zeros((0, 4), int), np.zeros((0, 4)), np.zeros((0, 3)), np.zeros(0)))
    solver = ImpulseSolver(4, numbers(np.ones(4)))
    solver.colour_appended(contacts)
    v = vectors(np.ones((4, 3)))
    solver.sweep(contacts, v, 3)
    assert (v.numpy() == 1.0).all()


def test_colours_do_not_change_where_another_stencil_comes_or_goes():
    """Each goes on as it was in the step before, whatever happens elsewhere."""
    pairs = random_pairs(np.random.default_rng(5), 400, 150)
    # a pair of its own, in the middle of the list
    apart = np.arange(len(pairs.x), len(pairs.x) + 4)
    colours = []
    for vertices in (pairs.vertices, np.insert(pairs.vertices, 200, apart, axis=0)):
        colouring = StencilColouring(len(pairs.x) + 4, numbers(np.ones(len(pairs.x) + 4)))
        colouring.colour(wp.array(vertices, dtype=wp.vec4i, device="cpu"), len(vertices))
        offsets, order = colouring.offsets.numpy(), colouring.order.numpy()[: len(vertices)]
        found = np.empty(len(vertices), int)
        found[order] = np.repeat(np.arange(COLOURS + 1), np.diff(offsets))
        colours.append(found)
    assert np.array_equal(colours[0], np.delete(colours[1], 200))


@pytest.mark.parametrize("by_dependencies", [False, True])
def test_worlds_together_have_the_colours_that_each_has_alone(by_dependencies):
    """Two worlds of 150 vertices, whose stencils are listed in turns."""
    worlds = [random_pairs(np.random.default_rng(seed), 300, 150).vertices for seed in (0, 1)]
    both = np.stack([worlds[0], worlds[1] + 150], axis=1).reshape(-1, 4)
    own = np.arange(300, dtype=np.int32) % 150

    def coloured(vertices, count, **given):
        colouring = StencilColouring(count, numbers(np.ones(count)), by_dependencies=by_dependencies, **given)
        colouring.colour(wp.array(vertices, dtype=wp.vec4i, device="cpu"), len(vertices))
        offsets, order = colouring.offsets.numpy(), colouring.order.numpy()[: len(vertices)]
        return order, np.repeat(np.arange(COLOURS + 1), np.diff(offsets))

    order, colours = coloured(both, 300, numbers=own)
    for k, alone in enumerate(worlds):
        expected, expected_colours = coloured(alone, 150)
        of_world = order % 2 == k
        assert np.array_equal(order[of_world] // 2, expected)
        assert np.array_equal(colours[of_world], expected_colours)


@pytest.mark.parametrize("count", [1, 2, 7, 62, 900, 901])
def test_dependencies_give_the_colours_of_the_serial_order(count):
    """What runs on CUDA, here on one thread: the same colours and the same order, whatever the list."""
    rng = np.random.default_rng(count)
    pairs = star(COLOURS + 20)[0] if count == 62 else random_pairs(rng, count, 150)
    if count == 901:
        # springs: two vertices, one of them named three times
        pairs.vertices[:, 2:] = pairs.vertices[:, 1:2]
    contacts = upload(pairs)
    inverse = np.where(rng.uniform(size=len(pairs.x)) < 0.2, 0.0, 1.0)
    serial, parallel = (
        StencilColouring(len(pairs.x), numbers(inverse), by_dependencies=choice) for choice in (False, True)
    )
    for colouring in (serial, parallel):
        colouring.colour(contacts.vertices, contacts.count)
    assert np.array_equal(parallel.offsets.numpy(), serial.offsets.numpy())
    assert np.array_equal(parallel.order.numpy()[: contacts.count], serial.order.numpy()[: contacts.count])


@pytest.mark.parametrize("count", [1, 62, 900])
def test_colours_of_fewer_than_a_launch_has(count):
    """What lies behind the stencils, whose number kernels read, changes nothing and is never looked at."""
    rng = np.random.default_rng(count)
    pairs = random_pairs(rng, count, 150)
    vertices = np.full((2 * count, 4), -1, np.int32)
    vertices[:count] = pairs.vertices
    listed, size = wp.array(vertices, dtype=wp.vec4i, device="cpu"), wp.array([count], dtype=int, device="cpu")
    mass = numbers(np.ones(len(pairs.x)))
    serial, parallel = (StencilColouring(len(pairs.x), mass, by_dependencies=choice) for choice in (False, True))
    serial.colour(listed, count)
    parallel.colour(listed, 2 * count, size=size)
    assert np.array_equal(parallel.offsets.numpy(), serial.offsets.numpy())
    assert np.array_equal(parallel.order.numpy()[:count], serial.order.numpy()[:count])


def test_only_as_many_contacts_are_reordered_as_there_are():
    pairs = random_pairs(np.random.default_rng(0), 40, 30)
    contacts, reordered = upload(pairs), upload(pairs)
    for array in reordered.geometry:
        array.fill_(7)
    reordered.reordered_arrays()
    order = wp.array(np.r_[np.arange(40)[::-1], np.arange(40, 60)], dtype=int, device="cpu")
    contacts.vertices.numpy()[40:60] = 0
    inputs = [contacts.size, order, numbers(np.ones(30)), contacts.arrays, reordered.arrays]
    launch(reorder_contacts, 60, inputs)
    for before, after in zip(contacts.geometry, reordered.geometry, strict=True):
        assert np.array_equal(after.numpy()[:40], before.numpy()[:40][::-1])
        assert (after.numpy()[40:60] == 7).all()


def test_the_struct_of_a_list_follows_its_arrays():
    contacts = upload(random_pairs(np.random.default_rng(0), 40, 30))
    first = contacts.arrays
    assert contacts.arrays is first and first.vertices is contacts.vertices
    other = contacts.reordered_arrays()
    contacts.take_reordered()
    assert contacts.arrays is other and other.vertices is contacts.vertices and other.gains is contacts.gains
    contacts.clear()
    assert contacts.arrays is first
    contacts.grow(1000)
    assert contacts.arrays is not first and contacts.arrays.normal_impulses is contacts.normal_impulses

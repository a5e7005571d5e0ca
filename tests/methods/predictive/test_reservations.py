"""Contacts that are too near, solved side by side: the same as one after another in the order that is said."""

import numpy as np
import pytest
import warp as wp
from structs import struct_of

from weft.methods.predictive.contacts import ASLEEP, FROZEN, TRIANGLE, StepContactArrays, solve_contacts
from weft.methods.predictive.cuda_substeps import COUNTERS, clear_reservations, solve_near
from weft.methods.predictive.state import VertexArrays
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def solve_listed(
    first: int,
    side_by_side: int,
    turn: int,
    order: wp.array[int],
    contacts: StepContactArrays,
    vertices: VertexArrays,
    masks: wp.array[int],
    arrivals: wp.array[int],
    reservations: wp.array[wp.uint64],
    counters: wp.array[int],
):
    """One item: those that are too near, or those of an order one after another."""
    t = first + wp.tid()
    one = wp.float64(1.0)
    push = wp.float64(0.01)
    if side_by_side != 0:
        clear_reservations(t, 1, reservations, counters)
        count = contacts.kinds.shape[0]
        solve_near(t, arrivals, count, turn, 0, one, push, masks, reservations, counters, contacts, vertices)
    else:
        for k in range(order.shape[0]):
            solve_contacts(order[k], order[k] + 1, 0, one, push, contacts, vertices)


def contacts_of(rng, count, vertex_count, *, shared):
    """Contacts of all kinds between vertices that are near each other, some of them held."""
    q = np.array([rng.choice(vertex_count, 4, replace=False) for _ in range(count)], np.int32)
    if not shared:
        q = rng.permutation(4 * count).reshape(count, 4).astype(np.int32)
    kinds = rng.choice([int(FROZEN), int(TRIANGLE), -int(TRIANGLE), int(ASLEEP)], count).astype(np.int32)
    s, t = rng.uniform(0.1, 0.9, (2, count))
    weights = np.stack([1.0 - s, s, t - 1.0, -t], axis=1)
    weights[kinds != int(FROZEN)] = 0.0
    normals = rng.normal(size=(count, 3))
    normals /= np.linalg.norm(normals, axis=1)[:, None]
    return q, kinds, weights, normals, rng.uniform(0.0, 0.2, count), np.tile([0.4, 0.3], (count, 1))


def solve(given, x, turn, order=None):
    names = ("vertices", "kinds", "weights", "normals", "thickness", "friction")
    count = len(given[0])
    contacts = struct_of(StepContactArrays, pushed=np.zeros(count), **dict(zip(names, given, strict=True)))
    masses = np.random.default_rng(5).choice([0.0, 1.0, 2.0], len(x), p=[0.1, 0.5, 0.4])
    rows = np.column_stack([x, masses])
    vertices = struct_of(VertexArrays, x=x, start=rows, before=rows + [0.0, 0.01, 0.0, 0.0], p=rows)
    masks = wp.array(np.full(2 * (count // 32 + 1), -1), dtype=int)
    reservations = wp.zeros(len(x), dtype=wp.uint64, device="cpu")
    between = [wp.array([0, 1], dtype=int, device="cpu"), reservations, wp.ones(COUNTERS, dtype=int, device="cpu")]
    listed = wp.array(np.zeros(1) if order is None else order, dtype=int, device="cpu")
    launch(solve_listed, 1, [int(order is None), turn, listed, contacts, vertices, masks, *between])
    return vertices.p.numpy(), contacts.pushed.numpy(), masses, masks.numpy()


def number_of(q, i, turn):
    """The hash of a contact's vertices, and its place in the list for those that have the same one."""
    value = 0
    for vertex, factor in zip(q, (1, 2654435761, 2246822507, 3266489909), strict=True):
        value = (value * factor % 2**32) ^ vertex
    value = (value * 668265263 + turn * 2654435761) * 2246822519 % 2**32
    return value >> 11, i


def expected_order(given, x, masses, near, turn):
    """Rounds in which those of the ones that would push come that have the lowest number at all their vertices."""
    order, left = [], list(near)
    while True:
        pushing = [i for i in left if solve(given, x, turn, np.array([*order, i]))[1][i]]
        reservations = {i: {v for v in given[0][i] if masses[v] > 0.0} for i in pushing}
        number = {i: number_of(given[0][i].tolist(), i, turn) for i in pushing}
        lowest = {
            v: min(number[i] for i in pushing if v in reservations[i]) for v in set().union(*reservations.values())
        }
        now = [i for i in pushing if all(lowest[v] == number[i] for v in reservations[i])]
        order += now
        left = [i for i in left if i not in now]
        # nobody has to wait
        if len(now) == len(pushing):
            return order


@pytest.mark.parametrize("turn", [0, 7])
def test_those_that_share_nothing_are_as_if_solved_in_turn(turn):
    rng = np.random.default_rng(turn)
    count = 100
    given, x = contacts_of(rng, count, 4 * count, shared=False), rng.normal(scale=0.1, size=(4 * count, 3))
    found, pushed, *_ = solve(given, x, turn)
    expected, same, *_ = solve(given, x, turn, np.arange(count))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(pushed, same)
    assert 10 < pushed.sum() < count


@pytest.mark.parametrize("seed", range(3))
def test_those_that_share_vertices_come_in_the_order_of_their_numbers(seed):
    rng = np.random.default_rng(seed)
    count, vertex_count = 60, 40
    given, x = contacts_of(rng, count, vertex_count, shared=True), rng.normal(scale=0.1, size=(vertex_count, 3))
    found, pushed, masses, masks = solve(given, x, seed)
    # who has pushed is noted no more
    near = [i for i in range(count) if pushed[i] or int(masks[i // 32]) >> (i % 32) & 1]
    order = expected_order(given, x, masses, near, seed)
    expected, *_ = solve(given, x, seed, np.array(order))
    np.testing.assert_array_equal(found, expected)
    assert 10 < pushed.sum() == len(order) <= len(near)

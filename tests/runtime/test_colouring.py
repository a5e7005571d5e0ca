"""Colours against plain loops: all items once, none of a colour share a vertex, greedily few."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.mesh import shapes
from weft.runtime.colouring import MASK_BITS, colour_items


def greedy(items):
    """The first colour that is free at all vertices, by sets."""
    colours, at = [], {}
    for row in items:
        touched = [v for v in row if v >= 0]
        taken = set().union(*(at.get(v, set()) for v in touched))
        colour = next(c for c in range(len(items) + 1) if c not in taken)
        colours.append(colour)
        for v in touched:
            at.setdefault(v, set()).add(colour)
    return colours


def check_valid(items, result):
    """Every item is there once, and no two of a colour share a vertex that counts."""
    order, offsets = result
    assert sorted(order.tolist()) == list(range(len(items)))
    assert offsets[0] == 0 and offsets[-1] == len(items)
    assert (np.diff(offsets) > 0).all()
    for start, stop in pairwise(offsets):
        seen = set()
        for item in order[start:stop]:
            touched = {int(v) for v in items[item] if v >= 0}
            assert not touched & seen, f"item {item} shares a vertex with another of its colour"
            seen |= touched


@st.composite
def constraints(draw):
    vertices = draw(st.integers(1, 12))
    width = draw(st.integers(1, 4))
    row = st.lists(st.integers(-1, vertices - 1), min_size=width, max_size=width)
    rows = draw(st.lists(row, max_size=40))
    return np.array(rows, np.int32).reshape(-1, width), vertices


@settings(max_examples=150, deadline=None)
@given(constraints())
def test_against_loops(drawn):
    items, vertices = drawn
    result = colour_items(items, vertices)
    check_valid(items, result)
    expected = greedy(items.tolist())
    assert len(result.offsets) - 1 == (max(expected) + 1 if expected else 0)
    colours = np.repeat(np.arange(len(result.offsets) - 1), np.diff(result.offsets))
    assert [colours[list(result.order).index(i)] for i in range(len(items))] == expected


@pytest.mark.parametrize("count", [MASK_BITS - 1, MASK_BITS, MASK_BITS + 1, 3 * MASK_BITS + 5])
def test_more_colours_than_a_mask_can_tell_apart(count):
    # a hub: every item has vertex 0, so each needs a colour of its own
    items = np.array([[0, i] for i in range(1, count + 1)], np.int32)
    result = colour_items(items, count + 1)
    check_valid(items, result)
    assert len(result.offsets) - 1 == count


def test_hubs_among_ordinary_items():
    # two hubs of more than 62 items each, joined, and a grid's edges over the same vertices
    edges = shapes.grid((1.0, 1.0), (15, 15)).edges
    hubs = [[hub, v] for hub in (0, 200) for v in range(1, 180)]
    items = np.concatenate([edges, np.array(hubs, np.int32), edges[::-1]])
    result = colour_items(items, 256)
    check_valid(items, result)
    colours = np.repeat(np.arange(len(result.offsets) - 1), np.diff(result.offsets))
    by_item = np.empty(len(items), int)
    by_item[result.order] = colours
    assert by_item.tolist() == greedy(items.tolist())


def test_edges_of_a_grid_need_few():
    mesh = shapes.grid((1.0, 1.0), (30, 30))
    result = colour_items(mesh.edges, len(mesh.vertices))
    check_valid(mesh.edges, result)
    # an interior vertex of alternating diagonals has at most 8 edges; greedy needs at most 2 * 8 - 1
    assert 8 <= len(result.offsets) - 1 <= 15


def test_nothing_and_things_that_touch_nothing():
    assert colour_items(np.zeros((0, 2), np.int32), 5).offsets.tolist() == [0]
    free = np.full((4, 3), -1, np.int32)
    assert colour_items(free, 5).offsets.tolist() == [0, 4]
    # a row may name a vertex twice
    assert colour_items(np.array([[1, 1], [1, 2]], np.int32), 3).offsets.tolist() == [0, 1, 2]


def test_items_of_a_colour_keep_their_order():
    items = np.array([[0, 1], [2, 3], [1, 2], [4, 5], [3, 4]], np.int32)
    result = colour_items(items, 6)
    for start, stop in pairwise(result.offsets):
        assert (np.diff(result.order[start:stop]) > 0).all()

"""The order of constraints for blocks that own a partition of the vertices each."""

from itertools import pairwise

import numpy as np
import pytest

from weft.mesh import shapes
from weft.methods.predictive.fabric import make_partitions, order_by_partition

BLOCKS = 16


def pieces(order, stage):
    """The items of each colour of each block in a stage."""
    begin = 0 if stage == 0 else BLOCKS * order.colours[0] + 1
    starts = order.starts[begin : begin + BLOCKS * order.colours[stage] + 1]
    found = [order.order[a:b] for a, b in pairwise(starts)]
    return [found[block * order.colours[stage] :][: order.colours[stage]] for block in range(BLOCKS)]


def items_of(kind):
    edges = shapes.grid((1.0, 1.0), (39, 39)).edges
    if kind == "grid":
        return edges, 1600
    rng = np.random.default_rng(1)
    if kind == "shuffled":
        return rng.permutation(1600)[edges], 1600
    # some of these reach across the whole sheet
    return np.concatenate([edges, rng.integers(0, 1600, (30, 2))]), 1600


@pytest.mark.parametrize("most", [1000, 30])
@pytest.mark.parametrize("kind", ["grid", "shuffled", "tied"])
def test_each_item_is_done_once_by_whom_it_may(kind, most):
    items, count = items_of(kind)
    items = items[items[:, 0] != items[:, 1]]
    partitions = make_partitions([items], count, BLOCKS)
    np.testing.assert_array_equal(np.sort(partitions.vertices), np.arange(count))
    found = order_by_partition(items, partitions, most=most)
    rank = partitions.rank
    sizes = []
    for stage, shift in ((0, 0), (1, partitions.size // 2)):
        for block, colours in enumerate(pieces(found, stage)):
            for colour in colours:
                vertices = items[colour].ravel()
                assert len(set(vertices)) == len(vertices)
                # nobody else has these in this stage
                assert ((rank[vertices] - shift) // partitions.size == block).all()
                sizes.append(len(colour))
    for begin, end in pairwise(found.far):
        vertices = items[found.order[begin:end]].ravel()
        assert len(set(vertices)) == len(vertices) > 0
    np.testing.assert_array_equal(np.sort(found.order), np.arange(len(items)))
    assert found.far[-1] == len(items)
    left = len(items) - found.far[0]
    assert left <= {"grid": 0, "shuffled": 700, "tied": 30}[kind]
    # where colours hang together too much, some stay larger
    assert max(sizes) <= most if kind == "grid" else max(sizes) < 1.5 * most


def test_numbers_that_are_near_each_other_stay():
    items, count = items_of("grid")
    np.testing.assert_array_equal(make_partitions([items], count, BLOCKS).vertices, np.arange(count))


def test_there_may_be_nothing():
    none = np.zeros((0, 4), np.int32)
    found = order_by_partition(none, make_partitions([none], 100, BLOCKS), most=10)
    assert len(found.order) == 0 and found.colours == (0, 0) and found.far.tolist() == [0]

"""The order of constraints for blocks that hold a part of the vertices each."""

from itertools import pairwise

import numpy as np
import pytest

from weft.mesh import shapes
from weft.world.part_order import order_in_parts
from weft.world.together import CLUSTER


def pieces(order, stage):
    """The items of each colour of each block in a stage."""
    begin = 0 if stage == 0 else CLUSTER * order.colours[0] + 1
    starts = order.starts[begin : begin + CLUSTER * order.colours[stage] + 1]
    found = [order.order[a:b] for a, b in pairwise(starts)]
    return [found[block * order.colours[stage] :][: order.colours[stage]] for block in range(CLUSTER)]


def items_of(kind):
    edges = shapes.grid((1.0, 1.0), (39, 39)).edges
    if kind == "grid":
        return edges, 1600
    # many of these reach across several parts
    return np.random.default_rng(1).permutation(1600)[edges], 1600


@pytest.mark.parametrize("kind", ["grid", "shuffled"])
def test_each_item_is_done_once_by_whom_it_may(kind):
    items, count = items_of(kind)
    found = order_in_parts(items, count)
    part = -(-count // CLUSTER)
    for stage, shift in ((0, 0), (1, part // 2)):
        for block, colours in enumerate(pieces(found, stage)):
            for colour in colours:
                vertices = items[colour].ravel()
                assert len(set(vertices)) == len(vertices)
                # nobody else has these in this stage
                assert ((vertices - shift) // part == block).all()
    for begin, end in pairwise(found.far):
        vertices = items[found.order[begin:end]].ravel()
        assert len(set(vertices)) == len(vertices) > 0
    np.testing.assert_array_equal(np.sort(found.order), np.arange(len(items)))
    assert found.far[-1] == len(items)
    assert (found.far[0] == len(items)) == (kind == "grid")


def test_there_may_be_nothing():
    found = order_in_parts(np.zeros((0, 4), np.int32), 100)
    assert len(found.order) == 0 and found.colours == (0, 0) and found.far.tolist() == [0]

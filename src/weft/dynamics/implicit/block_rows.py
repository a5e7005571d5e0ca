"""Where the 3x3 blocks of a matrix over vertices lie: rows sorted by patch, fixed once for a mesh.

Rows are vertices, sorted by patch (see `aggregates`), so that a patch is a range of rows. Every pair of vertices that some
element joins has a block in either of its two rows, and every row has one on the diagonal.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.implicit.aggregates import aggregate


class CornerPairs(NamedTuple):
    """Two corners of an element, lower vertex first."""

    low: np.ndarray
    high: np.ndarray
    element: np.ndarray
    corners: np.ndarray
    """(k, 2): which corners of the element they are"""


class BlockRows:
    """The rows of a matrix and the blocks in them (device arrays)."""

    def __init__(self, joined: np.ndarray, links: np.ndarray, vertex_count: int, device: wp.DeviceLike) -> None:
        """Blocks at the joined pairs of vertices (k, 2), in either order and as often as they like; patches grow over links."""
        self.device = device
        count = self.count = vertex_count

        def upload(values: np.ndarray) -> wp.array:
            return wp.array(values, dtype=int, device=device)

        joined = joined.astype(np.int64)
        self.aggregates = aggregate(links, joined, count)

        # rows in the order of their patches
        label = self.aggregates.label
        order = np.argsort(label, kind="stable").astype(np.int32)
        row_of = np.empty(count, np.int32)
        row_of[order] = np.arange(count)
        self.order = upload(order)
        self.row_of = upload(row_of)
        self.patches = upload(np.concatenate([[0], np.cumsum(np.bincount(label, minlength=self.aggregates.count))]))
        self.patch_of = upload(label[order])

        # pairs sorted by rows; a block at either place of a pair, and one a row on the diagonal
        ends = row_of[joined].astype(np.int64)
        keys, self.pair_of = np.unique(ends.min(axis=1) * count + ends.max(axis=1), return_inverse=True)
        pairs = self.pair_count = len(keys)
        turned = np.zeros(pairs, bool)
        turned[self.pair_of] = ends[:, 0] > ends[:, 1]
        low, high = np.where(turned, keys % count, keys // count), np.where(turned, keys // count, keys % count)
        own = np.arange(count, dtype=np.int32)
        rows, columns = np.concatenate([low, high, own]), np.concatenate([high, low, own])
        sorted_entries = np.lexsort((columns, rows))
        place = np.empty(len(rows), np.int32)
        place[sorted_entries] = np.arange(len(rows))
        self.places = wp.array(
            np.column_stack([place[:pairs], place[pairs : 2 * pairs]]), dtype=wp.vec2i, device=device
        )
        self.diagonal = upload(place[2 * pairs :])
        self.offsets = upload(np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]))
        self.rows = upload(rows[sorted_entries])
        self.columns = upload(columns[sorted_entries])
        self.blocks = wp.zeros(len(rows), dtype=wp.mat33d, device=device)


def corner_pairs(vertices: np.ndarray, weights: np.ndarray | None = None) -> CornerPairs:
    """All pairs of corners of elements (k, width); pairs of one vertex are left out, and corners without weight."""
    count, width = vertices.shape
    one, two = np.triu_indices(width, 1)
    a, b = vertices[:, one].ravel(), vertices[:, two].ravel()
    keep = a != b
    if weights is not None:
        keep &= (weights[:, one] * weights[:, two] != 0.0).ravel()
    element = np.repeat(np.arange(count), len(one))
    one, two = np.tile(one, count), np.tile(two, count)
    swap = a > b
    corners = np.column_stack([np.where(swap, two, one), np.where(swap, one, two)])
    return CornerPairs(np.minimum(a, b)[keep], np.maximum(a, b)[keep], element[keep], corners[keep])

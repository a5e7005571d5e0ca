"""Incidence lists: which items touch a vertex, sorted, so that sums are gathered in one fixed order."""

import numpy as np


def incidence(items: np.ndarray, vertex_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Offsets and entries of the lists; entry = item * width + corner, for items (n, width) of vertex indices."""
    flat = items.reshape(-1)
    order = np.argsort(flat, kind="stable").astype(np.int32)
    counts = np.bincount(flat, minlength=vertex_count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return offsets, order

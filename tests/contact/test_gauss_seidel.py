"""The mask of the contacts that a sweep must solve, against NumPy."""

import numpy as np
import pytest
import warp as wp

from weft.contact.gauss_seidel import BATCH, contacts_below, contacts_below_or_given
from weft.runtime import launch

VERTICES = 40


@wp.kernel
def find_masks(
    first: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    limits: wp.array[wp.float64],
    values: wp.array[wp.vec4d],
    given: wp.array[wp.float64],
    masks: wp.array[wp.uint64],
):
    i = first + wp.tid()
    masks[2 * i] = contacts_below(3, count, vertices, weights, normals, limits, values)
    masks[2 * i + 1] = contacts_below_or_given(3, count, vertices, weights, normals, limits, values, given)


@pytest.mark.parametrize("count", [0, 1, 7, 8, 63, BATCH])
def test_bits_are_set_for_contacts_below_their_limit(count):
    rng = np.random.default_rng(count)
    total = count + 5
    q = rng.integers(0, VERTICES, (total, 4), dtype=np.int32)
    w, n, x = rng.normal(size=(total, 4)), rng.normal(size=(total, 3)), rng.normal(size=(VERTICES, 4))
    limits = rng.normal(size=total)
    given = np.where(rng.random(total) < 0.3, rng.random(total), 0.0)
    masks = wp.zeros(2, dtype=wp.uint64, device="cpu")
    kinds = (wp.vec4i, wp.vec4d, wp.vec3d, wp.float64, wp.vec4d, wp.float64)
    arrays = [wp.array(a, dtype=t, device="cpu") for a, t in zip((q, w, n, limits, x, given), kinds, strict=True)]
    launch(find_masks, 1, [count, *arrays, masks], device="cpu")
    below = np.einsum("ik,ikd,id->i", w, x[q, :3], n) < limits
    chosen = slice(3, 3 + count)
    found = [[bool(int(mask) >> k & 1) for k in range(BATCH)] for mask in masks.numpy()]
    for bits, truth in zip(found, (below, below | (given != 0.0)), strict=True):
        assert bits[:count] == truth[chosen].tolist()
        assert not any(bits[count:])
    assert count < 8 or 0 < sum(found[0]) < count

"""Springs as constraints."""

import numpy as np
import pytest
import warp as wp
from structs import struct_of

from weft.methods.predictive.fabric import FabricArrays, largest_stretch, stretch_pairs
from weft.methods.predictive.state import VertexArrays
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def stretch_all(first: int, fabric: FabricArrays, vertices: VertexArrays):
    i = first + wp.tid()
    stretch_pairs(i, i + 1, 0, 1, wp.float64(100.0), fabric, vertices)


@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.01])
def test_springs_are_solved_as_xpbd_says(delay):
    rng = np.random.default_rng(0)
    count, per_h = 23, 100.0
    pairs = rng.permutation(2 * count).reshape(-1, 2)
    x = rng.normal(size=(2 * count, 3))
    inverse = rng.choice([0.0, 1.0, 5.0], (2 * count, 1))
    # one spring has no length, another no mass
    x[pairs[5, 0]] = x[pairs[5, 1]]
    inverse[pairs[9]] = 0.0
    springs = np.column_stack([rng.uniform(0.1, 2.0, count), rng.uniform(0, 1e-4, count), np.full(count, delay)])
    was = np.hstack([x + 0.1 * rng.normal(size=x.shape), inverse])
    p = wp.array(np.hstack([x, inverse]), dtype=wp.vec4d)
    fabric = struct_of(FabricArrays, pairs=pairs, pair_springs=springs, pair_pull=np.zeros(count))
    launch(stretch_all, count, [fabric, struct_of(VertexArrays, before=was, p=p)])
    # the multiplier of C = |x1 - x0| - rest, with compliance and Rayleigh damping, where that is not left out
    d, w = x[pairs[:, 1]] - x[pairs[:, 0]], inverse[pairs, 0].sum(axis=1)
    length = np.linalg.norm(d, axis=1)
    n = d / np.maximum(length, 1e-300)[:, None]
    moved = ((d - was[pairs[:, 1], :3] + was[pairs[:, 0], :3]) * n).sum(axis=1)
    gamma = delay * per_h if delay * per_h > 0.1 else 0.0
    push = (length - springs[:, 0] + gamma * moved) / np.maximum((1.0 + gamma) * w + springs[:, 1] * per_h**2, 1e-300)
    push[[5, 9]] = 0.0
    expected = x.copy()
    expected[pairs[:, 0]] += inverse[pairs[:, 0]] * push[:, None] * n
    expected[pairs[:, 1]] -= inverse[pairs[:, 1]] * push[:, None] * n
    np.testing.assert_allclose(p.numpy()[:, :3], expected, atol=1e-12)
    np.testing.assert_array_equal(p.numpy()[:, 3], inverse[:, 0])
    assert np.abs(expected - x).max() > 0.1


@wp.kernel
def measure(
    first: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    found: wp.array[wp.float64],
):
    i = first + wp.tid()
    found[i] = largest_stretch(0, pairs.shape[0], pairs, springs, x)


def test_the_largest_stretch_is_that_of_the_longest_spring():
    rng = np.random.default_rng(0)
    pairs = rng.integers(0, 20, (50, 2))
    x, rest = rng.normal(size=(20, 3)), rng.uniform(0.1, 1.0, 50)
    springs = np.column_stack([rest, np.zeros((50, 2))])
    found = wp.zeros(1, dtype=wp.float64)
    arrays = [wp.array(pairs, dtype=wp.vec2i), wp.array(springs, dtype=wp.vec3d), wp.array(x, dtype=wp.vec3d)]
    launch(measure, 1, [*arrays, found])
    lengths = np.linalg.norm(x[pairs[:, 0]] - x[pairs[:, 1]], axis=1)
    assert found.numpy()[0] == pytest.approx((lengths / rest).max() - 1.0)

"""Springs that are solved four at once, and one by one."""

import numpy as np
import pytest
import warp as wp
from structs import struct_of

from weft.methods.predictive.fabric import FabricArrays, largest_stretch, prepare_pair, stretch_pairs
from weft.methods.predictive.state import VertexArrays, hinge_interval, hinge_softness
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def stretch_all(first: int, together: int, fabric: FabricArrays, vertices: VertexArrays):
    begin = first + wp.tid()
    count = fabric.pairs.shape[0]
    step = wp.where(together != 0, count, 1)
    for i in range(begin, count, step):
        for k in range(i, i + step):
            prepare_pair(k, wp.float64(100.0), fabric, vertices.inverse_mass)
        stretch_pairs(i, i + step, 0, 1, wp.float64(100.0), fabric, vertices)


@pytest.mark.parametrize("delay", [0.0, 0.0005, 0.01])
def test_four_springs_at_once_are_as_four_springs(delay):
    rng = np.random.default_rng(0)
    count = 23
    pairs = rng.permutation(2 * count).reshape(-1, 2)
    x = rng.normal(size=(2 * count, 3))
    inverse = rng.choice([0.0, 1.0, 5.0], (2 * count, 1))
    # one spring has no length, another no mass
    x[pairs[5, 0]] = x[pairs[5, 1]]
    inverse[pairs[9]] = 0.0
    springs = np.column_stack([rng.uniform(0.1, 2.0, count), rng.uniform(0, 1e-4, count), np.full(count, delay)])
    springs[::3, 2] = 0.0
    was = np.hstack([x + 0.1 * rng.normal(size=x.shape), inverse])
    found = []
    for together in (0, 1):
        p = wp.array(np.hstack([x, inverse]), dtype=wp.vec4d)
        moves, pull = np.zeros((3, count + 4)), np.zeros(count)
        fabric = struct_of(FabricArrays, pairs=pairs, pair_springs=springs, pair_moves=moves, pair_pull=pull)
        launch(stretch_all, 1, [together, fabric, struct_of(VertexArrays, inverse_mass=inverse[:, 0], before=was, p=p)])
        found.append(p.numpy())
    assert np.abs(found[0][:, :3] - x).max() > 0.1
    np.testing.assert_allclose(found[1], found[0], atol=1e-13)
    np.testing.assert_array_equal(found[1][:, 3], inverse[:, 0])
    np.testing.assert_array_equal(found[1][pairs[[5, 9]], :3], x[pairs[[5, 9]]])


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


@wp.kernel
def tell_hinges(first: int, prediction: int, intervals: wp.array[int], softness: wp.array[wp.float64]):
    i = first + wp.tid()
    intervals[i] = hinge_interval(i + 1, prediction)
    softness[i] = hinge_softness(i + 1, prediction, wp.float64(100.0))


@pytest.mark.parametrize("prediction", [False, True])
def test_hinges_have_so_many_sweeps_and_pull_for_all_substeps(prediction):
    count = 70
    intervals, softness = wp.zeros(count, dtype=int), wp.zeros(count, dtype=wp.float64)
    launch(tell_hinges, count, [int(prediction), intervals, softness])
    for substeps, interval, soft in zip(range(1, count + 1), intervals.numpy(), softness.numpy(), strict=True):
        assert interval == (max(1, substeps // 2) if prediction else -(-substeps // 8))
        sweeps = len(range(0, substeps, interval))
        assert soft == pytest.approx(1e4 * sweeps / substeps)
        assert min(substeps, 2) <= sweeps <= 3 if prediction else min(substeps, 5) <= sweeps <= 8

"""The quick look at which vertices come near a collider misses none that the full look finds."""

import numpy as np
import pytest
import warp as wp

from weft.methods.predictive.collider_shapes import (
    BOX,
    CAPSULE,
    PLANE,
    SPHERE,
    ColliderArrays,
    Shape,
    place_shape,
    touch_shape,
)
from weft.methods.predictive.half_spaces import PADDING, spots_in_reach, write_spot
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def look(
    first: int,
    shapes: wp.array[Shape],
    start: wp.mat44d,
    end: wp.mat44d,
    x: wp.array[wp.vec3d],
    ways: wp.array[wp.vec3d],
    reach: wp.float64,
    none: ColliderArrays,
    spots: wp.array2d[wp.float32],
    quick: wp.array[wp.uint64],
    full: wp.array[int],
):
    i = first + wp.tid()
    count = x.shape[0]
    for k in range(count):
        write_spot(k, x[k], ways[k], reach, spots)
    shape = place_shape(shapes[i], start, end)
    quick[i] = spots_in_reach(shape, spots, 0, count)
    for k in range(count):
        full[k] = touch_shape(shape, x[k], ways[k], reach, none).found


def pose(rng, angle):
    axis = rng.normal(size=3)
    axis /= np.linalg.norm(axis)
    k = np.cross(np.eye(3), axis)
    found = np.eye(4)
    found[:3, :3] = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k
    found[:3, 3] = rng.normal(size=3)
    return found


@pytest.mark.parametrize("far_away", [0.0, 50.0])
@pytest.mark.parametrize("kind", [SPHERE, CAPSULE, BOX, PLANE])
def test_nothing_in_reach_is_missed(kind, far_away):
    rng = np.random.default_rng(int(kind))
    missed = looked = found = 0
    for _ in range(30):
        shape = Shape()
        shape.kind = int(kind)
        size = {int(SPHERE): (0.3, 0, 0), int(CAPSULE): (0.2, 0.5, 0), int(BOX): (0.3, 0.2, 0.4), int(PLANE): (0, 0, 0)}
        shape.size = wp.vec3d(*size[int(kind)])
        shape.bound = -1.0 if kind == PLANE else 0.8
        start = pose(rng, rng.uniform(-2, 2))
        start[:3, 3] += far_away
        end = start @ pose(rng, rng.uniform(-0.5, 0.5))
        x = start[:3, 3] + rng.normal(size=(49, 3))
        ways = 0.5 * rng.normal(size=x.shape)
        quick, full = wp.zeros(1, dtype=wp.uint64), wp.zeros(len(x), dtype=int)
        spots = wp.zeros((7, len(x) + PADDING), dtype=wp.float32)
        vectors = [wp.array(a, dtype=wp.vec3d) for a in (x, ways)]
        shapes = wp.array([shape], dtype=Shape)
        launch(
            look, 1, [shapes, wp.mat44d(start), wp.mat44d(end), *vectors, 0.05, ColliderArrays(), spots, quick, full]
        )
        bits = (int(quick.numpy()[0]) >> np.arange(len(x)).astype(object)) & 1
        missed += int(((bits == 0) & (full.numpy() == 1)).sum())
        looked += int(bits.sum())
        found += int(full.numpy().sum())
    assert missed == 0
    assert found > 50
    # it is of use: exact for round things and planes, a ball about boxes
    assert looked < len(x) * 30 and (kind == BOX or looked <= found + 3)

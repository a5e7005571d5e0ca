"""Collider planes: whatever moves how, a triangle of cloth that starts apart from a collider's stays apart on the way."""

import numpy as np
import pytest
import warp as wp
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.geometry.intersection import intersection_finder
from weft.methods.boxes.collider_planes import ColliderPlanes
from weft.world import World

PAIRS = wp.array([(a, b) for a in (0, 1) for b in (2, 3)], dtype=wp.vec2i, device="cpu")


def two_squares():
    """A square of cloth and one of a collider, two triangles each; a thickness of 1 mm."""
    cloth = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(1, 1)))
    return World(
        weft.Scene(thickness=1e-3, cloths=[cloth], colliders=[weft.Collider(shape=weft.Plane(size=(1.0, 1.0)))])
    )


WORLD = two_squares()
FINDER = intersection_finder(WORLD)


def device(x):
    return wp.array(x, dtype=wp.vec3d, device="cpu")


def into_half_spaces(spaces, x):
    """Positions of the cloth in all of their half-spaces, by many projections."""
    offsets, normal, bound = spaces.offsets.numpy(), spaces.normal.numpy(), spaces.bound.numpy()
    for _ in range(2000):
        for i in range(len(offsets) - 1):
            for k in range(offsets[i], offsets[i + 1]):
                x[i] += max(bound[k] - normal[k] @ x[i], 0.0) * normal[k]
    return x


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 100_000), speed=st.sampled_from([0.01, 0.3, 3.0]), moving=st.booleans())
def test_cloth_that_starts_apart_stays_apart(seed, speed, moving):
    rng = np.random.default_rng(seed)
    start = WORLD.rest_positions + rng.normal(scale=0.2, size=(8, 3)) + np.repeat([[0, 0.3, 0], [0, 0, 0]], 4, axis=0)
    if len(FINDER.find(start)):
        return
    wanted = start + speed * rng.normal(size=(8, 3))
    # a collider that moves as one body; a deforming one can close on the cloth
    wanted[4:] = start[4:] + (speed * rng.normal(size=3) if moving else 0.0)
    planes, end = ColliderPlanes(WORLD), wanted.copy()
    for run in range(20):
        if run == 8:
            planes.reset()
        touching = planes.update(PAIRS, device(start), device(end), still=run >= 8)
        if touching.pairs == 0 or (run >= 8 and touching.new == 0):
            break
        end[:4] = into_half_spaces(planes.half_spaces(), wanted[:4].copy())
    assert touching.pairs == 0
    for t in np.linspace(0.0, 1.0, 41):
        assert len(FINDER.find((1.0 - t) * start + t * end)) == 0


def above(height, tilt_deg=35.0):
    """The square of cloth parallel to that of the collider, on a slope."""
    x = WORLD.rest_positions.copy()
    x[:4, 1] += height
    turn = np.radians(tilt_deg)
    return x @ np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])


def test_cloth_on_a_slope_comes_down_to_the_thickness_and_may_slide():
    start, normal = above(0.003), above(1.0)[0] - above(0.0)[0]
    along = np.array([normal[1], -normal[0], 0.0])
    end = start.copy()
    end[:4] += 0.2 * along - 0.01 * normal
    planes = ColliderPlanes(WORLD)
    assert planes.update(PAIRS, device(start), device(end), still=False).pairs > 0
    moved = into_half_spaces(planes.half_spaces(), end[:4].copy()) - start[:4]
    assert moved @ along == pytest.approx(0.2) and moved @ normal == pytest.approx(-0.002)


def test_cloth_that_starts_inside_goes_no_deeper():
    start = above(0.0005, 0.0)
    start[:4] += (0.1, 0.0, 0.07)
    start[0, 1] = -0.0007
    planes, deeper = ColliderPlanes(WORLD), start.copy()
    deeper[:4, 1] -= 0.1
    assert planes.update(PAIRS, device(start), device(start), still=False).pairs == 0
    assert planes.update(PAIRS, device(start), device(deeper), still=False).pairs > 0
    end = into_half_spaces(planes.half_spaces(), deeper[:4].copy())
    assert (end[:, 1] >= start[:4, 1] - 1e-12).all()


def test_anchors_move_with_the_place_of_the_collider_below():
    start = above(0.0015, 0.0)
    end = start.copy()
    # the collider turns about one of its corners, and the cloth falls
    x, z = end[4:, 0] - end[4, 0], end[4:, 2] - end[4, 2]
    end[4:, 0], end[4:, 2] = end[4, 0] + 0.8 * x + 0.6 * z, end[4, 2] + 0.8 * z - 0.6 * x
    end[:4, 1] -= 0.01
    planes = ColliderPlanes(WORLD)
    planes.update(PAIRS, device(start), device(end), still=False)
    spaces = planes.half_spaces()
    vertex = np.repeat(np.arange(4), np.diff(spaces.offsets.numpy()))
    expected = start[:4] + end[4:] - start[4:]
    assert np.abs(spaces.anchor.numpy() - expected[vertex]).max() < 1e-9


def test_the_order_of_pairs_does_not_matter():
    start = above(0.003)
    end = start.copy()
    end[:4, 1] -= 0.05
    found = []
    for order in ((0, 1, 2, 3), (3, 1, 0, 2)):
        planes = ColliderPlanes(WORLD)
        pairs = wp.array(PAIRS.numpy()[list(order)], dtype=wp.vec2i, device="cpu")
        planes.update(pairs, device(start), device(end), still=False)
        spaces = planes.half_spaces()
        found.append(
            b"".join(getattr(spaces, name).numpy().tobytes() for name in ("offsets", "normal", "bound", "anchor"))
        )
    assert found[0] == found[1]

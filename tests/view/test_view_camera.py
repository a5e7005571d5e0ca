"""The camera: everything in the picture, nothing wasted, and the scene's word first."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from view_caches import waving

from weft.errors import WeftError
from weft.view.camera import FILL, View, choose_view, fit_view, ground_of, subject_points, view_axes


def project(view, points, aspect):
    """Picture coordinates: -1..1 in both directions is inside; and the depth."""
    right, up, ahead = view.axes
    q = points - view.position
    depth = q @ ahead
    half = np.tan(np.radians(view.fov_deg) / 2)
    return (q @ right) / (depth * half * aspect), (q @ up) / (depth * half), depth


clouds = st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed).normal(size=(40, 3)))


@settings(deadline=None)
@given(clouds, st.floats(0.5, 2.5), st.floats(0.01, 50.0), st.floats(-5.0, 5.0))
def test_all_points_are_in_the_picture_and_some_reach_its_margin(points, aspect, scale, shift):
    points = points * scale * [1.0, 0.3, 2.0] + shift
    view = fit_view(points, aspect=aspect)
    x, y, depth = project(view, points, aspect)
    assert (depth > 0.0).all()
    reach = max(np.abs(x).max(), np.abs(y).max())
    assert reach <= FILL + 1e-9
    assert reach > 0.97 * FILL


@settings(deadline=None)
@given(st.tuples(*[st.floats(-1.0, 1.0)] * 3).filter(lambda v: np.linalg.norm(v) > 0.1))
def test_axes_are_a_right_handed_frame_with_y_up(forward):
    right, up, ahead = view_axes(forward)
    frame = np.array([right, up, -ahead])
    np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-9)
    assert np.linalg.det(frame) == pytest.approx(1.0)
    assert right[1] == pytest.approx(0.0, abs=1e-5)
    assert up[1] >= -1e-5


def test_looking_straight_down_works():
    view = fit_view(np.random.default_rng(1).normal(size=(9, 3)), aspect=1.0, forward=(0.0, -1.0, 0.0))
    assert np.isfinite(view.position).all()


def test_the_automatic_camera_sees_the_cloth_of_all_frames():
    cache = waving(frames=5)
    view = choose_view(cache, aspect=4 / 3)
    for frame in range(5):
        x, y, _ = project(view, cache.positions(frame)[cache.bodies[0].vertices], 4 / 3)
        assert max(np.abs(x).max(), np.abs(y).max()) <= 1.0


def camera(**given):
    return SimpleNamespace(**{"position": None, "target": None, "fov_deg": 40.0, **given})


def test_the_scene_places_the_camera_and_a_given_one_comes_before_it():
    cache = waving(scene=SimpleNamespace(camera=camera(position=(1.0, 2.0, 3.0), target=(0.0, 0.0, 0.0))))
    view = choose_view(cache, aspect=1.0)
    np.testing.assert_array_equal(view.position, [1.0, 2.0, 3.0])
    assert view.fov_deg == 40.0
    other = choose_view(cache, aspect=1.0, camera=camera(position=(5.0, 0.0, 0.0), target=(0.0, 1.0, 0.0)))
    np.testing.assert_array_equal(other.position, [5.0, 0.0, 0.0])
    exact = View(np.ones(3), np.zeros(3))
    assert choose_view(cache, aspect=1.0, camera=exact) is exact


def test_what_the_scene_leaves_open_is_chosen():
    cache = waving()
    points = subject_points(cache)
    middle = (points.min(axis=0) + points.max(axis=0)) / 2
    placed = choose_view(cache, aspect=1.0, camera=camera(position=(4.0, 1.0, 0.0)))
    np.testing.assert_allclose(placed.target, middle)
    aimed = choose_view(cache, aspect=1.0, camera=camera(target=(0.0, 9.0, 0.0)))
    np.testing.assert_array_equal(aimed.target, [0.0, 9.0, 0.0])
    assert np.linalg.norm(aimed.position - aimed.target) > 1.0


def test_a_camera_that_looks_nowhere_is_refused():
    with pytest.raises(WeftError, match="position and target are the same point"):
        choose_view(waving(), aspect=1.0, camera=camera(position=(0.0, 0.0, 0.0), target=(0.0, 0.0, 0.0)))


def test_positions_that_are_not_finite_are_refused():
    cache = waving()
    cache.xs[1][3, 0] = np.nan
    with pytest.raises(WeftError, match="not finite"):
        subject_points(cache)


def test_the_ground_is_an_endless_or_wide_plane_of_the_scene():
    cache = waving(ground=True)
    assert ground_of(cache, 1.0).name == "floor"
    narrow = SimpleNamespace(**{**vars(cache.scene.colliders[0]), "analytic": False})
    cache.scene.colliders = (narrow,)
    assert ground_of(cache, 1.0).name == "floor"
    assert ground_of(cache, 100.0) is None
    cache.scene = None
    assert ground_of(cache, 1.0) is None


def test_a_wide_floor_does_not_widen_the_picture():
    near = choose_view(waving(), aspect=1.0)
    far = choose_view(waving(ground=True), aspect=1.0)
    np.testing.assert_allclose(near.position, far.position)

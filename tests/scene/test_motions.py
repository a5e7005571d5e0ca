"""Motions against independent formulas, and their smoothness."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import PchipInterpolator
from scipy.spatial.transform import Rotation, Slerp

import weft
from weft.scene import rotation

angles = st.floats(-720, 720)
triples = st.tuples(angles, angles, angles)
POINTS = np.array([(0.3, -0.2, 0.9), (1.0, 2.0, 3.0), (-4.0, 0.5, 0.0)])
fast = settings(max_examples=50, deadline=None)


@fast
@given(triples)
def test_angles_turn_about_the_worlds_x_then_y_then_z(degrees):
    expected = Rotation.from_euler("xyz", degrees, degrees=True).as_matrix()
    np.testing.assert_allclose(rotation.euler_matrix(degrees), expected, atol=1e-12)
    np.testing.assert_allclose(rotation.matrix_of(rotation.euler_quaternion(degrees)), expected, atol=1e-12)
    # and back: other angles perhaps, of the same rotation
    np.testing.assert_allclose(rotation.euler_matrix(rotation.euler_angles(expected)), expected, atol=1e-7)


def test_quarter_turns_are_exact():
    for quarters in range(-5, 9):
        turned = rotation.euler_matrix((90.0 * quarters, 0, 0))
        assert set(np.abs(turned).ravel()) == {0.0, 1.0}
        np.testing.assert_allclose(
            turned, Rotation.from_euler("x", 90.0 * quarters, degrees=True).as_matrix(), atol=1e-14
        )


@fast
@given(triples)
def test_logarithm_undoes_exponential(vector):
    vector = np.array(vector) * (3.0 / max(720.0, 1e-9)) / 2.0
    np.testing.assert_allclose(rotation.logarithm(rotation.exponential(vector)), vector, atol=1e-12)


@fast
@given(triples, triples, st.floats(0.1, 5))
def test_placement_scales_then_rotates_then_moves(position, degrees, scale):
    place = weft.Placement(position=position, rotation_deg=degrees, scale=(scale, 1, 2))
    expected = Rotation.from_euler("xyz", degrees, degrees=True).apply(POINTS * (scale, 1, 2)) + position
    matrix = place.matrix()
    np.testing.assert_allclose(POINTS @ matrix[:3, :3].T + matrix[:3, 3], expected, atol=1e-9)


def test_still_things_stay():
    moving = weft.Still().resolve()
    assert moving.still
    assert moving.rigid
    np.testing.assert_array_equal(moving.positions(POINTS, 3.0), POINTS)
    np.testing.assert_array_equal(moving.matrix(3.0), np.eye(4))
    assert weft.Spin(rate_deg=0).resolve().still
    assert not weft.Spin().resolve().still


def test_positions_are_never_the_rest_positions_themselves():
    for motion in (weft.Still(), weft.Spin(), weft.Path(keyframes=[weft.Keyframe(time=0)])):
        given_back = motion.resolve().positions(POINTS, 0.0)
        assert not np.shares_memory(given_back, POINTS)


def test_spin_turns_about_its_axis_between_start_and_stop():
    spin = weft.Spin(axis=(1, 2, 3), rate_deg=40, centre=(0.1, 0.2, 0.3), start=1, stop=3)
    moving = spin.resolve(placement=weft.Placement(position=(9, 9, 9)))
    axis = np.array([1, 2, 3]) / np.sqrt(14)
    for time, angle in ((0.0, 0.0), (1.0, 0.0), (2.5, 60.0), (3.0, 80.0), (99.0, 80.0)):
        turn = Rotation.from_rotvec(np.radians(angle) * axis)
        expected = turn.apply(POINTS - spin.centre) + spin.centre
        np.testing.assert_allclose(moving.positions(POINTS, time), expected, atol=1e-12)
        matrix = moving.matrix(time)
        np.testing.assert_allclose(POINTS @ matrix[:3, :3].T + matrix[:3, 3], expected, atol=1e-12)


def test_spin_goes_by_the_right_hand_and_about_the_placement():
    moving = weft.Spin(axis=(0, 5, 0), rate_deg=90).resolve(placement=weft.Placement(position=(1, 0, 0)))
    np.testing.assert_allclose(moving.positions(np.array([[2.0, 0, 0]]), 1.0), [[1, 0, -1]], atol=1e-15)


def random_path(seed, interpolation, count=5):
    random = np.random.default_rng(seed)
    times = np.cumsum(random.uniform(0.2, 1.5, count))
    frames = [
        weft.Keyframe(time=t, position=random.normal(size=3), rotation_deg=random.uniform(-80, 80, 3)) for t in times
    ]
    return weft.Path(keyframes=frames, interpolation=interpolation)


def pose(frame, centre):
    turn = Rotation.from_euler("xyz", frame.rotation_deg, degrees=True)
    return turn.apply(POINTS - centre) + centre + frame.position


@pytest.mark.parametrize("interpolation", ["linear", "smooth"])
@pytest.mark.parametrize("seed", range(4))
def test_paths_meet_their_keyframes_and_hold_the_ends(interpolation, seed):
    path = random_path(seed, interpolation)
    centre = np.array([0.5, -1.0, 2.0])
    moving = path.resolve(placement=weft.Placement(position=centre))
    for frame in path.keyframes:
        np.testing.assert_allclose(moving.positions(POINTS, frame.time), pose(frame, centre), atol=1e-12)
    for time, frame in ((-5.0, path.keyframes[0]), (100.0, path.keyframes[-1])):
        np.testing.assert_allclose(moving.positions(POINTS, time), pose(frame, centre), atol=1e-12)
    # always rigid
    for time in np.linspace(0, 6, 31):
        turn = moving.matrix(time)[:3, :3]
        np.testing.assert_allclose(turn @ turn.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(turn) > 0


@pytest.mark.parametrize("seed", range(4))
def test_linear_paths_go_straight_and_turn_steadily(seed):
    path = random_path(seed, "linear")
    moving = path.resolve()
    times = [f.time for f in path.keyframes]
    turns = Slerp(times, Rotation.from_euler("xyz", [f.rotation_deg for f in path.keyframes], degrees=True))
    shifts = np.array([f.position for f in path.keyframes])
    for time in np.linspace(times[0], times[-1], 37):
        matrix = moving.matrix(time)
        np.testing.assert_allclose(matrix[:3, :3], turns(time).as_matrix(), atol=1e-12)
        np.testing.assert_allclose(matrix[:3, 3], [np.interp(time, times, s) for s in shifts.T], atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_smooth_paths_have_no_jump_in_velocity(seed):
    path = random_path(seed, "smooth")
    moving = path.resolve()
    h = 1e-6
    for i, frame in enumerate(path.keyframes):
        here = moving.positions(POINTS, frame.time)
        before = (here - moving.positions(POINTS, frame.time - h)) / h
        after = (moving.positions(POINTS, frame.time + h) - here) / h
        np.testing.assert_allclose(before, after, atol=1e-3)
        if i in (0, len(path.keyframes) - 1):
            np.testing.assert_allclose(after, 0.0, atol=1e-3)
    # linear paths do jump: the test can fail
    sharp = path.replace(interpolation="linear").resolve()
    middle = path.keyframes[2].time
    jump = (
        sharp.positions(POINTS, middle + h) - 2 * sharp.positions(POINTS, middle) + sharp.positions(POINTS, middle - h)
    )
    assert np.abs(jump / h).max() > 0.1


@pytest.mark.parametrize("seed", range(6))
def test_smooth_paths_do_not_overshoot(seed):
    path = random_path(seed, "smooth", count=7)
    moving = path.resolve()
    for a, b in zip(path.keyframes, path.keyframes[1:], strict=False):
        shifts = np.array([moving.matrix(t)[:3, 3] for t in np.linspace(a.time, b.time, 41)])
        low, high = np.minimum(a.position, b.position), np.maximum(a.position, b.position)
        assert np.all(shifts >= low - 1e-12)
        assert np.all(shifts <= high + 1e-12)


def test_smooth_paths_are_those_of_fritsch_and_butland_between_inner_keyframes():
    for seed in range(4):
        path = random_path(seed, "smooth", count=7)
        moving, times = path.resolve(), [f.time for f in path.keyframes]
        expected = PchipInterpolator(times, [f.position for f in path.keyframes])
        for time in np.linspace(times[1], times[-2], 41):
            np.testing.assert_allclose(moving.matrix(time)[:3, 3], expected(time), atol=1e-12)


def test_smooth_turns_about_one_axis_go_one_way():
    degrees = [0, 20, 110, 110, 60]
    path = weft.Path(
        keyframes=[weft.Keyframe(time=t, rotation_deg=(0, 0, d)) for t, d in enumerate(degrees)], interpolation="smooth"
    )
    moving = path.resolve()
    for i, (a, b) in enumerate(itertools.pairwise(degrees)):
        turns = [
            Rotation.from_matrix(moving.matrix(t)[:3, :3]).as_rotvec(degrees=True) for t in np.linspace(i, i + 1, 21)
        ]
        np.testing.assert_allclose(np.array(turns)[:, :2], 0.0, atol=1e-10)
        steps = np.diff(np.array(turns)[:, 2]) * np.sign(b - a)
        assert np.all(steps >= -1e-9) if a != b else np.allclose(steps, 0.0)


def test_turns_take_the_shorter_way():
    path = weft.Path(keyframes=[weft.Keyframe(time=0), weft.Keyframe(time=1, rotation_deg=(0, 270, 0))])
    halfway = Rotation.from_matrix(path.resolve().matrix(0.5)[:3, :3])
    np.testing.assert_allclose(halfway.as_rotvec(degrees=True), (0, -45, 0), atol=1e-12)


def test_a_path_of_one_keyframe_is_a_pose():
    path = weft.Path(keyframes=[weft.Keyframe(time=1, position=(1, 0, 0))], interpolation="smooth")
    for time in (0.0, 1.0, 2.0):
        np.testing.assert_allclose(path.resolve().positions(POINTS, time), POINTS + (1, 0, 0))


@pytest.fixture
def samples(tmp_path):
    vertices = np.random.default_rng(1).normal(size=(4, 5, 3)).astype(np.float32)
    np.savez(tmp_path / "s.npz", vertices=vertices, other=vertices + 1)
    return vertices.astype(np.float64)


def test_sequences_are_linear_between_samples_and_held_outside(tmp_path, samples):
    moving = weft.Sequence(file="s.npz", fps=10, start=0.5).resolve(
        base=tmp_path, placement=weft.Placement(position=(1, 2, 3), scale=2)
    )
    assert not moving.rigid
    assert not moving.still
    rest = np.zeros((5, 3))
    for time, expected in (
        (0.0, samples[0]),
        (0.5, samples[0]),
        (0.625, 0.75 * samples[1] + 0.25 * samples[2]),
        (0.8, samples[3]),
        (9.0, samples[3]),
    ):
        np.testing.assert_allclose(moving.positions(rest, time), 2 * expected + (1, 2, 3), atol=1e-12)
    other = weft.Sequence(file="s.npz", fps=10, array="other").resolve(base=tmp_path)
    np.testing.assert_allclose(other.positions(rest, 0.0), samples[0] + 1, atol=1e-6)


def test_sequences_keep_only_the_samples_they_need(tmp_path, samples):
    moving = weft.Sequence(file="s.npz", fps=1).resolve(base=tmp_path)
    reads = []
    read = moving.sequence.vertices
    moving.sequence.vertices = lambda i: reads.append(i) or read(i)
    for time in (0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 1.9, 2.5, 7.0, 8.0):
        moving.positions(np.zeros((5, 3)), time)
    assert reads == [0, 1, 2, 3]
    assert len(moving._samples) <= 2
    # going back is allowed
    np.testing.assert_allclose(moving.positions(np.zeros((5, 3)), 0.0), samples[0])

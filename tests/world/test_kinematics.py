"""Kinematics: who is prescribed when, and where they go."""

import numpy as np
import pytest

from weft.world.kinematics import TIME_SLACK, Kinematics, Prescription


def moving(vertices, velocity, until=np.inf):
    """Vertices that start at x = their number and move on at a constant velocity."""
    start = np.array([[float(v), 0.0, 0.0] for v in vertices])
    return Prescription(np.array(vertices), lambda t: start + t * np.array(velocity), False, until)


def still(vertices, until=np.inf, calls=None):
    place = np.array([[0.0, float(v), 0.0] for v in vertices])

    def at(time):
        if calls is not None:
            calls.append(time)
        return place

    return Prescription(np.array(vertices), at, True, until)


def test_nobody_is_prescribed():
    none = Kinematics([])
    assert none.phase(0.0) == none.phase(1e9) == 0
    assert not none.moving and not none.fixed(3, 0.0).any()
    x = np.ones((3, 3))
    none.place(x, 0.0, 1.0)
    assert (x == 1.0).all()


def test_phases_count_releases():
    kinematics = Kinematics([still([0], 1.0), still([1], 2.0), still([2], 1.0), still([3])])
    # two of them let go together, one never does
    assert [kinematics.phase(t) for t in (0.0, 0.999, 1.0, 1.5, 2.0, 1e6)] == [0, 0, 1, 1, 2, 2]
    assert kinematics.phase(1.0 - 0.5 * TIME_SLACK) == 1 and kinematics.phase(1.0 - 2.0 * TIME_SLACK) == 0
    assert kinematics.fixed(5, 0.0).tolist() == [True, True, True, True, False]
    assert kinematics.fixed(5, 1.0).tolist() == [False, True, False, True, False]
    assert kinematics.fixed(5, 2.0).tolist() == [False, False, False, True, False]


def test_what_is_fixed_changes_only_with_the_phase():
    rng = np.random.default_rng(0)
    releases = np.append(rng.uniform(0.0, 3.0, 20), np.inf)
    kinematics = Kinematics([still([i], until) for i, until in enumerate(releases)])
    by_phase = {}
    for time in np.sort(np.concatenate([rng.uniform(0.0, 3.0, 300), releases[:-1]])):
        mask = kinematics.fixed(21, time).tolist()
        assert by_phase.setdefault(kinematics.phase(time), mask) == mask
    assert len(by_phase) == 21


def test_times_that_were_added_up_count_as_released():
    # 0.1 added ten times is a little less than 1
    time = float(np.cumsum(np.full(10, 0.1))[-1])
    assert time < 1.0 and 1.0 - time < TIME_SLACK
    kinematics = Kinematics([still([0], 1.0)])
    assert kinematics.phase(time) == 1 and not kinematics.fixed(1, time)[0]


def test_place_writes_prescribed_vertices_and_no_others():
    kinematics = Kinematics([moving([2, 0], (0.0, 1.0, 0.0))])
    x = np.full((4, 3), -9.0)
    kinematics.place(x, 0.5, 0.75)
    assert x.tolist() == [[0.0, 0.75, 0.0], [-9.0] * 3, [2.0, 0.75, 0.0], [-9.0] * 3]
    assert kinematics.moving


def test_a_motion_ends_where_its_pin_lets_go():
    kinematics = Kinematics([moving([0], (1.0, 0.0, 0.0), until=0.6)])
    x = np.zeros((1, 3))
    # held at the start of the step, let go within it: not carried beyond
    kinematics.place(x, 0.5, 1.0)
    assert x[0, 0] == pytest.approx(0.6)
    x[:] = -9.0
    kinematics.place(x, 0.6, 1.1)
    assert (x == -9.0).all()


def test_the_later_prescription_of_a_vertex_wins_while_it_holds():
    kinematics = Kinematics([moving([0], (1.0, 0.0, 0.0)), moving([0], (0.0, 0.0, 5.0), until=1.0)])
    x = np.zeros((1, 3))
    kinematics.place(x, 0.0, 0.5)
    assert x[0].tolist() == [0.0, 0.0, 2.5]
    kinematics.place(x, 1.0, 1.5)
    assert x[0].tolist() == [1.5, 0.0, 0.0]
    assert kinematics.fixed(1, 1.0)[0]


def test_still_places_are_asked_for_once():
    calls = []
    kinematics = Kinematics([still([0, 1], calls=calls)])
    x = np.zeros((2, 3))
    for time in (0.0, 0.1, 0.2):
        kinematics.place(x, time, time + 0.1)
    assert len(calls) == 1 and not kinematics.moving
    assert x.tolist() == [[0.0, 0.0, 0.0], [0.0, 1.0, 0.0]]


def test_poses_asked_for_early_are_found_once_and_are_those_of_their_time():
    asked = []

    def pose(time):
        asked.append(time)
        return np.eye(4) * (1.0 + time)

    turning = Prescription(np.array([0]), lambda t: np.zeros((1, 3)), False, 0.5, pose)
    kinematics = Kinematics([turning, still([1])])
    early = kinematics.poses(0.1, 0.2)
    assert kinematics.poses(0.1, 0.2) == early == [(np.eye(4) * 1.2).tobytes(), b""] and asked == [0.2]
    # another end, another start; and what is let go on the way goes no farther
    assert kinematics.poses(0.1, 0.3) != early
    assert kinematics.poses(0.4, 0.6)[0] == (np.eye(4) * 1.5).tobytes()
    assert kinematics.poses(0.5, 0.6) == [b""]
    # what has no pose tells nothing
    assert Kinematics([moving([0], (1.0, 0.0, 0.0))]).poses(0.0, 1.0) is None

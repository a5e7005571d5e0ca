"""The clock over frames: play, pause, scrub, speed, loop, follow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.view.timeline import Player


def test_playing_advances_with_the_clock_and_the_speed():
    player = Player(frames=100, fps=24.0, speed=0.5)
    player.play()
    assert player.tick(10.0) == 0
    assert player.tick(11.0) == 12
    assert player.tick(11.5) == 18
    player.pause()
    assert player.tick(20.0) == 18


def test_a_pause_does_not_count_as_time():
    player = Player(frames=100, fps=10.0)
    player.play()
    player.tick(0.0)
    player.tick(1.0)
    player.pause()
    player.tick(2.0)
    player.play()
    player.tick(50.0)
    assert player.tick(50.5) == 15


def test_looping_starts_again_and_not_looping_stays_at_the_end():
    player = Player(frames=10, fps=10.0, loop=True)
    player.play()
    player.tick(0.0)
    assert player.tick(1.25) == 2
    assert player.playing
    player = Player(frames=10, fps=10.0, loop=False)
    player.play()
    player.tick(0.0)
    assert player.tick(1.25) == 9
    assert not player.playing
    player.play()
    assert player.frame == 0


def test_following_shows_the_newest_frame_until_someone_goes_back():
    player = Player(frames=3, fps=10.0, follow=True)
    player.grow(8)
    assert player.frame == 7
    player.seek(7)
    assert player.follow
    player.seek(2)
    assert not player.follow
    player.grow(20)
    assert player.frame == 2


def test_a_cache_that_starts_anew_is_not_left_behind():
    player = Player(frames=50, fps=10.0)
    player.seek(49)
    player.grow(4)
    assert player.frame == 3


ops = st.one_of(
    st.just(("play", None)),
    st.just(("pause", None)),
    st.tuples(st.just("seek"), st.integers(-5, 60)),
    st.tuples(st.just("grow"), st.integers(0, 50)),
    st.tuples(st.just("tick"), st.floats(0.0, 30.0)),
)


@given(st.lists(ops, max_size=40), st.booleans(), st.booleans(), st.sampled_from([0.1, 1.0, 4.0]))
def test_whatever_happens_the_frame_exists(steps, loop, follow, speed):
    player = Player(frames=5, fps=30.0, loop=loop, follow=follow, speed=speed)
    now = 0.0
    for name, value in steps:
        if name == "tick":
            now += value
            player.tick(now)
        elif value is None:
            getattr(player, name)()
        else:
            getattr(player, name)(value)
        assert 0 <= player.frame < max(player.frames, 1)


@given(st.integers(0, 9), st.floats(0.0, 100.0))
def test_a_stopped_player_never_moves(frame, later):
    player = Player(frames=10, fps=30.0)
    player.seek(frame)
    player.tick(0.0)
    assert player.tick(later) == frame
    assert player.position == pytest.approx(frame)

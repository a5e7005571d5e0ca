"""The rigid motions of a scene, of colliders, pins and goals, evaluated by one kernel for `weft.Realtime`.

`weft.scene.motion` evaluates a path in Python in 40 microseconds, which would add 0.8 ms to the 0.6 ms of a step of the
character among the examples, and 0.5 ms to the 0.3 ms of the skirt. Here all keyframes lie in one table, and a step is one
launch. A segment of a smooth path is the cubic of `weft.scene.motion`; one of a linear path, and a spin, is a rotation at a
constant rate.
"""

# mypy: disable-error-code="arg-type,return-value"

from typing import Any

import numpy as np
import warp as wp

from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.guides import Goals
from weft.runtime import launch
from weft.runtime.buffers import HostMirror
from weft.scene import Path, Spin, Still, rotation
from weft.scene.motion import MotionModel
from weft.scene.placement import Placement
from weft.scene.resolved_motion import keyframe_rates
from weft.world import World
from weft.world.kinematics import TIME_SLACK

wp.set_module_options({"enable_backward": False})

ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THREE = wp.constant(wp.float64(3.0))
# a release at the very start of a step counts as done
SLACK = wp.constant(wp.float64(TIME_SLACK))


@wp.struct
class Segment:
    """The motion from one keyframe to the next."""

    start: wp.float64
    per_gap: wp.float64
    """1 / its duration"""
    straight: int
    shift: wp.vec3d
    shift_end: wp.vec3d
    leave: wp.vec3d
    """displacement over the segment at the velocity of its start, and at that of its end"""
    arrive: wp.vec3d
    turn: wp.quatd
    """rotation at the start"""
    first: wp.vec3d
    """rotation vectors of the cumulative cubic; of a straight one the first is all of it"""
    middle: wp.vec3d
    last: wp.vec3d


@wp.struct
class Mover:
    """A collider, pins or goals that move rigidly: its segments, and the times between which it moves."""

    first_segment: int
    segments: int
    begin: wp.float64
    end: wp.float64
    centre: wp.vec3d
    collider: int
    """its number, or -1 for vertices"""
    goal: int
    """1 where the vertices are goals"""
    frame: wp.mat44d
    """the collider's own frame, placed"""
    until: wp.float64
    """when the pin lets go"""
    first_vertex: int
    """in the list of vertices, which for goals are the goals' numbers"""
    vertices: int


@wp.func
def turn_by(vector: wp.vec3d) -> wp.quatd:
    """The rotation about a vector by its length."""
    return wp.quat_from_axis_angle(wp.normalize(vector), wp.length(vector))


@wp.func
def transform_at(m: Mover, time: wp.float64, segments: wp.array[Segment]) -> wp.transformd:
    """From where a mover's vertices are placed to where they are at a time."""
    at = wp.clamp(time, m.begin, m.end)
    # the last segment that starts at or before the time, by bisection
    low = m.first_segment
    high = m.first_segment + m.segments
    while high - low > 1:
        middle = (low + high) // 2
        if segments[middle].start <= at:
            low = middle
        else:
            high = middle
    s = segments[low]
    u = (at - s.start) * s.per_gap
    turn = s.turn * turn_by(u * s.first)
    shift = (ONE - u) * s.shift + u * s.shift_end
    if s.straight == 0:
        rest = ONE - u
        blend = u * u * (THREE - TWO * u)
        turn = s.turn * turn_by((ONE - rest * rest * rest) * s.first) * turn_by(blend * s.middle)
        turn = turn * turn_by(u * u * u * s.last)
        shift = (ONE - blend) * s.shift + blend * s.shift_end + u * rest * (rest * s.leave - u * s.arrive)
    turn = wp.normalize(turn)
    return wp.transformd(m.centre - wp.quat_rotate(turn, m.centre) + shift, turn)


@wp.kernel
def follow_movers(
    first: int,
    count: int,
    now: wp.array[wp.vec2d],
    movers: wp.array[Mover],
    segments: wp.array[Segment],
    vertices: wp.array[int],
    placed: wp.array[wp.vec3d],
    goal_starts: wp.array[wp.vec3d],
    goal_ends: wp.array[wp.vec3d],
    poses: wp.array[wp.mat44d],
    target: wp.array[wp.vec3d],
):
    """Poses of colliders and targets of pins at the end of a step, goals at both: one item.

    Of two pins that hold a vertex the later one counts.
    """
    time = now[first + wp.tid()]
    for k in range(count):
        m = movers[k]
        if m.until > time[0] + SLACK:
            end = transform_at(m, wp.min(time[1], m.until), segments)
            begin = transform_at(m, time[0], segments)
            if m.collider >= 0:
                poses[m.collider] = wp.transform_to_matrix(end) * m.frame
            for i in range(m.first_vertex, m.first_vertex + m.vertices):
                if m.goal != 0:
                    goal_starts[vertices[i]] = wp.transform_point(begin, placed[i])
                    goal_ends[vertices[i]] = wp.transform_point(end, placed[i])
                else:
                    target[vertices[i]] = wp.transform_point(end, placed[i])


class Motions:
    """All rigid motions of a world; `rest` are the moving pins that are not rigid, which the caller moves."""

    def __init__(self, world: World, colliders: Colliders, goals: Goals) -> None:
        scene, self.device = world.scene, world.device
        self._movers: list[Any] = []
        self._segments: list[Any] = []
        self._vertices, self._placed = [np.zeros(0, np.int32)], [np.zeros((0, 3))]
        pins = [(pin.motion, cloth.placement) for cloth in scene.cloths for pin in cloth.pins]
        self.rest = []
        for (motion, placement), p in zip(pins, world.kinematics.prescriptions, strict=False):
            if not p.still and isinstance(motion, Path | Spin):
                mover = self._add(motion, placement, p.vertices, world.start_positions[p.vertices])
                mover.until = p.until
            elif not p.still:
                self.rest.append(p)
        for k, collider in enumerate(scene.colliders):
            if isinstance(collider.motion, Path | Spin):
                mover = self._add(collider.motion, collider.placement)
                mover.collider = k
                mover.frame = wp.mat44d(colliders.frames[k])
        self.goals_too = all(isinstance(group.motion, Path | Spin | Still) for group in goals.groups)
        """whether all goals are moved here; else the caller moves all of them"""
        for group in goals.groups:
            if self.goals_too and not isinstance(group.motion, Still):
                self._add(group.motion, group.placement, group.numbers, group.placed).goal = 1

        def upload(values: Any, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        now = wp.zeros(1, dtype=wp.vec2d, device=self.device)
        self._clock = HostMirror(now)
        tables = upload(self._movers, Mover), upload(self._segments, Segment)
        vertices = upload(np.concatenate(self._vertices).astype(np.int32), int)
        placed = upload(np.concatenate(self._placed), wp.vec3d)
        self._given = (len(self._movers), now, *tables, vertices, placed, goals.starts, goals.ends)
        self._inputs: tuple[Any, ...] = ()

    def follow(self, start: float, end: float, poses: wp.array, target: wp.array) -> None:
        """Write the poses of colliders, the targets of pins and the goals of a step from `start` to `end`."""
        if not self._movers:
            return
        self._clock.values[0] = start, end
        self._clock.copy_to_device()
        if not self._inputs or self._inputs[-1] is not target or self._inputs[-2] is not poses:
            self._inputs = (*self._given, poses, target)
        launch(follow_movers, 1, self._inputs, device=self.device)

    def _add(
        self,
        motion: MotionModel,
        placement: Placement,
        vertices: np.ndarray | None = None,
        placed: np.ndarray | None = None,
    ) -> Any:
        """A mover for something with this placement, and the vertices that it moves."""
        mover: Any = Mover()
        mover.first_segment = len(self._segments)
        mover.collider, mover.until = -1, np.inf
        centre = placement.position
        if isinstance(motion, Spin):
            centre = motion.centre or centre
            mover.begin, mover.end = motion.start, np.inf if motion.stop is None else motion.stop
            axis = np.array(motion.axis) / np.linalg.norm(motion.axis)
            self._segments.append(_segment(motion.start, 1.0, first=axis * np.radians(motion.rate_deg)))
        elif isinstance(motion, Path):
            mover.begin, mover.end = motion.keyframes[0].time, motion.keyframes[-1].time
            self._segments.extend(_path_segments(motion))
        mover.segments = len(self._segments) - mover.first_segment
        mover.centre = wp.vec3d(*centre)
        if vertices is not None and placed is not None:
            mover.first_vertex, mover.vertices = sum(map(len, self._vertices)), len(vertices)
            self._vertices.append(vertices)
            self._placed.append(placed)
        self._movers.append(mover)
        return mover


def _segment(start: float, gap: float, turn: Any = (1.0, 0.0, 0.0, 0.0), **vectors: Any) -> Any:
    """A straight segment without motion, but for what is given; `turn` is a quaternion (w, x, y, z)."""
    segment: Any = Segment()
    segment.start, segment.per_gap, segment.straight = start, 1.0 / gap, 1
    segment.turn = wp.quatd(*turn[1:], turn[0])
    for name, value in vectors.items():
        setattr(segment, name, wp.vec3d(*value))
    return segment


def _path_segments(path: Path) -> list[Any]:
    """The segments of a path."""
    times = np.array([k.time for k in path.keyframes])
    shifts = np.array([k.position for k in path.keyframes])
    turns = rotation.euler_quaternion([k.rotation_deg for k in path.keyframes])
    if len(times) == 1:
        return [_segment(times[0], 1.0, shift=shifts[0], shift_end=shifts[0], turn=turns[0])]
    steps = rotation.logarithm(rotation.product(rotation.inverse(turns[:-1]), turns[1:]))
    gaps = np.diff(times)[:, None]
    shift_rates = keyframe_rates(np.diff(shifts, axis=0) / gaps, gaps)
    turn_rates = keyframe_rates(steps / gaps, gaps)
    segments = []
    for i, gap in enumerate(gaps[:, 0]):
        segment = _segment(times[i], gap, shift=shifts[i], shift_end=shifts[i + 1], turn=turns[i], first=steps[i])
        if path.interpolation == "smooth":
            segment.straight = 0
            first, last = gap * turn_rates[i] / 3.0, gap * turn_rates[i + 1] / 3.0
            leave, arrive = (rotation.inverse(rotation.exponential(v)) for v in (first, last))
            middle = rotation.product(
                rotation.product(leave, rotation.inverse(turns[i])), rotation.product(turns[i + 1], arrive)
            )
            segment.first, segment.middle = wp.vec3d(*first), wp.vec3d(*rotation.logarithm(middle))
            segment.last = wp.vec3d(*last)
            segment.leave, segment.arrive = wp.vec3d(*(gap * shift_rates[i])), wp.vec3d(*(gap * shift_rates[i + 1]))
        segments.append(segment)
    return segments

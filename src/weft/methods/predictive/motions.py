"""The rigid motions of a scene, of colliders, pins and what cloth follows, in one kernel.

A caller that steps a scene in real time has no time to ask each motion in Python: a path with rotations takes 50
microseconds there. Here all keyframes lie in one table, and a step is one launch. A segment of a path is the cubic of
`weft.scene.motion`; a straight one, and a spin, is a rotation at a constant rate.
"""

# mypy: disable-error-code="arg-type"

from itertools import pairwise
from typing import Any

import numpy as np
import warp as wp

from weft.methods.predictive.colliders import Colliders
from weft.methods.predictive.guides import Goals
from weft.runtime import launch
from weft.runtime.readback import HostMirror
from weft.scene import Path, Spin, Still, rotation
from weft.scene.motion import MotionModel, keyframe_rates
from weft.scene.placement import Placement
from weft.world import World
from weft.world.kinematics import TIME_SLACK

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
THREE = wp.constant(wp.float64(3.0))
HALF = wp.constant(wp.float64(0.5))
# a release at the very start of a step counts as done
SLACK = wp.constant(wp.float64(TIME_SLACK))


@wp.struct
class Segment:
    """The way from one keyframe to the next."""

    start: wp.float64
    per_gap: wp.float64
    """1 / its duration"""
    straight: int
    shift: wp.vec3d
    shift_end: wp.vec3d
    leave: wp.vec3d
    """change of the shift over the segment at the rate at its start, and at its end"""
    arrive: wp.vec3d
    turn: wp.vec4d
    """unit quaternion at the start (w, x, y, z)"""
    first: wp.vec3d
    """rotation vectors of the cumulative cubic; of a straight one the first is all of it"""
    middle: wp.vec3d
    last: wp.vec3d


@wp.struct
class Carrier:
    """A body or a pin that moves rigidly: its segments, and the times between which it moves."""

    first_segment: int
    segments: int
    begin: wp.float64
    end: wp.float64
    centre: wp.vec3d
    collider: int
    """its number, or -1 for vertices"""
    goal: int
    """1 where the vertices only follow it"""
    frame: wp.mat44d
    """the collider's own frame, placed"""
    until: wp.float64
    """when the pin lets go"""
    first_vertex: int
    """in the list of vertices, which for goals are the goals' numbers"""
    vertices: int


@wp.struct
class Pose:
    """A rotation, then a translation."""

    turn: wp.mat33d
    shift: wp.vec3d


@wp.func
def quaternion_of(vector: wp.vec3d) -> wp.vec4d:
    """The rotation about a vector by its length."""
    half = HALF * wp.length(vector)
    share = HALF
    if half > ZERO:
        share = HALF * wp.sin(half) / half
    return wp.vec4d(wp.cos(half), share * vector[0], share * vector[1], share * vector[2])


@wp.func
def then(p: wp.vec4d, q: wp.vec4d) -> wp.vec4d:
    """The product of two quaternions: the rotation q, then p."""
    a = wp.vec3d(p[1], p[2], p[3])
    b = wp.vec3d(q[1], q[2], q[3])
    v = p[0] * b + q[0] * a + wp.cross(a, b)
    return wp.vec4d(p[0] * q[0] - wp.dot(a, b), v[0], v[1], v[2])


@wp.func
def rotation_matrix(given: wp.vec4d) -> wp.mat33d:
    q = wp.normalize(given)
    w = q[0]
    x = q[1]
    y = q[2]
    z = q[3]
    return wp.mat33d(
        ONE - TWO * (y * y + z * z), TWO * (x * y - w * z), TWO * (x * z + w * y),
        TWO * (x * y + w * z), ONE - TWO * (x * x + z * z), TWO * (y * z - w * x),
        TWO * (x * z - w * y), TWO * (y * z + w * x), ONE - TWO * (x * x + y * y),
    )  # fmt: skip


@wp.func
def turn_in(s: Segment, u: wp.float64) -> wp.vec4d:
    """The rotation at a part of a segment."""
    if s.straight != 0:
        return then(s.turn, quaternion_of(u * s.first))
    rest = ONE - u
    turned = then(s.turn, quaternion_of((ONE - rest * rest * rest) * s.first))
    turned = then(turned, quaternion_of(u * u * (THREE - TWO * u) * s.middle))
    return then(turned, quaternion_of(u * u * u * s.last))


@wp.func
def shift_in(s: Segment, u: wp.float64) -> wp.vec3d:
    """The translation at a part of a segment."""
    if s.straight != 0:
        return (ONE - u) * s.shift + u * s.shift_end
    blend = u * u * (THREE - TWO * u)
    rest = u * (ONE - u)
    return (ONE - blend) * s.shift + blend * s.shift_end + rest * ((ONE - u) * s.leave - u * s.arrive)


@wp.func
def segment_at(c: Carrier, time: wp.float64, segments: wp.array[Segment]) -> int:
    """The last segment that starts at or before a time, by halving."""
    low = c.first_segment
    high = c.first_segment + c.segments
    while high - low > 1:
        middle = (low + high) // 2
        if segments[middle].start <= time:
            low = middle
        else:
            high = middle
    return low


@wp.func
def pose_at(c: Carrier, time: wp.float64, segments: wp.array[Segment]) -> Pose:
    """What a carrier does to what it carries, by a time."""
    at = wp.clamp(time, c.begin, c.end)
    s = segments[segment_at(c, at, segments)]
    u = (at - s.start) * s.per_gap
    pose = Pose()
    pose.turn = rotation_matrix(turn_in(s, u))
    pose.shift = c.centre - pose.turn * c.centre + shift_in(s, u)
    return pose


@wp.kernel
def follow_carriers(
    first: int,
    count: int,
    now: wp.array[wp.vec2d],
    carriers: wp.array[Carrier],
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
        c = carriers[k]
        if c.until <= time[0] + SLACK:
            continue
        pose = pose_at(c, wp.min(time[1], c.until), segments)
        turn = pose.turn
        shift = pose.shift
        if c.collider >= 0:
            m = wp.mat44d(
                turn[0, 0], turn[0, 1], turn[0, 2], shift[0],
                turn[1, 0], turn[1, 1], turn[1, 2], shift[1],
                turn[2, 0], turn[2, 1], turn[2, 2], shift[2],
                ZERO, ZERO, ZERO, ONE,
            )  # fmt: skip
            poses[c.collider] = m * c.frame
        if c.goal != 0:
            begin = pose_at(c, time[0], segments)
            for i in range(c.first_vertex, c.first_vertex + c.vertices):
                goal_starts[vertices[i]] = begin.turn * placed[i] + begin.shift
                goal_ends[vertices[i]] = turn * placed[i] + shift
        else:
            for i in range(c.first_vertex, c.first_vertex + c.vertices):
                target[vertices[i]] = turn * placed[i] + shift


class Motions:
    """All rigid motions of a world; `rest` are the moving pins that are not rigid, for the caller to follow."""

    def __init__(self, world: World, colliders: Colliders, goals: Goals) -> None:
        scene, self.device = world.scene, world.device
        self._carriers: list[Any] = []
        self._segments: list[Any] = []
        self._vertices, self._placed = [np.zeros(0, np.int32)], [np.zeros((0, 3))]
        pins = [(pin.motion, cloth.placement) for cloth in scene.cloths for pin in cloth.pins]
        self.rest = []
        for (motion, placement), p in zip(pins, world.kinematics.prescriptions, strict=False):
            if p.still:
                continue
            if not isinstance(motion, Path | Spin):
                self.rest.append(p)
                continue
            carrier = self._add(motion, placement)
            carrier.until = p.until
            self._carry(carrier, p.vertices, world.rest_positions[p.vertices])
        for k, collider in enumerate(scene.colliders):
            if isinstance(collider.motion, Path | Spin):
                carrier = self._add(collider.motion, collider.placement)
                carrier.collider = k
                carrier.frame = wp.mat44d(colliders.frames[k])
        # goals that a motion of another kind leads are asked one by one, and so are all of them then
        self.goals_too = all(isinstance(part.motion, Path | Spin | Still) for part in goals.parts)
        for part in goals.parts:
            if self.goals_too and not isinstance(part.motion, Still):
                carrier = self._add(part.motion, part.placement)
                carrier.goal = 1
                self._carry(carrier, part.numbers, part.placed)
        self.count = len(self._carriers)

        def upload(values: Any, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        self.now = wp.zeros(1, dtype=wp.vec2d, device=self.device)
        """the start and the end of the step"""
        self._clock = HostMirror(self.now)
        tables = upload(self._carriers, Carrier), upload(self._segments, Segment)
        self._head = (self.count, self.now, *tables)
        vertices = upload(np.concatenate(self._vertices).astype(np.int32), int)
        self._tail = vertices, upload(np.concatenate(self._placed), wp.vec3d), goals.starts, goals.ends
        self._inputs: tuple[Any, ...] = ()

    def follow(self, start: float, end: float, poses: wp.array, target: wp.array) -> None:
        """Write the poses of colliders, the targets of pins and the goals of a step from `start` to `end`."""
        if self.count == 0:
            return
        self._clock.values[0] = start, end
        self._clock.copy_to_device()
        if not self._inputs or self._inputs[-1] is not target or self._inputs[-2] is not poses:
            self._inputs = (*self._head, *self._tail, poses, target)
        launch(follow_carriers, 1, self._inputs, device=self.device)

    def _carry(self, carrier: Any, vertices: np.ndarray, placed: np.ndarray) -> None:
        """Give a carrier vertices to carry."""
        carrier.first_vertex, carrier.vertices = sum(map(len, self._vertices)), len(vertices)
        self._vertices.append(vertices)
        self._placed.append(placed)

    def _add(self, motion: MotionModel, placement: Placement) -> Any:
        """A carrier for a motion of something with this placement."""
        carrier: Any = Carrier()
        carrier.first_segment = len(self._segments)
        carrier.collider, carrier.until = -1, np.inf
        centre = placement.position
        if isinstance(motion, Spin):
            centre = motion.centre or centre
            carrier.begin = motion.start
            carrier.end = np.inf if motion.stop is None else motion.stop
            axis = np.array(motion.axis) / np.linalg.norm(motion.axis)
            self._segments.append(_segment(motion.start, 1.0, first=axis * np.radians(motion.rate_deg)))
        elif isinstance(motion, Path):
            carrier.begin, carrier.end = motion.keyframes[0].time, motion.keyframes[-1].time
            self._segments.extend(_path_segments(motion))
        carrier.segments = len(self._segments) - carrier.first_segment
        carrier.centre = wp.vec3d(*centre)
        self._carriers.append(carrier)
        return carrier


def _segment(start: float, gap: float, **vectors: Any) -> Any:
    """A straight segment without motion, but for what is given."""
    segment: Any = Segment()
    segment.start, segment.per_gap, segment.straight = start, 1.0 / gap, 1
    segment.turn = wp.vec4d(1.0, 0.0, 0.0, 0.0)
    for name, value in vectors.items():
        setattr(segment, name, (wp.vec4d if len(value) == 4 else wp.vec3d)(*value))
    return segment


def _path_segments(path: Path) -> list[Any]:
    """The segments of a path."""
    times = np.array([k.time for k in path.keyframes])
    shifts = np.array([k.position for k in path.keyframes])
    turns = [rotation.euler_quaternion(k.rotation_deg) for k in path.keyframes]
    if len(times) == 1:
        return [_segment(times[0], 1.0, shift=shifts[0], shift_end=shifts[0], turn=turns[0])]
    steps = [rotation.logarithm(rotation.product(rotation.inverse(a), b)) for a, b in pairwise(turns)]
    gaps = np.diff(times)[:, None]
    shift_rates = keyframe_rates(np.diff(shifts, axis=0) / gaps, gaps)
    turn_rates = keyframe_rates(np.reshape(steps, (-1, 3)) / gaps, gaps)
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

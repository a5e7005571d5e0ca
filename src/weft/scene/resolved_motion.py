"""Motions with their files read: positions at any time.

All motions act in the world on placed vertices: `positions(rest_vertices, time)` takes the vertices where the placement
puts them and returns them where the motion has carried them.
"""

from bisect import bisect_right
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from weft.errors import MeshError, WeftError
from weft.mesh.sequences import MeshSequence
from weft.scene import rotation
from weft.scene.model import unwrap
from weft.scene.placement import Placement
from weft.scene.rotation import Floats

# of the entries of a rotation matrix: float32 matrices pass, scales and shears do not
RIGID_WITHIN = 1e-4


class ResolvedMotion(Protocol):
    """A motion with its files read: gives positions at any time."""

    @property
    def still(self) -> bool:
        """Whether positions are the same at all times."""

    @property
    def rigid(self) -> bool:
        """Whether there is a `matrix(time)`."""

    def positions(self, rest_vertices: Floats, time: float) -> Floats:
        """(n, 3) positions in the world, at a time in seconds, of vertices given where the placement puts them."""


class RigidMotion:
    """A motion that moves all vertices by one rigid matrix; None as `pose` is no motion."""

    rigid = True

    def __init__(self, pose: Callable[[float], Floats] | None) -> None:
        self._pose = pose

    @property
    def still(self) -> bool:
        return self._pose is None

    def matrix(self, time: float) -> Floats:
        """The 4x4 matrix from the placement to the pose at a time."""
        return np.eye(4) if self._pose is None else self._pose(time)

    def positions(self, rest_vertices: Floats, time: float) -> Floats:
        """Positions of the placed vertices at a time."""
        if self._pose is None:
            return rest_vertices.copy()
        matrix = self._pose(time)
        return rest_vertices @ matrix[:3, :3].T + matrix[:3, 3]


class SampledMotion:
    """Vertices interpolated linearly between samples; held before the first and after the last."""

    rigid = False

    def __init__(self, sequence: MeshSequence, *, start: float, placement: Placement) -> None:
        self.sequence = sequence
        self._times = [start + t for t in sequence.times]
        self._matrix = placement.matrix()
        self.still = len(self._times) == 1
        # the two samples around the last time, already placed
        self._samples: dict[int, Floats] = {}

    def positions(self, rest_vertices: Floats, time: float) -> Floats:
        """Positions at a time; of `rest_vertices` only their number matters."""
        if len(rest_vertices) != self.sequence.vertex_count:
            raise ValueError(f"{len(rest_vertices)} vertices cannot follow {self.sequence.vertex_count}")
        after = bisect_right(self._times, time)
        low, high = max(after - 1, 0), min(after, len(self._times) - 1)
        self._samples = {i: self._samples[i] if i in self._samples else self._placed(i) for i in {low, high}}
        if low == high:
            return self._samples[low].copy()
        weight = (time - self._times[low]) / (self._times[high] - self._times[low])
        return (1.0 - weight) * self._samples[low] + weight * self._samples[high]

    def _placed(self, sample: int) -> Floats:
        vertices = self.sequence.vertices(sample)
        return vertices @ self._matrix[:3, :3].T + self._matrix[:3, 3]


class SelectedMotion:
    """The positions of selected vertices under a motion that gives those of all vertices, as pins need."""

    rigid = False
    still = False

    def __init__(self, moving: ResolvedMotion, chosen: np.ndarray, count: int) -> None:
        self._moving, self._chosen, self._all = moving, chosen, np.zeros((count, 3))

    def positions(self, rest_vertices: Floats, time: float) -> Floats:
        """Positions of the selected vertices at a time."""
        return self._moving.positions(self._all, time)[self._chosen]


class FunctionMotion:
    """Positions that a Python function gives at a time; each answer is checked."""

    rigid = False
    still = False

    def __init__(self, function: Callable[[float], Any], name: str) -> None:
        self._function, self._name = function, name

    def positions(self, rest_vertices: Floats, time: float) -> Floats:
        """Positions at a time; of `rest_vertices` only their number matters."""
        return called(self._function, self._name, time, (len(rest_vertices), 3))


def called(function: Callable[[float], Any], name: str, time: float, shape: tuple[int, int] | None) -> Floats:
    """What a function of a user gives at a time, as an array of this shape (None: any), or an error that names it."""
    try:
        values = np.array(unwrap(function(time)), dtype=np.float64)
    except WeftError:
        raise
    except Exception as error:
        raise MeshError(f"the function {name} failed at {time:g} s: {type(error).__name__}: {error}") from error
    if values.ndim != 2:
        given = "nothing" if np.isnan(values).all() else f"an array of shape {values.shape}"
        raise MeshError(f"the function {name} gave {given} at {time:g} s, not a 4x4 matrix or positions (n, 3)")
    if shape is not None and values.shape != shape:
        raise MeshError(f"the function {name} gave an array of shape {values.shape} at {time:g} s, not {shape}")
    if not np.isfinite(values).all():
        raise MeshError(f"the function {name} gave NaN or infinite numbers at {time:g} s")
    return values


def follow_function(function: Callable[[float], Any] | str, name: str) -> ResolvedMotion:
    """A rigid motion where the function gives a 4x4 matrix at the start, else one of single positions."""
    if isinstance(function, str):
        raise MeshError(f"moved by the Python function {name}, of which only the name is kept: give the function again")
    first = called(function, name, 0.0, None)
    if first.shape != (4, 4):
        return FunctionMotion(function, name)

    def pose(time: float) -> Floats:
        matrix = called(function, name, time, (4, 4))
        if (
            not np.allclose(matrix[:3, :3].T @ matrix[:3, :3], np.eye(3), atol=RIGID_WITHIN)
            or np.linalg.det(matrix) < 0.0
        ):
            raise MeshError(f"the function {name} gave a matrix at {time:g} s that does not only rotate and move")
        return matrix

    return RigidMotion(pose)


def _about(centre: Floats, turn: Floats, shift: Floats) -> Floats:
    """The 4x4 matrix that rotates about a centre, then translates."""
    matrix = np.eye(4)
    matrix[:3, :3] = turn
    matrix[:3, 3] = centre - turn @ centre + shift
    return matrix


def spin_pose(spin: Any, placement: Placement) -> Callable[[float], Floats]:
    """The pose of a `Spin` at a time."""
    centre = np.array(placement.position if spin.centre is None else spin.centre)
    stop = np.inf if spin.stop is None else spin.stop
    turn, nowhere = rotation.turns_about(spin.axis), np.zeros(3)

    def pose(time: float) -> Floats:
        angle_deg = spin.rate_deg * (min(max(time, spin.start), stop) - spin.start)
        return _about(centre, turn(angle_deg), nowhere)

    return pose


def path_pose(path: Any, placement: Placement) -> Callable[[float], Floats]:
    """The pose of a `Path` at a time."""
    centre = np.array(placement.position)
    times = np.array([k.time for k in path.keyframes])
    shifts = np.array([k.position for k in path.keyframes])
    turns = rotation.euler_quaternion([k.rotation_deg for k in path.keyframes])

    # the rotation from each keyframe to the next, as a vector in the body
    steps = rotation.logarithm(rotation.product(rotation.inverse(turns[:-1]), turns[1:]))
    smooth = path.interpolation == "smooth"
    gaps = np.diff(times)[:, None]
    shift_rates = keyframe_rates(np.diff(shifts, axis=0) / gaps, gaps) if smooth else None
    turn_rates = keyframe_rates(steps / gaps, gaps) if smooth else None

    def pose(time: float) -> Floats:
        i = int(np.searchsorted(times, time, side="right")) - 1
        if i < 0 or i >= len(times) - 1:
            held = min(max(i, 0), len(times) - 1)
            return _about(centre, rotation.matrix_of(turns[held]), shifts[held])
        gap = times[i + 1] - times[i]
        u = (time - times[i]) / gap
        if shift_rates is None or turn_rates is None:
            turn = rotation.product(turns[i], rotation.exponential(u * steps[i]))
            return _about(centre, rotation.matrix_of(turn), (1.0 - u) * shifts[i] + u * shifts[i + 1])
        shift = _hermite(u, shifts[i], shifts[i + 1], gap * shift_rates[i], gap * shift_rates[i + 1])
        turn = _turn_between(u, turns[i], turns[i + 1], gap * turn_rates[i], gap * turn_rates[i + 1])
        return _about(centre, rotation.matrix_of(turn), shift)

    return pose


def keyframe_rates(slopes: Floats, gaps: Floats) -> Floats:
    """Velocities at the keyframes: zero at both ends and where the direction turns round, else the weighted harmonic
    mean of the slopes on both sides, which lets no coordinate overshoot (Fritsch and Butland 1984)."""
    rates = np.zeros((len(slopes) + 1, 3))
    before, after = slopes[:-1], slopes[1:]
    if len(before) == 0:
        return rates
    same_way = before * after > 0.0
    weight_before = gaps[:-1] + 2.0 * gaps[1:]
    weight_after = 2.0 * gaps[:-1] + gaps[1:]
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (weight_before + weight_after) / (weight_before / before + weight_after / after)
    rates[1:-1] = np.where(same_way, mean, 0.0)
    return rates


def _hermite(u: float, a: Floats, b: Floats, slope_a: Floats, slope_b: Floats) -> Floats:
    """The cubic from a to b with these slopes at its ends, at u in [0, 1]."""
    blend = u * u * (3.0 - 2.0 * u)
    rest = u * (1.0 - u)
    return (1.0 - blend) * a + blend * b + rest * ((1.0 - u) * slope_a - u * slope_b)


def _turn_between(u: float, a: Floats, b: Floats, slope_a: Floats, slope_b: Floats) -> Floats:
    """Rotation between two quaternions: the cumulative cubic of Kim, Kim and Shin (1995), slopes as rotation vectors.

    The curve leaves a with slope_a and reaches b with slope_b; about a single axis it is the cubic of the angle.
    """
    first, last = rotation.exponential(slope_a / 3.0), rotation.exponential(slope_b / 3.0)
    middle = rotation.product(
        rotation.product(rotation.inverse(first), rotation.inverse(a)), rotation.product(b, rotation.inverse(last))
    )
    weights = 1.0 - (1.0 - u) ** 3, u * u * (3.0 - 2.0 * u), u**3
    turned = a
    for weight, vector in zip(weights, (slope_a / 3.0, rotation.logarithm(middle), slope_b / 3.0), strict=True):
        turned = rotation.product(turned, rotation.exponential(weight * vector))
    return turned

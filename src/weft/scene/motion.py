"""How colliders and pins move: what a scene says about it, and from that the positions at a time.

All motions act in the world on placed vertices: `positions(rest_vertices, time)` takes the vertices where the placement
puts them and returns them where the motion has carried them.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, field_validator, model_validator

from weft.errors import MeshError, WeftError
from weft.mesh.sequences import MeshSequence, read_sequence
from weft.scene import rotation
from weft.scene.arrays import SamplesField
from weft.scene.model import FileName, Name, NotNegative, Number, Positive, SceneModel, Vector, read_choice, unwrap
from weft.scene.placement import Placement
from weft.scene.rotation import Floats


def _function_name(function: Any) -> str:
    if isinstance(function, str):
        return function
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"


class MotionModel(SceneModel):
    """The motion of a collider or of pinned vertices."""

    always_written = ("kind",)

    def resolve(
        self, *, base: str | FilePath = ".", placement: Placement | None = None, object: str | None = None
    ) -> "ResolvedMotion":
        """The motion as an object with `.positions(rest_vertices, time)` and, if it is rigid, `.matrix(time)`.

        `base` is the folder that file names are relative to; `placement` is that of the body that moves, and `object` the
        object of a mesh file that the body is.
        """
        return resolve_motion(self, base=FilePath(base), placement=placement or Placement(), object=object)


class Still(MotionModel):
    """No motion."""

    kind: Literal["still"] = "still"


class Spin(MotionModel):
    """Rotation about an axis at a constant rate, from `start` to `stop`; before and after, no motion."""

    kind: Literal["spin"] = "spin"
    axis: Vector = Field(default=(0.0, 1.0, 0.0), description="direction of the axis; its length does not matter")
    rate_deg: Number = Field(default=90.0, description="degrees a second, by the right-hand rule")
    centre: Vector | None = Field(
        default=None, description="a point on the axis, in the world, m; default: the position of the placement"
    )
    start: NotNegative = Field(default=0.0, description="s")
    stop: NotNegative | None = Field(default=None, description="s; default: never")

    @field_validator("axis")
    @classmethod
    def _check_axis(cls, axis: tuple[float, float, float]) -> tuple[float, float, float]:
        # squares of smaller numbers are lost
        if math.hypot(*axis) < 1e-150:
            raise ValueError("must not be zero: it is a direction")
        return axis

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: float | None, info: ValidationInfo) -> float | None:
        start = info.data.get("start", 0.0)
        if stop is not None and stop < start:
            raise ValueError(f"must not be before start ({start:g} s), not {stop:g}")
        return stop


class Keyframe(SceneModel):
    """A pose at a time, relative to the placement."""

    time: Number = Field(description="s")
    position: Vector = Field(default=(0.0, 0.0, 0.0), description="translation added to the placement's position, m")
    rotation_deg: Vector = Field(
        default=(0.0, 0.0, 0.0),
        description="rotation about the placement's position, degrees about the world's x, then y, then z axis",
    )


class Path(MotionModel):
    """Poses at times, interpolated between them; before the first and after the last the pose is held.

    With p the position of the placement and R, t the rotation and translation between the keyframes, a vertex x of
    the placed body is at p + R (x - p) + t. Rotations take the shorter way between two keyframes.
    """

    kind: Literal["path"] = "path"
    keyframes: tuple[Keyframe, ...] = Field(min_length=1, description="in the order of their times")
    interpolation: Literal["linear", "smooth"] = Field(
        default="linear",
        description="linear: straight at constant speed; smooth: velocity without jumps, no overshoot, starts and "
        "ends at rest",
    )

    @field_validator("keyframes")
    @classmethod
    def _check_order(cls, keyframes: tuple[Keyframe, ...]) -> tuple[Keyframe, ...]:
        for i, (a, b) in enumerate(pairwise(keyframes)):
            if not b.time > a.time:
                raise ValueError(
                    f"must be in the order of their times: [{i + 1}].time = {b.time:g} is not after "
                    f"[{i}].time = {a.time:g}"
                )
        return keyframes


class Sequence(MotionModel):
    """Vertices from files; between samples they move linearly, before the first and after the last they are held.

    The samples are in the coordinates of the mesh: the placement applies to them as to the mesh. In Python, `positions` is
    an array instead of a file.
    """

    file_fields = ("file",)

    kind: Literal["sequence"] = "sequence"
    file: FileName | None = Field(
        default=None,
        description="an npz file with an array (samples, vertices, 3), a folder of OBJ or PLY files, or an animated "
        "GLB, glTF or USD file",
    )
    positions: SamplesField = Field(
        default=None, description="in Python, instead of a file: an array (samples, vertices, 3), m"
    )
    object: Name | None = Field(
        default=None, description="the object of a file with several; default: that of the body's mesh, or all of them"
    )
    fps: Positive | None = Field(
        default=None,
        description="samples a second; needed for npz files and folders; default: the file's own; for a GLB of poses 30",
    )
    array: Name | None = Field(
        default=None,
        description="name of the array in an npz file, or of the animation in a GLB file; default: `vertices`, or the "
        "only animation",
    )
    start: NotNegative = Field(default=0.0, description="time of the first sample, s")

    @model_validator(mode="after")
    def _check_source(self) -> "Sequence":
        if (self.file is None) == (self.positions is None):
            has = "neither" if self.file is None else "both"
            raise ValueError(f"needs either a file or positions, and has {has}")
        if self.positions is not None and self.fps is None:
            raise ValueError("needs fps, the number of samples a second: an array does not say how fast it goes")
        if self.positions is not None and (self.array is not None or self.object is not None):
            raise ValueError("array and object are for a file, and this sequence has positions")
        return self


class Function(MotionModel):
    """A Python function of the time in seconds, which returns a 4x4 matrix or the positions (n, 3) of all moved vertices.

    The matrix is rigid and takes the placed body to where it is at that time; positions are in the world. A scene with a
    function cannot be saved to a file, and a cache keeps only the function's name.
    """

    kind: Literal["function"] = "function"
    function: Annotated[Callable[[float], Any] | str, PlainSerializer(_function_name)] = Field(
        description="called with the time, s"
    )

    @property
    def name(self) -> str:
        """The name of the function and of its module."""
        return _function_name(self.function)


MOTIONS: dict[str, type[SceneModel]] = {"still": Still, "spin": Spin, "path": Path, "sequence": Sequence}


def _choose_motion(value: Any, info: ValidationInfo) -> Any:
    if callable(value) and not isinstance(value, SceneModel | type):
        return Function(function=value)
    if isinstance(value, Function):
        return value
    if hasattr(value, "shape") or (isinstance(value, list | tuple) and hasattr(next(iter(value), None), "shape")):
        raise ValueError("positions do not say how fast they go: write weft.Sequence(positions=..., fps=...)")
    # the JSON of a cache names a function
    if isinstance(value, Mapping) and value.get("kind") == "function" and not (info.context or {}).get("toml"):
        return Function.model_validate(value)
    return read_choice(value, info, "kind", MOTIONS)


AnyMotion = Still | Spin | Path | Sequence | Function
Motion = Annotated[AnyMotion, BeforeValidator(_choose_motion)]


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


def _function_motion(motion: Function) -> ResolvedMotion:
    """A rigid motion where the function gives a 4x4 matrix at the start, else one of single positions."""
    function, name = motion.function, motion.name
    if isinstance(function, str):
        raise MeshError(f"moved by the Python function {name}, of which only the name is kept: give the function again")
    first = called(function, name, 0.0, None)
    if first.shape != (4, 4):
        return FunctionMotion(function, name)

    def pose(time: float) -> Floats:
        matrix = called(function, name, time, (4, 4))
        if not np.allclose(matrix[:3, :3].T @ matrix[:3, :3], np.eye(3), atol=_RIGID) or np.linalg.det(matrix) < 0.0:
            raise MeshError(f"the function {name} gave a matrix at {time:g} s that does not only rotate and move")
        return matrix

    return RigidMotion(pose)


# of the entries of a rotation matrix: float32 matrices pass, scales and shears do not
_RIGID = 1e-4


def resolve_motion(
    motion: MotionModel, *, base: FilePath, placement: Placement, object: str | None = None
) -> ResolvedMotion:
    """The motion of a body with this placement; `base` is the folder of relative file names."""
    if isinstance(motion, Spin):
        return RigidMotion(_spin(motion, placement) if motion.rate_deg else None)
    if isinstance(motion, Path):
        return RigidMotion(_path(motion, placement))
    if isinstance(motion, Function):
        return _function_motion(motion)
    if isinstance(motion, Sequence):
        return SampledMotion(_samples(motion, base, object), start=motion.start, placement=placement)
    return RigidMotion(None)


def _samples(motion: Sequence, base: FilePath, object: str | None) -> MeshSequence:
    """The samples of a sequence, from its array or its file."""
    if motion.file is not None:
        return read_sequence(base / motion.file, fps=motion.fps, array=motion.array, object=motion.object or object)
    assert motion.positions is not None and motion.fps is not None
    positions = motion.positions.positions
    times = [i / motion.fps for i in range(len(positions))]
    return MeshSequence(times, positions.shape[1], None, lambda i: positions[i].copy())


def _about(centre: Floats, turn: Floats, shift: Floats) -> Floats:
    """The 4x4 matrix that rotates about a centre, then translates."""
    matrix = np.eye(4)
    matrix[:3, :3] = turn
    matrix[:3, 3] = centre - turn @ centre + shift
    return matrix


def _spin(spin: Spin, placement: Placement) -> Callable[[float], Floats]:
    centre = np.array(placement.position if spin.centre is None else spin.centre)
    stop = np.inf if spin.stop is None else spin.stop
    turn, nowhere = rotation.turns_about(spin.axis), np.zeros(3)

    def pose(time: float) -> Floats:
        angle_deg = spin.rate_deg * (min(max(time, spin.start), stop) - spin.start)
        return _about(centre, turn(angle_deg), nowhere)

    return pose


def _path(path: Path, placement: Placement) -> Callable[[float], Floats]:
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

"""How colliders and pins move: what a scene says about it; `resolved_motion` has the positions that follow from that."""

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, ValidationInfo, field_validator, model_validator

from weft.mesh.sequences import MeshSequence, read_sequence
from weft.scene.arrays import SamplesField
from weft.scene.model import FileName, Name, NotNegative, Number, Positive, SceneModel, Vector, read_choice
from weft.scene.placement import Placement
from weft.scene.resolved_motion import (
    ResolvedMotion,
    RigidMotion,
    SampledMotion,
    follow_function,
    path_pose,
    spin_pose,
)


def _function_name(function: Any) -> str:
    if isinstance(function, str):
        return function
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', type(function).__name__)}"


class MotionModel(SceneModel):
    """The motion of a collider or of pinned vertices."""

    always_written = ("kind",)

    def resolve(
        self, *, base: str | FilePath = ".", placement: Placement | None = None, object: str | None = None
    ) -> ResolvedMotion:
        """The motion as an object with `.positions(rest_vertices, time)` and, if it is rigid, `.matrix(time)`.

        `base` is the folder that file names are relative to; `placement` is that of the body that moves, and `object` the
        object of a mesh file that the body is.
        """
        return self._at(FilePath(base), placement or Placement(), object)

    def _at(self, base: FilePath, placement: Placement, object: str | None) -> ResolvedMotion:
        return RigidMotion(None)


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

    def _at(self, base: FilePath, placement: Placement, object: str | None) -> ResolvedMotion:
        return RigidMotion(spin_pose(self, placement) if self.rate_deg else None)

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

    def _at(self, base: FilePath, placement: Placement, object: str | None) -> ResolvedMotion:
        return RigidMotion(path_pose(self, placement))

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

    def _at(self, base: FilePath, placement: Placement, object: str | None) -> ResolvedMotion:
        return SampledMotion(self._samples(base, object), start=self.start, placement=placement)

    def _samples(self, base: FilePath, object: str | None) -> MeshSequence:
        if self.file is not None:
            return read_sequence(base / self.file, fps=self.fps, array=self.array, object=self.object or object)
        assert self.positions is not None and self.fps is not None
        positions = self.positions.positions
        times = [i / self.fps for i in range(len(positions))]
        return MeshSequence(times, positions.shape[1], None, lambda i: positions[i].copy())


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

    def _at(self, base: FilePath, placement: Placement, object: str | None) -> ResolvedMotion:
        return follow_function(self.function, self.name)


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

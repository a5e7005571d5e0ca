"""How colliders and pins move. All motions act in the world, after the placement.

What a motion says is here; `weft.scene.moving` turns it into positions.
"""

from itertools import pairwise
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, field_validator

from weft.scene.fields import FileName, Name, NotNegative, Number, Positive, Vector
from weft.scene.part import Part, choose
from weft.scene.placement import Placement

if TYPE_CHECKING:
    from weft.scene.moving import Moving


class MotionPart(Part):
    """How something moves."""

    always_written = ("kind",)

    def resolve(self, *, base: str | FilePath = ".", placement: Placement | None = None) -> "Moving":
        """The motion as an object with `.positions(rest_vertices, time)`, and `.matrix(time)` where it is rigid.

        `base` is the folder that file names are relative to; `placement` is that of the body that moves.
        """
        from weft.scene.moving import resolve_motion

        return resolve_motion(self, base=FilePath(base), placement=placement or Placement())


class Still(MotionPart):
    """No motion."""

    kind: Literal["still"] = "still"


class Spin(MotionPart):
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
        if not any(axis):
            raise ValueError("must not be zero: it is a direction")
        return axis

    @field_validator("stop")
    @classmethod
    def _check_stop(cls, stop: float | None, info: ValidationInfo) -> float | None:
        start = info.data.get("start", 0.0)
        if stop is not None and stop < start:
            raise ValueError(f"must not be before start ({start:g} s), not {stop:g}")
        return stop


class Keyframe(Part):
    """A pose at a time, relative to the placement: no rotation and no translation is the placement itself."""

    time: Number = Field(description="s")
    position: Vector = Field(default=(0.0, 0.0, 0.0), description="translation added to the placement's position, m")
    rotation_deg: Vector = Field(
        default=(0.0, 0.0, 0.0),
        description="rotation about the placement's position, degrees about the world's x, then y, then z axis",
    )


class Path(MotionPart):
    """Poses at times, and the way between them; before the first and after the last the pose is held.

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


class Sequence(MotionPart):
    """Vertices from files, one sample a time; between samples they move linearly, before and after they are held.

    The samples are in the coordinates of the mesh: the placement applies to them as to the mesh.
    """

    file_fields = ("file",)

    kind: Literal["sequence"] = "sequence"
    file: FileName = Field(
        description="an npz file with an array (samples, vertices, 3), a folder of OBJ or PLY files, or an animated "
        "GLB, glTF or USD file"
    )
    fps: Positive | None = Field(
        default=None,
        description="samples a second; needed for npz files and folders; default: the file's own for USD, 30 for GLB",
    )
    array: Name | None = Field(
        default=None,
        description="name of the array in an npz file, or of the animation in a GLB file; default: `vertices`, or the "
        "only animation",
    )
    start: NotNegative = Field(default=0.0, description="time of the first sample, s")


MOTIONS: dict[str, type[Part]] = {"still": Still, "spin": Spin, "path": Path, "sequence": Sequence}


def _choose_motion(value: Any, info: ValidationInfo) -> Any:
    return choose(value, info, "kind", MOTIONS)


AnyMotion = Still | Spin | Path | Sequence
Motion = Annotated[AnyMotion, BeforeValidator(_choose_motion)]

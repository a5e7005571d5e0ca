"""The placement of a body at the start: scale, then rotation, then translation."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from weft.scene.messages import shown
from weft.scene.model import PositiveVector, SceneModel, Vector, unwrap

if TYPE_CHECKING:
    import numpy as np


def _three(value: Any) -> Any:
    """A single number as the scale of all three axes."""
    value = unwrap(value)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return value
    if not value > 0.0:
        raise ValueError(f"must be greater than 0, not {shown(value)}")
    return (value, value, value)


# metres a unit
UNITS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "in": 0.0254, "ft": 0.3048}


class Placement(SceneModel):
    """Where a cloth or a collider stands when the simulation starts.

    A mesh in other units or with another axis up is first brought to metres and y up. Then a vertex is scaled about the
    origin of its mesh, rotated about it, and moved by `position`. USD and glTF files know their units and axis.
    """

    position: Vector = Field(default=(0.0, 0.0, 0.0), description="where the origin of the mesh goes, m")
    rotation_deg: Vector = Field(
        default=(0.0, 0.0, 0.0),
        description="rotation in degrees about the world's x axis, then its y axis, then its z axis",
    )
    scale: Annotated[PositiveVector, BeforeValidator(_three)] = Field(
        default=(1.0, 1.0, 1.0),
        description="a factor for each axis, applied first; a single number scales all three alike",
    )

    up: Literal["y", "z"] = Field(
        default="y", description="the axis of the mesh that points up; z as in Blender, CAD and games"
    )
    units: Literal["m", "cm", "mm", "in", "ft"] = Field(default="m", description="the unit of the mesh's coordinates")

    @property
    def converts(self) -> bool:
        """Whether the mesh is in other units than metres, or has another axis up than y."""
        return self.up != "y" or self.units != "m"

    def matrix(self) -> "np.ndarray":
        """The 4x4 matrix that takes mesh coordinates to the world."""
        import numpy as np

        from weft.scene.rotation import euler_matrix

        # (x, y, z) with z up is (x, z, -y) with y up
        axes = np.eye(3) if self.up == "y" else np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
        matrix = np.eye(4)
        matrix[:3, :3] = euler_matrix(self.rotation_deg) * np.asarray(self.scale) @ (UNITS[self.units] * axes)
        matrix[:3, 3] = self.position
        return matrix

    def plain(self) -> Any:
        """The plain table; a scale that is equal for all axes as one number."""
        table = super().plain()
        if "scale" in table and len(set(self.scale)) == 1:
            table["scale"] = self.scale[0]
        return table

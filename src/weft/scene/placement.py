"""The placement of a body at the start: scale, then rotation, then translation."""

from typing import TYPE_CHECKING, Annotated, Any

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


class Placement(SceneModel):
    """Where a cloth or a collider stands when the simulation starts.

    A vertex is first scaled about the origin of its mesh, then rotated about it, then moved by `position`.
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

    def matrix(self) -> "np.ndarray":
        """The 4x4 matrix that takes mesh coordinates to the world."""
        import numpy as np

        from weft.scene.rotation import euler_matrix

        matrix = np.eye(4)
        matrix[:3, :3] = euler_matrix(self.rotation_deg) * np.asarray(self.scale)
        matrix[:3, 3] = self.position
        return matrix

    def plain(self) -> Any:
        """The plain table; a scale that is equal for all axes as one number."""
        table = super().plain()
        if "scale" in table and len(set(self.scale)) == 1:
            table["scale"] = self.scale[0]
        return table

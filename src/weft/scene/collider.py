"""A body that the cloth meets: it moves as it is told and is not moved by the cloth."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, model_validator

from weft.scene.fields import Colour, FileName, Flag, Name, NotNegative, check_friction, sliding_friction
from weft.scene.motion import Motion, Sequence, Still
from weft.scene.part import Part
from weft.scene.placement import Placement
from weft.scene.shape import Box, Capsule, Plane, Shape, Sphere


class Collider(Part):
    """A body that the cloth meets, from a mesh file, from a shape, or from the files of its sequence."""

    always_written = ("name",)
    file_fields = ("mesh",)

    name: Name = Field(default="collider", description="no two bodies of a scene have the same name")
    mesh: FileName | None = Field(
        default=None,
        description="mesh file; with a sequence it can be left out: the first sample is the mesh",
    )
    shape: Shape | None = Field(default=None, description="a shape; or give a mesh")
    array: Name | None = Field(default=None, description="name of the array of positions in an npz mesh file")
    repair: Flag = Field(
        default=False,
        description="mend what is wrong with the mesh file where it can be mended, and join edges that lie on each other",
    )
    analytic: Flag = Field(
        default=False,
        description="let methods that can use the exact plane, sphere, capsule or box instead of its triangles",
    )
    placement: Placement = Field(default=Placement(), description="where the collider stands at the start")
    motion: Motion = Field(default=Still(), description="how it moves")
    friction: NotNegative = Field(default=0.3, description="coefficient of static friction")
    friction_kinetic: NotNegative = Field(
        default=0.3, description="coefficient of sliding friction; default: `friction`"
    )
    colour: Colour | None = Field(default=None, description='for pictures, "#rrggbb"; default: grey')

    @model_validator(mode="before")
    @classmethod
    def _fill_in(cls, data: Any) -> Any:
        """Sliding friction is static friction where it is not given."""
        return {**data, **sliding_friction(data)} if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _check_source(self) -> "Collider":
        sequence = isinstance(self.motion, Sequence)
        if self.mesh is not None and self.shape is not None:
            raise ValueError("needs either a mesh or a shape, and has both")
        if self.mesh is None and self.shape is None and not sequence:
            raise ValueError("needs a mesh, a shape or a motion that is a sequence, and has none")
        if self.shape is not None and sequence:
            raise ValueError("a shape cannot follow a sequence; leave the shape out, the sequence has the mesh")
        if self.mesh is None and (self.array is not None or self.repair):
            raise ValueError(f"{'array' if self.array else 'repair'} is for a mesh file, and there is none")
        return self

    @model_validator(mode="after")
    def _check_analytic(self) -> "Collider":
        if not self.analytic:
            return self
        if not isinstance(self.shape, Plane | Sphere | Capsule | Box):
            raise ValueError("analytic = true is for the shapes plane, sphere, capsule and box")
        if isinstance(self.shape, Sphere | Capsule) and len(set(self.placement.scale)) > 1:
            raise ValueError("an analytic sphere or capsule can only be scaled the same along all axes")
        return self

    @model_validator(mode="after")
    def _check_friction(self) -> "Collider":
        check_friction(self.friction, self.friction_kinetic)
        return self

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed; sliding friction follows static friction where they are the same."""
        if "friction" in changes and self.friction_kinetic == self.friction:
            changes = {"friction_kinetic": changes["friction"], **changes}
        return super().replace(**changes)

    def plain(self) -> Any:
        """Sliding friction is written where it differs from static friction."""
        table = super().plain()
        table.pop("friction_kinetic", None)
        if self.friction_kinetic != self.friction:
            table["friction_kinetic"] = self.friction_kinetic
        return table

"""A piece of cloth."""

from typing import Literal

from pydantic import Field, model_validator

from weft.scene.fields import Colour, FileName, Flag, Name, Vector
from weft.scene.material import MATERIALS, MaterialField
from weft.scene.part import Part
from weft.scene.pin import Pins
from weft.scene.placement import Placement
from weft.scene.shape import Shape


class Cloth(Part):
    """A piece of cloth, from a mesh file or from a shape."""

    always_written = ("name",)
    file_fields = ("mesh",)

    name: Name = Field(default="cloth", description="no two bodies of a scene have the same name")
    mesh: FileName | None = Field(
        default=None, description="mesh file: OBJ, PLY, STL, GLB, glTF, USD or npz; or give a shape"
    )
    shape: Shape | None = Field(default=None, description="a shape; or give a mesh")
    array: Name | None = Field(default=None, description="name of the array of positions in an npz mesh file")
    repair: Flag = Field(
        default=False,
        description="mend what is wrong with the mesh file where it can be mended, and join edges that lie on each other",
    )
    rest: Literal["mesh", "uv", "shape"] | None = Field(
        default=None,
        description="where lengths at rest come from: the placed mesh, its uv coordinates in metres (flat panels; "
        "not scaled), or the shape; default: shape for a shape, mesh for a mesh",
    )
    placement: Placement = Field(default=Placement(), description="where the cloth stands at the start")
    material: MaterialField = Field(default=MATERIALS["cotton"], description="the name of a preset, or a table")
    masses: Literal["equal", "area"] | None = Field(
        default=None,
        description="how the weight is shared: the same for all vertices, or each vertex a third of its triangles; "
        "default: equal for grids and strips, area for others",
    )
    velocity: Vector = Field(default=(0.0, 0.0, 0.0), description="of all vertices at the start, m/s")
    pins: Pins = Field(default=(), description="vertices that are held")
    colour: Colour | None = Field(default=None, description='for pictures, "#rrggbb"; default: chosen in turn')

    @model_validator(mode="after")
    def _check_source(self) -> "Cloth":
        if (self.mesh is None) == (self.shape is None):
            has = "neither" if self.mesh is None else "both"
            raise ValueError(f"needs either a mesh or a shape, and has {has}")
        if self.mesh is None and self.rest == "mesh":
            raise ValueError("rest = 'mesh' needs a mesh; for a shape leave rest out")
        if self.shape is None and self.rest == "shape":
            raise ValueError("rest = 'shape' needs a shape; for a mesh write 'mesh' or 'uv'")
        if self.mesh is None and (self.array is not None or self.repair):
            raise ValueError(f"{'array' if self.array else 'repair'} is for a mesh file, and this cloth has a shape")
        return self

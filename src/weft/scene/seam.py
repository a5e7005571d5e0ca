"""Where cloth is sewn to cloth."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from weft.scene.fields import FileName, Index, Name, Number, Positive, unwrap
from weft.scene.part import Part

Stitch = tuple[Index, Index, Index]


class Seam(Part):
    """Vertices sewn to points on edges: with a stitch (a, b, c) and its weight w, vertex a meets (1 - w) b + w c."""

    file_fields = ("file",)

    cloth: Name = Field(description="the cloth of the vertices a")
    to: Name | None = Field(default=None, description="the cloth of the vertices b and c; default: the same")
    vertices: Annotated[tuple[Stitch, ...], Field(min_length=1), BeforeValidator(unwrap)] | None = Field(
        default=None, description="stitches, three vertex numbers each: a, b, c"
    )
    weights: Annotated[tuple[Annotated[Number, Field(ge=0, le=1)], ...], BeforeValidator(unwrap)] | None = Field(
        default=None, description="one weight a stitch, 0 at b and 1 at c; default: all 0, so that a meets b"
    )
    file: FileName | None = Field(
        default=None,
        description="an npz file with the arrays `stitch_vertices` (k, 3) and `stitch_weight` (k), instead of vertices "
        "and weights",
    )
    kind: Literal["spring", "weld"] = Field(
        default="spring", description="closed by springs without length, or the points made one"
    )
    stiffness: Positive | None = Field(
        default=None, description="of a spring, N/m; default: the stretch stiffness of the cloth"
    )

    @model_validator(mode="after")
    def _check_stitches(self) -> "Seam":
        if (self.file is None) == (self.vertices is None):
            has = "neither" if self.file is None else "both"
            raise ValueError(f"needs either vertices or a file, and has {has}")
        if self.file is not None and self.weights is not None:
            raise ValueError("weights come from the file; leave them out")
        if self.vertices is not None and self.weights is not None and len(self.weights) != len(self.vertices):
            raise ValueError(f"needs one weight a stitch: stitches {len(self.vertices)}, weights {len(self.weights)}")
        if self.kind == "weld" and self.stiffness is not None:
            raise ValueError("stiffness is for kind = 'spring'; a weld does not give")
        return self

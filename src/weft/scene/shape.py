"""Shapes that need no file: `{kind = "grid", ...}` in TOML, `Grid(...)` in Python."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from weft.scene.model import (
    Count,
    CountPair,
    CountTriple,
    Pair,
    Positive,
    PositiveVector,
    SceneModel,
    Whole,
    read_choice,
)

Diagonals = Literal["alternating", "same"]


class ShapeModel(SceneModel):
    """A shape about the origin."""

    always_written = ("kind",)


class Grid(ShapeModel):
    """A flat rectangle of cloth in the xz plane, centred, with a flat rest shape.

    Its sides are left and right (smallest and largest x), top and bottom (smallest and largest z): seen from above
    with x to the right, and still so when `rotation_deg = [90, 0, 0]` hangs it up.
    """

    kind: Literal["grid"] = "grid"
    size: Pair = Field(default=(1.0, 1.0), description="extent along x and along z, m")
    cells: CountPair = Field(default=(50, 50), description="squares along x and along z; each is two triangles")
    diagonals: Diagonals = Field(
        default="alternating", description="whether the diagonals of the squares alternate or all run the same way"
    )


class Strip(ShapeModel):
    """A long narrow rectangle of cloth: `length` along x, `width` along z, with a flat rest shape."""

    kind: Literal["strip"] = "strip"
    length: Positive = Field(default=1.0, description="extent along x, m")
    width: Positive = Field(default=0.1, description="extent along z, m")
    cells: CountPair = Field(default=(50, 5), description="squares along x and along z")
    diagonals: Diagonals = Field(default="alternating", description="as for a grid")


class Sphere(ShapeModel):
    """A sphere about the origin."""

    kind: Literal["sphere"] = "sphere"
    radius: Positive = Field(default=0.5, description="m")
    triangles: Literal["icosphere", "uv"] = Field(
        default="icosphere", description="even triangles from a divided icosahedron, or rings of a globe"
    )
    subdivisions: Annotated[Whole, Field(ge=0, le=8)] = Field(
        default=4, description="how often the icosahedron is divided; 4 gives 5120 triangles"
    )
    segments: Annotated[Whole, Field(ge=3)] = Field(default=48, description="triangles around a globe")
    rings: Annotated[Whole, Field(ge=2)] = Field(default=24, description="bands from pole to pole of a globe")


class Capsule(ShapeModel):
    """A cylinder along y with a half sphere at each end, about the origin; or a cone that touches both spheres (tapered)."""

    kind: Literal["capsule"] = "capsule"
    radius: Positive = Field(default=0.1, description="m")
    end_radius: Positive | None = Field(
        default=None,
        description="radius at the upper end (+y), m; default: `radius`; both differ by less than `length`",
    )
    length: Positive = Field(default=0.5, description="distance between the centres of the half spheres, m")
    segments: Annotated[Whole, Field(ge=3)] = Field(default=32, description="triangles around")
    rings: Annotated[Whole, Field(ge=1)] = Field(default=8, description="bands of each half sphere")
    bands: Count = Field(default=8, description="bands of the cylinder between them")


class Box(ShapeModel):
    """A closed box about the origin."""

    kind: Literal["box"] = "box"
    size: PositiveVector = Field(default=(1.0, 1.0, 1.0), description="extents along x, y and z, m")
    cells: CountTriple = Field(default=(1, 1, 1), description="squares along x, y and z on each face")


class Cylinder(ShapeModel):
    """A cylinder along y about the origin, without lids."""

    kind: Literal["cylinder"] = "cylinder"
    radius: Positive = Field(default=0.5, description="m")
    height: Positive = Field(default=1.0, description="m")
    segments: Annotated[Whole, Field(ge=3)] = Field(default=48, description="squares around")
    rings: Count = Field(default=16, description="squares along the axis")


class Plane(ShapeModel):
    """A flat rectangular floor in the xz plane that faces up (y); as an analytic collider it has no end."""

    kind: Literal["plane"] = "plane"
    size: Pair = Field(default=(10.0, 10.0), description="extent along x and along z, m")
    cells: CountPair = Field(default=(1, 1), description="squares along x and along z")


SHAPES: dict[str, type[SceneModel]] = {
    "grid": Grid,
    "strip": Strip,
    "sphere": Sphere,
    "capsule": Capsule,
    "box": Box,
    "cylinder": Cylinder,
    "plane": Plane,
}


def _choose_shape(value: Any, info: ValidationInfo) -> Any:
    return read_choice(value, info, "kind", SHAPES)


AnyShape = Grid | Strip | Sphere | Capsule | Box | Cylinder | Plane
Shape = Annotated[AnyShape, BeforeValidator(_choose_shape)]

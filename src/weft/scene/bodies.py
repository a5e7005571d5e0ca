"""The bodies of a scene: cloths with their pins, colliders, and the exact surfaces of analytic colliders."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, PlainValidator, TypeAdapter, ValidationInfo, model_validator

from weft.scene.arrays import MeshField
from weft.scene.creases import Creases
from weft.scene.material import MATERIALS, MaterialField
from weft.scene.messages import shown
from weft.scene.model import (
    BoundVector,
    Colour,
    Flag,
    Indices,
    Name,
    NotNegative,
    Positive,
    SceneModel,
    Vector,
    check_friction,
    one_or_more,
    sliding_friction,
    unwrap,
)
from weft.scene.motion import Motion, Sequence, Still
from weft.scene.placement import Placement
from weft.scene.rotation import Floats, euler_matrix
from weft.scene.shape import Box, Capsule, Plane, Shape, Sphere

Boundary = Literal[
    "left",
    "right",
    "top",
    "bottom",
    "corners",
    "top_left",
    "top_right",
    "bottom_left",
    "bottom_right",
    "all",
]


# the keys that select vertices of a cloth
SELECTORS = ("indices", "box", "boundary", "group")


class Pin(SceneModel):
    """Vertices that are held: selected by index, by a box, by a boundary or by a group, exactly one of the four.

    In Python a motion may also be a function of the time, which returns a 4x4 matrix or the positions (n, 3) of the held
    vertices, in the order of `indices` where these are given, else of their numbers.
    """

    indices: Annotated[Indices, Field(min_length=1)] | None = Field(default=None, description="vertex numbers, from 0")
    box: tuple[BoundVector, BoundVector] | None = Field(
        default=None,
        description="all vertices in a box: its smallest and its largest corner, in the world before anything moves, "
        "m; inf leaves a side open",
    )
    boundary: Boundary | None = Field(
        default=None,
        description="a side or corner of a grid or strip, its four corners, the top or bottom of a cylinder, or (any "
        "mesh) all boundary vertices",
    )
    group: Name | None = Field(
        default=None,
        description="a vertex group or attribute of the mesh (values above 0.5), or one of its objects, face groups, panels "
        "or materials",
    )
    motion: Motion = Field(default=Still(), description="how the held vertices move, from where they are placed")
    until: Positive | None = Field(default=None, description="when they are released, s; default: never")

    @model_validator(mode="after")
    def _check_choice(self) -> "Pin":
        given = [n for n in SELECTORS if getattr(self, n) is not None]
        if len(given) != 1:
            what = " and ".join(given) if given else "none of them"
            raise ValueError(f"needs exactly one of indices, box, boundary and group, and has {what}")
        if self.box is not None:
            for axis, low, high in zip("xyz", *self.box, strict=True):
                if not low <= high:
                    raise ValueError(f"box is empty along {axis}: {low:g} is not below {high:g}")
        return self


Pins = Annotated[tuple[Pin, ...], BeforeValidator(one_or_more)]


def _read_factors(value: Any, info: ValidationInfo) -> str | tuple[float, ...]:
    """One number a vertex, or the name of a vertex attribute."""
    value = unwrap(value)
    if isinstance(value, str):
        return _NAME.validate_python(value)
    if not isinstance(value, list | tuple):
        raise ValueError(f"must be one number a vertex or the name of a vertex attribute, not {shown(value)}")
    return _FACTORS.validate_python(tuple(value))


_NAME: TypeAdapter[str] = TypeAdapter(Name)
_FACTORS: TypeAdapter[tuple[float, ...]] = TypeAdapter(
    Annotated[tuple[NotNegative, ...], Field(min_length=1)], config=ConfigDict(allow_inf_nan=False)
)
Factors = Annotated[str | tuple[float, ...], PlainValidator(_read_factors)]


def is_pattern(name: Any) -> bool:
    """Whether a file name is that of a sewing pattern."""
    return isinstance(name, str | os.PathLike) and os.fspath(name).lower().endswith(".json")


class Painted(SceneModel):
    """Factors of material numbers, one a vertex: a stiff collar on a soft shirt.

    Each is a list of numbers, or the name of a vertex attribute of the mesh (an array of an npz file, a property of the
    vertices of a PLY file, an attribute `_NAME` of a glTF file, a primvar of a USD file).
    """

    stretch: Factors | None = Field(default=None, description="factors of `stretch`; default: 1 everywhere")
    shear: Factors | None = Field(default=None, description="factors of `shear`; default: 1 everywhere")
    bend: Factors | None = Field(default=None, description="factors of `bend`; default: 1 everywhere")
    stretch_limit: Factors | None = Field(default=None, description="factors of `stretch_limit`; default: 1 everywhere")
    yield_curvature: Factors | None = Field(
        default=None, description="factors of `yield_curvature`; default: 1 everywhere"
    )
    bend_hysteresis: Factors | None = Field(
        default=None, description="factors of `bend_hysteresis`; default: 1 everywhere"
    )


class Cloth(SceneModel):
    """A piece of cloth, from a mesh file or from a shape."""

    always_written = ("name",)
    file_fields = ("mesh", "start")

    name: Name = Field(default="cloth", description="unlike all others; without one: cloth, cloth2, ... in turn")
    mesh: MeshField = Field(
        default=None,
        description="mesh file: OBJ, PLY, STL, GLB, glTF, USD or npz, or a sewing pattern (json); in Python also a `TriMesh`, "
        "`(vertices, faces)`, a trimesh or a pyvista mesh; or give a shape",
    )
    edge: Positive | None = Field(
        default=None, description="length of the edges of triangles that a sewing pattern is cut into, m; default: 0.01"
    )
    shape: Shape | None = Field(default=None, description="a shape; or give a mesh")
    object: Name | None = Field(
        default=None,
        description="the object, face group, panel or material of the mesh file that the cloth is; default: all of them",
    )
    array: Name | None = Field(default=None, description="name of the array of positions in an npz mesh file")
    repair: Flag = Field(
        default=False,
        description="repair defects of the mesh file where possible, and join edges that lie on each other",
    )
    rest: Literal["mesh", "uv", "shape"] | None = Field(
        default=None,
        description="where lengths at rest come from: the placed mesh, its uv coordinates in metres (flat panels; "
        "not scaled), or the shape; default: shape for a shape, uv for a pattern, mesh for another mesh",
    )
    placement: Placement = Field(default=Placement(), description="where the cloth stands at the start")
    material: MaterialField = Field(default=MATERIALS["cotton"], description="the name of a preset, or a table")
    painted: Painted = Field(default=Painted(), description="factors of material numbers at each vertex")
    start: MeshField = Field(
        default=None,
        description="mesh file with the same vertices, where the cloth is when the simulation starts, in metres in the world: "
        "worn, draped or folded; lengths at rest stay those of mesh or shape; pins hold from there; default: as placed",
    )
    creases: Creases = Field(default=(), description="edges that are bent at rest: fold lines, pleats")
    masses: Literal["equal", "area"] | None = Field(
        default=None,
        description="how the weight is shared: the same for all vertices, or each vertex a third of its triangles; "
        "default: equal for grids and strips, area for others",
    )
    velocity: Vector = Field(default=(0.0, 0.0, 0.0), description="of all vertices at the start, m/s")
    pins: Pins = Field(default=(), description="vertices that are held")
    colour: Colour | None = Field(default=None, description='for pictures, "#rrggbb"; default: chosen in turn')

    @model_validator(mode="before")
    @classmethod
    def _rest_of_pattern(cls, data: Any) -> Any:
        """The panels of a pattern are flat at rest."""
        if isinstance(data, Mapping) and is_pattern(data.get("mesh")) and data.get("rest") is None:
            return {**data, "rest": "uv"}
        return data

    @model_validator(mode="after")
    def _check_source(self) -> "Cloth":
        if is_pattern(self.mesh) and self.rest != "uv":
            raise ValueError(
                f"the panels of a pattern are flat at rest: write rest = 'uv', or leave it out, not {self.rest!r}"
            )
        if self.edge is not None and not is_pattern(self.mesh):
            raise ValueError("edge is for a sewing pattern (a json file), and this cloth has none")
        if (self.mesh is None) == (self.shape is None):
            has = "neither" if self.mesh is None else "both"
            raise ValueError(f"needs either a mesh or a shape, and has {has}")
        if self.mesh is None and self.rest == "mesh":
            raise ValueError("rest = 'mesh' needs a mesh; for a shape leave rest out")
        if self.shape is None and self.rest == "shape":
            raise ValueError("rest = 'shape' needs a shape; for a mesh write 'mesh' or 'uv'")
        if self.mesh is None and (self.array is not None or self.repair):
            raise ValueError(f"{'array' if self.array else 'repair'} is for a mesh file, and this cloth has a shape")
        _check_mesh_keys(self)
        for name in Painted.model_fields:
            if self.mesh is None and isinstance(getattr(self.painted, name), str):
                raise ValueError(f"painted.{name} names a vertex attribute of a mesh file, and this cloth has a shape")
        self._check_material()
        return self

    def _check_material(self) -> None:
        """Refuse what would have no effect with the numbers of the material."""
        none = {"stretch_limit": math.inf, "yield_curvature": math.inf, "bend_hysteresis": 0.0}
        for name, value in none.items():
            if getattr(self.painted, name) is not None and getattr(self.material, name) == value:
                raise ValueError(f"painted.{name} scales nothing: the material has no {name}")
        if any(self.material.rigidities()):
            return
        for key, feature in self.unusual().items():
            if feature in ("creases", "yield_curvature", "bend_hysteresis"):
                raise ValueError(
                    f"{'.'.join(key)} has no effect where bend is 0: give a bending stiffness, or leave it out"
                )

    def unusual(self) -> dict[tuple[str, ...], str]:
        """What is said of the material beyond its preset and one number each: key -> a feature that methods may lack."""
        found: dict[tuple[str, ...], str] = {("material", name): what for name, what in self.material.unusual().items()}
        found |= {("painted", name): "painted" for name in self.painted.plain()}
        return found | ({("creases",): "creases"} if self.creases else {})


# endings of files that state the units and the axis of their coordinates
_KNOW_UNITS = (".glb", ".gltf", ".usd", ".usda", ".usdc", ".usdz")


def _check_mesh_keys(body: "Cloth | Collider") -> None:
    """Refuse keys that say something about a mesh file where there is none, or that the file says itself."""
    if body.shape is not None and body.object is not None:
        raise ValueError("object is for a mesh file, and this body has a shape")
    if not isinstance(body.mesh, str | None) and body.array is not None:
        raise ValueError("array is for an npz file, and this body has a mesh of arrays")
    placement = body.placement
    if not placement.converts:
        return
    key = "up" if placement.up != "y" else "units"
    if body.shape is not None:
        raise ValueError(f"placement.{key} is for a mesh, and a shape is in metres with y up")
    if isinstance(body.mesh, str) and body.mesh.lower().endswith(_KNOW_UNITS):
        ending = body.mesh.rpartition(".")[2]
        raise ValueError(f"placement.{key}: a {ending} file says its units and its axis itself; leave {key} out")


class Collider(SceneModel):
    """A body with a prescribed motion that cloth collides with: from a mesh file, a shape, or the files of a sequence."""

    always_written = ("name",)
    file_fields = ("mesh",)

    name: Name = Field(
        default="collider", description="unlike all others; without one: collider, collider2, ... in turn"
    )
    mesh: MeshField = Field(
        default=None,
        description="mesh file, in Python also arrays as for a cloth; with a sequence it can be left out: the first sample "
        "is the mesh",
    )
    shape: Shape | None = Field(default=None, description="a shape; or give a mesh")
    object: Name | None = Field(
        default=None,
        description="the object, face group, panel or material of the mesh file that the collider is; default: all of them",
    )
    array: Name | None = Field(default=None, description="name of the array of positions in an npz mesh file")
    repair: Flag = Field(
        default=False,
        description="repair defects of the mesh file where possible, and join edges that lie on each other",
    )
    analytic: Flag = Field(
        default=False,
        description="use the exact plane, sphere, capsule or box instead of its triangles, in methods that can",
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
        """Where sliding friction is not given it equals static friction."""
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
        _check_mesh_keys(self)
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
        """A copy with some fields changed; where both friction coefficients are equal, changing `friction` changes both."""
        if "friction" in changes and self.friction_kinetic == self.friction:
            changes = {"friction_kinetic": changes["friction"], **changes}
        return super().replace(**changes)

    def plain(self) -> Any:
        """The plain table; sliding friction only where it differs from static friction."""
        table = super().plain()
        table.pop("friction_kinetic", None)
        if self.friction_kinetic != self.friction:
            table["friction_kinetic"] = self.friction_kinetic
        return table


@dataclass(frozen=True)
class AnalyticShape:
    """An exact surface in its local frame: about the origin, the normal of a plane and the axis of a capsule along y."""

    kind: Literal["plane", "sphere", "capsule", "box"]
    frame: Floats
    """4x4 rigid matrix of the placement: local frame to world; multiply by a motion's `matrix(time)` from the left"""
    radius: float = 0.0
    """m; of a sphere or capsule"""
    end_radius: float = 0.0
    """m; of a capsule at its end +y"""
    half_length: float = 0.0
    """m; from the middle of a capsule to the centre of either half sphere"""
    half_size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m; of a box"""


def analytic_shape(collider: Collider) -> AnalyticShape | None:
    """The exact surface of a collider that says `analytic = true`; None for others."""
    if not collider.analytic:
        return None
    placement, shape = collider.placement, collider.shape
    frame = np.eye(4)
    frame[:3, :3] = euler_matrix(placement.rotation_deg)
    frame[:3, 3] = placement.position
    scale = placement.scale
    if isinstance(shape, Sphere):
        return AnalyticShape("sphere", frame, radius=shape.radius * scale[0])
    if isinstance(shape, Capsule):
        radii = shape.radius * scale[0], (shape.end_radius or shape.radius) * scale[0]
        return AnalyticShape("capsule", frame, *radii, half_length=0.5 * shape.length * scale[0])
    if isinstance(shape, Box):
        x, y, z = (0.5 * size * factor for size, factor in zip(shape.size, scale, strict=True))
        return AnalyticShape("box", frame, half_size=(x, y, z))
    assert isinstance(shape, Plane)
    return AnalyticShape("plane", frame)

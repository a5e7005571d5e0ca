"""The scene: all settings of a simulation, with its forces, camera and seams."""

import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from weft.errors import SceneError
from weft.mesh import TriMesh
from weft.scene.bodies import Cloth, Collider, is_pattern
from weft.scene.material import FEATURES, MATERIALS, MaterialField
from weft.scene.messages import Key, mistakes, problem, unknown
from weft.scene.methods import Guarded, Method, methods_that_model
from weft.scene.model import (
    Colour,
    Device,
    FileName,
    Index,
    Name,
    NotNegative,
    Number,
    Positive,
    SceneModel,
    Seed,
    Vector,
    Whole,
    one_or_more,
    unwrap,
)
from weft.scene.placement import Placement
from weft.scene.shape import AnyShape

# m/s^2, on earth
GRAVITY = 9.81
# frames of a quarter of an hour and of a tenth of a microsecond: far beyond both, cloth in SI units leaves what numbers hold
SLOWEST_FPS, FASTEST_FPS = 1e-3, 1e7

_Body = TypeVar("_Body", Cloth, Collider)


class Camera(SceneModel):
    """From where pictures are taken; what is not given is chosen so that everything is in the picture."""

    position: Vector | None = Field(default=None, description="m; default: chosen")
    target: Vector | None = Field(
        default=None, description="the point in the middle of the picture, m; default: chosen"
    )
    fov_deg: Annotated[Number, Field(gt=0, lt=180)] = Field(default=35.0, description="vertical angle of view, degrees")


class Wind(SceneModel):
    """Moving air; on each triangle it acts along its normal (drag) and across the flow (lift)."""

    velocity: Vector = Field(description="of the air, m/s")
    gust: Annotated[Number, Field(ge=0, le=1)] = Field(
        default=0.0, description="variation of the speed: 0 steady, 1 between zero and twice the speed"
    )
    gust_period: Positive = Field(default=2.0, description="typical time from gust to gust, s")
    drag: NotNegative = Field(default=1.0, description="drag coefficient")
    lift: NotNegative = Field(default=0.5, description="lift coefficient")
    seed: Seed | None = Field(default=None, description="of the random gusts; default: the scene's")


class Forces(SceneModel):
    """Gravity, wind and air resistance."""

    gravity: Vector = Field(default=(0.0, -GRAVITY, 0.0), description="m/s^2; y is up")
    wind: Wind | None = Field(default=None, description="moving air; default: none")
    air_damping: NotNegative = Field(default=0.0, description="rate at which still air slows every vertex, 1/s")


Stitch = tuple[Index, Index, Index]


class Seam(SceneModel):
    """Vertices sewn to points of edges: a stitch (a, b, c) with weight w sews vertex a to the point (1 - w) b + w c."""

    file_fields = ("file",)

    cloth: Name = Field(description="the cloth of the vertices a")
    to: Name | None = Field(default=None, description="the cloth of the vertices b and c; default: the same")
    vertices: Annotated[tuple[Stitch, ...], Field(min_length=1), BeforeValidator(unwrap)] | None = Field(
        default=None, description="stitches, three vertex numbers each: a, b, c"
    )
    weights: Annotated[tuple[Annotated[Number, Field(ge=0, le=1)], ...], BeforeValidator(unwrap)] | None = Field(
        default=None, description="one weight a stitch, 0 at b and 1 at c; default: all 0, so that a is sewn to b"
    )
    file: FileName | None = Field(
        default=None,
        description="an npz file with the arrays `stitch_vertices` (k, 3) and `stitch_weight` (k), or the sewing pattern "
        "that the cloth is cut from (json), instead of vertices and weights",
    )
    kind: Literal["spring", "weld"] = Field(
        default="spring", description="springs of rest length zero, or both points kept at the same position"
    )
    stiffness: Positive | None = Field(
        default=None, description="of a spring, N/m; default: the stretch stiffness of the cloth"
    )
    closing: NotNegative = Field(
        default=0.0,
        description="time in which the seam is drawn together, s: the gap of every stitch shrinks evenly from what it is at "
        "the start; 0 pulls at once. For methods with position-based dynamics",
    )
    delay: NotNegative = Field(
        default=0.0, description="time before a seam with `closing` begins to close, s: until then it does not pull"
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
        if self.delay > 0.0 and self.closing == 0.0:
            raise ValueError("delay is for seams that close in time: give closing too")
        return self


class Garment(SceneModel):
    """A garment from a sewing pattern: a cloth of all its panels, and a seam with all its stitches.

    The panels stand where the pattern places them, and their seams close in time. `weft dress` puts a garment on a body.
    """

    pattern: FileName = Field(description="a sewing pattern: a GarmentCode specification, json")
    edge: Positive = Field(default=0.01, description="length of the edges of triangles, m")
    name: Name | None = Field(default=None, description="of the cloth; default: the name of the pattern")
    material: MaterialField = Field(default=MATERIALS["cotton"], description="the name of a preset, or a table")
    placement: Placement = Field(default=Placement(), description="moves all panels from where the pattern has them")
    closing: NotNegative = Field(default=1.0, description="time in which the seams close, s")
    colour: Colour | None = Field(default=None, description='for pictures, "#rrggbb"; default: chosen in turn')

    @model_validator(mode="after")
    def _check_pattern(self) -> "Garment":
        if not is_pattern(self.pattern):
            raise ValueError(f"pattern must be a json file, not {self.pattern!r}")
        return self

    def parts(self) -> tuple[Cloth, Seam]:
        """The cloth and the seam that the garment stands for."""
        name = self.name or PurePosixPath(self.pattern).stem.removesuffix("_specification")
        cloth = Cloth(
            name=name,
            mesh=self.pattern,
            edge=self.edge,
            material=self.material,
            placement=self.placement,
            colour=self.colour,
        )
        return cloth, Seam(cloth=name, file=self.pattern, closing=self.closing)


def _one_or_more(value: Any) -> Any:
    """A single garment as a list of one."""
    return (value,) if isinstance(value, Garment | Mapping) else value


Garments = Annotated[tuple[Garment, ...], BeforeValidator(_one_or_more)]


BroadPhase = Literal["bvh", "topology_tree", "material_tree", "octree", "kdtree", "brute"]


class Scene(SceneModel):
    """All settings of a simulation, validated, in SI units (m, kg, s); y is up."""

    toml_names: ClassVar[dict[str, str]] = {
        "cloths": "cloth",
        "colliders": "collider",
        "seams": "seam",
        "garments": "garment",
    }
    always_written = ("name", "fps", "frames")

    name: Name = Field(default="scene", description="shown in messages and pictures")
    fps: Annotated[Number, Field(ge=SLOWEST_FPS, le=FASTEST_FPS)] = Field(default=60.0, description="frames a second")
    frames: Annotated[Whole, Field(ge=1, lt=10**8)] = Field(default=120, description="how many frames are simulated")
    method: Method = Field(default=Guarded(), description="the name of a method, or a table with its name and options")
    device: Device = Field(default="cpu", description='"cpu", "cuda", or one of several GPUs: "cuda:1"')
    seed: Seed = Field(default=0, description="of all random numbers")
    thickness: Positive = Field(default=0.001, description="of cloth whose material gives none, m")
    check: Annotated[Whole, Field(ge=0)] = Field(
        default=1, description="count intersections every so many frames; 0: never"
    )
    broad_phase: BroadPhase | None = Field(
        default=None,
        description="how pairs of near triangles are found; octree and kdtree are for push; default: the usual one of the "
        "method, for most bvh",
    )
    forces: Forces = Field(default=Forces(), description="gravity, wind and air resistance")
    camera: Camera = Field(default=Camera(), description="from where pictures are taken")
    cloths: Annotated[tuple[Cloth, ...], BeforeValidator(one_or_more)] = Field(
        default=(), description="the pieces of cloth"
    )
    colliders: Annotated[tuple[Collider, ...], BeforeValidator(one_or_more)] = Field(
        default=(), description="the bodies that the cloth collides with"
    )
    seams: Annotated[tuple[Seam, ...], BeforeValidator(one_or_more)] = Field(
        default=(), description="where cloth is sewn to cloth"
    )
    garments: Garments = Field(
        default=(), description="garments from sewing patterns, one or several; each becomes a cloth and a seam"
    )

    # the folder of relative file names and the name of the scene in messages; neither belongs to the settings
    _base: Path = PrivateAttr(default=Path())
    _source: str = PrivateAttr(default="")

    @property
    def base(self) -> Path:
        """The folder that file names in the scene are relative to."""
        return self._base

    @property
    def source(self) -> str:
        """The file the scene was read from, for messages; empty for a scene made in Python."""
        return self._source

    def __repr__(self) -> str:
        from weft.scene.scene import scene_tree

        return scene_tree(self)

    __str__ = __repr__

    def at(self, base: str | Path, source: str = "") -> Self:
        """The same scene with file names relative to another folder."""
        moved = self.model_copy()
        moved._base, moved._source = Path(base), source
        return moved

    def problem(self, key: Key, text: str) -> str:
        """A message about a key of this scene, spelt as in the file where there is one."""
        names = self.toml_names if self._source else {}
        return problem(self._source, (names.get(str(key[0]), key[0]), *key[1:]) if key else (), text)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        return super().replace(**changes).at(self._base, self._source)

    def __eq__(self, other: object) -> bool:
        """Two scenes are equal when all settings are equal, whatever files they come from."""
        if not isinstance(other, Scene):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    @model_validator(mode="after")
    def _take_garments_apart(self) -> "Scene":
        """Each garment as the cloth and the seam that it stands for: everything else knows only these."""
        if self.garments:
            parts = [garment.parts() for garment in self.garments]
            changes: dict[str, Any] = {
                "cloths": (*self.cloths, *(cloth for cloth, _ in parts)),
                "seams": (*self.seams, *(seam for _, seam in parts)),
                "garments": (),
            }
            self.__dict__.update(changes)
            self.__pydantic_fields_set__.update(("cloths", "seams"))
            self.__pydantic_fields_set__.discard("garments")
        return self

    @model_validator(mode="after")
    def _name_bodies(self) -> "Scene":
        """Bodies that nobody named: `collider`, `collider2`, `collider3`, ... in their order."""
        bodies: tuple[Cloth | Collider, ...] = (*self.cloths, *self.colliders)
        taken = {body.name for body in bodies if "name" in body.model_fields_set}

        def named(body: _Body) -> _Body:
            if "name" in body.model_fields_set:
                return body
            numbered = (body.name if count == 1 else f"{body.name}{count}" for count in itertools.count(1))
            name = next(name for name in numbered if name not in taken)
            taken.add(name)
            return body if name == body.name else body.model_copy(update={"name": name})

        self.__dict__.update(
            cloths=tuple(named(cloth) for cloth in self.cloths), colliders=tuple(named(body) for body in self.colliders)
        )
        return self

    @model_validator(mode="after")
    def _check_names(self) -> "Scene":
        found = [*self._repeated_names(), *self._unknown_names(), *self._unmodelled(), *self._closing_seams()]
        options = self.method.mistakes([cloth.name for cloth in self.cloths], [body.name for body in self.colliders])
        found += [(("method", *key), text) for key, text in options]
        if found:
            raise mistakes("Scene", found)
        return self

    def _unmodelled(self) -> Iterator[tuple[Key, str]]:
        """What materials say explicitly that the method does not model."""
        for i, cloth in enumerate(self.cloths):
            for key, feature in cloth.unusual().items():
                if feature not in self.method.models:
                    others = methods_that_model(feature)
                    which = f"; use {' or '.join(others)}" if others else ""
                    yield ("cloths", i, *key), f"{FEATURES[feature]} is not modelled by {self.method.name!r}{which}"

    def _repeated_names(self) -> Iterator[tuple[Key, str]]:
        """Bodies with the name of an earlier one."""
        seen: dict[str, str] = {}
        bodies = [("cloths", i, b.name) for i, b in enumerate(self.cloths)]
        bodies += [("colliders", i, b.name) for i, b in enumerate(self.colliders)]
        for kind, i, name in bodies:
            if name in seen:
                yield (kind, i, "name"), f"{name!r} is already the name of {seen[name]}; each body needs its own"
            seen.setdefault(name, f"{kind.removesuffix('s')} {i}")

    def _unknown_names(self) -> Iterator[tuple[Key, str]]:
        """Seams that name cloths which do not exist."""
        names = [cloth.name for cloth in self.cloths]
        for i, seam in enumerate(self.seams):
            for key in ("cloth", "to"):
                name = getattr(seam, key)
                if name is not None and name not in names:
                    yield ("seams", i, key), unknown("cloth", name, names)

    def _closing_seams(self) -> Iterator[tuple[Key, str]]:
        """Seams that are drawn together in time, with dynamics that cannot do that."""
        dynamics = getattr(self.method, "dynamics", None)
        for i, seam in enumerate(self.seams):
            if seam.closing > 0.0 and dynamics != "position_based":
                how = f"{self.method.name!r}" if dynamics is None else f"dynamics = {dynamics!r}"
                yield ("seams", i, "closing"), f"{how} cannot draw seams together in time; use guarded or robust"


def check_scene(value: Any) -> None:
    """Refuse what is no scene, and say what to give instead."""
    if isinstance(value, Scene):
        return
    hint = ": make a scene of it with weft.Scene(**table)" if isinstance(value, dict) else ""
    raise SceneError(f"a scene is a weft.Scene or the name of a TOML file, not a {type(value).__name__}{hint}")


def scene_tree(scene: Any) -> str:
    """The scene in a line, and below it a line for each body, seam and force."""
    length = f"{scene.frames:,} frames at {scene.fps:g}/s ({scene.frames / scene.fps:.3g} s)"
    head = f"Scene {scene.name!r}: {length}, {scene.method.name} on {scene.device}"
    lines = [f"cloth {cloth.name}: {_cloth(cloth)}" for cloth in scene.cloths]
    lines += [f"collider {body.name}: {_collider(body)}" for body in scene.colliders]
    for seam in scene.seams:
        stitches = f"{len(seam.vertices):,} stitches" if seam.vertices is not None else str(seam.file)
        lines.append(f"seam {seam.cloth} to {seam.to or 'itself'}: {stitches}, {seam.kind}")
    wind = scene.forces.wind
    if wind is not None:
        lines.append(f"wind {_vector(wind.velocity)} m/s")
    if scene.forces.gravity != (0.0, -GRAVITY, 0.0):
        lines.append(f"gravity {_vector(scene.forces.gravity)} m/s^2")
    marks = ["├─ "] * (len(lines) - 1) + ["└─ "] * bool(lines)
    return "\n".join([head, *(mark + line for mark, line in zip(marks, lines, strict=True))])


def _cloth(cloth: Cloth) -> str:
    pins = f", {len(cloth.pins)} pin{'s' * (len(cloth.pins) != 1)}" if cloth.pins else ""
    return f"{_source(cloth)}, {cloth.material.preset}{_place(cloth)}{pins}"


def _collider(body: Collider) -> str:
    motion = "" if body.motion.kind == "still" else f", {body.motion.kind}"
    return f"{_source(body)}{_place(body)}{motion}"


def _source(body: Cloth | Collider) -> str:
    if body.shape is not None:
        return _shape(body.shape)
    if isinstance(body.mesh, TriMesh):
        return f"mesh of {len(body.mesh.vertices):,} vertices, {len(body.mesh.faces):,} triangles"
    part = f" ({body.object})" if body.object else ""
    return f"{body.mesh}{part}" if body.mesh is not None else "the mesh of its sequence"


def _shape(shape: AnyShape) -> str:
    """The kind of a shape and its lengths."""
    sizes = []
    for name in ("size", "length", "width", "radius", "height"):
        value = getattr(shape, name, None)
        if value is not None:
            text = " x ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}"
            sizes.append(f"{text} m" if name == "size" else f"{name} {text} m")
    return " ".join([shape.kind, ", ".join(sizes)])


def _place(body: Cloth | Collider) -> str:
    return f" at {_vector(body.placement.position)}" if any(body.placement.position) else ""


def _vector(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{v:g}" for v in values) + ")"

"""The scene: everything the user says about a simulation."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from weft.scene.camera import Camera
from weft.scene.cloth import Cloth
from weft.scene.collider import Collider
from weft.scene.fields import Device, Name, Positive, Seed, Whole
from weft.scene.forces import Forces
from weft.scene.messages import mistakes, problem, unknown
from weft.scene.methods import Method, Robust
from weft.scene.part import Part
from weft.scene.seam import Seam

BroadPhase = Literal["bvh", "topology_tree", "material_tree", "octree", "kdtree", "brute"]


class Scene(Part):
    """Everything the user says about a simulation, validated, in SI units (m, kg, s); y is up."""

    toml_names: ClassVar[dict[str, str]] = {"cloths": "cloth", "colliders": "collider", "seams": "seam"}
    always_written = ("name", "fps", "frames")

    name: Name = Field(default="scene", description="for people")
    fps: Positive = Field(default=60.0, description="frames a second")
    frames: Annotated[Whole, Field(ge=1)] = Field(default=120, description="how many frames are simulated")
    method: Method = Field(default=Robust(), description="the name of a method, or a table with its name and options")
    device: Device = Field(default="cpu", description='"cpu", "cuda", or one of several cards: "cuda:1"')
    seed: Seed = Field(default=0, description="of everything random")
    thickness: Positive = Field(default=0.001, description="of cloth whose material does not say, m")
    check: Annotated[Whole, Field(ge=0)] = Field(
        default=1, description="count intersections every so many frames; 0: never"
    )
    broad_phase: BroadPhase = Field(
        default="bvh", description="how near pairs are found; octree and kdtree may miss some"
    )
    forces: Forces = Field(default=Forces(), description="what pulls and blows")
    camera: Camera = Field(default=Camera(), description="from where pictures are taken")
    cloths: tuple[Cloth, ...] = Field(default=(), description="the pieces of cloth")
    colliders: tuple[Collider, ...] = Field(default=(), description="the bodies that the cloth meets")
    seams: tuple[Seam, ...] = Field(default=(), description="where cloth is sewn to cloth")

    # where relative file names start and what messages call the scene; neither is part of what the scene says
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

    def at(self, base: str | Path, source: str = "") -> Self:
        """The same scene with file names relative to another folder."""
        moved = self.model_copy()
        moved._base, moved._source = Path(base), source
        return moved

    def problem(self, key: tuple[str | int, ...], text: str) -> str:
        """A message about a key of this scene, spelt as in the file where there is one."""
        names = self.toml_names if self._source else {}
        return problem(self._source, (names.get(str(key[0]), key[0]), *key[1:]) if key else (), text)

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed, validated like a new one."""
        return super().replace(**changes).at(self._base, self._source)

    def __eq__(self, other: object) -> bool:
        """Two scenes are equal when they say the same, wherever they were read."""
        if not isinstance(other, Scene):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    @model_validator(mode="after")
    def _check_names(self) -> "Scene":
        found = [*self._repeated_names(), *self._unknown_names()]
        options = self.method.mistakes([cloth.name for cloth in self.cloths], [body.name for body in self.colliders])
        found += [(("method", *key), text) for key, text in options]
        if found:
            raise mistakes("Scene", found)
        return self

    def _repeated_names(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Bodies that are called like an earlier one."""
        seen: dict[str, str] = {}
        bodies = [("cloths", i, b.name) for i, b in enumerate(self.cloths)]
        bodies += [("colliders", i, b.name) for i, b in enumerate(self.colliders)]
        for kind, i, name in bodies:
            if name in seen:
                yield (kind, i, "name"), f"{name!r} is already the name of {seen[name]}; each body needs its own"
            seen.setdefault(name, f"{kind.removesuffix('s')} {i}")

    def _unknown_names(self) -> Iterator[tuple[tuple[str | int, ...], str]]:
        """Seams of cloths that are not there."""
        names = [cloth.name for cloth in self.cloths]
        for i, seam in enumerate(self.seams):
            for key in ("cloth", "to"):
                name = getattr(seam, key)
                if name is not None and name not in names:
                    yield ("seams", i, key), unknown("cloth", name, names)

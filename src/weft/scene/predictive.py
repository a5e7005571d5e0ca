"""The options of the method `predictive`: how contacts are found, regions and layers, and what the cloth follows."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from weft.scene.fields import BoundVector, Count, FileName, Flag, Indices, Name, NotNegative, Number, Positive, unwrap
from weft.scene.messages import mistakes, unknown
from weft.scene.methods import Key, MethodOptions
from weft.scene.motion import Motion, Still
from weft.scene.part import Part
from weft.scene.pin import Boundary, Pin


class ChoicePart(Part):
    """Vertices of a cloth: chosen by index, by a box or by a boundary, or all of them."""

    cloth: Name = Field(description="the cloth that the vertices belong to")
    indices: Annotated[Indices, Field(min_length=1)] | None = Field(default=None, description="vertex numbers, from 0")
    box: tuple[BoundVector, BoundVector] | None = Field(
        default=None, description="all vertices in a box, as for a pin; default: the whole cloth"
    )
    boundary: Boundary | None = Field(default=None, description="a side of the cloth, as for a pin")

    @model_validator(mode="after")
    def _check_choice(self) -> "ChoicePart":
        given = [n for n in ("indices", "box", "boundary") if getattr(self, n) is not None]
        if len(given) > 1:
            raise ValueError(f"needs one of indices, box and boundary, or none of them, and has {' and '.join(given)}")
        self.choice()
        return self

    def choice(self) -> Pin | None:
        """The choice as a pin makes it; None for the whole cloth."""
        given = {n: getattr(self, n) for n in ("indices", "box", "boundary") if getattr(self, n) is not None}
        return Pin.model_validate(given) if given else None


class Region(ChoicePart):
    """A group of vertices with a name, for the table of who collides with whom and for the order of layers.

    A triangle belongs to the region of most of its vertices. Each cloth is a region under its own name; what belongs to
    other regions too belongs to the last of them.
    """

    always_written = ("name",)

    name: Name = Field(description="no two regions and cloths have the same name")


class Follow(ChoicePart):
    """Springs from vertices to where an animation has them, so that cloth keeps close to a pose or a clip."""

    motion: Motion = Field(default=Still(), description="the animation, from where the vertices are placed")
    frequency: NotNegative = Field(
        default=2.0, description="how fast a vertex alone would swing on its spring, Hz; 0: no spring, only the reach"
    )
    damping: NotNegative = Field(
        default=1.0, description="damping of that swing: 0 none, 1 critical, so that it comes to rest at once"
    )
    reach: Positive | None = Field(
        default=None, description="how far from the animation a vertex may ever be, m; default: without limit"
    )


class Predictive(MethodOptions):
    """Lewin 2018: real-time cloth; what may come into contact is found once a step and kept apart in every sweep."""

    file_fields = ("cache_pose",)

    name: Literal["predictive"] = "predictive"
    steps: Count = Field(default=1, description="steps a frame; contacts are found at the start of each")
    substeps: Count | None = Field(
        default=None,
        description="parts of a step, each solved by `iterations` sweeps; default: enough for cloth that hangs freely "
        "not to sag visibly, at least 4",
    )
    most_substeps: Count | None = Field(
        default=None,
        description="where an edge is stretched by more than three quarters, a step has more substeps, up to so many; default: "
        "always the same number",
    )
    iterations: Count = Field(default=1, description="sweeps of Gauss-Seidel in each substep")
    self_contacts: Literal["triangles", "points", "none"] = Field(
        default="triangles",
        description="contacts of cloth with cloth: vertices with triangles and edges with edges, vertices with "
        "vertices, or none",
    )
    static_radius: Positive | None = Field(
        default=None,
        description="contacts are made for what is nearer than the thickness and this, or will be, m; default: half "
        "the mean length of the edges, at least the thickness",
    )
    predict: Flag = Field(
        default=True,
        description="find contacts for where the cloth goes without them, which a first run of a quarter of the substeps "
        "tells; else for where its velocity and gravity lead",
    )
    push_speed: Positive = Field(default=5.0, description="how fast what has been forced through comes back, m/s")
    attachments: Flag = Field(
        default=True, description="keep each vertex within its distance at rest from the pins: less sagging for free"
    )
    attachment_reach: Annotated[Number, Field(ge=1)] | None = Field(
        default=None,
        description="what attachments allow, in distances at rest; default: what five times its weight would do to "
        "the material, at least 1.01",
    )
    cache: Flag = Field(
        default=False, description="find the contacts of cloth with cloth once, and solve the same ones in every step"
    )
    cache_pose: FileName | None = Field(
        default=None,
        description="npz file with an array `positions`, the vertices of all cloths in the pose in which the cached "
        "contacts are found; default: the start of the scene",
    )
    cache_radius: Positive | None = Field(
        default=None, description="how near cloth is in that pose to be cached, m; default: `static_radius`"
    )
    regions: tuple[Region, ...] = Field(default=(), description="groups of vertices")
    collide: Annotated[tuple[tuple[Name, Name], ...], BeforeValidator(unwrap)] | None = Field(
        default=None,
        description="pairs of regions that collide; a region twice for itself; default: all of them with all",
    )
    layers: tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...] = Field(
        default=(),
        description="lists of regions in the order in which they lie: each on the side of the one before it that the "
        "normals of its triangles point to",
    )
    follow: tuple[Follow, ...] = Field(default=(), description="springs to an animation")

    @model_validator(mode="after")
    def _check_layers(self) -> "Predictive":
        found: list[tuple[Key, str]] = []
        above: dict[tuple[str, str], int] = {}
        for i, names in enumerate(self.layers):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                found.append((("layers", i), f"{twice[0]!r} stands twice in one order"))
            for lower, upper in combinations(names, 2):
                if (upper, lower) in above:
                    j = above[upper, lower]
                    found.append((("layers", i), f"{upper!r} lies over {lower!r} here, and under it in layers[{j}]"))
                above.setdefault((lower, upper), i)
        if not self.cache and (self.cache_pose is not None or self.cache_radius is not None):
            key = "cache_pose" if self.cache_pose is not None else "cache_radius"
            found.append(((key,), "is for cached contacts: say cache = true as well"))
        if self.cache and self.self_contacts == "points":
            found.append((("cache",), "is for contacts with triangles: contacts of points say nothing in another pose"))
        if found:
            raise mistakes("Predictive", found)
        return self

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """Names of cloths and regions that are not there, and names that two of them have."""
        known = list(cloths)
        for i, region in enumerate(self.regions):
            if region.cloth not in cloths:
                yield ("regions", i, "cloth"), unknown("cloth", region.cloth, cloths)
            if region.name in known:
                yield ("regions", i, "name"), f"{region.name!r} is already the name of a cloth or region"
            else:
                known.append(region.name)
        for i, follow in enumerate(self.follow):
            if follow.cloth not in cloths:
                yield ("follow", i, "cloth"), unknown("cloth", follow.cloth, cloths)
        for key in ("collide", "layers"):
            for i, names in enumerate(getattr(self, key) or ()):
                for j, name in enumerate(names):
                    if name not in known:
                        yield (key, i, j), unknown("region", name, known)

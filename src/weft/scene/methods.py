"""The options of each method, one class a method.

A new method adds one class here; scenes, TOML files and the documentation then know it by its `name`.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationInfo, model_validator

from weft.scene.bodies import SELECTORS, Boundary, Factors, Pin
from weft.scene.material import FEATURES
from weft.scene.messages import Key, mistakes, shown, suggest, unknown
from weft.scene.model import (
    BoundVector,
    FileName,
    Flag,
    Indices,
    LoopCount,
    Name,
    NotNegative,
    Number,
    Positive,
    SceneModel,
    Whole,
    read_choice,
    unwrap,
)
from weft.scene.motion import Motion, Still

Dynamics = Literal["mass_spring", "position_based", "implicit"]
_TRIANGLES = frozenset(FEATURES)


class MethodOptions(SceneModel):
    """The options of a method; `name` says which."""

    always_written = ("name",)
    known: ClassVar[dict[str, type["MethodOptions"]]] = {}

    name: str

    @property
    def models(self) -> frozenset[str]:
        """Which features of materials (see `material.FEATURES`) these options model; a scene with others is refused.

        They are features of triangles, which position-based and implicit dynamics have.
        """
        return _TRIANGLES if getattr(self, "dynamics", None) in ("position_based", "implicit") else frozenset()

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        MethodOptions.known[cls.model_fields["name"].default] = cls

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """Mistakes of these options in a scene with these cloths and colliders: key and message of each."""
        return iter(())

    def plain(self) -> Any:
        """The plain table, or only the name where all options have their defaults."""
        table = super().plain()
        return self.name if len(table) == 1 else table


def methods_that_model(feature: str) -> list[str]:
    """The names of the methods that model a feature of materials with their default options."""
    return [name for name, options in MethodOptions.known.items() if feature in options.model_validate({}).models]


class Plain(MethodOptions):
    """Internal dynamics only: gravity, wind, springs, pins; nothing is done about contact."""

    name: Literal["plain"] = "plain"
    dynamics: Dynamics = Field(
        default="position_based",
        description="the model of the cloth: mass_spring (explicit, small steps), position_based (fast) or implicit "
        "(Baraff and Witkin 1998, whole frames a step)",
    )


class Robust(MethodOptions):
    """Bridson, Fedkiw and Anderson 2002: cloth that starts free of intersections stays free of them."""

    name: Literal["robust"] = "robust"
    dynamics: Dynamics = Field(default="position_based", description="the model of the cloth between collisions")
    steps: LoopCount = Field(default=6, description="collision steps a frame while nothing goes wrong")
    halvings: Annotated[Whole, Field(ge=0, le=10)] = Field(
        default=3, description="how often a step that collides may be halved before impact zones resolve it"
    )
    strain_limit: Annotated[Number, Field(gt=0, lt=1)] = Field(
        default=0.1,
        description="how far an edge may end a step from its rest length, and how much a step may change its length",
    )
    end_velocity: Literal["carried", "implicit"] = Field(
        default="carried",
        description="the velocity of cloth that touched something: carried (what the dynamics propose, changed as contacts "
        "changed the motion) or implicit (the average velocity of the step and an implicit half step of all springs)",
    )
    sweeps: LoopCount = Field(default=16, description="sweeps of Gauss-Seidel over the contacts after the dynamics")


class Guarded(Robust):
    """Free pairs stay free, crossing pairs are parted: accepts tangled starts, and lets go only what moving bodies force."""

    name: Literal["guarded"] = "guarded"  # type: ignore[assignment]


def _choose_method(value: Any, info: ValidationInfo) -> Any:
    known = MethodOptions.known
    if isinstance(value, str):
        if value not in known:
            raise ValueError(f"no method is called {shown(value)}, {suggest(value, list(known))}")
        return known[value].model_validate({}, context=info.context)
    if value is None or not isinstance(value, SceneModel | Mapping):
        raise ValueError(f"must be the name of a method or a table with the key 'name', not {shown(value)}")
    return read_choice(value, info, "name", known)


Method = Annotated[SerializeAsAny[MethodOptions], BeforeValidator(_choose_method)]


class Boxes(MethodOptions):
    """Liu, Ko and Chang 1998: grids whose triangles keep out of each other's boxes."""

    name: Literal["boxes"] = "boxes"
    steps: LoopCount = Field(default=10, description="steps a frame")
    avoid: Literal["boxes", "triangles"] = Field(
        default="boxes",
        description="keep boxes apart by planes, or hold vertices of triangles whose boxes overlap (older; cloth sticks)",
    )
    search: Literal["material_tree", "topology_tree", "bvh", "brute"] | None = Field(
        default=None,
        description="how overlapping boxes are found; all find the same pairs; default: the scene's `broad_phase`, or else "
        "material_tree (on a GPU bvh)",
    )
    runs: LoopCount = Field(
        default=8, description="rounds of solving and searching before all planes go back to where the step started"
    )


class Push(MethodOptions):
    """Vertices too close to a triangle are moved away by small constant moves: simple, without any guarantee."""

    name: Literal["push"] = "push"
    integrator: Literal["euler", "midpoint", "trapezoid", "runge_kutta"] = Field(
        default="trapezoid", description="how the springs are stepped, all explicit: of order 1, 2, 2, 4"
    )
    search: Literal["octree", "kdtree", "brute"] | None = Field(
        default=None,
        description="how near triangles are found; octree misses those behind the walls of its cells; default: the scene's "
        "`broad_phase`, or else kdtree",
    )
    search_cloth: Literal["octree", "kdtree", "brute"] | None = Field(
        default=None, description="the same for the triangles of cloth alone; default: as for those of colliders"
    )
    against: Literal["both", "mesh", "cloth"] = Field(
        default="both", description="what pushes: the triangles of colliders (mesh), of cloth, or both"
    )
    close: Positive = Field(default=0.01, description="nearer than this a vertex is moved away, m")
    moves: LoopCount = Field(
        default=1, description="moves of close/16 a step, at most; many at once throw the cloth about"
    )
    steps: LoopCount | None = Field(
        default=None, description="steps a frame while no step has to be halved; default: as many as the springs need"
    )
    halvings: Annotated[Whole, Field(ge=0, le=20)] = Field(
        default=8,
        description="how often a step may be halved when a vertex moves farther than half of `close`, or would in the next",
    )
    largest_stretch: NotNegative = Field(
        default=0.1, description="edges longer than this, relative to rest, are shortened after a step; 0: never"
    )
    largest_face: Positive | None = Field(
        default=None,
        description="triangles of colliders are split until no corner is farther from the middle, m; default: 2 close",
    )


class Flypaper(SceneModel):
    """The weight of one collider among those that pinch cloth: how much the cloth moves with it."""

    collider: Name = Field(description="the collider that has this weight")
    weight: NotNegative = Field(
        default=1.0, description="relative to those of other colliders: 1 and 9 are 10 % and 90 %"
    )
    map: tuple[NotNegative, ...] | None = Field(
        default=None, description="factors of the weight, one for each vertex of all cloths; default: 1 everywhere"
    )
    surface: Factors | None = Field(
        default=None,
        description="factors of the weight at the collider's own vertices: one number for each, or the name of a vertex "
        "attribute of its mesh; default: 1 everywhere",
    )


class Untangle(MethodOptions):
    """Baraff, Witkin and Kass 2003: implicit cloth that resolves tangles and does not flutter where it is pinched."""

    name: Literal["untangle"] = "untangle"
    steps: LoopCount | None = Field(
        default=None, description="steps a frame; default: as many as make them 1/60 s at most"
    )
    begin: NotNegative = Field(default=0.0, description="time before which contacts between cloths are ignored, s")
    attract: Flag = Field(
        default=True, description="pull back cloth that has passed through; otherwise all near cloth is pushed apart"
    )
    pinch: Flag = Field(
        default=True, description="move pinched cloth with what pinches it; otherwise it jitters between contacts"
    )
    depth: Positive = Field(
        default=0.05, description="how deep inside a collider cloth is still pushed out, or held if pinched, m"
    )
    flypaper: tuple[Flypaper, ...] = Field(default=(), description="weights of colliders; all others have 1")

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """Names of colliders that do not exist."""
        for i, flypaper in enumerate(self.flypaper):
            if flypaper.collider not in colliders:
                yield ("flypaper", i, "collider"), unknown("collider", flypaper.collider, colliders)

    @property
    def models(self) -> frozenset[str]:
        return _TRIANGLES


class VertexSelection(SceneModel):
    """Vertices of a cloth, selected by index, by a box, by a boundary or by a group, or all of them."""

    cloth: Name = Field(description="the cloth that the vertices belong to")
    indices: Annotated[Indices, Field(min_length=1)] | None = Field(default=None, description="vertex numbers, from 0")
    box: tuple[BoundVector, BoundVector] | None = Field(
        default=None, description="all vertices in a box, as for a pin; default: the whole cloth"
    )
    boundary: Boundary | None = Field(default=None, description="a side of the cloth, as for a pin")
    group: Name | None = Field(default=None, description="a vertex group of the mesh, as for a pin")

    @model_validator(mode="after")
    def _check_choice(self) -> "VertexSelection":
        self.as_pin()
        return self

    def as_pin(self) -> Pin | None:
        """The selection as a pin, whose vertices can be resolved; None for the whole cloth."""
        given = {n: getattr(self, n) for n in SELECTORS if getattr(self, n) is not None}
        if len(given) > 1:
            has = " and ".join(given)
            raise ValueError(f"needs one of indices, box, boundary and group, or none of them, and has {has}")
        return Pin.model_validate(given) if given else None


class Region(VertexSelection):
    """A named group of vertices, for `collide` (which regions collide) and `layers` (their order).

    A triangle belongs to the region of most of its vertices. Each cloth is a region under its own name; a vertex in several
    regions belongs to the last of them.
    """

    always_written = ("name",)

    name: Name = Field(description="no two regions and cloths have the same name")


class Follow(VertexSelection):
    """Springs from vertices to their positions in an animation, so that cloth stays close to a pose or a clip."""

    motion: Motion = Field(default=Still(), description="the animation, from where the vertices are placed")
    frequency: NotNegative = Field(
        default=2.0, description="frequency of a single vertex on its spring, Hz; 0: no spring, only the reach"
    )
    damping: NotNegative = Field(default=1.0, description="damping ratio of that oscillation: 0 none, 1 critical")
    reach: Positive | None = Field(
        default=None, description="largest distance of a vertex from the animation, m; default: without limit"
    )


def all_over(name: str, over: Mapping[str, set[str]]) -> set[str]:
    """All regions that lie over one, directly or through others."""
    found, waiting = set[str](), [name]
    while waiting:
        new = over.get(waiting.pop(), set()) - found
        found |= new
        waiting += new
    return found


class Predictive(MethodOptions):
    """Lewin 2018: real-time cloth; possible contacts are found once a step and solved in every sweep of that step."""

    file_fields = ("cache_pose",)

    name: Literal["predictive"] = "predictive"
    steps: LoopCount = Field(default=1, description="steps a frame; contacts are found at the start of each")
    substeps: LoopCount | None = Field(
        default=None,
        description="substeps of a step; default: each at most 1/720 s, 1/2160 s where bending is stiff",
    )
    most_substeps: LoopCount | None = Field(
        default=None,
        description="a step has twice its substeps while an edge is stretched by half of its length, three times at all of "
        "it, and so on, up to this many; default: always the same number",
    )
    iterations: LoopCount = Field(default=1, description="sweeps over the contacts in each substep")
    self_contacts: Literal["triangles", "points", "none"] = Field(
        default="triangles",
        description="contacts of cloth with cloth: vertices with triangles and edges with edges, vertices with "
        "vertices, or none",
    )
    static_radius: Positive | None = Field(
        default=None,
        description="contacts are made for pairs that are, or will be, nearer than the thickness plus this, m; default: half "
        "the mean length of the edges, at least the thickness",
    )
    predict: Flag = Field(
        default=True,
        description="find contacts for the predicted motion of a first pass without contacts, of a quarter of the substeps; "
        "otherwise for the motion by velocity and gravity alone",
    )
    push_speed: Positive = Field(
        default=1.0, description="speed at which cloth that was forced through comes back, m/s"
    )
    attachments: Flag = Field(
        default=True, description="limit the distance of each vertex from the pins: cloth that is jerked stretches less"
    )
    attachment_reach: Annotated[Number, Field(ge=1)] | None = Field(
        default=None,
        description="the limit of attachments as a multiple of the distance at rest; default: the stretch of the material "
        "under five times its weight, at least 1.01",
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
        default=None,
        description="largest distance in that pose of a contact that is cached, m; default: `static_radius`",
    )
    regions: tuple[Region, ...] = Field(default=(), description="groups of vertices")
    collide: Annotated[tuple[tuple[Name, Name], ...], BeforeValidator(unwrap)] | None = Field(
        default=None,
        description="pairs of regions that collide; a region twice for itself; default: all of them with all",
    )
    layers: tuple[Annotated[tuple[Name, ...], Field(min_length=2)], ...] = Field(
        default=(),
        description="lists of regions in the order in which they lie: each on the side of the one before it that the "
        "normals of its triangles point to; a under b and b under c also means a under c",
    )
    follow: tuple[Follow, ...] = Field(default=(), description="springs to an animation")

    @property
    def models(self) -> frozenset[str]:
        return _TRIANGLES - {"stretch_limit"}

    @model_validator(mode="after")
    def _check_layers(self) -> "Predictive":
        found: list[tuple[Key, str]] = []
        over: dict[str, set[str]] = {}
        for i, names in enumerate(self.layers):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                found.append((("layers", i), f"{twice[0]!r} stands twice in one order"))
            for lower, upper in combinations(names, 2):
                if lower != upper and lower in all_over(upper, over):
                    text = f"{upper!r} lies over {lower!r} here, and under it by the layers before: they go round in a circle"
                    found.append((("layers", i), text))
                    break
                over.setdefault(lower, set()).add(upper)
        if not self.cache and (self.cache_pose is not None or self.cache_radius is not None):
            key = "cache_pose" if self.cache_pose is not None else "cache_radius"
            found.append(((key,), "is for cached contacts: say cache = true as well"))
        if self.cache and self.self_contacts == "points":
            found.append((("cache",), "is for contacts with triangles: contacts of points say nothing in another pose"))
        if found:
            raise mistakes("Predictive", found)
        return self

    def mistakes(self, cloths: Sequence[str], colliders: Sequence[str]) -> Iterator[tuple[Key, str]]:
        """Names of cloths and regions that do not exist, and names that are given twice."""
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

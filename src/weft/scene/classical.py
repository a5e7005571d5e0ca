"""The options of the two classical methods, `boxes` and `push`."""

from typing import Annotated, Literal

from pydantic import Field

from weft.scene.fields import Count, NotNegative, Positive, Whole
from weft.scene.methods import MethodOptions


class Boxes(MethodOptions):
    """Liu, Ko and Chang 1998: grids whose triangles keep out of each other's boxes."""

    name: Literal["boxes"] = "boxes"
    steps: Count = Field(default=10, description="steps a frame")
    avoid: Literal["boxes", "triangles"] = Field(
        default="boxes",
        description="keep boxes apart by planes, or hold the vertices of triangles that meet (older, and it sticks)",
    )
    search: Literal["material_tree", "topology_tree", "bvh", "brute"] = Field(
        default="material_tree", description="how boxes that meet are found; all find the same"
    )
    runs: Count = Field(
        default=8, description="runs of solving and looking before all planes go where the step started"
    )


class Push(MethodOptions):
    """Vertices too close to a triangle are moved away by small constant moves: simple, and it promises nothing."""

    name: Literal["push"] = "push"
    integrator: Literal["euler", "midpoint", "trapezoid", "runge_kutta"] = Field(
        default="trapezoid", description="how the springs are stepped, all explicit: of order 1, 2, 2, 4"
    )
    search: Literal["octree", "kdtree", "brute"] = Field(
        default="kdtree", description="how near triangles are found; octree misses those behind the walls of its cells"
    )
    against: Literal["both", "mesh", "cloth"] = Field(
        default="both", description="what pushes: the triangles of colliders (mesh), of cloth, or both"
    )
    close: Positive = Field(default=0.01, description="nearer than this a vertex is moved away, m")
    moves: Count = Field(default=1, description="moves of close/16 a step, at most; many at once throw the cloth about")
    steps: Count | None = Field(
        default=None, description="steps a frame while all goes well; default: as many as the springs need"
    )
    halvings: Annotated[Whole, Field(ge=0, le=20)] = Field(
        default=8, description="how often a step may be halved when a vertex moves farther than half of `close`"
    )
    largest_stretch: NotNegative = Field(
        default=0.1, description="edges longer than this, relative to rest, are shortened after a step; 0: never"
    )
    largest_face: Positive | None = Field(
        default=None,
        description="triangles of colliders are split until no corner is farther from the middle, m; default: 2 close",
    )

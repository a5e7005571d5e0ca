"""Broad phases: from all triangles to the few pairs of features that can touch during a step.

One interface, six ways to search, chosen by name with `make_broad_phase`. What `bvh`, `topology_tree`, `material_tree`
and `brute` list is the same to the last entry, in the same order: exactly the pairs whose boxes overlap. `octree` and
`kdtree` find less; see `docs/detection.md`.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy.typing as npt
import warp as wp

from weft.broad_phase.boxes import Boxes
from weft.broad_phase.patches import Patches
from weft.errors import WeftError
from weft.runtime.readback import read
from weft.world import Surface


class Candidates(NamedTuple):
    """Pairs of features whose boxes overlap, without those that share a vertex; each pair once.

    The arrays are views of buffers that the broad phase uses again: they hold until its next `feature_pairs`.
    """

    vertex_triangle: wp.array
    """vec2i (vertex, face)"""
    edge_edge: wp.array
    """vec2i (edge, edge), the smaller index first"""


class BroadPhase(ABC):
    """Finds pairs that can touch while the vertices move straight from `start` to `end`.

    A vertex or an edge belongs to the body of the triangle that owns it, and only features of bodies that the
    surface's table lets interact are paired.
    """

    name: ClassVar[str]
    exact: ClassVar[bool] = True
    """whether every pair whose boxes overlap is listed"""
    looks_at_once = True
    """whether an update looks at once for positions that cannot be used; else the search does"""

    def __init__(self, surface: Surface, patches: Patches) -> None:
        self.surface = surface
        self.device = surface.device
        self.patches = patches
        self.boxes = Boxes(surface, patches)

    def update(
        self,
        start: wp.array,
        end: wp.array,
        margin: float = 0.0,
        *,
        follow: bool = True,
        adaptive_margin: wp.array | None = None,
    ) -> None:
        """Take new positions (vec3d); `start` may be `end`.

        What comes nearer than `margin` at any time is listed. With `follow`, boxes are swept in a frame that moves with
        the mean displacement, which makes them smaller and loses nothing. With a `adaptive_margin` (float64), vertices may end
        farther off by that much.
        """
        self._start_afresh(margin)
        self.boxes.update(start, end, margin, follow=follow, adaptive_margin=adaptive_margin)
        if self.patches.count:
            if self.looks_at_once:
                self.boxes.check(read(self.boxes.flag)[0][0])
            self._prepare(start, end, margin)

    def _start_afresh(self, margin: float) -> None:  # noqa: B027
        """Forget what was found with other positions."""

    @abstractmethod
    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        """All vertex-triangle and edge-edge pairs whose boxes overlap, sorted by rank of both features.

        Without `edges` the second list is left empty, which saves most of the time.
        """

    @abstractmethod
    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        """All pairs of triangles whose boxes overlap: vec2i, smaller index first; by default only those apart."""

    @abstractmethod
    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        """Bring the search structure up to date with the boxes; not called for a surface without triangles."""


# name -> the module and class that search this way; imported when asked for, since each compiles kernels
_BROAD_PHASES = {
    "bvh": ("weft.broad_phase.bvh", "Bvh"),
    "topology_tree": ("weft.broad_phase.trees", "TopologyTree"),
    "material_tree": ("weft.broad_phase.trees", "MaterialTree"),
    "octree": ("weft.broad_phase.octree", "Octree"),
    "kdtree": ("weft.broad_phase.kdtree", "KdTree"),
    "brute": ("weft.broad_phase.brute", "Brute"),
}
BROAD_PHASES = tuple(_BROAD_PHASES)


def make_broad_phase(
    name: str, surface: Surface, *, material: npt.ArrayLike | None = None, **options: Any
) -> BroadPhase:
    """The broad phase of that name over a surface.

    `material` holds a point a vertex, (n, 2) or (n, 3): uv where there is one, else rest positions. `material_tree`
    needs it, the others ignore it. Other options go to the constructor.
    """
    if name not in _BROAD_PHASES:
        raise WeftError(f"there is no broad phase {name!r}; choose one of {', '.join(BROAD_PHASES)}")
    module, kind = _BROAD_PHASES[name]
    if name == "material_tree":
        options["material"] = material
    made: BroadPhase = getattr(import_module(module), kind)(surface, **options)
    return made

"""Broad phases: from all triangles to the few pairs of features that can touch during a step.

One interface, four implementations, chosen by name with `make_broad_phase`. Their lists are equal, entry for entry: all
pairs whose boxes overlap.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import numpy.typing as npt
import warp as wp

from weft.broad_phase.boxes import Boxes
from weft.broad_phase.patches import Patches
from weft.errors import WeftError
from weft.runtime.buffers import read
from weft.world import Surface


class Candidates(NamedTuple):
    """Pairs of features whose boxes overlap, without those that share a vertex; each pair once.

    The arrays are views of buffers that the broad phase reuses: they are valid until its next `feature_pairs`.
    """

    vertex_triangle: wp.array
    """vec2i (vertex, face)"""
    edge_edge: wp.array
    """vec2i (edge, edge), the smaller index first"""


class BroadPhase(ABC):
    """Finds pairs that can touch while the vertices move straight from `start` to `end`.

    A vertex or an edge belongs to the body of the triangle that owns it. Only features of bodies that interact by the
    surface's table are paired.
    """

    name: ClassVar[str]
    checks_at_update = True
    """whether `update` waits for the device to see that all positions are usable; otherwise the next search does"""

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
    ) -> None:
        """Take new positions (vec3d); `start` may be `end`.

        Features that come nearer than `margin` (m) at any time are listed. With `follow`, boxes are swept in a frame that
        moves with the mean displacement, which makes them smaller and loses nothing.
        """
        self._reset(margin)
        self.boxes.update(start, end, margin, follow=follow)
        if self.patches.count:
            if self.checks_at_update:
                self.boxes.check(read(self.boxes.flag)[0][0])
            self._prepare(start, end, margin)

    def _reset(self, margin: float) -> None:  # noqa: B027
        """Forget what was found for other positions."""

    @abstractmethod
    def feature_pairs(self, *, edges: bool = True) -> Candidates:
        """All vertex-triangle and edge-edge pairs whose boxes overlap, sorted by the ranks of both features.

        Without `edges` the second list stays empty, which saves most of the time.
        """

    @abstractmethod
    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        """All pairs of triangles whose boxes overlap, vec2i, smaller index first; by default without a common vertex."""

    @abstractmethod
    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        """Update the search structure after the boxes; not called for a surface without triangles."""


# name -> module and class; imported when they are needed, since each compiles kernels
_BROAD_PHASES = {
    "bvh": ("weft.broad_phase.trees", "Bvh"),
    "topology_tree": ("weft.broad_phase.fixed_trees", "TopologyTree"),
    "material_tree": ("weft.broad_phase.fixed_trees", "MaterialTree"),
    "brute": ("weft.broad_phase.trees", "Brute"),
}
BROAD_PHASES = tuple(_BROAD_PHASES)


def make_broad_phase(
    name: str, surface: Surface, *, material: npt.ArrayLike | None = None, **options: Any
) -> BroadPhase:
    """The broad phase of that name over a surface.

    `material` is one point for each vertex, (n, 2) or (n, 3): uv, or rest positions where there is no uv. `material_tree`
    needs it, the others ignore it. Other options go to the constructor.
    """
    if name not in _BROAD_PHASES:
        raise WeftError(f"there is no broad phase {name!r}; choose one of {', '.join(BROAD_PHASES)}")
    module, kind = _BROAD_PHASES[name]
    if name == "material_tree":
        options["material"] = material
    made: BroadPhase = getattr(import_module(module), kind)(surface, **options)
    return made

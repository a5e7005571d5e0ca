"""Broad phases: from all triangles to the few pairs of features that can touch during a step.

One interface, six ways to search, chosen by name with `make_broad_phase`. What `bvh`, `topology_tree`, `material_tree`
and `brute` list is the same to the last entry, in the same order: exactly the pairs whose boxes overlap. `octree` and
`kdtree` find less; see `docs/detection.md`.
"""

from abc import ABC, abstractmethod
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import warp as wp

from weft.detection.boxes import Boxes
from weft.detection.compare import find_edge_edge, find_triangles, find_vertex_triangle
from weft.detection.lists import LIMIT, Lists
from weft.detection.patches import Patches
from weft.errors import WeftError
from weft.world import Surface, launch

# patches worth a thread of their own: each costs microseconds
GRAIN = 16


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

    def __init__(self, surface: Surface, *, patches: Patches | None = None, limit: int = LIMIT) -> None:
        self.surface = surface
        self.device = surface.device
        self.patches = Patches(surface) if patches is None else patches
        self.boxes = Boxes(surface, self.patches)
        self._rows = Lists(self.device, int, what="pairs of patches", limit=limit)
        self._rows_known = False
        self._vertex_triangle = Lists(self.device, wp.vec2i, what="pairs of a vertex and a triangle", limit=limit)
        self._edge_edge = Lists(self.device, wp.vec2i, what="pairs of edges", limit=limit, capacity=128)
        self._triangles = Lists(self.device, wp.vec2i, what="pairs of triangles", limit=limit, capacity=64)

    def update(self, start: wp.array, end: wp.array, margin: float = 0.0, *, follow: bool = True) -> None:
        """Take new positions (vec3d); `start` may be `end`.

        What comes nearer than `margin` at any time is listed. With `follow`, boxes are swept in a frame that moves with
        the mean displacement, which makes them smaller and loses nothing.
        """
        self.boxes.update(start, end, margin, follow=follow)
        self._rows_known = False
        if self.patches.count:
            self._prepare()

    def feature_pairs(self) -> Candidates:
        """All vertex-triangle and edge-edge pairs whose boxes overlap, sorted by rank of both features."""
        self._find_all_rows()
        patches, boxes = self.patches, self.boxes
        rows = [self._rows.offsets, self._rows.found, boxes.patch_cells]
        vertices = [patches.vertex_start, boxes.vertices, boxes.vertex_cells, patches.vertex_ids]
        faces = [patches.face_start, boxes.faces, boxes.face_cells, patches.faces, patches.face_ids]
        edges = [patches.edge_start, boxes.edges, boxes.edge_cells, patches.edges, patches.edge_ids]
        return Candidates(
            self._compare(self._vertex_triangle, find_vertex_triangle, [*rows, *vertices, *faces]),
            self._compare(self._edge_edge, find_edge_edge, [*rows, *edges]),
        )

    def triangle_pairs(self, *, share_vertex: bool = False) -> wp.array:
        """All pairs of triangles whose boxes overlap: vec2i, smaller index first; by default only those apart."""
        self._find_all_rows()
        patches, boxes = self.patches, self.boxes
        rows = [self._rows.offsets, self._rows.found, boxes.patch_cells]
        faces = [patches.face_start, boxes.faces, boxes.face_cells, patches.faces, patches.face_ids]
        return self._compare(self._triangles, find_triangles, [*rows, *faces, int(share_vertex)])

    @abstractmethod
    def _prepare(self) -> None:
        """Bring the search structure up to date with the boxes; not called for a surface without triangles."""

    @abstractmethod
    def _find_rows(self, count: int, slots: list[Any]) -> None:
        """Find the ascending row of patches that each patch overlaps, itself included (see `lists.Find`)."""

    def _find_all_rows(self) -> None:
        if not self._rows_known:
            self._rows.build(self.patches.count, self._find_rows)
            self._rows_known = True

    def _compare(self, lists: Lists, kernel: wp.Kernel, inputs: list[Any]) -> wp.array:
        def find(count: int, slots: list[Any]) -> None:
            launch(kernel, count, [*slots, *inputs], device=self.device, grain=GRAIN)

        return lists.build(self.patches.count, find)


# name -> the module and class that search this way; imported when asked for, since each compiles kernels
_BROAD_PHASES = {
    "bvh": ("weft.detection.bvh", "Bvh"),
    "brute": ("weft.detection.brute", "Brute"),
}
BROAD_PHASES = tuple(_BROAD_PHASES)


def make_broad_phase(name: str, surface: Surface, **options: Any) -> BroadPhase:
    """The broad phase of that name over a surface; options go to its constructor."""
    if name not in _BROAD_PHASES:
        raise WeftError(f"there is no broad phase {name!r}; choose one of {', '.join(BROAD_PHASES)}")
    module, kind = _BROAD_PHASES[name]
    made: BroadPhase = getattr(import_module(module), kind)(surface, **options)
    return made

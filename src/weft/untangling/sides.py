"""Which side of a path is wrong, where something shows that: cloth inside a solid, a layer on the wrong side of another.

Paths take the smaller of two sides as their inside, by area. The area of a vertex on the wrong side counts next to nothing,
so that the wrong side is the one that is pulled back.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray
from scipy import spatial

from weft.analysis.analyser import Analysis
from weft.analysis.attraction import Moves, unit
from weft.analysis.partners import pulling_paths
from weft.analysis.solid_queries import OUTSIDE
from weft.analysis.solids import INSIDE_AREA, Held, Solids
from weft.mesh.topology import Topology, area_vectors_at_vertices

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


class Sides:
    """What is on a wrong side at some positions (`update`), and the ways out of solids.

    areas: (n,) of the vertices; still: (n,) the vertices of colliders, which are at x; layers: the vertices of each layer,
    from the inner to the outer one, whose triangles have their front outside.
    """

    def __init__(self, topology: Topology, x: Floats, areas: Floats, still: Bools, layers: Sequence[Ints]) -> None:
        self._topology, self._areas, self._still, self._layers = topology, areas, still, layers
        self._solids = Solids(topology.faces[still[topology.faces[:, 0]]], x)
        if self._solids.any:
            self._solids.place(x)
        self._layer_of = np.full(len(x), -1)
        for number, layer in enumerate(layers):
            self._layer_of[layer] = number
        self._own = np.flatnonzero(~still).astype(np.int32)
        self._held: Held | None = None
        self._inside = np.zeros(len(x), dtype=bool)
        self.areas = areas
        """(n,) the areas of the vertices as they count at the positions of the last update"""

    def update(self, x: Floats) -> None:
        """Find what is on a wrong side at these positions."""
        wrong = np.zeros(len(x), dtype=bool)
        if self._solids.any:
            self._held = self._solids.locate(x[self._own], np.zeros(len(self._own)))
            wrong[self._own] = self._inside[self._own] = self._held.state != OUTSIDE
        if self._layers:
            normals = area_vectors_at_vertices(x, self._topology.faces)
            for inner, outer in combinations(self._layers, 2):
                wrong[inner[_heights(x, normals, inner, outer) > 0.0]] = True
                wrong[outer[_heights(x, normals, outer, inner) < 0.0]] = True
        self.areas = np.where(wrong, INSIDE_AREA, 1.0) * self._areas

    def known(self, analysis: Analysis) -> tuple[Bools, Bools]:
        """(paths,) twice: the paths of which a solid or the order of layers says the inside; those of solids alone."""
        none = np.zeros(len(analysis), dtype=bool)
        if not len(analysis) or not (self._solids.any or self._layers):
            return none, none
        starts = analysis.path_offsets[:-1]
        one, other = analysis.rows[:, 0], self._topology.faces[analysis.face, 0]
        layers = self._layer_of[one], self._layer_of[other]
        ordered = (layers[0] != layers[1]) & (np.minimum(*layers) >= 0)
        solid = np.isin(one, self._solids.vertices) | np.isin(other, self._solids.vertices)
        in_solids = np.logical_or.reduceat(solid, starts)
        return in_solids | np.logical_or.reduceat(ordered, starts), in_solids

    def wholly_inside(self, analysis: Analysis) -> Bools:
        """(paths,) the paths that can be pulled back, with all the cloth that they enclose inside solids."""
        items = analysis.region_vertices.items
        out = np.bincount(_path_of_items(analysis), ~(self._inside | self._still)[items], len(analysis))
        found: Bools = pulling_paths(analysis) & (out == 0)
        return found

    def ways_out(self, analysis: Analysis, pulled: Bools) -> tuple[Moves, Floats]:
        """Moves to the nearest surface, and their lengths, of cloth inside the solids that it crosses.

        The vertices that the pulled paths enclose are left out. So is cloth that crosses no collider, as in a closed room.
        """
        assert self._held is not None
        corners = np.column_stack([analysis.rows[:, :2], self._topology.faces[analysis.face]])
        crossing = corners[self._still[corners].any(axis=1)]
        component = self._topology.components
        leaving = self._inside & np.isin(component, component[crossing])
        leaving[analysis.region_vertices.items[pulled[_path_of_items(analysis)]]] = False
        chosen = np.flatnonzero(leaving[self._own])
        vertices = self._own[chosen]
        x = analysis.positions
        point, _ = self._held.take(chosen).nearest(x)
        way = point - x[vertices]
        moves = Moves(vertices[:, None], np.ones((len(vertices), 1)), unit(way))
        return moves, np.linalg.norm(way, axis=1)


def _heights(x: Floats, normals: Floats, vertices: Ints, others: Ints) -> Floats:
    """How far in front of the other layer vertices are, by the normal of its nearest vertex; only the sign means anything."""
    _, nearest = spatial.cKDTree(x[others]).query(x[vertices])
    heights: Floats = np.einsum("ij,ij->i", x[vertices] - x[others[nearest]], normals[others[nearest]])
    return heights


def _path_of_items(analysis: Analysis) -> NDArray[np.int64]:
    """The path of each entry of `region_vertices`."""
    sizes = np.diff(analysis.region_vertices.offsets)
    return np.repeat(np.arange(len(sizes)), sizes) // 2

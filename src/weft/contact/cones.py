"""Cones of directions in which a vertex or an edge can be the nearest feature of a surface.

The nearest point of one triangle may lie on its border while a neighbouring triangle has a nearer one. Such a pair is no
contact of the surface, and pushing along its slanted direction would hook cloth that slides from one triangle to the next.
A point on the border counts only if its direction lies in the cone of that vertex or edge. The cones are a little wider
than exact ones, so that flat surfaces keep the pairs of edges that cross over them.
"""

from dataclasses import dataclass

import numpy as np
import warp as wp

from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# sine of the angle by which a direction may lean towards a neighbour before the neighbour counts as nearer; exact cones
# have 0
LEAN = wp.constant(wp.float64(0.2))
ZERO = wp.constant(wp.float64(0.0))


@wp.func
def in_edge_cone(
    direction: wp.vec3d, e: int, edges: wp.array[wp.vec2i], wings: wp.array[wp.vec2i], x: wp.array[wp.vec3d]
) -> bool:
    """Whether an edge can be nearest to a point that lies in this unit direction from it."""
    a = x[edges[e][0]]
    along = x[edges[e][1]] - a
    length = wp.dot(along, along)
    for side in range(2):
        c = wings[e][side]
        if c >= 0:
            wing = x[c] - a
            if length > ZERO:
                wing = wing - (wp.dot(wing, along) / length) * along
            if wp.dot(direction, wing) > LEAN * wp.length(wing):
                return False
    return True


@wp.func
def in_vertex_cone(
    direction: wp.vec3d,
    vertex: int,
    neighbour_offsets: wp.array[int],
    neighbours: wp.array[int],
    x: wp.array[wp.vec3d],
) -> bool:
    """Whether a vertex can be nearest to a point that lies in this unit direction from it."""
    centre = x[vertex]
    for k in range(neighbour_offsets[vertex], neighbour_offsets[vertex + 1]):
        spoke = x[neighbours[k]] - centre
        if wp.dot(direction, spoke) > LEAN * wp.length(spoke):
            return False
    return True


@dataclass(frozen=True)
class Cones:
    """The topology that cones need: the third corners beside each edge, the neighbours of each vertex."""

    wings: wp.array
    """(e,) vec2i: the corner opposite the edge in its first two triangles, -1 where there is none"""
    neighbour_offsets: wp.array
    neighbours: wp.array

    @classmethod
    def of(cls, surface: Surface) -> "Cones":
        """The cones of a surface."""
        device = surface.device
        faces, face_edges = surface.faces.numpy().reshape(-1, 3), surface.face_edges.numpy().reshape(-1, 3)
        edges = surface.edges.numpy().reshape(-1, 2)

        # edge k joins corners k and k + 1, so corner k + 2 is opposite
        flat = face_edges.ravel()
        opposite = np.roll(faces, -2, axis=1).ravel()
        order = np.argsort(flat, kind="stable")
        rank = np.arange(len(flat)) - np.searchsorted(flat[order], flat[order])
        wings = np.full((len(edges), 2), -1, np.int32)
        near = rank < 2
        wings[flat[order][near], rank[near]] = opposite[order][near]

        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        offsets = np.searchsorted(both[:, 0], np.arange(surface.vertex_count + 1)).astype(np.int32)
        return cls(
            wp.array(wings, dtype=wp.vec2i, device=device),
            wp.array(offsets, dtype=int, device=device),
            wp.array(np.ascontiguousarray(both[:, 1]).astype(np.int32), dtype=int, device=device),
        )

"""Repair of meshes that are not manifold, with a description of every change.

The steps, in this order: drop invalid triangles, join torn edges, drop duplicates, split edges with more than two
triangles, orient triangles consistently, cut one-sided components open, split bow-tie vertices, drop unused vertices.
No vertex is moved and no hole is filled; a valid mesh without torn edges is returned unchanged.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError
from weft.mesh.details import Details
from weft.mesh.topology import Ints, Topology, connected_labels, following, read_only
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import (
    Floats,
    as_faces,
    as_uv,
    as_vertices,
    cross,
    edges_turned,
    faces_out_of_range,
    faces_with_repeated_vertices,
    faces_without_area,
    list_first,
    repeated_faces,
    torn_edges,
)


@dataclass(frozen=True)
class Repair:
    """A repaired mesh, the changes in sentences, and the origin of its vertices and triangles."""

    mesh: TriMesh
    sentences: list[str]
    # (n,) and (m,): the index in the given mesh of each vertex and triangle
    vertex_source: Ints
    face_source: Ints
    # (given vertices,): the given vertex that each one was joined to; most of them to themselves
    joined: Ints


def repair_mesh(
    vertices: ArrayLike, faces: ArrayLike, uv: ArrayLike | None = None, *, details: Details | None = None
) -> Repair:
    """Repair a mesh; raises a `MeshError` only if no triangle is left or the arrays have wrong shapes or types."""
    points = as_vertices(vertices)
    work = _Work(points, as_faces(faces), None if uv is None else as_uv(uv, len(points)))
    work.drop_bad_triangles()
    work.join_torn_edges()
    work.drop_copies()
    work.split_crowded_edges()
    work.face_one_way()
    work.split_bow_ties()
    return work.finish(details or Details())


class _Work:
    """The mesh under repair. Vertices are only ever added, until `finish` drops the unused ones."""

    def __init__(self, vertices: Floats, faces: NDArray[np.int64], uv: Floats | None) -> None:
        self.vertices = vertices
        self.uv = uv
        self.faces: NDArray[np.int32] | NDArray[np.int64] = faces
        self.sentences: list[str] = []
        self.face_source = np.arange(len(faces), dtype=np.int32)
        self.turned = np.zeros(len(faces), dtype=bool)
        self.vertex_source = np.arange(len(vertices), dtype=np.int32)
        self.joined = np.arange(len(vertices), dtype=np.int32)

    def drop_bad_triangles(self) -> None:
        """Drop triangles with missing or non-finite vertices, and those without area at rest."""
        self._drop(faces_out_of_range(self.faces, len(self.vertices)), "that named a vertex that does not exist")
        self.faces = self.faces.astype(np.int32)
        nowhere = ~np.all(np.isfinite(self.vertices), axis=1)
        if self.uv is not None:
            nowhere |= ~np.all(np.isfinite(self.uv), axis=1)
        self._drop(nowhere[self.faces].any(axis=1), "that had a vertex with a NaN or infinite coordinate")
        self._drop(faces_with_repeated_vertices(self.faces), "that had the same vertex twice")
        rest = self.vertices if self.uv is None else self.uv
        self._drop(faces_without_area(rest, self.faces), "without area" if self.uv is None else "without area in uv")

    def join_torn_edges(self) -> None:
        """Join boundary edges that lie on each other, as programs write them that do not share vertices."""
        torn = torn_edges(self.vertices, self._topology(), self.uv)
        if len(torn) == 0:
            return
        ends = torn.reshape(-1, 2)
        labels = connected_labels(ends[:, 0], ends[:, 1], len(self.vertices))
        # the first vertex at a position replaces all others there
        self.joined = np.unique(labels, return_index=True)[1].astype(np.int32)[labels]
        gone = int(np.count_nonzero(self.joined != np.arange(len(self.joined))))
        self.faces = self.joined[self.faces]
        edges = [f"{a}-{b}" for a, b in torn[:, :, 0].tolist()]
        self.sentences.append(
            f"joined {_plural(gone, 'vertex', 'vertices')} to others in the same place along "
            f"{_plural(len(edges), 'torn edge')} ({_naming('edge', edges)})"
        )

    def drop_copies(self) -> None:
        """Drop triangles with the same vertices as an earlier one, whichever way they face."""
        self._drop(repeated_faces(self._topology()), "with the vertices of an earlier one")

    def split_crowded_edges(self) -> None:
        """Give the surfaces that meet in an edge of more than two triangles their own copies of its vertices.

        Around each vertex only fans joined through edges of two triangles stay together. A fan has two ends, so no
        more than two triangles can still share the edge afterwards.
        """
        topology = self._topology()
        crowded = topology.edge_counts > 2
        if not crowded.any():
            return
        added = self._split(topology, topology.edge_counts == 2, topology.edges[crowded])
        edges = [f"{a}-{b}" for a, b in self.vertex_source[topology.edges[crowded]].tolist()]
        self.sentences.append(
            f"split {_plural(len(edges), 'edge')} with more than two triangles, which added "
            f"{_plural(added, 'vertex', 'vertices')} ({_naming('edge', edges)})"
        )

    def face_one_way(self) -> None:
        """Orient triangles consistently; closed components face outwards.

        In a graph with two nodes a triangle (as it is, and reversed) consistent neighbours are connected. An orientable
        component then appears twice, a one-sided one (a Möbius strip) once.
        """
        topology = self._topology()
        turned = edges_turned(topology)
        if not turned.any():
            return
        count = len(self.faces)
        inner = topology.edge_counts == 2
        first, second = topology.edge_faces[inner].T.astype(np.int64)
        shift = np.where(turned[inner], count, 0)
        labels = connected_labels(
            np.concatenate([first, first + count]),
            np.concatenate([second + shift, second + count - shift]),
            2 * count,
        )
        as_is, flipped = labels[:count], labels[count:]
        component = np.minimum(as_is, flipped)
        # the copy with the first triangle of the component as it is has the lower label
        turn = as_is != component
        turn ^= self._better_turned(topology, component, turn)[component]

        one_sided = as_is == flipped
        if one_sided.any():
            turn[one_sided] = self._turn_along_tree(topology, turned, one_sided, component)
        self.faces = np.where(turn[:, None], self.faces[:, ::-1], self.faces)
        self.turned ^= turn
        self._say(turn, "turned", "to face the same way as the neighbours")
        if one_sided.any():
            self._cut_one_sided(component, one_sided)

    def split_bow_ties(self) -> None:
        """Give each fan of triangles that meets others in one vertex only its own copy of that vertex."""
        topology = self._topology()
        fans = topology.vertex_fans > 1
        if not fans.any():
            return
        added = self._split(topology, topology.edge_counts == 2, np.flatnonzero(fans))
        names = self.vertex_source[np.flatnonzero(fans)].tolist()
        self.sentences.append(
            f"split {_plural(len(names), 'bow-tie vertex', 'bow-tie vertices')}, which added "
            f"{_plural(added, 'vertex', 'vertices')} ({_naming('vertex', names, 'vertices')})"
        )

    def finish(self, details: Details) -> Repair:
        """Drop the vertices that no triangle uses, and make the mesh, with what is left of its details."""
        used = np.zeros(len(self.vertices), dtype=bool)
        used[self.faces] = True
        if not used.all():
            # a vertex that was split is still there under another number
            lost = np.setdiff1d(self.joined[self.vertex_source], self.vertex_source[used])
            number = np.cumsum(used, dtype=np.int32) - 1
            self.faces = number[self.faces]
            self.vertices = self.vertices[used]
            self.uv = None if self.uv is None else self.uv[used]
            self.vertex_source = self.vertex_source[used]
            if len(lost) > 0:
                self.sentences.append(
                    f"dropped {_plural(len(lost), 'vertex', 'vertices')} in no triangle "
                    f"({_naming('vertex', lost.tolist(), 'vertices')}); the vertices after them have new numbers"
                )
        corners = 3 * self.face_source[:, None].astype(np.int64) + np.where(self.turned[:, None], (2, 1, 0), (0, 1, 2))
        mesh = TriMesh(self.vertices, self.faces, self.uv, details=details.take(self.vertex_source, corners))
        sentences = [f"{text[0].upper()}{text[1:]}." for text in self.sentences]
        sources = self.vertex_source, self.face_source, self.joined
        return Repair(mesh, sentences, *(read_only(source) for source in sources))

    def _topology(self) -> Topology:
        return Topology(self.faces.astype(np.int32), len(self.vertices))

    def _say(self, rows: NDArray[np.bool_], verb: str, why: str) -> None:
        if rows.any():
            names = self.face_source[rows].tolist()
            self.sentences.append(f"{verb} {_plural(len(names), 'triangle')} {why} ({_naming('triangle', names)})")

    def _drop(self, rows: NDArray[np.bool_], why: str) -> None:
        self._say(rows, "dropped", why)
        self.faces = self.faces[~rows]
        self.face_source = self.face_source[~rows]
        self.turned = self.turned[~rows]
        if len(self.faces) == 0:
            raise MeshError(f"no triangle of the mesh can be used: {'; '.join(self.sentences)}")

    def _better_turned(self, topology: Topology, component: Ints, turn: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """For each component, whether to reverse all of it: closed ones face outwards, in others fewer triangles change."""
        size = int(component.max()) + 1
        total = np.bincount(component, minlength=size)
        turned = np.bincount(component[turn], minlength=size)
        is_open = np.zeros(size, dtype=bool)
        is_open[component[topology.edge_faces[topology.edge_counts == 1, 0]]] = True

        # volumes from a point of the mesh, so that a mesh far from the origin loses no digits
        a, b, c = (self.vertices[column] - self.vertices[self.faces[0, 0]] for column in self.faces.T)
        sixths = np.einsum("ij,ij->i", a, cross(b, c))
        volumes = np.bincount(component, weights=np.where(turn, -sixths, sixths), minlength=size)
        better: NDArray[np.bool_] = np.where(is_open, 2 * turned > total, volumes < 0.0) & (turned > 0)
        return better

    def _turn_along_tree(
        self, topology: Topology, turned: NDArray[np.bool_], one_sided: NDArray[np.bool_], component: Ints
    ) -> NDArray[np.bool_]:
        """Which triangles of one-sided components to reverse so that all agree along a breadth-first tree of each."""
        from scipy.sparse import coo_array
        from scipy.sparse.csgraph import breadth_first_order

        # one tree for all components, from an extra root to the first triangle of each
        count = len(self.faces)
        inner = (topology.edge_counts == 2) & one_sided[topology.edge_faces[:, 0]]
        first, second = topology.edge_faces[inner].T.astype(np.int64)
        roots = np.flatnonzero(one_sided)[np.unique(component[one_sided], return_index=True)[1]]
        tails, heads = np.concatenate([first, np.full(len(roots), count)]), np.concatenate([second, roots])
        graph = coo_array((np.ones(len(tails), dtype=np.int8), (tails, heads)), shape=(count + 1, count + 1))
        _, parent = breadth_first_order(graph.tocsr(), count, directed=False)
        parent = parent.astype(np.int64)
        own = np.arange(count + 1)
        parent = np.where((parent < 0) | (parent == count), own, parent)

        # whether a triangle disagrees with its parent; two triangles may share two edges, then the first one counts
        keys, index = np.unique(first * count + second, return_index=True)
        child = np.flatnonzero(parent[:count] != own[:count])
        lower, upper = np.minimum(child, parent[child]), np.maximum(child, parent[child])
        flip = np.zeros(count + 1, dtype=bool)
        flip[child] = turned[inner][index[np.searchsorted(keys, lower * count + upper)]]

        # add up the disagreements from the root, by pointer doubling
        while np.any(parent[parent] != parent):
            flip ^= flip[parent]
            parent = parent[parent]
        return flip[:count][one_sided]

    def _cut_one_sided(self, component: Ints, one_sided: NDArray[np.bool_]) -> None:
        """Cut one-sided components open along the edges where the triangles disagree."""
        topology = self._topology()
        turned = edges_turned(topology)
        added = self._split(topology, (topology.edge_counts == 2) & ~turned, topology.edges[turned])
        first = self.face_source[one_sided][np.unique(component[one_sided], return_index=True)[1]]
        self.sentences.append(
            f"cut {_plural(len(first), 'component')} with only one side, like a Möbius strip, open along "
            f"{_plural(int(turned.sum()), 'edge')}, which added {_plural(added, 'vertex', 'vertices')} "
            f"({'components' if len(first) > 1 else 'component'} of triangle {list_first(first.tolist())})"
        )

    def _split(self, topology: Topology, joins: NDArray[np.bool_], where: Ints | NDArray[np.int64]) -> int:
        """At the vertices `where`, give every fan of corners joined through the edges `joins` its own vertex.

        Returns how many vertices that adds.
        """
        corners = topology.faces.ravel()
        first, second = topology.edge_halves[joins].T
        # pair the two corners of one triangle on the edge with those of the other, by vertex
        same = corners[first] == corners[second]
        start = np.where(same, second, following(second))
        end = np.where(same, following(second), second)
        fans = connected_labels(np.concatenate([first, following(first)]), np.concatenate([start, end]), len(corners))

        # the lowest fan of a vertex keeps it, every other gets a copy at the end, in the order of the fans
        fan_vertex = np.empty(int(fans.max()) + 1, dtype=np.int32)
        fan_vertex[fans] = corners
        own = np.arange(len(fan_vertex))
        keeper = np.full(len(self.vertices), len(own))
        np.minimum.at(keeper, fan_vertex, own)
        chosen = np.zeros(len(self.vertices), dtype=bool)
        chosen[where] = True
        extra = np.flatnonzero((keeper[fan_vertex] != own) & chosen[fan_vertex])
        copies = fan_vertex[extra]
        fan_vertex[extra] = len(self.vertices) + np.arange(len(extra), dtype=np.int32)

        self.faces = fan_vertex[fans].reshape(-1, 3)
        self.vertices = np.concatenate([self.vertices, self.vertices[copies]])
        self.uv = None if self.uv is None else np.concatenate([self.uv, self.uv[copies]])
        self.vertex_source = np.concatenate([self.vertex_source, self.vertex_source[copies]])
        return len(extra)


def _naming(one: str, names: list[Any], many: str | None = None) -> str:
    return f"{one if len(names) == 1 else many or one + 's'} {list_first(names)}"


def _plural(number: int, one: str, many: str | None = None) -> str:
    return f"1 {one}" if number == 1 else f"{number} {many or one + 's'}"

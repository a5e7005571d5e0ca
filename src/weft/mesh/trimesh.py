"""`TriMesh`: a validated triangle mesh, with everything that follows from its arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError
from weft.mesh.corner_rest import in_plane, side_lengths, unfold_hinges
from weft.mesh.details import IN_GROUP, LABELS, Details, Labels, find_name
from weft.mesh.topology import Csr, Ints, Topology, read_only
from weft.mesh.validate import (
    Floats,
    as_faces,
    as_uv,
    as_vertices,
    check_finite,
    check_mesh,
    cross,
    faces_without_area,
    square,
    torn_edges,
    twice_areas,
)


class TriMesh:
    """An oriented manifold triangle mesh, with or without boundary, in metres, y up.

    `uv` is the flat rest shape, in metres, where the mesh has one (sewing patterns do); panels that share the vertices of
    their seams have it at their corners (`resting_in_corners`). `details` is what the mesh carries besides its shape: texture
    coordinates and normals a corner, the polygons that triangles were cut from, names of objects, groups, panels and
    materials, and values at the vertices. The arrays are read-only; every table is computed on first use and kept. A mesh
    that is not manifold is refused with a message that names the first offending triangles; `weft.mesh.repair_mesh` repairs
    most such meshes.
    """

    def __init__(
        self,
        vertices: ArrayLike,
        faces: ArrayLike,
        uv: ArrayLike | None = None,
        *,
        corner_uv: ArrayLike | None = None,
        labels: Mapping[str, Labels | Sequence[str]] | None = None,
        attributes: Mapping[str, ArrayLike] | None = None,
        details: Details | None = None,
    ) -> None:
        own_vertices = as_vertices(vertices)
        own_faces = as_faces(faces)
        own_uv = None if uv is None else as_uv(uv, len(own_vertices))
        topology = check_mesh(own_vertices, own_faces, own_uv)
        given: dict[str, Any] = {"corner_uv": corner_uv, "labels": labels, "attributes": attributes}
        own = replace(details or Details(), **{name: value for name, value in given.items() if value is not None})
        self._keep(own_vertices, own_uv, topology, own.checked(len(own_vertices), len(own_faces)))

    def _keep(
        self, vertices: Floats, uv: Floats | None, topology: Topology, details: Details, in_corners: bool = False
    ) -> None:
        rest = None if uv is None else read_only(uv)
        kept: dict[str, Any] = {"vertices": read_only(vertices), "uv": rest, "topology": topology}
        kept |= {"details": details, "in_corners": in_corners}
        self.__dict__.update({f"_{name}": value for name, value in kept.items()})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"a TriMesh cannot be changed; make another one (setting {name!r})")

    def __repr__(self) -> str:
        rest = "" if self.uv is None else ", with uv"
        names = self.names("object")
        objects = f", objects {', '.join(names)}" if len(names) > 1 else ""
        return f"TriMesh({len(self.vertices)} vertices, {len(self.faces)} triangles{rest}{objects})"

    def __eq__(self, other: object) -> bool:
        """Whether another mesh has the same arrays, bit by bit."""
        return isinstance(other, TriMesh) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """A checksum of all arrays and names of the mesh."""
        details = self._details
        corners = (details.corner_uv, details.corner_normals, details.polygons)
        arrays: dict[str, Any] = {"vertices": self.vertices, "faces": self.faces, "uv": self.uv}
        arrays |= {"rests in corners": np.ones(1)} if self._in_corners else {}
        arrays |= {f"corners {k}": array for k, array in enumerate(corners)}
        arrays |= {f"label {kind} {own.names}": own.index for kind, own in details.labels.items()}
        arrays |= {f"attribute {name}": value for name, value in details.attributes.items()}
        total = hashlib.sha256()
        for name, array in arrays.items():
            if array is not None:
                total.update(f"{name} {array.dtype} {array.shape};".encode() + np.ascontiguousarray(array).tobytes())
        return total.hexdigest()[:32]

    def with_vertices(self, vertices: ArrayLike) -> Self:
        """The same triangles with other vertex positions; shares the tables that are computed already.

        Only finiteness is checked: a mesh in motion may be flat for a moment.
        """
        moved = as_vertices(vertices)
        if moved.shape != self.vertices.shape:
            raise MeshError(f"the mesh has {len(self.vertices)} vertices, the new positions are for {len(moved)}")
        check_finite(moved)
        # other positions have other normals
        return self._sharing(moved, self._topology, replace(self._details, corner_normals=None))

    def with_uv(self, uv: ArrayLike | None) -> Self:
        """The same mesh with another flat rest shape, or without one."""
        return type(self)(self.vertices, self.faces, uv, details=self._details)

    def resting_in_corners(self) -> Self:
        """The same mesh whose flat rest shape, in metres, are the texture coordinates of its corners.

        At seams a vertex has several: each triangle rests as it lies there, an edge between two panels with the mean of its
        two lengths.
        """
        uv = self.corner_uv
        if uv is None:
            raise MeshError("the mesh has no texture coordinates at its corners to rest in")
        flat = faces_without_area(uv.reshape(-1, 2), np.arange(uv.size // 2).reshape(-1, 3))
        if flat.any():
            count = "1 triangle" if flat.sum() == 1 else f"{flat.sum()} triangles"
            raise MeshError(f"{count} without area in the texture coordinates, first triangle {int(flat.argmax())}")
        mesh = object.__new__(type(self))
        mesh._keep(self.vertices, None, self._topology, self._details, in_corners=True)
        return mesh

    def transformed(self, matrix: ArrayLike) -> Self:
        """The mesh under a 4x4 affine matrix (column vectors). A mirroring one also reverses the triangles."""
        transform = np.asarray(matrix, dtype=np.float64)
        if transform.shape != (4, 4) or not np.isfinite(transform).all():
            raise MeshError(f"a transform is a finite 4x4 matrix, not {transform.shape}")
        if not np.array_equal(transform[3], (0.0, 0.0, 0.0, 1.0)):
            raise MeshError(f"the last row of a transform is 0 0 0 1, not {transform[3].tolist()}")
        determinant = np.linalg.det(transform[:3, :3])
        if determinant == 0.0:
            raise MeshError("the transform flattens the mesh (its determinant is 0)")
        moved = self.vertices @ transform[:3, :3].T + transform[:3, 3]
        check_finite(moved)
        details = self._details.rotated(transform[:3, :3])
        if determinant > 0.0:
            return self._sharing(moved, self._topology, details)
        turned = Topology(read_only(np.ascontiguousarray(self.faces[:, ::-1])), len(moved))
        return self._sharing(moved, turned, details.turned())

    def _sharing(self, vertices: Floats, topology: Topology, details: Details) -> Self:
        mesh = object.__new__(type(self))
        mesh._keep(vertices, self.uv, topology, details, self._in_corners)
        return mesh

    def part(self, name: str) -> Self:
        """The triangles of one object, or of one group, panel or material, with the vertices that they use."""
        found = find_name(self._details, name)
        if found is None:
            raise MeshError(f"the mesh has no object {name!r}; it has {self._listed()}")
        return self._rows(self._details.labels[found[0]].faces(name))

    def parts(self, kind: str = "object") -> dict[str, Self]:
        """Every object of the mesh as a mesh of its own, by its name; or every group, panel or material."""
        return {name: self._rows(self._details.labels[kind].faces(name)) for name in self.names(kind)}

    def names(self, kind: str = "object") -> tuple[str, ...]:
        """The names of the mesh's objects; or of its groups, panels or materials."""
        return self._details.names(kind)

    def vertices_of(self, name: str) -> Ints:
        """The vertices of a vertex group (weights above one half), or of an object, face group, panel or material."""
        if name in self.attributes:
            weights = self.attributes[name]
            if weights.ndim != 1:
                raise MeshError(f"the attribute {name!r} has {weights.shape[1]} numbers a vertex; a group has one")
            return np.flatnonzero(weights > IN_GROUP).astype(np.int32)
        found = find_name(self._details, name)
        if found is None:
            raise MeshError(f"the mesh has no group {name!r}; it has {self._listed()}")
        return np.unique(self.faces[self._details.labels[found[0]].faces(name)]).astype(np.int32)

    def _rows(self, rows: NDArray[np.bool_]) -> Self:
        used, faces = np.unique(self.faces[rows], return_inverse=True)
        corners = np.arange(3 * len(rows)).reshape(-1, 3)[rows]
        uv = None if self.uv is None else self.uv[used]
        return type(self)(self.vertices[used], faces.reshape(-1, 3), uv, details=self._details.take(used, corners))

    def _listed(self) -> str:
        """All names that the mesh has, for messages."""
        kinds = [f"{kind}s {', '.join(names)}" for kind in LABELS if (names := self.names(kind))]
        groups = [f"attributes {', '.join(self.attributes)}"] if self.attributes else []
        return "; ".join([*kinds, *groups]) or "no names at all"

    @property
    def vertices(self) -> Floats:
        """(n, 3) positions in metres."""
        return self._vertices

    @property
    def uv(self) -> Floats | None:
        """(n, 2) flat rest shape in metres, or None."""
        return self._uv

    @property
    def details(self) -> Details:
        """All that the mesh carries besides its shape."""
        return self._details

    @property
    def corner_uv(self) -> Floats | None:
        """(m, 3, 2) texture coordinates, one a corner of a triangle, or None."""
        return self._details.corner_uv

    @property
    def labels(self) -> Mapping[str, Labels]:
        """Names of the triangles by their kind: "object", "group", "panel", "material"."""
        return self._details.labels

    @property
    def attributes(self) -> Mapping[str, Floats]:
        """(n,) or (n, k) values at the vertices by their name: weights of vertex groups, colours, painted values."""
        return self._details.attributes

    @property
    def topology(self) -> Topology:
        """The adjacency tables of the triangles, which are the same wherever the vertices are."""
        return self._topology

    @property
    def faces(self) -> Ints:
        """(m, 3) vertex indices, counter-clockwise seen from the front."""
        return self._topology.faces

    @property
    def edges(self) -> Ints:
        """(e, 2) vertex pairs, low < high, in lexicographic order."""
        return self._topology.edges

    @property
    def edge_faces(self) -> Ints:
        """(e, 2) triangles on each edge, lower index first; -1 = none."""
        return self._topology.edge_faces

    @property
    def face_edges(self) -> Ints:
        """(m, 3) edges of each triangle; edge k joins corners k and k + 1."""
        return self._topology.face_edges

    @property
    def twins(self) -> Ints:
        """(3 m,) for each half-edge (3 f + k: from corner k of triangle f) the one that runs back along its edge; -1: none."""
        return self._topology.twins

    @property
    def vertex_faces(self) -> Csr:
        """Triangles around each vertex, in ascending order."""
        return self._topology.vertex_faces

    @property
    def vertex_neighbours(self) -> Csr:
        """Vertices that share an edge with each vertex, in ascending order."""
        return self._topology.vertex_neighbours

    @property
    def hinges(self) -> Ints:
        """(h, 4) vertices a, b, c, d: triangles (a, b, c) and (b, a, d), oriented so, on the edge ab."""
        return self._topology.hinges

    @property
    def hinge_edges(self) -> Ints:
        """(h,) the edge of each hinge."""
        return self._topology.hinge_edges

    @property
    def boundary_loops(self) -> list[Ints]:
        """The closed boundary curves as vertex indices, in the direction of their triangles' edges."""
        return list(self._topology.boundary_loops)

    @property
    def components(self) -> Ints:
        """(n,) connected component of each vertex, numbered in the order of their lowest vertices."""
        return self._topology.components

    @property
    def closed(self) -> bool:
        """Whether the mesh has no boundary."""
        return len(self.hinge_edges) == len(self.edges)

    @cached_property
    def torn_edges(self) -> Ints:
        """(k, 2, 2) pairs of boundary edges at the same position: for both ends of the edge, its two vertices."""
        return read_only(torn_edges(self.vertices, self._topology, self.uv))

    @property
    def bounds(self) -> Floats:
        """(2, 3) lowest and highest coordinates."""
        return np.stack([self.vertices.min(axis=0), self.vertices.max(axis=0)])

    @cached_property
    def face_areas(self) -> Floats:
        """(m,) areas of the triangles in m^2."""
        return read_only(np.sqrt(square(self._face_crosses)) * 0.5)

    @cached_property
    def face_normals(self) -> Floats:
        """(m, 3) unit normals; zero where a triangle is flat."""
        lengths = 2.0 * self.face_areas[:, None]
        return read_only(np.divide(self._face_crosses, lengths, out=np.zeros((len(lengths), 3)), where=lengths > 0.0))

    @cached_property
    def edge_lengths(self) -> Floats:
        """(e,) lengths of the edges in metres."""
        return read_only(self._lengths(self.vertices))

    @cached_property
    def flat_corners(self) -> Floats | None:
        """(m, 3, 2) m: the corners of each triangle in the flat rest shape, which has u along the warp; None without one."""
        if self._in_corners:
            return self._panel_corners
        return None if self.uv is None else read_only(self.uv[self.faces])

    @property
    def _panel_corners(self) -> Floats:
        assert self.corner_uv is not None
        return self.corner_uv

    @cached_property
    def rest_corners(self) -> Floats:
        """(m, 3, 3) m: the corners of each triangle at rest: flat, with z = 0, where it has such a shape, else as it is."""
        return read_only(self.vertices[self.faces] if self.flat_corners is None else in_plane(self.flat_corners))

    @cached_property
    def rest_lengths(self) -> Floats:
        """(e,) lengths of the edges at rest: in the flat rest shape where there is one, else as it is."""
        if self._in_corners:
            # inside a panel both sides are equal
            return read_only(side_lengths(self._panel_corners)[self.edge_sides].mean(axis=1))
        return self.edge_lengths if self.uv is None else read_only(self._lengths(self.uv))

    @cached_property
    def rest_edges(self) -> Floats:
        """(e, 3) m: each edge at rest, from its first vertex to its second; at a seam, as it lies in one of both panels."""
        if not self._in_corners:
            shape = self.vertices if self.uv is None else in_plane(self.uv)
            return read_only(shape[self.edges[:, 1]] - shape[self.edges[:, 0]])
        side = self.edge_sides[:, 0]
        sides = (np.roll(self.rest_corners, -1, axis=1) - self.rest_corners).reshape(-1, 3)[side]
        along = self.faces.ravel()[side] == self.edges[:, 0]
        return read_only(np.where(along[:, None], sides, -sides))

    @cached_property
    def rest_areas(self) -> Floats:
        """(m,) areas of the triangles at rest: in the flat rest shape where there is one, else as it is."""
        if self.flat_corners is None:
            return self.face_areas
        a, b, c = self.flat_corners.transpose(1, 0, 2)
        return read_only(0.5 * twice_areas(b - a, c - a))

    @cached_property
    def hinge_corners(self) -> Floats:
        """(h, 4, 3) m: the vertices of each hinge at rest; over a seam its panels lie in a plane side by side.

        There the two triangles are scaled to the mean length of their common edge, which may be eased.
        """
        if not self._in_corners:
            return read_only((self.vertices if self.uv is None else in_plane(self.uv))[self.hinges])
        lengths = self.rest_lengths[self.hinge_edges]
        return read_only(in_plane(unfold_hinges(self._panel_corners, self.edge_sides[self.hinge_edges], lengths)))

    @property
    def edge_sides(self) -> Ints:
        """(e, 2) the sides that each edge has: 3 t + k for that of triangle t from corner k; twice the same on a border."""
        halves = self._topology.edge_halves
        return np.where(halves < 0, halves[:, :1], halves)

    @cached_property
    def _face_crosses(self) -> Floats:
        a, b, c = (self.vertices[column] for column in self.faces.T)
        return cross(b - a, c - a)

    def _lengths(self, points: NDArray[np.float64]) -> Floats:
        return np.sqrt(square(points[self.edges[:, 1]] - points[self.edges[:, 0]]))

    # set once in _keep
    _vertices: Floats
    _uv: Floats | None
    _topology: Topology
    _details: Details
    _in_corners: bool

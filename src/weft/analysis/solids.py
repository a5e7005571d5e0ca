"""Closed surfaces, but for small holes, as solids: which vertices of cloth are inside one, and which are pinched by two.

A vertex is pinched where it is inside two solids, or two parts of one solid that pass through each other: the winding number
of all closed surfaces is two there. It is also pinched where it is inside one solid and touches another, or where the nearest
way out leads into another. None of this needs history. A pinched vertex moves with the surfaces that hold it, by the mean of
their motions (flypapering; Baraff, Witkin and Kass 2003): that of the nearest point of each solid, or of the nearest point and
of the point where the opposite way leaves a single one.
"""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.attraction import unit
from weft.analysis.solid_queries import PINCHED, ClosedSurfaces
from weft.mesh.topology import Topology, connected_labels

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# weight of the area of cloth inside a solid: that side of a path is always the one to pull back
INSIDE_AREA = 1e-6
# the holes of a solid are at most this fraction of its area: the eyes and the mouth of a body are a thousandth, the open ends
# of a tube that is ten times as long as wide a twentieth
SMALL_HOLES = 0.01
# so many of the points on the same side are located, and most of them decide: rounding to float32 may put one that touches a
# surface to the other side
SAMPLES = 5
# surfaces move together if their motions differ by less than this fraction of them, more than rounding
TOGETHER = 1e-9


class Held(NamedTuple):
    """Where some vertices are with regard to solids."""

    state: Ints
    """(k,) OUTSIDE, INSIDE or PINCHED"""
    corners: Ints
    """(k, 3) the corners of the nearest triangle, as vertices of all positions"""
    weights: Floats
    """(k, 3) of the nearest point on it"""
    holder_of: Ints
    """(m,) which of the vertices is pinched by each holder"""
    holder_corners: Ints
    """(m, 3) the corners of the holder's triangle"""
    holder_weights: Floats
    """(m, 3) of the point on it"""

    def take(self, chosen: NDArray[np.integer]) -> "Held":
        """The places of some of the vertices, which are numbered anew."""
        number = np.full(len(self.state), -1)
        number[chosen] = np.arange(len(chosen))
        kept = number[self.holder_of] >= 0
        nearest = self.state[chosen], self.corners[chosen], self.weights[chosen]
        return Held(*nearest, number[self.holder_of[kept]], self.holder_corners[kept], self.holder_weights[kept])

    def spread(self, numbers: NDArray[np.integer], count: int) -> "Held":
        """The places of `count` vertices, of which these are the ones with the given numbers; all others are outside."""
        state, corners, weights = np.zeros(count, np.int32), np.zeros((count, 3), np.int32), np.zeros((count, 3))
        state[numbers], corners[numbers], weights[numbers] = self.state, self.corners, self.weights
        holder_of = numbers[self.holder_of].astype(np.int32)
        return Held(state, corners, weights, holder_of, self.holder_corners, self.holder_weights)

    def carried(self, motion: Floats) -> Floats:
        """(k, 3) the mean of the motions of the holders of each vertex; `motion` (n, 3) is that of all vertices."""
        moved = np.einsum("kc,kcd->kd", self.holder_weights, motion[self.holder_corners])
        count = len(self.state)
        total = np.stack([np.bincount(self.holder_of, moved[:, axis], count) for axis in range(3)], axis=1)
        mean: Floats = total / np.maximum(np.bincount(self.holder_of, minlength=count), 1)[:, None]
        return mean

    def opposed(self, motion: Floats) -> NDArray[np.bool_]:
        """(k,) which vertices have holders that move differently; `motion` (n, 3) is that of all vertices."""
        moved = np.einsum("kc,kcd->kd", self.holder_weights, motion[self.holder_corners])
        other = np.linalg.norm(moved - self.carried(motion)[self.holder_of], axis=1)
        speed = np.linalg.norm(moved, axis=1)
        found = np.zeros(len(self.state), dtype=bool)
        found[self.holder_of[other > TOGETHER * speed]] = True
        return found

    def nearest(self, x: Floats) -> tuple[Floats, Floats]:
        """(k, 3) twice: the nearest point of the surface, and the unit normal of its triangle."""
        a, b, c = x[self.corners].transpose(1, 0, 2)
        return np.einsum("kc,kcd->kd", self.weights, x[self.corners]), unit(np.cross(b - a, c - a))


class Solids:
    """The closed ones of some surfaces.

    faces: (m, 3) their triangles; x: (n, 3) the positions of all vertices.
    """

    def __init__(self, faces: Ints, x: Floats, device: wp.DeviceLike = "cpu") -> None:
        self.device = device
        self.faces, piece, hole = closed_faces(faces, x)
        self.any = len(self.faces) > 0
        self.vertices = np.unique(self.faces)
        """the vertices of closed colliders"""
        if not self.any:
            return
        self.is_closed = np.zeros(len(x), dtype=bool)
        """(n,) the same as flags"""
        self.is_closed[self.faces] = True
        self._whole = ClosedSurfaces(self.faces, x, device)
        pieces = [self.faces[piece == number] for number in range(piece.max() + 1)]
        self._pieces = [ClosedSurfaces(own, x, device) for own in pieces] if len(pieces) > 1 else []
        self._x = x
        caps = hole >= 0
        self._holes = [np.unique(self.faces[hole == number]) for number in np.unique(hole[caps])]
        """the vertices of each hole that triangles close"""

    def place(self, x: Floats) -> None:
        """Take the positions of the colliders from those of all vertices."""
        self._x = x
        self._whole.place(x)

    def normals(self) -> Floats:
        """(n, 3) the unit normals of the vertices of solids, outwards; zero for all other vertices."""
        a, b, c = (self._x[self.faces[:, k]] for k in range(3))
        area = np.repeat(np.cross(b - a, c - a), 3, axis=0)
        flat, count = self.faces.ravel(), len(self._x)
        return unit(np.stack([np.bincount(flat, area[:, axis], count) for axis in range(3)], axis=1))

    def holes(self) -> list[tuple[Floats, Floats]]:
        """The lowest and the highest corner of the box around each hole that triangles close."""
        return [(self._x[own].min(axis=0), self._x[own].max(axis=0)) for own in self._holes]

    def locate(self, points: Floats, thickness: Floats, side: Ints | None = None) -> Held:
        """Where points are; those that touch a surface are nearer to it than their thickness (m).

        `side` (k,) has equal numbers for points that are known to be on the same side of all surfaces: then a few of them tell
        whether all are inside.
        """
        if side is None:
            side = np.arange(len(points), dtype=np.int32)
        around = self._count_around(self._whole, points, side)
        near = np.flatnonzero(around)
        return self._locate_near(near, points[near], thickness[near], side[near], around[near]).spread(
            near, len(points)
        )

    def _count_around(self, solid: ClosedSurfaces, points: Floats, side: Ints) -> Ints:
        """(k,) how many times a solid is around each point: 0, 1, or 2 for more often."""
        sizes = np.bincount(side)
        starts = np.cumsum(sizes) - sizes
        samples = (starts[:, None] + sizes[:, None] * np.arange(SAMPLES) // SAMPLES)[sizes > 0]
        chosen = np.argsort(side, kind="stable")[np.unique(samples)]
        total = np.bincount(side[chosen], solid.count_around(points[chosen]), len(sizes))
        number = np.bincount(side[chosen], minlength=len(sizes))
        return np.rint(total / np.maximum(number, 1)).astype(np.int32)[side]

    def _locate_near(
        self, numbers: NDArray[np.int64], points: Floats, thickness: Floats, side: Ints, around: Ints
    ) -> Held:
        """Where points are that so many solids are around; the numbers are those by which they are known again."""
        state, held, weights = self._whole.locate(numbers, points, thickness, around)
        corners = np.where(held[:, :, None] >= 0, self.faces[held], 0)
        # nearest and opposite point of one surface, or the nearest points of several
        pinched = np.flatnonzero(state == PINCHED)
        own, column = np.nonzero(held[pinched] >= 0)
        found = [(pinched[own], corners[pinched[own], column], weights[pinched[own], column])]
        several = self._find_pieces(numbers, points, thickness, side, pinched)
        if several is not None:
            alone = ~np.isin(found[0][0], several[0])
            found = [tuple(values[alone] for values in found[0]), several]  # type: ignore[list-item]
        owner, its_corners, its_weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Held(state, corners[:, 0], weights[:, 0], owner, its_corners, its_weights)

    def _find_pieces(
        self, numbers: NDArray[np.int64], points: Floats, thickness: Floats, side: Ints, pinched: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Ints, Floats] | None:
        """The holders of the points that more than one solid holds."""
        if not self._pieces or not len(pinched):
            return None
        owners, corners, weights = [], [], []
        for piece in self._pieces:
            piece.place(self._x)
            inside = self._count_around(piece, points[pinched], side[pinched])
            face, places = piece.find_holders(numbers[pinched], points[pinched], thickness[pinched], inside)
            holds = np.flatnonzero(face >= 0)
            owners.append(pinched[holds])
            corners.append(piece.faces[face[holds]])
            weights.append(places[holds])
        owner = np.concatenate(owners)
        several = np.bincount(owner, minlength=len(points))[owner] > 1
        return owner[several], np.concatenate(corners)[several], np.concatenate(weights)[several]


def closed_faces(faces: Ints, x: Floats) -> tuple[Ints, Ints, Ints]:
    """The triangles that belong to solids, turned so that their normals point outwards, and the piece and the hole of each.

    A surface that is closed but for small holes is a solid too. Triangles close its holes, after those of all surfaces; the
    number of a hole is that of its lowest vertex, -1 for triangles of surfaces.
    """
    if not len(faces):
        return faces, np.zeros(0, np.int32), np.zeros(0, np.int32)
    topology = Topology(faces, len(x))
    caps, of_face = _caps(topology)
    _, piece = np.unique(topology.components[faces[:, 0]], return_inverse=True)
    of_cap = piece[of_face]
    whole, holes = np.bincount(piece, _areas(faces, x)), np.bincount(of_cap, _areas(caps, x), piece.max() + 1)
    solid = holes <= SMALL_HOLES * whole
    solid[piece[topology.edge_faces[topology.edge_counts > 2, 0]]] = False

    hole = np.concatenate([np.full(len(faces), -1, np.int32), caps[:, 2]])
    faces, piece = np.concatenate([faces, caps]), np.concatenate([piece, of_cap])
    a, b, c = (x[faces[:, k]] for k in range(3))
    volume = np.bincount(piece, np.einsum("ij,ij->i", a, np.cross(b, c)))
    turned = np.where((volume < 0.0)[piece][:, None], faces[:, ::-1], faces)
    chosen = solid[piece]
    _, number = np.unique(piece[chosen], return_inverse=True)
    return turned[chosen], number.astype(np.int32), hole[chosen]


def _areas(faces: Ints, x: Floats) -> Floats:
    """(m,) twice the areas of triangles."""
    a, b, c = (x[faces[:, k]] for k in range(3))
    areas: Floats = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    return areas


def _caps(topology: Topology) -> tuple[Ints, Ints]:
    """Triangles that close the holes of a surface, each hole a fan around its lowest vertex; and a face beside each of them."""
    edges = np.flatnonzero(topology.edge_counts == 1)
    if not len(edges):
        return np.zeros((0, 3), np.int32), np.zeros(0, np.int32)
    beside = topology.edge_faces[edges, 0]
    corner = np.argmax(topology.face_edges[beside] == edges[:, None], axis=1)
    tail, head = topology.faces[beside, corner], topology.faces[beside, (corner + 1) % 3]
    hole = connected_labels(tail, head, topology.vertex_count)
    # labels are numbered in the order of their lowest vertices
    _, lowest = np.unique(hole, return_index=True)
    caps = np.column_stack([head, tail, lowest[hole[tail]]]).astype(np.int32)
    flat = (caps[:, 2] == caps[:, 0]) | (caps[:, 2] == caps[:, 1])
    return caps[~flat], beside[~flat]

# mypy: disable-error-code="attr-defined"
# the fields of a mesh query are only known inside kernels
"""Closed surfaces, but for small holes, as solids: which vertices of cloth are inside one, and which are pinched by two.

A vertex is pinched where it is inside two solids, or two parts of one solid that pass through each other: the winding number
of all closed surfaces is two there. It is also pinched where it is inside one solid and touches another, or where the nearest
way out leads into another. None of this needs history. A pinched vertex moves with the surfaces that hold it, by the mean of
their motions (flypapering; Baraff, Witkin and Kass 2003): that of the nearest point of each solid, or of the nearest point and
of the point where the opposite way leaves a single one.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.attraction import unit
from weft.mesh.topology import Topology, connected_labels
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

OUTSIDE, INSIDE, PINCHED = 0, 1, 2
# accuracy of winding numbers far from triangles (Barill et al. 2018); they are compared with 1/2 and 3/2
ACCURACY = wp.constant(2.0)
# surfaces that a way out of the solids may pass through
MOST_LAYERS = wp.constant(64)
# weight of the area of cloth inside a solid: that side of a path is always the one to pull back
INSIDE_AREA = 1e-6
# farther than any surface, m
FAR = wp.constant(1.0e6)
# the holes of a solid are at most this fraction of its area: the eyes and the mouth of a body are a thousandth, the open ends
# of a tube that is ten times as long as wide a twentieth
SMALL_HOLES = 0.01
# so many of the points on the same side are located, and most of them decide: rounding to float32 may put one that touches a
# surface to the other side
SAMPLES = 5
# surfaces move together if their motions differ by less than this fraction of them, more than rounding
TOGETHER = 1e-9
# how far behind a surface that a ray has met the next one starts, so that it does not meet the same again, m
BEHIND_HIT = wp.constant(1.0e-6)


@wp.kernel
def count_around(first: int, mesh: wp.uint64, points: wp.array[wp.vec3], counts: wp.array[int]):
    """How many solids each point is inside of: 0, 1, or 2 for more than one."""
    i = first + wp.tid()
    number = int(0)
    if wp.mesh_query_point_sign_winding_number(mesh, points[i], FAR, ACCURACY, 0.5).sign < 0.0:
        number = 1
        if wp.mesh_query_point_sign_winding_number(mesh, points[i], FAR, ACCURACY, 1.5).sign < 0.0:
            number = 2
    counts[i] = number


@wp.kernel
def locate_points(
    first: int,
    mesh: wp.uint64,
    points: wp.array[wp.vec3],
    thickness: wp.array[wp.float32],
    counts: wp.array[int],
    states: wp.array[int],
    holders: wp.array[wp.vec2i],
    places: wp.array[wp.vec4],
):
    """The state of each point that `counts[i]` solids are around, which is not 0.

    Also the triangles that hold it (-1: none), and the coordinates u, v of the points on them.
    """
    i = first + wp.tid()
    p = points[i]
    state = int(INSIDE)
    held = wp.vec2i(-1, -1)
    place = wp.vec4()
    query = wp.mesh_query_point_no_sign(mesh, p, FAR)
    held[0] = query.face
    place[0] = query.u
    place[1] = query.v
    away = wp.mesh_eval_position(mesh, query.face, query.u, query.v) - p
    normal = wp.mesh_eval_face_normal(mesh, query.face)
    way = -away
    start = p
    if counts[i] > 1:
        state = PINCHED
    elif wp.dot(away, normal) < 0.0 and wp.length(away) < thickness[i]:
        # touches a surface from outside
        state = PINCHED
        way = away
    else:
        # behind the nearest surface there may be another solid
        way = normal
        start = p + away + thickness[i] * normal
    # how many more surfaces leave a solid than enter one along the way, and the first that leaves one
    way = wp.normalize(way)
    depth = int(0)
    layer = int(0)
    while layer < MOST_LAYERS and (state == INSIDE or held[1] < 0):
        layer += 1
        ray = wp.mesh_query_ray(mesh, start, way, FAR)
        if ray.result:
            depth += 1
            if wp.dot(wp.mesh_eval_face_normal(mesh, ray.face), way) <= 0.0:
                depth -= 2
            elif held[1] < 0:
                held[1] = ray.face
                place[2] = ray.u
                place[3] = ray.v
            start = start + (ray.t + BEHIND_HIT) * way
        else:
            layer = MOST_LAYERS
    if state == INSIDE:
        if depth > 0:
            state = PINCHED
        else:
            held[1] = -1
    states[i] = state
    holders[i] = held
    places[i] = place


@wp.kernel
def find_holders(
    first: int,
    mesh: wp.uint64,
    points: wp.array[wp.vec3],
    thickness: wp.array[wp.float32],
    inside: wp.array[int],
    face: wp.array[int],
    place: wp.array[wp.vec2],
):
    """The triangle of a solid that is nearest to each point, -1 where the point is neither inside nor touches it."""
    i = first + wp.tid()
    face[i] = -1
    farthest = thickness[i]
    if inside[i] > 0:
        farthest = FAR
    query = wp.mesh_query_point_no_sign(mesh, points[i], farthest)
    if query.result:
        face[i] = query.face
        place[i] = wp.vec2(query.u, query.v)


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
        self._whole = _Solid(self.faces, x, device)
        pieces = [self.faces[piece == number] for number in range(piece.max() + 1)]
        self._pieces = [_Solid(own, x, device) for own in pieces] if len(pieces) > 1 else []
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
        return self._locate_near(points[near], thickness[near], side[near], around[near]).spread(near, len(points))

    def _count_around(self, solid: "_Solid", points: Floats, side: Ints) -> Ints:
        """(k,) how many times a solid is around each point: 0, 1, or 2 for more often."""
        sizes = np.bincount(side)
        starts = np.cumsum(sizes) - sizes
        samples = (starts[:, None] + sizes[:, None] * np.arange(SAMPLES) // SAMPLES)[sizes > 0]
        chosen = np.argsort(side, kind="stable")[np.unique(samples)]
        found = wp.empty(len(chosen), dtype=int, device=self.device)
        mesh, near, _ = solid.inputs(points[chosen], np.zeros(len(chosen)))
        launch(count_around, len(chosen), [mesh, near, found], device=self.device, grain=64)
        total = np.bincount(side[chosen], found.numpy(), len(sizes))
        number = np.bincount(side[chosen], minlength=len(sizes))
        return np.rint(total / np.maximum(number, 1)).astype(np.int32)[side]

    def _locate_near(self, points: Floats, thickness: Floats, side: Ints, around: Ints) -> Held:
        """Where points are that so many solids are around."""
        whole, device = self._whole, self.device
        count = len(points)
        states = wp.empty(count, dtype=int, device=device)
        holders, places = wp.empty(count, dtype=wp.vec2i, device=device), wp.empty(count, dtype=wp.vec4, device=device)
        counts = wp.array(around, dtype=int, device=device)
        inputs = [*whole.inputs(points, thickness), counts, states, holders, places]
        launch(locate_points, count, inputs, device=device, grain=64)
        state, held = states.numpy(), holders.numpy().reshape(-1, 2)
        weights = _weights(places.numpy().reshape(-1, 2, 2))
        corners = np.where(held[:, :, None] >= 0, self.faces[held], 0)
        # nearest and opposite point of one surface, or the nearest points of several
        pinched = np.flatnonzero(state == PINCHED)
        own, column = np.nonzero(held[pinched] >= 0)
        found = [(pinched[own], corners[pinched[own], column], weights[pinched[own], column])]
        several = self._find_pieces(points, thickness, side, pinched)
        if several is not None:
            alone = ~np.isin(found[0][0], several[0])
            found = [tuple(values[alone] for values in found[0]), several]  # type: ignore[list-item]
        owner, its_corners, its_weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return Held(state, corners[:, 0], weights[:, 0], owner, its_corners, its_weights)

    def _find_pieces(
        self, points: Floats, thickness: Floats, side: Ints, pinched: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], Ints, Floats] | None:
        """The holders of the points that more than one solid holds."""
        if not self._pieces or not len(pinched):
            return None
        owners, corners, weights = [], [], []
        for piece in self._pieces:
            piece.place(self._x)
            face = wp.empty(len(pinched), dtype=int, device=self.device)
            place = wp.empty(len(pinched), dtype=wp.vec2, device=self.device)
            inside = wp.array(self._count_around(piece, points[pinched], side[pinched]), dtype=int, device=self.device)
            inputs = [*piece.inputs(points[pinched], thickness[pinched]), inside, face, place]
            launch(find_holders, len(pinched), inputs, device=self.device, grain=64)
            holds = np.flatnonzero(face.numpy() >= 0)
            owners.append(pinched[holds])
            corners.append(piece.faces[face.numpy()[holds]])
            weights.append(_weights(place.numpy()[holds]))
        owner = np.concatenate(owners)
        several = np.bincount(owner, minlength=len(points))[owner] > 1
        return owner[several], np.concatenate(corners)[several], np.concatenate(weights)[several]


class _Solid:
    """Closed surfaces as one mesh for queries."""

    def __init__(self, faces: Ints, x: Floats, device: wp.DeviceLike) -> None:
        self.faces, self._device = faces, device
        self._used, own = np.unique(faces, return_inverse=True)
        self._points = wp.zeros(len(self._used), dtype=wp.vec3, device=device)
        self._centre = np.zeros(3)
        self._set(x)
        indices = wp.array(own.ravel().astype(np.int32), dtype=int, device=device)
        self._mesh = wp.Mesh(self._points, indices, support_winding_number=True)

    def place(self, x: Floats) -> None:
        """Take the positions from those of all vertices."""
        self._set(x)
        self._mesh.refit()

    def _set(self, x: Floats) -> None:
        # float32 is fine enough near the centre
        own = x[self._used]
        self._centre = own.mean(axis=0)
        self._points.assign((own - self._centre).astype(np.float32))

    def inputs(self, points: Floats, thickness: Floats) -> list[Any]:
        """What the kernels read: mesh, points, thickness."""
        near = (points - self._centre).astype(np.float32)
        return [
            self._mesh.id,
            wp.array(near, dtype=wp.vec3, device=self._device),
            wp.array(thickness.astype(np.float32), dtype=wp.float32, device=self._device),
        ]


def _weights(places: NDArray[np.float32]) -> Floats:
    """(..., 3) barycentric coordinates from the first two of them."""
    u, v = np.moveaxis(places.astype(np.float64), -1, 0)
    return np.stack([u, v, 1.0 - u - v], axis=-1)


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

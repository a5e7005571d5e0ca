# mypy: disable-error-code="attr-defined"
# the fields of a mesh query are only known inside kernels
"""Where points are with regard to closed surfaces, which are one mesh: how many are around each, and what holds it.

What was found for a point is kept as long as neither the point nor the surfaces move: cloth that still bodies pinch is
located once. It is the same to the last bit as what would be found again.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

OUTSIDE, INSIDE, PINCHED = 0, 1, 2
# accuracy of winding numbers far from triangles (Barill et al. 2018); they are compared with 1/2 and 3/2
ACCURACY = wp.constant(2.0)
# surfaces that a way out of the solids may pass through
MOST_LAYERS = wp.constant(64)
# farther than any surface, m
FAR = wp.constant(1.0e6)
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


class _Memory:
    """Rows that a function has given for points, which are not asked for again while what it depends on is the same."""

    def __init__(self, given: int, found: int) -> None:
        """The lengths of the rows that are given and found."""
        self._given, self._found = np.zeros((0, given)), np.zeros((0, found))

    def recall(self, numbers: NDArray[np.int64], given: Floats, find: Callable[[NDArray[np.int64]], Floats]) -> Floats:
        """The rows of points with these numbers, which depend on the rows `given`; `find` gives those of some of the points."""
        missing = int(numbers.max(initial=-1)) + 1 - len(self._given)
        if missing > 0:
            # no number equals this one
            self._given = np.concatenate([self._given, np.full((missing, self._given.shape[1]), np.nan)])
            self._found = np.concatenate([self._found, np.zeros((missing, self._found.shape[1]))])
        new = np.flatnonzero((self._given[numbers] != given).any(axis=1))
        self._given[numbers[new]], self._found[numbers[new]] = given[new], find(new)
        rows: Floats = self._found[numbers]
        return rows


class ClosedSurfaces:
    """Closed surfaces as one mesh for queries."""

    def __init__(self, faces: Ints, x: Floats, device: wp.DeviceLike) -> None:
        self.faces, self._device = faces, device
        self._used, own = np.unique(faces, return_inverse=True)
        self._points = wp.zeros(len(self._used), dtype=wp.vec3, device=device)
        self._set(x[self._used])
        indices = wp.array(own.ravel().astype(np.int32), dtype=int, device=device)
        self._mesh = wp.Mesh(self._points, indices, support_winding_number=True)

    def place(self, x: Floats) -> None:
        """Take the positions from those of all vertices."""
        own = x[self._used]
        if not np.array_equal(own, self._own):
            self._set(own)
            self._mesh.refit()

    def _set(self, own: Floats) -> None:
        # float32 is fine enough near the centre
        self._own, self._centre = own, own.mean(axis=0)
        self._points.assign((own - self._centre).astype(np.float32))
        self._around, self._held = _Memory(5, 7), _Memory(5, 3)

    def count_around(self, points: Floats) -> Ints:
        """(k,) how many surfaces are around each point: 0, 1, or 2 for more."""
        found = wp.empty(len(points), dtype=int, device=self._device)
        mesh, near, _ = self._inputs(points, np.zeros(len(points)))
        launch(count_around, len(points), [mesh, near, found], device=self._device, grain=64)
        return np.asarray(found.numpy())

    def _inputs(self, points: Floats, thickness: Floats) -> list[Any]:
        """What the kernels read: mesh, points, thickness."""
        near = (points - self._centre).astype(np.float32)
        return [
            self._mesh.id,
            wp.array(near, dtype=wp.vec3, device=self._device),
            wp.array(thickness.astype(np.float32), dtype=wp.float32, device=self._device),
        ]

    def locate(
        self, numbers: NDArray[np.int64], points: Floats, thickness: Floats, around: Ints
    ) -> tuple[Ints, Ints, Floats]:
        """(k,) states, (k, 2) triangles that hold points, and (k, 2, 3) weights of the points on them (see the kernel)."""
        device = self._device

        def locate_some(chosen: NDArray[np.int64]) -> Floats:
            count = len(chosen)
            states, holders = wp.empty(count, dtype=int, device=device), wp.empty(count, dtype=wp.vec2i, device=device)
            places = wp.empty(count, dtype=wp.vec4, device=device)
            counts = wp.array(around[chosen], dtype=int, device=device)
            inputs = [*self._inputs(points[chosen], thickness[chosen]), counts, states, holders, places]
            launch(locate_points, count, inputs, device=device, grain=64)
            return np.column_stack([states.numpy(), holders.numpy().reshape(-1, 2), places.numpy().reshape(-1, 4)])

        found = self._around.recall(numbers, np.column_stack([points, thickness, around]), locate_some)
        state, held = found[:, 0].astype(np.int32), found[:, 1:3].astype(np.int32)
        return state, held, _weights(found[:, 3:].reshape(-1, 2, 2))

    def find_holders(
        self, numbers: NDArray[np.int64], points: Floats, thickness: Floats, inside: Ints
    ) -> tuple[Ints, Floats]:
        """(k,) the nearest triangle to each point, or -1, and (k, 3) the weights of the nearest point (see the kernel)."""
        device = self._device

        def find(chosen: NDArray[np.int64]) -> Floats:
            count = len(chosen)
            face, place = wp.empty(count, dtype=int, device=device), wp.zeros(count, dtype=wp.vec2, device=device)
            counts = wp.array(inside[chosen], dtype=int, device=device)
            inputs = [*self._inputs(points[chosen], thickness[chosen]), counts, face, place]
            launch(find_holders, count, inputs, device=device, grain=64)
            return np.column_stack([face.numpy(), place.numpy().reshape(-1, 2)])

        found = self._held.recall(numbers, np.column_stack([points, thickness, inside]), find)
        return found[:, 0].astype(np.int32), _weights(found[:, 1:])


def _weights(places: Floats) -> Floats:
    """(..., 3) barycentric coordinates from the first two of them."""
    u, v = np.moveaxis(places, -1, 0)
    return np.stack([u, v, 1.0 - u - v], axis=-1)

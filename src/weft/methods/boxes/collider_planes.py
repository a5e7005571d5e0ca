"""Collider planes: keep triangles of cloth on their side of the triangles of colliders, with friction.

The paper leaves colliders to its reference [8]. Boxes would keep cloth away from a slope by the height of its triangles,
so that colliders are met as what they are: two triangles that do not intersect have a plane between them, of any direction.
A pair that such a plane separates at the start and at the end of a step is apart all the way, since the gap between points
that move straight is, along one direction, at least the smaller one of its two ends. Where no plane does, the vertices of
cloth get a half-space, whose boundary is a thickness off the collider's side at the end of the step. Of the directions that
separate the pair at the start, that is chosen which takes the least away from the motion, so that cloth can slide.

The boundary exerts what force is needed, and Coulomb's law limits how far the cloth slides on it: both are part of the solve,
vertex by vertex (`relaxation.put_on_planes`).
"""

from typing import Any

import numpy as np
import warp as wp

from weft.geometry.stencil import nearest_edge_edge, nearest_point_triangle
from weft.methods.boxes.limits import Touching, edges_intersect
from weft.methods.boxes.plane_kernels import GAP_TOLERANCE
from weft.methods.boxes.relaxation import HalfSpaces
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import World

wp.set_module_options({"enable_backward": False})

# a gap below the thickness grows by this fraction a step, and does not decay by rounding
GROWTH = wp.constant(wp.float64(1.02))
# a direction must have at least this fraction of the true distance as its gap at the start, or the plane would be far from both
LEAST_GAP = wp.constant(wp.float64(0.5))
# fraction of the thickness that counts as no distance
NO_DISTANCE = wp.constant(wp.float64(1e-9))


@wp.struct
class Corners:
    """The corners of a triangle of cloth and of one of a collider, now."""

    a: wp.vec3d
    b: wp.vec3d
    c: wp.vec3d
    p: wp.vec3d
    q: wp.vec3d
    r: wp.vec3d


@wp.struct
class ColliderPairs:
    """What pairs of a triangle of cloth and one of a collider need, as `find_half_spaces` writes it."""

    touch: wp.array[int]
    """1: the pair needs half-spaces"""
    normal: wp.array[wp.vec3d]
    """unit vector from the collider to the cloth"""
    bound: wp.array[wp.vec3d]
    """m: the least product of the normal and each corner of the cloth at the end of the step"""
    carried: wp.array[wp.mat33d]
    """m: how far the collider would carry each corner of the cloth; a row each"""
    distance: wp.array[wp.vec3d]
    """m: how far each corner of the cloth is from the collider's triangle"""


@wp.func
def corners_of(f: wp.vec3i, g: wp.vec3i, x: wp.array[wp.vec3d]) -> Corners:
    """The corners of two triangles."""
    result = Corners()
    result.a = x[f[0]]
    result.b = x[f[1]]
    result.c = x[f[2]]
    result.p = x[g[0]]
    result.q = x[g[1]]
    result.r = x[g[2]]
    return result


@wp.func
def gap_along(d: wp.vec3d, t: Corners) -> wp.float64:
    """How far the triangle abc is beyond the triangle pqr in a direction; negative where they overlap."""
    low = wp.min(wp.min(wp.dot(d, t.a), wp.dot(d, t.b)), wp.dot(d, t.c))
    return low - wp.max(wp.max(wp.dot(d, t.p), wp.dot(d, t.q)), wp.dot(d, t.r))


@wp.func
def corner(t: Corners, k: int) -> wp.vec3d:
    """Corner 0 to 5 of the two triangles."""
    if k == 0:
        return t.a
    if k == 1:
        return t.b
    if k == 2:
        return t.c
    if k == 3:
        return t.p
    if k == 4:
        return t.q
    return t.r


@wp.func
def shortest_between(t: Corners) -> wp.vec3d:
    """The vector from the collider's triangle to the nearest point of the cloth's, for triangles that do not intersect."""
    best = t.a - t.p
    for k in range(3):
        x = corner(t, k)
        w = nearest_point_triangle(x, t.p, t.q, t.r)
        found = x - (w[0] * t.p + w[1] * t.q + w[2] * t.r)
        if wp.length_sq(found) < wp.length_sq(best):
            best = found
        y = corner(t, k + 3)
        w = nearest_point_triangle(y, t.a, t.b, t.c)
        found = w[0] * t.a + w[1] * t.b + w[2] * t.c - y
        if wp.length_sq(found) < wp.length_sq(best):
            best = found
        for m in range(3):
            x2 = corner(t, (k + 1) % 3)
            y1 = corner(t, 3 + m)
            y2 = corner(t, 3 + (m + 1) % 3)
            s = nearest_edge_edge(x, x2, y1, y2)
            found = x + s[0] * (x2 - x) - (y1 + s[1] * (y2 - y1))
            if wp.length_sq(found) < wp.length_sq(best):
                best = found
    return best


@wp.func
def unit_normal(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The unit normal of a triangle; zero where it has none."""
    return wp.normalize(wp.cross(b - a, c - a))


@wp.func
def towards_cloth(d: wp.vec3d, t: Corners) -> wp.vec3d:
    """A direction or its opposite, from the collider to the cloth."""
    if gap_along(-d, t) > gap_along(d, t):
        return -d
    return d


@wp.func
def cheap_direction(k: int, before: Corners, after: Corners) -> wp.vec3d:
    """Directions that often separate triangles: the axes, both normals at the start, and the collider's at the end."""
    if k < 3:
        axis = wp.vec3d()
        axis[k] = wp.float64(1.0)
        return towards_cloth(axis, before)
    if k == 3:
        return towards_cloth(unit_normal(before.p, before.q, before.r), before)
    if k == 4:
        return towards_cloth(unit_normal(before.a, before.b, before.c), before)
    return towards_cloth(unit_normal(after.p, after.q, after.r), before)


@wp.func
def write_half_spaces(
    i: int,
    before: Corners,
    after: Corners,
    normal: wp.vec3d,
    distance: wp.float64,
    h: wp.float64,
    still: int,
    wanted: ColliderPairs,
):
    """Write the half-space of each corner of the cloth, a thickness h off the collider, if one of them would leave its own.

    distance: of the two triangles at the start; negative where they intersect.
    """
    top = wp.max(wp.max(wp.dot(normal, after.p), wp.dot(normal, after.q)), wp.dot(normal, after.r))
    bound = wp.vec3d()
    carried = wp.mat33d()
    apart = wp.vec3d()
    deeper = bool(False)
    for k in range(3):
        x = corner(before, k)
        w = nearest_point_triangle(x, before.p, before.q, before.r)
        apart[k] = wp.length(x - (w[0] * before.p + w[1] * before.q + w[2] * before.r))
        carry = w[0] * (after.p - before.p) + w[1] * (after.q - before.q) + w[2] * (after.r - before.r)
        for c in range(3):
            carried[k, c] = carry[c]
        bound[k] = top + wp.min(h, distance)
        if still == 0:
            bound[k] = top + wp.min(h, GROWTH * distance)
        if distance < wp.float64(0.0):
            bound[k] = wp.min(top + h, wp.dot(normal, x + carry))
        if wp.dot(normal, corner(after, k)) < bound[k] - GAP_TOLERANCE * h:
            deeper = True
    if deeper:
        wanted.touch[i] = 1
        wanted.normal[i] = normal
        wanted.bound[i] = bound
        wanted.carried[i] = carried
        wanted.distance[i] = apart


@wp.kernel
def find_half_spaces(
    first: int,
    pairs: wp.array[wp.vec2i],
    still: int,
    faces: wp.array[wp.vec3i],
    cloth_faces: int,
    thickness: wp.array[wp.float64],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    wanted: ColliderPairs,
):
    """Which pairs of cloth and collider no plane separates all through the step, and the half-spaces that these need.

    still: take the direction of the shortest distance at the start, which the positions of the start always fulfil.
    """
    i = first + wp.tid()
    wanted.touch[i] = 0
    pair = pairs[i]
    if pair[0] >= cloth_faces or pair[1] < cloth_faces:
        return
    f = faces[pair[0]]
    before = corners_of(f, faces[pair[1]], start)
    after = corners_of(f, faces[pair[1]], end)
    h = thickness[f[0]]
    one = wp.float64(1.0)
    for k in range(6):
        d = cheap_direction(k, before, after)
        if gap_along(d, before) >= h and gap_along(d, after) >= h * (one - GAP_TOLERANCE):
            return

    crossing = edges_intersect(f, faces[pair[1]], start) or edges_intersect(faces[pair[1]], f, start)
    nearest = shortest_between(before)
    distance = wp.length(nearest)
    normal = unit_normal(before.p, before.q, before.r)
    if crossing or distance <= NO_DISTANCE * h:
        # on the side of most of the cloth, none of its corners may go deeper
        if wp.dot(normal, before.a + before.b + before.c - wp.float64(3.0) * before.p) < wp.float64(0.0):
            normal = -normal
        distance = -one
    else:
        normal = nearest / distance
        spacing = wp.min(h, distance)
        if gap_along(normal, after) >= spacing * (one - GAP_TOLERANCE):
            return
        taken = gap_along(normal, after)
        for k in range(6):
            d = cheap_direction(k, before, after)
            if gap_along(d, before) >= LEAST_GAP * spacing:
                left = gap_along(d, after)
                if left >= spacing * (one - GAP_TOLERANCE):
                    return
                if left > taken and still == 0:
                    taken = left
                    normal = d
    write_half_spaces(i, before, after, normal, distance, h, still, wanted)


class ColliderPlanes:
    """The half-spaces of the vertices of cloth in one step."""

    def __init__(self, world: World) -> None:
        self.world, self.device = world, world.device
        self._friction = world.friction_static.numpy()
        self._thickness = float(world.thickness.numpy()[: world.cloth_vertex_count].min(initial=np.inf))
        self._body = world.surface.face_body.numpy()
        types = {"touch": int, "normal": wp.vec3d, "bound": wp.vec3d, "carried": wp.mat33d, "distance": wp.vec3d}
        self._outputs = {name: Buffer(dtype, self.device) for name, dtype in types.items()}
        self.reset()

    def reset(self) -> None:
        """Forget all half-spaces, at the start of a step."""
        self._keys = np.zeros(0, dtype=np.int64)
        self._rows: list[tuple[np.ndarray, ...]] = []

    @property
    def count(self) -> int:
        """Pairs of triangles that have half-spaces."""
        return len(self._keys)

    def update(self, pairs: wp.array, start: wp.array, end: wp.array, *, still: bool) -> Touching:
        """Add half-spaces for the pairs of cloth and collider that are not kept apart between start and end."""
        world, count = self.world, len(pairs)
        if count == 0 or len(world.bodies) == len(world.cloths):
            return Touching(0, 0)
        wanted: Any = ColliderPairs()
        for name, buffer in self._outputs.items():
            setattr(wanted, name, buffer.at_least(count))
        surface = world.surface
        inputs = [pairs, int(still), surface.faces, world.cloth_face_count, world.thickness, start, end, wanted]
        launch(find_half_spaces, count, inputs, device=self.device, grain=64)
        found = np.flatnonzero(wanted.touch[:count].numpy())
        if len(found) == 0:
            return Touching(0, 0)
        two = pairs.numpy()[found]
        keys = two[:, 0].astype(np.int64) * surface.face_count + two[:, 1]
        fresh = ~np.isin(keys, self._keys)
        self._keys = np.union1d(self._keys, keys)
        corners = world.faces[two[:, 0]]
        normal, bound, carried, distance = (
            getattr(wanted, name)[:count].numpy()[found] for name in ("normal", "bound", "carried", "distance")
        )
        anchor = start.numpy()[corners] + carried
        friction = self._friction[self._body[two[:, 0]], self._body[two[:, 1]]]
        # a zero has no sign, or equal rows would differ
        normal = np.repeat(normal + 0.0, 3, axis=0)
        rows = corners.ravel(), normal, bound.ravel(), distance.ravel(), anchor.reshape(-1, 3), np.repeat(friction, 3)
        self._rows.append(rows)
        return Touching(len(found), int(fresh.sum()))

    def half_spaces(self) -> Any:
        """All half-spaces so far, those of each vertex in a row.

        Of several with one direction the tightest counts, and of several alike that of the collider's nearest triangle.
        """
        count = self.world.cloth_vertex_count
        columns = [np.concatenate(column) for column in zip(*self._rows, strict=True)] or [
            np.zeros((0, *shape)) for shape in ((), (3,), (), (), (3,), ())
        ]
        vertex, normal, bound, distance, anchor, friction = columns
        # an order that does not depend on that of the pairs
        order = np.lexsort((*anchor.T, -friction, distance, -bound, *normal.T, vertex))
        same = (vertex[order][1:] == vertex[order][:-1]) & (normal[order][1:] == normal[order][:-1]).all(axis=1)
        kept = order[np.concatenate([[True], ~same])] if len(order) else order
        spaces: Any = HalfSpaces()
        spaces.tolerance = 0.25 * float(GAP_TOLERANCE) * self._thickness
        offsets = np.searchsorted(vertex[kept], np.arange(count + 1))
        spaces.offsets = wp.array(offsets, dtype=int, device=self.device)
        for name, values, dtype in (
            ("normal", normal, wp.vec3d),
            ("bound", bound, wp.float64),
            ("anchor", anchor, wp.vec3d),
            ("friction", friction, wp.float64),
        ):
            setattr(spaces, name, wp.array(values[kept], dtype=dtype, device=self.device))
        return spaces

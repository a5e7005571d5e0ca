"""Friction of cloth on colliders, for collision planes: what presses in a step holds back in the next.

Where a vertex lies on the plane of a collider, the limit exerts a force across the plane; the coefficient of friction times
that force is the most that the vertex is held with on the other two axes, at its anchor: where it was, carried along by the
collider's triangle.
"""

import numpy as np
import warp as wp

from weft.dynamics.elastic_surface.model import Limits
from weft.methods.boxes.collision_planes import ONE_THREAD, CollisionPlanes
from weft.methods.boxes.plane_kernels import Planes
from weft.runtime import launch
from weft.world import Surface, World

wp.set_module_options({"enable_backward": False})

# bits of the number of a triangle
BITS = wp.constant(wp.int64(31))
MASK = wp.constant(wp.int64(0x7FFFFFFF))


@wp.kernel
def anchor_vertices(
    first: int,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    moving: int,
    carrier: wp.array[int],
    known: wp.array2d[wp.float64],
    anchor: wp.array2d[wp.float64],
    grip: wp.array2d[wp.float64],
):
    """Where friction holds each vertex, and how hard."""
    i = first + wp.tid()
    p = x[i]
    if moving != 0 and carrier[i] >= 0:
        f = faces[carrier[i]]
        p += (target[f[0]] - x[f[0]] + (target[f[1]] - x[f[1]]) + (target[f[2]] - x[f[2]])) / wp.float64(3.0)
    for c in range(3):
        anchor[c, i] = p[c]
        grip[c, i] = known[c, i]


@wp.kernel
def rub(
    first: int,
    planes: Planes,
    faces: wp.array[wp.vec3i],
    fixed: wp.array[int],
    body: wp.array[int],
    friction: wp.array2d[wp.float64],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    r: wp.array2d[wp.float64],
    reaction: wp.array2d[wp.float64],
    grip: wp.array2d[wp.float64],
    rubbed: wp.array[wp.int64],
):
    """The friction of the vertices that lie on a collider's plane.

    rubbed: of all pairs of triangles in which a vertex rubs the one with the largest numbers; those with the collider below
    count before others.
    """
    i = first + wp.tid()
    p = planes.pairs[i]
    if fixed[p[0]] == 0 and fixed[p[1]] == 0:
        return
    mu = friction[body[p[0]], body[p[1]]]
    axis = planes.sides[i][0]
    # 0: the triangle that is below, 1: the one above
    for side in range(2):
        triangle = p[planes.sides[i][1]]
        if side == 1:
            triangle = p[1 - planes.sides[i][1]]
        value = planes.values[i][side]
        if fixed[triangle] == 0 and mu > wp.float64(0.0):
            for k in range(3):
                v = faces[triangle][k]
                if r[axis, v] == value and (lower[axis, v] == value or upper[axis, v] == value):
                    pair = ((wp.int64(side) << BITS) | wp.int64(p[0])) << BITS | wp.int64(p[1])
                    wp.atomic_max(rubbed, v, pair)
                    force = mu * wp.abs(reaction[axis, v])
                    wp.atomic_max(grip, (axis + 1) % 3, v, force)
                    wp.atomic_max(grip, (axis + 2) % 3, v, force)


@wp.kernel
def find_carriers(first: int, fixed: wp.array[int], rubbed: wp.array[wp.int64], carrier: wp.array[int]):
    """The collider's triangle of the pair in which each vertex rubs."""
    i = first + wp.tid()
    carrier[i] = -1
    if rubbed[i] >= wp.int64(0):
        one = int((rubbed[i] >> BITS) & MASK)
        other = int(rubbed[i] & MASK)
        carrier[i] = other
        if fixed[one] != 0:
            carrier[i] = one


class PlaneFriction:
    """How hard colliders hold each vertex of cloth by friction, from one step to the next."""

    def __init__(self, surface: Surface, friction: wp.array, count: int) -> None:
        """`friction` holds a coefficient a pair of bodies; the first `count` vertices are cloth."""
        self.surface, self.friction, self.count = surface, friction, count
        device = surface.device
        self.grip = wp.zeros((3, count), dtype=wp.float64, device=device)
        """the largest friction on each coordinate, N"""
        self.carrier = wp.full(count, -1, dtype=int, device=device)
        """the collider's triangle that each vertex rubs on; -1: none"""
        self._rubbed = wp.empty(count, dtype=wp.int64, device=device)

    @classmethod
    def from_world(cls, world: World) -> "PlaneFriction":
        """All cloth of a world, with its coefficients of static friction."""
        return cls(world.surface, world.friction_static, world.cloth_vertex_count)

    def write(self, x: wp.array, target: wp.array, limits: Limits, *, moving: bool) -> None:
        """Where friction holds vertices that start at x; colliders, if any are `moving`, go to their targets."""
        inputs = [self.surface.faces, x, target, int(moving), self.carrier, self.grip, limits.anchor, limits.grip]
        launch(anchor_vertices, self.count, inputs, device=self.surface.device)

    def update(self, planes: CollisionPlanes, limits: Limits, r: wp.array, reaction: wp.array) -> None:
        """Take how hard colliders press at the end of a step: r within its limits, which exert the reaction (all 3, n)."""
        surface = self.surface
        self.grip.zero_()
        self._rubbed.fill_(-1)
        inputs = [planes.planes, surface.faces, planes.fixed, surface.face_body, self.friction]
        inputs += [limits.lower, limits.upper, r, reaction, self.grip, self._rubbed]
        launch(rub, planes.count, inputs, device=surface.device, grain=ONE_THREAD)
        launch(find_carriers, self.count, [planes.fixed, self._rubbed, self.carrier], device=surface.device)

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step starts from."""
        return {"grip": self.grip.numpy().copy(), "carrier": self.carrier.numpy().astype(np.int64)}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take up what `saved` gave."""
        self.grip.assign(np.array(saved["grip"]))
        self.carrier.assign(np.array(saved["carrier"], np.int32))

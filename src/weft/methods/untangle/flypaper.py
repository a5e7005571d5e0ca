"""Flypapering: cloth pinched between surfaces moves with them (Baraff, Witkin and Kass 2003, section 4).

A vertex pinched between several surfaces, or between two portions of one, is fully constrained to sum a_i g_i: g_i is the
position to which surface i would carry it if it were glued to it, and the weights a_i, not negative, sum to 1. The vertex is
glued for one step only: its coordinates relative to the surfaces are computed anew in each step, so there is no history, and
surfaces may come and go. Between surfaces at rest a vertex does not move at all; with surfaces that move as one body it moves
with that body. A weight may differ from place to place on a collider, so that of one mesh that is a whole body the torso may
hold cloth more than the hand.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.methods.untangle.solid_contact import triangle_frame
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import World
from weft.world.constraints import FLYPAPER, PRESCRIBED, SETTLED, ConstraintArrays, Constraints, hold

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def carried_displacement(
    p: wp.vec3d,
    f: wp.vec3i,
    w: wp.vec3d,
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
) -> wp.vec3d:
    """The displacement of a point that is glued to a triangle; exactly zero for a triangle at rest."""
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    displacement = w[0] * (goal[f[0]] - a) + w[1] * (goal[f[1]] - b) + w[2] * (goal[f[2]] - c)
    before = triangle_frame(a, b, c)
    after = triangle_frame(goal[f[0]], goal[f[1]], goal[f[2]])
    arm = (p - (w[0] * a + w[1] * b + w[2] * c)) * before
    return displacement + (after - before) * arm


@wp.struct
class GluedPoints:
    """`SurfacePoints` as device arrays."""

    vertices: wp.array[int]
    offsets: wp.array[int]
    faces: wp.array[int]
    weights: wp.array[wp.vec3d]


@wp.kernel
def glue(
    first: int,
    points: GluedPoints,
    faces: wp.array[wp.vec3i],
    face_body: wp.array[int],
    first_body: int,
    pull: wp.array2d[wp.float64],
    grip: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    held: ConstraintArrays,
):
    """Constrain one vertex to the weighted mean of the positions to which its surfaces carry it.

    `pull` are the weights of each collider for each vertex of cloth, `grip` factors of them at the vertices of colliders.
    """
    k = first + wp.tid()
    i = points.vertices[k]
    if held.owner[i] == PRESCRIBED:
        return
    start = points.offsets[k]
    stop = points.offsets[k + 1]
    even = ONE / wp.float64(stop - start)
    total = ZERO
    weighted = wp.vec3d()
    mean = wp.vec3d()
    for j in range(start, stop):
        body = face_body[points.faces[j]]
        # the points of one collider share its weight
        shared = ZERO
        for other in range(start, stop):
            if face_body[points.faces[other]] == body:
                shared += ONE
        f = faces[points.faces[j]]
        w = points.weights[j]
        here = w[0] * grip[f[0]] + w[1] * grip[f[1]] + w[2] * grip[f[2]]
        weight = here * pull[body - first_body, i] / shared
        displacement = carried_displacement(x[i], f, w, x, goal)
        total += weight
        weighted += weight * displacement
        mean += even * displacement
    if total > ZERO:
        mean = weighted / total
    hold(i, FLYPAPER, mean / h, wp.vec3d(), held)


@dataclass(frozen=True)
class SurfacePoints:
    """Pinched vertices, and the points of collider triangles between which they are pinched, at the start of a step."""

    vertices: np.ndarray
    """(k,) cloth vertices, each once"""
    offsets: np.ndarray
    """(k + 1,) where the points of each vertex begin"""
    faces: np.ndarray
    """(p,) triangles of the world"""
    weights: np.ndarray
    """(p, 3) barycentric coordinates of the points of these triangles nearest to the vertex"""


class Flypaper:
    """The source of constraints that moves pinched vertices with their surfaces (see `weft.world.constraints`)."""

    def __init__(
        self,
        world: World,
        *,
        weights: Mapping[str, float] | None = None,
        maps: Mapping[str, npt.ArrayLike] | None = None,
        surfaces: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """`weights`: of colliders by name, by default 1; `maps`: by name of the collider, a factor for each cloth vertex.

        `surfaces`: by name of the collider, a factor for each of its own vertices.

        Only their proportions at a vertex matter. Where all are 0, the surfaces have equal weights.
        """
        self.world = world
        self.device = world.device
        count = world.cloth_vertex_count
        self._first_body = len(world.cloths)
        names = [body.name for body in world.bodies[self._first_body :]]
        pull = np.ones((len(names), count))
        for name, weight in (weights or {}).items():
            pull[_place(names, name)] *= _checked(name, np.asarray(weight, float), ())
        for name, factors in (maps or {}).items():
            pull[_place(names, name)] *= _checked(name, np.asarray(factors, float), (count,))
        grip = np.ones(world.vertex_count)
        for name, factors in (surfaces or {}).items():
            grip[world.bodies[self._first_body + _place(names, name)].vertices] = factors
        self._pull = wp.array(pull, dtype=wp.float64, ndim=2, device=self.device)
        self._grip = wp.array(grip, dtype=wp.float64, device=self.device)
        self.count = 0
        """number of vertices held"""
        self._vertices, self._offsets, self._faces = (Buffer(int, self.device) for _ in range(3))
        self._weights = Buffer(wp.vec3d, self.device)

    def take(self, points: SurfacePoints) -> None:
        """Hold these vertices from now on, until other points are given."""
        self.count = len(points.vertices)
        if len(points.offsets) != self.count + 1 or (np.diff(points.offsets) < 1).any():
            raise ValueError("every vertex needs at least one surface point")
        if self.count == 0:
            return
        for buffer, values in (
            (self._vertices, points.vertices),
            (self._offsets, points.offsets),
            (self._faces, points.faces),
            (self._weights, points.weights),
        ):
            dtype = float if values is points.weights else np.int32
            # buffers may be longer than what is used
            buffer.at_least(len(values))[: len(values)].assign(np.ascontiguousarray(values, dtype))

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Constrain the pinched vertices for a step h."""
        surface = self.world.surface
        points: Any = GluedPoints()
        points.vertices, points.offsets = self._vertices.array, self._offsets.array
        points.faces, points.weights = self._faces.array, self._weights.array
        inputs: list[Any] = [points, surface.faces, surface.face_body, self._first_body, self._pull]
        inputs += [self._grip, x, goal, h, constraints.held]
        launch(glue, self.count, inputs, device=self.device)

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Pinched vertices stay constrained whatever the forces are."""
        return SETTLED


def _place(names: list[str], name: str) -> int:
    if name not in names:
        raise WeftError(
            f"flypaper weights are for colliders, and none is called {name!r}; there are: {', '.join(names)}"
        )
    return names.index(name)


def _checked(name: str, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if values.shape != shape:
        wanted = f"one number for each of the {shape[0]} cloth vertices" if shape else "one number"
        raise WeftError(f"the flypaper weights of collider {name!r} must be {wanted}, not an array {values.shape}")
    if not (np.isfinite(values) & (values >= 0.0)).all():
        raise WeftError(f"the flypaper weights of collider {name!r} must be finite and not negative")
    return values

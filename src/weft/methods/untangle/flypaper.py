"""Flypapering: cloth pinched between surfaces goes where they carry it (Baraff, Witkin and Kass 2003, section 4).

A vertex near several surfaces, or between two portions of one, is fully constrained to sum a_i g_i: g_i is the place to
which surface i would carry it, were it glued to it, and the weights a_i, not negative, sum to 1. The glue holds for one
step: body coordinates are taken anew each time, so nothing is remembered, and surfaces may join and leave freely.
Between still surfaces a vertex does not move at all; with surfaces that move as one it moves as one of their points.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.errors import WeftError
from weft.methods.untangle.solid_kernels import triangle_frame
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import World
from weft.world.constraints import FLYPAPER, PRESCRIBED, SETTLED, ConstraintArrays, Constraints, hold

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def carried_way(
    p: wp.vec3d,
    f: wp.vec3i,
    w: wp.vec3d,
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
) -> wp.vec3d:
    """How far a triangle carries a point that is glued to it: exactly nothing where the triangle stays."""
    a = x[f[0]]
    b = x[f[1]]
    c = x[f[2]]
    way = w[0] * (goal[f[0]] - a) + w[1] * (goal[f[1]] - b) + w[2] * (goal[f[2]] - c)
    before = triangle_frame(a, b, c)
    after = triangle_frame(goal[f[0]], goal[f[1]], goal[f[2]])
    arm = (p - (w[0] * a + w[1] * b + w[2] * c)) * before
    return way + (after - before) * arm


@wp.kernel
def glue(
    first: int,
    vertices: wp.array[int],
    offsets: wp.array[int],
    points: wp.array[int],
    weights: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    face_body: wp.array[int],
    first_body: int,
    pull: wp.array2d[wp.float64],
    x: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    h: wp.float64,
    held: ConstraintArrays,
):
    """Constrain one vertex to the weighted mean of where its surfaces carry it."""
    k = first + wp.tid()
    i = vertices[k]
    if held.owner[i] == PRESCRIBED:
        return
    start = offsets[k]
    stop = offsets[k + 1]
    even = ONE / wp.float64(stop - start)
    total = ZERO
    weighted = wp.vec3d()
    mean = wp.vec3d()
    for j in range(start, stop):
        body = face_body[points[j]]
        # the weight of a collider is shared by its own points
        shared = ZERO
        for other in range(start, stop):
            if face_body[points[other]] == body:
                shared += ONE
        share = pull[body - first_body, i] / shared
        way = carried_way(x[i], faces[points[j]], weights[j], x, goal)
        total += share
        weighted += share * way
        mean += even * way
    if total > ZERO:
        mean = weighted / total
    hold(i, FLYPAPER, mean / h, wp.vec3d(), held)


@dataclass(frozen=True)
class SurfacePoints:
    """The surfaces that pinch each of some vertices: points of collider triangles at the start of a step."""

    vertices: np.ndarray
    """(k,) cloth vertices, each once"""
    offsets: np.ndarray
    """(k + 1,) where the points of each vertex begin"""
    faces: np.ndarray
    """(p,) triangles of the world"""
    weights: np.ndarray
    """(p, 3) barycentric coordinates of the points of these triangles nearest to the vertex"""


class Flypaper:
    """The restraint that carries pinched vertices with the surfaces that pinch them (see `world.constraints`)."""

    def __init__(
        self,
        world: World,
        *,
        weights: Mapping[str, float] | None = None,
        maps: Mapping[str, npt.ArrayLike] | None = None,
    ) -> None:
        """`weights`: of colliders by name, 1 where none is given; `maps`: factors by cloth vertex, by collider.

        Only their proportions at a vertex count. Where all that apply are 0 the surfaces count alike.
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
        self._pull = wp.array(pull, dtype=wp.float64, ndim=2, device=self.device)
        self.count = 0
        """vertices held now"""
        self._vertices, self._offsets, self._faces = (Buffer(int, self.device) for _ in range(3))
        self._weights = Buffer(wp.vec3d, self.device)

    def take(self, points: SurfacePoints) -> None:
        """Hold these vertices in the steps that follow, until other points are taken."""
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
            # the first rows of an array with room to spare
            buffer.at_least(len(values))[: len(values)].assign(np.ascontiguousarray(values, dtype))

    def begin(self, x: wp.array, v: wp.array, goal: wp.array, h: float, constraints: Constraints) -> None:
        """Constrain the vertices that are held."""
        surface = self.world.surface
        inputs: list[Any] = [self._vertices.array, self._offsets.array, self._faces.array, self._weights.array]
        inputs += [surface.faces, surface.face_body, self._first_body, self._pull, x, goal, h, constraints.held]
        launch(glue, self.count, inputs, device=self.device)

    def review(self, x_end: wp.array, v_end: wp.array, force: wp.array, constraints: Constraints) -> int:
        """Glue does not give way."""
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

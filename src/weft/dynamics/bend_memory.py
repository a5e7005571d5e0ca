"""What bending leaves behind: the jumps of hinges at rest, which change where cloth creases and where its yarns slip.

The moment of a hinge is that of two elements side by side. The first is the elastic plate, whose rest jump follows where the
elastic jump exceeds the yield limit: a crease that stays (perfect plasticity). The second is friction between the yarns, a
plate `STICKING` times as stiff that slips where its elastic jump exceeds a smaller limit (a Prandtl element). So the moment M
over the curvature k runs through a loop of the height 2 HB of the KES instrument:

    M = bend k + HB   while bending        M = bend k - HB   while unbending        HB = bend * bend_hysteresis

Both elements together are one plate, 1 + `STICKING` times as stiff, with a rest jump between those of the two. So only the rest
jumps change in time; the matrices of bending do not. They follow at the start of a step from its positions: a step that is
taken again, from the same positions, finds what it found before.
"""

from collections.abc import Mapping

import numpy as np
import warp as wp

from weft.mesh import TriMesh
from weft.runtime import launch
from weft.scene import Material

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# stiffness of the yarns that stick, in units of the plate: the yarns slip once cloth is bent by a third of `bend_hysteresis`.
# KES loops turn within 0.1 to 0.2 of the 1/cm at which they are read. A larger number takes more iterations of bending
STICKING = 3.0
# the sum of two unit normals shorter than this, of a fold of more than 174 degrees, has no reliable direction
SHARP_FOLD = wp.constant(wp.float64(0.1))


# limits (see `bend_limits`) of a hinge that never yields and has no friction
NO_LIMITS = (np.inf, -1.0)


@wp.func
def mean_normal(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d, r: wp.vec3d) -> wp.vec3d:
    """The unit vector between the normals of the triangles abc and bad of a hinge with the stencil r; 0 if there is none.

    r is parallel to it, but has no direction where the hinge is flat, as the normals have none where it is folded up.
    """
    # a triangle without area has the normal 0
    total = wp.normalize(wp.cross(b - a, c - a)) + wp.normalize(wp.cross(d - a, b - a))
    length = wp.length(total)
    if length > SHARP_FOLD:
        return total / length
    if wp.dot(total, r) < ZERO:
        return -wp.normalize(r)
    return wp.normalize(r)


@wp.kernel
def follow_bends(
    first: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    limits: wp.array[wp.vec2d],
    sticking: wp.float64,
    x: wp.array[wp.vec3d],
    parts: wp.array[wp.vec2d],
    rest: wp.array[wp.float64],
):
    """Let the rest jumps of plate and yarns (`parts`) follow where the jump is beyond their limits; `rest` is that of both."""
    i = first + wp.tid()
    limit = limits[i]
    q = quads[i]
    w = weights[i]
    a = x[q[0]]
    r = w[1] * (x[q[1]] - a) + w[2] * (x[q[2]] - a) + w[3] * (x[q[3]] - a)
    jump = wp.dot(r, mean_normal(a, x[q[1]], x[q[2]], x[q[3]], r))
    plate = wp.clamp(parts[i][0], jump - limit[0], jump + limit[0])
    yarns = plate
    if limit[1] >= ZERO:
        yarns = wp.clamp(parts[i][1], jump - limit[1], jump + limit[1])
    parts[i] = wp.vec2d(plate, yarns)
    rest[i] = (plate + sticking * yarns) / (wp.float64(1.0) + sticking)


def bend_limits(mesh: TriMesh, material: Material, painted: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """(h, 2) m: how far a hinge's jump is from rest where the plate yields (inf: nowhere), and where yarns slip (-1: none are).

    A jump is a curvature across the edge times the area of both triangles.
    """
    areas = mesh.rest_areas[mesh.edge_faces[mesh.hinge_edges]].sum(axis=1)
    factors = {name: values[mesh.hinges].mean(axis=1) for name, values in (painted or {}).items()}
    limits = np.tile(NO_LIMITS, (len(areas), 1))
    if np.isfinite(material.yield_curvature):
        limits[:, 0] = material.yield_curvature * factors.get("yield_curvature", 1.0) * areas
    if material.bend_hysteresis > 0.0:
        limits[:, 1] = material.bend_hysteresis * factors.get("bend_hysteresis", 1.0) * areas / STICKING
    return limits


def stiffening(material: Material) -> float:
    """How many times stiffer than the plate cloth bends while its yarns stick."""
    return 1.0 + STICKING if material.bend_hysteresis > 0.0 else 1.0


class BendMemory:
    """The rest jumps of the hinges of all cloths, and what changes them."""

    def __init__(
        self, quads: np.ndarray, weights: np.ndarray, rest: np.ndarray, limits: np.ndarray, device: wp.DeviceLike
    ) -> None:
        """rest (h,): signed jumps at rest in m at the start; limits (h, 2): see `bend_limits`."""
        self.device = device
        self.quads = wp.array(quads, dtype=wp.vec4i, device=device)
        self.weights = wp.array(weights, dtype=wp.vec4d, device=device)
        self.rest = wp.array(rest, dtype=wp.float64, device=device)
        """(h,) what bending aims at: the jump along the mean normal at which a hinge has no moment, m"""
        self.changes = bool(np.isfinite(limits[:, 0]).any() or (limits[:, 1] >= 0.0).any())
        """whether rest jumps follow the bends at all"""
        self.curved = self.changes or bool(rest.any())
        """whether any hinge can have a rest jump"""
        self._limits = wp.array(limits if self.changes else np.zeros((0, 2)), dtype=wp.vec2d, device=device)
        parts = np.stack([rest, rest], axis=1)
        self._parts = wp.array(parts if self.changes else np.zeros((0, 2)), dtype=wp.vec2d, device=device)

    def follow(self, x: wp.array) -> None:
        """Let the rest jumps follow positions x, those at the start of a step. Only launches kernels."""
        if self.changes:
            inputs = [self.quads, self.weights, self._limits, STICKING, x, self._parts, self.rest]
            launch(follow_bends, len(self.quads), inputs, device=self.device)

    def saved(self) -> dict[str, np.ndarray]:
        """What the next step depends on, by name."""
        return {"bends": self._parts.numpy()} if self.changes else {}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        """Restore what `saved` returned."""
        if self.changes:
            self._parts.assign(saved["bends"])

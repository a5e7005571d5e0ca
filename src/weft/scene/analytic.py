"""Colliders as exact surfaces: plane, sphere, capsule and box without their triangles."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from weft.scene.collider import Collider
from weft.scene.rotation import Floats, euler_matrix
from weft.scene.shape import Box, Capsule, Plane, Sphere


@dataclass(frozen=True)
class AnalyticShape:
    """An exact surface in its own frame: at the origin, a plane with its normal along y, a capsule along y."""

    kind: Literal["plane", "sphere", "capsule", "box"]
    frame: Floats
    """4x4, rigid, from the frame to where the placement puts it; a motion's `matrix(time)` goes in front"""
    radius: float = 0.0
    """m; of a sphere or capsule"""
    half_length: float = 0.0
    """m; from the middle of a capsule to the centre of either half sphere"""
    half_size: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """m; of a box"""


def analytic_shape(collider: Collider) -> AnalyticShape | None:
    """The exact surface of a collider that says `analytic = true`; None for others."""
    if not collider.analytic:
        return None
    placement, shape = collider.placement, collider.shape
    frame = np.eye(4)
    frame[:3, :3] = euler_matrix(placement.rotation_deg)
    frame[:3, 3] = placement.position
    scale = placement.scale
    if isinstance(shape, Sphere):
        return AnalyticShape("sphere", frame, radius=shape.radius * scale[0])
    if isinstance(shape, Capsule):
        return AnalyticShape(
            "capsule", frame, radius=shape.radius * scale[0], half_length=0.5 * shape.length * scale[0]
        )
    if isinstance(shape, Box):
        x, y, z = (0.5 * size * factor for size, factor in zip(shape.size, scale, strict=True))
        return AnalyticShape("box", frame, half_size=(x, y, z))
    assert isinstance(shape, Plane)
    return AnalyticShape("plane", frame)

"""Rotations: Euler angles, quaternions (w, x, y, z) and rotation vectors."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def turns_about(axis: ArrayLike) -> Callable[[float], Floats]:
    """A function from an angle in degrees to the rotation matrix about an axis (Rodrigues); quarter turns are exact."""
    x, y, z = np.asarray(axis, dtype=np.float64) / np.linalg.norm(axis)
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    twice, still = cross @ cross, np.eye(3)

    def turn(angle_deg: float) -> Floats:
        # only the remainder below a quarter turn goes through sine and cosine and is rounded
        quarter, rest = divmod(angle_deg % 360.0, 90.0)
        angle = math.radians(rest)
        cosine, sine = math.cos(angle), math.sin(angle)
        for _ in range(int(quarter)):
            cosine, sine = -sine, cosine
        return still + sine * cross + (1.0 - cosine) * twice

    return turn


def axis_matrix(axis: ArrayLike, angle_deg: float) -> Floats:
    """The matrix of a rotation about an axis of any length, by an angle in degrees."""
    return turns_about(axis)(angle_deg)


def euler_matrix(angles_deg: Sequence[float]) -> Floats:
    """Rotation about the world's x axis, then y, then z: Rz Ry Rx."""
    about_x, about_y, about_z = (axis_matrix(axis, angle) for axis, angle in zip(np.eye(3), angles_deg, strict=True))
    return about_z @ about_y @ about_x


def euler_angles(turn: Floats) -> Floats:
    """The three angles in degrees from which `euler_matrix` makes this rotation."""
    middle = np.arcsin(np.clip(-turn[2, 0], -1.0, 1.0))
    if abs(turn[2, 0]) < 1.0 - 1e-12:
        first, last = np.arctan2(turn[2, 1], turn[2, 2]), np.arctan2(turn[1, 0], turn[0, 0])
    else:
        # y points up or down: x and z turn about the same axis
        first, last = 0.0, np.arctan2(-turn[0, 1], turn[1, 1])
    return np.degrees(np.array([first, middle, last]))


def euler_quaternion(angles_deg: ArrayLike) -> Floats:
    """(..., 4) unit quaternions of rotations about the world's x axis, then y, then z, by (..., 3) angles."""
    angles = np.radians(np.asarray(angles_deg, dtype=np.float64))
    turned = np.broadcast_to([1.0, 0.0, 0.0, 0.0], (*angles.shape[:-1], 4))
    for number, axis in enumerate(np.eye(3)):
        turned = product(exponential(angles[..., number, None] * axis), turned)
    return turned


def product(p: Floats, q: Floats) -> Floats:
    """The rotation q, then p; both (..., 4)."""
    scalar = p[..., :1] * q[..., :1] - (p[..., 1:] * q[..., 1:]).sum(axis=-1, keepdims=True)
    vector = p[..., :1] * q[..., 1:] + q[..., :1] * p[..., 1:] + np.cross(p[..., 1:], q[..., 1:])
    return np.concatenate([scalar, vector], axis=-1)


def inverse(q: Floats) -> Floats:
    """The inverse rotations of unit quaternions."""
    return q * np.array([1.0, -1.0, -1.0, -1.0])


def exponential(vector: Floats) -> Floats:
    """The unit quaternions of rotation vectors (..., 3), whose lengths are the angles in radians."""
    half = 0.5 * np.linalg.norm(vector, axis=-1, keepdims=True)
    # np.sinc is sin(pi x) / (pi x), smooth at zero
    return np.concatenate([np.cos(half), 0.5 * np.sinc(half / np.pi) * vector], axis=-1)


def logarithm(q: Floats) -> Floats:
    """The shortest rotation vectors of unit quaternions; q and -q are the same rotation."""
    q = np.where(q[..., :1] < 0.0, -q, q)
    length = np.linalg.norm(q[..., 1:], axis=-1, keepdims=True)
    turns = length > 1e-12
    return q[..., 1:] * np.where(turns, 2.0 * np.arctan2(length, q[..., :1]) / np.where(turns, length, 1.0), 2.0)


def matrix_of(q: Floats) -> Floats:
    """The 3x3 matrix of a unit quaternion."""
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def quaternion_of(turn: Floats) -> Floats:
    """The unit quaternion (w, x, y, z) of a rotation matrix: the row with the largest diagonal of 4 q q^T, normalised."""
    (a, b, c), (d, e, f), (g, h, i) = turn
    table = np.array(
        [
            [1 + a + e + i, h - f, c - g, d - b],
            [h - f, 1 + a - e - i, b + d, c + g],
            [c - g, b + d, 1 - a + e - i, f + h],
            [d - b, c + g, f + h, 1 - a - e + i],
        ]
    )
    best = table[table.diagonal().argmax()]
    return np.asarray(best / np.linalg.norm(best))

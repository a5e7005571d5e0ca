"""Rigid impact zones: vertices that keep colliding move as one body (Bridson et al. 2002, section 7.5; Provot 1997).

The four vertices of each collision that is left are put into one zone; zones that share a vertex become one. A zone
takes the rigid motion that has its linear and angular momentum. Vertices that are prescribed have infinite mass: a zone
with some of them moves with them, where their own motion is rigid.

This is the last resort, few vertices at a time, so it runs on the host.
"""

from dataclasses import dataclass, field

import numpy as np

# a zone turns at most this far in a step, in rad; faster ones would spiral outwards
LARGEST_ANGLE = 0.5
# an axis about which a zone has less than this fraction of its largest moment of inertia has none: vertices lie in a line
LEAST_INERTIA = 1e-9
# prescribed vertices of one zone move rigidly if none is farther than this from a rigid motion, in m
RIGID_WITHIN = 1e-7
# rounds of rigid zones. In the first ones zones may turn, until half of them they translate, then they stop: each is a
# simpler motion, with fewer new collisions where zones are squeezed
RIGID_ROUNDS = 40
TURNING_ROUNDS = 4
TRANSLATING_ROUNDS = 20


@dataclass
class Zones:
    """Groups of vertices that move as one, as a forest over the vertices."""

    parent: dict[int, int] = field(default_factory=dict)

    def add(self, stencils: np.ndarray) -> None:
        """Unite the four vertices of each stencil."""
        for corners in stencils.tolist():
            first = self._root(corners[0])
            for vertex in corners[1:]:
                other = self._root(vertex)
                # the lower index is the root, so that the zones do not depend on the order of the stencils
                first, other = min(first, other), max(first, other)
                self.parent[other] = first

    def groups(self) -> list[np.ndarray]:
        """The vertices of each zone, ascending, zones in the order of their first vertex."""
        members: dict[int, list[int]] = {}
        for vertex in sorted(self.parent):
            members.setdefault(self._root(vertex), []).append(vertex)
        return [np.array(group) for group in members.values()]

    def _root(self, vertex: int) -> int:
        parent = self.parent
        parent.setdefault(vertex, vertex)
        while parent[vertex] != vertex:
            parent[vertex] = parent[parent[vertex]]
            vertex = parent[vertex]
        return vertex


def move_zones(
    zones: Zones,
    x: np.ndarray,
    v: np.ndarray,
    inverse_mass: np.ndarray,
    target: np.ndarray,
    dt: float,
    round_number: int,
) -> bool:
    """Write a rigid motion of every zone into the average velocities v; False where no rigid motion can be right.

    A zone with prescribed vertices, which reach `target` in the step, moves with them.
    """
    possible = True
    for group in zones.groups():
        fixed = group[inverse_mass[group] == 0.0]
        if len(fixed):
            carried = carried_velocity(x[group], x[fixed], target[fixed], dt)
            if carried is None:
                possible = False
                continue
            v[group] = carried
        elif round_number < TRANSLATING_ROUNDS:
            turning = round_number < TURNING_ROUNDS
            v[group] = rigid_velocity(x[group], v[group], 1.0 / inverse_mass[group], dt, turning=turning)
        else:
            v[group] = 0.0
    return possible


def rigid_velocity(x: np.ndarray, v: np.ndarray, mass: np.ndarray, dt: float, *, turning: bool = True) -> np.ndarray:
    """Average velocities of the rigid motion with the momentum of the given vertices, all of finite mass.

    The positions at the end of the step come from the exact rotation, so that all distances stay as they are.
    """
    total = mass.sum()
    centre = (mass[:, None] * x).sum(axis=0) / total
    drift = (mass[:, None] * v).sum(axis=0) / total
    if not turning:
        return np.broadcast_to(drift, x.shape).copy()
    arm = x - centre
    spin = (mass[:, None] * np.cross(arm, v - drift)).sum(axis=0)
    squares = (mass * (arm**2).sum(axis=1)).sum()
    inertia = squares * np.eye(3) - np.einsum("i,ij,ik->jk", mass, arm, arm)

    # collinear or coincident vertices have no inertia about some axes: no rotation about those
    values, axes = np.linalg.eigh(inertia)
    along = axes.T @ spin
    turns = values > LEAST_INERTIA * max(values[-1], 0.0)
    rate = axes @ np.divide(along, values, out=np.zeros(3), where=turns)
    speed = np.linalg.norm(rate)
    if speed == 0.0:
        return np.broadcast_to(drift, x.shape).copy()
    axis = rate / speed
    angle = min(speed * dt, LARGEST_ANGLE)
    fixed = np.outer(arm @ axis, axis)
    across = arm - fixed
    turned = fixed + np.cos(angle) * across + np.sin(angle) * np.cross(axis, across)
    return drift + (turned - arm) / dt


def carried_velocity(x: np.ndarray, fixed: np.ndarray, fixed_end: np.ndarray, dt: float) -> np.ndarray | None:
    """Average velocities of vertices x that are carried by prescribed ones; None where those do not move rigidly.

    `fixed` and `fixed_end` are positions of prescribed vertices at the start and at the end of the step.
    """
    centre, centre_end = fixed.mean(axis=0), fixed_end.mean(axis=0)
    # the rotation that fits best (Kabsch); reflections are no motions
    covariance = (fixed_end - centre_end).T @ (fixed - centre)
    # about a line of prescribed vertices any rotation fits: the least one is taken
    u, _, vt = np.linalg.svd(covariance + 1e-8 * np.linalg.norm(covariance) * np.eye(3))
    sign = np.diag([1.0, 1.0, np.linalg.det(u @ vt)])
    turn = u @ sign @ vt
    miss = (fixed - centre) @ turn.T + centre_end - fixed_end
    if np.abs(miss).max() > RIGID_WITHIN:
        return None
    return ((x - centre) @ turn.T + centre_end - x) / dt

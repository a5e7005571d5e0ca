"""The last resort of a step, pair by pair: what moves rigidly, what is held, and which pairs are forced.

Collisions that impulses leave become rigid impact zones, as in `robust`. A zone with prescribed vertices whose motion is not
rigid (two bodies that close on the cloth, or one that deforms) has no rigid motion. Its cloth vertices are held instead: each
moves by the mean of the motions of what it collides with. A pair that collides although all its vertices are prescribed or
held is forced. No motion of the cloth keeps it free, so it is released, it alone, and the step begins anew.
"""

import itertools

import numpy as np
from numpy.typing import NDArray

from weft.methods.base import StepReport
from weft.methods.robust.collision_rounds import RIGID_ROUNDS, CollisionRounds, Zones, carried_velocity, free_velocity
from weft.world import State

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# a vertex with a smaller weight than this does not take part in a stencil; weights of each side sum to 1
LEAST_WEIGHT = 1e-9


class Forced(Exception):
    """Pairs that no motion of the cloth keeps free; `stencils` (k, 4) are their vertices, with `weights`."""

    def __init__(self, stencils: Ints, weights: Floats, velocities: Floats) -> None:
        super().__init__("pairs are forced through each other")
        self.stencils, self.weights = stencils, weights
        self.velocities = velocities
        """(n, 3) of all vertices; held ones move with what holds them"""


class GuardedRounds(CollisionRounds):
    """Collision rounds whose last resort ends with a motion that is free, or names the pairs that are forced."""

    def move_rigid_zones(self, state: State, dt: float, report: StepReport) -> None:
        """Let what is left move as rigid impact zones, or held by what it collides with; raises `Forced`."""
        world, contacts, v = self.world, self.contacts, self.motion.v
        zones, x = Zones(), state.x.numpy()
        free = world.inverse_mass.numpy() > 0.0
        mass, end = world.mass, world.target.numpy().copy()
        stencils, weights = np.zeros((0, 4), np.int32), np.zeros((0, 4))
        for number in itertools.count():
            known = contacts.count
            if self.find(state, dt, report) == 0:
                break
            new = contacts.vertices[known : contacts.count].numpy().reshape(-1, 4)
            new_weights = contacts.weights[known : contacts.count].numpy().reshape(-1, 4)
            velocities = v.numpy().copy()
            movable = free[new] & (np.abs(new_weights) > LEAST_WEIGHT)
            forced = ~movable.any(axis=1)
            if forced.any():
                raise Forced(new[forced], new_weights[forced], velocities)
            stencils, weights = np.concatenate([stencils, new]), np.concatenate([weights, new_weights])
            zones.add(new)
            in_new = np.zeros(len(x), dtype=bool)
            in_new[new[movable]] = True
            for group in zones.groups():
                fixed, loose = group[~free[group]], group[free[group]]
                carried = carried_velocity(x[loose], x[fixed], end[fixed], dt) if len(fixed) else None
                if number >= RIGID_ROUNDS or (len(fixed) and carried is None):
                    chosen = loose[in_new[loose]]
                    velocities[chosen] = held_velocities(chosen, stencils, weights, velocities, free, fixed)
                    free[chosen] = False
                    end[chosen] = x[chosen] + dt * velocities[chosen]
                elif carried is not None:
                    velocities[loose] = carried
                else:
                    velocities[loose] = free_velocity(x[loose], velocities[loose], mass[loose], dt, number)
            v.assign(velocities)
        report.zones += len(zones.groups())


def held_velocities(
    vertices: Ints, stencils: Ints, weights: Floats, velocities: Floats, free: NDArray[np.bool_], fixed: Ints
) -> Floats:
    """The velocities of vertices that what they collide with holds: the mean of those of its prescribed or held points.

    `stencils` and `weights` (k, 4) are the collisions. A vertex that collides with free vertices only gets the mean velocity of
    the prescribed vertices `fixed` of its zone; where there is none, it stands still.
    """
    count = len(velocities)
    total, number = np.zeros((count, 3)), np.zeros(count)
    size = np.abs(weights)
    for sign in (1.0, -1.0):
        # the point of the other side, as far as it is not free
        other = np.where((sign * weights < 0.0) & ~free[stencils], size, 0.0)
        whole = other.sum(axis=1)
        point = np.einsum("ij,ijk->ik", other, velocities[stencils]) / np.maximum(whole, LEAST_WEIGHT)[:, None]
        row, corner = np.nonzero((sign * weights > LEAST_WEIGHT) & free[stencils] & (whole > LEAST_WEIGHT)[:, None])
        np.add.at(total, stencils[row, corner], point[row])
        np.add.at(number, stencils[row, corner], 1.0)
    rest = velocities[fixed].mean(axis=0) if len(fixed) else np.zeros(3)
    own = number[vertices, None]
    return np.where(own > 0.0, total[vertices] / np.maximum(own, 1.0), rest)

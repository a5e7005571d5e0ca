"""Vertices of cloth that move with what holds them in a step: their motion is prescribed, as that of pins is.

What holds them may tear at them: two bodies that pass through each other carry the cloth between them in two directions, and
past the free cloth beside it. So the motion of held vertices is eased until their edges keep the limit of strain; the cloth
slips through a body that would stretch it. Held vertices that would pass through other held cloth move as one with it.
"""

import numpy as np
from numpy.typing import NDArray

from weft.mesh.topology import ascending
from weft.methods.guarded.pair_states import TangleSides
from weft.methods.robust.limited_springs import RETURN_TIME
from weft.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]

# rounds in which edges at held vertices pull these back into the limit of strain; a patch of 100 vertices needs about 30
EASING_ROUNDS = 50
# a pin counts so many times as much as another vertex in the mean motion of what moves as one
PIN_WEIGHT = 1e9


class HeldVertices:
    """The vertices that are held in a step, and the pairs that are released for it; edges may be longer by `strain_limit`."""

    def __init__(self, world: World, strain_limit: float) -> None:
        self.world, self._limit = world, strain_limit
        self.vertices = np.zeros(0, np.int64)
        self.velocities = np.zeros((0, 3))
        self._passes = np.zeros(0, dtype=bool)
        """which of them colliders may pass"""
        self._group = np.zeros(0, np.int64)
        """of each of them the lowest vertex that it moves as one with"""
        self.pairs: list[TangleSides] = []
        """forced pairs of cloth with cloth"""
        self.loose = np.zeros(0, np.int64)
        """vertices that colliders may pass, but that nothing holds"""
        self._masses: tuple[Ints, Floats] | None = None

    @property
    def released(self) -> Ints:
        """The vertices that colliders may pass."""
        return ascending(np.concatenate([self.vertices[self._passes], self.loose]))

    def add(self, vertices: Ints, velocities: Floats, *, released: bool = True) -> None:
        """Hold vertices, with or without colliders passing them; those that are held already keep their velocities."""
        if released:
            self._passes |= np.isin(self.vertices, vertices)
        new = ~np.isin(vertices, self.vertices)
        vertices, first = np.unique(vertices[new], return_index=True)
        self.vertices = np.concatenate([self.vertices, vertices])
        self.velocities = np.concatenate([self.velocities, velocities[new][first]])
        self._passes = np.concatenate([self._passes, np.full(len(vertices), released)])
        self._group = np.concatenate([self._group, vertices])

    def join(self, vertices: Ints) -> bool:
        """Let held vertices move as one; False if they do already."""
        groups = np.unique(self._group[np.isin(self.vertices, vertices)])
        self._group[np.isin(self._group, groups)] = groups[0]
        return len(groups) > 1

    def sides(self) -> TangleSides:
        """The released pairs: held cloth with all colliders, and the forced pairs of cloth."""
        world, released = self.world, self.released
        parts = list(self.pairs)
        if len(released):
            parts.append(TangleSides.of(released, np.arange(world.cloth_vertex_count, world.vertex_count)))
        return TangleSides.join(*parts)

    def apply(self, x: Floats, v: Floats, dt: float) -> None:
        """Prescribe the motion of the held vertices in a step from x, where others have the velocities v; pins keep theirs."""
        if not len(self.vertices):
            return
        world = self.world
        inverse_mass, target = world.inverse_mass.numpy().copy(), world.target.numpy().copy()
        free = inverse_mass[self.vertices] > 0.0
        held = self.vertices[free]
        end = x + dt * v
        pinned = inverse_mass == 0.0
        end[pinned] = target[pinned]
        end[held] = x[held] + dt * self.velocities[free]
        self._ease(x, end, free, dt)
        self._masses = held, inverse_mass[held]
        inverse_mass[held] = 0.0
        target[held] = end[held]
        world.inverse_mass.assign(inverse_mass)
        world.target.assign(target)

    def _ease(self, x: Floats, end: Floats, free: Bools, dt: float) -> None:
        """Change where the held vertices end, but for pins, so that edges keep their limits and groups stay together."""
        _, group, sizes = np.unique(self._group, return_inverse=True, return_counts=True)
        number = np.full(self.world.vertex_count, -1)
        number[self.vertices[free]] = np.flatnonzero(free)
        edges, rest = (array.numpy() for array in self.world.cloth_edges)
        near = (number[edges] >= 0).any(axis=1)
        (a, b), rest = edges[near].T, rest[near]
        longest = self._longest(np.linalg.norm(x[b] - x[a], axis=1), rest, dt)
        own_a, own_b = number[a], number[b]
        # an edge pulls at its held ends only
        share = np.where((own_a >= 0) & (own_b >= 0), 0.5, 1.0)
        weight = np.where(free, 1.0, PIN_WEIGHT)
        moved = end[self.vertices] - x[self.vertices]
        # edges whose ends did not move in a round are as long as before
        changed = np.ones(len(free), dtype=bool)
        for _ in range(EASING_ROUNDS):
            if sizes.max() > 1:
                moved = _means(group, moved, weight)[group]
                changed[:] = True
            own = changed & free
            end[self.vertices[own]] = x[self.vertices[own]] + moved[own]
            checked = np.flatnonzero(changed[own_a] & (own_a >= 0) | changed[own_b] & (own_b >= 0))
            way = end[b[checked]] - end[a[checked]]
            length = np.sqrt(np.einsum("ij,ij->i", way, way))
            long = np.flatnonzero(length > longest[checked])
            if not len(long):
                break
            over = checked[long]
            pull = (share[over] * (1.0 - longest[over] / length[long]))[:, None] * way[long]
            owner = np.concatenate([own_a[over], own_b[over]])
            pull = np.concatenate([pull, -pull])[owner >= 0]
            owner = owner[owner >= 0]
            count = np.bincount(owner, minlength=len(free))
            total = np.stack([np.bincount(owner, pull[:, axis], len(free)) for axis in range(3)], axis=1)
            moved = moved + total / np.maximum(count, 1)[:, None]
            changed = count > 0

    def _longest(self, length: Floats, rest: Floats, dt: float) -> Floats:
        """How long edges may be at the end of a step: as the limits of strain allow it for free cloth."""
        limit = (1.0 + self._limit) * rest
        back = min(dt / float(RETURN_TIME), 1.0)
        longest: Floats = np.where(length > limit, length - back * (length - limit), limit)
        return longest

    def let_go(self) -> None:
        """Give the vertices their masses back."""
        if self._masses is not None:
            inverse_mass = self.world.inverse_mass.numpy().copy()
            held, masses = self._masses
            inverse_mass[held] = masses
            self.world.inverse_mass.assign(inverse_mass)
            self._masses = None


def _means(group: Ints, values: Floats, weight: Floats) -> Floats:
    """(groups, 3) the weighted mean of the values of each group."""
    total = np.bincount(group, weight)
    return np.stack([np.bincount(group, weight * values[:, axis]) / total for axis in range(3)], axis=1)

"""Threads lock: cloth gives way to a little stretch, then hardly any more.

The conditions of Baraff and Witkin resist stretch as much as compression. Where a seam joins a long edge to a short one, or
a hand drags at a garment, real cloth wrinkles on one side long before it is stretched by a quarter on the other; a mesh
wrinkles no finer than its edges. So edges that are, or would be, stretched beyond a limit are held by links (see `links`),
many times as stiff as the cloth, within the same solve. A link knows only what an edge does when the step begins; where
the end of a step has edges stretched much farther, `clip` brings their ends nearer to each other (Provot 1995).
"""

import numpy as np

from weft.dynamics.links import Links
from weft.world import World

# stretch at which an edge begins to lock, and how much earlier it is watched
LIMIT = 0.12
WATCHED = 0.03
# how stiff a locked edge is, in units of the cloth's stretch stiffness
STIFFER = 10.0
# the fastest way back, m/s
PACE = 1.0
# stretch beyond which the end of a step is clipped, in how many rounds at most
LARGEST = 0.22
ROUNDS = 30


class Locking:
    """The edges of all cloths, with the stiffness they have when they lock."""

    def __init__(self, world: World) -> None:
        parts = world.cloths
        none = np.zeros(0)
        self._edges = np.concatenate([np.zeros((0, 2), np.int32), *(part.mesh.edges + part.first for part in parts)])
        self._rest = np.concatenate([none, *(part.mesh.rest_lengths for part in parts)])
        stretch = [np.full(len(part.mesh.edges), part.material.stretch) for part in parts]
        self._stiffness = STIFFER * np.concatenate([none, *stretch])

    def lock(self, x: np.ndarray, v: np.ndarray, dt: float, links: Links, *, spared: np.ndarray) -> int:
        """Add links for the edges that a step of dt from x would leave stretched too far; gives how many.

        `spared`: (n,) vertices at whose edges nothing locks.
        """
        a, b = self._edges.T
        way, speed = x[a] - x[b], v[a] - v[b]
        now = np.sqrt(np.einsum("ij,ij->i", way, way))
        then = np.linalg.norm(way + dt * speed, axis=1)
        longest = (1.0 + LIMIT) * self._rest
        near = np.flatnonzero(
            (np.maximum(now, then) > (1.0 + LIMIT - WATCHED) * self._rest) & ~(spared[a] | spared[b]) & (now > 0.0)
        )
        if not len(near):
            return 0
        links.add(
            self._edges[near],
            np.tile([1.0, -1.0], (len(near), 1)),
            -way[near] / now[near, None],
            rest=-longest[near],
            speed=PACE,
            stiffness=self._stiffness[near],
        )
        return len(near)

    def clip(self, x: np.ndarray, v: np.ndarray, dt: float, *, held: np.ndarray) -> int:
        """Shorten the edges that a step of dt left too long, in x and v themselves; gives how many it found.

        Both ends go alike, which conserves momentum where masses are alike; `held` vertices stay, and edges at them
        may be as long as they are.
        """
        a, b = self._edges.T
        longest = (1.0 + LARGEST) * self._rest
        found = 0
        watched = np.flatnonzero(~(held[a] | held[b]))
        for _ in range(ROUNDS):
            way = x[a[watched]] - x[b[watched]]
            length = np.sqrt(np.einsum("ij,ij->i", way, way))
            long = np.flatnonzero(length > longest[watched])
            if not len(long):
                break
            edges = watched[long]
            found = max(found, len(edges))
            step = (0.5 * (longest[edges] / length[long] - 1.0))[:, None] * way[long]
            ends = np.concatenate([a[edges], b[edges]])
            moved, row, count = np.unique(ends, return_inverse=True, return_counts=True)
            total = np.zeros((len(moved), 3))
            np.add.at(total, row, np.concatenate([step, -step]))
            # a vertex of several such edges goes the mean of their ways
            total /= count[:, None]
            x[moved] += total
            v[moved] += total / dt
        return found

"""How crossing cloth is parted: a displacement of all vertices for each step, small enough for the cloth to follow.

In turn, vertices inside a path are pulled back through the other sheet and paths without an inside are shortened, or all paths
are shortened (see `weft.analysis.attraction`). Vertices inside a solid leave it by the nearest way. Colliders, pins and
what is held do not move: then the other side moves by twice as much. The displacement is part of the motion of the step, so
that pairs outside the tangle are guarded against it, but not of the velocity that the next step starts with.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.attraction import Moves, contour_moves, unit
from weft.analysis.partners import attraction_moves, find_partners, pulling_paths
from weft.analysis.spreading import Spreading, mean_displacements
from weft.mesh.topology import make_csr
from weft.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# edge lengths by which shortening a path moves each of its two sides in a step, and that any vertex moves at most
CONTOUR_STEP = 0.2
LARGEST_MOVE = 0.25
# a vertex that is pulled, or leaves a solid, moves this fraction of the way in a step; one that is pulled at least so many
# edge lengths. What has just come into a solid leaves it softly: it may come back in the next step, again and again
PULL_FRACTION, PULL_LEAST = 0.2, 0.1
# where no path is parted and cloth only leaves solids, a displacement loses at least so many edge lengths from ring to ring as
# it spreads: a vertex that comes in and goes out again, beside pinched ones, should not shake a whole sleeve
SPREAD_LOSS = 0.01


class Way(NamedTuple):
    """Vertices that are to move, and how far in the step."""

    vertices: Ints
    vectors: Floats
    """(k, 3), m"""


class Parting:
    """Displacements that part what crosses."""

    def __init__(self, world: World, analyser: Analyser) -> None:
        self.world, self.analyser = world, analyser
        count, edges = world.vertex_count, analyser.topology.edges
        cloth = edges[(edges < world.cloth_vertex_count).all(axis=1)]
        rest = world.rest_shape.numpy()
        lengths = np.linalg.norm(rest[cloth[:, 1]] - rest[cloth[:, 0]], axis=1)
        around = np.bincount(cloth.ravel(), np.repeat(lengths, 2), count)
        self.scale = around / np.maximum(np.bincount(cloth.ravel(), minlength=count), 1)
        """(n,) the mean length of the edges at each vertex of cloth, m; 0 for colliders"""
        rows, columns = np.concatenate([cloth, cloth[:, ::-1]]).T
        self._spreading = Spreading(make_csr(rows, columns, count, count), world.device)

    def displacements(
        self, analysis: Analysis, paths: Bools, pulled: Bools, ways: Sequence[Way], movable: Bools, number: int
    ) -> Floats:
        """(n, 3) for step `number`, to part some paths, to pull others back always, and to move vertices along ways."""
        moves: list[tuple[Moves, Floats]] = []
        if number % 2 == 0:
            dividing = paths & pulling_paths(analysis)
            paths, pulled = paths & ~dividing, pulled | dividing
        if pulled.any():
            moves.append(self._pull(analysis, pulled, movable))
        if paths.any():
            shorten = self._for_movable(contour_moves(analysis, paths), movable)
            moves.append((shorten, CONTOUR_STEP * self._lengths(shorten)))
        least = None if moves else SPREAD_LOSS * self.scale
        for vertices, way in ways:
            distance = np.linalg.norm(way, axis=1)
            out = Moves(vertices[:, None], np.ones((len(vertices), 1)), unit(way))
            moves.append((out, distance))
        own, named = mean_displacements(moves, self.world.vertex_count)
        moved = self._spreading.spread(np.where(movable[:, None], own, 0.0), named & movable, least)
        moved[~movable] = 0.0
        return limited(moved, LARGEST_MOVE * self.scale)

    def _pull(self, analysis: Analysis, paths: Bools, movable: Bools) -> tuple[Moves, Floats]:
        """Moves of the vertices inside the chosen paths towards their partners, and the lengths of the moves."""
        partners = find_partners(self.analyser, analysis, paths, analysis.length)
        pull, distance = attraction_moves(analysis, partners)
        pull = self._for_movable(pull, movable)
        return pull, self._steps(distance, pull)

    def _steps(self, distance: Floats, moves: Moves) -> Floats:
        """How far to go of a distance in one step."""
        here = self._lengths(moves)
        return np.maximum(PULL_FRACTION * distance, PULL_LEAST * here)

    def _for_movable(self, moves: Moves, movable: Bools) -> Moves:
        """These moves, with twice the directions where only one side can move."""
        can = movable[moves.vertices] & (moves.weights != 0.0)
        one, other = (can & (moves.weights > 0.0)).any(axis=1), (can & (moves.weights < 0.0)).any(axis=1)
        factor = np.where(one & other, 1.0, 2.0)[:, None]
        return Moves(moves.vertices, np.where(can, moves.weights, 0.0), factor * moves.directions)

    def _lengths(self, moves: Moves) -> Floats:
        """The mean edge length at the vertices of each move."""
        size = np.abs(moves.weights)
        lengths: Floats = (size * self.scale[moves.vertices]).sum(axis=1) / np.maximum(size.sum(axis=1), 1e-300)
        return lengths


def limited(vectors: Floats, limits: Floats) -> Floats:
    """The vectors, shortened to their limits if they are longer."""
    lengths = np.linalg.norm(vectors, axis=1)
    return vectors * np.minimum(1.0, limits / np.maximum(lengths, 1e-300))[:, None]

"""Finish frames: smoother, finer cloth without new intersections (Bridson, Fedkiw and Anderson 2002, section 8).

For each frame by itself: cloth that passes through colliders is pushed out (`outside`). Then, for each level, edges are split
at their midpoints, which changes no surface and so makes no intersection, and all vertices move towards their positions by
Loop's subdivision rule, stopping before they collide (`stop`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.cache import Body
from weft.errors import WeftError
from weft.finish.levels import Level, SewnPairs, refine
from weft.finish.outside import Outside
from weft.finish.stop import NEAR, SafeMove, Skip
from weft.geometry.intersection import IntersectionFinder, cloth_pairs, face_bodies
from weft.mesh.subdivide import Weights, check_weights
from weft.world import Surface

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# each level has four times as many triangles: five levels make 1024 of every triangle
MOST_LEVELS = 5


@dataclass(frozen=True)
class Finished:
    """One frame at its finest level."""

    positions: Floats
    velocities: Floats | None
    stopped: tuple[int, ...]
    """how many vertices stopped before a collision, at each level"""
    rounds: int
    """how many times collisions were detected, in all levels"""
    before: int
    """number of intersections of the source frame"""
    kept: Ints
    """(k, 3) intersections (edge vertex, edge vertex, face) of level 0 that are left after cloth was pushed out of colliders"""
    pushed: int
    """number of vertices that were pushed out of colliders"""
    held: int
    """number of triangles of the frame that stay as they are, since they intersect"""
    problems: list[str] = field(default_factory=list)


class Finisher:
    """Finishes the frames of one set of bodies; what depends on their triangles alone is computed once."""

    def __init__(
        self,
        bodies: Sequence[Body],
        faces: ArrayLike,
        positions: ArrayLike,
        *,
        levels: int = 2,
        sewn: ArrayLike | None = None,
        near: float = NEAR,
        device: str = "cpu",
        weights: Weights = "loop",
    ) -> None:
        """bodies: with name, kind ("cloth" or anything else), vertices and faces. positions: of a first frame.

        sewn: (k, 2) pairs of triangles that a seam joins and that may touch, as `weft.geometry.intersection.sewn_pairs`
            gives them.
        near: metres; the distance that surfaces keep which are at least twice as far apart at the start.
        weights: "loop" for those of Loop (1987), "bounded" for bounded curvature as in Loop (2001).
        """
        if not 1 <= levels <= MOST_LEVELS:
            raise WeftError(f"levels must be 1 to {MOST_LEVELS}, not {levels}")
        if not 0.0 < near < 1.0:
            raise WeftError(f"near must be a distance in metres between 0 and 1, not {near}")
        if not any(body.kind == "cloth" for body in bodies):
            raise WeftError("there is no cloth to subdivide: all bodies are colliders")
        check_weights(weights)
        start = np.asarray(faces, np.int32), np.asarray(positions, np.float64)
        self.levels = refine(bodies, *start, levels, weights=weights)
        self.near = near
        self.device = device
        self._sewn = SewnPairs(len(self.levels[0].faces), np.zeros((0, 2), np.int32) if sewn is None else sewn)
        self._moves: dict[int, SafeMove] = {}
        self._finders: dict[int, IntersectionFinder] = {}
        self._outside: Outside | None = None

    def finish(self, positions: ArrayLike, velocities: ArrayLike | None = None) -> Finished:
        """The frame at the finest level; velocities are subdivided like the positions."""
        x = np.ascontiguousarray(positions, dtype=np.float64)
        v = None if velocities is None else np.ascontiguousarray(velocities, dtype=np.float64)
        found = self.intersections(x, 0)
        before, problems, came = len(found), [], x
        if len(found):
            self._outside = self._outside or Outside(self)
            if self._outside.with_colliders(found):
                x, found = self._outside.push(x, found)
            if left := self._outside.with_colliders(found):
                problems.append(f"{left} intersections with colliders could not be removed")
        pushed = int((x != came).any(axis=1).sum())
        held = self.triangles_of(found)
        if len(held):
            problems.append(f"{len(held)} triangles intersect in this frame and are left as they are")

        stopped, rounds = [], 0
        for coarse, fine in zip(self.levels[:-1], self.levels[1:], strict=True):
            start, goal = coarse.split(x), coarse.smooth(x)
            moved = self._move(fine.number).go(start, goal, held=fixed_vertices(fine, held), skip=self._skip(fine))
            if v is not None:
                v = coarse.split(v) + moved.fraction[:, None] * (coarse.smooth(v) - coarse.split(v))
            x = moved.positions
            stopped.append(moved.stopped)
            rounds += moved.rounds
        return Finished(x, v, tuple(stopped), rounds, before, found, pushed, len(held), problems)

    def plain(self, positions: ArrayLike) -> Floats:
        """The frame subdivided by Loop's rule alone, without regard to collisions, for comparison."""
        x = np.asarray(positions, dtype=np.float64)
        for level in self.levels[:-1]:
            x = level.smooth(x)
        return x

    def intersections(self, positions: Floats, level: int = -1) -> Ints:
        """(k, 3) intersections (edge vertex, edge vertex, face) at a level, without those of triangles that a seam joins."""
        chosen = self.levels[level]
        finder = self._finders.get(chosen.number)
        if finder is None:
            finder = IntersectionFinder(
                chosen.faces,
                face_body=face_bodies(chosen.bodies),
                body_pairs=cloth_pairs(chosen.bodies),
                device=self.device,
            )
            self._finders[chosen.number] = finder
        return self._sewn.without(finder.find(positions), chosen)

    def source_pairs(self, found: Ints, level: int = -1) -> set[tuple[int, int]]:
        """The pairs of triangles of level 0 to which these intersections of a level belong."""
        chosen = self.levels[level]
        number, owner = self._sewn.owners(found, chosen)
        one, other = chosen.source[owner], chosen.source[found[number, 2]]
        pairs = np.stack([np.minimum(one, other), np.maximum(one, other)], axis=1)
        return {(int(a), int(b)) for a, b in np.unique(pairs, axis=0)}

    def owners(self, found: Ints, level: int) -> tuple[NDArray[np.int64], Ints]:
        """The triangles that have the edges of intersections: (number of the intersection, triangle)."""
        return self._sewn.owners(found, self.levels[level])

    def triangles_of(self, found: Ints) -> Ints:
        """The triangles of level 0 that these intersections involve."""
        _, owner = self.owners(found, 0)
        return np.unique(np.concatenate([owner, found[:, 2]])).astype(np.int32)

    def _move(self, number: int) -> SafeMove:
        if number not in self._moves:
            self._moves[number] = SafeMove(self.surface(number), near=self.near)
        return self._moves[number]

    def _skip(self, level: Level) -> Skip | None:
        return self._sewn.skip(level, self._move(level.number).surface) if len(self._sewn) else None

    def surface(self, number: int, *, colliders: bool = True) -> Surface:
        """The surface of a level for collision detection: cloth against everything; without colliders, cloth against cloth."""
        level = self.levels[number]
        return Surface.from_arrays(
            level.vertex_count,
            level.faces,
            face_body=face_bodies(level.bodies),
            body_pairs=cloth_pairs(level.bodies, colliders=colliders).astype(np.int32),
            device=self.device,
        )


def fixed_vertices(level: Level, held: Ints) -> Bools:
    """(n,) the vertices of a level that belong to triangles split from the held triangles of level 0."""
    fixed = np.zeros(level.vertex_count, bool)
    if len(held):
        fixed[level.faces[np.isin(level.source, held)]] = True
    return fixed

"""Move vertices straight to where they should be, and stop those that would collide on the way (paper, section 8).

The way is taken as a motion, and continuous collision detection says which vertices meet what and when. They stop a
little before that, which changes what the others meet, so the rest is looked at again, until nothing meets any more. A
vertex that stops too early has only been smoothed less. In the end every vertex could stay where it was, and there
nothing is wrong: so there always is an end, and a motion that is free of collisions leads to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.broad_phase.interface import make_broad_phase
from weft.finish import stop_kernels as kernels
from weft.runtime import launch
from weft.world import Surface

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Skip = Callable[[int, Ints], Bools]

# pairs do not come nearer than this, in m, unless they start within twice of it: then half of where they start
NEAR = 1e-4
# a vertex stops after this part of the way to where it would meet something
BEFORE = 0.9
# rounds in which vertices may keep a part of their way; after that those that still meet something keep none
PARTIAL_ROUNDS = 8
# parts of a way that are not worth going
SMALLEST_PART = 0.02
GRAIN = 256


@dataclass(frozen=True)
class Moved:
    """Where a motion ended."""

    positions: Floats
    part: Floats
    """(n,) how much of its way each vertex went, 0 to 1; 1 also where it had none"""
    stopped: int
    """how many vertices went less than all of their way"""
    rounds: int
    """how often collisions had to be looked for"""
    met: Ints
    """(k, 4) vertices of the pairs that would have met: what was in the way"""


class SafeMove:
    """Moves the vertices of one surface, again and again."""

    def __init__(self, surface: Surface, *, near: float = NEAR) -> None:
        self.surface = surface
        self.near = near
        self.device = surface.device
        self._broad = make_broad_phase("bvh", surface)
        self._edges = surface.edges.numpy().reshape(-1, 2)
        self._faces = surface.faces.numpy().reshape(-1, 3)

    def go(self, start: Floats, goal: Floats, *, held: Bools | None = None, skip: Skip | None = None) -> Moved:
        """From start, where nothing intersects, as far towards goal as goes without a collision.

        held: vertices that do not move. skip(kind, pairs) gives a mask of the pairs that do not matter (seams); the
        pairs are (k, 2) vertices and triangles for kind 0, edges and edges for kind 1.
        Triangles that intersect at the start must be held: what passes through them already is not seen.
        """
        part = np.ones(len(start))
        if held is not None:
            goal = np.where(held[:, None], start, goal)
        moving = (start != goal).any(axis=1)
        x, to, end = (wp.array(p, dtype=wp.vec3d, device=self.device) for p in (start, goal, goal))
        kinds, stencils, least = self._pairs(x, to, skip)
        count = len(kinds)
        hit, time = (wp.zeros(count, dtype=t, device=self.device) for t in (int, wp.float64))
        arrays = [
            wp.array(kinds, dtype=int, device=self.device),
            wp.array(stencils, dtype=wp.vec4i, device=self.device),
            wp.array(least, dtype=wp.float64, device=self.device),
        ]
        changed = moving
        rounds, in_the_way = 0, [np.zeros((0, 4), np.int32)]
        while count and changed.any():
            rounds += 1
            parts = wp.array(part, dtype=wp.float64, device=self.device)
            marks = wp.array(changed.astype(np.int32), dtype=int, device=self.device)
            launch(kernels.go, len(part), [x, to, parts, end], device=self.device)
            inputs = [*arrays, x, end, marks, hit, time]
            launch(kernels.meet, count, inputs, device=self.device, grain=64)
            met = np.flatnonzero(hit.numpy())
            shorter = self._shorten(part, stencils[met], time.numpy()[met], partial=rounds <= PARTIAL_ROUNDS)
            changed = (shorter < part) & moving
            part = shorter
            in_the_way.append(stencils[met])
        positions = end.numpy() if count else goal.copy()
        part[~moving] = 1.0
        return Moved(positions, part, int((part < 1.0).sum()), rounds, np.concatenate(in_the_way))

    def _shorten(self, part: Floats, stencils: Ints, times: Floats, *, partial: bool) -> Floats:
        """Stop the vertices of pairs that meet: the earliest counts."""
        keep = BEFORE * times if partial else np.zeros(len(times))
        shorter = part.copy()
        for column in stencils.T:
            np.minimum.at(shorter, column, part[column] * keep)
        shorter[shorter < SMALLEST_PART] = 0.0
        return shorter

    def _pairs(self, start: wp.array, goal: wp.array, skip: Skip | None) -> tuple[Ints, Ints, Floats]:
        """All pairs that could meet, whatever part of its way each vertex goes: kinds, stencils, least distances."""
        self._broad.update(start, goal, 2.0 * self.near, follow=False)
        candidates = self._broad.feature_pairs()
        surface = self.surface
        found = []
        for kind, pairs, features, sift in (
            (0, candidates[0], surface.faces, kernels.prefilter_vertex_triangle),
            (1, candidates[1], surface.edges, kernels.prefilter_edge_edge),
        ):
            kept = wp.empty(len(pairs), dtype=int, device=self.device)
            least = wp.empty(len(pairs), dtype=wp.float64, device=self.device)
            inputs = [pairs, features, start, goal, self.near, kept, least]
            launch(sift, len(pairs), inputs, device=self.device, grain=GRAIN)
            rows = np.flatnonzero(kept.numpy())
            chosen = pairs.numpy().reshape(-1, 2)[rows]
            if skip is not None and len(rows):
                wanted = ~skip(kind, chosen)
                rows, chosen = rows[wanted], chosen[wanted]
            one, other = chosen.T
            sides = (one[:, None], self._faces[other]) if kind == 0 else (self._edges[one], self._edges[other])
            found.append((np.full(len(rows), kind, np.int32), np.concatenate(sides, axis=1), least.numpy()[rows]))
        kinds, stencils, distances = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return kinds, stencils, distances

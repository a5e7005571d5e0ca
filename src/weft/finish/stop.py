"""Move vertices towards their goals as far as possible without a collision (Bridson, Fedkiw and Anderson 2002, section 8).

Every vertex i moves on a straight line from start[i] towards goal[i] and stops after a fraction of the way, from 0 to 1. CCD
finds the pairs that would collide, and their vertices stop a little before that time. This changes what other vertices
collide with, so the pairs of vertices that stopped are tested again, until no pair collides. A vertex that stops too early
is only smoothed less. The loop ends: at worst every vertex stays at its start, where nothing intersects.

The prefilter finds the pairs that could collide whatever fraction of its motion each vertex takes, so a pair that it drops
need never be tested again.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.broad_phase.interface import make_broad_phase
from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.geometry.stencil import POINT_TRIANGLE, nearest_weights, pair_vertices, relative_position
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
ONE = wp.constant(wp.float64(1.0))
# CCD reports pairs up to 1.25 times the tolerance apart (see `weft.geometry.ccd`); the prefilter must keep these too
REPORTED = wp.constant(wp.float64(1.3))
# rounding error of differences of coordinates along a direction, as a fraction of the largest coordinate
ROUNDING = wp.constant(wp.float64(32.0 * 2.0**-53))
Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]
Skip = Callable[[int, Ints], Bools]
"""Given a kind and its pairs: which of the pairs to ignore."""

# metres; the distance that pairs keep, or half the distance that they start with if that is less. Small against the
# thickness of cloth, large against rounding
NEAR = 1e-4
# a vertex stops at this fraction of the way to its collision: nearer to 1 smooths more, but leaves less room for the others
BEFORE_COLLISION = 0.9
# rounds after which vertices that still collide do not move at all, so that the loop ends; a few are enough nearly always
PARTIAL_ROUNDS = 8
# smaller fractions of a motion are rounded to 0: they smooth nothing and cost rounds
SMALLEST_FRACTION = 0.02
# pairs of one thread's range in the prefilter
PAIRS_PER_RANGE = 256


@wp.func
def low_end(n: wp.vec3d, x: wp.vec3d, motion: wp.vec3d) -> wp.float64:
    """The least height along n of a point at any fraction of its motion."""
    return wp.dot(n, x) + wp.min(ZERO, wp.dot(n, motion))


@wp.func
def high_end(n: wp.vec3d, x: wp.vec3d, motion: wp.vec3d) -> wp.float64:
    """The greatest height along n of a point at any fraction of its motion."""
    return wp.dot(n, x) + wp.max(ZERO, wp.dot(n, motion))


@wp.func
def least_distance(distance: wp.float64, near: wp.float64) -> wp.float64:
    """The distance that a pair keeps: half the distance that it starts with, but at most `near`."""
    return wp.min(near, HALF * distance)


@wp.func
def size_of(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.float64:
    """The largest magnitude of a coordinate of three vectors."""
    m = wp.max(wp.max(wp.abs(a), wp.abs(b)), wp.abs(c))
    return wp.max(wp.max(m[0], m[1]), m[2])  # type: ignore[return-value]


@wp.func
def distance_along(
    kind: int,
    n: wp.vec3d,
    b: wp.vec3d,
    c: wp.vec3d,
    d: wp.vec3d,
    motion_a: wp.vec3d,
    motion_b: wp.vec3d,
    motion_c: wp.vec3d,
    motion_d: wp.vec3d,
) -> wp.float64:
    """How far apart the sides of a stencil, whose first point is the origin, stay along n at any fractions of the motions."""
    low = low_end(n, wp.vec3d(), motion_a)
    high = wp.max(high_end(n, c, motion_c), high_end(n, d, motion_d))
    if kind == POINT_TRIANGLE:
        high = wp.max(high_end(n, b, motion_b), high)
    else:
        low = wp.min(low, low_end(n, b, motion_b))
    return low - high


@wp.kernel
def prefilter(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    edges: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    start: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    near: wp.float64,
    kept: wp.array[int],
    least: wp.array[wp.float64],
):
    """Keep the pairs that could come within their least distance at some fractions of the motions; compute that distance.

    kind: 0 for pairs of a vertex and a triangle, 1 for pairs of edges.
    """
    i = first + wp.tid()
    q = pair_vertices(kind, pairs[i], faces, edges)
    # coordinates relative to the first vertex lose fewer digits
    x0 = start[q[0]]
    b = start[q[1]] - x0
    c = start[q[2]] - x0
    d = start[q[3]] - x0
    motion_a = goal[q[0]] - x0
    motion_b = goal[q[1]] - start[q[1]]
    motion_c = goal[q[2]] - start[q[2]]
    motion_d = goal[q[3]] - start[q[3]]
    kept[i] = 0

    # separated along the line of centres by more than the largest distance that is kept
    n = -(b + c + d)
    if kind != POINT_TRIANGLE:
        n = b - c - d
    apart = distance_along(kind, n, b, c, d, motion_a, motion_b, motion_c, motion_d)
    rounding = ROUNDING * size_of(b, c, d)
    if apart > (REPORTED * near + rounding) * wp.length(n):
        return

    # or along the line of nearest points by more than the distance of this pair
    w = nearest_weights(kind, wp.vec3d(), b, c, d)
    n = relative_position(w, wp.vec3d(), b, c, d)
    distance = wp.length(n)
    least[i] = least_distance(distance, near)
    apart = distance_along(kind, n, b, c, d, motion_a, motion_b, motion_c, motion_d)
    if apart > (REPORTED * least[i] + rounding) * distance:
        return
    kept[i] = 1


@wp.kernel
def interpolate(
    first: int,
    start: wp.array[wp.vec3d],
    goal: wp.array[wp.vec3d],
    fraction: wp.array[wp.float64],
    end: wp.array[wp.vec3d],
):
    """The position of each vertex at its fraction of the motion: exactly the start for 0 and the goal for 1."""
    i = first + wp.tid()
    if fraction[i] >= ONE:
        end[i] = goal[i]
    elif fraction[i] <= ZERO:
        end[i] = start[i]
    else:
        end[i] = start[i] + fraction[i] * (goal[i] - start[i])


@wp.kernel
def detect_collisions(
    first: int,
    kinds: wp.array[int],
    stencils: wp.array[wp.vec4i],
    least: wp.array[wp.float64],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    changed: wp.array[int],
    hit: wp.array[int],
    time: wp.array[wp.float64],
):
    """Whether and when pairs come within their least distance; pairs without a vertex whose end has changed are skipped."""
    i = first + wp.tid()
    q = stencils[i]
    hit[i] = 0
    if changed[q[0]] + changed[q[1]] + changed[q[2]] + changed[q[3]] == 0:
        return
    a0 = start[q[0]]
    b0 = start[q[1]]
    c0 = start[q[2]]
    d0 = start[q[3]]
    a1 = end[q[0]]
    b1 = end[q[1]]
    c1 = end[q[2]]
    d1 = end[q[3]]
    # vertices that do not move do not collide
    if a0 == a1 and b0 == b1 and c0 == c1 and d0 == d1:
        return
    if kinds[i] == POINT_TRIANGLE:
        collides, when = ccd_point_triangle(a0, b0, c0, d0, a1, b1, c1, d1, least[i])
    else:
        collides, when = ccd_edge_edge(a0, b0, c0, d0, a1, b1, c1, d1, least[i])
    if collides:
        hit[i] = 1
        time[i] = when


@dataclass(frozen=True)
class Moved:
    """The result of a motion."""

    positions: Floats
    fraction: Floats
    """(n,) the fraction of its motion that each vertex moved, 0 to 1; 1 also where start and goal are the same"""
    stopped: int
    """how many vertices did not reach their goal"""
    rounds: int
    """how many times collisions were detected"""
    collided: Ints
    """(k, 4) the vertices of the pairs that would have collided"""


class SafeMove:
    """Moves the vertices of one surface without collisions; for many frames."""

    def __init__(self, surface: Surface, *, near: float = NEAR) -> None:
        self.surface = surface
        self.near = near
        self.device = surface.device
        self._broad = make_broad_phase("bvh", surface)
        self._edges = surface.edges.numpy().reshape(-1, 2)
        self._faces = surface.faces.numpy().reshape(-1, 3)

    def go(self, start: Floats, goal: Floats, *, held: Bools | None = None, skip: Skip | None = None) -> Moved:
        """Move from start, where nothing intersects, as far towards goal as is possible without a collision.

        held: vertices that do not move. skip(kind, pairs) gives a mask of the pairs to ignore (seams); pairs are (k, 2)
        vertices and triangles for kind 0, edges and edges for kind 1.
        Triangles that intersect at the start must be held: CCD does not see what has passed through already.
        """
        fraction = np.ones(len(start))
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
        rounds, collided = 0, [np.zeros((0, 4), np.int32)]
        while count and changed.any():
            rounds += 1
            fractions = wp.array(fraction, dtype=wp.float64, device=self.device)
            marks = wp.array(changed.astype(np.int32), dtype=int, device=self.device)
            launch(interpolate, len(fraction), [x, to, fractions, end], device=self.device)
            inputs = [*arrays, x, end, marks, hit, time]
            launch(detect_collisions, count, inputs, device=self.device, grain=64)
            hits = np.flatnonzero(hit.numpy())
            shorter = self._shorten(fraction, stencils[hits], time.numpy()[hits], partial=rounds <= PARTIAL_ROUNDS)
            changed = (shorter < fraction) & moving
            fraction = shorter
            collided.append(stencils[hits])
        positions = end.numpy() if count else goal.copy()
        fraction[~moving] = 1.0
        return Moved(positions, fraction, int((fraction < 1.0).sum()), rounds, np.concatenate(collided))

    def _shorten(self, fraction: Floats, stencils: Ints, times: Floats, *, partial: bool) -> Floats:
        """New fractions: the vertices of colliding pairs stop before the earliest of their collisions."""
        keep = BEFORE_COLLISION * times if partial else np.zeros(len(times))
        shorter = fraction.copy()
        for column in stencils.T:
            np.minimum.at(shorter, column, fraction[column] * keep)
        shorter[shorter < SMALLEST_FRACTION] = 0.0
        return shorter

    def _pairs(self, start: wp.array, goal: wp.array, skip: Skip | None) -> tuple[Ints, Ints, Floats]:
        """All pairs that could collide, at any fractions of the motions: kinds, stencils, least distances."""
        self._broad.update(start, goal, 2.0 * self.near, follow=False)
        candidates = self._broad.feature_pairs()
        surface = self.surface
        found = []
        for kind, pairs in enumerate(candidates[:2]):
            kept = wp.empty(len(pairs), dtype=int, device=self.device)
            least = wp.empty(len(pairs), dtype=wp.float64, device=self.device)
            inputs = [kind, pairs, surface.edges, surface.faces, start, goal, self.near, kept, least]
            launch(prefilter, len(pairs), inputs, device=self.device, grain=PAIRS_PER_RANGE)
            numbers = np.flatnonzero(kept.numpy())
            chosen = pairs.numpy().reshape(-1, 2)[numbers]
            if skip is not None and len(numbers):
                wanted = ~skip(kind, chosen)
                numbers, chosen = numbers[wanted], chosen[wanted]
            one, other = chosen.T
            sides = (one[:, None], self._faces[other]) if kind == 0 else (self._edges[one], self._edges[other])
            found.append((np.full(len(numbers), kind, np.int32), np.concatenate(sides, axis=1), least.numpy()[numbers]))
        kinds, stencils, distances = (np.concatenate(columns) for columns in zip(*found, strict=True))
        return kinds, stencils, distances

"""Attraction: cloth that has passed through cloth is pulled back, and paths are shortened, by springs that act for one step.

Every other step pulls the vertices inside a path towards the region they have passed through, and shortens the paths that have
no inside (`weft.analysis.attraction`); the steps between shorten all paths. Pulling alone leaves folds and cuffs tangled;
shortening alone is slow where much has passed through.
"""

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.attraction import Moves, contour_moves, crossing_stencils
from weft.analysis.partners import attraction_moves, find_partners, pulling_paths
from weft.dynamics.implicit.step_springs import StepSprings

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# stiffness of attraction, in reduced masses over the step squared; smaller values lose against the stiffness of the cloth
PULL_STRENGTH = 300.0
# m/s; the fastest pull
PULL_SPEED = 1.0
# edge lengths that shortening a path moves both sides in a step, at most
CONTOUR_STEP = 0.5
# a vertex that is pulled moves this fraction of the way to its partner, and a gap beyond; at most so many edge lengths
PULL_FRACTION, PULL_MOST = 0.5, 1.0
# folds of at most so many crossings are only shortened: pulled together, they would open and close for ever
SMALL_FOLD = 12


def attract(
    analyser: Analyser, analysis: Analysis, springs: StepSprings, dt: float, *, number: int, pinched: Ints, gap: float
) -> int:
    """Add the springs that untangle in step `number` of length dt; gives how many. They aim at a `gap` (metres) beyond.

    Paths at pinched vertices are left alone: they cannot vanish before the pinch opens, and pulling at them would shake
    the cloth around.
    """
    if not len(analysis):
        return 0
    before, length = springs.count, analysis.length
    able = ~_paths_at(analysis, pinched)
    shortened = able
    if number % 2 == 0:
        small = analysis.single & (np.diff(analysis.path_offsets) <= SMALL_FOLD)
        pulled = able & pulling_paths(analysis) & ~small
        shortened = able & ~pulled
        if pulled.any():
            moves, distance = attraction_moves(analysis, find_partners(analyser, analysis, pulled, length))
            steps = np.minimum(PULL_FRACTION * distance + gap, PULL_MOST * length)
            _add(springs, moves, steps, dt)
    if shortened.any():
        moves = contour_moves(analysis, shortened)
        steps = np.minimum(_depths(analysis) + gap, CONTOUR_STEP * length)
        _add(springs, moves, steps[shortened[analysis.path_of]], dt)
    return springs.count - before


def _depths(analysis: Analysis) -> Floats:
    """(k,) metres; for each crossing, the depth to which the edges of its path reach through their triangles, the largest of
    the path: cloth that has only just passed through must not be pulled as far as cloth that is deep inside.
    """
    crossings = crossing_stencils(analysis)
    x, fraction = analysis.positions, analysis.fractions
    lengths = np.linalg.norm(x[analysis.rows[:, 1]] - x[analysis.rows[:, 0]], axis=1)
    slope = np.abs(np.einsum("ij,ij->i", crossings.along, crossings.normal))
    depth = np.minimum(fraction, 1.0 - fraction) * lengths * slope
    deepest: Floats = np.maximum.reduceat(depth, analysis.path_offsets[:-1])[analysis.path_of]
    return deepest


def _paths_at(analysis: Analysis, vertices: Ints) -> Bools:
    """(paths,) which paths have a crossing whose edge or triangle has one of these vertices."""
    marked = np.zeros(analysis.topology.vertex_count, dtype=bool)
    marked[vertices] = True
    beside = np.column_stack([analysis.rows[:, :2], analysis.topology.faces[analysis.face]])
    found = np.bincount(analysis.path_of, marked[beside].any(axis=1), len(analysis)) > 0
    return np.asarray(found)


def _add(springs: StepSprings, moves: Moves, steps: Floats, dt: float) -> None:
    """Add springs that move both sides of each move by its step (metres), against each other."""
    chosen = moves.directions.any(axis=1)
    springs.add(
        moves.vertices[chosen],
        moves.weights[chosen],
        moves.directions[chosen],
        rest=np.inf,
        speed=np.minimum(2.0 * steps[chosen] / dt, PULL_SPEED),
        strength=PULL_STRENGTH,
    )

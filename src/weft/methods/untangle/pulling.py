"""Springs that untangle: what has passed through is pulled back, and paths that have no inside are shortened.

Every other step pulls the vertices inside a path towards the region they have passed through (see `attraction`) and
shortens all paths that have no inside (see `contour`); the steps between shorten all paths. The first alone leaves folds
and cuffs tangled, the second alone is slow where much has passed through.
"""

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.attraction import attraction_moves, find_partners, pulling_paths
from weft.analysis.contour import Moves, contour_moves, crossing_stencils
from weft.dynamics.implicit.step_springs import StepSprings

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# how stiff a pull is, in reduced masses over the step squared
STRENGTH = 300.0
# a step shortens a path by moving both sides at most this far, in lengths of an edge
CONTOUR_STEP = 0.5
# a vertex that is pulled goes this part of the way to its partner and a gap beyond, at most so many lengths of an edge
PULL_PART, PULL_MOST = 0.5, 1.0
# folds of so few crossings are only shortened: pulled together, they would open and close for ever
SMALL_FOLD = 12
# how far partners are looked for, in lengths of an edge
REACH = 32.0
# the fastest pull, m/s
PACE = 1.0


def pull(
    analyser: Analyser, analysis: Analysis, links: StepSprings, dt: float, *, number: int, pinched: Ints, gap: float
) -> int:
    """Add the links that untangle in step `number` of length dt; gives how many. They aim at a gap beyond.

    Paths at pinched vertices are left alone: they cannot go away before those are let go, and pulling at them would
    shake what hangs on them.
    """
    if not len(analysis):
        return 0
    before, length = links.count, analysis.length
    able = ~_paths_at(analysis, pinched)
    shortened = able
    if number % 2 == 0:
        small = analysis.single & (np.diff(analysis.path_offsets) <= SMALL_FOLD)
        pulled = able & pulling_paths(analysis) & ~small
        shortened = able & ~pulled
        if pulled.any():
            moves, distance = attraction_moves(analysis, find_partners(analyser, analysis, pulled, REACH * length))
            steps = np.minimum(PULL_PART * distance + gap, PULL_MOST * length)
            _add(links, moves, steps, dt)
    if shortened.any():
        moves = contour_moves(analysis, shortened)
        steps = np.minimum(_depths(analysis) + gap, CONTOUR_STEP * length)
        _add(links, moves, steps[shortened[analysis.path_of]], dt)
    return links.count - before


def crossing_vertices(analysis: Analysis, paths: Bools | None = None) -> Ints:
    """The vertices of the edges and triangles that cross, of all paths or of those chosen."""
    nodes = np.ones(analysis.crossings, dtype=bool) if paths is None else paths[analysis.path_of]
    faces = analysis.topology.faces[analysis.face[nodes]]
    return np.unique(np.concatenate([analysis.rows[nodes, :2].ravel(), faces.ravel()]))


def _depths(analysis: Analysis) -> Floats:
    """(k,) how far the edges of each crossing's path reach through their triangles, the most of the path.

    What has only just gone through must not be pulled as hard as what is deep in.
    """
    crossings = crossing_stencils(analysis)
    x, part = analysis.positions, analysis.fractions
    lengths = np.linalg.norm(x[analysis.rows[:, 1]] - x[analysis.rows[:, 0]], axis=1)
    slope = np.abs(np.einsum("ij,ij->i", crossings.along, crossings.normal))
    deep = np.minimum(part, 1.0 - part) * lengths * slope
    most: Floats = np.maximum.reduceat(deep, analysis.path_offsets[:-1])[analysis.path_of]
    return most


def _paths_at(analysis: Analysis, vertices: Ints) -> Bools:
    """(paths,) which paths have a crossing at one of some vertices."""
    marked = np.zeros(analysis.topology.vertex_count, dtype=bool)
    marked[vertices] = True
    beside = np.column_stack([analysis.rows[:, :2], analysis.topology.faces[analysis.face]])
    found = np.bincount(analysis.path_of, marked[beside].any(axis=1), len(analysis)) > 0
    return np.asarray(found)


def _add(links: StepSprings, moves: Moves, steps: Floats, dt: float) -> None:
    """Both sides of a move go its step, against each other."""
    chosen = moves.directions.any(axis=1)
    links.add(
        moves.vertices[chosen],
        moves.weights[chosen],
        moves.directions[chosen],
        rest=np.inf,
        speed=np.minimum(2.0 * steps[chosen] / dt, PACE),
        strength=STRENGTH,
    )

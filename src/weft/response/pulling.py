"""Links that untangle: what has passed through is pulled back, and paths that have no inside are shortened.

Every other step pulls the vertices inside a path towards the region they have passed through (see `attraction`) and
shortens all paths that have no inside (see `contour`); the steps between shorten all paths. The first alone leaves folds
and cuffs tangled, the second alone is slow where much has passed through.
"""

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser
from weft.analysis.result import Analysis
from weft.dynamics.links import Links
from weft.response.attraction import attraction_moves, find_partners, pulling_paths
from weft.response.contour import Moves, contour_moves

Floats = NDArray[np.float64]

# how stiff a pull is, in reduced masses over the step squared
STRENGTH = 20.0
# a step shortens a path by moving both sides this far, in lengths of an edge
CONTOUR_STEP = 0.5
# a vertex that is pulled goes half of the way to its partner and a little beyond, within these limits
PULL_PART, PULL_BEYOND, PULL_LEAST, PULL_MOST = 0.5, 0.1, 0.25, 1.0
# how far partners are looked for, in lengths of an edge
REACH = 32.0
# the fastest pull, m/s
PACE = 1.0


def pull(analyser: Analyser, analysis: Analysis, links: Links, dt: float, *, number: int) -> int:
    """Add the links that untangle in step `number` of length dt; gives how many."""
    if not len(analysis):
        return 0
    before = links.count
    length = analysis.length
    shortened = np.ones(len(analysis), dtype=bool)
    if number % 2 == 0:
        pulled = pulling_paths(analysis)
        shortened = ~pulled
        if pulled.any():
            moves, distance = attraction_moves(analysis, find_partners(analyser, analysis, pulled, REACH * length))
            steps = np.clip(PULL_PART * distance + PULL_BEYOND * length, PULL_LEAST * length, PULL_MOST * length)
            _add(links, moves, steps, dt)
    if shortened.any():
        moves = contour_moves(analysis, shortened)
        _add(links, moves, np.full(len(moves.vertices), CONTOUR_STEP * length), dt)
    return links.count - before


def _add(links: Links, moves: Moves, steps: Floats, dt: float) -> None:
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

"""One round of untangling: pull, shorten, let the mesh follow, and give way where nothing else has helped.

Even rounds pull vertices back through the other sheet where a path has an inside, and shorten the other paths; odd
rounds shorten all paths. Displacements spread over the mesh, and lengths are restored. Where the same place stays
tangled, the cloth around it gives way step by step, in an area that grows: first its folds are flattened, then its
lengths are no longer held, at last it pulls together like a soap film. What was stretched so is put right afterwards,
when nothing crosses any more (see `settle`).
"""

import numpy as np
from numpy.typing import NDArray

from weft.analysis.analyser import Analysis
from weft.analysis.attraction import attraction_moves, find_partners, pulling_paths
from weft.analysis.contour import Moves, contour_moves
from weft.untangling.layers import join_paths
from weft.untangling.weave import Weave

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

# steps, in lengths of an edge: what shortens a path moves both sides by this
CONTOUR_STEP = 0.6
# a vertex that is pulled goes half of the way to its partner and a little beyond, within these limits
PULL_PART, PULL_BEYOND, PULL_LEAST, PULL_MOST = 0.5, 0.1, 0.25, 2.0
# how far partners are looked for
REACH = 32.0
# rounds in which paths that part two cloths only together are pulled as one; then each is shortened for itself
JOINS_UNTIL = 24
# sweeps over the lengths a round
SWEEPS = 6
# rounds in which a place has been tangled before it bends, gives in length, pulls together; all come in gradually
BENDS_AFTER, GIVES_AFTER, SHRINKS_AFTER = 3.0, 30.0, 80.0
# and rounds after which the next ring of neighbours joins in
ROUNDS_A_RING = 10.0
PASSES = 6
# paths of so few crossings, with ends, are smoothed from the first round: their contour says little
SMALL_PATH = 6
# rounds after which the lengths of the rest shape are aimed at, fully after twice as many, and a ring farther a round
RESTS_AFTER = 4.0


class Yielding:
    """Where and how much the cloth gives way; it remembers for how many rounds each vertex was tangled."""

    def __init__(self, weave: Weave) -> None:
        self.weave = weave
        self.rounds = np.zeros(weave.count)
        self._wide = self.rounds

    def count(self, vertices: Ints) -> None:
        """One more round in which these vertices are tangled."""
        self.rounds[vertices] += 1.0
        self._wide = self.weave.widen(self.rounds, ROUNDS_A_RING)
        near = self.weave.widen(self.rounds, 1.0)
        self.weave.aim(np.clip(near / RESTS_AFTER - 1.0, 0.0, 1.0))

    def _since(self, limit: float) -> Floats:
        return np.clip(self._wide / limit - 1.0, 0.0, 1.0)

    @property
    def bending(self) -> Floats:
        """(n,) 0 to 1: how much folds are flattened."""
        return self._since(BENDS_AFTER)

    @property
    def membrane(self) -> Floats:
        """(n,) 0 to 1: how much the cloth pulls together."""
        return self._since(SHRINKS_AFTER)

    @property
    def stiffness(self) -> Floats:
        """(edges,) 0 to 1: how much lengths are held."""
        given = self._since(GIVES_AFTER)
        stiff: Floats = 1.0 - given[self.weave.edges].max(axis=1)
        return stiff

    @property
    def passes(self) -> int:
        """More where the area is larger."""
        return PASSES + int(self.rounds.max() / ROUNDS_A_RING)


def play_round(weave: Weave, analysis: Analysis, yielding: Yielding, number: int) -> Floats:
    """The positions after one round, from those of the analysis."""
    paths = np.ones(len(analysis), dtype=bool)
    moves: list[tuple[Moves, Floats]] = []
    together = join_paths(analysis, ~pulling_paths(analysis)) if number < JOINS_UNTIL else None
    if together is not None:
        paths &= ~together.paths
        moves.append(_pull(weave, together.analysis, np.ones(len(together.analysis), dtype=bool)))
    if number % 2 == 0:
        pulled = paths & pulling_paths(analysis)
        paths &= ~pulled
        if pulled.any():
            moves.append(_pull(weave, analysis, pulled))
    if paths.any():
        shorten = contour_moves(analysis, paths)
        moves.append((shorten, CONTOUR_STEP * weave.step_lengths(shorten)))
    x = analysis.positions + weave.displacements(moves)

    yielding.count(tangled_vertices(analysis))
    bending = yielding.bending
    small = tangled_vertices(analysis, _small_paths(analysis))
    bending[small] = np.maximum(bending[small], 0.5)
    x = weave.smooth(x, bending, yielding.membrane, yielding.passes)
    return weave.relax(x, yielding.stiffness, SWEEPS)


def _pull(weave: Weave, analysis: Analysis, paths: NDArray[np.bool_]) -> tuple[Moves, Floats]:
    """Vertices inside the chosen paths towards their partners, and how far."""
    partners = find_partners(weave.analyser, analysis, paths, REACH * weave.length)
    pull, distance = attraction_moves(analysis, partners)
    here = weave.step_lengths(pull)
    step = np.clip(PULL_PART * distance + PULL_BEYOND * here, PULL_LEAST * here, PULL_MOST * here)
    return pull, step


def tangled_vertices(analysis: Analysis, paths: NDArray[np.bool_] | None = None) -> Ints:
    """The vertices of the edges and triangles that cross, of all paths or of those chosen."""
    nodes = np.ones(analysis.crossings, dtype=bool) if paths is None else paths[analysis.path_of]
    return np.unique(
        np.concatenate([analysis.rows[nodes, :2].ravel(), analysis.topology.faces[analysis.face[nodes]].ravel()])
    )


def _small_paths(analysis: Analysis) -> NDArray[np.bool_]:
    small: NDArray[np.bool_] = (np.diff(analysis.path_offsets) <= SMALL_PATH) & (analysis.single | ~analysis.closed)
    return small

"""`weft.untangle`: rounds until nothing crosses, then settle near the start."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.analysis.analyser import Analyser, Analysis, vertex_areas
from weft.errors import MeshError, WeftError
from weft.geometry.intersection import IntersectionFinder, sewn_pairs
from weft.mesh.topology import Topology
from weft.mesh.validate import list_first
from weft.untangling.rounds import Yielding, play_round
from weft.untangling.settle import Settler
from weft.untangling.weave import Weave

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]

MAX_ROUNDS = 600
# lengths may differ by this part from the rest shape without being restored: draped cloth is a little stretched
REST_STRAIN = 0.1


@dataclass(frozen=True)
class Round:
    """What was found at the start of a round."""

    number: int
    intersections: int
    """edges that pass through triangles, those between sewn triangles left out"""
    paths: int
    closed: int
    open: int
    loop: int


@dataclass(frozen=True)
class UntangleResult:
    """Where the vertices are now, and how they came there."""

    vertices: Floats
    """(n, 3); if not free, the best that was found"""
    intersections: Ints
    """(k, 3) what is left, as `weft.intersections` gives it: edge vertex, edge vertex, face"""
    rounds: tuple[Round, ...]
    """one entry a round, and one for the last state"""
    moved: Floats
    """(n,) how far every vertex was moved"""
    strain: tuple[float, float]
    """lowest and highest length of an edge against what was aimed at, minus 1"""

    @property
    def free(self) -> bool:
        """Whether no intersection is left, touching included."""
        return len(self.intersections) == 0

    def describe(self) -> str:
        """One sentence."""
        start, played = self.rounds[0].intersections, len(self.rounds) - 1
        if start == 0 and self.free:
            return "nothing was tangled, and nothing was moved"
        paths = self.rounds[0].paths
        how = f"{start} intersections in {paths} path{'s' if paths > 1 else ''}; "
        left = "none left" if self.free else f"{len(self.intersections)} are left"
        return (
            f"{how}{left} after {played} rounds; vertices moved {self.moved.mean():.3g} m in the mean and "
            f"{self.moved.max():.3g} m at most"
        )


def untangle(
    vertices: ArrayLike,
    faces: ArrayLike,
    *,
    rest: ArrayLike | None = None,
    uv: ArrayLike | None = None,
    seams: ArrayLike | None = None,
    thickness: float = 0.0,
    max_rounds: int = MAX_ROUNDS,
    progress: Callable[[Round], None] | None = None,
) -> UntangleResult:
    """Move a tangled mesh, as little as can be found, until no edge passes through a triangle.

    rest, uv: the shape at rest, (n, 3) or (n, 2), for the lengths of edges. Without one, edges keep the lengths they
        have, which works too, but a tangled shape says less about how the cloth should lie.
    seams: (s, 3) rows (a, b, c), vertex a sewn to a point of the edge bc, or (s, 2), vertex to vertex. Triangles that
        are sewn together may cross; the vertices of a seam stay together.
    thickness: gap to open between layers, in metres, as far as there is room; by default just enough to be free.
    max_rounds: when to stop; the best state so far is given, and says what is left.
    progress: called at the start of every round.
    """
    x = np.array(vertices, dtype=np.float64, order="C")
    if x.ndim != 2 or x.shape[1] != 3:
        raise MeshError(f"vertices must be an (n, 3) array, got {x.shape}")
    bad = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if len(bad):
        raise MeshError(f"{len(bad)} vertices have NaN or infinite coordinates ({list_first(bad.tolist())})")
    if not thickness >= 0.0:
        raise WeftError(f"thickness must be a length of at least 0, not {thickness}")
    if max_rounds < 0:
        raise WeftError(f"max_rounds must be at least 0, not {max_rounds}")
    shape = _rest_shape(rest, uv, len(x))
    sewn = _read_seams(seams, len(x))
    # vertices that no triangle uses stay where they are
    read = np.asarray(faces)
    used = np.unique(read) if read.size else np.zeros(0, dtype=np.int64)
    if not len(used):
        return UntangleResult(x, np.zeros((0, 3), np.int32), (Round(0, 0, 0, 0, 0, 0),), np.zeros(len(x)), (0.0, 0.0))
    whole = Analyser(read, len(x))
    number = np.full(len(x), -1, dtype=np.int32)
    number[used] = np.arange(len(used))
    own_seams = number[sewn]
    own_seams = own_seams[(own_seams >= 0).all(axis=1)]
    untangler = _Untangler(x[used], number[whole.topology.faces], None if shape is None else shape[used], own_seams)
    found, rows, rounds = untangler.run(thickness, max_rounds, progress)
    result = x.copy()
    result[used] = found
    rows = np.column_stack([used[rows[:, :2]], rows[:, 2]]).astype(np.int32)
    strains = untangler.weave.strains(found)
    return UntangleResult(
        result, rows, rounds, np.linalg.norm(result - x, axis=1), (float(strains.min()), float(strains.max()))
    )


class _Untangler:
    """The steps of one untangling, on a mesh that uses all its vertices."""

    def __init__(self, start: Floats, faces: Ints, rest: Floats | None, seams: Ints) -> None:
        topology = Topology(faces, len(start))
        lengths = _edge_lengths(topology, start)
        if rest is not None:
            relaxed = _edge_lengths(topology, rest)
            lengths = np.clip(lengths, (1.0 - REST_STRAIN) * relaxed, (1.0 + REST_STRAIN) * relaxed)
        analyser = Analyser(
            faces,
            len(start),
            seams=seams,
            areas=vertex_areas(topology, start if rest is None else _in_space(rest)),
            length=float(np.median(lengths)),
        )
        self.start = start
        self.weave = Weave(analyser, start, lengths, seams)
        ignored = sewn_pairs(faces, seams) if len(seams) else None
        self.finder = IntersectionFinder(faces, ignore=ignored)

    def run(
        self, thickness: float, max_rounds: int, progress: Callable[[Round], None] | None
    ) -> tuple[Floats, Ints, tuple[Round, ...]]:
        """The best positions, the intersections there, and the rounds."""
        weave = self.weave
        yielding = Yielding(weave)
        x = self.start
        best, best_rows = x, self.finder.find(x)
        rounds: list[Round] = []
        touched = len(best_rows) > 0
        for number in range(max_rounds + 1):
            analysis = weave.analyser.analyse(x)
            rows = self.finder.find(x)
            rounds.append(_summed_up(number, analysis, rows))
            if progress is not None:
                progress(rounds[-1])
            if len(rows) <= len(best_rows):
                best, best_rows = x, rows
            if not len(rows) or number == max_rounds:
                break
            if analysis.crossings:
                x = play_round(weave, analysis, yielding, number)
            else:
                x = self._part(x, rows, yielding)
        if touched and not len(best_rows):
            settler = Settler(weave, self.finder, self.start, thickness)
            best = settler.settle(best, yielding.bending, yielding.rounds > 0.0)
            best_rows = self.finder.find(best)
        return best, best_rows, tuple(rounds)

    def _part(self, x: Floats, rows: Ints, yielding: Yielding) -> Floats:
        """Surfaces that only touch are pushed apart a little."""
        weave = self.weave
        yielding.count(np.unique(np.concatenate([rows[:, :2].ravel(), weave.topology.faces[rows[:, 2]].ravel()])))
        gap = 0.05 * weave.length
        gaps = weave.find_gaps(x, gap, np.where(yielding.rounds > 0.0, gap, 0.0), gap)
        x = weave.smooth(x, np.maximum(yielding.bending, 0.5 * (yielding.rounds > 0.0)), yielding.membrane, 1)
        return weave.relax(x, yielding.stiffness, 2, gaps)


def _summed_up(number: int, analysis: Analysis, rows: Ints) -> Round:
    closed, loop = int(analysis.closed.sum()), int((analysis.single & ~analysis.closed).sum())
    return Round(number, len(rows), len(analysis), closed, len(analysis) - closed - loop, loop)


def _edge_lengths(topology: Topology, points: Floats) -> Floats:
    return np.asarray(np.linalg.norm(points[topology.edges[:, 1]] - points[topology.edges[:, 0]], axis=1))


def _in_space(points: Floats) -> Floats:
    return points if points.shape[1] == 3 else np.column_stack([points, np.zeros(len(points))])


def _rest_shape(rest: ArrayLike | None, uv: ArrayLike | None, count: int) -> Floats | None:
    if rest is not None and uv is not None:
        raise MeshError("give either rest or uv, not both: they are two ways to say the shape at rest")
    for name, given, columns in (("rest", rest, 3), ("uv", uv, 2)):
        if given is None:
            continue
        shape = np.asarray(given, dtype=np.float64)
        if shape.shape != (count, columns):
            raise MeshError(f"{name} must be a ({count}, {columns}) array, one row a vertex, got {shape.shape}")
        bad = np.flatnonzero(~np.isfinite(shape).all(axis=1))
        if len(bad):
            raise MeshError(f"{name} has {len(bad)} rows with NaN or infinite numbers ({list_first(bad.tolist())})")
        return shape
    return None


def _read_seams(seams: ArrayLike | None, count: int) -> Ints:
    rows = np.zeros((0, 3), dtype=np.int64) if seams is None else np.asarray(seams)
    if rows.size == 0:
        return np.zeros((0, 3), dtype=np.int32)
    if rows.ndim != 2 or rows.shape[1] not in (2, 3) or not np.issubdtype(rows.dtype, np.integer):
        raise MeshError(f"seams must be rows of 2 or 3 vertex indices, got {rows.shape} of {rows.dtype}")
    outside = np.flatnonzero(((rows < 0) | (rows >= count)).any(axis=1))
    if len(outside):
        raise MeshError(f"seam rows {list_first(outside.tolist())} name a vertex outside 0..{count - 1}")
    return rows[:, [0, 1, rows.shape[1] - 1]].astype(np.int32)

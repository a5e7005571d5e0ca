"""`weft.untangle`: rounds until nothing crosses, then settling near the start.

Settling moves the free mesh back towards its start without new crossings. Every step proposes positions a little nearer to
the start, with lengths restored and gaps kept, tests them exactly for intersections, and reduces the moves of all vertices
that take part in one: first their component across the triangle, then more, at last the whole move, also of vertices around
them. Without any move the mesh is in the state before, which is free. Vertices return only as long as the lengths around
them stay near their goal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.analysis.analyser import Analyser, Analysis, vertex_areas
from weft.analysis.attraction import unit
from weft.errors import MeshError, WeftError
from weft.geometry.intersection import IntersectionFinder, sewn_pairs
from weft.mesh.topology import Topology
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import list_first
from weft.untangling.elastic_mesh import ElasticMesh
from weft.untangling.rounds import KEPT_GAP, Yielding, one_round
from weft.untangling.sides import Sides

Floats = NDArray[np.float64]

# settling steps: first only lengths and gaps are restored, then vertices also return to the start, then lengths again
FREE_STEPS, RETURN_STEPS, LAST_STEPS = 10, 45, 8
# fraction of the way back to the start in a step; it decreases to none where edges are strained by the limit
RETURN_FRACTION, STRAIN_LIMIT = 0.15, 0.12
# edge lengths that a vertex moves at most in a step; what moves by less than the gap that it keeps from other layers rarely
# crosses, so few moves are taken back
LARGEST_MOVE = 0.3
# edge lengths; the gap that is opened where cloth was tangled
LEAST_GAP = 0.02
# sweeps over the lengths and gaps in a step
SETTLING_SWEEPS = 6
# smoothing in a step: of the displacement from the start everywhere, and of folds where the cloth has yielded
SMOOTH_DISPLACEMENT, SMOOTH_FOLDS = 0.2, 0.5
# tests in which moves that cross are reduced before their vertices, and after as many again the vertices around, are held
REDUCTIONS = 3
# edge lengths; settled when no vertex moves farther in a step
SETTLED = 2e-3
# edge lengths; in the end every vertex returns by up to this, so that cloth that was not tangled is exactly at its start
LAST_RETURN = 0.03
Ints = NDArray[np.int32]

# far more than any known mesh needs that can be untangled at all
MAX_ROUNDS = 600
# strain up to which edges keep their length rather than that of the rest shape: draped cloth is a little stretched
REST_STRAIN = 0.1


class Settler:
    """Moves a mesh without crossings back towards its start, without new crossings."""

    def __init__(self, mesh: ElasticMesh, finder: IntersectionFinder, start: Floats, thickness: float) -> None:
        self.mesh = mesh
        self.finder = finder
        self.start = start
        self.thickness = thickness
        # the fraction of a move that each vertex may take: halved where it crosses, doubled in every step
        self._allowed = np.ones(mesh.count)

    def settle(self, x: Floats, bending: Floats, tangled: NDArray[np.bool_]) -> Floats:
        """The settled positions. `bending`: how much folds may be flattened; `tangled`: the vertices that ever crossed."""
        mesh = self.mesh
        length = mesh.length
        stiffness = np.ones(len(mesh.edges))
        least = np.where(tangled, max(self.thickness, LEAST_GAP * length), self.thickness)
        for step in range(FREE_STEPS + RETURN_STEPS + LAST_STEPS):
            most = max(KEPT_GAP * length, self.thickness)
            gaps = mesh.find_gaps(x, most + LARGEST_MOVE * length, least, most)
            displacement = x - self.start
            if FREE_STEPS <= step < FREE_STEPS + RETURN_STEPS:
                slack = np.clip(1.0 - mesh.worst_strain(x) / STRAIN_LIMIT, 0.0, 1.0)
                displacement = displacement * (1.0 - RETURN_FRACTION * slack[:, None])
            displacement += SMOOTH_DISPLACEMENT * (mesh.mean_of_neighbours(displacement) - displacement)
            wanted = mesh.smooth(self.start + displacement, SMOOTH_FOLDS * bending, np.zeros_like(bending), 1)
            wanted = x + _limited(wanted - x, LARGEST_MOVE * length)
            wanted = mesh.relax(wanted, stiffness, SETTLING_SWEEPS, gaps)
            moved = self.move_safely(x, wanted)
            change = np.sqrt(((moved - x) ** 2).sum(axis=1).max())
            x = moved
            if step >= FREE_STEPS and change < SETTLED * length:
                break
        self._allowed[:] = 1.0
        return self.move_safely(x, x - _limited(x - self.start, LAST_RETURN * length))

    def move_safely(self, x: Floats, wanted: Floats) -> Floats:
        """From positions without intersections, as far towards the wanted ones as nothing intersects."""
        faces = self.mesh.topology.faces
        step = _limited(wanted - x, LARGEST_MOVE * self.mesh.length) * self._allowed[:, None]
        self._allowed = np.minimum(1.0, 2.0 * self._allowed)
        held = np.zeros(len(x), dtype=bool)
        tries = 0
        while len(crossings := self.finder.find(x + step)):
            tries += 1
            corners = np.column_stack([crossings[:, :2], faces[crossings[:, 2]]])
            found, first = np.unique(corners.ravel(), return_index=True)
            # vertices sewn to them are treated alike, so that seams do not open
            sewn = self.mesh.sewn_to(found)
            if tries <= REDUCTIONS:
                # let them slide along the triangle, by half as much in each further try
                a, b, c = x[faces[crossings[first // 5, 2]]].transpose(1, 0, 2)
                normal = unit(np.cross(b - a, c - a))
                across = np.einsum("ij,ij->i", step[found], normal)[:, None] * normal
                slide = (step[found] - across) * (1.0 if tries == 1 else 0.5)
                # vertices on a seam do not slide: both sides take half of their move
                step[found] = np.where(self.mesh.on_seam[found, None], 0.5 * step[found], slide)
                step[sewn] *= 0.5
                both = np.concatenate([found, sewn])
                self._allowed[both] = np.maximum(0.5 * self._allowed[both], 0.05)
            else:
                # hold them, later also the vertices around them: every intersection has a vertex that moves, so this ends
                held[found] = held[sewn] = True
                if tries > 2 * REDUCTIONS:
                    held |= self.mesh.mean_of_neighbours(held.astype(np.float64)) > 0.0
                step[held] = 0.0
        return x + step


def _limited(steps: Floats, limit: float) -> Floats:
    """The vectors, shortened to the limit if they are longer."""
    lengths = np.sqrt(np.einsum("ij,ij->i", steps, steps))[:, None]
    return steps * np.minimum(1.0, limit / np.maximum(lengths, 1e-300))


@dataclass(frozen=True)
class Round:
    """Counts at the start of a round."""

    number: int
    intersections: int
    """edges that pass through triangles, without those between sewn triangles"""
    paths: int
    closed: int
    open: int
    loop: int


@dataclass(frozen=True)
class UntangleResult:
    """The untangled positions, and statistics."""

    vertices: Floats
    """(n, 3); if intersections are left, the positions with the fewest"""
    intersections: Ints
    """(k, 3) the intersections that are left, as `weft.intersections` gives them: edge vertex, edge vertex, face.
    Vertices and triangles of colliders are numbered on after those of the mesh."""
    rounds: tuple[Round, ...]
    """one entry a round, and one for the final state"""
    moved: Floats
    """(n,) how far every vertex was moved"""
    strain: tuple[float, float]
    """lowest and highest strain of an edge: its length relative to the goal, minus 1"""

    @property
    def free(self) -> bool:
        """Whether no intersection is left, touching included."""
        return len(self.intersections) == 0

    def describe(self) -> str:
        """A sentence about the result."""
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
    colliders: Sequence[TriMesh] = (),
    layers: Sequence[ArrayLike] = (),
    thickness: float = 0.0,
    max_rounds: int = MAX_ROUNDS,
    progress: Callable[[Round], None] | None = None,
) -> UntangleResult:
    """Move a tangled mesh, as little as possible, until no edge passes through a triangle.

    rest, uv: the shape at rest, (n, 3) or (n, 2), which gives the lengths of edges. Without it edges keep their lengths;
        results are worse then, since the lengths of a tangled mesh are often wrong.
    seams: (s, 3) stitches (a, b, c), vertex a sewn to a point of the edge bc; or (s, 2), vertex sewn to vertex. Triangles
        that are sewn together may cross; the vertices of a seam stay together.
    colliders: meshes that stay where they are; the mesh is moved out of them, too. What is inside a closed one goes to its
        surface.
    layers: the vertices of each layer, from the inner to the outer one: where two of them cross, the outer one goes to the
        outside, which is the front of the triangles. By default the smaller area is moved.
    thickness: metres; gap to open between layers, as far as there is room. By default just enough to be free.
    max_rounds: when to stop; the result then holds the best positions so far and the intersections that are left.
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
    ordered = _read_layers(layers, len(x))
    for place, mesh in enumerate(colliders):
        if not isinstance(mesh, TriMesh):
            raise WeftError(
                f"collider {place} is a {type(mesh).__name__}: give a weft.TriMesh, as weft.load_mesh reads it"
            )
    if not np.asarray(faces).size:
        return UntangleResult(x, np.zeros((0, 3), np.int32), (Round(0, 0, 0, 0, 0, 0),), np.zeros(len(x)), (0.0, 0.0))
    count = len(x)
    own_faces = Analyser(faces, count).topology.faces
    starts = np.cumsum([count, *(len(mesh.vertices) for mesh in colliders)])
    triangles = np.concatenate([own_faces, *(mesh.faces + at for mesh, at in zip(colliders, starts, strict=False))])
    still_vertices = [mesh.vertices for mesh in colliders]
    points = np.concatenate([x, *still_vertices])
    # vertices that no triangle uses stay where they are
    used = np.unique(triangles)
    number = np.full(len(points), -1, dtype=np.int32)
    number[used] = np.arange(len(used))
    own_seams = number[sewn]
    own_seams = own_seams[(own_seams >= 0).all(axis=1)]
    untangler = _Untangler(
        points[used],
        number[triangles],
        None if shape is None else np.concatenate([_in_space(shape), *still_vertices])[used],
        own_seams,
        used >= count,
        [own for layer in ordered if len(own := number[layer][number[layer] >= 0])],
    )
    found, crossings, rounds = untangler.run(thickness, max_rounds, progress)
    points[used] = found
    result = points[:count]
    crossings = np.column_stack([used[crossings[:, :2]], crossings[:, 2]]).astype(np.int32)
    strains = untangler.mesh.strains(found)
    return UntangleResult(
        result, crossings, rounds, np.linalg.norm(result - x, axis=1), (float(strains.min()), float(strains.max()))
    )


class _Untangler:
    """The steps of one untangling, on a mesh that uses all its vertices."""

    def __init__(
        self,
        start: Floats,
        faces: Ints,
        rest: Floats | None,
        seams: Ints,
        still: NDArray[np.bool_],
        layers: Sequence[Ints],
    ) -> None:
        topology = Topology(faces, len(start))
        still_faces = still[faces[:, 0]]
        lengths = _edge_lengths(topology, start)
        if rest is not None:
            relaxed = _edge_lengths(topology, rest)
            lengths = np.clip(lengths, (1.0 - REST_STRAIN) * relaxed, (1.0 + REST_STRAIN) * relaxed)
        analyser = Analyser(
            faces,
            len(start),
            seams=seams,
            length=float(np.median(lengths[~still[topology.edges[:, 0]]])),
            still=int(still_faces.sum()),
        )
        self.start = start
        self.mesh = ElasticMesh(analyser, start, lengths, seams, still)
        self.sides = Sides(topology, start, vertex_areas(topology, start if rest is None else rest), still, layers)
        ignored = sewn_pairs(faces, seams) if len(seams) else None
        # colliders may cross each other
        self.finder = IntersectionFinder(
            faces, face_body=still_faces.astype(np.int32), body_pairs=[[1, 1], [1, 0]], ignore=ignored
        )

    def run(
        self, thickness: float, max_rounds: int, progress: Callable[[Round], None] | None
    ) -> tuple[Floats, Ints, tuple[Round, ...]]:
        """The best positions, the intersections there, and the rounds."""
        mesh = self.mesh
        yielding = Yielding(mesh)
        x = self.start
        best, best_crossings = x, self.finder.find(x)
        rounds: list[Round] = []
        touched = len(best_crossings) > 0
        for number in range(max_rounds + 1):
            self.sides.update(x)
            analysis = mesh.analyser.analyse(x, self.sides.areas)
            crossings = self.finder.find(x)
            rounds.append(_summary(number, analysis, crossings))
            if progress is not None:
                progress(rounds[-1])
            if len(crossings) <= len(best_crossings):
                best, best_crossings = x, crossings
            if not len(crossings) or number == max_rounds:
                break
            if analysis.crossings:
                x = one_round(mesh, analysis, yielding, number, self.sides)
            else:
                x = self._separate(x, crossings, yielding)
        if touched and not len(best_crossings):
            settler = Settler(mesh, self.finder, self.start, thickness)
            best = settler.settle(best, yielding.bending, yielding.rounds > 0.0)
            best_crossings = self.finder.find(best)
        return best, best_crossings, tuple(rounds)

    def _separate(self, x: Floats, crossings: Ints, yielding: Yielding) -> Floats:
        """Separate surfaces that touch without crossing, a little."""
        mesh = self.mesh
        yielding.count(
            np.unique(np.concatenate([crossings[:, :2].ravel(), mesh.topology.faces[crossings[:, 2]].ravel()]))
        )
        gap = 0.05 * mesh.length
        gaps = mesh.find_gaps(x, gap, np.where(yielding.rounds > 0.0, gap, 0.0), gap)
        x = mesh.smooth(x, np.maximum(yielding.bending, 0.5 * (yielding.rounds > 0.0)), yielding.membrane, 1)
        return mesh.relax(x, yielding.stiffness, 2, gaps)


def _summary(number: int, analysis: Analysis, crossings: Ints) -> Round:
    closed, loop = int(analysis.closed.sum()), int((analysis.single & ~analysis.closed).sum())
    return Round(number, len(crossings), len(analysis), closed, len(analysis) - closed - loop, loop)


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
            raise MeshError(f"{name} must be a ({count}, {columns}) array, one point a vertex, got {shape.shape}")
        bad = np.flatnonzero(~np.isfinite(shape).all(axis=1))
        if len(bad):
            raise MeshError(
                f"{name} has {len(bad)} points with NaN or infinite coordinates ({list_first(bad.tolist())})"
            )
        return shape
    return None


def _read_layers(layers: Sequence[ArrayLike], count: int) -> list[Ints]:
    read = [np.unique(np.asarray(layer, dtype=np.int32)) for layer in layers]
    if len(read) == 1:
        raise WeftError("one layer has no order: give at least two, from the inner to the outer one")
    for number, layer in enumerate(read):
        if not len(layer) or layer[0] < 0 or layer[-1] >= count:
            raise MeshError(f"layer {number} must name vertices, all of them within 0..{count - 1}")
        for other, before in enumerate(read[:number]):
            shared = np.intersect1d(layer, before)
            if len(shared):
                raise MeshError(
                    f"vertex {shared[0]} is in layers {other} and {number}: a vertex is in one layer at most"
                )
    return read


def _read_seams(seams: ArrayLike | None, count: int) -> Ints:
    stitches = np.zeros((0, 3), dtype=np.int64) if seams is None else np.asarray(seams)
    if stitches.size == 0:
        return np.zeros((0, 3), dtype=np.int32)
    if stitches.ndim != 2 or stitches.shape[1] not in (2, 3) or not np.issubdtype(stitches.dtype, np.integer):
        raise MeshError(f"seams must be stitches of 2 or 3 vertex indices, got {stitches.shape} of {stitches.dtype}")
    outside = np.flatnonzero(((stitches < 0) | (stitches >= count)).any(axis=1))
    if len(outside):
        raise MeshError(f"stitches {list_first(outside.tolist())} name a vertex outside 0..{count - 1}")
    return stitches[:, [0, 1, stitches.shape[1] - 1]].astype(np.int32)

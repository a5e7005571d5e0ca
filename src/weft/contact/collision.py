"""Collisions of a mesh or surface: pairs that meet while all vertices move straight from one position to another."""

from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.broad_phase.interface import BroadPhase, Candidates, make_broad_phase
from weft.errors import WeftError
from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.geometry.stencil import Kind
from weft.mesh.validate import read_faces, read_length, read_positions
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# candidates that are worth a CPU thread: fewer than for distances, since CCD costs more
CANDIDATES_A_THREAD = 128
# margin of the boxes, in tolerances: CCD reports pairs that come within up to a quarter more, and rounding is far less
MARGIN_FACTOR = 1.5


@wp.kernel
def _collide_vertex_triangle(
    first: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    chosen: wp.array[int],
    times: wp.array[wp.float64],
):
    i = first + wp.tid()
    pair = pairs[i]
    p = pair[0]
    f = faces[pair[1]]
    a = f[0]
    b = f[1]
    c = f[2]
    hit, time = ccd_point_triangle(start[p], start[a], start[b], start[c], end[p], end[a], end[b], end[c], tolerance)
    chosen[i] = int(hit)
    times[i] = time


@wp.kernel
def _collide_edge_edge(
    first: int,
    pairs: wp.array[wp.vec2i],
    edges: wp.array[wp.vec2i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    chosen: wp.array[int],
    times: wp.array[wp.float64],
):
    i = first + wp.tid()
    pair = pairs[i]
    e = edges[pair[0]]
    f = edges[pair[1]]
    a = e[0]
    b = e[1]
    c = f[0]
    d = f[1]
    hit, time = ccd_edge_edge(start[a], start[b], start[c], start[d], end[a], end[b], end[c], end[d], tolerance)
    chosen[i] = int(hit)
    times[i] = time


class CollisionSearch:
    """Finds the collisions of a surface again and again."""

    def __init__(self, broad: BroadPhase, *, tolerance: float = 1e-6) -> None:
        self.broad = broad
        self.device = broad.surface.device
        self.tolerance = read_length(tolerance, "tolerance")
        self._chosen = [Buffer(int, self.device) for _ in Kind]
        self._times = [Buffer(wp.float64, self.device) for _ in Kind]

    def find(self, start: wp.array, end: wp.array) -> tuple[Candidates, list[wp.array], list[wp.array]]:
        """The candidates of a motion and, for each kind, whether they meet (int) and when; valid until the next call."""
        self.broad.update(start, end, MARGIN_FACTOR * self.tolerance)
        candidates = self.broad.feature_pairs()
        surface = self.broad.surface
        chosen, times = [], []
        features = (surface.faces, surface.edges)
        for kind, pairs, kernel in zip(Kind, candidates, (_collide_vertex_triangle, _collide_edge_edge), strict=True):
            count = len(pairs)
            chosen.append(self._chosen[kind].at_least(max(count, 1))[:count])
            times.append(self._times[kind].at_least(max(count, 1))[:count])
            inputs = [pairs, features[kind], start, end, self.tolerance, chosen[-1], times[-1]]
            launch(kernel, count, inputs, device=self.device, grain=CANDIDATES_A_THREAD)
        return candidates, chosen, times

    def free_step(self, start: wp.array, end: wp.array) -> float:
        """The fraction of the motion, from 0 to 1, until the first collision."""
        _, _, times = self.find(start, end)
        return min((float(np.min(values.numpy(), initial=1.0)) for values in times), default=1.0)


class Collisions(NamedTuple):
    """Pairs that meet during a motion: arrays with an entry for each pair."""

    kind: NDArray[np.int32]
    """(k,) 0: a point and a triangle, 1: two edges"""
    vertices: NDArray[np.int32]
    """(k, 4) point and corners, or the ends of the two edges"""
    time: NDArray[np.float64]
    """(k,) when they meet, from 0 to 1, or a little before"""


def collisions(
    start: ArrayLike, end: ArrayLike, faces: ArrayLike, *, tolerance: float = 1e-6, broad_phase: str = "bvh"
) -> Collisions:
    """Every vertex and triangle, and every two edges, that meet while the vertices move straight from start to end.

    A pair meets when it comes within the tolerance (m). No such pair is missed; features that share a vertex are no pairs.
    """
    first, last = read_positions(start, "start"), read_positions(end, "end")
    if first.shape != last.shape:
        raise WeftError(f"start has {len(first)} vertices and end {len(last)}: give both ends of the same motion")
    triangles = read_faces(faces, len(first))
    surface = Surface.from_arrays(len(first), triangles)
    search = CollisionSearch(make_broad_phase(broad_phase, surface, material=first), tolerance=tolerance)
    positions = [wp.array(x, dtype=wp.vec3d, device="cpu") for x in (first, last)]
    candidates, chosen, times = search.find(*positions)

    columns: list[list[Any]] = [[], [], []]
    edges = surface.edges.numpy().reshape(-1, 2)
    for kind, pairs, hit, time in zip(Kind, candidates, chosen, times, strict=True):
        met = np.flatnonzero(hit.numpy())
        one, other = pairs.numpy().reshape(-1, 2)[met].T
        sides = [one[:, None], triangles[other]] if kind == Kind.POINT_TRIANGLE else [edges[one], edges[other]]
        columns[0].append(np.full(len(met), kind, np.int32))
        columns[1].append(np.concatenate(sides, axis=1).astype(np.int32))
        columns[2].append(time.numpy()[met])
    return Collisions(*(np.concatenate(column) for column in columns))

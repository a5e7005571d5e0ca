"""Contacts and collisions of a mesh or surface, found outside of any method.

Contacts are the pairs nearer than the thickness at one moment, as stencils; collisions are the pairs that meet while all
vertices move straight from one position to another.

The thickness of a pair is the mean of its two sides, each taken where the nearest point lies. A vertex near an edge
gives several stencils (against the triangles of the edge, and edge against edge), as all of them are nearer than the
thickness; methods that need fewer choose among them (see `feature_bounds`).
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.broad_phase.interface import BroadPhase, Candidates, make_broad_phase
from weft.contact.lists import CANDIDATES_A_THREAD
from weft.errors import WeftError
from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.geometry.stencil import (
    POINT_TRIANGLE,
    Kind,
    StencilArrays,
    Stencils,
    nearest_weights,
    pair_vertices,
    relative_position,
    stencil_normal,
)
from weft.mesh.validate import read_faces, read_length, read_positions
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

HALF = wp.constant(wp.float64(0.5))
# candidates of a collision test that are worth a CPU thread: fewer than of a distance test (`CANDIDATES_A_THREAD`), since CCD
# costs more
CCD_CANDIDATES_A_THREAD = 128
# margin of the boxes of a motion, in tolerances: CCD reports pairs that come within up to a quarter more, and rounding is
# far less
MARGIN_FACTOR = 1.5


@wp.func
def pair_thickness(q: wp.vec4i, w: wp.vec4d, thickness: wp.array[wp.float64]) -> wp.float64:
    """The mean of the two sides' thickness at their nearest points; weights of the second side are negative."""
    total = wp.float64(0.0)
    for k in range(4):
        total += wp.abs(w[k]) * thickness[q[k]]
    return HALF * total


@wp.kernel
def _choose(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    chosen: wp.array[int],
):
    i = first + wp.tid()
    q = pair_vertices(kind, pairs[i], faces, edges)
    x0 = x[q[0]]
    x1 = x[q[1]]
    x2 = x[q[2]]
    x3 = x[q[3]]
    w = nearest_weights(kind, x0, x1, x2, x3)
    chosen[i] = 0
    if wp.length(relative_position(w, x0, x1, x2, x3)) < pair_thickness(q, w, thickness):
        chosen[i] = 1


@wp.kernel
def _fill(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    base: int,
    chosen: wp.array[int],
    places: wp.array[int],
    stencils: StencilArrays,
):
    i = first + wp.tid()
    if chosen[i] == 1:
        q = pair_vertices(kind, pairs[i], faces, edges)
        x0 = x[q[0]]
        x1 = x[q[1]]
        x2 = x[q[2]]
        x3 = x[q[3]]
        w = nearest_weights(kind, x0, x1, x2, x3)
        r = relative_position(w, x0, x1, x2, x3)
        n = stencil_normal(kind, r, x0, x1, x2, x3)
        k = base + places[i]
        stencils.kind[k] = kind
        stencils.vertices[k] = q
        stencils.weights[k] = w
        stencils.normal[k] = n
        stencils.gap[k] = wp.dot(n, r)


class ContactSearch:
    """Finds the contacts of a surface again and again; `thickness` is one length or an array of one a vertex."""

    def __init__(self, broad: BroadPhase, thickness: float | wp.array) -> None:
        surface = broad.surface
        self.broad = broad
        self.device = surface.device
        if not isinstance(thickness, wp.array):
            thickness = wp.full(surface.vertex_count, read_length(thickness, "thickness"), dtype=wp.float64)
        self.thickness = thickness.to(self.device)
        self._margin = float(np.max(thickness.numpy(), initial=0.0))
        self._stencils = Stencils(self.device)
        self._chosen = [Buffer(int, self.device) for _ in Kind]
        self._places = [Buffer(int, self.device) for _ in Kind]

    def find(self, x: wp.array) -> Stencils:
        """All contacts at the positions x, points against triangles first; valid until the next call."""
        self.broad.update(x, x, self._margin)
        candidates = self.broad.feature_pairs()
        surface = self.broad.surface
        counts = [self._count(kind, pairs, x) for kind, pairs in zip(Kind, candidates, strict=True)]
        self._stencils.resize(sum(counts))
        base = 0
        for kind, pairs, count in zip(Kind, candidates, counts, strict=True):
            inputs = [int(kind), pairs, surface.faces, surface.edges, x, base]
            inputs += [self._chosen[kind].array, self._places[kind].array, self._stencils.arrays]
            if count:
                launch(_fill, len(pairs), inputs, device=self.device)
            base += count
        return self._stencils

    def _count(self, kind: Kind, pairs: wp.array, x: wp.array) -> int:
        count = len(pairs)
        if count == 0:
            return 0
        chosen = self._chosen[kind].at_least(count)[:count]
        places = self._places[kind].at_least(count)[:count]
        surface = self.broad.surface
        inputs = [int(kind), pairs, surface.faces, surface.edges, x, self.thickness, chosen]
        launch(_choose, count, inputs, device=self.device, grain=CANDIDATES_A_THREAD)
        return exclusive_scan(chosen, places)


def find_contacts(broad: BroadPhase, x: wp.array, thickness: float | wp.array) -> Stencils:
    """The contacts of a surface at the positions x; for many calls keep a `ContactSearch`."""
    return ContactSearch(broad, thickness).find(x)


class Contacts(NamedTuple):
    """Pairs nearer than the thickness: arrays with an entry for each pair."""

    kind: NDArray[np.int32]
    """(k,) 0: a point and a triangle, 1: two edges"""
    vertices: NDArray[np.int32]
    """(k, 4) point and corners, or the ends of the two edges"""
    weights: NDArray[np.float64]
    """(k, 4) sum zero; the weighted sum of the four positions leads from the second side to the first"""
    normal: NDArray[np.float64]
    """(k, 3) unit vectors, from the second side to the first"""
    distance: NDArray[np.float64]
    """(k,) in m"""


def contacts(
    vertices: ArrayLike, faces: ArrayLike, thickness: float | NDArray[np.float64], *, broad_phase: str = "bvh"
) -> Contacts:
    """Every vertex and triangle, and every two edges, nearer to each other than the thickness (metres).

    `thickness` is one length for all, or one a vertex. Features that share a vertex are left out.
    """
    positions = read_positions(vertices, "vertices")
    triangles = read_faces(faces, len(positions))
    surface = Surface.from_arrays(len(positions), triangles)
    lengths: Any = thickness
    if np.ndim(thickness) > 0:
        values = np.ascontiguousarray(thickness, np.float64)
        if values.shape != (len(positions),) or not (values >= 0.0).all():
            raise WeftError(f"thickness must be one length, or {len(positions)} lengths of 0 or more, one a vertex")
        lengths = wp.array(values, dtype=wp.float64, device="cpu")
    broad = make_broad_phase(broad_phase, surface, material=positions)
    x = wp.array(positions, dtype=wp.vec3d, device="cpu")
    found = find_contacts(broad, x, lengths)
    kind, corners, weights, normal, gap = (
        column.numpy() for column in (found.kind, found.vertices, found.weights, found.normal, found.gap)
    )
    return Contacts(kind, corners.reshape(-1, 4), weights.reshape(-1, 4), normal.reshape(-1, 3), gap)


@wp.kernel
def _collide(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec2i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    chosen: wp.array[int],
    times: wp.array[wp.float64],
):
    i = first + wp.tid()
    q = pair_vertices(kind, pairs[i], faces, edges)
    a = start[q[0]]
    b = start[q[1]]
    c = start[q[2]]
    d = start[q[3]]
    if kind == POINT_TRIANGLE:
        hit, time = ccd_point_triangle(a, b, c, d, end[q[0]], end[q[1]], end[q[2]], end[q[3]], tolerance)
    else:
        hit, time = ccd_edge_edge(a, b, c, d, end[q[0]], end[q[1]], end[q[2]], end[q[3]], tolerance)
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
        for kind, pairs in zip(Kind, candidates, strict=True):
            count = len(pairs)
            chosen.append(self._chosen[kind].at_least(max(count, 1))[:count])
            times.append(self._times[kind].at_least(max(count, 1))[:count])
            inputs = [int(kind), pairs, surface.faces, surface.edges, start, end, self.tolerance, chosen[-1], times[-1]]
            launch(_collide, count, inputs, device=self.device, grain=CCD_CANDIDATES_A_THREAD)
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

"""Which cloth vertices are pinched, and between which surfaces (Baraff, Witkin and Kass 2003, section 4.4).

A vertex is pinched where it is in, or touches, two surfaces that face each other: of two colliders, or two portions of
one collider that intersect there. That a finger's two sides are near each other and face away is no pinch: for one
collider the analysis of its own mesh tells, by the regions in which it has passed through itself. Overlaps that it has
in the first frame already are part of its shape and do not count, nor do tiny ones. Portions that have not met, but
leave no room for the cloth between them, pinch it as well.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.mesh.topology import Csr
from weft.methods.untangle.flypaper import SurfacePoints
from weft.methods.untangle.pinching_kernels import (
    Near,
    find_between,
    find_touched,
    find_within,
    take_between,
    take_within,
)
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scans
from weft.runtime.readback import read
from weft.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# part of the thickness by which a vertex may be farther away and still touches
SLACK = 0.01
# regions of a collider with fewer vertices are blemishes
LEAST_REGION = 3
# rings by which the overlaps of the first frame are widened, and the part of a path that must lie in them to be one
RINGS, PERMANENT = 2, 0.8


class SelfPinch:
    """Where one collider has passed through itself, step by step."""

    def __init__(self, world: World, number: int, start: Floats) -> None:
        """`start`: all positions of the world in the first frame."""
        body = world.bodies[len(world.cloths) + number]
        self.device = world.device
        self.vertices = body.vertices
        self.first_face = body.faces.start - world.cloth_face_count
        faces = world.faces[body.faces] - body.vertices.start
        self.analyser = Analyser(faces, body.vertices.stop - body.vertices.start, device=world.device)
        # what only moves as a whole passes through itself as it did at first
        self._bends = any(
            not p.still and p.pose is None and p.vertices[0] in range(body.vertices.start, body.vertices.stop)
            for p in world.kinematics.prescriptions
            if len(p.vertices)
        )
        self._permanent = np.zeros(self.analyser.topology.vertex_count, dtype=bool)
        first = self.analyser.analyse(start[self.vertices])
        self._permanent[_crossing_vertices(first)] = True
        for row in range(len(first.region_vertices.offsets) - 1):
            self._permanent[_row(first.region_vertices, row)] = True
        edges = self.analyser.topology.edges
        for _ in range(RINGS):
            touched = self._permanent[edges].any(axis=1)
            self._permanent[edges[touched]] = True
        self._none = [wp.zeros(1, dtype=int, device=self.device) for _ in range(3)]

    def look(self, x: wp.array) -> list[Any]:
        """What kernels need to know of the collider with all positions of the world here: its triangles in a tree, how many
        of the paths on which it passes through itself pinch, which ones, and the colours of its triangles."""
        own = x[self.vertices.start : self.vertices.stop]
        analysis = self.analyser.analyse_in_place(own) if self._bends else None
        kept = np.zeros(0, bool) if analysis is None else self._choose(analysis)
        finder = self.analyser.finder
        finder.build_tree(own)
        if analysis is None or not kept.any():
            return [finder.mesh, 0, *self._none]
        lists = (kept.astype(np.int32), analysis.face_colours.offsets, analysis.face_colours.items)
        uploaded = [wp.array(values, dtype=int, device=self.device) for values in lists]
        return [finder.mesh, int(kept.sum()), *uploaded]

    def _choose(self, analysis: Analysis) -> Bools:
        """Which paths pinch: not those that were there from the start, and not the smallest.

        One side may well be small: a hand in a torso of large triangles.
        """
        sizes = np.diff(analysis.region_vertices.offsets)
        kept = np.where(analysis.single, sizes[::2] + sizes[1::2], np.maximum(sizes[::2], sizes[1::2])) >= LEAST_REGION
        for path in np.flatnonzero(kept):
            nodes = slice(analysis.path_offsets[path], analysis.path_offsets[path + 1])
            kept[path] = self._permanent[analysis.rows[nodes, :2]].mean() < PERMANENT
        return kept


class PinchFinder:
    """Finds the pinched vertices of a world; nothing is remembered from step to step."""

    def __init__(self, world: World, surfaces: SolidSurfaces, *, depth: float) -> None:
        """`depth`: how far a vertex may be inside a surface that pinches it, m."""
        self.world, self.device = world, world.device
        self.surfaces = surfaces
        count = self.count = world.cloth_vertex_count
        start = world.initial_state().positions()
        self._own = [SelfPinch(world, number, start) for number in range(surfaces.count)]
        near: Any = Near()
        self._near = near
        near.face, near.weights = surfaces.face, surfaces.weights
        near.normals, near.gaps = surfaces.normals, surfaces.gaps
        touch = 0.5 * (1.0 + SLACK) * (world.thickness.numpy()[:count] + world.scene.thickness)
        near.touch, near.depth = wp.array(touch, dtype=wp.float64, device=self.device), wp.float64(depth)
        pairs = max(1, surfaces.count) * count
        self._touched = wp.zeros(max(1, surfaces.count), dtype=int, device=self.device)
        self._chosen, self._places = (wp.zeros(pairs, dtype=int, device=self.device) for _ in range(2))
        self._faces = wp.zeros(count, dtype=int, device=self.device)
        self._weights = wp.zeros(count, dtype=wp.vec3d, device=self.device)
        self._rows, self._row_weights = Buffer(wp.vec3i, self.device), Buffer(wp.vec3d, self.device)

    def find(self, x: wp.array) -> SurfacePoints:
        """The pinched vertices at positions x, for which the surfaces have been searched to the depth already."""
        colliders = self.surfaces.count
        vertices: list[np.ndarray] = [np.zeros(0, np.int32)]
        faces: list[np.ndarray] = [np.zeros(0, np.int32)]
        weights = [np.zeros((0, 3))]
        self._touched.zero_()
        inputs: list[Any] = [self.count, self._near, self._touched]
        launch(find_touched, colliders * self.count, inputs, device=self.device)
        touched = read((self._touched, 0, colliders))[0].copy() if colliders else np.zeros(0, np.int32)

        # between two colliders: all that touch it, if some of them face each other
        if touched.sum() > 1:
            rows, points = self._between()
            vertices.append(rows[:, 0])
            faces.append(rows[:, 1])
            weights.append(points)

        # between two portions of one
        for number in np.flatnonzero(touched):
            rows, points = self._within(int(number), x)
            if not len(rows):
                continue
            held, face, opposite = rows.T
            new = ~np.isin(held, np.concatenate(vertices))
            vertices += [held[new], held]
            faces += [face[new], opposite + self._own[number].first_face]
            weights += [points[::2][new], points[1::2]]
        faces_of_world = np.concatenate(faces) + self.world.cloth_face_count
        return _points(np.concatenate(vertices), faces_of_world, np.concatenate(weights))

    def _between(self) -> tuple[Ints, Floats]:
        """Rows (vertex, triangle, -1) of what colliders pinch between them, and the points of these triangles."""
        pairs, chosen, places = self.surfaces.count * self.count, self._chosen, self._places
        inputs: list[Any] = [self.count, self.surfaces.count, self._near, chosen]
        launch(find_between, pairs, inputs, device=self.device)
        found = exclusive_scans((chosen, places, pairs))[0]
        rows, weights = self._rows.at_least(found), self._row_weights.at_least(found)
        if found:
            inputs = [self.count, self._near, chosen, places, rows, weights]
            launch(take_between, pairs, inputs, device=self.device)
        return rows[:found].numpy().reshape(-1, 3), weights[:found].numpy().reshape(-1, 3)

    def _within(self, number: int, x: wp.array) -> tuple[Ints, Floats]:
        """Rows (vertex, triangle, opposite triangle) of what a collider pinches, and two points for each of them."""
        own, chosen, places = self._own[number], self._chosen, self._places
        found = [chosen, self._faces, self._weights]
        inputs: list[Any] = [number, own.first_face, self._near, x, *own.look(x), *found]
        launch(find_within, self.count, inputs, device=self.device, grain=64)
        count = exclusive_scans((chosen, places, self.count))[0]
        rows, weights = self._rows.at_least(count), self._row_weights.at_least(2 * count)
        if count:
            inputs = [number, self._near, chosen, places, self._faces, self._weights, rows, weights]
            launch(take_within, self.count, inputs, device=self.device)
        return rows[:count].numpy().reshape(-1, 3), weights[: 2 * count].numpy().reshape(-1, 3)


def _points(vertices: Ints, faces: Ints, weights: Floats) -> SurfacePoints:
    """Points listed by vertex."""
    order = np.argsort(vertices, kind="stable")
    held, sizes = np.unique(vertices, return_counts=True)
    return SurfacePoints(held, np.concatenate([[0], np.cumsum(sizes)]), faces[order], weights[order])


def _crossing_vertices(analysis: Analysis) -> Ints:
    return np.unique(np.concatenate([analysis.rows[:, :2].ravel(), analysis.topology.faces[analysis.face].ravel()]))


def _row(rows: Csr, number: int) -> Ints:
    return rows.items[rows.offsets[number] : rows.offsets[number + 1]]

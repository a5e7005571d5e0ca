"""What crosses now: paths of intersections over cloth and colliders, what is inside solids, and what is pinched.

Nothing is remembered from step to step: all of it follows from the positions.
"""

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis, vertex_areas
from weft.analysis.attraction import unit
from weft.analysis.crossing import CrossingFinder
from weft.analysis.partners import pulling_paths
from weft.analysis.solid_queries import OUTSIDE, PINCHED
from weft.analysis.solids import INSIDE_AREA, Held, Solids
from weft.mesh.topology import Csr, Topology, ascending, connected_labels
from weft.methods.guarded.neighbourhood import Neighbourhood
from weft.methods.guarded.pair_states import Places, TangleSides
from weft.methods.guarded.parting import LARGEST_MOVE, PULL_FRACTION, Parting, Way, limited
from weft.world import World

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# the neighbourhood of a path: rings of vertices around what crosses. A contour slides over the mesh while it shrinks, by less
# than that in a step
RINGS = 2
# rings of vertices around pinched ones that solids may still close on
PINCHED_RINGS = 2
# square of the length of the end of a solid in its radii, from which on cloth slides off it instead of being drawn to the
# nearest surface
LONG_END = 0.25
# edge lengths by which cloth that cuts a corner of a solid is moved off it in a step
CLEARING = 0.1


class Tangles(NamedTuple):
    """All that crosses at some positions."""

    analysis: Analysis
    inside: Ints
    """vertices of cloth inside a solid that something crosses"""
    around: Held | None
    """where these vertices are with regard to the solids"""
    outside: Ints
    """vertices of cloth outside of all solids; none where there are none"""
    outwards: Floats
    """(n, 3) the normals of the vertices of solids; empty where there are none"""

    pinched: Bools
    """(k,) which of the vertices inside are pinched, or beside pinched ones: they are held"""
    counted: Ints
    """the crossings that count: all but those between triangles that a seam joins"""

    @property
    def corners(self) -> Ints:
        """(k, 3) the vertices of the triangle of each crossing."""
        corners: Ints = self.analysis.topology.faces[self.analysis.face]
        return corners

    @property
    def vertices(self) -> Ints:
        """(k, 5) the vertices of each crossing: the two of its edge, then the three of its triangle."""
        return np.column_stack([self.analysis.rows[:, :2], self.corners])


class TangleFinder:
    """Finds the tangles of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        # the search for crossings is there from the start, all else when there is a first one
        self._topology = Topology(world.faces, world.vertex_count)
        passive = range(len(world.cloths), len(world.bodies))
        self._finder = CrossingFinder(self._topology, device=world.device, surface=world.surface, passive=passive)
        self._length = min(float(np.median(cloth.mesh.rest_lengths)) for cloth in world.cloths) if world.cloths else 1.0
        self._thickness = world.thickness.numpy()
        self._passing: Bools = np.zeros(0, dtype=bool)
        """the edges that passed through a collider when the labels were made: equal ones for what other edges connect"""
        self._labels: Ints = np.zeros(0, np.int32)
        self.around: Held | None = None
        """where all vertices of cloth are with regard to the solids, as `find` has last seen them"""

    @cached_property
    def analyser(self) -> Analyser:
        """Orders crossings into paths, and finds what they enclose."""
        world = self.world
        stitches = world.seams.vertices if len(world.seams.vertices) else None
        given: dict[str, Any] = {
            "seams": stitches,
            "length": self._length,
            "device": world.device,
            "finder": self._finder,
        }
        return Analyser(world.faces, world.vertex_count, **given)

    @cached_property
    def solids(self) -> Solids:
        """The closed colliders."""
        world = self.world
        return Solids(world.faces[world.cloth_face_count :], world.rest_positions, world.device)

    @cached_property
    def _areas(self) -> Floats:
        """(n,) the areas of the vertices at rest."""
        return vertex_areas(self._topology, self.world.rest_shape.numpy())

    @cached_property
    def parting(self) -> Parting:
        """What moves tangles apart."""
        return Parting(self.world, self.analyser)

    @cached_property
    def _near(self) -> Neighbourhood:
        """What is near vertices along the mesh."""
        return Neighbourhood(self._topology)

    def find(self, x: wp.array) -> Tangles | None:
        """The tangles at positions on the device; None if nothing crosses."""
        edge, face = self._finder.find(x, self._length)
        if not len(edge):
            return None
        self.around = None
        weigh = partial(self._place_and_weigh, edge, face) if self.solids.any else None
        analysis = self.analyser.analyse_found(x, edge, face, weigh)
        if analysis is None:
            return None
        counted = np.flatnonzero(~self.analyser.sewn(analysis.edge, analysis.face)).astype(np.int32)
        if self.around is None:
            none = np.zeros(0, np.int32)
            return Tangles(analysis, none, None, none, np.zeros((0, 3)), np.zeros(0, dtype=bool), counted)
        inside = self._reached(analysis, self.around.state != OUTSIDE)
        outside = np.flatnonzero(self.around.state == OUTSIDE).astype(np.int32)
        around = self.around.take(inside)
        near = self._near.around(inside[around.state == PINCHED], PINCHED_RINGS)
        return Tangles(analysis, inside, around, outside, self.solids.normals(), near[inside], counted)

    def _place_and_weigh(self, edge: Ints, face: Ints, x: Floats) -> Floats:
        """Find which cloth is inside solids; gives the areas of the vertices, by which the smaller side of a path is chosen.

        `edge` and `face` are all crossings at these positions.
        """
        count = self.world.cloth_vertex_count
        self.solids.place(x)
        self.around = self.solids.locate(x[:count], self._thickness[:count], self._same_sides(edge, face, x))
        areas = self._areas.copy()
        areas[:count][self.around.state != OUTSIDE] *= INSIDE_AREA
        return areas

    def _same_sides(self, edge: Ints, face: Ints, x: Floats) -> Ints:
        """A number for each vertex of cloth, the same where edges that pass through no collider connect vertices."""
        count = self.world.cloth_vertex_count
        edges = self._topology.edges
        ends = edges[: np.searchsorted(edges[:, 0], count)]
        passing = np.zeros(len(ends), dtype=bool)
        passing[edge[(edge < len(ends)) & (face >= self.world.cloth_face_count)]] = True
        # what passes through the holes of solids is no crossing
        for low, high in self.solids.holes():
            one, other = x[ends[:, 0]], x[ends[:, 1]]
            passing |= (np.minimum(one, other) <= high).all(axis=1) & (np.maximum(one, other) >= low).all(axis=1)
        if not np.array_equal(passing, self._passing):
            first, second = ends[~passing].T
            self._passing, self._labels = passing, connected_labels(first, second, count)
        return self._labels

    def _reached(self, analysis: Analysis, inside: Bools) -> Ints:
        """The vertices inside solids that are connected with crossings of a solid: cloth in a closed room is left alone."""
        corners = np.column_stack([analysis.rows[:, :2], analysis.topology.faces[analysis.face]])
        seeds = ascending(corners[self.solids.is_closed[corners].any(axis=1)])
        seeds = seeds[seeds < len(inside)]
        seeds = seeds[inside[seeds]]
        if not len(seeds):
            return seeds.astype(np.int32)
        return self._near.connected(seeds, np.flatnonzero(inside)).astype(np.int32)

    def connected(self, vertices: NDArray[np.integer], seeds: NDArray[np.integer]) -> NDArray[np.integer]:
        """Those of the vertices that are connected with the seeds, through each other or a vertex beside them."""
        if not len(vertices):
            return vertices
        candidates = self._near.around(seeds, 1)
        candidates[vertices] = True
        return np.intersect1d(vertices, self._near.connected(seeds, np.flatnonzero(candidates)))

    def pinched_with(self, vertices: Ints, x: Floats, target: Floats, dt: float) -> tuple[Ints, Floats]:
        """The vertices, connected with the given ones, that solids pinch at the end of a step if cloth stays at x.

        Returns them, and the velocities (m/s) by which these solids carry them.
        """
        if not self.solids.any:
            return np.zeros(0, np.int32), np.zeros((0, 3))
        count = self.world.cloth_vertex_count
        self.solids.place(target)
        around = self.solids.locate(x[:count], self._thickness[:count])
        chosen = around.state == PINCHED
        chosen[vertices] = True
        reached = self._near.connected(vertices, np.flatnonzero(chosen))
        reached = reached[around.state[reached] == PINCHED]
        return reached, around.take(reached).carried((target - x) / dt)

    def sides(self, tangles: Tangles) -> TangleSides:
        """The sides of all tangles: of paths with their surroundings and their regions, and of cloth in solids."""
        analysis, faces = tangles.analysis, self.analyser.topology.faces
        edge_side = 2 * analysis.path_of + analysis.sheet
        beside = self.analyser.topology.edge_faces[analysis.edge]
        second = np.where(beside[:, 1] >= 0, beside[:, 1], beside[:, 0])
        near = [analysis.rows[:, :2], faces[beside[:, 0]], faces[second], tangles.corners]
        sides = [edge_side, edge_side, edge_side, edge_side ^ 1]
        vertex = np.concatenate([vertices.ravel() for vertices in near])
        side = np.concatenate([np.repeat(s, vertices.shape[1]) for s, vertices in zip(sides, near, strict=True)])
        vertex, side = self._near.widen(vertex, side, RINGS)
        # a single curve through loop vertices has the same sheet on both sides
        regions = analysis.region_vertices
        vertex, side = np.concatenate([vertex, regions.items]), np.concatenate([side, row_numbers(regions)])
        single = analysis.single[side // 2]
        vertex, side = np.concatenate([vertex, vertex[single]]), np.concatenate([side, side[single] ^ 1])
        return TangleSides.join(TangleSides(vertex, side), self._in_solids(tangles))

    def places(self, tangles: Tangles, held: NDArray[np.integer], motion: Floats) -> Places | None:
        """Where vertices are with regard to solids, if cloth crosses one.

        `held` are the vertices held in the step, `motion` (n, 3) is that of all vertices. What is near vertices held by solids
        that do not move against each other stays outside: nothing closes on it.
        """
        if tangles.around is None or not self._crosses_solids(tangles).any():
            return None
        forced = np.zeros(self.world.vertex_count, dtype=bool)
        forced[held] = True
        forced[tangles.inside[tangles.pinched]] = False
        closing = self._near.around(tangles.inside[tangles.around.opposed(motion)], PINCHED_RINGS)
        closed_on = self._near.around(held[(forced | closing)[held]], PINCHED_RINGS)
        cut = tangles.analysis.edge, tangles.analysis.face
        near = self._near.around(held, PINCHED_RINGS)
        regions = tangles.analysis.region_vertices
        passing = np.zeros(self.world.vertex_count, dtype=bool)
        back = self._at_thin(tangles) & pulling_paths(tangles.analysis)
        passing[regions.items[back[row_numbers(regions) // 2]]] = True
        outside = tangles.outside[~passing[tangles.outside]]
        return Places(outside, *cut, near | passing, closed_on, self.solids.vertices, tangles.outwards)

    def at_pinched(self, tangles: Tangles) -> Bools:
        """(k,) which crossings are at pinched vertices, or so near to them that solids may still close on them."""
        near = self._near.around(tangles.inside[tangles.pinched], PINCHED_RINGS)
        return np.asarray(near[tangles.vertices].any(axis=1), dtype=bool)

    def _crosses_solids(self, tangles: Tangles) -> Bools:
        """(k,) which crossings are with solids."""
        return np.asarray(self.solids.is_closed[tangles.vertices].any(axis=1), dtype=bool)

    def held_velocities(self, tangles: Tangles, velocity: Floats) -> Floats:
        """(m, 3) of the vertices that are held: those of what pinches them, or of the held ones beside them.

        `velocity` (n, 3) is that of all vertices.
        """
        assert tangles.around is not None
        count = self.world.vertex_count
        pinched = tangles.around.state == PINCHED
        known, found = np.zeros(count), np.zeros((count, 3))
        known[tangles.inside[pinched]] = 1.0
        found[tangles.inside[pinched]] = tangles.around.carried(velocity)[pinched]
        held = tangles.inside[tangles.pinched]
        for _ in range(PINCHED_RINGS):
            new = held[known[held] == 0.0]
            links = self._near.links[new]
            weight = links @ known
            found[new] = (links @ found) / np.maximum(weight, 1.0)[:, None]
            known[new] = weight > 0.0
        return found[held]

    def _in_solids(self, tangles: Tangles) -> TangleSides:
        """Cloth inside solids, and the solids that it crosses."""
        if tangles.around is None or not len(tangles.inside):
            return TangleSides.of(np.zeros(0, np.int64), np.zeros(0, np.int64))
        body = self.world.surface.vertex_body.numpy()
        holders = np.concatenate([tangles.around.corners.ravel(), tangles.around.holder_corners.ravel()])
        near = np.zeros(body.max() + 1, dtype=bool)
        near[body[tangles.vertices.ravel()]] = near[body[holders]] = True
        solid = np.flatnonzero(near[body] & self.solids.is_closed)
        cloth = np.flatnonzero(self._near.around(tangles.inside, 1))
        return TangleSides.of(cloth, solid)

    def displacements(self, tangles: Tangles, movable: Bools, pinned: Bools, number: int) -> Floats:
        """(n, 3) the displacements of step `number` that part the tangles; only movable vertices move.

        Paths that mostly cross at `pinned` vertices of cloth are left alone: they would be pulled at for ever.
        """
        analysis = tangles.analysis
        starts, sizes = analysis.path_offsets[:-1], np.diff(analysis.path_offsets)
        at_pins = pinned[tangles.vertices].any(axis=1)
        hopeless = 2 * np.add.reduceat(at_pins.astype(np.int64), starts) >= sizes
        solid, pulled, slit = (np.zeros(len(analysis), dtype=bool) for _ in range(3))
        moves: list[Way] = []
        if tangles.around is not None:
            closed = self._crosses_solids(tangles)
            solid = np.logical_or.reduceat(closed, starts)
            # the smaller side of cloth goes back through a thin solid, and a solid leaves a slit through its open end
            thin, dividing = self._at_thin(tangles), pulling_paths(analysis)
            pulled = dividing & (solid & self._wholly_inside(tangles) | thin)
            slit = thin & ~dividing & ~analysis.closed
            through, slide = self._slide_off(tangles, pulled)
            cutting = closed & ~at_pins & ~(through | slit)[analysis.path_of]
            moves = [self._leave(tangles, pulled), slide, self._clear(tangles, tangles.vertices[cutting])]
            pulled &= ~through
        return self.parting.displacements(analysis, (~solid | slit) & ~hopeless, pulled, moves, movable, number)

    def _wholly_inside(self, tangles: Tangles) -> Bools:
        """(paths,) the paths that divide the cloth, with all of its vertices on one side inside a solid, none pinched."""
        analysis = tangles.analysis
        inside = np.zeros(self.world.vertex_count, dtype=bool)
        inside[tangles.inside[~tangles.pinched]] = True
        inside[self.world.cloth_vertex_count :] = True
        regions = analysis.region_vertices
        outside = np.bincount(row_numbers(regions), ~inside[regions.items], len(regions.offsets) - 1)
        found: Bools = pulling_paths(analysis) & (outside.reshape(-1, 2).sum(axis=1) == 0)
        return found

    def _at_thin(self, tangles: Tangles) -> Bools:
        """(paths,) the paths at solids that are thin there: most edges and triangles that cross have no vertex inside."""
        starts = tangles.analysis.path_offsets[:-1]
        inside = np.zeros(self.world.vertex_count, dtype=bool)
        inside[tangles.inside] = True
        deep = np.add.reduceat(inside[tangles.vertices].any(axis=1).astype(np.int64), starts)
        solid = np.logical_or.reduceat(self._crosses_solids(tangles), starts)
        return np.asarray(solid & (2 * deep <= np.diff(tangles.analysis.path_offsets)))

    def _slide_off(self, tangles: Tangles, pulled: Bools) -> tuple[Bools, Way]:
        """Which of the pulled paths go around a solid that passes through the cloth, and the ways of the cloth off its end.

        The cloth inside such a path moves as one, across the curve, to where less of the solid is. Its nearest surface is at
        the sides of the solid, where it would only be stretched.
        """
        analysis, count = tangles.analysis, self.world.cloth_vertex_count
        through, vertices, ways = np.zeros(len(analysis), dtype=bool), [np.zeros(0, np.int32)], [np.zeros((0, 3))]
        regions = analysis.region_vertices
        for path in np.flatnonzero(pulled & analysis.closed & ~analysis.single):
            nodes = slice(analysis.path_offsets[path], analysis.path_offsets[path + 1])
            sheet = int(analysis.sheet[nodes.start]) ^ int(analysis.rows[nodes.start, 0] < count)
            own, other = (regions.items[slice(*regions.offsets[2 * path + k :][:2])] for k in (sheet ^ 1, sheet))
            far = self._nearer_end(analysis.positions, analysis.points[nodes], other) if len(other) else None
            if far is not None:
                through[path] = True
                corners = tangles.vertices[nodes].ravel()
                moved = np.union1d(own, corners[corners < count])
                vertices.append(moved)
                ways.append(limited(np.repeat(far[None], len(moved), axis=0), LARGEST_MOVE * self.parting.scale[moved]))
        return through, Way(np.concatenate(vertices), np.concatenate(ways))

    def _nearer_end(self, x: Floats, curve: Floats, one: Ints) -> Floats | None:
        """The way across a closed curve around a solid to its nearer end; None where both are short.

        `one` are the vertices of the solid on one side of the curve.
        """
        centre = curve.mean(axis=0)
        area = 0.5 * np.cross(curve - centre, np.roll(curve, -1, axis=0) - centre).sum(axis=0)
        direction = unit(area[None])[0]
        piece = self._topology.components
        other = np.setdiff1d(np.flatnonzero(piece == piece[one[0]]), one)
        ends = [(x[side] - centre) @ direction for side in (one, other) if len(side)]
        lengths = [float(np.abs(end).max()) for end in ends]
        nearer = int(np.argmin(lengths))
        if lengths[nearer] ** 2 < LONG_END * np.linalg.norm(area) / np.pi:
            return None
        return np.asarray(np.sign(ends[nearer].sum()) * lengths[nearer] * direction)

    def _leave(self, tangles: Tangles, pulled: Bools) -> Way:
        """The ways of the vertices inside solids to the nearest surface, but for those inside the paths that are pulled."""
        assert tangles.around is not None
        regions = tangles.analysis.region_vertices
        chosen = pulled[row_numbers(regions) // 2]
        only = np.flatnonzero(~tangles.pinched & ~np.isin(tangles.inside, regions.items[chosen]))
        vertices, x = tangles.inside[only], tangles.analysis.positions
        point, normal = tangles.around.take(only).nearest(x)
        return Way(vertices, PULL_FRACTION * (point + self._thickness[vertices, None] * normal - x[vertices]))

    def _clear(self, tangles: Tangles, corners: Ints) -> Way:
        """The ways of cloth off the solids that its edges and triangles cut, with all their vertices outside."""
        count = self.world.cloth_vertex_count
        inside = np.zeros(self.world.vertex_count, dtype=bool)
        inside[tangles.inside] = True
        corners = corners[~inside[corners].any(axis=1)]
        # the cloth of a crossing is its edge or its triangle, the solid the other one
        edge = corners[:, 0] < count
        normals = tangles.outwards
        outwards = np.where(edge[:, None], normals[corners[:, 2:]].sum(axis=1), normals[corners[:, :2]].sum(axis=1))
        vertices = np.concatenate([corners[edge, :2].ravel(), corners[~edge, 2:].ravel()])
        ways = np.concatenate([np.repeat(outwards[edge], 2, axis=0), np.repeat(outwards[~edge], 3, axis=0)])
        return Way(vertices, CLEARING * self.parting.scale[vertices, None] * unit(ways))


def row_numbers(lists: Csr) -> NDArray[np.int64]:
    """(items,) the row that each item is in."""
    return np.repeat(np.arange(len(lists.offsets) - 1), np.diff(lists.offsets))

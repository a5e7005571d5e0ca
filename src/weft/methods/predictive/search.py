"""The search for contacts of cloth with cloth, once at the start of a step (Lewin 2018, sections 4.1 to 4.6).

A broad phase lists pairs of features, each once (rep-tri: a triangle lists only the vertices and edges that it owns),
and between regions that collide; `predictive_pairs` says which of them make a contact.
"""

# mypy: disable-error-code="arg-type, assignment"

from functools import partial
from typing import Any, Literal

import numpy as np
import warp as wp

from weft.broad_phase.bvh import Bvh
from weft.broad_phase.interface import BroadPhase
from weft.broad_phase.patch_search import PatchSearch
from weft.contact.stencil_colours import StencilColouring
from weft.contact.step_search import sewn_groups
from weft.methods.predictive.candidates import (
    CHUNK,
    choose_pairs,
    choose_points,
    count_points,
    enclose_edges,
    enclose_faces,
    enclose_vertices,
    find_places,
    list_pairs,
    list_points,
    remove_rigid_rotation,
    write_contacts,
)
from weft.methods.predictive.contacts import Contacts
from weft.methods.predictive.pairs import EDGE_EDGE, POINT_POINT, POINT_TRIANGLE, Sheet
from weft.methods.predictive.regions import Regions
from weft.methods.predictive.search_ahead import Room, SearchAhead
from weft.methods.predictive.search_cpu import QuickSearch
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.runtime.compaction import exclusive_scan
from weft.runtime.cooperative import BLOCK
from weft.runtime.graph_cache import fork_join
from weft.runtime.launch import launch_blocks

# items of a kernel that are worth a thread
GRAIN = 256


class PredictiveSearch:
    """Finds the contacts of a step; buffers are kept between steps."""

    def __init__(
        self,
        broad_phase: BroadPhase,
        regions: Regions,
        *,
        rest: wp.array,
        thickness: wp.array,
        inverse_mass: wp.array,
        friction: tuple[wp.array, wp.array],
        largest_thickness: float,
        stitches: np.ndarray | None = None,
    ) -> None:
        """`stitches` (k, m) are vertices sewn together, row by row: features that share them make no contact."""
        surface = broad_phase.surface
        self.device = surface.device
        self.broad_phase = broad_phase
        self.friction = friction
        self.largest_thickness = largest_thickness
        edges, faces = surface.edges.numpy().reshape(-1, 2), surface.faces.numpy().reshape(-1, 3)
        face_edges, owned = surface.face_edges.numpy().reshape(-1, 3), surface.owned.numpy()
        owners = _owners(owned, faces, face_edges, surface.vertex_count, len(edges))

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=self.device)

        sheet: Any = Sheet()
        sheet.faces, sheet.edges, sheet.owned = surface.faces, surface.edges, surface.owned
        sheet.edge_faces = upload(_edge_faces(face_edges, len(edges)), wp.vec2i)
        sheet.first_edge = upload(_first_edges(edges, surface.vertex_count), int)
        sheet.marks = wp.zeros(len(edges), dtype=int, device=self.device)
        sheet.vertex_cloth = upload(regions.vertex_cloth, int)
        region = np.append(regions.face_region, 0)
        sheet.vertex_region, sheet.edge_region = upload(region[owners[0]], int), upload(region[owners[1]], int)
        sheet.face_region = upload(regions.face_region, int)
        sheet.above = wp.array(regions.above, dtype=int, ndim=2, device=self.device)
        sheet.rest, sheet.thickness = rest, thickness
        middles = rest.numpy()[edges].mean(axis=1)
        sheet.rest_rows = upload(np.column_stack([middles, regions.vertex_cloth[edges[:, 0]]]), wp.vec4d)
        sheet.largest = wp.float64(largest_thickness)
        sheet.sewn = int(stitches is not None and len(stitches) > 0)
        sheet.sewn_to = upload(sewn_groups(surface.vertex_count, stitches), int)
        self.sheet = sheet
        self.across = upload(_faces_across(face_edges, sheet.edge_faces.numpy(), regions.face_region), wp.vec3i)
        """for each corner of each triangle the triangle across the opposite edge, -1 for none in the same region"""
        self._chosen, self._places = Buffer(int, self.device), Buffer(int, self.device)
        self._counts, self._points = Buffer(int, self.device), Buffer(wp.vec2i, self.device)
        self._listed, self._vertices = Buffer(wp.vec3i, self.device), Buffer(wp.vec4i, self.device)
        self._bits = Buffer(wp.uint32, self.device)
        sizes = (surface.vertex_count, surface.vertex_count, len(edges), len(faces))
        self._ways = [wp.zeros(size, dtype=wp.vec4d, device=self.device) for size in sizes]
        """places and ways of the vertices, balls around the ways of edges and triangles"""
        self._reach = self._radius = 0.0
        self.mean_way = wp.zeros(1, dtype=wp.float64, device=self.device)
        """how far the mean vertex goes besides what the cloth does as a whole, in the last step that was asked for"""
        self._mean_view = self.mean_way.numpy() if self.device.is_cpu else None
        self.in_turn = False
        """whether contacts in colours are those that give the same as the order of the list"""
        self._turning: tuple[Any, ...] = ()
        self._turned: tuple[wp.array, ...] = ()
        """places whose turn was taken out last, for the search that follows"""
        self._unturned = wp.zeros(surface.vertex_count, dtype=wp.vec3d, device=self.device)
        fast = self.device.is_cpu and isinstance(broad_phase, PatchSearch) and len(faces) > 0
        self._unordered = Contacts(self.device)
        self.quick = QuickSearch(broad_phase, sheet, friction) if fast else None
        self.colouring = StencilColouring(max(surface.vertex_count, 1), inverse_mass)

    def find(
        self,
        x: wp.array,
        end: wp.array,
        radius: float,
        contacts: Contacts,
        *,
        kind: Literal["triangles", "points"] = "triangles",
        edges: bool = True,
        in_colours: bool = True,
        in_turn: bool | None = None,
    ) -> int:
        """Replace the contacts by those of a step from x to the predicted `end`; gives their number.

        Points are vertices with vertices; triangles are vertices with triangles, and edges with edges unless told not.
        Contacts in colours stand in an order in which many can be solved at once; `in_turn` says otherwise than usual whether
        these are ranks.
        """
        sheet = self.sheet
        if kind == "triangles":
            end = self._without_turn(x, end)
        self._take_radius(radius)
        if kind == "triangles" and self.quick is not None:
            return self._find_at_once(self.quick, x, end, contacts, edges, in_colours)
        self._take_places(x, end)
        self.broad_phase.update(x, end, self._reach)
        self._enclose(x, end)
        candidates = self.broad_phase.feature_pairs(edges=edges and kind == "triangles")
        if kind == "points":
            pairs = self._list_points(candidates.vertex_triangle)
            found = self._list(int(POINT_POINT), pairs, 0)
        else:
            found = self._list(int(POINT_TRIANGLE), candidates.vertex_triangle, 0)
            if edges:
                found = self._list(int(EDGE_EDGE), candidates.edge_edge, found)
        contacts.grow(found)
        if found:
            places = self._places.at_least(found)
            if in_colours:
                self.colour(self._vertices.array, found, in_turn)
                launch(find_places, found, [self.colouring.order, places], device=self.device)
            tables = [*self.friction, *contacts.arrays, contacts.triangles]
            inputs = [int(in_colours), places, self._listed.array, self._vertices.array, sheet, *tables]
            launch(write_contacts, found, inputs, device=self.device, grain=GRAIN)
        return found

    def _find_at_once(
        self, quick: QuickSearch, x: wp.array, end: wp.array, contacts: Contacts, edges: bool, in_colours: bool
    ) -> int:
        """All contacts of vertices with triangles, and of edges, in one launch."""
        if not in_colours:
            return quick.find(x, end, self._reach, contacts, edges=edges)
        found = quick.find(x, end, self._reach, self._unordered, edges=edges)
        contacts.grow(found)
        if found:
            places = self._places.at_least(found)
            self.colour(self._unordered.arrays[0], found)
            launch(find_places, found, [self.colouring.order, places], device=self.device)
            quick.order(places, self._unordered, contacts)
        return found

    def make_ahead(self) -> SearchAhead | None:
        """A search as launches alone, where the broad phase can be replayed."""
        if self.device.is_cpu or not isinstance(self.broad_phase, Bvh):
            return None
        return SearchAhead(self.broad_phase, self.sheet, self.friction)

    def find_ahead(
        self, search: SearchAhead, room: Room, x: wp.array, end: wp.array, radius: float, contacts: Contacts
    ) -> None:
        """As `find` of triangles and edges in no colours, but only launched: `search.told` tells what was found."""
        self._take_radius(radius)
        self._unturn(x, end)
        end = self._unturned
        self._take_places(x, end)
        find_pairs = partial(search.find_pairs, room, x, end, self._reach)
        fork_join(self.device, find_pairs, partial(self._enclose, x, end))
        search.find(room, self._ways, self._reach, contacts)

    def _take_places(self, x: wp.array, end: wp.array) -> None:
        # a struct that is not changed need not be packed again
        for name, value in (("x", x), ("end", end)):
            if getattr(self.sheet, name) is not value:
                setattr(self.sheet, name, value)

    def colour(self, vertices: wp.array, count: int, in_turn: bool | None = None) -> None:
        """Find colours, or ranks, of contacts."""
        if self.in_turn if in_turn is None else in_turn:
            self.colouring.rank(vertices, count)
        else:
            self.colouring.colour(vertices, count)

    def relative_displacement(self, x: wp.array, end: wp.array, radius: float, *, keep: bool = True) -> float:
        """How far the mean vertex goes besides what the cloth does as a whole, in distances that make contacts.

        Usually the next search of these keeps the places without turn.
        """
        self._without_turn(x, end)
        if keep:
            self.keep_turn(x, end)
        return self.last_haste(radius)

    def knows_turn(self, x: wp.array, end: wp.array) -> bool:
        """Whether the next search of these has the places without turn that `relative_displacement` found."""
        return bool(self._turned) and self._turned[0] is x and self._turned[1] is end

    def keep_turn(self, x: wp.array, end: wp.array) -> None:
        """Have the next search take the places without turn that are there now."""
        self._turned = x, end

    def last_haste(self, radius: float) -> float:
        """What it was when it was asked for last."""
        view = self.mean_way.numpy() if self._mean_view is None else self._mean_view
        return float(view[0]) / (self.largest_thickness + radius)

    def _without_turn(self, x: wp.array, end: wp.array) -> wp.array:
        """Where the vertices would end if the cloth as a whole did not turn.

        Turning moves two points across the direction between them and never along it, so that no contact is missed for
        leaving it out; but boxes of what turns are large and overlap in vain.
        """
        known = self.knows_turn(x, end)
        self._turned = ()
        if known:
            return self._unturned
        self._unturn(x, end)
        return self._unturned

    def _unturn(self, x: wp.array, end: wp.array) -> None:
        inputs = self._turning_for(x, end)
        if self.device.is_cpu:
            launch(remove_rigid_rotation, 1, inputs)
        else:
            launch_blocks(remove_rigid_rotation, 1, BLOCK, inputs, device=self.device)

    def _turning_for(self, x: wp.array, end: wp.array) -> tuple[Any, ...]:
        if not self._turning or self._turning[2] is not x or self._turning[3] is not end:
            self._turning = (len(x), 1 if self.device.is_cpu else BLOCK, x, end, self._unturned, self.mean_way)
        return self._turning

    def inputs_for(
        self, x: wp.array, end: wp.array, radius: float, contacts: Contacts
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """What `remove_rigid_rotation` and `search_together` take, for one thread: the same tuples where nothing changed."""
        assert self.quick is not None
        self._take_radius(radius)
        search = self.quick.inputs_for(x, self._unturned, self._reach, contacts, edges=True, threads=1)
        return self._turning_for(x, end), search

    def _take_radius(self, radius: float) -> None:
        if self._radius != radius:
            self._radius, self._reach = radius, self.largest_thickness + radius
            self.sheet.radius = wp.float64(radius)

    def _enclose(self, x: wp.array, end: wp.array) -> None:
        """Places and ways of all features."""
        sheet = self.sheet
        places, vertices, edges, faces = self._ways
        launch(enclose_vertices, len(vertices), [x, end, places, vertices], device=self.device)
        inputs = [x, sheet.edges, sheet.edge_faces, sheet.faces, sheet.first_edge, sheet.marks, vertices, edges]
        launch(enclose_edges, len(edges), inputs, device=self.device)
        launch(enclose_faces, len(faces), [sheet.faces, vertices, faces], device=self.device)

    def _list(self, kind: int, pairs: wp.array, base: int) -> int:
        """Add the candidates that make a contact to the list; gives the length of the list."""
        count = len(pairs)
        if count == 0:
            return base
        chunks = -(-count // int(CHUNK))
        bits, places, counts = (buffer.at_least(chunks) for buffer in (self._bits, self._places, self._counts))
        where, vertices, edges, faces = self._ways
        ways = [vertices, faces] if kind == int(POINT_TRIANGLE) else [edges, edges]
        inputs = [kind, count, pairs, self.sheet, self._reach, where, *ways, bits, counts]
        launch(choose_pairs, chunks, inputs, device=self.device, grain=16)
        found = exclusive_scan(counts, places, chunks)
        if found:
            listed = self._listed.at_least(base + found, keep=base)
            corners = self._vertices.at_least(base + found, keep=base)
            inputs = [kind, pairs, self.sheet, bits, places, base, listed, corners]
            launch(list_pairs, chunks, inputs, device=self.device, grain=GRAIN)
        return base + found

    def _list_points(self, pairs: wp.array) -> wp.array:
        """Pairs of vertices from pairs of a vertex and a triangle: each vertex has one triangle that owns it."""
        count = len(pairs)
        if count == 0:
            return pairs
        chosen, places, counts = (b.at_least(count) for b in (self._chosen, self._places, self._counts))
        launch(choose_points, count, [pairs, self.sheet, chosen], device=self.device, grain=GRAIN)
        launch(count_points, count, [chosen, counts], device=self.device)
        found = exclusive_scan(counts, places, count)
        points = self._points.at_least(max(found, 1))[:found]
        launch(list_points, count, [pairs, self.sheet.faces, chosen, places, points], device=self.device)
        return points


def _edge_faces(face_edges: np.ndarray, count: int) -> np.ndarray:
    """Two triangles at each edge, -1 where there is only one; of more than two, the first and the last."""
    found = np.full((count, 2), -1, np.int32)
    flat = face_edges.ravel()
    face = (np.arange(len(flat)) // 3).astype(np.int32)
    found[flat[::-1], 0] = face[::-1]
    found[flat, 1] = face
    found[found[:, 0] == found[:, 1], 1] = -1
    return found


def _faces_across(face_edges: np.ndarray, edge_faces: np.ndarray, region: np.ndarray) -> np.ndarray:
    """The triangle opposite each corner; the edge opposite corner k is the one after it, k + 1."""
    pairs = edge_faces.reshape(-1, 2)[np.roll(face_edges, -1, axis=1)]
    own = np.arange(len(face_edges))[:, None]
    other = np.where(pairs[..., 0] == own, pairs[..., 1], pairs[..., 0])
    same = (other >= 0) & (np.append(region, -1)[other] == region[:, None])
    return np.where(same, other, -1).astype(np.int32)


def _first_edges(edges: np.ndarray, vertex_count: int) -> np.ndarray:
    """The lowest edge at each vertex, -1 where there is none."""
    first = np.full(vertex_count, -1, np.int32)
    numbers = np.arange(len(edges), dtype=np.int32)[::-1]
    for end in range(2):
        chosen = np.full(vertex_count, len(edges), np.int32)
        chosen[edges[::-1, end]] = numbers
        first = np.where((first < 0) | (chosen < first), chosen, first)
    first[first == len(edges)] = -1
    return first.astype(np.int32)


def _owners(
    owned: np.ndarray, faces: np.ndarray, face_edges: np.ndarray, vertex_count: int, edge_count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The triangle that owns each vertex and each edge; -1 for a vertex without triangle."""
    result = []
    for features, first_bit, count in ((faces, 0, vertex_count), (face_edges, 3, edge_count)):
        owner = np.full(count, -1, np.int64)
        for k in range(3):
            mine = (owned >> (first_bit + k)) & 1 == 1
            owner[features[mine, k]] = np.flatnonzero(mine)
        result.append(owner)
    return result[0], result[1]

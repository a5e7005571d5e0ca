"""The search for contacts of cloth with cloth, once at the start of a step (Lewin 2018, sections 4.1 to 4.6).

Nearest points and the direction between them are those at the start; the displacements of the step, projected on that
direction, tell how near the two will come. What comes nearer than the thickness 2r and the static collision radius gets
a contact. No contact is made twice: the broad phase lists each pair of features once (rep-tri), and where the nearest
points are on borders, one rule says which pair stands for the place:

- a vertex over a triangle, or over its border, is a contact of the two where the direction between them is within
  60 degrees of the triangle's normal; elsewhere the triangle's plane says nothing about what is between them;
- two edges are a contact where the nearest points are inside both; where one of them is an end, only if no triangle at
  the other edge makes the contact with that vertex, and only for the first edge of that vertex.
"""

# mypy: disable-error-code="arg-type, assignment"

from typing import Any

import numpy as np
import warp as wp

from weft.detection.broad_phase import BroadPhase
from weft.response.impulses import COLOURS, colour_stencils
from weft.response.nearest import nearest_on_edges, nearest_on_triangle
from weft.response.predictive_contacts import EDGES, FROZEN, TRIANGLE, Contacts
from weft.response.regions import Regions
from weft.world import launch
from weft.world.buffers import Buffer

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex
ALIGNED = wp.constant(wp.float64(0.5))
# parameters nearer to 0 or 1 than this are ends
END = wp.constant(wp.float64(1e-6))
# two points of one cloth keep at most this part of their distance along the cloth
REST_PART = wp.constant(wp.float64(0.7))
GRAIN = 256

NONE, POINT_TRIANGLE, EDGE_EDGE, POINT_POINT = (wp.constant(k) for k in range(4))


@wp.struct
class Sheet:
    """What the search reads of the cloths; positions are set before each search."""

    x: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    first_edge: wp.array[int]
    owned: wp.array[int]
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    thickness: wp.array[wp.float64]
    radius: wp.float64
    """static collision radius"""
    cached: int
    """1: what is found is kept for other steps, so that only what stays meaningful in them counts"""


@wp.struct
class Pair:
    """Two features that may make a contact."""

    made: int
    """NONE, POINT_TRIANGLE, EDGE_EDGE or POINT_POINT"""
    vertices: wp.vec4i
    kind: int
    weights: wp.vec4d
    normal: wp.vec3d
    thickness: wp.float64
    distance: wp.float64


@wp.func
def face_normal(f: wp.vec3i, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """Unit normal; zero for a triangle without area."""
    m = wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    length = wp.length(m)
    if length > ZERO:
        return m / length
    return wp.vec3d()


@wp.func
def combined(w: wp.vec4d, q: wp.vec4i, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """The stencil's sum w_k x_k."""
    return w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]]


@wp.func
def pair_thickness(w: wp.vec4d, q: wp.vec4i, other: int, sheet: Sheet) -> wp.float64:
    """The mean thickness of both sides; less where they are near each other along the cloth."""
    thick = HALF * (sheet.thickness[q[0]] + sheet.thickness[other])
    if sheet.vertex_cloth[q[0]] == sheet.vertex_cloth[other]:
        thick = wp.min(thick, REST_PART * wp.length(combined(w, q, sheet.rest)))
    return thick


@wp.func
def make_point_triangle(pair: wp.vec2i, sheet: Sheet) -> Pair:
    """A vertex and a triangle: the side is the vertex's own, or that of its layer."""
    made = Pair()
    f = sheet.faces[pair[1]]
    q = wp.vec4i(pair[0], f[0], f[1], f[2])
    p = sheet.x[q[0]]
    bary = nearest_on_triangle(p, sheet.x[q[1]], sheet.x[q[2]], sheet.x[q[3]])
    w = wp.vec4d(ONE, -bary[0], -bary[1], -bary[2])
    r = combined(w, q, sheet.x)
    distance = wp.length(r)
    way = combined(w, q, sheet.end) - r
    if distance - wp.length(way) > sheet.radius + HALF * (sheet.thickness[q[0]] + sheet.thickness[q[1]]):
        return made
    normal = face_normal(f, sheet.x)
    if wp.dot(normal, normal) == ZERO:
        return made
    height = wp.dot(normal, r)
    if wp.abs(height) < ALIGNED * distance:
        return made
    thick = pair_thickness(w, q, q[1], sheet)
    near = distance
    if distance > TINY:
        near = distance + wp.min(wp.dot(r, way) / distance, ZERO)
    else:
        # on the triangle: it came from where it does not go
        height = -wp.dot(normal, way)
    if near > sheet.radius + thick:
        return made
    side = sheet.above[sheet.vertex_region[q[0]], sheet.face_region[pair[1]]]
    if side == 0:
        side = 1
        if height < ZERO:
            side = -1
    made.made = POINT_TRIANGLE
    made.vertices = q
    made.kind = side * TRIANGLE
    made.weights = w
    made.normal = wp.float64(side) * normal
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def edge_is_aligned(edge: int, n: wp.vec3d, sheet: Sheet) -> bool:
    """Whether a triangle at the edge makes a contact with a vertex in this direction."""
    wings = sheet.edge_faces[edge]
    found = wp.abs(wp.dot(n, face_normal(sheet.faces[wings[0]], sheet.x))) >= ALIGNED
    if wings[1] >= 0:
        found = found or wp.abs(wp.dot(n, face_normal(sheet.faces[wings[1]], sheet.x))) >= ALIGNED
    return found


@wp.func
def edge_normal(edge: int, sheet: Sheet) -> wp.vec3d:
    """The mean normal of the triangles at an edge."""
    wings = sheet.edge_faces[edge]
    n = face_normal(sheet.faces[wings[0]], sheet.x)
    if wings[1] >= 0:
        n += face_normal(sheet.faces[wings[1]], sheet.x)
    return wp.normalize(n)


@wp.func
def make_edge_edge(pair: wp.vec2i, sheet: Sheet) -> Pair:
    """Two edges; between layers the normal is that of the lower one."""
    made = Pair()
    e = sheet.edges[pair[0]]
    f = sheet.edges[pair[1]]
    q = wp.vec4i(e[0], e[1], f[0], f[1])
    st = nearest_on_edges(sheet.x[e[0]], sheet.x[e[1]], sheet.x[f[0]], sheet.x[f[1]])
    w = wp.vec4d(ONE - st[0], st[0], st[1] - ONE, -st[1])
    r = combined(w, q, sheet.x)
    distance = wp.length(r)
    way = combined(w, q, sheet.end) - r
    if distance - wp.length(way) > sheet.radius + HALF * (sheet.thickness[e[0]] + sheet.thickness[f[0]]):
        return made
    thick = pair_thickness(w, q, f[0], sheet)
    n = wp.vec3d()
    near = distance
    if distance > TINY:
        n = r / distance
        near = distance + wp.min(wp.dot(n, way), ZERO)
    if near > sheet.radius + thick:
        return made

    inside_e = st[0] > END and st[0] < ONE - END
    inside_f = st[1] > END and st[1] < ONE - END
    if not (inside_e or inside_f):
        return made
    side = ONE
    across = wp.cross(sheet.x[e[1]] - sheet.x[e[0]], sheet.x[f[1]] - sheet.x[f[0]])
    above = sheet.above[sheet.edge_region[pair[0]], sheet.edge_region[pair[1]]]
    if inside_e and inside_f:
        if above != 0:
            lower = pair[1]
            if above < 0:
                lower = pair[0]
            upward = wp.float64(above) * edge_normal(lower, sheet)
            if distance > thick and wp.abs(wp.dot(n, upward)) < ALIGNED:
                return made
            n = upward
        elif distance <= TINY:
            # they cross: apart again the way they came
            n = wp.normalize(across)
            if wp.dot(n, way) > ZERO:
                n = -n
        if wp.dot(n, across) < ZERO:
            side = -ONE
    else:
        if above != 0 or sheet.cached != 0 or distance <= TINY:
            return made
        # neighbours in the plane of the cloth: the cloth itself keeps them apart
        same = sheet.vertex_cloth[e[0]] == sheet.vertex_cloth[f[0]]
        if same and wp.length(combined(w, q, sheet.rest)) <= sheet.radius + thick:
            return made
        vertex = e[0]
        if st[0] >= ONE - END:
            vertex = e[1]
        mine = pair[0]
        other = pair[1]
        if inside_e:
            vertex = f[0]
            if st[1] >= ONE - END:
                vertex = f[1]
            mine = pair[1]
            other = pair[0]
        if sheet.first_edge[vertex] != mine or edge_is_aligned(other, n, sheet):
            return made
    made.made = EDGE_EDGE
    made.vertices = q
    made.kind = FROZEN
    if sheet.cached != 0:
        made.kind = EDGES
        if side < ZERO:
            made.kind = -EDGES
    made.weights = w
    made.normal = n
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def closest_approach(r: wp.vec3d, way: wp.vec3d) -> wp.float64:
    """The least distance of two points on straight paths, from their offset at the start and its change."""
    squared = wp.dot(way, way)
    t = ZERO
    if squared > ZERO:
        t = wp.clamp(-wp.dot(r, way) / squared, ZERO, ONE)
    return wp.length(r + t * way)


@wp.func
def make_point_point(a: int, b: int, sheet: Sheet) -> Pair:
    """Two vertices: the closest approach of their paths is exact."""
    made = Pair()
    q = wp.vec4i(a, a, b, b)
    w = wp.vec4d(ONE, ZERO, -ONE, ZERO)
    r = sheet.x[a] - sheet.x[b]
    way = (sheet.end[a] - sheet.x[a]) - (sheet.end[b] - sheet.x[b])
    thick = pair_thickness(w, q, b, sheet)
    distance = wp.length(r)
    if distance <= TINY or closest_approach(r, way) > sheet.radius + thick:
        return made
    made.made = POINT_POINT
    made.vertices = q
    made.kind = FROZEN
    made.weights = w
    made.normal = r / distance
    made.thickness = thick
    made.distance = distance
    return made


@wp.func
def make_pair(kind: int, pair: wp.vec2i, sheet: Sheet) -> Pair:
    """The contact of two features, if they make one."""
    if kind == POINT_TRIANGLE:
        return make_point_triangle(pair, sheet)
    if kind == EDGE_EDGE:
        return make_edge_edge(pair, sheet)
    return make_point_point(pair[0], pair[1], sheet)


@wp.kernel
def choose_pairs(first: int, kind: int, pairs: wp.array[wp.vec2i], sheet: Sheet, chosen: wp.array[int]):
    """Which candidates make a contact."""
    i = first + wp.tid()
    made = make_pair(kind, pairs[i], sheet)
    chosen[i] = wp.where(made.made != NONE, 1, 0)


@wp.kernel
def choose_points(
    first: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[int],
):
    """Which vertices make a contact with a vertex that the triangle owns: one bit a corner."""
    i = first + wp.tid()
    a = pairs[i][0]
    f = sheet.faces[pairs[i][1]]
    bits = int(0)
    count = int(0)
    for k in range(3):
        if a < f[k] and (sheet.owned[pairs[i][1]] >> k) & 1 != 0:
            made = make_point_point(a, f[k], sheet)
            if made.made != NONE:
                bits = bits | (1 << k)
                count += 1
    chosen[i] = count | (bits << 2)


@wp.kernel
def count_points(first: int, chosen: wp.array[int], counts: wp.array[int]):
    """How many pairs of vertices each candidate gave."""
    i = first + wp.tid()
    counts[i] = chosen[i] & 3


@wp.kernel
def list_points(
    first: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    chosen: wp.array[int],
    places: wp.array[int],
    listed: wp.array[wp.vec2i],
):
    """The pairs of vertices, one after another."""
    i = first + wp.tid()
    place = places[i]
    for k in range(3):
        if (chosen[i] >> (2 + k)) & 1 != 0:
            listed[place] = wp.vec2i(pairs[i][0], faces[pairs[i][1]][k])
            place += 1


@wp.kernel
def list_pairs(
    first: int,
    kind: int,
    pairs: wp.array[wp.vec2i],
    sheet: Sheet,
    chosen: wp.array[int],
    places: wp.array[int],
    base: int,
    listed: wp.array[wp.vec3i],
    vertices: wp.array[wp.vec4i],
):
    """The chosen candidates, one after another, with their vertices."""
    i = first + wp.tid()
    if chosen[i] != 0:
        k = base + places[i]
        pair = pairs[i]
        listed[k] = wp.vec3i(pair[0], pair[1], kind)
        if kind == POINT_TRIANGLE:
            f = sheet.faces[pair[1]]
            vertices[k] = wp.vec4i(pair[0], f[0], f[1], f[2])
        elif kind == EDGE_EDGE:
            e = sheet.edges[pair[0]]
            f2 = sheet.edges[pair[1]]
            vertices[k] = wp.vec4i(e[0], e[1], f2[0], f2[1])
        else:
            vertices[k] = wp.vec4i(pair[0], pair[0], pair[1], pair[1])


@wp.kernel
def write_contacts(
    first: int,
    order: wp.array[int],
    listed: wp.array[wp.vec3i],
    sheet: Sheet,
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
):
    """The contacts in the order in which they are solved."""
    i = first + wp.tid()
    pair = listed[order[i]]
    made = make_pair(pair[2], wp.vec2i(pair[0], pair[1]), sheet)
    q = made.vertices
    vertices[i] = q
    kinds[i] = made.kind
    weights[i] = made.weights
    normals[i] = made.normal
    thickness[i] = made.thickness
    # corners 0 and 3 are on different sides in all kinds of stencils
    a = sheet.vertex_cloth[q[0]]
    b = sheet.vertex_cloth[q[3]]
    friction[i] = wp.vec2d(sticking[a, b], sliding[a, b])


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
    ) -> None:
        surface = broad_phase.surface
        self.device = surface.device
        self.broad_phase = broad_phase
        self.inverse_mass = inverse_mass
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
        sheet.vertex_cloth = upload(regions.vertex_cloth, int)
        region = np.append(regions.face_region, 0)
        sheet.vertex_region, sheet.edge_region = upload(region[owners[0]], int), upload(region[owners[1]], int)
        sheet.face_region = upload(regions.face_region, int)
        sheet.above = wp.array(regions.above, dtype=int, ndim=2, device=self.device)
        sheet.rest, sheet.thickness = rest, thickness
        self.sheet = sheet
        self._chosen, self._places = Buffer(int, self.device), Buffer(int, self.device)
        self._counts, self._points = Buffer(int, self.device), Buffer(wp.vec2i, self.device)
        self._listed, self._vertices = Buffer(wp.vec3i, self.device), Buffer(wp.vec4i, self.device)
        self._colour, self._order = Buffer(int, self.device), Buffer(int, self.device)
        self._used = wp.zeros(max(surface.vertex_count, 1), dtype=wp.int64, device=self.device)
        self.offsets = wp.zeros(COLOURS + 2, dtype=int, device=self.device)
        """where each colour starts"""

    def find(
        self, x: wp.array, end: wp.array, radius: float, contacts: Contacts, *, points: bool, cached: bool = False
    ) -> int:
        """Replace the contacts by those of a step from x to the predicted `end`; gives their number."""
        sheet = self.sheet
        sheet.x, sheet.end = x, end
        sheet.radius, sheet.cached = wp.float64(radius), int(cached)
        self.broad_phase.update(x, end, self.largest_thickness + radius)
        candidates = self.broad_phase.feature_pairs()
        if points:
            pairs = self._list_points(candidates.vertex_triangle)
            found = self._list(int(POINT_POINT), pairs, 0)
        else:
            found = self._list(int(POINT_TRIANGLE), candidates.vertex_triangle, 0)
            found = self._list(int(EDGE_EDGE), candidates.edge_edge, found)
        contacts.grow(found)
        if found:
            self._colour_pairs(found)
            tables = [*self.friction, *contacts.arrays]
            inputs = [self._order.array, self._listed.array, sheet, *tables]
            launch(write_contacts, found, inputs, device=self.device, grain=GRAIN)
        return found

    def _list(self, kind: int, pairs: wp.array, base: int) -> int:
        """Add the candidates that make a contact to the list; gives the length of the list."""
        count = len(pairs)
        if count == 0:
            return base
        chosen, places = self._chosen.at_least(count)[:count], self._places.at_least(count)[:count]
        launch(choose_pairs, count, [kind, pairs, self.sheet, chosen], device=self.device, grain=GRAIN)
        found = _scan(chosen, places)
        if found:
            listed = self._listed.at_least(base + found, keep=base)
            vertices = self._vertices.at_least(base + found, keep=base)
            inputs = [kind, pairs, self.sheet, chosen, places, base, listed, vertices]
            launch(list_pairs, count, inputs, device=self.device, grain=GRAIN)
        return base + found

    def _list_points(self, pairs: wp.array) -> wp.array:
        """Pairs of vertices from pairs of a vertex and a triangle: each vertex has one triangle that owns it."""
        count = len(pairs)
        if count == 0:
            return pairs
        chosen, places = self._chosen.at_least(count)[:count], self._places.at_least(count)[:count]
        counts = self._counts.at_least(count)[:count]
        launch(choose_points, count, [pairs, self.sheet, chosen], device=self.device, grain=GRAIN)
        launch(count_points, count, [chosen, counts], device=self.device)
        found = _scan(counts, places)
        points = self._points.at_least(max(found, 1))[:found]
        launch(list_points, count, [pairs, self.sheet.faces, chosen, places, points], device=self.device)
        return points

    def _colour_pairs(self, count: int) -> None:
        """An order in which neighbours in the list have no vertex in common."""
        colour, order = self._colour.at_least(count), self._order.at_least(count)
        inputs = [count, self._vertices.array, self.inverse_mass, self._used, colour, self.offsets, order]
        launch(colour_stencils, 1, inputs, device=self.device)


def _scan(chosen: wp.array, places: wp.array) -> int:
    """Places of the chosen ones, and their number."""
    wp.utils.array_scan(chosen, places, inclusive=False)
    last = slice(len(chosen) - 1, None)
    return int(places[last].numpy()[0] + chosen[last].numpy()[0])


def _edge_faces(face_edges: np.ndarray, count: int) -> np.ndarray:
    """Two triangles at each edge, -1 where there is only one; of more than two, the first and the last."""
    found = np.full((count, 2), -1, np.int32)
    flat = face_edges.ravel()
    face = (np.arange(len(flat)) // 3).astype(np.int32)
    found[flat[::-1], 0] = face[::-1]
    found[flat, 1] = face
    found[found[:, 0] == found[:, 1], 1] = -1
    return found


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

# ruff: noqa: SIM110 (kernels have no generator expressions)
"""The state of pairs in a step: free, or within a tangle.

A tangle is what may pass through itself in a step: the two sides of a path of intersections, or the cloth that bodies force
and the bodies that force it (released). Each vertex has a list of the sides that it is on, of no tangle for most vertices:
2 t and 2 t + 1 are the sides of tangle t. A pair of features is within a tangle if one of its vertices is on one side and one
of the other feature's on the other side. Such pairs are left alone: they are no contacts and are not tested for collisions.
All other pairs are free, and stay free.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.attraction import has_item
from weft.contact.lists import IGNORED_DISTANCE, CandidateList, ContactArrays, ContactList, bit, candidates_in
from weft.geometry.stencil import Kind
from weft.mesh.topology import Csr, ascending
from weft.runtime import launch
from weft.world import World

wp.set_module_options({"enable_backward": False})

Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]


class TangleSides(NamedTuple):
    """Vertices on the sides of tangles: vertex and side, 2 t or 2 t + 1, of each entry."""

    vertex: Ints
    side: Ints

    @classmethod
    def join(cls, *parts: "TangleSides") -> "TangleSides":
        """All entries, with the tangles of each part numbered after those of the parts before it."""
        first, sides = 0, []
        for part in parts:
            sides.append(part.side + 2 * first)
            first += int(part.side.max(initial=-1)) // 2 + 1
        vertices = [part.vertex for part in parts]
        none = np.zeros(0, np.int64)
        return cls(np.concatenate([none, *vertices]), np.concatenate([none, *sides]))

    @classmethod
    def of(cls, one: Ints, other: Ints) -> "TangleSides":
        """A single tangle of two groups of vertices."""
        return cls(np.concatenate([one, other]), np.repeat([0, 1], [len(one), len(other)]))


# what is known of a vertex with regard to solids: nothing (or it is inside), outside of all of them, at a pinched one, outside
# beside a pinched one that nothing closes on, or a vertex of a solid
NOTHING, OUT, PINCHED, BESIDE, SOLID = (wp.constant(wp.int8(number)) for number in range(5))


@wp.struct
class PlaceArrays:
    """What is known of features with regard to solids."""

    vertices: wp.array[wp.int8]
    """NOTHING, OUT, PINCHED, BESIDE or SOLID"""
    cut_edges: wp.array[wp.int8]
    """1 for edges that pass through a triangle"""
    cut_faces: wp.array[wp.int8]
    """1 for triangles that an edge passes through"""


@wp.func
def outside(places: PlaceArrays, vertex: int) -> bool:
    """Whether a vertex of cloth is outside of all solids and stays so."""
    return places.vertices[vertex] == OUT or places.vertices[vertex] == BESIDE


@wp.func
def edge_stays_outside(places: PlaceArrays, edges: wp.array[wp.vec2i], cloth: int, solid: int) -> bool:
    """Whether an edge of cloth that is outside of all solids is guarded against an edge of a solid, tangle or not."""
    if places.vertices[edges[solid][0]] != SOLID or places.cut_edges[cloth] != wp.int8(0):
        return False
    return outside(places, edges[cloth][0]) and outside(places, edges[cloth][1])


@wp.func
def vertex_stays_outside(places: PlaceArrays, vertex: int, number: int, face: wp.vec3i) -> bool:
    """Whether a vertex and triangle `number`, one of them outside of all solids and the other of one, are guarded."""
    if outside(places, vertex):
        return places.vertices[face[0]] == SOLID
    if places.vertices[vertex] != SOLID or places.cut_faces[number] != wp.int8(0):
        return False
    for k in range(3):
        if not outside(places, face[k]):
            return False
    return True


@wp.func
def turns_outwards(placed: wp.array[wp.int8], q: wp.vec4i) -> bool:
    """Whether a pair of cloth and a solid within a tangle remains a contact, turned outwards: not where cloth is pinched."""
    solid = bool(False)
    for k in range(4):
        if placed[q[k]] == PINCHED or placed[q[k]] == BESIDE:
            return False
        if placed[q[k]] == SOLID:
            solid = True
    return solid


@wp.func
def opposite_vertices(offsets: wp.array[int], items: wp.array[int], one: int, other: int) -> bool:
    """Whether two vertices are on different sides of one tangle."""
    for k in range(offsets[one], offsets[one + 1]):
        if has_item(offsets, items, other, items[k] ^ 1):
            return True
    return False


@wp.func
def vertex_opposes_face(offsets: wp.array[int], items: wp.array[int], v: int, face: wp.vec3i) -> bool:
    """Whether a vertex and a triangle are within a tangle."""
    for k in range(3):
        if opposite_vertices(offsets, items, v, face[k]):
            return True
    return False


@wp.func
def edge_opposes_edge(offsets: wp.array[int], items: wp.array[int], one: wp.vec2i, other: wp.vec2i) -> bool:
    """Whether two edges are within a tangle."""
    for j in range(2):
        for k in range(2):
            if opposite_vertices(offsets, items, one[j], other[k]):
                return True
    return False


@wp.kernel
def ignore_tangled(
    first: int,
    of_edges: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    edges: wp.array[wp.vec2i],
    offsets: wp.array[int],
    items: wp.array[int],
    places: PlaceArrays,
    distances: wp.array[wp.float64],
    chosen: wp.array[wp.uint64],
    counts: wp.array[int],
):
    """Ignore the candidates of a batch that are within a tangle: they are no contacts, and cannot collide.

    What is outside of all solids and does not cross them stays so, whatever it belongs to. Contacts of cloth with a solid that
    it crosses remain, and are turned outwards (see `turn_outwards`).
    """
    item = first + wp.tid()
    begin = item * batch
    number = int(0)
    kept = wp.uint64(0)
    left = chosen[item]
    for k in range(candidates_in(begin, batch, pairs)):
        pair = pairs[begin + k]
        tangled = bool(False)
        # an edge that passes through a surface has no side of it, and no contact
        cut = bool(False)
        q = wp.vec4i()
        if of_edges == 1:
            e = edges[pair[0]]
            f = edges[pair[1]]
            q = wp.vec4i(e[0], e[1], f[0], f[1])
            cut = places.cut_edges[pair[0]] != wp.int8(0) or places.cut_edges[pair[1]] != wp.int8(0)
            one = edge_stays_outside(places, edges, pair[0], pair[1])
            if not one and not edge_stays_outside(places, edges, pair[1], pair[0]):
                tangled = edge_opposes_edge(offsets, items, e, f)
        else:
            t = faces[pair[1]]
            q = wp.vec4i(pair[0], t[0], t[1], t[2])
            if not vertex_stays_outside(places, pair[0], pair[1], t):
                tangled = vertex_opposes_face(offsets, items, pair[0], t)
        if tangled:
            distances[begin + k] = IGNORED_DISTANCE
        if left & bit(k) != wp.uint64(0) and (not tangled or (not cut and turns_outwards(places.vertices, q))):
            kept |= bit(k)
            number += 1
    chosen[item] = kept
    counts[item] = number


@wp.kernel
def turn_outwards(
    first: int,
    size: wp.array[int],
    contacts: ContactArrays,
    offsets: wp.array[int],
    items: wp.array[int],
    placed: wp.array[wp.int8],
    outwards: wp.array[wp.vec3d],
):
    """Turn the contacts of cloth with a solid that it crosses, so that they ask the cloth to be outside.

    A gap on the wrong side becomes negative: the contact pulls through the surface as another one repels.
    """
    i = first + wp.tid()
    if i >= size[0]:
        return
    q = contacts.vertices[i]
    w = contacts.weights[i]
    # a stencil has one or two vertices on its first side
    tangled = bool(False)
    if w[1] > wp.float64(0.0):
        tangled = edge_opposes_edge(offsets, items, wp.vec2i(q[0], q[1]), wp.vec2i(q[2], q[3]))
    elif placed[q[0]] != OUT or placed[q[3]] != SOLID:
        tangled = vertex_opposes_face(offsets, items, q[0], wp.vec3i(q[1], q[2], q[3]))
    if tangled and turns_outwards(placed, q):
        # from the solid to the cloth, and the normal points from the second side to the first
        away = wp.vec3d()
        for k in range(4):
            if placed[q[k]] == SOLID:
                away = away - w[k] * outwards[q[k]]
        if wp.dot(away, contacts.normals[i]) < wp.float64(0.0):
            contacts.normals[i] = -contacts.normals[i]
            contacts.gaps[i] = -contacts.gaps[i]


@wp.kernel
def loosen(
    first: int,
    size: wp.array[int],
    contacts: ContactArrays,
    offsets: wp.array[int],
    items: wp.array[int],
    placed: wp.array[wp.int8],
):
    """Take friction from the contacts of cloth with a solid that it crosses: it would hold the cloth where it has to leave."""
    i = first + wp.tid()
    if i >= size[0]:
        return
    q = contacts.vertices[i]
    if turns_outwards(placed, q):
        if contacts.weights[i][1] > wp.float64(0.0):
            if edge_opposes_edge(offsets, items, wp.vec2i(q[0], q[1]), wp.vec2i(q[2], q[3])):
                contacts.friction[i] = wp.vec2d()
        elif vertex_opposes_face(offsets, items, q[0], wp.vec3i(q[1], q[2], q[3])):
            contacts.friction[i] = wp.vec2d()


@wp.kernel
def find_tangled(
    first: int,
    ends: wp.array[wp.vec2i],
    faces: wp.array[wp.vec3i],
    offsets: wp.array[int],
    items: wp.array[int],
    tangled: wp.array[int],
):
    """Whether each crossing, an edge and a triangle, is within a tangle."""
    i = first + wp.tid()
    tangled[i] = 0
    for k in range(2):
        if vertex_opposes_face(offsets, items, ends[i][k], faces[i]):
            tangled[i] = 1


class Places(NamedTuple):
    """Where vertices are with regard to solids."""

    outside: Ints
    """vertices of cloth outside of all solids"""
    cut_edges: Ints
    """edges that pass through something"""
    cut_faces: Ints
    """triangles that something passes through"""
    pinched: Bools
    """(n,) pinched vertices, and those around them"""
    closing: Bools
    """(n,) those of them that solids still close on: what is outside there may be forced inside"""
    solid: Ints
    """the vertices of solids"""
    outwards: NDArray[np.float64]
    """(n, 3) their normals"""


class PairStates:
    """Which pairs are within a tangle in the current step; on the device."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._offsets = wp.zeros(world.vertex_count + 1, dtype=int, device=world.device)
        self._items = wp.zeros(1, dtype=int, device=world.device)
        self._places: Any = PlaceArrays()
        counts = {"vertices": world.vertex_count, "cut_edges": len(world.surface.edges), "cut_faces": len(world.faces)}
        for name, count in counts.items():
            setattr(self._places, name, wp.zeros(count, dtype=wp.int8, device=world.device))
        self._outwards = wp.zeros(world.vertex_count, dtype=wp.vec3d, device=world.device)
        self._turning = False
        self.any = False
        """whether there is a tangle"""

    def assign(self, sides: TangleSides, places: "Places | None") -> None:
        """Take the tangles of a step, and where vertices are with regard to solids."""
        self.any = len(sides.vertex) > 0
        if not self.any:
            return
        lists = sides_by_vertex(sides, self.world.vertex_count)
        self._offsets.assign(lists.offsets)
        self._items = wp.array(lists.items, dtype=int, device=self.world.device)
        placed = np.zeros(self.world.vertex_count, np.int8)
        self._turning = places is not None
        if places is not None:
            placed[places.outside] = int(OUT)
            beside = places.pinched & ~places.closing & (placed == int(OUT))
            placed[places.pinched], placed[beside], placed[places.solid] = int(PINCHED), int(BESIDE), int(SOLID)
            self._outwards.assign(places.outwards)
            _mark(self._places.cut_edges, places.cut_edges)
            _mark(self._places.cut_faces, places.cut_faces)
        self._places.vertices.assign(placed)

    def leave_alone(self, candidates: CandidateList) -> None:
        """Ignore the candidates that are within a tangle."""
        if not self.any or candidates.count == 0:
            return
        surface, c = self.world.surface, candidates
        inputs = [int(c.kind == Kind.EDGE_EDGE), c.batch, c.pairs, surface.faces, surface.edges]
        inputs += [self._offsets, self._items, self._places, c.distances, c.chosen, c.counts]
        c.run(ignore_tangled, inputs)

    def turn_contacts(self, contacts: ContactList) -> None:
        """Let the contacts of cloth with solids that it crosses ask it to be outside."""
        if self.any and self._turning and contacts.count:
            inputs = [contacts.size, contacts.arrays, self._offsets, self._items]
            inputs += [self._places.vertices, self._outwards]
            launch(turn_outwards, contacts.launch_bound, inputs, device=self.world.device)

    def loosen_contacts(self, contacts: ContactList) -> None:
        """Let the contacts of cloth with solids that it crosses have no friction."""
        if self.any and self._turning and contacts.count:
            inputs = [contacts.size, contacts.arrays, self._offsets, self._items, self._places.vertices]
            launch(loosen, contacts.launch_bound, inputs, device=self.world.device)

    def tangled(self, ends: Ints, faces: Ints) -> Bools:
        """(k,) whether crossings are within the tangles; `ends` (k, 2) and `faces` (k, 3) are vertices."""
        if not self.any or not len(ends):
            return np.zeros(len(ends), dtype=bool)
        device = self.world.device
        found = wp.empty(len(ends), dtype=int, device=device)
        inputs = [wp.array(np.ascontiguousarray(ends, np.int32), dtype=wp.vec2i, device=device)]
        inputs += [wp.array(np.ascontiguousarray(faces, np.int32), dtype=wp.vec3i, device=device)]
        launch(find_tangled, len(ends), [*inputs, self._offsets, self._items, found], device=device)
        return found.numpy() != 0


def _mark(flags: wp.array, chosen: Ints) -> None:
    """Set 1 for the chosen ones, 0 for all others."""
    marks = np.zeros(len(flags), np.int8)
    marks[chosen] = 1
    flags.assign(marks)


def sides_by_vertex(sides: TangleSides, count: int) -> Csr:
    """The sides that each of `count` vertices is on, each side once, ascending."""
    most = int(sides.side.max()) + 1
    keys = ascending(sides.vertex.astype(np.int64) * most + sides.side)
    rows = keys // most
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return Csr(offsets, (keys - rows * most).astype(np.int32))

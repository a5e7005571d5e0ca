"""The search for contacts on a CPU in one launch: its threads take patches in turn, and wait for each other between passes.

What it finds is what `predictive_search` finds from the lists of a broad phase, in the same order; but no pair is ever
written down that makes no contact, and Python is asked once instead of thirty times.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.detection.boxes import FARTHEST, load_box, reach, store_box, swept_box
from weft.detection.lists import LIMIT, TooManyPairs
from weft.detection.patch_search import PatchSearch
from weft.response.predictive_contacts import Contacts
from weft.response.predictive_field import (
    Field,
    enclose_blocks,
    enclose_edges,
    enclose_faces,
    find_frame,
    store_vertex,
    unite_boxes,
)
from weft.response.predictive_lanes import (
    BLOCK,
    EDGE_PLANES,
    FACE_PLANES,
    PADDING,
    find_edges,
    find_faces,
    find_row,
)
from weft.response.predictive_pairs import (
    FIRST,
    HASTE,
    SECOND,
    STRAIGHT,
    Made,
    Sheet,
    make_edge_edge,
    make_point_triangle,
)
from weft.world import get_threads, launch, together
from weft.world.together import Together, meet

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# patches that one may overlap, to begin with
ROW_ROOM = 256
# pairs that the features of a patch and of such a row may make, a patch of the row
PAIRS_A_ROW = 64
# contacts that there is room for, to begin with
CONTACTS_A_VERTEX = 2
# vertices from which on the threads of the CPU share the search
WORTH_SHARING = 2048
# what is told after a search: contacts, the most that a thread found, rows that were too short, places of no use
FOUND, MOST, SHORT, NOWHERE = (wp.constant(k) for k in range(4))


@wp.struct
class Drafts:
    """Contacts as the threads find them, each in a part of its own; where there is one thread, the contacts themselves."""

    vertices: wp.array[wp.vec4i]
    kinds: wp.array[int]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    thickness: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    triangles: wp.array[int]


@wp.struct
class Room:
    """Where threads work: rows of patches, and what they found for each patch."""

    rows: wp.array[int]
    boxes: wp.array2d[wp.float32]
    pairs: wp.array[wp.vec2i]
    begins: wp.array2d[int]
    counts: wp.array2d[int]
    """of each patch: with triangles, and of edges"""
    told: wp.array[int]


@wp.func_native(
    """
    vertices.data[i] = q;
    kinds.data[i] = (int)made[1];
    weights.data[i] = wp::vec_t<4, double>(made[2], made[3], made[4], made[5]);
    normals.data[i] = wp::vec_t<3, double>(made[6], made[7], made[8]);
    thickness.data[i] = made[9];
    triangles.data[i] = triangle;
    // corners 0 and 3 are on different sides in both kinds of stencils
    const size_t place = vertex_cloth.data[q[0]] * (sticking.strides[0] / sizeof(double)) + vertex_cloth.data[q[3]];
    friction.data[i] = wp::vec_t<2, double>(sticking.data[place], sliding.data[place]);
    """
)
def write_contact(
    i: int,
    q: wp.vec4i,
    triangle: int,
    made: Made,
    vertex_cloth: wp.array[int],
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    triangles: wp.array[int],
):
    """One contact."""
    ...


@wp.kernel
def search_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    margin: wp.float64,
    wide: wp.float64,
    farthest: wp.float32,
    with_edges: int,
    field: Field,
    sheet: Sheet,
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    row_room: int,
    pair_room: int,
    draft_room: int,
    room: Room,
    drafts: Drafts,
    contacts: Drafts,
):
    """All contacts of a step, vertices with triangles and then edges with edges, patch by patch."""
    t = first + wp.tid()
    if t == 0:
        for k in range(4):
            room.told[k] = 0
        find_frame(sheet.x, sheet.end, field.vertex_ids, field.frame)
    meet(arrivals)
    vertices = field.vertex_ids.shape[0]
    for i in range(vertices * t / threads, vertices * (t + 1) / threads):
        vertex = field.vertex_ids[i]
        box = swept_box(sheet.x[vertex], sheet.end[vertex], field.frame, HALF * margin)
        if store_vertex(i, vertex, sheet.x, sheet.end, box, farthest, field.places, field.ways, field.vertex_boxes):
            room.told[NOWHERE] = 1
    meet(arrivals)
    if room.told[NOWHERE] != 0:
        return
    for patch in range(field.patches * t / threads, field.patches * (t + 1) / threads):
        from_face = field.face_start[patch]
        to_face = field.face_start[patch + 1]
        enclose_faces(
            from_face, to_face, field.faces, field.places, field.ways, field.vertex_boxes, field.face_boxes,
            field.face_planes, field.face_middles, field.frame, field.normals,
        )  # fmt: skip
        store_box(field.patch_boxes, patch, unite_boxes(field.face_boxes, from_face, to_face))
    meet(arrivals)
    if t == 0:
        enclose_blocks(
            field.patches, field.extent, field.patch_boxes, field.block_boxes, field.group_boxes, field.slack
        )
    enclose_edges(
        field.edge_start[field.patches * t / threads], field.edge_start[field.patches * (t + 1) / threads],
        field.edges, field.wings, field.firsts, field.edge_ids, field.places, field.ways, field.normals,
        field.vertex_boxes, field.edge_boxes, field.edge_planes, field.edge_middles, field.frame,
        field.marks, sheet.marks,
    )  # fmt: skip
    meet(arrivals)

    place = t * (row_room + 16)
    begin = t * draft_room
    n = int(0)
    for patch in range(t, field.patches, threads):
        room.begins[0, patch] = begin + n
        before = n
        own = field.body[patch]
        near = find_row(
            0, field.patches, reach(load_box(field.patch_boxes, patch)), own, field.body, field.table,
            field.group_boxes, field.block_boxes, field.patch_boxes, row_room, room.rows, room.boxes, place,
        )  # fmt: skip
        if near < 0:
            room.told[SHORT] = 1
            near = 0
        pairs = find_faces(
            field.vertex_start[patch], field.vertex_start[patch + 1], wide, patch, field.cloth, field.body,
            sheet.above, field.slack, field.face_middles, field.rest_places, field.frame, field.places, field.ways,
            field.vertex_boxes, field.face_start, field.corners, field.face_boxes, field.face_planes, near, room.rows,
            room.boxes, place, pair_room, room.pairs, t * pair_room,
        )  # fmt: skip
        if pairs < 0:
            room.told[SHORT] = 1
        for k in range(pairs):
            ranks = room.pairs[t * pair_room + k]
            pair = wp.vec2i(field.vertex_ids[ranks[0]], field.face_ids[ranks[1]])
            made = make_point_triangle(pair, sheet)
            if made[0] != ZERO:
                if n < draft_room:
                    corners = sheet.faces[pair[1]]
                    q = wp.vec4i(pair[0], corners[0], corners[1], corners[2])
                    write_contact(
                        begin + n, q, pair[1], made, sheet.vertex_cloth, sticking, sliding, drafts.vertices,
                        drafts.kinds, drafts.weights, drafts.normals, drafts.thickness, drafts.friction,
                        drafts.triangles,
                    )  # fmt: skip
                n += 1
        room.counts[0, patch] = n - before
    for patch in range(t, field.patches, threads):
        room.begins[1, patch] = begin + n
        before = n
        own = field.body[patch]
        near = int(0)
        if with_edges != 0:
            near = find_row(
                patch, field.patches, reach(load_box(field.patch_boxes, patch)), own, field.body, field.table,
                field.group_boxes, field.block_boxes, field.patch_boxes, row_room, room.rows, room.boxes, place,
            )  # fmt: skip
        pairs = find_edges(
            field.edge_start[patch], field.edge_start[patch + 1], wide, HASTE * margin, STRAIGHT * STRAIGHT, patch,
            field.cloth, field.body, sheet.above, field.slack, field.edge_middles, field.edges, field.marks,
            field.rests, field.edge_start, field.edge_boxes, field.edge_planes, wp.max(near, 0), room.rows, room.boxes,
            place, pair_room, room.pairs, t * pair_room,
        )  # fmt: skip
        if pairs < 0:
            room.told[SHORT] = 1
        for k in range(pairs):
            ranks = room.pairs[t * pair_room + k]
            a = field.edge_ids[ranks[0]]
            b = field.edge_ids[ranks[1]]
            pair = wp.vec2i(wp.min(a, b), wp.max(a, b))
            made = make_edge_edge(pair, sheet)
            if made[0] != ZERO:
                if n < draft_room:
                    ends = sheet.edges[pair[0]]
                    others = sheet.edges[pair[1]]
                    q = wp.vec4i(ends[0], ends[1], others[0], others[1])
                    write_contact(
                        begin + n, q, -1, made, sheet.vertex_cloth, sticking, sliding, drafts.vertices, drafts.kinds,
                        drafts.weights, drafts.normals, drafts.thickness, drafts.friction, drafts.triangles,
                    )  # fmt: skip
                n += 1
        room.counts[1, patch] = n - before
    if threads == 1:
        room.told[FOUND] = n
        room.told[MOST] = n
        return
    meet(arrivals)
    if t == 0:
        # places of what was found for each patch, in the order of the patches
        total = int(0)
        for kind in range(2):
            for patch in range(field.patches):
                room.begins[2 + kind, patch] = total
                total += room.counts[kind, patch]
        room.told[FOUND] = total
        for k in range(threads):
            last = field.patches - 1 - (field.patches - 1 - k + threads) % threads
            if k < field.patches:
                room.told[MOST] = wp.max(room.told[MOST], room.begins[1, last] + room.counts[1, last] - k * draft_room)
    meet(arrivals)
    if room.told[MOST] > draft_room or room.told[FOUND] > contacts.kinds.shape[0]:
        return
    for patch in range(t, field.patches, threads):
        for kind in range(2):
            source = room.begins[kind, patch]
            to = room.begins[2 + kind, patch]
            for k in range(room.counts[kind, patch]):
                contacts.vertices[to + k] = drafts.vertices[source + k]
                contacts.kinds[to + k] = drafts.kinds[source + k]
                contacts.weights[to + k] = drafts.weights[source + k]
                contacts.normals[to + k] = drafts.normals[source + k]
                contacts.thickness[to + k] = drafts.thickness[source + k]
                contacts.friction[to + k] = drafts.friction[source + k]
                contacts.triangles[to + k] = drafts.triangles[source + k]


@wp.kernel
def reorder(first: int, places: wp.array[int], source: Drafts, to: Drafts):
    """Contacts to their places in an order."""
    i = first + wp.tid()
    place = places[i]
    to.vertices[place] = source.vertices[i]
    to.kinds[place] = source.kinds[i]
    to.weights[place] = source.weights[i]
    to.normals[place] = source.normals[i]
    to.thickness[place] = source.thickness[i]
    to.friction[place] = source.friction[i]
    to.triangles[place] = source.triangles[i]


class QuickSearch:
    """The features of a surface by rank, and room for what is found; both are kept between steps."""

    def __init__(self, broad_phase: PatchSearch, sheet: Any, friction: tuple[wp.array, wp.array]) -> None:
        self.broad_phase, self.sheet, self.friction = broad_phase, sheet, friction
        self.device = broad_phase.device
        self.spare = Contacts(self.device)
        """contacts of threads, or before they are in order"""
        self.field = self._make_field()
        self._vertices = len(self.field.vertex_ids)
        self.told = wp.zeros(4, dtype=int, device=self.device)
        """what the last search tells: FOUND, MOST, SHORT, NOWHERE"""
        self._told_view = self.told.numpy()
        self.alone = wp.array([0, 1, 0, 0], dtype=int, device=self.device)
        """arrivals of a single thread"""
        self._row_room = ROW_ROOM
        self._together = Together(self.device)
        self._numbers: tuple[Any, ...] = ()
        self._arrays: tuple[Any, ...] = (None, None, None, None)
        self._inputs: tuple[Any, ...] = ()

    def find(self, x: wp.array, end: wp.array, margin: float, contacts: Contacts, *, edges: bool) -> int:
        """Replace the contacts by those of a step from x to `end`; gives their number. Nothing farther than the margin."""
        while True:
            threads = get_threads() if self._vertices >= WORTH_SHARING else 1
            inputs = self.inputs_for(x, end, margin, contacts, edges=edges, threads=threads)
            self._together.launch(search_together, 1, inputs, work=together.WORTH_SHARING if threads > 1 else 1)
            if not self._grow(x, end, margin, threads, contacts):
                return self.take_count(contacts)

    def take_count(self, contacts: Contacts) -> int:
        """Have as many contacts as the last search found."""
        contacts.count = int(self._told_view[0])
        return contacts.count

    def inputs_for(
        self, x: wp.array, end: wp.array, margin: float, contacts: Contacts, *, edges: bool, threads: int
    ) -> tuple[Any, ...]:
        """All inputs of a search by so many threads: the same tuple as before where nothing changed."""
        if len(contacts.arrays[0]) < CONTACTS_A_VERTEX * self._vertices:
            contacts.grow(CONTACTS_A_VERTEX * self._vertices)
        sheet, arrays = self.sheet, (x, end, contacts.arrays[0], self.spare.arrays[0])
        numbers = margin, edges, threads, self._row_room
        if numbers != self._numbers or any(a is not b for a, b in zip(arrays, self._arrays, strict=True)):
            self._numbers, self._arrays = numbers, arrays
            sheet.x, sheet.end = x, end
            self._inputs = self._pack(margin, edges, threads, contacts)
        return self._inputs

    def _grow(self, x: wp.array, end: wp.array, margin: float, threads: int, contacts: Contacts) -> bool:
        """Make room for what was found; whether there was too little."""
        found, most, short, nowhere = self._told_view.tolist()
        if nowhere:
            # it says what is wrong
            self.broad_phase.update(x, end, margin)
        if found > LIMIT:
            raise TooManyPairs(f"{found:,} contacts of cloth with cloth: too many triangles lie in one place")
        if short:
            self._row_room *= 4
        few = found > len(contacts.arrays[0])
        if few:
            contacts.grow(2 * found)
        if threads > 1 and most * threads > len(self.spare.arrays[0]):
            self.spare.grow(2 * most * threads)
            few = True
        return bool(few or short or nowhere)

    def _pack(self, margin: float, edges: bool, threads: int, contacts: Contacts) -> tuple[Any, ...]:
        """All inputs of a search."""
        field, own = self.field, drafts_of(contacts)
        room: Any = Room()
        room.rows = wp.empty(threads * (self._row_room + PADDING), dtype=int, device=self.device)
        room.boxes = wp.empty((6, threads * (self._row_room + PADDING)), dtype=wp.float32, device=self.device)
        room.pairs = wp.empty(threads * PAIRS_A_ROW * self._row_room, dtype=wp.vec2i, device=self.device)
        room.begins = wp.empty((4, field.patches), dtype=int, device=self.device)
        room.counts = wp.empty((2, field.patches), dtype=int, device=self.device)
        room.told = self.told
        drafts = own if threads == 1 else drafts_of(self.spare)
        draft_room = len(drafts.kinds) // threads
        return (
            margin, (1.0 + 1e-9) * margin, FARTHEST, int(edges), field, self.sheet, *self.friction, self._row_room,
            PAIRS_A_ROW * self._row_room, draft_room, room, drafts, own,
        )  # fmt: skip

    def order(self, places: wp.array, source: Contacts, to: Contacts) -> None:
        """Bring contacts to their places."""
        to.grow(source.count)
        launch(reorder, source.count, [places, drafts_of(source), drafts_of(to)], device=self.device)

    def _make_field(self) -> Any:
        patches, sheet, device = self.broad_phase.patches, self.sheet, self.device
        field: Any = Field()
        count = field.patches = patches.count
        for name in ("vertex_ids", "face_ids", "edge_ids", "vertex_start", "face_start", "edge_start"):
            setattr(field, name, getattr(patches, name))
        for name in ("faces", "edges", "corners", "ends", "body"):
            setattr(field, name, getattr(patches, name))
        face_ids, edge_ids = patches.face_ids.numpy(), patches.edge_ids.numpy()
        rank = np.full(len(face_ids) + 1, -1, np.int32)
        rank[face_ids] = np.arange(len(face_ids), dtype=np.int32)
        ends = sheet.edges.numpy()[edge_ids]
        is_first = sheet.first_edge.numpy()[ends] == edge_ids[:, None]

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        def planes(numbers: int, size: int, dtype: Any) -> wp.array:
            # what is no box overlaps none
            return wp.full((numbers, size + PADDING), float("inf"), dtype=dtype, device=device)

        field.wings = upload(rank[sheet.edge_faces.numpy()[edge_ids]], wp.vec2i)
        field.firsts = upload(is_first @ np.array([int(FIRST), int(SECOND)]), int)
        rest = sheet.rest.numpy()[: self.broad_phase.surface.vertex_count]
        middles = rest[ends].mean(axis=1).T
        field.rests = wp.array(np.pad(middles, ((0, 0), (0, PADDING))), dtype=wp.float64, ndim=2, device=device)
        corner = sheet.faces.numpy()[face_ids[patches.face_start.numpy()[:-1]], 0]
        field.cloth = upload(sheet.vertex_cloth.numpy()[corner], int)
        field.table = self.broad_phase.row_pairs
        field.frame = wp.zeros(2, dtype=wp.vec3d, device=device)
        vertices, edges, faces = len(patches.vertex_ids), len(edge_ids), len(face_ids)
        field.places, field.ways = (wp.zeros(vertices, dtype=wp.vec4d, device=device) for _ in range(2))
        field.vertex_boxes = wp.zeros((vertices, 8), dtype=wp.float32, device=device)
        blocks = -(-count // int(BLOCK))
        groups = -(-blocks // int(BLOCK))
        sizes = faces, edges, int(BLOCK) * blocks, int(BLOCK) * groups, groups
        boxes = [planes(6, size, wp.float32) for size in sizes]
        field.face_boxes, field.edge_boxes, field.patch_boxes, field.block_boxes, field.group_boxes = boxes
        field.face_planes = wp.zeros((FACE_PLANES, faces + PADDING), dtype=wp.float64, device=device)
        field.edge_planes = wp.zeros((EDGE_PLANES, edges + PADDING), dtype=wp.float64, device=device)
        # at rest, from the middle of everything
        centre = 0.5 * (rest.min(axis=0) + rest.max(axis=0))
        field.extent = float(np.abs(rest - centre).max())
        corners = sheet.faces.numpy()[face_ids]
        for name, at_rest in (
            ("rest_places", rest[patches.vertex_ids.numpy()]),
            ("edge_middles", rest[ends].mean(axis=1)),
            ("face_middles", rest[corners].mean(axis=1)),
        ):
            numbers = np.zeros((3 if name == "rest_places" else 9, len(at_rest) + PADDING), np.float32)
            numbers[-3:, : len(at_rest)] = (at_rest - centre).T
            setattr(field, name, wp.array(numbers, dtype=wp.float32, ndim=2, device=device))
        field.slack = wp.zeros(1, dtype=wp.float32, device=device)
        field.normals = wp.zeros(faces, dtype=wp.vec4d, device=device)
        field.marks = wp.zeros(edges + PADDING, dtype=int, device=device)
        return field


def drafts_of(contacts: Contacts) -> Any:
    """Contacts as kernels take them."""
    drafts: Any = Drafts()
    for name, array in zip(Drafts.vars, (*contacts.arrays, contacts.triangles), strict=True):  # type: ignore[attr-defined]
        setattr(drafts, name, array)
    return drafts

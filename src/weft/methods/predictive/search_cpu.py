"""The search for contacts on a CPU in one launch.

What it finds is what `predictive_search` finds from the lists of a broad phase, in the same order; but no pair is ever
written down that makes no contact, and Python is asked once instead of thirty times.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import FARTHEST
from weft.broad_phase.lists import LIMIT, TooManyPairs
from weft.broad_phase.patch_search import PatchSearch
from weft.methods.predictive.contacts import Contacts
from weft.methods.predictive.pairs import FIRST, SECOND
from weft.methods.predictive.patch_overlaps import BLOCK
from weft.methods.predictive.search_cache import Field
from weft.methods.predictive.search_kernel import Drafts, Room, reorder, search_together
from weft.methods.predictive.simd_cull import EDGE_PLANES, FACE_PLANES, PADDING
from weft.runtime import cooperative, get_threads, launch
from weft.runtime.cooperative import CooperativeLauncher

# patches that one may overlap, to begin with
ROW_ROOM = 256
# pairs that the features of a patch and of such a row may make, a patch of the row
PAIRS_A_ROW = 64
# contacts that there is room for, to begin with
CONTACTS_A_VERTEX = 2
# vertices from which on the threads of the CPU share the search
WORTH_SHARING = 2048


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
        self._cooperative = CooperativeLauncher(self.device)
        self._numbers: tuple[Any, ...] = ()
        self._arrays: tuple[Any, ...] = (None, None, None, None)
        self._inputs: tuple[Any, ...] = ()

    def find(self, x: wp.array, end: wp.array, margin: float, contacts: Contacts, *, edges: bool) -> int:
        """Replace the contacts by those of a step from x to `end`; gives their number. Nothing farther than the margin."""
        while True:
            threads = get_threads() if self._vertices >= WORTH_SHARING else 1
            inputs = self.inputs_for(x, end, margin, contacts, edges=edges, threads=threads)
            self._cooperative.launch(
                search_together, 1, inputs, work=cooperative.MIN_PARALLEL_ITEMS if threads > 1 else 1
            )
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
        field.table = self.broad_phase.searched_bodies
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

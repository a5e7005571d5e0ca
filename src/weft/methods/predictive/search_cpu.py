"""The contact search on the CPU as one kernel, whose threads take patches of the cloth in turn.

It finds what `weft.methods.predictive.list_search` finds from the lists of a broad phase, in the same order, but writes down
no pair that makes no contact, and takes one launch instead of thirty. Patches (`weft.broad_phase.patches`) that follow each
other are neighbours, so boxes of sixteen patches, and of sixteen such blocks, take the place of a tree. Features of
overlapping patches are tested eight or sixteen at a time in vector registers; what these tests reject,
`weft.methods.predictive.contacts` would reject too.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

from typing import Any

import warp as wp

from weft.broad_phase.boxes import FARTHEST, Box, load_box, overlap_limit
from weft.broad_phase.lists import LIMIT, TooManyPairs
from weft.broad_phase.patch_search import PatchSearch
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.contacts import (
    DISPLACEMENT_RATIO,
    EDGE_EDGE,
    END,
    FIRST,
    POINT_TRIANGLE,
    SECOND,
    SHARP,
    STRAIGHT,
    MadeContact,
    SearchSurface,
    StepContactArrays,
    StepContacts,
    make_edge_edge,
    make_point_triangle,
    write_contact,
)
from weft.methods.predictive.features import NOWHERE, PADDING, Features, make_features, measure_features
from weft.methods.predictive.list_search import STEEP
from weft.methods.predictive.state import fill
from weft.runtime.cooperative import CooperativeLauncher, grid_barrier
from weft.runtime.launch import threads_now
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# the square of STRAIGHT, a little more for single precision
STRAIGHT_SINGLE = 1.002 * float(STRAIGHT) ** 2
# patches that a patch may overlap, to begin with; the room grows
OVERLAP_ROOM = 256
# pairs that the features of a patch may make, for each patch that it overlaps
PAIRS_A_PATCH = 64
# contacts that there is room for, to begin with
CONTACTS_A_VERTEX = 2
# vertices from which on the threads of the CPU share the search: below, they would wait for each other longer than it takes
WORTH_SHARING = 2048
# what a search reports besides NOWHERE: contacts, the most that a thread found, whether a list was too short
FOUND, MOST, SHORT = (wp.constant(k) for k in range(3))

_native = NativeHeader(__file__, "search_cpu.h")


@wp.struct
class SearchWork:
    """Where threads work: the patches that a patch overlaps, pairs of its features, and what was found for each patch."""

    overlapping: wp.array[int]
    boxes: wp.array2d[wp.float32]
    pairs: wp.array[wp.vec2i]
    overlap_room: int
    """overlapping patches that a thread has room for"""
    pair_room: int
    draft_room: int
    """contacts that a thread has room for"""
    begins: wp.array2d[int]
    """of each patch: where the thread put contacts with triangles, and of edges; and where they go"""
    counts: wp.array2d[int]
    """of each patch: contacts with triangles, and of edges"""
    reported: wp.array[int]


@wp.func_native(_native.body("overlapping_patches"))
def overlapping_patches(first: int, limit: Box, own: int, place: int, features: Features, work: SearchWork) -> int:
    """The patches from `first` on that a patch of body `own` overlaps, from `place` on; -1: there is no room for them."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("find_faces", STEEP=STEEP, STRAIGHT_SINGLE=STRAIGHT_SINGLE))
def find_faces(
    first: int,
    last: int,
    reach: wp.float64,
    own: int,
    near_patches: int,
    place: int,
    place_pairs: int,
    surface: SearchSurface,
    features: Features,
    work: SearchWork,
) -> int:
    """Pairs of vertices of patch `own` and triangles of the patches that it overlaps that may make a contact.

    Gives their number, or -1 if there are more than there is room for.
    """
    ...


@wp.func_native(
    PACKED_VERTEX
    + _native.body(
        "find_edges",
        STRAIGHT_SINGLE=STRAIGHT_SINGLE,
        STRAIGHT=STRAIGHT,
        DISPLACEMENT_RATIO=DISPLACEMENT_RATIO,
        FIRST=FIRST,
        SECOND=SECOND,
        SHARP=SHARP,
        END=END,
    )
)
def find_edges(
    first: int,
    last: int,
    reach: wp.float64,
    margin: wp.float64,
    own: int,
    near_patches: int,
    place: int,
    place_pairs: int,
    surface: SearchSurface,
    features: Features,
    work: SearchWork,
) -> int:
    """Pairs of edges of patch `own` with later edges of it and of overlapping patches that may make a contact.

    Gives their number, or -1 if there are more than there is room for.
    """
    ...


@wp.func
def search_patch(
    t: int,
    patch: int,
    kind: int,
    before: int,
    margin: wp.float64,
    wide: wp.float64,
    f: Features,
    surface: SearchSurface,
    work: SearchWork,
    drafts: StepContactArrays,
) -> int:
    """The contacts of one kind of a patch, written by thread t after `before` others; gives how many it has then."""
    place = t * (work.overlap_room + PADDING)
    place_pairs = t * work.pair_room
    first = wp.where(kind == EDGE_EDGE, patch, 0)
    near = overlapping_patches(first, overlap_limit(load_box(f.patch_boxes, patch)), f.body[patch], place, f, work)
    if near < 0:
        work.reported[SHORT] = 1
        near = 0
    pairs = int(0)
    if kind == EDGE_EDGE:
        pairs = find_edges(
            f.edge_start[patch],
            f.edge_start[patch + 1],
            wide,
            margin,
            patch,
            near,
            place,
            place_pairs,
            surface,
            f,
            work,
        )
    else:
        pairs = find_faces(
            f.vertex_start[patch], f.vertex_start[patch + 1], wide, patch, near, place, place_pairs, surface, f, work
        )
    if pairs < 0:
        work.reported[SHORT] = 1
    n = int(before)
    for k in range(pairs):
        ranks = work.pairs[place_pairs + k]
        pair = wp.vec2i()
        made = MadeContact()
        if kind == EDGE_EDGE:
            a = f.edge_ids[ranks[0]]
            b = f.edge_ids[ranks[1]]
            pair = wp.vec2i(wp.min(a, b), wp.max(a, b))
            made = make_edge_edge(pair, surface)
        else:
            pair = wp.vec2i(f.vertex_ids[ranks[0]], f.face_ids[ranks[1]])
            made = make_point_triangle(pair, surface)
        if made[0] != ZERO:
            if n < work.draft_room:
                write_contact(t * work.draft_room + n, kind, pair, made, surface, drafts)
            n += 1
    return n


@wp.func
def copy_contact(i: int, source: StepContactArrays, to: int, contacts: StepContactArrays):
    """Copy contact i of a list to a place in another."""
    contacts.vertices[to] = source.vertices[i]
    contacts.kinds[to] = source.kinds[i]
    contacts.weights[to] = source.weights[i]
    contacts.normals[to] = source.normals[i]
    contacts.thickness[to] = source.thickness[i]
    contacts.friction[to] = source.friction[i]
    contacts.triangles[to] = source.triangles[i]


@wp.kernel
def search_patches(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    margin: wp.float64,
    wide: wp.float64,
    farthest: wp.float32,
    with_edges: int,
    f: Features,
    surface: SearchSurface,
    work: SearchWork,
    drafts: StepContactArrays,
    contacts: StepContactArrays,
):
    """All contacts of a step, vertices with triangles and then edges with edges, patch by patch.

    With one thread drafts are the contacts themselves; else each thread has its part of the drafts, and all copy them.
    """
    t = first + wp.tid()
    measure_features(t, threads, arrivals, margin, farthest, f, surface, work.reported)
    if work.reported[NOWHERE] != 0:
        return
    n = int(0)
    for kind in range(POINT_TRIANGLE, EDGE_EDGE + with_edges):
        for patch in range(t, f.patches, threads):
            before = n
            n = search_patch(t, patch, kind, before, margin, wide, f, surface, work, drafts)
            work.begins[kind - 1, patch] = t * work.draft_room + before
            work.counts[kind - 1, patch] = n - before
    if threads == 1:
        work.reported[FOUND] = n
        work.reported[MOST] = n
        return
    # places of what was found for each patch, in the order of the patches
    work.begins[4, t] = n
    grid_barrier(arrivals)
    if t == 0:
        total = int(0)
        for kind in range(1 + with_edges):
            for patch in range(f.patches):
                work.begins[2 + kind, patch] = total
                total += work.counts[kind, patch]
        work.reported[FOUND] = total
        for k in range(threads):
            work.reported[MOST] = wp.max(work.reported[MOST], work.begins[4, k])
    grid_barrier(arrivals)
    if work.reported[MOST] > work.draft_room or work.reported[FOUND] > contacts.kinds.shape[0]:
        return
    for kind in range(1 + with_edges):
        for patch in range(t, f.patches, threads):
            for k in range(work.counts[kind, patch]):
                copy_contact(work.begins[kind, patch] + k, drafts, work.begins[2 + kind, patch] + k, contacts)


class CpuSearch:
    """The features of a surface by rank, and room for what is found; both are kept between steps."""

    def __init__(self, broad_phase: PatchSearch, surface: Any) -> None:
        self.broad_phase, self.surface = broad_phase, surface
        self.features = make_features(broad_phase, surface)
        self._vertices = len(self.features.vertex_ids)
        self._drafts = StepContacts(broad_phase.device)
        self._reported = wp.zeros(4, dtype=int, device="cpu")
        self._report_view = self._reported.numpy()
        self._overlap_room = OVERLAP_ROOM
        self._cooperative = CooperativeLauncher(broad_phase.device)
        self._known: tuple[Any, ...] = ()
        self._inputs: tuple[Any, ...] = ()

    def find(self, x: wp.array, end: wp.array, margin: float, contacts: StepContacts, *, edges: bool) -> int:
        """Replace the contacts by those of a step from x to `end`; gives their number. Nothing is farther than the margin."""
        while True:
            threads = threads_now() if self._vertices >= WORTH_SHARING else 1
            inputs = self._inputs_for(x, end, margin, contacts, edges, threads)
            self._cooperative.launch(search_patches, 1, inputs, threads=threads)
            if not self._grow(x, end, margin, threads, contacts):
                contacts.count = int(self._report_view[0])
                return contacts.count

    def _inputs_for(
        self, x: wp.array, end: wp.array, margin: float, contacts: StepContacts, edges: bool, threads: int
    ) -> tuple[Any, ...]:
        """All inputs of a search: the same tuple as before where nothing changed, which makes the launch cheap."""
        if contacts.room < CONTACTS_A_VERTEX * self._vertices:
            contacts.grow(CONTACTS_A_VERTEX * self._vertices)
        drafts = contacts.arrays if threads == 1 else self._drafts.arrays
        known = (x, end, contacts.arrays, drafts, margin, edges, threads, self._overlap_room)
        if len(known) != len(self._known) or any(
            a is not b and a != b for a, b in zip(known, self._known, strict=True)
        ):
            self._known = known
            self.surface.x, self.surface.end = x, end
            work = self._make_work(threads, len(drafts.kinds) // threads)
            wide = (1.0 + 1e-9) * margin
            self._inputs = (
                margin, wide, FARTHEST, int(edges), self.features, self.surface, work, drafts, contacts.arrays
            )  # fmt: skip
        return self._inputs

    def _grow(self, x: wp.array, end: wp.array, margin: float, threads: int, contacts: StepContacts) -> bool:
        """Make room for what was found; whether there was too little, so that the search is to be done again."""
        found, most, short, nowhere = self._report_view.tolist()
        if nowhere:
            # it raises an error that says what is wrong
            self.broad_phase.update(x, end, margin)
        if found > LIMIT:
            raise TooManyPairs(f"{found:,} contacts of cloth with cloth: too many triangles lie in one place")
        if short:
            self._overlap_room *= 4
        few = found > contacts.room
        if few:
            contacts.grow(2 * found)
        if threads > 1 and most * threads > self._drafts.room:
            self._drafts.grow(2 * most * threads)
            few = True
        return bool(few or short or nowhere)

    def _make_work(self, threads: int, draft_room: int) -> Any:
        patches, row, pairs = self.features.patches, self._overlap_room + PADDING, PAIRS_A_PATCH * self._overlap_room

        def empty(shape: Any, dtype: Any) -> wp.array:
            return wp.empty(shape, dtype=dtype, device="cpu")

        return fill(
            SearchWork,
            overlapping=empty(threads * row, int),
            boxes=empty((6, threads * row), wp.float32),
            pairs=empty(threads * pairs, wp.vec2i),
            overlap_room=self._overlap_room,
            pair_room=pairs,
            draft_room=draft_room,
            begins=empty((5, max(patches, threads)), int),
            counts=empty((2, patches), int),
            reported=self._reported,
        )

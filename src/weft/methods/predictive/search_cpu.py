"""The contact search on the CPU as one kernel, whose threads take patches of the cloth in turn.

It finds what `weft.methods.predictive.list_search` finds from the lists of a broad phase, in the same order, but writes down
no pair that makes no contact, and takes one launch instead of thirty. Patches (`weft.broad_phase.patches`) that follow each
other are neighbours, so boxes of sixteen patches, and of sixteen such blocks, take the place of a tree. Features of
overlapping patches are tested eight or sixteen at a time in vector registers; what these tests reject,
`weft.methods.predictive.contacts` would reject too.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import FARTHEST, FRAME_SAMPLES, Box, load_box, overlap_limit, store_box, swept_box, unite
from weft.broad_phase.lists import LIMIT, TooManyPairs
from weft.broad_phase.patch_search import PatchSearch
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.contacts import (
    ALIGNED,
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
from weft.methods.predictive.list_search import STEEP
from weft.methods.predictive.state import fill
from weft.runtime.cooperative import CooperativeLauncher, grid_barrier
from weft.runtime.launch import threads_now
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
# patches a block and blocks a group: what vector registers compare at a time
BLOCK = wp.constant(16)
# planes are padded by so many items, so that reading eight or sixteen at the end is harmless
PADDING = 16
# numbers of a triangle: first corner, both sides from it, mean displacement and the radius of a ball around those of its
# corners
FACE_PLANES = 13
# numbers of an edge: first end, vector to the other, mean displacement, radius, half the difference of its ends' displacements
EDGE_PLANES = 13
# a distance of two middles in single precision is off by less than a twentieth of this share of the extent
ROUNDING = wp.constant(wp.float32(2.0e-5))
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
# what a search reports: contacts, the most that a thread found, whether a list was too short, whether a vertex is not finite or
# far away
FOUND, MOST, SHORT, NOWHERE = (wp.constant(k) for k in range(4))

_native = NativeHeader(__file__, "search_cpu.h")


@wp.struct
class Features:
    """Vertices, triangles and edges by rank, patch by patch; arrays from `frame` on are written anew in each search."""

    patches: int
    extent: wp.float32
    """largest distance of a vertex at rest from the middle of all"""
    vertex_ids: wp.array[int]
    face_ids: wp.array[int]
    edge_ids: wp.array[int]
    vertex_start: wp.array[int]
    face_start: wp.array[int]
    edge_start: wp.array[int]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    corners: wp.array2d[int]
    wings: wp.array[wp.vec2i]
    """the triangles at each edge, -1 for none"""
    firsts: wp.array[int]
    """the marks of each edge besides SHARP"""
    rests: wp.array2d[wp.float64]
    """middles of the edges at rest"""
    body: wp.array[int]
    """of each patch"""
    cloth: wp.array[int]
    table: wp.array2d[int]
    """which bodies collide"""
    frame: wp.array[wp.vec3d]
    places: wp.array[wp.vec4d]
    ways: wp.array[wp.vec4d]
    vertex_boxes: wp.array2d[wp.float32]
    """eight numbers a vertex: a box and two zeros"""
    face_boxes: wp.array2d[wp.float32]
    edge_boxes: wp.array2d[wp.float32]
    patch_boxes: wp.array2d[wp.float32]
    block_boxes: wp.array2d[wp.float32]
    group_boxes: wp.array2d[wp.float32]
    face_planes: wp.array2d[wp.float64]
    edge_planes: wp.array2d[wp.float64]
    normals: wp.array[wp.vec4d]
    """of the triangles, and their squared lengths"""
    marks: wp.array[int]
    face_middles: wp.array2d[wp.float32]
    """at the start, at the end and at rest"""
    edge_middles: wp.array2d[wp.float32]
    rest_places: wp.array2d[wp.float32]
    slack: wp.array[wp.float32]
    """upper bound of the square of the error of a distance of middles"""


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


@wp.func_native(_native.body("find_frame", SAMPLES=FRAME_SAMPLES))
def find_frame(surface: SearchSurface, features: Features):
    """The frame of reference of the boxes, as `weft.broad_phase.boxes` has it: a mean position and displacement."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("store_vertex"))
def store_vertex(
    i: int, vertex: int, box: Box, farthest: wp.float32, surface: SearchSurface, features: Features
) -> bool:
    """Position, displacement and box of a vertex of rank i; gives whether it is not finite or farther than the farthest."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("measure_faces"))
def measure_faces(first: int, last: int, features: Features):
    """Boxes and numbers of triangles, and their normals with the square of their lengths."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("measure_edges", ALIGNED=ALIGNED, SHARP=SHARP))
def measure_edges(first: int, last: int, surface: SearchSurface, features: Features):
    """Boxes, numbers and marks of edges."""
    ...


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
def unite_boxes(boxes: wp.array2d[wp.float32], begin: int, end: int) -> Box:
    """The box of boxes begin..end-1."""
    whole = load_box(boxes, begin)
    for i in range(begin + 1, end):
        whole = unite(whole, load_box(boxes, i))
    return whole


@wp.func
def measure_blocks(f: Features):
    """Boxes of blocks of patches, and of groups of blocks; and the error of distances of middles."""
    blocks = (f.patches + BLOCK - 1) / BLOCK
    for i in range(blocks):
        store_box(f.block_boxes, i, unite_boxes(f.patch_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, f.patches)))
    # rounding is a share of the extent at most, at rest too
    extent = f.extent
    for i in range((blocks + BLOCK - 1) / BLOCK):
        store_box(f.group_boxes, i, unite_boxes(f.block_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, blocks)))
        for k in range(6):
            extent = wp.max(extent, wp.abs(f.group_boxes[k, i]))
    off = ROUNDING * extent
    f.slack[0] = off * off


@wp.func
def measure_features(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    margin: wp.float64,
    farthest: wp.float32,
    f: Features,
    surface: SearchSurface,
    work: SearchWork,
):
    """Boxes and numbers of all features and patches, by all threads."""
    if t == 0:
        for k in range(4):
            work.reported[k] = 0
        find_frame(surface, f)
    grid_barrier(arrivals)
    vertices = f.vertex_ids.shape[0]
    for i in range(vertices * t / threads, vertices * (t + 1) / threads):
        vertex = f.vertex_ids[i]
        box = swept_box(surface.x[vertex], surface.end[vertex], f.frame, HALF * margin)
        if store_vertex(i, vertex, box, farthest, surface, f):
            work.reported[NOWHERE] = 1
    grid_barrier(arrivals)
    begin = f.patches * t / threads
    end = f.patches * (t + 1) / threads
    for patch in range(begin, end):
        measure_faces(f.face_start[patch], f.face_start[patch + 1], f)
        store_box(f.patch_boxes, patch, unite_boxes(f.face_boxes, f.face_start[patch], f.face_start[patch + 1]))
    grid_barrier(arrivals)
    if t == 0:
        measure_blocks(f)
    measure_edges(f.edge_start[begin], f.edge_start[end], surface, f)
    grid_barrier(arrivals)


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
    measure_features(t, threads, arrivals, margin, farthest, f, surface, work)
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
        self.features = _make_features(broad_phase, surface)
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


def _make_features(broad_phase: PatchSearch, surface: Any) -> Any:
    """The features of a surface by rank."""
    patches = broad_phase.patches
    names = ("vertex_ids", "face_ids", "edge_ids", "vertex_start", "face_start", "edge_start")
    names += ("faces", "edges", "corners", "body")
    values = {name: getattr(patches, name) for name in names}
    vertex_ids, face_ids, edge_ids = (
        array.numpy() for array in (patches.vertex_ids, patches.face_ids, patches.edge_ids)
    )
    rank = np.full(len(face_ids) + 1, -1, np.int32)
    rank[face_ids] = np.arange(len(face_ids), dtype=np.int32)
    ends, corners = surface.edges.numpy()[edge_ids], surface.faces.numpy()[face_ids]
    is_first = surface.first_edge.numpy()[ends] == edge_ids[:, None]
    rest = surface.rest.numpy()[: broad_phase.surface.vertex_count]
    # at rest, from the middle of everything
    centre = 0.5 * (rest.min(axis=0) + rest.max(axis=0))

    def upload(values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device="cpu")

    def zeros(shape: Any, dtype: Any) -> wp.array:
        return wp.zeros(shape, dtype=dtype, device="cpu")

    def boxes(size: int) -> wp.array:
        # what is no box overlaps none
        return wp.full((6, size + PADDING), float("inf"), dtype=wp.float32, device="cpu")

    def planes(at_rest: np.ndarray, numbers: int) -> wp.array:
        found = np.zeros((numbers, len(at_rest) + PADDING), np.float32)
        found[-3:, : len(at_rest)] = (at_rest - centre).T
        return wp.array(found, dtype=wp.float32, ndim=2, device="cpu")

    middles = rest[ends].mean(axis=1)
    first_corner = corners[patches.face_start.numpy()[:-1], 0]
    vertices, edges, faces = len(vertex_ids), len(edge_ids), len(face_ids)
    blocks = -(-patches.count // int(BLOCK))
    groups = -(-blocks // int(BLOCK))
    return fill(
        Features,
        patches=patches.count,
        extent=float(np.abs(rest - centre).max()),
        wings=upload(rank[surface.edge_faces.numpy()[edge_ids]], wp.vec2i),
        firsts=upload(is_first @ np.array([int(FIRST), int(SECOND)]), int),
        rests=wp.array(np.pad(middles.T, ((0, 0), (0, PADDING))), dtype=wp.float64, ndim=2, device="cpu"),
        cloth=upload(surface.vertex_cloth.numpy()[first_corner], int),
        table=broad_phase.searched_bodies,
        frame=zeros(2, wp.vec3d),
        places=zeros(vertices, wp.vec4d),
        ways=zeros(vertices, wp.vec4d),
        vertex_boxes=zeros((vertices, 8), wp.float32),
        face_boxes=boxes(faces),
        edge_boxes=boxes(edges),
        patch_boxes=boxes(int(BLOCK) * blocks),
        block_boxes=boxes(int(BLOCK) * groups),
        group_boxes=boxes(groups),
        face_planes=zeros((FACE_PLANES, faces + PADDING), wp.float64),
        edge_planes=zeros((EDGE_PLANES, edges + PADDING), wp.float64),
        normals=zeros(faces, wp.vec4d),
        marks=zeros(edges + PADDING, int),
        face_middles=planes(rest[corners].mean(axis=1), 9),
        edge_middles=planes(middles, 9),
        rest_places=planes(rest[vertex_ids], 3),
        slack=zeros(1, wp.float32),
        **values,
    )

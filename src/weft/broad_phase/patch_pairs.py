"""Kernels that compare the features of patches whose boxes overlap, which all exact broad phases share.

Each query is a patch (on CUDA a fraction of one) with the ascending list of the patches whose boxes overlap its box. A kernel
walks the features of the patch in order of rank and, for each, the features of the overlapping patches in order of rank. So
the pairs come out sorted by (rank, rank), however the overlapping patches were found and however large patches are.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.broad_phase.boxes import (
    LANES,
    Box,
    BoxPlanes,
    load_box,
    lowest_bit,
    overlap_limit,
    overlap_mask_by_lanes,
    query_of_thread,
    store_box,
)
from weft.broad_phase.list_kernels import Queries, first_slot, query_of_item, slot_count
from weft.broad_phase.patches import PatchArrays
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# which index of a pair comes first: that of the query's feature, the smaller one, that of the partner
QUERY_FIRST, SMALLER_FIRST, PARTNER_FIRST = (wp.constant(k) for k in range(3))

_native = NativeHeader(__file__, "box_masks.h")


@wp.struct
class PatchOverlaps:
    """For each query the patches whose boxes overlap that of its patch, ascending."""

    offsets: wp.array[wp.int64]
    """(queries + 1,) where the patches of each query begin"""
    patches: wp.array[int]
    boxes: wp.array2d[wp.float32]
    """their boxes, copied side by side so that 64 of them are compared in one go"""


@wp.func_native(_native.body("faces_apart", LANES=LANES))
def faces_apart(
    planes: wp.array2d[wp.float32], corners: wp.array2d[int], begin: int, count: int, limit: Box, a: int
) -> wp.uint64:
    """The mask of `overlap_mask_by_lanes`, without triangles that have the vertex a."""


@wp.func_native(_native.body("edges_apart", LANES=LANES))
def edges_apart(
    planes: wp.array2d[wp.float32], ends: wp.array2d[int], begin: int, count: int, limit: Box, a: int, b: int
) -> wp.uint64:
    """The mask of `overlap_mask_by_lanes`, without edges that have the vertex a or b."""


@wp.func_native(_native.body("triangles_apart", LANES=LANES))
def triangles_apart(
    planes: wp.array2d[wp.float32],
    corners: wp.array2d[int],
    begin: int,
    count: int,
    limit: Box,
    face: wp.vec3i,
    neighbours: int,
) -> wp.uint64:
    """The mask of `overlap_mask_by_lanes`; without `neighbours` (0), triangles that have a vertex of a face are left out."""


@wp.func_native(
    _native.body("append_pairs", LANES=LANES, SMALLER_FIRST=int(SMALLER_FIRST), PARTNER_FIRST=int(PARTNER_FIRST))
)
def append_pairs(
    found: wp.array[wp.vec2i],
    start: wp.int64,
    n: int,
    room: int,
    mask: wp.uint64,
    id: int,
    ids: wp.array[int],
    begin: int,
    order: int,
) -> int:
    """Write the pairs (id, ids[begin + k]) for the bits k of the mask behind the n pairs of a query, as far as there is room.

    `start` is the query's first slot. Gives the new number of pairs, whether there was room for them or not.
    """


@wp.func
def patch_of_query(query: int, selected_patches: wp.array[int]) -> int:
    """The patch of a query: one of the selected ones, or where none are selected the one of the same number."""
    patch = query
    if selected_patches.shape[0] > 0:
        patch = selected_patches[query]
    return patch


@wp.func
def first_feature(starts: wp.array[int], query: int, queries_per_patch: int) -> int:
    """Where the features of a query begin: the features of a patch are divided evenly among consecutive queries."""
    patch = query // queries_per_patch
    begin = starts[patch]
    place = int(begin)
    if query % queries_per_patch > 0:
        place += (starts[patch + 1] - begin) * (query % queries_per_patch) // queries_per_patch
    return place


@wp.func
def first_not_below(overlaps: PatchOverlaps, patch: int) -> int:
    """Where the overlapping patches of a patch reach the patch itself: pairs of like features are found from the lower rank."""
    place = int(overlaps.offsets[patch])
    end = int(overlaps.offsets[patch + 1])
    while place < end:
        middle = (place + end) // 2
        if overlaps.patches[middle] < patch:
            place = middle + 1
        else:
            end = middle
    return place


@wp.func
def first_passive(overlaps: PatchOverlaps, patch: int, body: wp.array[int], passive: wp.array[int]) -> int:
    """Where the overlapping patches of passive bodies begin: these bodies come last."""
    place = int(overlaps.offsets[patch])
    end = int(overlaps.offsets[patch + 1])
    while place < end:
        middle = (place + end) // 2
        if passive[body[overlaps.patches[middle]]] == 0:
            place = middle + 1
        else:
            end = middle
    return place


@wp.kernel
def gather_overlap_boxes(first: int, queries: int, patch_boxes: wp.array2d[wp.float32], overlaps: PatchOverlaps):
    """Copy the boxes of the overlapping patches of so many queries side by side."""
    i = first + wp.tid()
    if wp.int64(i) < overlaps.offsets[queries]:
        store_box(overlaps.boxes, i, load_box(patch_boxes, overlaps.patches[i]))


@wp.kernel
def find_vertex_triangle(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    queries_per_patch: int,
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
):
    """The vertices of a patch with the triangles of the overlapping patches."""
    query = query_of_item(queries, query_of_thread(first + wp.tid()))
    patch = query // queries_per_patch
    start = first_slot(queries, query)
    room = slot_count(queries, query)
    overlap_end = int(overlaps.offsets[patch + 1])
    begin_v = first_feature(patches.vertex_start, query, queries_per_patch)
    end_v = first_feature(patches.vertex_start, query + 1, queries_per_patch)
    n = int(0)
    for v in range(begin_v, end_v):
        limit = overlap_limit(load_box(boxes.vertices, v))
        id = patches.vertex_ids[v]
        for r in range(int(overlaps.offsets[patch]), overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = patches.face_start[other]
                count = patches.face_start[other + 1] - begin
                hits = faces_apart(boxes.faces, patches.corners, begin, count, limit, v)
                n = append_pairs(found, start, n, room, hits, id, patches.face_ids, begin, QUERY_FIRST)
        if n > queries.stop:
            break
    queries.counts[query] = n


@wp.kernel
def find_triangle_vertex(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    queries_per_patch: int,
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
    passive: wp.array[int],
):
    """The triangles of a patch with the vertices of overlapping patches of passive bodies, which do not search themselves."""
    query = query_of_item(queries, query_of_thread(first + wp.tid()))
    patch = query // queries_per_patch
    start = first_slot(queries, query)
    room = slot_count(queries, query)
    overlap_begin = first_passive(overlaps, patch, patches.body, passive)
    overlap_end = int(overlaps.offsets[patch + 1])
    begin_f = first_feature(patches.face_start, query, queries_per_patch)
    end_f = first_feature(patches.face_start, query + 1, queries_per_patch)
    n = int(0)
    for f in range(begin_f, end_f):
        limit = overlap_limit(load_box(boxes.faces, f))
        id = patches.face_ids[f]
        for r in range(overlap_begin, overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = patches.vertex_start[other]
                hits = overlap_mask_by_lanes(boxes.vertices, begin, patches.vertex_start[other + 1] - begin, limit)
                n = append_pairs(found, start, n, room, hits, id, patches.vertex_ids, begin, PARTNER_FIRST)
        if n > queries.stop:
            break
    queries.counts[query] = n


@wp.kernel
def find_edge_edge(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    queries_per_patch: int,
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
):
    """The edges of a patch with each other and with those of later overlapping patches."""
    query = query_of_item(queries, query_of_thread(first + wp.tid()))
    patch = query // queries_per_patch
    start = first_slot(queries, query)
    room = slot_count(queries, query)
    overlap_begin = first_not_below(overlaps, patch)
    overlap_end = int(overlaps.offsets[patch + 1])
    begin_e = first_feature(patches.edge_start, query, queries_per_patch)
    end_e = first_feature(patches.edge_start, query + 1, queries_per_patch)
    n = int(0)
    for e in range(begin_e, end_e):
        limit = overlap_limit(load_box(boxes.edges, e))
        a = patches.ends[0, e]
        b = patches.ends[1, e]
        id = patches.edge_ids[e]
        for r in range(overlap_begin, overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = wp.max(e + 1, patches.edge_start[other])
                hits = edges_apart(boxes.edges, patches.ends, begin, patches.edge_start[other + 1] - begin, limit, a, b)
                n = append_pairs(found, start, n, room, hits, id, patches.edge_ids, begin, SMALLER_FIRST)
        if n > queries.stop:
            break
    queries.counts[query] = n


@wp.kernel
def find_triangles(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    queries_per_patch: int,
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
    with_shared_vertex: int,
):
    """The triangles of a patch with each other and with those of later overlapping patches."""
    query = query_of_item(queries, query_of_thread(first + wp.tid()))
    patch = query // queries_per_patch
    start = first_slot(queries, query)
    room = slot_count(queries, query)
    overlap_begin = first_not_below(overlaps, patch)
    overlap_end = int(overlaps.offsets[patch + 1])
    begin_f = first_feature(patches.face_start, query, queries_per_patch)
    end_f = first_feature(patches.face_start, query + 1, queries_per_patch)
    n = int(0)
    for f in range(begin_f, end_f):
        limit = overlap_limit(load_box(boxes.faces, f))
        face = patches.faces[f]
        id = patches.face_ids[f]
        for r in range(overlap_begin, overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = wp.max(f + 1, patches.face_start[other])
                count = patches.face_start[other + 1] - begin
                hits = triangles_apart(boxes.faces, patches.corners, begin, count, limit, face, with_shared_vertex)
                n = append_pairs(found, start, n, room, hits, id, patches.face_ids, begin, SMALLER_FIRST)
        if n > queries.stop:
            break
    queries.counts[query] = n

"""Kernels for escaped vertices: the few that leave the boxes in which the pairs of a step were searched.

Their boxes are enlarged, and only pairs with an escaped vertex are listed again. A patch is *marked* if it has an escaped
vertex; only marked patches are queries. A pair of two marked patches is found from one of them alone.
"""

import warp as wp

from weft.broad_phase.boxes import (
    BoxPlanes,
    is_first_lane,
    load_box,
    lowest_bit,
    overlap_limit,
    overlap_mask_by_lanes,
    query_of_thread,
    store_box,
    swept_box,
    unite,
)
from weft.broad_phase.list_kernels import Queries, first_slot, query_of_item
from weft.broad_phase.patch_pairs import PatchOverlaps, edges_apart, faces_apart
from weft.broad_phase.patches import PatchArrays

wp.set_module_options({"enable_backward": False})


@wp.struct
class Marks:
    """Which vertices (by rank) escaped, and the patches that have such a vertex."""

    vertices: wp.array[int]
    """1: escaped"""
    patches: wp.array[int]
    """1: marked"""
    queries: wp.array[int]
    """the marked patches, ascending"""


@wp.kernel
def enlarge_boxes(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    escaped: wp.array[int],
    vertex_ids: wp.array[int],
    frame: wp.array[wp.vec3d],
    growth: wp.float64,
    boxes: wp.array2d[wp.float32],
    marks: Marks,
):
    """Make the boxes of escaped vertices hold their motion to `end` too, and mark these vertices by rank."""
    i = first + wp.tid()
    vertex = vertex_ids[i]
    marks.vertices[i] = escaped[vertex]
    if escaped[vertex] != 0:
        motion = swept_box(start[vertex], end[vertex], frame, growth)
        store_box(boxes, i, unite(load_box(boxes, i), motion))


@wp.func
def face_escaped(face: wp.vec3i, escaped: wp.array[int]) -> bool:
    """Whether a corner of a triangle escaped."""
    return escaped[face[0]] + escaped[face[1]] + escaped[face[2]] != 0


@wp.kernel
def mark_patches(first: int, patches: PatchArrays, marks: Marks):
    """Mark the patches with a triangle that has an escaped corner."""
    patch = first + wp.tid()
    found = int(0)
    for f in range(patches.face_start[patch], patches.face_start[patch + 1]):
        if face_escaped(patches.faces[f], marks.vertices):
            found = 1
    marks.patches[patch] = found


@wp.kernel
def list_marked(first: int, places: wp.array[int], marks: Marks):
    """List the marked patches, given the place of each among them."""
    patch = first + wp.tid()
    if marks.patches[patch] != 0:
        marks.queries[places[patch]] = patch


@wp.func
def add_pair(thread: int, found: wp.array[wp.vec2i], start: wp.int64, n: int, capacity: int, pair: wp.vec2i) -> int:
    """Write a pair behind the n pairs of a query if it has a slot for it; gives n + 1."""
    if n < capacity and is_first_lane(thread):
        found[start + wp.int64(n)] = pair
    return n + 1


@wp.kernel
def find_escaped_vertex_triangle(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
    marks: Marks,
):
    """Pairs of a vertex and a triangle of which one escaped and one is in the marked patch."""
    thread = first + wp.tid()
    query = query_of_item(queries, query_of_thread(thread))
    patch = marks.queries[query]
    start = first_slot(queries, query)
    overlap_begin = int(overlaps.offsets[query])
    overlap_end = int(overlaps.offsets[query + 1])
    n = int(0)
    # vertices of this patch with triangles of all overlapping ones
    for v in range(patches.vertex_start[patch], patches.vertex_start[patch + 1]):
        limit = overlap_limit(load_box(boxes.vertices, v))
        escaped = marks.vertices[v]
        for r in range(overlap_begin, overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                if escaped + marks.patches[other] != 0:
                    begin = patches.face_start[other]
                    count = patches.face_start[other + 1] - begin
                    hits = faces_apart(boxes.faces, patches.corners, begin, count, limit, v)
                    while hits != wp.uint64(0):
                        f = begin + lowest_bit(hits)
                        hits &= hits - wp.uint64(1)
                        if escaped != 0 or face_escaped(patches.faces[f], marks.vertices):
                            pair = wp.vec2i(patches.vertex_ids[v], patches.face_ids[f])
                            n = add_pair(thread, found, start, n, queries.capacity, pair)
    # triangles of this patch with vertices of overlapping patches that are not marked and so no queries
    for f in range(patches.face_start[patch], patches.face_start[patch + 1]):
        face = patches.faces[f]
        if face_escaped(face, marks.vertices):
            limit = overlap_limit(load_box(boxes.faces, f))
            for r in range(overlap_begin, overlap_end, 64):
                near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
                while near != wp.uint64(0):
                    other = overlaps.patches[r + lowest_bit(near)]
                    near &= near - wp.uint64(1)
                    if marks.patches[other] == 0:
                        begin = patches.vertex_start[other]
                        count = patches.vertex_start[other + 1] - begin
                        hits = overlap_mask_by_lanes(boxes.vertices, begin, count, limit)
                        while hits != wp.uint64(0):
                            v = begin + lowest_bit(hits)
                            hits &= hits - wp.uint64(1)
                            if face[0] != v and face[1] != v and face[2] != v:
                                pair = wp.vec2i(patches.vertex_ids[v], patches.face_ids[f])
                                n = add_pair(thread, found, start, n, queries.capacity, pair)
    queries.counts[query] = n


@wp.kernel
def find_escaped_edge_edge(
    first: int,
    queries: Queries,
    found: wp.array[wp.vec2i],
    overlaps: PatchOverlaps,
    patches: PatchArrays,
    boxes: BoxPlanes,
    marks: Marks,
):
    """Pairs of edges of which one has an escaped end and one is in the marked patch."""
    thread = first + wp.tid()
    query = query_of_item(queries, query_of_thread(thread))
    patch = marks.queries[query]
    start = first_slot(queries, query)
    overlap_end = int(overlaps.offsets[query + 1])
    n = int(0)
    for e in range(patches.edge_start[patch], patches.edge_start[patch + 1]):
        limit = overlap_limit(load_box(boxes.edges, e))
        a = patches.ends[0, e]
        b = patches.ends[1, e]
        id = patches.edge_ids[e]
        escaped = marks.vertices[a] + marks.vertices[b] != 0
        for r in range(int(overlaps.offsets[query]), overlap_end, 64):
            near = overlap_mask_by_lanes(overlaps.boxes, r, wp.min(64, overlap_end - r), limit)
            while near != wp.uint64(0):
                other = overlaps.patches[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = patches.edge_start[other]
                end = patches.edge_start[other + 1]
                if marks.patches[other] != 0:
                    # both patches are queries: the pair is found from its lower rank
                    begin = wp.max(e + 1, begin)
                elif not escaped:
                    end = begin
                if begin < end:
                    hits = edges_apart(boxes.edges, patches.ends, begin, end - begin, limit, a, b)
                    while hits != wp.uint64(0):
                        f = begin + lowest_bit(hits)
                        hits &= hits - wp.uint64(1)
                        if escaped or marks.vertices[patches.ends[0, f]] + marks.vertices[patches.ends[1, f]] != 0:
                            other_id = patches.edge_ids[f]
                            pair = wp.vec2i(wp.min(id, other_id), wp.max(id, other_id))
                            n = add_pair(thread, found, start, n, queries.capacity, pair)
    queries.counts[query] = n

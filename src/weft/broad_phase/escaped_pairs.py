"""Pairs of escaped: the few features that left the boxes in which pairs were looked for.

Only patches with a stray are compared with the patches around them, and have rows of these; only pairs with a stray are
listed. A pair without a direction, and a pair of two patches that both have escaped, is found from one of them only.
"""

import warp as wp

from weft.broad_phase.boxes import (
    leeway_of,
    load_box,
    lowest_bit,
    reach,
    shared_item,
    shared_mask,
    store_box,
    swept_box,
    unite,
    writes,
)
from weft.broad_phase.list_kernels import row_start
from weft.broad_phase.patch_pairs import edges_apart, faces_apart

wp.set_module_options({"enable_backward": False})


@wp.kernel
def grow_escaped(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    strayed: wp.array[int],
    vertex_ids: wp.array[int],
    frame: wp.array[wp.vec3d],
    growth: wp.float64,
    adaptive_margin: wp.array[wp.float64],
    boxes: wp.array2d[wp.float32],
    marked: wp.array[int],
):
    """Make the boxes of strayed vertices hold the way to `end` too; `marked` holds the escaped by rank."""
    i = first + wp.tid()
    vertex = vertex_ids[i]
    marked[i] = strayed[vertex]
    if strayed[vertex] != 0:
        way = swept_box(start[vertex], end[vertex], frame, growth + leeway_of(vertex, adaptive_margin))
        store_box(boxes, i, unite(load_box(boxes, i), way))


@wp.func
def face_marked(face: wp.vec3i, marked: wp.array[int]) -> bool:
    """Whether a corner of a triangle is marked."""
    return marked[face[0]] + marked[face[1]] + marked[face[2]] != 0


@wp.kernel
def mark_patches(
    first: int,
    face_start: wp.array[int],
    faces: wp.array[wp.vec3i],
    marked: wp.array[int],
    patches_marked: wp.array[int],
):
    """Whether any triangle of a patch has a strayed corner."""
    patch = first + wp.tid()
    found = int(0)
    for f in range(face_start[patch], face_start[patch + 1]):
        if face_marked(faces[f], marked):
            found = 1
    patches_marked[patch] = found


@wp.kernel
def list_marked(first: int, patches_marked: wp.array[int], places: wp.array[int], items: wp.array[int]):
    """The marked patches in their order."""
    patch = first + wp.tid()
    if patches_marked[patch] != 0:
        items[places[patch]] = patch


@wp.func
def add_pair(thread: int, found: wp.array[wp.vec2i], start: wp.int64, n: int, capacity: int, pair: wp.vec2i) -> int:
    """Write a pair where there is room; gives the new length, with or without room."""
    if n < capacity and writes(thread):
        found[start + wp.int64(n)] = pair
    return n + 1


@wp.kernel
def find_escaped_vertex_triangle(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    marked_patches: wp.array[int],
    patches_marked: wp.array[int],
    marked: wp.array[int],
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    vertex_start: wp.array[int],
    vertex_boxes: wp.array2d[wp.float32],
    vertex_ids: wp.array[int],
    face_start: wp.array[int],
    face_boxes: wp.array2d[wp.float32],
    faces: wp.array[wp.vec3i],
    corners: wp.array2d[int],
    face_ids: wp.array[int],
):
    """The vertices of a patch with the triangles of its row, where one of the two is marked."""
    thread = first + wp.tid()
    i = shared_item(thread)
    query = i
    if chosen == 1:
        query = items[i]
    patch = marked_patches[query]
    start = row_start(chosen, query, starts, capacity)
    row_begin = int(row_offsets[query])
    row_end = int(row_offsets[query + 1])
    n = int(0)
    # vertices of this patch and triangles of any
    for v in range(vertex_start[patch], vertex_start[patch + 1]):
        limit = reach(load_box(vertex_boxes, v))
        for r in range(row_begin, row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                if marked[v] + patches_marked[other] != 0:
                    begin = face_start[other]
                    hits = faces_apart(face_boxes, corners, begin, face_start[other + 1] - begin, limit, v)
                    while hits != wp.uint64(0):
                        f = begin + lowest_bit(hits)
                        hits &= hits - wp.uint64(1)
                        if marked[v] != 0 or face_marked(faces[f], marked):
                            n = add_pair(thread, found, start, n, capacity, wp.vec2i(vertex_ids[v], face_ids[f]))
    # triangles of this patch and vertices of patches without escaped, which do not look themselves
    for f in range(face_start[patch], face_start[patch + 1]):
        face = faces[f]
        if face_marked(face, marked):
            limit = reach(load_box(face_boxes, f))
            for r in range(row_begin, row_end, 64):
                near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
                while near != wp.uint64(0):
                    other = rows[r + lowest_bit(near)]
                    near &= near - wp.uint64(1)
                    if patches_marked[other] == 0:
                        begin = vertex_start[other]
                        hits = shared_mask(vertex_boxes, begin, vertex_start[other + 1] - begin, limit)
                        while hits != wp.uint64(0):
                            v = begin + lowest_bit(hits)
                            hits &= hits - wp.uint64(1)
                            if face[0] != v and face[1] != v and face[2] != v:
                                n = add_pair(thread, found, start, n, capacity, wp.vec2i(vertex_ids[v], face_ids[f]))
    counts[query] = n


@wp.kernel
def find_escaped_edge_edge(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    marked_patches: wp.array[int],
    patches_marked: wp.array[int],
    marked: wp.array[int],
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    edge_start: wp.array[int],
    edge_boxes: wp.array2d[wp.float32],
    ends: wp.array2d[int],
    edge_ids: wp.array[int],
):
    """The edges of a patch with those of its row, where one of the two is marked."""
    thread = first + wp.tid()
    i = shared_item(thread)
    query = i
    if chosen == 1:
        query = items[i]
    patch = marked_patches[query]
    start = row_start(chosen, query, starts, capacity)
    row_end = int(row_offsets[query + 1])
    n = int(0)
    for e in range(edge_start[patch], edge_start[patch + 1]):
        limit = reach(load_box(edge_boxes, e))
        a = ends[0, e]
        b = ends[1, e]
        stray = marked[a] + marked[b] != 0
        for r in range(int(row_offsets[query]), row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = edge_start[other]
                end = edge_start[other + 1]
                if patches_marked[other] != 0:
                    # from the lower rank
                    begin = wp.max(e + 1, begin)
                elif not stray:
                    end = begin
                if begin < end:
                    hits = edges_apart(edge_boxes, ends, begin, end - begin, limit, a, b)
                    while hits != wp.uint64(0):
                        f = begin + lowest_bit(hits)
                        hits &= hits - wp.uint64(1)
                        if stray or marked[ends[0, f]] + marked[ends[1, f]] != 0:
                            one = edge_ids[e]
                            two = edge_ids[f]
                            n = add_pair(
                                thread, found, start, n, capacity, wp.vec2i(wp.min(one, two), wp.max(one, two))
                            )
    counts[query] = n

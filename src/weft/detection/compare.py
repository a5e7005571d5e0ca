"""Compare the features of patches whose boxes overlap: what broad phases have in common.

A row is the ascending list of the patches whose boxes overlap a patch's box. Every kernel here walks the features of
one patch in order of rank and, for each, the features of the patches of its row in order of rank; so the lists come
out sorted by (rank, rank) however the rows were found and however large the patches are.
"""

import warp as wp

from weft.detection.boxes import Box, Cells, may_overlap, overlap
from weft.detection.lists import row_start

wp.set_module_options({"enable_backward": False})


@wp.func
def sort_row(found: wp.array[int], start: wp.int64, count: int):
    """Sort found[start:start + count]: by insertion when short, else as a heap."""
    if count <= 48:
        for i in range(1, count):
            value = found[start + wp.int64(i)]
            j = i - 1
            while j >= 0 and found[start + wp.int64(wp.max(j, 0))] > value:
                found[start + wp.int64(j + 1)] = found[start + wp.int64(j)]
                j -= 1
            found[start + wp.int64(j + 1)] = value
    else:
        for i in range(count // 2):
            _sift(found, start, count // 2 - 1 - i, count)
        for i in range(count - 1):
            last = count - 1 - i
            value = found[start + wp.int64(last)]
            found[start + wp.int64(last)] = found[start]
            found[start] = value
            _sift(found, start, 0, last)


@wp.func
def _sift(found: wp.array[int], start: wp.int64, place: int, count: int):
    value = found[start + wp.int64(place)]
    hole = int(place)
    child = int(2 * place + 1)
    while child < count:
        if child + 1 < count and found[start + wp.int64(child + 1)] > found[start + wp.int64(child)]:
            child += 1
        if found[start + wp.int64(child)] <= value:
            break
        found[start + wp.int64(hole)] = found[start + wp.int64(child)]
        hole = child
        child = 2 * hole + 1
    found[start + wp.int64(hole)] = value


@wp.kernel
def find_vertex_triangle(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    patch_cells: wp.array[Cells],
    vertex_start: wp.array[int],
    vertex_boxes: wp.array[Box],
    vertex_cells: wp.array[Cells],
    vertex_ids: wp.array[int],
    face_start: wp.array[int],
    face_boxes: wp.array[Box],
    face_cells: wp.array[Cells],
    faces: wp.array[wp.vec3i],
    face_ids: wp.array[int],
):
    i = first + wp.tid()
    patch = i
    if chosen == 1:
        patch = items[i]
    start = row_start(chosen, patch, starts, capacity)
    row_begin = int(row_offsets[patch])
    row_end = int(row_offsets[patch + 1])
    n = int(0)
    for v in range(vertex_start[patch], vertex_start[patch + 1]):
        box = vertex_boxes[v]
        cells = vertex_cells[v]
        for r in range(row_begin, row_end):
            other = rows[r]
            if may_overlap(cells, patch_cells[other]):
                for f in range(face_start[other], face_start[other + 1]):
                    if may_overlap(cells, face_cells[f]) and overlap(box, face_boxes[f]):
                        face = faces[f]
                        if v != face[0] and v != face[1] and v != face[2]:
                            if n < capacity:
                                found[start + wp.int64(n)] = wp.vec2i(vertex_ids[v], face_ids[f])
                            n += 1
        if n > stop:
            break
    counts[patch] = n


@wp.kernel
def find_edge_edge(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    patch_cells: wp.array[Cells],
    edge_start: wp.array[int],
    edge_boxes: wp.array[Box],
    edge_cells: wp.array[Cells],
    edges: wp.array[wp.vec2i],
    edge_ids: wp.array[int],
):
    i = first + wp.tid()
    patch = i
    if chosen == 1:
        patch = items[i]
    start = row_start(chosen, patch, starts, capacity)
    row_begin = int(row_offsets[patch])
    row_end = int(row_offsets[patch + 1])
    # pairs of edges have no direction: each is found from its lower rank
    while row_begin < row_end and rows[row_begin] < patch:
        row_begin += 1
    n = int(0)
    for e in range(edge_start[patch], edge_start[patch + 1]):
        box = edge_boxes[e]
        cells = edge_cells[e]
        edge = edges[e]
        id = edge_ids[e]
        for r in range(row_begin, row_end):
            other = rows[r]
            if may_overlap(cells, patch_cells[other]):
                for g in range(wp.max(e + 1, edge_start[other]), edge_start[other + 1]):
                    if may_overlap(cells, edge_cells[g]) and overlap(box, edge_boxes[g]):
                        partner = edges[g]
                        if (
                            edge[0] != partner[0]
                            and edge[0] != partner[1]
                            and edge[1] != partner[0]
                            and edge[1] != partner[1]
                        ):
                            if n < capacity:
                                partner_id = edge_ids[g]
                                pair = wp.vec2i(wp.min(id, partner_id), wp.max(id, partner_id))
                                found[start + wp.int64(n)] = pair
                            n += 1
        if n > stop:
            break
    counts[patch] = n


@wp.kernel
def find_triangles(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    patch_cells: wp.array[Cells],
    face_start: wp.array[int],
    face_boxes: wp.array[Box],
    face_cells: wp.array[Cells],
    faces: wp.array[wp.vec3i],
    face_ids: wp.array[int],
    share_vertex: int,
):
    i = first + wp.tid()
    patch = i
    if chosen == 1:
        patch = items[i]
    start = row_start(chosen, patch, starts, capacity)
    row_begin = int(row_offsets[patch])
    row_end = int(row_offsets[patch + 1])
    while row_begin < row_end and rows[row_begin] < patch:
        row_begin += 1
    n = int(0)
    for f in range(face_start[patch], face_start[patch + 1]):
        box = face_boxes[f]
        cells = face_cells[f]
        face = faces[f]
        id = face_ids[f]
        for r in range(row_begin, row_end):
            other = rows[r]
            if may_overlap(cells, patch_cells[other]):
                for g in range(wp.max(f + 1, face_start[other]), face_start[other + 1]):
                    close = may_overlap(cells, face_cells[g]) and overlap(box, face_boxes[g])
                    if close and (share_vertex == 1 or not meet(face, faces[g])):
                        if n < capacity:
                            partner_id = face_ids[g]
                            pair = wp.vec2i(wp.min(id, partner_id), wp.max(id, partner_id))
                            found[start + wp.int64(n)] = pair
                        n += 1
        if n > stop:
            break
    counts[patch] = n


@wp.func
def meet(a: wp.vec3i, b: wp.vec3i) -> bool:
    """Whether two triangles have a vertex in common."""
    result = bool(False)
    for k in range(3):
        if a[k] == b[0] or a[k] == b[1] or a[k] == b[2]:
            result = True
    return result

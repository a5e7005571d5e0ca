"""Compare the features of patches whose boxes overlap: what broad phases have in common.

A row is the ascending list of the patches whose boxes overlap a patch's box. Every kernel here walks the features of
one patch in order of rank and, for each, the features of the patches of its row in order of rank; so the lists come
out sorted by (rank, rank) however the rows were found and however large the patches are.
"""

import warp as wp

from weft.broad_phase.boxes import (
    SHARED,
    Box,
    load_box,
    lowest_bit,
    mask_snippet,
    reach,
    shared_item,
    shared_mask,
    store_box,
    writes,
)
from weft.broad_phase.list_kernels import row_start

wp.set_module_options({"enable_backward": False})


_CORNERS = "const int* q = corners.data + begin; const size_t next = corners.strides[0] / sizeof(int);"


@wp.func_native(
    mask_snippet(
        "(q[base + k] != a) & (q[base + k + next] != a) & (q[base + k + 2 * next] != a)", setup=_CORNERS, shared=True
    )
)
def faces_apart(  # type: ignore[empty-body]
    planes: wp.array2d[wp.float32], corners: wp.array2d[int], begin: int, count: int, limit: Box, a: int
) -> wp.uint64:
    """As `shared_mask`, without triangles that have the vertex a."""


@wp.func_native(
    mask_snippet(
        "(q[base + k] != a) & (q[base + k] != b) & (q[base + k + next] != a) & (q[base + k + next] != b)",
        setup=_CORNERS,
        shared=True,
    )
)
def edges_apart(  # type: ignore[empty-body]
    planes: wp.array2d[wp.float32], corners: wp.array2d[int], begin: int, count: int, limit: Box, a: int, b: int
) -> wp.uint64:
    """As `shared_mask`, without edges that have the vertex a or b."""


@wp.func_native(
    f"""
    #if defined(__CUDA_ARCH__)
    // each of the item's threads writes its own
    for (int k = threadIdx.x & {SHARED - 1}; k < 64 && mask >> k; k += {SHARED}) {{
        const int place = n + __popcll(mask & (((wp::uint64)1 << k) - 1));
        if ((mask >> k & 1) && place < room) {{
            const int j = ids.data[begin + k];
            const bool swap = order == 2 || (order == 1 && j < id);
            found.data[start + place] = wp::vec_t<2, int>(swap ? j : id, swap ? id : j);
        }}
    }}
    return n + __popcll(mask);
    #else
    const int more = __builtin_popcountll(mask);
    const int* partner = ids.data + begin;
    if (n + more + 4 <= room) {{
        // four at a time, whether there are four or not: cheaper than finding out
        wp::vec_t<2, int>* out = found.data + start + n;
        while (mask) {{
            for (int k = 0; k < 4; ++k) {{
                const int j = partner[__builtin_ctzll(mask | (wp::uint64)1 << 63)];
                const bool swap = (order == 2) | ((order == 1) & (j < id));
                out[k] = wp::vec_t<2, int>(swap ? j : id, swap ? id : j);
                mask &= mask - 1;
            }}
            out += 4;
        }}
        return n + more;
    }}
    for (int k = n; mask && k < room; ++k) {{
        const int j = partner[__builtin_ctzll(mask)];
        const bool swap = (order == 2) | ((order == 1) & (j < id));
        found.data[start + k] = wp::vec_t<2, int>(swap ? j : id, swap ? id : j);
        mask &= mask - 1;
    }}
    return n + more;
    #endif
    """
)
def append(  # type: ignore[empty-body]
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
    """Add the pairs (id, ids[begin + k]) for the bits k of the mask to a row of n, as far as there is room.

    The smaller index comes first in order 1, the other one in order 2. Gives the new length, with or without room.
    """


@wp.func
def query_patch(query: int, asked: wp.array[int]) -> int:
    """The patch of a query: one of those that are asked, or where none are named the one of that number."""
    patch = query
    if asked.shape[0] > 0:
        patch = asked[query]
    return patch


@wp.func
def share_start(starts: wp.array[int], query: int, shares: int) -> int:
    """Where the features of a query begin: each patch is so many queries, one after another, which share its features."""
    patch = query // shares
    begin = starts[patch]
    place = int(begin)
    if query % shares > 0:
        place += (starts[patch + 1] - begin) * (query % shares) // shares
    return place


@wp.func
def row_room(chosen: int, query: int, starts: wp.array[wp.int64], capacity: int) -> int:
    """How many entries the row of a query takes."""
    room = capacity
    if chosen == 1 and capacity > 0:
        room = int(starts[query + 1] - starts[query])
    return room


@wp.kernel
def gather_row_boxes(
    first: int,
    count: int,
    offsets: wp.array[wp.int64],
    rows: wp.array[int],
    boxes: wp.array2d[wp.float32],
    row_boxes: wp.array2d[wp.float32],
):
    """Boxes of what is compared in one go side by side; as many as the rows of so many patches have."""
    i = first + wp.tid()
    if wp.int64(i) < offsets[count]:
        store_box(row_boxes, i, load_box(boxes, rows[i]))


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
    shares: int,
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    vertex_start: wp.array[int],
    vertex_boxes: wp.array2d[wp.float32],
    vertex_ids: wp.array[int],
    face_start: wp.array[int],
    face_boxes: wp.array2d[wp.float32],
    corners: wp.array2d[int],
    face_ids: wp.array[int],
):
    """The vertices of a patch with the triangles of the patches in its row."""
    query = shared_item(first + wp.tid())
    if chosen == 1:
        query = items[query]
    patch = query // shares
    start = row_start(chosen, query, starts, capacity)
    room = row_room(chosen, query, starts, capacity)
    row_end = int(row_offsets[patch + 1])
    n = int(0)
    for v in range(share_start(vertex_start, query, shares), share_start(vertex_start, query + 1, shares)):
        limit = reach(load_box(vertex_boxes, v))
        id = vertex_ids[v]
        for r in range(int(row_offsets[patch]), row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = face_start[other]
                hits = faces_apart(face_boxes, corners, begin, face_start[other + 1] - begin, limit, v)
                n = append(found, start, n, room, hits, id, face_ids, begin, 0)
        if n > stop:
            break
    counts[query] = n


@wp.kernel
def find_triangle_vertex(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[wp.vec2i],
    counts: wp.array[int],
    shares: int,
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    body: wp.array[int],
    carried: wp.array[int],
    vertex_start: wp.array[int],
    vertex_boxes: wp.array2d[wp.float32],
    vertex_ids: wp.array[int],
    face_start: wp.array[int],
    face_boxes: wp.array2d[wp.float32],
    face_ids: wp.array[int],
):
    """Vertices of bodies that do not look themselves, found from the triangles near them; the vertex comes first."""
    query = shared_item(first + wp.tid())
    if chosen == 1:
        query = items[query]
    patch = query // shares
    start = row_start(chosen, query, starts, capacity)
    room = row_room(chosen, query, starts, capacity)
    row_end = int(row_offsets[patch + 1])
    row_begin = int(row_offsets[patch])
    # they stand last in every row
    last = row_end
    while row_begin < last:
        middle = (row_begin + last) // 2
        if carried[body[rows[middle]]] == 0:
            row_begin = middle + 1
        else:
            last = middle
    n = int(0)
    for f in range(share_start(face_start, query, shares), share_start(face_start, query + 1, shares)):
        limit = reach(load_box(face_boxes, f))
        id = face_ids[f]
        for r in range(row_begin, row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = vertex_start[other]
                hits = shared_mask(vertex_boxes, begin, vertex_start[other + 1] - begin, limit)
                n = append(found, start, n, room, hits, id, vertex_ids, begin, 2)
        if n > stop:
            break
    counts[query] = n


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
    shares: int,
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    edge_start: wp.array[int],
    edge_boxes: wp.array2d[wp.float32],
    ends: wp.array2d[int],
    edge_ids: wp.array[int],
):
    """The edges of a patch with its own and with those of later patches in its row."""
    query = shared_item(first + wp.tid())
    if chosen == 1:
        query = items[query]
    patch = query // shares
    start = row_start(chosen, query, starts, capacity)
    room = row_room(chosen, query, starts, capacity)
    row_begin = first_not_below(rows, row_offsets, patch)
    row_end = int(row_offsets[patch + 1])
    n = int(0)
    for e in range(share_start(edge_start, query, shares), share_start(edge_start, query + 1, shares)):
        limit = reach(load_box(edge_boxes, e))
        a = ends[0, e]
        b = ends[1, e]
        id = edge_ids[e]
        for r in range(row_begin, row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = wp.max(e + 1, edge_start[other])
                hits = edges_apart(edge_boxes, ends, begin, edge_start[other + 1] - begin, limit, a, b)
                n = append(found, start, n, room, hits, id, edge_ids, begin, 1)
        if n > stop:
            break
    counts[query] = n


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
    shares: int,
    row_offsets: wp.array[wp.int64],
    rows: wp.array[int],
    row_boxes: wp.array2d[wp.float32],
    face_start: wp.array[int],
    face_boxes: wp.array2d[wp.float32],
    faces: wp.array[wp.vec3i],
    face_ids: wp.array[int],
    share_vertex: int,
):
    """The triangles of a patch with its own and with those of later patches in its row."""
    query = shared_item(first + wp.tid())
    if chosen == 1:
        query = items[query]
    patch = query // shares
    start = row_start(chosen, query, starts, capacity)
    row_begin = first_not_below(rows, row_offsets, patch)
    row_end = int(row_offsets[patch + 1])
    n = int(0)
    for f in range(share_start(face_start, query, shares), share_start(face_start, query + 1, shares)):
        limit = reach(load_box(face_boxes, f))
        face = faces[f]
        id = face_ids[f]
        for r in range(row_begin, row_end, 64):
            near = shared_mask(row_boxes, r, wp.min(64, row_end - r), limit)
            while near != wp.uint64(0):
                other = rows[r + lowest_bit(near)]
                near &= near - wp.uint64(1)
                begin = wp.max(f + 1, face_start[other])
                hits = shared_mask(face_boxes, begin, face_start[other + 1] - begin, limit)
                while hits != wp.uint64(0):
                    g = begin + lowest_bit(hits)
                    hits &= hits - wp.uint64(1)
                    if share_vertex == 1 or not meet(face, faces[g]):
                        if n < capacity and writes(first + wp.tid()):
                            partner_id = face_ids[g]
                            found[start + wp.int64(n)] = wp.vec2i(wp.min(id, partner_id), wp.max(id, partner_id))
                        n += 1
        if n > stop:
            break
    counts[query] = n


@wp.func
def first_not_below(rows: wp.array[int], row_offsets: wp.array[wp.int64], patch: int) -> int:
    """Where the row of a patch reaches the patch itself: a pair without direction is found from its lower rank."""
    place = int(row_offsets[patch])
    end = int(row_offsets[patch + 1])
    while place < end:
        middle = (place + end) // 2
        if rows[middle] < patch:
            place = middle + 1
        else:
            end = middle
    return place


@wp.func
def meet(a: wp.vec3i, b: wp.vec3i) -> bool:
    """Whether two triangles have a vertex in common."""
    result = bool(False)
    for k in range(3):
        if a[k] == b[0] or a[k] == b[1] or a[k] == b[2]:
            result = True
    return result

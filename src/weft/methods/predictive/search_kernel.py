"""The search for contacts on a CPU as one kernel: its threads take patches in turn, and wait for each other between passes."""

# mypy: disable-error-code="arg-type, assignment, empty-body"

import warp as wp

from weft.broad_phase.boxes import load_box, overlap_limit, store_box, swept_box
from weft.methods.predictive.pairs import DISPLACEMENT_RATIO, STRAIGHT, Made, Sheet, make_edge_edge, make_point_triangle
from weft.methods.predictive.patch_overlaps import find_row
from weft.methods.predictive.search_cache import (
    Field,
    enclose_blocks,
    enclose_edges,
    enclose_faces,
    find_frame,
    store_vertex,
    unite_boxes,
)
from weft.methods.predictive.simd_cull import find_edges, find_faces
from weft.runtime.cooperative import grid_barrier

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))
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
    grid_barrier(arrivals)
    vertices = field.vertex_ids.shape[0]
    for i in range(vertices * t / threads, vertices * (t + 1) / threads):
        vertex = field.vertex_ids[i]
        box = swept_box(sheet.x[vertex], sheet.end[vertex], field.frame, HALF * margin)
        if store_vertex(i, vertex, sheet.x, sheet.end, box, farthest, field.places, field.ways, field.vertex_boxes):
            room.told[NOWHERE] = 1
    grid_barrier(arrivals)
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
    grid_barrier(arrivals)
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
    grid_barrier(arrivals)

    place = t * (row_room + 16)
    begin = t * draft_room
    n = int(0)
    for patch in range(t, field.patches, threads):
        room.begins[0, patch] = begin + n
        before = n
        own = field.body[patch]
        near = find_row(
            0, field.patches, overlap_limit(load_box(field.patch_boxes, patch)), own, field.body, field.table,
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
                patch, field.patches, overlap_limit(load_box(field.patch_boxes, patch)), own, field.body, field.table,
                field.group_boxes, field.block_boxes, field.patch_boxes, row_room, room.rows, room.boxes, place,
            )  # fmt: skip
        pairs = find_edges(
            field.edge_start[patch], field.edge_start[patch + 1], wide, DISPLACEMENT_RATIO * margin, STRAIGHT * STRAIGHT, patch,
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
    grid_barrier(arrivals)
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
    grid_barrier(arrivals)
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

# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
"""Flood fill of the two sides of a curve on its sheet: from vertices next to the curve, over edges, to all of the smaller side.

Serial functions of the kernel in `colour`.
"""

import warp as wp

from weft.analysis.walk import LOOP

wp.set_module_options({"enable_backward": False})


@wp.struct
class FloodData:
    """The mesh, the paths and scratch arrays. An entry of a scratch array counts only if it has the stamp of the curve at
    hand, so that nothing has to be cleared between curves."""

    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    vertex_face_offsets: wp.array[int]
    vertex_faces: wp.array[int]
    vertex_edge_offsets: wp.array[int]
    vertex_edges: wp.array[int]
    areas: wp.array[wp.float64]

    node_edge: wp.array[int]
    node_face: wp.array[int]
    node_sheet: wp.array[int]
    path_offsets: wp.array[int]
    path_ends: wp.array[wp.vec2i]

    # 2 stamp + label (0 or 1: the side); the stamp for vertices on the curve, which have no side
    labels: wp.array[int]
    blocked: wp.array[int]
    # 2 stamp + parity of the number of times that the curve cuts the edge
    cuts: wp.array[int]
    # the band: triangles that the curve touches; their stamp, and their list
    near: wp.array[int]
    band: wp.array[int]
    # 2 stamp + half of a red region
    halves: wp.array[int]
    # 1 + the curve to whose list a triangle was added last
    listed: wp.array[int]
    spare: wp.array[int]
    queue_0: wp.array[int]
    queue_1: wp.array[int]


@wp.func
def mark_near(s: FloodData, face: int, stamp: int, count: int) -> int:
    """Put a triangle into the band; gives the new size of the band."""
    if s.near[face] == stamp:
        return count
    s.near[face] = stamp
    s.band[count] = face
    return count + 1


@wp.func
def mark_curve(s: FloodData, path: int, sheet: int, single: bool, stamp: int) -> int:
    """Mark the edges that the curve cuts, by parity, and the triangles of its band; gives their number."""
    count = int(0)
    for i in range(s.path_offsets[path], s.path_offsets[path + 1]):
        if single or s.node_sheet[i] == sheet:
            e = s.node_edge[i]
            if s.cuts[e] // 2 != stamp:
                s.cuts[e] = 2 * stamp
            s.cuts[e] = s.cuts[e] ^ 1
            for k in range(2):
                if s.edge_faces[e][k] >= 0:
                    count = mark_near(s, s.edge_faces[e][k], stamp, count)
        if single or s.node_sheet[i] != sheet:
            count = mark_near(s, s.node_face[i], stamp, count)
    # the curve passes through its loop vertices: they are on neither side
    for k in range(2):
        code = s.path_ends[path][k]
        if code <= LOOP:
            vertex = LOOP - code
            s.blocked[vertex] = stamp
            for j in range(s.vertex_face_offsets[vertex], s.vertex_face_offsets[vertex + 1]):
                count = mark_near(s, s.vertex_faces[j], stamp, count)
    return count


@wp.func
def in_band(s: FloodData, edge: int, stamp: int) -> bool:
    """Whether a triangle of the edge is in the band of the curve."""
    for k in range(2):
        f = s.edge_faces[edge][k]
        if f >= 0:
            if s.near[f] == stamp:
                return True
    return False


@wp.func
def expected_label(s: FloodData, edge: int, label: int, stamp: int) -> int:
    """The label of the other end of an edge: the other label if the curve cuts the edge an odd number of times."""
    if s.cuts[edge] // 2 == stamp:
        return label ^ (s.cuts[edge] & 1)
    return label


@wp.func
def label_from(s: FloodData, seed: int, stamp: int, whole: bool) -> int:
    """Label the vertices connected to the seed, in the band or in the whole mesh; gives their number, or -1 for a conflict.

    The labelled vertices are left in queue 0.
    """
    tail = int(1)
    s.queue_0[0] = seed
    s.labels[seed] = 2 * stamp
    head = int(0)
    while head < tail:
        v = s.queue_0[head]
        head += 1
        for j in range(s.vertex_edge_offsets[v], s.vertex_edge_offsets[v + 1]):
            e = s.vertex_edges[j]
            other = s.edges[e][0] + s.edges[e][1] - v
            if s.blocked[other] != stamp and (whole or in_band(s, e, stamp)):
                label = expected_label(s, e, s.labels[v] & 1, stamp)
                if s.labels[other] // 2 != stamp:
                    s.labels[other] = 2 * stamp + label
                    s.queue_0[tail] = other
                    tail += 1
                elif (s.labels[other] & 1) != label:
                    return -1
    return tail


@wp.func
def label_sides(s: FloodData, band: int, stamp: int) -> int:
    """Label the vertices of the band; gives how many were labelled, or -1 if the curve does not divide the mesh.

    The band is usually connected. Where a boundary interrupts it, the whole mesh is labelled.
    """
    seed = int(-1)
    total = int(0)
    # count the vertices of the band that are not on the curve, each once, by a mark below the stamp
    for i in range(band):
        face = s.faces[s.band[i]]
        for k in range(3):
            v = face[k]
            if s.blocked[v] != stamp and s.labels[v] != 2 * stamp - 2:
                s.labels[v] = 2 * stamp - 2
                total += 1
                if seed < 0:
                    seed = v
    if seed < 0:
        return -1
    found = label_from(s, seed, stamp, False)
    if found < 0 or found == total:
        return found
    # the band is not connected: label again, in the whole mesh
    for i in range(found):
        s.labels[s.queue_0[i]] = 2 * stamp - 2
    found = label_from(s, seed, stamp, True)
    if found < 0:
        return -1
    for i in range(band):
        face = s.faces[s.band[i]]
        for k in range(3):
            v = face[k]
            if s.blocked[v] != stamp and s.labels[v] // 2 != stamp:
                return -1
    return found


@wp.func
def grow_side(s: FloodData, queue: wp.array[int], head: int, tail: int, side: int, stamp: int) -> int:
    """Label the neighbours of one vertex of the queue and append them; gives the new end of the queue, -1 for a conflict."""
    end = tail
    v = queue[head]
    for j in range(s.vertex_edge_offsets[v], s.vertex_edge_offsets[v + 1]):
        e = s.vertex_edges[j]
        other = s.edges[e][0] + s.edges[e][1] - v
        if s.blocked[other] != stamp:
            label = expected_label(s, e, side, stamp)
            if s.labels[other] // 2 != stamp:
                # edges that the curve cuts end in the band, which is labelled already: this is the same side
                s.labels[other] = 2 * stamp + label
                queue[end] = other
                end += 1
            elif (s.labels[other] & 1) != label:
                return -1
    return end


@wp.func
def area_of(s: FloodData, queue: wp.array[int], start: int, end: int) -> wp.float64:
    """The area of the vertices from `start` to `end` of a queue."""
    area = wp.float64(0.0)
    for i in range(start, end):
        area += s.areas[queue[i]]
    return area


@wp.func
def flood(s: FloodData, labelled: int, stamp: int) -> wp.vec3i:
    """Grow both sides in turn, always the one with less area, until that one is complete.

    Gives (side, number of its vertices, 0), or side -1 if both reach each other: the curve does not divide the mesh.
    """
    # split queue 0, the vertices labelled so far, by side
    tail_0 = int(0)
    tail_1 = int(0)
    for i in range(labelled):
        v = s.queue_0[i]
        if (s.labels[v] & 1) == 0:
            s.queue_0[tail_0] = v
            tail_0 += 1
        else:
            s.queue_1[tail_1] = v
            tail_1 += 1
    area_0 = area_of(s, s.queue_0, 0, tail_0)
    area_1 = area_of(s, s.queue_1, 0, tail_1)
    head_0 = int(0)
    head_1 = int(0)
    side = int(-2)
    while side == -2:
        done_0 = head_0 == tail_0
        done_1 = head_1 == tail_1
        if done_0 and (done_1 or area_0 <= area_1):
            side = 0
            if area_1 < area_0:
                side = 1
        elif done_1 and area_1 <= area_0:
            side = 1
        elif done_1 or (not done_0 and area_0 <= area_1):
            end = grow_side(s, s.queue_0, head_0, tail_0, 0, stamp)
            if end < 0:
                side = -1
            else:
                area_0 += area_of(s, s.queue_0, tail_0, end)
                tail_0 = end
                head_0 += 1
        else:
            end = grow_side(s, s.queue_1, head_1, tail_1, 1, stamp)
            if end < 0:
                side = -1
            else:
                area_1 += area_of(s, s.queue_1, tail_1, end)
                tail_1 = end
                head_1 += 1
    if side == 0:
        return wp.vec3i(0, tail_0, 0)
    return wp.vec3i(side, tail_1, 0)


@wp.func
def seed_half(s: FloodData, vertex: int, sheet: int, side: int, stamp: int, tail: int) -> int:
    """Assign a vertex to one half of the red region and queue it, if it is inside and in neither half yet."""
    if s.labels[vertex] == 2 * stamp + side and s.blocked[vertex] != stamp and s.halves[vertex] // 2 != stamp:
        s.halves[vertex] = 2 * stamp + sheet
        s.spare[tail] = vertex
        return tail + 1
    return tail


@wp.func
def split_red_region(s: FloodData, path: int, side: int, stamp: int):
    """Split a red region into vertices nearer, in edges, to the curve of sheet 0 and to that of sheet 1."""
    tail = int(0)
    for i in range(s.path_offsets[path], s.path_offsets[path + 1]):
        e = s.node_edge[i]
        sheet = s.node_sheet[i]
        for k in range(2):
            tail = seed_half(s, s.edges[e][k], sheet, side, stamp, tail)
        for k in range(3):
            tail = seed_half(s, s.faces[s.node_face[i]][k], 1 - sheet, side, stamp, tail)
    head = int(0)
    while head < tail:
        v = s.spare[head]
        head += 1
        for j in range(s.vertex_edge_offsets[v], s.vertex_edge_offsets[v + 1]):
            e = s.vertex_edges[j]
            tail = seed_half(s, s.edges[e][0] + s.edges[e][1] - v, s.halves[v] & 1, side, stamp, tail)

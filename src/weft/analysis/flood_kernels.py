# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
"""The two sides of a curve on its sheet: triangles near it are labelled, and floods go from there over the vertices."""

import warp as wp

from weft.analysis.walk_kernels import LOOP

wp.set_module_options({"enable_backward": False})


@wp.struct
class Sheets:
    """The mesh, the walk and the scratch arrays of the floods. Stamps say for which curve an entry holds."""

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

    # 2 stamp + label; blocked vertices: 2 stamp of their own array
    labels: wp.array[int]
    blocked: wp.array[int]
    # 2 stamp + parity of the crossings of the curve with the edge
    cuts: wp.array[int]
    # stamp of the triangles near the curve, and their list
    near: wp.array[int]
    band: wp.array[int]
    # 2 stamp + half of a red region
    parts: wp.array[int]
    # the curve, plus 1, to whose row a triangle was added last
    listed: wp.array[int]
    spare: wp.array[int]
    queue_0: wp.array[int]
    queue_1: wp.array[int]


@wp.func
def mark_near(s: Sheets, face: int, stamp: int, count: int) -> int:
    """Put a triangle into the band of the curve; gives the new size of the band."""
    if s.near[face] == stamp:
        return count
    s.near[face] = stamp
    s.band[count] = face
    return count + 1


@wp.func
def mark_curve(s: Sheets, path: int, sheet: int, single: bool, stamp: int) -> int:
    """Mark the edges that the curve cuts, by parity, and the triangles near it; gives their number."""
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
    # the curve passes through its loop vertices: they lie on no side
    for k in range(2):
        code = s.path_ends[path][k]
        if code <= LOOP:
            vertex = LOOP - code
            s.blocked[vertex] = stamp
            for j in range(s.vertex_face_offsets[vertex], s.vertex_face_offsets[vertex + 1]):
                count = mark_near(s, s.vertex_faces[j], stamp, count)
    return count


@wp.func
def in_band(s: Sheets, edge: int, stamp: int) -> bool:
    """Whether a triangle of the edge is near the curve."""
    for k in range(2):
        f = s.edge_faces[edge][k]
        if f >= 0:
            if s.near[f] == stamp:
                return True
    return False


@wp.func
def expected_label(s: Sheets, edge: int, label: int, stamp: int) -> int:
    """The label across an edge: the other one if the curve cuts it an odd number of times."""
    if s.cuts[edge] // 2 == stamp:
        return label ^ (s.cuts[edge] & 1)
    return label


@wp.func
def label_from(s: Sheets, seed: int, stamp: int, whole: bool) -> int:
    """Label what is connected to the seed, in the band or in the whole mesh; gives the count, or -1 for a conflict.

    What was labelled is left in queue 0.
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
def label_sides(s: Sheets, band: int, stamp: int) -> int:
    """Label both sides of the curve near it; gives how many vertices, or -1 where it does not divide.

    The triangles along a curve hang together, and round a loop vertex too; where a boundary tears them apart, the whole
    mesh is labelled.
    """
    seed = int(-1)
    total = int(0)
    # blocked vertices have no label; all others of the band are counted once, by a mark below the stamp
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
    # start again without the limit
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
def grow_side(s: Sheets, queue: wp.array[int], head: int, tail: int, side: int, stamp: int) -> int:
    """Take one vertex from the queue and label its neighbours; gives the new end of the queue, -1 for a conflict."""
    end = tail
    v = queue[head]
    for j in range(s.vertex_edge_offsets[v], s.vertex_edge_offsets[v + 1]):
        e = s.vertex_edges[j]
        other = s.edges[e][0] + s.edges[e][1] - v
        if s.blocked[other] != stamp:
            label = expected_label(s, e, side, stamp)
            if s.labels[other] // 2 != stamp:
                # cut edges end in the band, which is labelled: this is the same side
                s.labels[other] = 2 * stamp + label
                queue[end] = other
                end += 1
            elif (s.labels[other] & 1) != label:
                return -1
    return end


@wp.func
def area_of(s: Sheets, queue: wp.array[int], start: int, end: int) -> wp.float64:
    """The area that belongs to a part of a queue of vertices."""
    area = wp.float64(0.0)
    for i in range(start, end):
        area += s.areas[queue[i]]
    return area


@wp.func
def flood(s: Sheets, labelled: int, stamp: int) -> wp.vec3i:
    """Grow both sides in turn, the smaller first, until the smaller is complete.

    Gives (side, count of its vertices, 0), or side -1 where both meet: the curve does not divide the mesh.
    """
    # what is labelled so far lies in queue 0: part it
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
def part_seed(s: Sheets, vertex: int, sheet: int, side: int, stamp: int, tail: int) -> int:
    """Give a vertex inside a red region to one of its halves, if it is inside and belongs to none."""
    if s.labels[vertex] == 2 * stamp + side and s.blocked[vertex] != stamp and s.parts[vertex] // 2 != stamp:
        s.parts[vertex] = 2 * stamp + sheet
        s.spare[tail] = vertex
        return tail + 1
    return tail


@wp.func
def part_red(s: Sheets, path: int, side: int, stamp: int):
    """Part a red region into what is nearer, along the mesh, to the curve of sheet 0 and to that of sheet 1."""
    tail = int(0)
    for i in range(s.path_offsets[path], s.path_offsets[path + 1]):
        e = s.node_edge[i]
        sheet = s.node_sheet[i]
        for k in range(2):
            tail = part_seed(s, s.edges[e][k], sheet, side, stamp, tail)
        for k in range(3):
            tail = part_seed(s, s.faces[s.node_face[i]][k], 1 - sheet, side, stamp, tail)
    head = int(0)
    while head < tail:
        v = s.spare[head]
        head += 1
        for j in range(s.vertex_edge_offsets[v], s.vertex_edge_offsets[v + 1]):
            e = s.vertex_edges[j]
            tail = part_seed(s, s.edges[e][0] + s.edges[e][1] - v, s.parts[v] & 1, side, stamp, tail)

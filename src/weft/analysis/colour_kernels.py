# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
"""The serial kernel behind `colour`, which lists what each curve encloses: launched with one item, plain compiled code on
the CPU."""

import warp as wp

from weft.analysis.flood_kernels import Sheets, flood, label_sides, mark_curve, part_red
from weft.analysis.walk_kernels import LOOP, TWISTED

wp.set_module_options({"enable_backward": False})

# what a curve does to its sheet
NO_CURVE = wp.constant(0)
DIVIDES = wp.constant(1)
DOES_NOT_DIVIDE = wp.constant(2)


@wp.func
def list_face(s: Sheets, f: int, curve: int, faces: wp.array[int], place: int) -> int:
    """Append a triangle to the row of a curve, once; counts on where there is no room."""
    if s.listed[f] == curve + 1:
        return place
    s.listed[f] = curve + 1
    if place < faces.shape[0]:
        faces[place] = f
    return place + 1


@wp.func
def list_passed(s: Sheets, path: int, curve: int, faces: wp.array[int], start: int) -> int:
    """Append the triangles that the curve passes through."""
    place = start
    sheet = curve % 2
    for i in range(s.path_offsets[path], s.path_offsets[path + 1]):
        if s.node_sheet[i] == sheet:
            for k in range(2):
                f = s.edge_faces[s.node_edge[i]][k]
                if f >= 0:
                    place = list_face(s, f, curve, faces, place)
        else:
            place = list_face(s, s.node_face[i], curve, faces, place)
    return place


@wp.func
def belongs(s: Sheets, v: int, sheet: int, side: int, single: bool, stamp: int) -> int:
    """1 where a vertex is inside and, in a red region, in the half of the sheet; 0 inside otherwise; -1 outside."""
    if s.blocked[v] == stamp:
        return 1
    if s.labels[v] != 2 * stamp + side:
        return -1
    if single and s.parts[v] != 2 * stamp + sheet:
        return 0
    return 1


@wp.func
def list_inside(
    s: Sheets,
    curve: int,
    single: bool,
    stamp: int,
    side: int,
    count: int,
    vertices: wp.array[int],
    faces: wp.array[int],
    start: wp.vec2i,
) -> wp.vec2i:
    """Append the vertices inside and the triangles with all corners inside, most of them in the half of the curve."""
    v_place = start[0]
    f_place = start[1]
    sheet = curve % 2
    for i in range(count):
        v = s.queue_0[i]
        if side == 1:
            v = s.queue_1[i]
        if belongs(s, v, sheet, side, single, stamp) == 1:
            if v_place < vertices.shape[0]:
                vertices[v_place] = v
            v_place += 1
            for j in range(s.vertex_face_offsets[v], s.vertex_face_offsets[v + 1]):
                f = s.vertex_faces[j]
                corners = int(0)
                inside = bool(True)
                for k in range(3):
                    b = belongs(s, s.faces[f][k], sheet, side, single, stamp)
                    if b < 0:
                        inside = False
                    corners += b
                if inside and corners >= 2:
                    f_place = list_face(s, f, curve, faces, f_place)
    return wp.vec2i(v_place, f_place)


@wp.func
def list_loop_vertices(s: Sheets, path: int, vertices: wp.array[int], start: int) -> int:
    """Loop vertices belong to what they enclose."""
    place = start
    for k in range(2):
        code = s.path_ends[path][k]
        if code <= LOOP and (k == 0 or code != s.path_ends[path][0]):
            if place < vertices.shape[0]:
                vertices[place] = LOOP - code
            place += 1
    return place


@wp.kernel
def colour_regions(
    first: int,
    paths: int,
    s: Sheets,
    status: wp.array[int],
    vertex_offsets: wp.array[int],
    vertices: wp.array[int],
    face_offsets: wp.array[int],
    faces: wp.array[int],
):
    """What lies inside each curve: curve 2 p + sheet of path p. A path through loop vertices is one curve, numbered
    2 p, whose inside is listed in two halves."""
    place = wp.vec2i(0, 0)
    side = int(-1)
    count = int(0)
    stamp = int(0)
    for curve in range(first + wp.tid(), 2 * paths):
        path = curve // 2
        ends = s.path_ends[path]
        single = ends[0] <= LOOP or ends[1] <= LOOP or ends[0] == TWISTED
        status[curve] = NO_CURVE
        if not single or curve % 2 == 0:
            # even, so that the number below it can mark what was counted
            stamp = 2 * (curve + 1)
            band = mark_curve(s, path, curve % 2, single, stamp)
            labelled = label_sides(s, band, stamp)
            side = -1
            if labelled >= 0:
                found = flood(s, labelled, stamp)
                side = found[0]
                count = found[1]
            status[curve] = DOES_NOT_DIVIDE
            if side >= 0:
                status[curve] = DIVIDES
                if single:
                    part_red(s, path, side, stamp)
        v_place = place[0]
        f_place = list_passed(s, path, curve, faces, place[1])
        place = wp.vec2i(v_place, f_place)
        if side >= 0:
            place = list_inside(s, curve, single, stamp, side, count, vertices, faces, place)
            if single and curve % 2 == 0:
                place = wp.vec2i(list_loop_vertices(s, path, vertices, place[0]), place[1])
        vertex_offsets[curve + 1] = place[0]
        face_offsets[curve + 1] = place[1]

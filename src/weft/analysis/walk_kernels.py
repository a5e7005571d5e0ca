# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know, and which evaluates both sides of `and`
"""The serial kernel behind `walk`: launched with one item, plain compiled code on the CPU."""

import warp as wp

wp.set_module_options({"enable_backward": False})

# as in `walk`
CLOSED = wp.constant(0)
TWISTED = wp.constant(1)
LOOP = wp.constant(-3)


@wp.func
def follow_path(
    start: int,
    way_out: int,
    code: int,
    path: int,
    links: wp.array[int],
    faces: wp.array[int],
    visited: wp.array[int],
    order: wp.array[int],
    sheets: wp.array[int],
    offsets: wp.array[int],
    ends: wp.array[wp.vec2i],
):
    """Walk from a crossing through one of its halves until the path ends or comes round."""
    place = offsets[path]
    node = start
    out = way_out
    sheet = int(0)
    going = bool(True)
    end = wp.vec2i(code, code)
    while going:
        visited[node] = 1
        order[place] = node
        sheets[place] = sheet
        place += 1
        link = links[out]
        if link < 0:
            end = wp.vec2i(code, link)
            going = False
        else:
            following = link // 2
            # the pair is (triangle of the edge, face): the same face again means that the edge is on the same sheet
            if faces[following] != faces[node]:
                sheet = 1 - sheet
            if visited[following] != 0:
                end = wp.vec2i(CLOSED, CLOSED)
                if sheet != 0:
                    end = wp.vec2i(TWISTED, TWISTED)
                going = False
            node = following
            out = link ^ 1
    ends[path] = end
    offsets[path + 1] = place


@wp.kernel
def walk(
    first: int,
    count: int,
    links: wp.array[int],
    faces: wp.array[int],
    visited: wp.array[int],
    order: wp.array[int],
    sheets: wp.array[int],
    offsets: wp.array[int],
    ends: wp.array[wp.vec2i],
    paths: wp.array[int],
):
    """All paths, those that end somewhere first."""
    path = first + wp.tid()
    for half in range(2 * count):
        if links[half] < 0 and visited[half // 2] == 0:
            follow_path(half // 2, half ^ 1, links[half], path, links, faces, visited, order, sheets, offsets, ends)
            path += 1
    for node in range(count):
        if visited[node] == 0:
            follow_path(node, 2 * node, CLOSED, path, links, faces, visited, order, sheets, offsets, ends)
            path += 1
    paths[0] = path

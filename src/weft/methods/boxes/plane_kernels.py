"""The kernels of collision planes: which pairs of triangles need one and where, and the limits that follow."""

import warp as wp

wp.set_module_options({"enable_backward": False})

# how much of a gap may be lost to rounding before a pair counts again
SLACK = wp.constant(wp.float64(1e-6))
# kinds of planes: in the middle of the ends, where the sides touch, in the middle of the gap at the start
CARRIED = wp.constant(0)
TOUCHING = wp.constant(1)
STILL = wp.constant(2)


@wp.struct
class Planes:
    """The planes of pairs of triangles, in no particular order, and a chain of them a triangle."""

    pairs: wp.array[wp.vec2i]
    """the two triangles, the smaller index first"""
    sides: wp.array[wp.vec2i]
    """the axis, and which of the two triangles is below"""
    values: wp.array[wp.vec2d]
    """the largest coordinate of the lower triangle, the least one of the upper"""
    heads: wp.array[int]
    """for each triangle one of the planes of which it is the first; -1: none"""
    following: wp.array[int]
    """for each plane the next one with the same first triangle"""


@wp.func
def plane_of(p: wp.vec2i, planes: Planes) -> int:
    """The number of a pair's plane; -1: none."""
    k = planes.heads[p[0]]
    while k >= 0 and planes.pairs[k][1] != p[1]:
        k = planes.following[k]
    return k


@wp.struct
class Span:
    """The box of a triangle at the start and at the end of a step."""

    low: wp.vec3d
    high: wp.vec3d
    low_end: wp.vec3d
    high_end: wp.vec3d


@wp.func
def lowest(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The lower corner of the box around three points."""
    return wp.min(wp.min(a, b), c)


@wp.func
def highest(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """The upper corner of the box around three points."""
    return wp.max(wp.max(a, b), c)


@wp.func
def span_of(f: wp.vec3i, start: wp.array[wp.vec3d], end: wp.array[wp.vec3d]) -> Span:
    """The boxes of a triangle."""
    result = Span()
    result.low = lowest(start[f[0]], start[f[1]], start[f[2]])
    result.high = highest(start[f[0]], start[f[1]], start[f[2]])
    result.low_end = lowest(end[f[0]], end[f[1]], end[f[2]])
    result.high_end = highest(end[f[0]], end[f[1]], end[f[2]])
    return result


@wp.func
def time_of(gap: wp.float64, gap_end: wp.float64) -> wp.vec2d:
    """When a gap that changes linearly is closed during a step: first and last time, first > last: never."""
    zero = wp.float64(0.0)
    one = wp.float64(1.0)
    if gap >= zero and gap_end >= zero:
        return wp.vec2d(wp.float64(2.0), wp.float64(-1.0))
    if gap < zero and gap_end < zero:
        return wp.vec2d(zero, one)
    closing = gap / (gap - gap_end)
    if gap >= zero:
        return wp.vec2d(closing, one)
    return wp.vec2d(zero, closing)


@wp.func
def joined(f: wp.vec3i, g: wp.vec3i, offsets: wp.array[int], neighbours: wp.array[int]) -> bool:
    """Whether an edge leads from one triangle to the other."""
    for k in range(3):
        for s in range(offsets[f[k]], offsets[f[k] + 1]):
            n = neighbours[s]
            if n == g[0] or n == g[1] or n == g[2]:
                return True
    return False


@wp.func
def rests(
    f: wp.vec3i, axis: int, side: wp.float64, cloth: int, limit: wp.array2d[wp.float64], end: wp.array[wp.vec3d]
) -> bool:
    """Whether a triangle's side, at this coordinate, lies on a limit of one of its vertices; cloth ones have limits."""
    for k in range(3):
        v = f[k]
        if v < cloth and end[v][axis] == side and limit[axis, v] == side:
            return True
    return False


@wp.kernel
def find_planes(
    first: int,
    pairs: wp.array[wp.vec2i],
    still: int,
    hard_only: int,
    planes: Planes,
    faces: wp.array[wp.vec3i],
    fixed: wp.array[int],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    cloth: int,
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    found: wp.array[wp.vec3i],
    values: wp.array[wp.vec2d],
    met: wp.array[int],
    fresh: wp.array[int],
):
    """Which pairs of triangles need a plane, and which of these have none yet.

    found, values: (number of the plane or -1, axis, which of the two is below) and (upper, lower) limit of those.
    """
    i = first + wp.tid()
    p = pairs[i]
    met[i] = 0
    fresh[i] = 0
    if hard_only != 0 and fixed[p[0]] == 0 and fixed[p[1]] == 0:
        return
    known = plane_of(p, planes)
    kind = int(CARRIED)
    if still != 0:
        kind = STILL
    elif known >= 0:
        kind = TOUCHING
    f = faces[p[0]]
    g = faces[p[1]]
    a = span_of(f, start, end)
    b = span_of(g, start, end)
    half = wp.float64(0.5)

    # how far apart the boxes are at the start, and on which axis they are farthest
    gap = wp.float64(-1.0e300)
    axis = int(0)
    for d in range(3):
        here = wp.max(b.low[d] - a.high[d], a.low[d] - b.high[d])
        if here > gap:
            gap = here  # type: ignore[assignment]
            axis = d
    spacing = wp.min(wp.min(thickness[f[0]], thickness[g[0]]), gap)
    kept = spacing * (wp.float64(1.0) - SLACK)

    # when they overlap on all axes, and on which one last
    meets = bool(False)
    touch = wp.float64(-1.0)
    if gap > wp.float64(0.0):
        until = wp.float64(1.0)
        last = int(0)
        for d in range(3):
            above = time_of(b.low[d] - a.high[d] - kept, b.low_end[d] - a.high_end[d] - kept)
            below = time_of(a.low[d] - b.high[d] - kept, a.low_end[d] - b.high_end[d] - kept)
            until = wp.min(until, wp.min(above[1], below[1]))
            begin = wp.max(above[0], below[0])
            if begin > touch:
                touch = begin  # type: ignore[assignment]
                last = d
        if touch <= until:
            meets = True
            if kind != STILL:
                axis = last

    # the two sides that face each other: (at the start, at the end)
    under = int(0)
    top = wp.vec2d(a.high[axis], a.high_end[axis])
    bottom = wp.vec2d(b.low[axis], b.low_end[axis])
    if a.low[axis] + a.high[axis] > b.low[axis] + b.high[axis]:
        under = 1
        top = wp.vec2d(b.high[axis], b.high_end[axis])
        bottom = wp.vec2d(a.low[axis], a.low_end[axis])
    limits = wp.vec2d(top[0], bottom[0])
    if gap <= wp.float64(0.0):
        deeper = top[1] - bottom[1] - (top[0] - bottom[0])
        if deeper > SLACK * (top[0] - bottom[0] + thickness[f[0]]):
            meets = True
    elif meets:
        middle = half * (top[0] + bottom[0])
        if kind == CARRIED:
            middle = half * (top[1] + bottom[1])
        elif kind == TOUCHING:
            middle += touch * half * (top[1] - top[0] + bottom[1] - bottom[0])
        limits = wp.vec2d(middle - half * spacing, middle + half * spacing)
        if kind == STILL:
            # rounding must not put the start outside
            limits = wp.vec2d(wp.max(limits[0], top[0]), wp.min(limits[1], bottom[0]))
        # a collider goes where it goes, and what rests on a limit stays
        carries = fixed[p[under]] != 0
        presses = fixed[p[1 - under]] != 0
        if kind != STILL and not carries and not presses:
            carries = rests(faces[p[under]], axis, top[1], cloth, lower, end)
            presses = rests(faces[p[1 - under]], axis, bottom[1], cloth, upper, end)
        if carries and not presses:
            limits = wp.vec2d(top[1], top[1] + spacing)
        elif presses and not carries:
            limits = wp.vec2d(bottom[1] - spacing, bottom[1])
    if meets and not joined(f, g, offsets, neighbours):
        met[i] = 1
        if known < 0:
            fresh[i] = 1
        found[i] = wp.vec3i(known, axis, under)
        values[i] = limits


@wp.kernel
def take_planes(
    first: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    found: wp.array[wp.vec3i],
    values: wp.array[wp.vec2d],
    met: wp.array[int],
    places: wp.array[int],
    planes: Planes,
):
    """Add new planes to as many as there are, and move those that are there."""
    i = first + wp.tid()
    if met[i] == 0:
        return
    k = found[i][0]
    if k < 0:
        k = count + places[i]
        planes.pairs[k] = pairs[i]
        planes.following[k] = wp.atomic_exch(planes.heads, pairs[i][0], k)
    planes.sides[k] = wp.vec2i(found[i][1], found[i][2])
    planes.values[k] = values[i]


@wp.kernel
def narrow_limits(
    first: int,
    planes: Planes,
    faces: wp.array[wp.vec3i],
    fixed: wp.array[int],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    hard_lower: wp.array2d[wp.float64],
    hard_upper: wp.array2d[wp.float64],
):
    """Narrow the limits of the vertices at a plane: those of cloth alone, or those that colliders set.

    Of several numbers the least or the largest is the same in any order.
    """
    i = first + wp.tid()
    p = planes.pairs[i]
    axis = planes.sides[i][0]
    under = planes.sides[i][1]
    values = planes.values[i]
    below = p[under]
    above = p[1 - under]
    if fixed[below] == 0 and fixed[above] == 0:
        for k in range(3):
            wp.atomic_min(upper, axis, faces[below][k], values[0])
            wp.atomic_max(lower, axis, faces[above][k], values[1])
    else:
        for k in range(3):
            if fixed[below] == 0:
                wp.atomic_min(hard_upper, axis, faces[below][k], values[0])
            if fixed[above] == 0:
                wp.atomic_max(hard_lower, axis, faces[above][k], values[1])


@wp.kernel
def settle_limits(
    first: int,
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    hard_lower: wp.array2d[wp.float64],
    hard_upper: wp.array2d[wp.float64],
):
    """Turn limits that conflict around, and copy_to_host them within those of colliders, which are open again afterwards."""
    i = first + wp.tid()
    for c in range(3):
        low = wp.min(lower[c, i], upper[c, i])
        high = wp.max(lower[c, i], upper[c, i])
        least = hard_lower[c, i]
        most = wp.max(least, hard_upper[c, i])
        lower[c, i] = wp.min(wp.max(low, least), most)
        upper[c, i] = wp.min(wp.max(high, least), most)
        hard_lower[c, i] = -wp.float64(wp.inf)
        hard_upper[c, i] = wp.float64(wp.inf)

"""Kernels of collision planes between cloth and cloth.

A pair of triangles whose boxes would touch gets a plane perpendicular to an axis. Planes become limits: intervals for the
coordinates of vertices.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# fraction of a gap that may be lost before a pair counts as touching again: far more than rounding, far less than matters
GAP_TOLERANCE = wp.constant(wp.float64(1e-6))
# where the plane of a pair is: in the middle of its two sides at the end of the step, where the sides first touch, or in the
# middle of the gap at the start of the step
MIDDLE_OF_END, FIRST_TOUCH, MIDDLE_OF_START = (wp.constant(k) for k in range(3))


@wp.struct
class Planes:
    """The planes of pairs of triangles, in no particular order, and for each triangle a linked list of its planes."""

    pairs: wp.array[wp.vec2i]
    """the two triangles, the smaller index first"""
    sides: wp.array[wp.vec2i]
    """the axis, and which of the two triangles is below"""
    values: wp.array[wp.vec2d]
    """m: the largest coordinate of the lower triangle, the smallest one of the upper"""
    heads: wp.array[int]
    """for each triangle a plane of which it is the first; -1: none"""
    following: wp.array[int]
    """for each plane the next one with the same first triangle"""


@wp.struct
class PlaneMesh:
    """The triangles that planes are between."""

    faces: wp.array[wp.vec3i]
    count: int
    """triangles of cloth, which come first"""
    offsets: wp.array[int]
    """where the neighbours of each vertex begin"""
    neighbours: wp.array[int]
    thickness: wp.array[wp.float64]


@wp.struct
class WantedPlanes:
    """The planes that pairs of triangles need, as `find_planes` writes them."""

    touch: wp.array[int]
    """1: the pair needs a plane"""
    fresh: wp.array[int]
    """1: and has none yet"""
    found: wp.array[wp.vec3i]
    """index of its plane or -1, axis, which of the two triangles is below"""
    values: wp.array[wp.vec2d]
    """limit of the lower triangle, limit of the upper one"""


@wp.func
def plane_of(p: wp.vec2i, planes: Planes) -> int:
    """The index of the plane of a pair; -1: none."""
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
    """When a gap that changes linearly is negative during a step: first and last time (0 to 1); never if first > last."""
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
def widest_gap(a: Span, b: Span):
    """How far apart two boxes are at the start, and on which axis they are farthest; negative where they overlap."""
    gap = wp.float64(-1.0e300)
    axis = int(0)
    for d in range(3):
        here = wp.max(b.low[d] - a.high[d], a.low[d] - b.high[d])
        if here > gap:
            gap = here  # type: ignore[assignment]
            axis = d
    return gap, axis


@wp.func
def first_touch(a: Span, b: Span, kept: wp.float64):
    """When two boxes first are nearer than `kept` on all axes (0 to 1; 2: never in this step), and on which axis last."""
    begins = wp.float64(-1.0)
    until = wp.float64(1.0)
    last = int(0)
    for d in range(3):
        above = time_of(b.low[d] - a.high[d] - kept, b.low_end[d] - a.high_end[d] - kept)
        below = time_of(a.low[d] - b.high[d] - kept, a.low_end[d] - b.high_end[d] - kept)
        until = wp.min(until, wp.min(above[1], below[1]))
        begin = wp.max(above[0], below[0])
        if begin > begins:
            begins = begin  # type: ignore[assignment]
            last = d
    if begins > until:
        begins = wp.float64(2.0)
    return begins, last


@wp.func
def facing_sides(a: Span, b: Span, axis: int):
    """Which box is below along an axis (0 or 1), its top and the other's bottom: (at the start, at the end) each."""
    if a.low[axis] + a.high[axis] > b.low[axis] + b.high[axis]:
        return 1, wp.vec2d(b.high[axis], b.high_end[axis]), wp.vec2d(a.low[axis], a.low_end[axis])
    return 0, wp.vec2d(a.high[axis], a.high_end[axis]), wp.vec2d(b.low[axis], b.low_end[axis])


@wp.func
def limits_at(kind: int, top: wp.vec2d, bottom: wp.vec2d, begins: wp.float64, spacing: wp.float64) -> wp.vec2d:
    """The limits of the lower and of the upper side: half the spacing to both sides of the plane of that kind."""
    half = wp.float64(0.5)
    middle = half * (top[0] + bottom[0])
    if kind == MIDDLE_OF_END:
        middle = half * (top[1] + bottom[1])
    elif kind == FIRST_TOUCH:
        middle += begins * half * (top[1] - top[0] + bottom[1] - bottom[0])
    limits = wp.vec2d(middle - half * spacing, middle + half * spacing)
    if kind == MIDDLE_OF_START:
        # rounding must not exclude the positions at the start
        limits = wp.vec2d(wp.max(limits[0], top[0]), wp.min(limits[1], bottom[0]))
    return limits


@wp.func
def edge_joins(f: wp.vec3i, g: wp.vec3i, offsets: wp.array[int], neighbours: wp.array[int]) -> bool:
    """Whether an edge joins a vertex of one triangle to a vertex of the other."""
    for k in range(3):
        for s in range(offsets[f[k]], offsets[f[k] + 1]):
            n = neighbours[s]
            if n == g[0] or n == g[1] or n == g[2]:
                return True
    return False


@wp.func
def rests_on_limit(
    f: wp.vec3i,
    axis: int,
    bit: int,
    side: wp.float64,
    limit: wp.array2d[wp.float64],
    rests: wp.array[int],
    end: wp.array[wp.vec3d],
) -> bool:
    """Whether a side of a triangle's box, at this coordinate, is where a limit or a collider holds one of its vertices."""
    for k in range(3):
        v = f[k]
        if end[v][axis] == side and (limit[axis, v] == side or (rests[v] & bit) != 0):
            return True
    return False


@wp.kernel
def find_planes(
    first: int,
    pairs: wp.array[wp.vec2i],
    still: int,
    planes: Planes,
    mesh: PlaneMesh,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    rests: wp.array[int],
    wanted: WantedPlanes,
):
    """Which pairs of triangles of cloth need a plane and where, and which of these have none yet.

    still: put planes where the positions at the start fulfil all of them.
    """
    i = first + wp.tid()
    p = pairs[i]
    wanted.touch[i] = 0
    wanted.fresh[i] = 0
    if p[1] >= mesh.count:
        return
    known = plane_of(p, planes)
    kind = int(MIDDLE_OF_END)
    if still != 0:
        kind = MIDDLE_OF_START
    elif known >= 0:
        kind = FIRST_TOUCH
    f = mesh.faces[p[0]]
    g = mesh.faces[p[1]]
    a = span_of(f, start, end)
    b = span_of(g, start, end)
    gap, axis = widest_gap(a, b)
    spacing = wp.min(wp.min(mesh.thickness[f[0]], mesh.thickness[g[0]]), gap)
    touches = bool(False)
    begins = wp.float64(-1.0)
    if gap > wp.float64(0.0):
        when, last = first_touch(a, b, spacing * (wp.float64(1.0) - GAP_TOLERANCE))
        begins = when
        if when <= wp.float64(1.0):
            touches = True
            if kind != MIDDLE_OF_START:
                axis = last

    under, top, bottom = facing_sides(a, b, axis)
    limits = wp.vec2d(top[0], bottom[0])
    if gap <= wp.float64(0.0):
        deeper = top[1] - bottom[1] - (top[0] - bottom[0])
        if deeper > GAP_TOLERANCE * (top[0] - bottom[0] + mesh.thickness[f[0]]):
            touches = True
    elif touches:
        limits = limits_at(kind, top, bottom, begins, spacing)
        # a side that rests on a limit or on a collider does not give way
        carries = bool(False)
        presses = bool(False)
        if kind != MIDDLE_OF_START:
            carries = rests_on_limit(mesh.faces[p[under]], axis, 1 << axis, top[1], lower, rests, end)
            presses = rests_on_limit(mesh.faces[p[1 - under]], axis, 8 << axis, bottom[1], upper, rests, end)
        if carries and not presses:
            limits = wp.vec2d(top[1], top[1] + spacing)
        elif presses and not carries:
            limits = wp.vec2d(bottom[1] - spacing, bottom[1])
    if touches and not edge_joins(f, g, mesh.offsets, mesh.neighbours):
        wanted.touch[i] = 1
        if known < 0:
            wanted.fresh[i] = 1
        wanted.found[i] = wp.vec3i(known, axis, under)
        wanted.values[i] = limits


@wp.kernel
def take_planes(
    first: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    wanted: WantedPlanes,
    places: wp.array[int],
    planes: Planes,
):
    """Append the new planes to the `count` present ones, and move the others."""
    i = first + wp.tid()
    if wanted.touch[i] == 0:
        return
    found = wanted.found[i]
    k = found[0]
    if k < 0:
        k = count + places[i]
        planes.pairs[k] = pairs[i]
        planes.following[k] = wp.atomic_exch(planes.heads, pairs[i][0], k)
    planes.sides[k] = wp.vec2i(found[1], found[2])
    planes.values[k] = wanted.values[i]


@wp.kernel
def narrow_limits(
    first: int,
    planes: Planes,
    faces: wp.array[wp.vec3i],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
):
    """Narrow the limits of the vertices at a plane; minimum and maximum do not depend on the order of the atomics."""
    i = first + wp.tid()
    p = planes.pairs[i]
    axis = planes.sides[i][0]
    under = planes.sides[i][1]
    values = planes.values[i]
    for k in range(3):
        wp.atomic_min(upper, axis, faces[p[under]][k], values[0])
        wp.atomic_max(lower, axis, faces[p[1 - under]][k], values[1])


@wp.kernel
def settle_limits(first: int, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64]):
    """Reverse intervals whose limits conflict."""
    i = first + wp.tid()
    for c in range(3):
        low = wp.min(lower[c, i], upper[c, i])
        upper[c, i] = wp.max(lower[c, i], upper[c, i])
        lower[c, i] = low

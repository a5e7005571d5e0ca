# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""The kernels behind `intersection`: a tree of triangle boxes, asked once an edge, and a filter that settles pairs.

Every sign here comes with a forward error bound; a sign within its bound is in doubt, and a pair that hangs on one is
left OPEN for exact arithmetic. A fused multiply-add rounds less than the bounds allow for: they hold on every device.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# what the filter can say of a pair
APART = wp.constant(0)
CROSSING = wp.constant(1)
OPEN = wp.constant(2)

# error bounds of the determinants below relative to the sum of their terms' magnitudes (8 and 4 roundings at most), and
# an absolute part that covers underflow for coordinates up to FARTHEST
BOUND_3D = wp.constant(wp.float64(10.0 * 2.0**-53))
BOUND_2D = wp.constant(wp.float64(5.0 * 2.0**-53))
UNDERFLOW = wp.constant(wp.float64(1e-200))

# outward rounding of float32 boxes: an ulp of any number is less than this part of it
ULP = wp.constant(wp.float32(1.2e-7))
SMALLEST = wp.constant(wp.float32(1e-37))


@wp.func
def certain(value: wp.float64, bound: wp.float64):
    """1 or -1 where the sign of a determinant is beyond doubt, else 0."""
    if value > bound:
        return 1
    if value < -bound:
        return -1
    return 0


@wp.func
def cross_size(u: wp.vec3d, v: wp.vec3d):
    """The cross product with every term's magnitude taken: what its rounding errors are measured by."""
    return wp.vec3d(
        wp.abs(u[1] * v[2]) + wp.abs(u[2] * v[1]),
        wp.abs(u[2] * v[0]) + wp.abs(u[0] * v[2]),
        wp.abs(u[0] * v[1]) + wp.abs(u[1] * v[0]),
    )


@wp.func
def side_of_normal(normal: wp.vec3d, size: wp.vec3d, w: wp.vec3d):
    """On which side of a plane through the origin w lies, if rounding leaves that certain."""
    bound = BOUND_3D * wp.dot(size, wp.abs(w)) + UNDERFLOW
    return certain(wp.dot(normal, w), bound)


@wp.func
def side(u: wp.vec3d, v: wp.vec3d, w: wp.vec3d):
    """Sign of det(u, v, w), 0 when in doubt."""
    return side_of_normal(wp.cross(u, v), cross_size(u, v), w)


@wp.func
def turn(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d):
    """Sign of the area of abc in the plane, 0 when in doubt."""
    left = (b[0] - a[0]) * (c[1] - a[1])
    right = (b[1] - a[1]) * (c[0] - a[0])
    return certain(left - right, BOUND_2D * (wp.abs(left) + wp.abs(right)) + UNDERFLOW)


@wp.func
def beyond(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, p: wp.vec2d, q: wp.vec2d):
    """Do p and q both lie on the side of line ab where c is not?"""
    outside = turn(a, b, p)
    if outside == 0 or turn(a, b, q) != outside:
        return False
    return turn(a, b, c) == -outside


@wp.func
def without(v: wp.vec3d, axis: int):
    """The point seen along an axis."""
    if axis == 0:
        return wp.vec2d(v[1], v[2])
    if axis == 1:
        return wp.vec2d(v[2], v[0])
    return wp.vec2d(v[0], v[1])


@wp.func
def apart_along(axis: int, p3: wp.vec3d, q3: wp.vec3d, a3: wp.vec3d, b3: wp.vec3d, c3: wp.vec3d):
    """Is there a line, seen along the axis, with the segment on one side and the triangle on the other?"""
    p = without(p3, axis)
    q = without(q3, axis)
    a = without(a3, axis)
    b = without(b3, axis)
    c = without(c3, axis)
    all_on = turn(p, q, a)
    if all_on != 0 and turn(p, q, b) == all_on and turn(p, q, c) == all_on:
        return True
    return beyond(a, b, c, p, q) or beyond(b, c, a, p, q) or beyond(c, a, b, p, q)


@wp.func
def judge(p: wp.vec3d, q: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d):
    """Does segment pq meet triangle abc? APART and CROSSING are certain, OPEN is left to exact signs."""
    for k in range(3):
        if wp.max(p[k], q[k]) < wp.min(a[k], wp.min(b[k], c[k])):
            return APART
        if wp.min(p[k], q[k]) > wp.max(a[k], wp.max(b[k], c[k])):
            return APART
    # on which sides of the triangle's plane are the ends?
    u = b - a
    v = c - a
    normal = wp.cross(u, v)
    size = cross_size(u, v)
    side_p = side_of_normal(normal, size, p - a)
    side_q = side_of_normal(normal, size, q - a)
    if side_p * side_q == 1:
        return APART
    # round which edges does the segment's line turn which way?
    d = q - p
    turn_c = side(a - p, b - p, d)
    turn_a = side(b - p, c - p, d)
    if turn_a * turn_c == -1:
        return APART
    turn_b = side(c - p, a - p, d)
    if turn_b * turn_a == -1 or turn_b * turn_c == -1:
        return APART
    if side_p * side_q == -1 and turn_a * turn_b * turn_c != 0:
        return CROSSING
    # nearly in one plane: look for a gap as seen along each axis, best along the triangle's normal
    n = wp.abs(normal)
    axis = 0
    if n[1] > n[0]:
        axis = 1
    if n[2] > n[axis]:
        axis = 2
    for k in range(3):
        if apart_along((axis + k) % 3, p, q, a, b, c):
            return APART
    return OPEN


@wp.func
def boxed(x: wp.vec3d, centre: wp.vec3d, scale: wp.float64):
    """A point in the float32 space of the tree; centred and scaled, so that large coordinates keep small boxes."""
    return wp.vec3(scale * (x - centre))


@wp.func
def rounded_down(x: wp.vec3):
    """A little less along every axis than rounding may have taken away."""
    return x - ULP * wp.abs(x) - wp.vec3(SMALLEST)


@wp.func
def rounded_up(x: wp.vec3):
    """A little more, likewise."""
    return x + ULP * wp.abs(x) + wp.vec3(SMALLEST)


@wp.kernel
def box_triangles(
    first: int,
    x: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    centre: wp.vec3d,
    scale: wp.float64,
    lowers: wp.array[wp.vec3],
    uppers: wp.array[wp.vec3],
):
    """The boxes of triangles in float32, rounded outwards."""
    i = first + wp.tid()
    face = faces[i]
    a = boxed(x[face[0]], centre, scale)
    b = boxed(x[face[1]], centre, scale)
    c = boxed(x[face[2]], centre, scale)
    lowers[i] = rounded_down(wp.min(a, wp.min(b, c)))
    uppers[i] = rounded_up(wp.max(a, wp.max(b, c)))


@wp.struct
class Pairs:
    """What both passes over the tree read."""

    tree: wp.uint64
    x: wp.array[wp.vec3d]
    edges: wp.array[wp.vec2i]
    faces: wp.array[wp.vec3i]
    centre: wp.vec3d
    scale: wp.float64
    # body of every edge and triangle, and which bodies are looked at together; an empty table: all
    edge_body: wp.array[wp.int32]
    face_body: wp.array[wp.int32]
    body_pairs: wp.array2d[wp.int32]


@wp.func
def query_edge(pairs: Pairs, edge: wp.vec2i):
    """The triangles whose boxes meet that of an edge."""
    p = boxed(pairs.x[edge[0]], pairs.centre, pairs.scale)
    q = boxed(pairs.x[edge[1]], pairs.centre, pairs.scale)
    return wp.bvh_query_aabb(pairs.tree, rounded_down(wp.min(p, q)), rounded_up(wp.max(p, q)))


@wp.func
def judge_pair(pairs: Pairs, e: int, edge: wp.vec2i, p: wp.vec3d, q: wp.vec3d, f: int):
    """Whether an edge and a triangle that may meet are apart, cross, or must be looked at exactly."""
    face = pairs.faces[f]
    for k in range(3):
        if face[k] == edge[0] or face[k] == edge[1]:
            return APART
    if pairs.body_pairs.shape[0] > 0 and pairs.body_pairs[pairs.edge_body[e], pairs.face_body[f]] == 0:
        return APART
    return judge(p, q, pairs.x[face[0]], pairs.x[face[1]], pairs.x[face[2]])


@wp.kernel
def count_pairs(first: int, pairs: Pairs, counts: wp.array[wp.int32]):
    """How many triangles each edge crosses, or may cross."""
    e = first + wp.tid()
    edge = pairs.edges[e]
    p = pairs.x[edge[0]]
    q = pairs.x[edge[1]]
    found = wp.int32(0)
    f = wp.int32(0)
    query = query_edge(pairs, edge)
    while wp.bvh_query_next(query, f):
        if judge_pair(pairs, e, edge, p, q, f) != APART:
            found += 1
    counts[e] = found


@wp.kernel
def fill_pairs(
    first: int,
    pairs: Pairs,
    chosen: wp.array[wp.int32],
    starts: wp.array[wp.int64],
    found_face: wp.array[wp.int32],
    found_verdict: wp.array[wp.int8],
):
    """These triangles, and what was found about each, for the edges that have any."""
    i = first + wp.tid()
    e = chosen[i]
    edge = pairs.edges[e]
    p = pairs.x[edge[0]]
    q = pairs.x[edge[1]]
    slot = starts[i]
    f = wp.int32(0)
    query = query_edge(pairs, edge)
    while wp.bvh_query_next(query, f):
        verdict = judge_pair(pairs, e, edge, p, q, f)
        if verdict != APART:
            found_face[slot] = f
            found_verdict[slot] = wp.int8(verdict)
            slot += wp.int64(1)

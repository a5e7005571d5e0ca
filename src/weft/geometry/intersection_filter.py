# mypy: ignore-errors
# kernels are written in Warp's language, whose types mypy does not know
"""Kernels of `intersection`: queries of a tree of triangle boxes, and the floating-point filter in front of exact predicates.

Every sign of a determinant is compared with a forward error bound; a sign within its bound is uncertain, and a pair that
depends on one is left UNDECIDED for exact arithmetic. A fused multiply-add rounds less than the bounds allow for, so they
hold on every device. `weft.analysis.crossing.crosses` tests the same pairs for another purpose: there every sign
must be 1 or -1 and antisymmetric in its vertices, so it perturbs the vertices, never leaves a pair undecided, and is
compiled without fused operations. The two share `certain`, `cross_size` and `shared_vertices`.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

# verdicts of the filter
DISJOINT = wp.constant(0)
CROSSES = wp.constant(1)
UNDECIDED = wp.constant(2)

# error bounds of the determinants below, relative to the sum of the magnitudes of their terms (8 and 4 roundings at most,
# and room for those of the bound), and an absolute bound that covers underflow for coordinates up to FARTHEST
BOUND_3D = wp.constant(wp.float64(10.0 * 2.0**-53))
BOUND_2D = wp.constant(wp.float64(5.0 * 2.0**-53))
UNDERFLOW = wp.constant(wp.float64(1e-200))

# outward rounding of float32 boxes: an ulp of a number is less than this fraction of it, or than the smallest number
ULP = wp.constant(wp.float32(1.2e-7))
SMALLEST = wp.constant(wp.float32(1e-37))


@wp.func
def certain(value: wp.float64, bound: wp.float64):
    """The sign of a determinant, 1 or -1, if its value exceeds its error bound; else 0."""
    if value > bound:
        return 1
    if value < -bound:
        return -1
    return 0


@wp.func
def cross_size(u: wp.vec3d, v: wp.vec3d):
    """The cross product with every product replaced by its magnitude: the measure of its rounding errors."""
    return wp.vec3d(
        wp.abs(u[1] * v[2]) + wp.abs(u[2] * v[1]),
        wp.abs(u[2] * v[0]) + wp.abs(u[0] * v[2]),
        wp.abs(u[0] * v[1]) + wp.abs(u[1] * v[0]),
    )


@wp.func
def side_of_normal(normal: wp.vec3d, size: wp.vec3d, w: wp.vec3d):
    """Sign of dot(normal, w) for a normal from a cross product with this `cross_size`; 0 if uncertain."""
    bound = BOUND_3D * wp.dot(size, wp.abs(w)) + UNDERFLOW
    return certain(wp.dot(normal, w), bound)


@wp.func
def side(u: wp.vec3d, v: wp.vec3d, w: wp.vec3d):
    """Sign of det(u, v, w); 0 if uncertain."""
    return side_of_normal(wp.cross(u, v), cross_size(u, v), w)


@wp.func
def turn(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d):
    """Orientation of abc in the plane; 0 if uncertain."""
    left = (b[0] - a[0]) * (c[1] - a[1])
    right = (b[1] - a[1]) * (c[0] - a[0])
    return certain(left - right, BOUND_2D * (wp.abs(left) + wp.abs(right)) + UNDERFLOW)


@wp.func
def beyond(a: wp.vec2d, b: wp.vec2d, c: wp.vec2d, p: wp.vec2d, q: wp.vec2d):
    """Do p and q certainly lie on the other side of line ab than c?"""
    outside = turn(a, b, p)
    if outside == 0 or turn(a, b, q) != outside:
        return False
    return turn(a, b, c) == -outside


@wp.func
def without(v: wp.vec3d, axis: int):
    """The projection of a point along an axis."""
    if axis == 0:
        return wp.vec2d(v[1], v[2])
    if axis == 1:
        return wp.vec2d(v[2], v[0])
    return wp.vec2d(v[0], v[1])


@wp.func
def separated_along(axis: int, p3: wp.vec3d, q3: wp.vec3d, a3: wp.vec3d, b3: wp.vec3d, c3: wp.vec3d):
    """Does a line certainly separate the projections of segment and triangle along the axis?"""
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
    """Does segment pq intersect triangle abc? DISJOINT and CROSSES are certain, UNDECIDED is left to exact predicates."""
    for k in range(3):
        if wp.max(p[k], q[k]) < wp.min(a[k], wp.min(b[k], c[k])):
            return DISJOINT
        if wp.min(p[k], q[k]) > wp.max(a[k], wp.max(b[k], c[k])):
            return DISJOINT
    # the sides of the triangle's plane on which the ends lie
    u = b - a
    v = c - a
    normal = wp.cross(u, v)
    size = cross_size(u, v)
    side_p = side_of_normal(normal, size, p - a)
    side_q = side_of_normal(normal, size, q - a)
    if side_p * side_q == 1:
        return DISJOINT
    # the sense in which the line of the segment passes each side of the triangle
    d = q - p
    turn_c = side(a - p, b - p, d)
    turn_a = side(b - p, c - p, d)
    if turn_a * turn_c == -1:
        return DISJOINT
    turn_b = side(c - p, a - p, d)
    if turn_b * turn_a == -1 or turn_b * turn_c == -1:
        return DISJOINT
    if side_p * side_q == -1 and turn_a * turn_b * turn_c != 0:
        return CROSSES
    # nearly coplanar: look for a separating line in each projection, first that nearest to the normal
    n = wp.abs(normal)
    axis = 0
    if n[1] > n[0]:
        axis = 1
    if n[2] > n[axis]:
        axis = 2
    for k in range(3):
        if separated_along((axis + k) % 3, p, q, a, b, c):
            return DISJOINT
    return UNDECIDED


@wp.func
def shared_vertices(one: wp.vec3i, other: wp.vec3i) -> int:
    """How many vertices two triangles share."""
    count = int(0)
    for k in range(3):
        if one[k] == other[0] or one[k] == other[1] or one[k] == other[2]:
            count += 1
    return count


@wp.func
def boxed(x: wp.vec3d, centre: wp.vec3d, scale: wp.float64):
    """A point in the float32 coordinates of the tree: centred and scaled, so that boxes far from the origin stay tight."""
    return wp.vec3(scale * (x - centre))


@wp.func
def rounded_down(x: wp.vec3):
    """A lower bound of the point before it was rounded to float32."""
    return x - ULP * wp.abs(x) - wp.vec3(SMALLEST)


@wp.func
def rounded_up(x: wp.vec3):
    """An upper bound of the point before it was rounded to float32."""
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
    """The box of each triangle in float32, rounded outwards."""
    i = first + wp.tid()
    face = faces[i]
    a = boxed(x[face[0]], centre, scale)
    b = boxed(x[face[1]], centre, scale)
    c = boxed(x[face[2]], centre, scale)
    lowers[i] = rounded_down(wp.min(a, wp.min(b, c)))
    uppers[i] = rounded_up(wp.max(a, wp.max(b, c)))


@wp.struct
class Pairs:
    """The mesh and its tree, as both passes over the edges read them."""

    tree: wp.uint64
    x: wp.array[wp.vec3d]
    edges: wp.array[wp.vec2i]
    faces: wp.array[wp.vec3i]
    centre: wp.vec3d
    scale: wp.float64
    # body of every edge and triangle, and which bodies are tested against each other; an empty table: all
    edge_body: wp.array[wp.int32]
    face_body: wp.array[wp.int32]
    body_pairs: wp.array2d[wp.int32]


@wp.func
def query_edge(pairs: Pairs, edge: wp.vec2i):
    """The triangles whose boxes overlap that of an edge."""
    p = boxed(pairs.x[edge[0]], pairs.centre, pairs.scale)
    q = boxed(pairs.x[edge[1]], pairs.centre, pairs.scale)
    return wp.bvh_query_aabb(pairs.tree, rounded_down(wp.min(p, q)), rounded_up(wp.max(p, q)))


@wp.func
def judge_pair(pairs: Pairs, e: int, edge: wp.vec2i, p: wp.vec3d, q: wp.vec3d, f: int):
    """The verdict on an edge and a triangle whose boxes overlap; DISJOINT also if they share a vertex or need no test."""
    face = pairs.faces[f]
    for k in range(3):
        if face[k] == edge[0] or face[k] == edge[1]:
            return DISJOINT
    if pairs.body_pairs.shape[0] > 0 and pairs.body_pairs[pairs.edge_body[e], pairs.face_body[f]] == 0:
        return DISJOINT
    return judge(p, q, pairs.x[face[0]], pairs.x[face[1]], pairs.x[face[2]])


@wp.kernel
def count_pairs(first: int, pairs: Pairs, counts: wp.array[wp.int32]):
    """Count the triangles that each edge crosses, or may cross."""
    e = first + wp.tid()
    edge = pairs.edges[e]
    p = pairs.x[edge[0]]
    q = pairs.x[edge[1]]
    found = wp.int32(0)
    f = wp.int32(0)
    query = query_edge(pairs, edge)
    while wp.bvh_query_next(query, f):
        if judge_pair(pairs, e, edge, p, q, f) != DISJOINT:
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
    """List these triangles and their verdicts, for the edges that have any."""
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
        if verdict != DISJOINT:
            found_face[slot] = f
            found_verdict[slot] = wp.int8(verdict)
            slot += wp.int64(1)

"""Colliders as kernels take them: where the nearest point of a shape or mesh is, and where it goes over the step."""

# mypy: disable-error-code="arg-type, assignment, attr-defined"

import warp as wp

from weft.geometry.stencil import nearest_point_triangle, on_segment

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-12))
# share of an edge at its ends where the vertex keeps off a thin collider, and not the edge
EDGE_END = wp.constant(wp.float64(0.02))

PLANE = wp.constant(0)
SPHERE = wp.constant(1)
CAPSULE = wp.constant(2)
BOX = wp.constant(3)
MESH = wp.constant(4)
TAPERED = wp.constant(5)


@wp.struct
class Shape:
    """A collider; the fields from `place` on belong to a step and are set by `place_shape`."""

    kind: int
    number: int
    body: int
    off: int
    """1 where cloth does not meet it for now"""
    closed: int
    """whether a mesh has an inside"""
    first_vertex: int
    """of a mesh, among the vertices of all meshes"""
    mesh: wp.uint64
    size: wp.vec3d
    """half extents of a box; radius, half length and upper radius of a capsule; radius of a sphere"""
    centre: wp.vec3d
    """the middle of its vertices in the frame of its pose; shapes and meshes are about that"""
    bound: wp.float64
    """radius of a ball about the centre that holds it; negative where there is none"""
    depth: wp.float64
    """largest distance of a point inside from the surface"""
    first_face: int
    """of a mesh, among the triangles of all meshes"""
    edge: wp.float64
    """length of the edges of the cloth"""
    rise: wp.float64
    """largest extra distance that cloth keeps so that its triangles do not cut the curved surface, or its ridges"""
    span: wp.float64
    """length of the longest edges of cloth, where the collider is so thin that it fits between vertices; else 0"""
    change: wp.float64
    """largest displacement of a vertex of a deforming mesh in the step"""
    place: wp.vec3d
    """the centre in the world at the start of the step"""
    turn: wp.mat33d
    """from its frame to the world"""
    shift: wp.vec3d
    """displacement of the centre over the step"""
    spin: wp.vec3d
    """rotation vector of the step"""
    way: wp.float64
    """largest displacement of any point of it in the step"""


@wp.struct
class ColliderArrays:
    """All colliders of a scene over a step."""

    shapes: wp.array[Shape]
    start: wp.array[wp.mat44d]
    """pose of each collider at the start of the step: from its own frame to the world"""
    end: wp.array[wp.mat44d]
    mesh_start: wp.array[wp.vec3d]
    """vertices of all meshes about their centres, in the frames of their poses"""
    mesh_end: wp.array[wp.vec3d]
    ridges: wp.array[wp.vec3d]
    """of each corner of each triangle: the slope of the surface across the opposite edge"""
    sags: wp.array[wp.vec3d]
    """of each corner of each triangle: how far the curved surface falls away within a triangle of cloth"""
    sticking: wp.array2d[wp.float64]
    """static friction of two bodies"""
    sliding: wp.array2d[wp.float64]
    cores: wp.array[wp.vec4d]
    """half of the axis of each round collider, about its centre, and its least radius; radius 0: it has no core"""


@wp.struct
class Touch:
    """Nearest point of a collider."""

    found: int
    gap: wp.float64
    """distance, negative inside"""
    normal: wp.vec3d
    """away from the collider"""
    nearest: wp.vec3d
    """on its surface, in the world"""
    way: wp.vec3d
    """displacement of that point over the step"""
    rise: wp.float64
    """extra distance that cloth keeps where the surface curves or has a ridge"""
    along: wp.float64
    """where on an edge of cloth, from 0 to 1, the point nearest to it is"""


@wp.func
def rotation_vector(turn: wp.mat33d) -> wp.vec3d:
    """Axis times angle of a rotation by less than half a turn."""
    half = HALF * wp.vec3d(turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    sine = wp.length(half)
    if sine == ZERO:
        return half
    cosine = HALF * (turn[0, 0] + turn[1, 1] + turn[2, 2] - ONE)
    return (wp.atan2(sine, cosine) / sine) * half


@wp.func
def rotation_of(pose: wp.mat44d) -> wp.mat33d:
    """The upper left of a pose."""
    return wp.mat33d(
        pose[0, 0], pose[0, 1], pose[0, 2],
        pose[1, 0], pose[1, 1], pose[1, 2],
        pose[2, 0], pose[2, 1], pose[2, 2],
    )  # fmt: skip


@wp.func
def carried(pose: wp.mat44d, q: wp.vec3d) -> wp.vec3d:
    """A point of the frame, transformed by a pose."""
    return rotation_of(pose) * q + wp.vec3d(pose[0, 3], pose[1, 3], pose[2, 3])


@wp.func
def place_shape(given: Shape, start: wp.mat44d, end: wp.mat44d) -> Shape:
    """A collider that moves from one pose to another over the step."""
    shape = given
    shape.place = carried(start, given.centre)
    shape.turn = rotation_of(start)
    shape.shift = carried(end, given.centre) - shape.place
    shape.spin = rotation_vector(rotation_of(end) * wp.transpose(shape.turn))
    shape.way = wp.length(shape.shift) + wp.length(shape.spin) * wp.max(given.bound, ZERO) + given.change
    return shape


@wp.func
def direction(r: wp.vec3d, length: wp.float64, move: wp.vec3d) -> wp.vec3d:
    """Unit vector along r; where r vanishes, against the motion; without motion, up."""
    if length > TINY:
        return r / length
    speed = wp.length(move)
    if speed > TINY:
        return -move / speed
    return wp.vec3d(ZERO, ONE, ZERO)


@wp.func
def signed_unit(value: wp.float64) -> wp.float64:
    if value < ZERO:
        return -ONE
    return ONE


@wp.func
def nearest_on_box(q: wp.vec3d, size: wp.vec3d) -> wp.vec4d:
    """Way out of a box in its frame: the direction, and the distance (negative inside)."""
    inside = size - wp.vec3d(wp.abs(q[0]), wp.abs(q[1]), wp.abs(q[2]))
    least = wp.min(inside[0], wp.min(inside[1], inside[2]))
    if least >= ZERO:
        n = wp.vec3d()
        if inside[0] == least:
            n[0] = signed_unit(q[0])
        elif inside[1] == least:
            n[1] = signed_unit(q[1])
        else:
            n[2] = signed_unit(q[2])
        return wp.vec4d(n[0], n[1], n[2], -least)
    r = q - wp.vec3d(
        wp.clamp(q[0], -size[0], size[0]), wp.clamp(q[1], -size[1], size[1]), wp.clamp(q[2], -size[2], size[2])
    )
    length = wp.length(r)
    return wp.vec4d(r[0] / length, r[1] / length, r[2] / length, length)


@wp.func
def nearest_on_tapered(q: wp.vec3d, size: wp.vec3d) -> wp.vec4d:
    """Way out of a tapered capsule in its frame, a cone that touches two spheres: the direction, and the distance."""
    slope = HALF * (size[0] - size[2]) / size[1]
    across = wp.sqrt(ONE - slope * slope)
    radial = wp.sqrt(q[0] * q[0] + q[2] * q[2])
    y = q[1] + size[1]
    # where the line through q along the normal of the cone meets the axis says which of the three is nearest
    along = across * y - slope * radial
    centre = ZERO
    radius = size[0]
    if along > across * wp.float64(2.0) * size[1]:
        centre = wp.float64(2.0) * size[1]
        radius = size[2]
    elif along >= ZERO:
        n = wp.vec3d(across, slope, ZERO)
        if radial > TINY:
            n = wp.vec3d(across * q[0] / radial, slope, across * q[2] / radial)
        return wp.vec4d(n[0], n[1], n[2], across * radial + slope * y - size[0])
    r = wp.vec3d(q[0], y - centre, q[2])
    length = wp.length(r)
    n = wp.vec3d(ONE, ZERO, ZERO)
    if length > TINY:
        n = r / length
    return wp.vec4d(n[0], n[1], n[2], length - radius)


@wp.func
def rise_near_ridges(
    bary: wp.vec3d, slopes: wp.vec3d, side: wp.float64, edge: wp.float64, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d
) -> wp.float64:
    """Extra distance from a triangle at which edges of cloth do not cut the ridges beside it.

    A chord of length L from one side of a ridge to the other passes under it by 2 tan(w / 2) d (L - d) / L, where w is the
    angle by which the surface turns and d is how far from the ridge the chord starts: so high are both of its ends.
    Where several ridges are near, they add up.
    """
    area = wp.length(wp.cross(b - a, c - a))
    sides = wp.vec3d(wp.length(c - b), wp.length(a - c), wp.length(b - a))
    rise = ZERO
    for k in range(3):
        far = bary[k] * area / wp.max(sides[k], TINY)
        if far < edge:
            rise += wp.max(side * slopes[k], ZERO) * far * (edge - far) / edge
    return rise


@wp.func
def touch_mesh(
    shape: Shape,
    q: wp.vec3d,
    move: wp.vec3d,
    reach: wp.float64,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    ridges: wp.array[wp.vec3d],
    sags: wp.array[wp.vec3d],
) -> Touch:
    """The nearest point of a mesh, all in its frame; found only within the reach."""
    touch = Touch()
    probe = wp.vec3(wp.float32(q[0]), wp.float32(q[1]), wp.float32(q[2]))
    # a little farther: the tree has single precision
    far = wp.float32(reach * wp.float64(1.001) + wp.float64(1e-5))
    face = int(-1)
    sign = float(1.0)
    if shape.closed != 0:
        signed = wp.mesh_query_point_sign_normal(shape.mesh, probe, wp.max(far, wp.float32(shape.depth)))
        if signed.result:
            face = signed.face
            sign = signed.sign
    else:
        plain = wp.mesh_query_point_no_sign(shape.mesh, probe, far)
        if plain.result:
            face = plain.face
    if face < 0:
        return touch
    i = shape.first_vertex + wp.mesh_get_index(shape.mesh, 3 * face)
    j = shape.first_vertex + wp.mesh_get_index(shape.mesh, 3 * face + 1)
    k = shape.first_vertex + wp.mesh_get_index(shape.mesh, 3 * face + 2)
    a = start[i]
    b = start[j]
    c = start[k]
    bary = nearest_point_triangle(q, a, b, c)
    touch.found = 1
    touch.nearest = bary[0] * a + bary[1] * b + bary[2] * c
    touch.way = bary[0] * (end[i] - a) + bary[1] * (end[j] - b) + bary[2] * (end[k] - c)
    r = q - touch.nearest
    length = wp.length(r)
    touch.gap = wp.float64(sign) * length
    touch.normal = wp.float64(sign) * direction(r, length, move)
    if length <= TINY and shape.closed != 0:
        touch.normal = wp.normalize(wp.cross(b - a, c - a))
    if shape.rise > ZERO:
        facing = signed_unit(wp.dot(touch.normal, wp.cross(b - a, c - a)))
        touch.rise = rise_near_ridges(bary, ridges[shape.first_face + face], facing, shape.edge, a, b, c)
        touch.rise = wp.max(touch.rise, facing * wp.dot(bary, sags[shape.first_face + face]))
    return touch


@wp.func
def is_out_of_reach(shape: Shape, x: wp.vec3d, far: wp.float64) -> bool:
    """Whether a point is certainly farther than this from a collider, by a cheap bound."""
    r = x - shape.place
    if shape.off != 0:
        return True
    if shape.kind == BOX or shape.kind == MESH or shape.kind == TAPERED:
        limit = far + shape.bound + shape.rise
        return wp.length_sq(r) > limit * limit
    axis = wp.vec3d(shape.turn[0, 1], shape.turn[1, 1], shape.turn[2, 1])
    along = wp.dot(axis, r)
    if shape.kind == PLANE:
        return along > far
    # a sphere is a capsule without length
    limit = far + shape.size[0] + shape.rise
    return wp.length_sq(r - wp.clamp(along, -shape.size[1], shape.size[1]) * axis) > limit * limit


@wp.func
def touch_shape(
    shape: Shape,
    x: wp.vec3d,
    move: wp.vec3d,
    reach: wp.float64,
    colliders: ColliderArrays,
) -> Touch:
    """The nearest point of a collider and its displacement over the step; not found where it is out of reach.

    `reach` is thickness and static collision radius together.
    """
    touch = Touch()
    r = x - shape.place
    if shape.kind != MESH:
        touch.rise = shape.rise
    if shape.kind == SPHERE:
        length = wp.length(r)
        touch.normal = direction(r, length, move - shape.shift)
        touch.gap = length - shape.size[0]
        touch.nearest = shape.place + shape.size[0] * touch.normal
    elif shape.kind == CAPSULE:
        axis = wp.vec3d(shape.turn[0, 1], shape.turn[1, 1], shape.turn[2, 1])
        off = r - wp.clamp(wp.dot(axis, r), -shape.size[1], shape.size[1]) * axis
        length = wp.length(off)
        if length > TINY:
            touch.normal = off / length
        else:
            # on the axis: against the motion across it; without any, to one side
            across = move - shape.shift
            across -= wp.dot(axis, across) * axis
            touch.normal = wp.vec3d(shape.turn[0, 0], shape.turn[1, 0], shape.turn[2, 0])
            if wp.length(across) > TINY:
                touch.normal = -wp.normalize(across)
        touch.gap = length - shape.size[0]
        touch.nearest = x - touch.gap * touch.normal
    else:
        q = wp.transpose(shape.turn) * r
        local_move = wp.transpose(shape.turn) * (move - shape.shift)
        if shape.kind == PLANE:
            touch.normal = shape.turn * wp.vec3d(ZERO, ONE, ZERO)
            touch.gap = q[1]
            touch.nearest = x - q[1] * touch.normal
        elif shape.kind == BOX or shape.kind == TAPERED:
            out = nearest_on_tapered(q, shape.size)
            if shape.kind == BOX:
                out = nearest_on_box(q, shape.size)
            touch.normal = shape.turn * wp.vec3d(out[0], out[1], out[2])
            touch.gap = out[3]
            touch.nearest = x - out[3] * touch.normal
        else:
            near = touch_mesh(
                shape, q, local_move, reach + shape.rise + shape.way + wp.length(move), colliders.mesh_start,
                colliders.mesh_end, colliders.ridges, colliders.sags,
            )  # fmt: skip
            if near.found == 0:
                return touch
            touch.normal = shape.turn * near.normal
            touch.gap = near.gap
            touch.nearest = shape.place + shape.turn * near.nearest
            touch.way = shape.turn * near.way
            touch.rise = near.rise
    touch.way += shape.shift + wp.cross(shape.spin, touch.nearest - shape.place)
    if wp.min(touch.gap, touch.gap + wp.dot(touch.normal, move - touch.way)) <= reach + touch.rise:
        touch.found = 1
    else:
        touch.found = 0
    return touch


@wp.func
def touch_home(shape: Shape, x: wp.vec3d, home: wp.vec3d, core: wp.vec4d) -> Touch:
    """The point of a collider on the side where a vertex was before the collider went through the cloth."""
    touch = Touch()
    half = shape.turn * wp.vec3d(core[0], core[1], core[2])
    along = on_segment(x, shape.place - half, shape.place + half)
    inner = shape.place + (wp.float64(2.0) * along - ONE) * half
    touch.normal = shape.turn * home
    touch.gap = wp.dot(touch.normal, x - inner) - core[3]
    touch.nearest = x - touch.gap * touch.normal
    touch.way = shape.shift + wp.cross(shape.spin, inner - shape.place)
    touch.found = 1
    return touch


@wp.func
def nearest_on_edge(shape: Shape, a: wp.vec3d, b: wp.vec3d) -> wp.float64:
    """Where an edge is nearest to the axis of a capsule or the centre of anything else, from 0 at a to 1 at b."""
    u = b - a
    r = a - shape.place
    squared = wp.max(wp.dot(u, u), TINY * TINY)
    t = wp.clamp(-wp.dot(u, r) / squared, ZERO, ONE)
    if shape.kind == CAPSULE:
        axis = wp.vec3d(shape.turn[0, 1], shape.turn[1, 1], shape.turn[2, 1])
        along = wp.dot(axis, u)
        across = squared - along * along
        if across > TINY * squared:
            t = wp.clamp((along * wp.dot(axis, r) - wp.dot(u, r)) / across, ZERO, ONE)
        # the point of the axis nearest to that, then the point of the edge nearest to it
        inner = wp.clamp(wp.dot(axis, r + t * u), -shape.size[1], shape.size[1])
        t = wp.clamp(wp.dot(u, inner * axis - r) / squared, ZERO, ONE)
    return t


@wp.func
def touch_edge(
    shape: Shape,
    a: wp.vec3d,
    b: wp.vec3d,
    move_a: wp.vec3d,
    move_b: wp.vec3d,
    reach: wp.float64,
    colliders: ColliderArrays,
) -> Touch:
    """The point of a thin collider nearest to an edge, where the edge is nearest between its ends; else not found.

    Of a sphere and a capsule that point is exact; of others the nearest of three points of the edge, made better twice.
    There the edge is at a right angle to the normal, so that both of its ends are as far beyond the plane as the nearest point.
    """
    t = nearest_on_edge(shape, a, b)
    if shape.kind == BOX or shape.kind == MESH or shape.kind == TAPERED:
        least = wp.float64(1.0e30)
        for k in range(1, 4):
            s = wp.float64(0.25) * wp.float64(k)
            near = touch_shape(shape, a + s * (b - a), move_a + s * (move_b - move_a), reach, colliders)
            if near.found != 0 and near.gap < least:
                least = near.gap
                t = s
        for _ in range(2):
            near = touch_shape(shape, a + t * (b - a), move_a + t * (move_b - move_a), reach, colliders)
            if near.found != 0:
                t = wp.clamp(wp.dot(near.nearest - a, b - a) / wp.max(wp.length_sq(b - a), TINY), ZERO, ONE)
    touch = Touch()
    if t > EDGE_END and t < ONE - EDGE_END:
        touch = touch_shape(shape, a + t * (b - a), move_a + t * (move_b - move_a), reach, colliders)
        touch.along = t
    return touch

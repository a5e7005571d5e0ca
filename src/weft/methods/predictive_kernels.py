"""A step of `predictive` as kernels: all of it in one serial loop for small cloth, and one kernel a stage for large.

On a CPU a kernel over one item is plain compiled serial code. A step of a few hundred vertices takes less time than it
takes to hand work to threads or to launch a kernel for each of a dozen colours, so it is one launch.
"""

import warp as wp

from weft.dynamics.fabric import (
    attach_vertex,
    bend_quad,
    end_substep,
    follow_goal,
    point,
    predict_vertex,
    start_vertex,
    stretch_pair,
)
from weft.response.collider_contacts import Shape, is_out_of_reach, place_shape, solve_half_space, touch_shape
from weft.response.predictive_contacts import refresh_contact, solve_contact, vertex_normal

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))


@wp.struct
class Numbers:
    """What a step is told; on the CPU it can be changed between launches at no cost."""

    dt: wp.float64
    gravity: wp.vec3d
    air_damping: wp.float64
    push_speed: wp.float64
    radius: wp.float64
    """static collision radius"""
    collider_thickness: wp.float64
    friction: wp.float64
    """times what the materials say"""
    vertices: int
    substeps: int
    sweeps: int
    pairs: int
    quads: int
    attachments: int
    goals: int
    contacts: int
    cached: int
    """1 where the contacts are those of other steps"""
    colliders: int
    windy: int
    rehearsal: int
    """1 where the step is only to see where it leads"""


@wp.func
def way_of(
    i: int,
    dt: wp.float64,
    gravity: wp.vec3d,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    force: wp.array[wp.vec3d],
) -> wp.vec4d:
    """The displacement of a vertex over the step if nothing stopped it, and its length."""
    way = target[i] - x[i]
    if inverse_mass[i] > ZERO:
        way = dt * (v[i] + dt * (gravity + inverse_mass[i] * force[i]))
    return wp.vec4d(way[0], way[1], way[2], wp.length(way))


@wp.func
def wind_on(i: int, offsets: wp.array[int], items: wp.array[int], face_force: wp.array[wp.vec3d]) -> wp.vec3d:
    """The wind's force on a vertex."""
    total = wp.vec3d()
    for s in range(offsets[i], offsets[i + 1]):
        total += face_force[items[s] // 3]
    return total


@wp.func
def stacked(
    i: int,
    normal: wp.vec3d,
    x: wp.array[wp.vec3d],
    stack: wp.array[wp.vec2d],
    offsets: wp.array[int],
    items: wp.array[int],
    faces: wp.array[wp.vec3i],
) -> wp.float64:
    """The thickness of the layers between a vertex and a collider: those under it, or over it, as the collider is."""
    between = stack[i]
    if between[0] + between[1] == ZERO:
        return ZERO
    if wp.dot(vertex_normal(i, x, faces, offsets, items), normal) > ZERO:
        return between[0]
    return between[1]


@wp.func
def write_half_space(
    slot: int,
    i: int,
    xi: wp.vec3d,
    gap: wp.float64,
    normal: wp.vec3d,
    way: wp.vec3d,
    thick: wp.float64,
    mu: wp.vec2d,
    vertices: wp.array[int],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[wp.vec2d],
    ways: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
):
    """The half-space of a vertex in front of a collider."""
    vertices[slot] = i
    normals[slot] = normal
    offsets[slot] = wp.vec2d(wp.dot(normal, xi) - gap, wp.dot(normal, way))
    ways[slot] = way
    thickness[slot] = thick
    friction[slot] = mu


@wp.struct
class Arrays:
    """All arrays of a step: one argument instead of fifty makes a launch four times as fast."""

    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    inverse_mass: wp.array[wp.float64]
    cloth_thickness: wp.array[wp.float64]
    cloth: wp.array[int]
    stack: wp.array[wp.vec2d]
    corner_offsets: wp.array[int]
    corners: wp.array[int]
    faces: wp.array[wp.vec3i]
    face_offsets: wp.array[int]
    face_items: wp.array[int]
    face_force: wp.array[wp.vec3d]
    pairs: wp.array[wp.vec2i]
    pair_springs: wp.array[wp.vec3d]
    pair_pull: wp.array[wp.float64]
    quads: wp.array[wp.vec4i]
    quad_weights: wp.array[wp.vec4d]
    quad_springs: wp.array[wp.vec3d]
    quad_pull: wp.array[wp.vec4d]
    attached: wp.array[wp.vec2i]
    lengths: wp.array[wp.float64]
    goal_vertices: wp.array[int]
    goal_springs: wp.array[wp.vec3d]
    goal_starts: wp.array[wp.vec3d]
    goals: wp.array[wp.vec3d]
    contact_vertices: wp.array[wp.vec4i]
    contact_kinds: wp.array[int]
    contact_weights: wp.array[wp.vec4d]
    contact_normals: wp.array[wp.vec3d]
    contact_thickness: wp.array[wp.float64]
    contact_friction: wp.array[wp.vec2d]
    contact_pushed: wp.array[int]
    contact_triangles: wp.array[int]
    across: wp.array[wp.vec3i]
    shapes: wp.array[Shape]
    pose_start: wp.array[wp.mat44d]
    pose_end: wp.array[wp.mat44d]
    mesh_start: wp.array[wp.vec3d]
    mesh_end: wp.array[wp.vec3d]
    sticking: wp.array2d[wp.float64]
    sliding: wp.array2d[wp.float64]
    half_vertices: wp.array[int]
    half_normals: wp.array[wp.vec3d]
    half_offsets: wp.array[wp.vec2d]
    half_ways: wp.array[wp.vec3d]
    half_thickness: wp.array[wp.float64]
    half_friction: wp.array[wp.vec2d]
    half_pushed: wp.array[int]
    half_count: wp.array[int]
    force: wp.array[wp.vec3d]
    ways: wp.array[wp.vec4d]
    p: wp.array[wp.vec4d]
    before: wp.array[wp.vec4d]
    start: wp.array[wp.vec4d]


@wp.kernel
def advance_in_order(first: int, settings: wp.array[Numbers], a: Arrays):
    """A whole step, serial: launched with one item."""
    begin = first + wp.tid()
    s = settings[begin]
    dt = s.dt
    h = dt / wp.float64(s.substeps)
    per_h = ONE / h
    part = ONE / wp.float64(s.substeps)

    for i in range(s.vertices):
        start_vertex(i, a.x, a.inverse_mass, a.p)
        if s.windy != 0:
            a.force[i] = wind_on(i, a.face_offsets, a.face_items, a.face_force)
        a.ways[i] = way_of(i, dt, s.gravity, a.x, a.v, a.target, a.inverse_mass, a.force)

    # half-spaces of the colliders, collider by collider
    halves = int(0)
    for k in range(s.colliders):
        shape = place_shape(a.shapes[k], a.pose_start[k], a.pose_end[k])
        for i in range(s.vertices):
            xi = a.x[i]
            thick = HALF * (a.cloth_thickness[i] + s.collider_thickness)
            reach = thick + a.stack[i][0] + a.stack[i][1] + s.radius
            if a.inverse_mass[i] > ZERO and not is_out_of_reach(shape, xi, reach + shape.way + a.ways[i][3]):
                touch = touch_shape(shape, xi, point(a.ways[i]), reach, a.mesh_start, a.mesh_end)
                if touch.found != 0:
                    thick += stacked(i, touch.normal, a.x, a.stack, a.corner_offsets, a.corners, a.faces)
                    mu = wp.vec2d(a.sticking[a.cloth[i], shape.body], a.sliding[a.cloth[i], shape.body])
                    write_half_space(
                        halves, i, xi, touch.gap, touch.normal, touch.way, thick, mu, a.half_vertices, a.half_normals,
                        a.half_offsets, a.half_ways, a.half_thickness, a.half_friction,
                    )  # fmt: skip
                    halves += 1
    a.half_count[0] = halves
    if s.cached != 0:
        for i in range(s.contacts):
            refresh_contact(
                i, a.faces, a.across, a.x, a.contact_vertices, a.contact_kinds, a.contact_triangles, a.contact_weights,
                a.contact_normals, a.corner_offsets, a.corners,
            )  # fmt: skip

    for substep in range(s.substeps):
        progress = wp.float64(substep + 1) * part
        for i in range(s.vertices):
            predict_vertex(
                i, a.x, a.target, a.force[i], s.gravity, s.air_damping, h, progress, a.v, a.p, a.before, a.start
            )
        for sweep in range(s.sweeps):
            for i in range(s.pairs):
                stretch_pair(i, a.pairs, a.pair_springs, sweep, s.sweeps, per_h, a.pair_pull, a.before, a.p)
            for i in range(s.quads):
                bend_quad(
                    i, a.quads, a.quad_weights, a.quad_springs, sweep, s.sweeps, per_h, a.quad_pull, a.before, a.p
                )
            for i in range(s.goals):
                follow_goal(
                    i, a.goal_vertices, a.goal_springs, a.goal_starts, a.goals, h, progress, part, a.before, a.p
                )  # fmt: skip
            for i in range(s.attachments):
                attach_vertex(i, a.attached, a.lengths, a.p)
            for i in range(s.contacts):
                solve_contact(
                    i, a.contact_vertices, a.contact_kinds, a.contact_weights, a.contact_normals, a.contact_thickness,
                    a.contact_friction, s.friction, h * s.push_speed, a.contact_pushed, a.start, a.before, a.p,
                )  # fmt: skip
            for i in range(halves):
                solve_half_space(
                    i, a.half_vertices, a.half_normals, a.half_offsets, a.half_ways, a.half_thickness, a.half_friction,
                    s.friction, progress, part, h * s.push_speed, a.half_pushed, a.start, a.before, a.p,
                )  # fmt: skip
        for i in range(s.vertices):
            end_substep(i, per_h, a.p, a.before, a.v)

    for i in range(s.vertices):
        a.x[i] = point(a.p[i])
    if s.rehearsal == 0:
        for k in range(s.colliders):
            a.pose_start[k] = a.pose_end[k]


@wp.kernel
def begin_step(
    first: int,
    settings: wp.array[Numbers],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    face_offsets: wp.array[int],
    face_items: wp.array[int],
    face_force: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    end: wp.array[wp.vec3d],
):
    """Rows of all vertices, the wind's force, which is held for the step, and where nothing would stop them."""
    i = first + wp.tid()
    start_vertex(i, x, inverse_mass, p)
    if settings[0].windy != 0:
        force[i] = wind_on(i, face_offsets, face_items, face_force)
    end[i] = x[i] + point(way_of(i, settings[0].dt, settings[0].gravity, x, v, target, inverse_mass, force))


@wp.kernel
def place_shapes(first: int, shapes: wp.array[Shape], pose_start: wp.array[wp.mat44d], pose_end: wp.array[wp.mat44d]):
    """All colliders at the start of the step."""
    k = first + wp.tid()
    shapes[k] = place_shape(shapes[k], pose_start[k], pose_end[k])


@wp.kernel
def find_half_spaces(
    first: int,
    settings: wp.array[Numbers],
    write: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    cloth_thickness: wp.array[wp.float64],
    cloth: wp.array[int],
    stack: wp.array[wp.vec2d],
    corner_offsets: wp.array[int],
    corners: wp.array[int],
    faces: wp.array[wp.vec3i],
    shapes: wp.array[Shape],
    mesh_start: wp.array[wp.vec3d],
    mesh_end: wp.array[wp.vec3d],
    sticking: wp.array2d[wp.float64],
    sliding: wp.array2d[wp.float64],
    counts: wp.array[int],
    places: wp.array[int],
    half_vertices: wp.array[int],
    half_normals: wp.array[wp.vec3d],
    half_offsets: wp.array[wp.vec2d],
    half_ways: wp.array[wp.vec3d],
    half_thickness: wp.array[wp.float64],
    half_friction: wp.array[wp.vec2d],
):
    """Count the half-spaces of each vertex, or write them from its place on."""
    i = first + wp.tid()
    found = int(0)
    if inverse_mass[i] > ZERO:
        xi = x[i]
        way = end[i] - xi
        thick = HALF * (cloth_thickness[i] + settings[0].collider_thickness)
        reach = thick + stack[i][0] + stack[i][1] + settings[0].radius
        for k in range(settings[0].colliders):
            shape = shapes[k]
            touch = touch_shape(shape, xi, way, reach, mesh_start, mesh_end)
            if touch.found != 0:
                if write != 0:
                    between = stacked(i, touch.normal, x, stack, corner_offsets, corners, faces)
                    mu = wp.vec2d(sticking[cloth[i], shape.body], sliding[cloth[i], shape.body])
                    write_half_space(
                        places[i] + found, i, xi, touch.gap, touch.normal, touch.way, thick + between, mu, half_vertices,
                        half_normals, half_offsets, half_ways, half_thickness, half_friction,
                    )  # fmt: skip
                found += 1
    if write == 0:
        counts[i] = found


@wp.kernel
def refresh_contacts(
    first: int,
    faces: wp.array[wp.vec3i],
    across: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    triangles: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[int],
    corners: wp.array[int],
):
    """Cached contacts at the start of a step."""
    refresh_contact(first + wp.tid(), faces, across, x, vertices, kinds, triangles, weights, normals, offsets, corners)


@wp.kernel
def solve_contacts(
    first: int,
    offset: int,
    serial: int,
    order: wp.array[int],
    vertices: wp.array[wp.vec4i],
    kinds: wp.array[int],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """One colour of contacts; with `serial` = n, one item that solves n contacts in turn."""
    i = offset + first + wp.tid()
    for k in range(wp.max(serial, 1)):
        c = order[i + k]
        solve_contact(c, vertices, kinds, weights, normals, thickness, friction, rub, push, pushed, start, before, p)


@wp.kernel
def solve_half_spaces(
    first: int,
    counts: wp.array[int],
    places: wp.array[int],
    vertices: wp.array[int],
    normals: wp.array[wp.vec3d],
    offsets: wp.array[wp.vec2d],
    ways: wp.array[wp.vec3d],
    thickness: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    rub: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    push: wp.float64,
    pushed: wp.array[int],
    start: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """The half-spaces of each vertex in turn."""
    i = first + wp.tid()
    for k in range(places[i], places[i] + counts[i]):
        solve_half_space(
            k, vertices, normals, offsets, ways, thickness, friction, rub, progress, part, push, pushed, start, before, p
        )  # fmt: skip


@wp.kernel
def count_up(first: int, numbers: wp.array[int]):
    """0, 1, 2..."""
    i = first + wp.tid()
    numbers[i] = i


@wp.kernel
def end_step(
    first: int,
    p: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
):
    """Positions of all vertices."""
    i = first + wp.tid()
    x[i] = point(p[i])

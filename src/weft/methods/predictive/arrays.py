"""What a step of `predictive` is told, and all arrays that it works on."""

import warp as wp

from weft.mesh.topology import incidence
from weft.methods.predictive.collider_contacts import Shape
from weft.methods.predictive.contact_walk import vertex_normal
from weft.methods.predictive.regions import Regions, stack_thickness
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


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
    most_substeps: int
    """so many where an edge is stretched far, where a serial step looks itself; else 0"""
    sweeps: int
    quads: int
    stitches: int
    """so many of the quads, the first ones"""
    goals: int
    contacts: int
    cached: int
    """1 where the contacts are those of other steps"""
    colliders: int
    windy: int
    prediction: int
    """1 where the step is only to see where it leads"""


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
    pair_moves: wp.array2d[wp.float64]
    quads: wp.array[wp.vec4i]
    quad_weights: wp.array[wp.vec4d]
    quad_springs: wp.array[wp.vec3d]
    quad_pull: wp.array[wp.vec4d]
    quad_moves: wp.array[wp.vec4d]
    prepared: wp.array[wp.vec2d]
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
    mesh_ridges: wp.array[wp.vec3d]
    sticking: wp.array2d[wp.float64]
    sliding: wp.array2d[wp.float64]
    half_vertices: wp.array[int]
    half_normals: wp.array[wp.vec3d]
    half_offsets: wp.array[wp.vec2d]
    half_ways: wp.array[wp.vec3d]
    half_thickness: wp.array[wp.float64]
    half_friction: wp.array[wp.vec2d]
    half_pushed: wp.array[int]
    force: wp.array[wp.vec3d]
    ways: wp.array[wp.vec3d]
    spots: wp.array2d[wp.float32]
    p: wp.array[wp.vec4d]
    before: wp.array[wp.vec4d]
    start: wp.array[wp.vec4d]


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
) -> wp.vec3d:
    """The displacement of a vertex over the step if nothing stopped it."""
    if inverse_mass[i] > ZERO:
        return dt * (v[i] + dt * (gravity + inverse_mass[i] * force[i]))
    return target[i] - x[i]


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
def collider_reach(thick: wp.float64, between: wp.vec2d, radius: wp.float64) -> wp.float64:
    """How near to a collider a vertex gets a contact: thickness, the layers between, static collision radius."""
    return thick + between[0] + between[1] + radius


def vertex_layout(world: World, regions: Regions) -> tuple[wp.array, ...]:
    """The cloth of each vertex, the room of the layers under and over it, and its triangles."""
    stack = stack_thickness(regions, world.thickness.numpy())
    offsets, corners = incidence(world.cloth_faces, world.cloth_vertex_count)
    return (
        wp.array(regions.vertex_cloth, dtype=int, device=world.device),
        wp.array(stack, dtype=wp.vec2d, device=world.device),
        wp.array(offsets, dtype=int, device=world.device),
        wp.array(corners, dtype=int, device=world.device),
        wp.array(world.cloth_faces, dtype=wp.vec3i, device=world.device),
    )

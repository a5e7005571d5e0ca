"""What comes before the substeps of `predictive`, a kernel a stage; a serial step does it itself."""

import warp as wp

from weft.dynamics.packed_vertices import start_vertex
from weft.methods.predictive.arrays import Numbers, collider_reach, stacked, way_of, wind_on
from weft.methods.predictive.collider_contacts import Shape, Touch, is_out_of_reach, place_shape, touch_shape
from weft.methods.predictive.contact_walk import BORDER, WALK, refresh_contact
from weft.methods.predictive.contacts import ASLEEP, OVER, TRIANGLE
from weft.methods.predictive.half_spaces import write_half_space

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))


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
    before: wp.array[wp.vec4d],
    end: wp.array[wp.vec3d],
):
    """Rows of all vertices, the wind's force, which is held for the step, and where nothing would stop them."""
    i = first + wp.tid()
    h = settings[0].dt / wp.float64(settings[0].substeps)
    start_vertex(i, x, v, inverse_mass, h, p, before)
    if settings[0].windy != 0:
        force[i] = wind_on(i, face_offsets, face_items, face_force)
    end[i] = x[i] + way_of(i, settings[0].dt, settings[0].gravity, x, v, target, inverse_mass, force)


@wp.kernel
def take_state(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    own_x: wp.array[wp.vec3d],
    own_v: wp.array[wp.vec3d],
):
    """Copies of positions and velocities."""
    i = first + wp.tid()
    own_x[i] = x[i]
    own_v[i] = v[i]


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
    mesh_ridges: wp.array[wp.vec3d],
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
    """Count the half-spaces of each vertex (write = 0), or write them from its place on (1), or both (2)."""
    i = first + wp.tid()
    found = int(0)
    if inverse_mass[i] > ZERO:
        xi = x[i]
        way = end[i] - xi
        thick = HALF * (cloth_thickness[i] + settings[0].collider_thickness)
        reach = collider_reach(thick, stack[i], settings[0].radius)
        for k in range(settings[0].colliders):
            shape = shapes[k]
            touch = Touch()
            if not is_out_of_reach(shape, xi, reach + shape.way + wp.length(way)):
                touch = touch_shape(shape, xi, way, reach, mesh_start, mesh_end, mesh_ridges)
            if touch.found != 0:
                if write != 0:
                    between = touch.rise + stacked(i, touch.normal, x, stack, corner_offsets, corners, faces)
                    mu = wp.vec2d(sticking[cloth[i], shape.body], sliding[cloth[i], shape.body])
                    write_half_space(
                        places[i] + found, i, xi, touch.gap, touch.normal, touch.way, thick + between, mu, half_vertices,
                        half_normals, half_offsets, half_ways, half_thickness, half_friction,
                    )  # fmt: skip
                found += 1
    if write != 1:
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
    offsets: wp.array[int],
    corners: wp.array[int],
):
    """Cached contacts at the start of a step."""
    refresh_contact(
        first + wp.tid(), BORDER, WALK, OVER, TRIANGLE, ASLEEP, faces, across, x, vertices, kinds, triangles, weights,
        offsets, corners,
    )  # fmt: skip

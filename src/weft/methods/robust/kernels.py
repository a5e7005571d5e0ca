"""Kernels of `robust` that run over the vertices."""

import warp as wp

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.kernel
def expect(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    target: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    dt: wp.float64,
    expected: wp.array[wp.vec3d],
):
    """Where each vertex would be after a step if it flew freely; prescribed ones at their target."""
    i = first + wp.tid()
    if inverse_mass[i] == ZERO:
        expected[i] = target[i]
    else:
        expected[i] = x[i] + dt * (v[i] + dt * gravity)


@wp.kernel
def average_velocity(first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], dt: wp.float64, v: wp.array[wp.vec3d]):
    """The velocity that leads from x to the end in a step."""
    i = first + wp.tid()
    v[i] = (end[i] - x[i]) / dt


@wp.kernel
def move_along(first: int, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], dt: wp.float64, end: wp.array[wp.vec3d]):
    """Where the velocity leads in a step."""
    i = first + wp.tid()
    end[i] = x[i] + dt * v[i]


@wp.kernel
def end_velocity(first: int, free: wp.array[wp.vec3d], v: wp.array[wp.vec3d], v_end: wp.array[wp.vec3d]):
    """The velocity at the end changes as much as contacts and collisions changed the average velocity."""
    i = first + wp.tid()
    v_end[i] = v_end[i] + v[i] - free[i]

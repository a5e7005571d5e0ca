"""Strain and strain rate limits on velocities (Bridson et al. 2002, section 4; Provot 1995).

Over a step a structural or shear spring may neither leave 10 % of its rest length nor change its present length by more
than 10 %. A spring that would is a stencil of two points, (1, -1, 0, 0), whose ends must not part (or approach) faster
than the limit allows; impulses along it conserve momentum. Positions are never touched.
"""

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, SpringNetwork

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def excess(
    x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], pair: wp.vec2i, rest: wp.float64, limit: wp.float64, dt: wp.float64
) -> tuple[wp.vec3d, wp.float64]:
    """Direction in which the first end must move away from the second, and the least speed; no direction: within.

    The direction points from the second end to the first where the spring would be too short, the other way round where
    it would be too long.
    """
    d = x[pair[0]] - x[pair[1]]
    length = wp.length(d)
    if length == ZERO:
        return wp.vec3d(), ZERO
    along = d / length
    speed = wp.dot(along, v[pair[0]] - v[pair[1]])
    # a spring outside its limits may not go farther out; elasticity brings it back, since impulses that did so within
    # a step would have to be as fast as the step is short
    longest = wp.max(wp.min((ONE + limit) * rest, (ONE + limit) * length), length)
    shortest = wp.min(wp.max((ONE - limit) * rest, (ONE - limit) * length), length)
    end = length + dt * speed
    if end > longest:
        return -along, (length - longest) / dt
    if end < shortest:
        return along, (shortest - length) / dt
    return wp.vec3d(), ZERO


@wp.kernel
def find_excess(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    limit: wp.float64,
    dt: wp.float64,
    chosen: wp.array[int],
):
    """Which springs would break a limit."""
    i = first + wp.tid()
    direction, _speed = excess(x, v, pairs[i], rest[i], limit, dt)
    chosen[i] = 0
    if wp.length_sq(direction) > ZERO:
        chosen[i] = 1


@wp.kernel
def fill_excess(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    limit: wp.float64,
    dt: wp.float64,
    chosen: wp.array[int],
    places: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    speeds: wp.array[wp.float64],
    friction: wp.array[wp.vec2d],
    push: wp.array[wp.float64],
    drag: wp.array[wp.vec3d],
):
    """Write the stencils of the springs that would break a limit."""
    i = first + wp.tid()
    if chosen[i] != 0:
        direction, speed = excess(x, v, pairs[i], rest[i], limit, dt)
        k = places[i]
        p = pairs[i]
        vertices[k] = wp.vec4i(p[0], p[1], p[1], p[1])
        weights[k] = wp.vec4d(ONE, -ONE, ZERO, ZERO)
        normals[k] = direction
        speeds[k] = speed
        friction[k] = wp.vec2d()
        push[k] = ZERO
        drag[k] = wp.vec3d()


class LimitedSprings:
    """The structural and shear springs of a network, as the limits need them."""

    def __init__(self, network: SpringNetwork, device: wp.DeviceLike) -> None:
        keep = np.flatnonzero(network.kind != BEND)
        self.pairs = wp.array(network.pairs[keep], dtype=wp.vec2i, device=device)
        self.rest = wp.array(network.rest[keep], dtype=wp.float64, device=device)
        self.chosen, self.places = (wp.zeros(len(keep), dtype=int, device=device) for _ in range(2))
        self.count = len(keep)

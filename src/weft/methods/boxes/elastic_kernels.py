"""Kernels of the elastic surface: finite differences, and the linear system of a step."""

import warp as wp

from weft.dynamics.implicit.block_matrix import ExternalForces

wp.set_module_options({"enable_backward": False})


@wp.kernel
def find_differences(
    first: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    y: wp.array[wp.vec3d],
):
    """The value y of each finite difference at positions x."""
    i = first + wp.tid()
    q = vertices[i]
    w = weights[i]
    y[i] = w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]]


@wp.kernel
def find_stress(
    first: int,
    kind: wp.array[int],
    partner: wp.array[int],
    modulus: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    rate: wp.float64,
    y: wp.array[wp.vec3d],
    old: wp.array[wp.vec3d],
    pull: wp.array[wp.vec3d],
    bound: wp.array[wp.float64],
):
    """dE/dy of each difference with its damping, and the bound of the second derivative; rate is 1/dt, `old` is y before."""
    i = first + wp.tid()
    k = modulus[i]
    late = delay[i] * rate
    yi = y[i]
    half = wp.float64(0.5)
    one = wp.float64(1.0)
    if kind[i] == 0:
        metric = wp.dot(yi, yi)
        strain = metric - one + late * (metric - wp.dot(old[i], old[i]))
        pull[i] = (half * k * strain) * yi
        bound[i] = half * k * (one + late) * wp.max(wp.float64(3.0) * metric - one, wp.float64(2.0))
    elif kind[i] == 1:
        z = y[partner[i]]
        metric = wp.dot(yi, z)
        strain = metric + late * (metric - wp.dot(old[i], old[partner[i]]))
        pull[i] = (k * strain) * z
        bound[i] = k * (one + late) * (wp.float64(2.0) * wp.dot(z, z) + wp.abs(metric))
    else:
        pull[i] = k * (yi + late * (yi - old[i]))
        bound[i] = k * (one + late)


@wp.kernel
def assemble(
    first: int,
    offsets: wp.array[int],
    differences: wp.array[int],
    products: wp.array[wp.float64],
    bound: wp.array[wp.float64],
    values: wp.array[wp.float64],
):
    """The entries of the matrix off its diagonal."""
    i = first + wp.tid()
    total = wp.float64(0.0)
    for k in range(offsets[i], offsets[i + 1]):
        total += products[k] * bound[differences[k]]
    values[i] = total


@wp.struct
class VertexDifferences:
    """The finite differences at each vertex, and what they are in this step."""

    offsets: wp.array[int]
    differences: wp.array[int]
    weights: wp.array[wp.float64]
    y: wp.array[wp.vec3d]
    """their values at the prediction"""
    pull: wp.array[wp.vec3d]
    bound: wp.array[wp.float64]


@wp.struct
class LinearSystem:
    """The matrix and the right-hand side of a step, and the colours by which its rows are solved."""

    colours: wp.array[int]
    """where each colour begins in `order`"""
    order: wp.array[int]
    offsets: wp.array[int]
    columns: wp.array[int]
    values: wp.array[wp.float64]
    diagonal: wp.array[wp.float64]
    g: wp.array2d[wp.float64]


@wp.kernel
def find_right_hand_side(
    first: int,
    lists: VertexDifferences,
    external: ExternalForces,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    dt: wp.float64,
    system: LinearSystem,
):
    """The diagonal of the matrix, and the right-hand side g (3, n)."""
    i = first + wp.tid()
    mass = external.mass[i]
    inertia = mass / (dt * dt)
    drag = mass * external.damping / dt
    force = mass * external.gravity
    for k in range(external.face_offsets[i], external.face_offsets[i + 1]):
        force += external.face_force[external.face_items[k] // 3]
    total = inertia + drag
    right = inertia * (x[i] + dt * v[i]) + drag * x[i] + force
    for k in range(lists.offsets[i], lists.offsets[i + 1]):
        s = lists.differences[k]
        w = lists.weights[k]
        total += w * w * lists.bound[s]
        right += w * (lists.bound[s] * lists.y[s] - lists.pull[s])
    system.diagonal[i] = total
    for c in range(3):
        system.g[c, i] = right[c]


@wp.kernel
def predict(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    dt: wp.float64,
    guess: wp.array[wp.vec3d],
    r: wp.array2d[wp.float64],
):
    """Free fall over the step."""
    i = first + wp.tid()
    p = x[i] + dt * v[i] + (dt * dt) * gravity
    guess[i] = p
    for c in range(3):
        r[c, i] = p[c]


@wp.kernel
def gather_positions(
    first: int,
    r: wp.array2d[wp.float64],
    x: wp.array[wp.vec3d],
    dt: wp.float64,
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """The solution as positions, and the velocities that lead there."""
    i = first + wp.tid()
    p = wp.vec3d(r[0, i], r[1, i], r[2, i])
    x_end[i] = p
    v_end[i] = (p - x[i]) / dt

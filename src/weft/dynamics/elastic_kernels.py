"""The kernels of the elastic surface: its stencils, the linear system of a step, and constrained Gauss-Seidel on it."""

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.kernel
def measure(
    first: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    y: wp.array[wp.vec3d],
):
    """The value of each stencil."""
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
    """dE/dy of each stencil with its damping, and the bound of the second derivative; rate is 1/dt."""
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
    stencils: wp.array[int],
    products: wp.array[wp.float64],
    bound: wp.array[wp.float64],
    values: wp.array[wp.float64],
):
    """Entries of the matrix off its diagonal."""
    i = first + wp.tid()
    total = wp.float64(0.0)
    for k in range(offsets[i], offsets[i + 1]):
        total += products[k] * bound[stencils[k]]
    values[i] = total


@wp.kernel
def load_rows(
    first: int,
    offsets: wp.array[int],
    stencils: wp.array[int],
    weights: wp.array[wp.float64],
    mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    y: wp.array[wp.vec3d],
    pull: wp.array[wp.vec3d],
    bound: wp.array[wp.float64],
    face_offsets: wp.array[int],
    face_items: wp.array[int],
    face_force: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    dt: wp.float64,
    diagonal: wp.array[wp.float64],
    g: wp.array2d[wp.float64],
):
    """The diagonal and the right-hand side of each row."""
    i = first + wp.tid()
    inertia = mass[i] / (dt * dt)
    drag = mass[i] * air_damping / dt
    force = mass[i] * gravity
    for k in range(face_offsets[i], face_offsets[i + 1]):
        force += face_force[face_items[k] // 3]
    total = inertia + drag
    right = inertia * (x[i] + dt * v[i]) + drag * x[i] + force
    for k in range(offsets[i], offsets[i + 1]):
        s = stencils[k]
        w = weights[k]
        total += w * w * bound[s]
        right += w * (bound[s] * y[s] - pull[s])
    diagonal[i] = total
    for c in range(3):
        g[c, i] = right[c]


@wp.kernel
def relax(
    first: int,
    order: wp.array[int],
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[wp.float64],
    diagonal: wp.array[wp.float64],
    g: wp.array2d[wp.float64],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    anchor: wp.array2d[wp.float64],
    grip: wp.array2d[wp.float64],
    relaxation: wp.float64,
    tolerance: wp.float64,
    most_sweeps: int,
    r: wp.array2d[wp.float64],
    sweeps: wp.array[int],
    change: wp.array[wp.float64],
):
    """Constrained Gauss-Seidel for one coordinate: every value is clamped into its interval as it is updated.

    A vertex that rubs on a collider is pulled back to its anchor, with the force `grip` at most.
    """
    c = first + wp.tid()
    largest = wp.float64(0.0)
    done = int(0)
    while done < most_sweeps:
        largest = wp.float64(0.0)
        for k in range(order.shape[0]):
            i = order[k]
            rest = g[c, i]
            for e in range(offsets[i], offsets[i + 1]):
                rest -= values[e] * r[c, columns[e]]
            hold = grip[c, i]
            if hold > wp.float64(0.0):
                rest += wp.clamp(diagonal[i] * anchor[c, i] - rest, -hold, hold)
            old = r[c, i]
            new = old + relaxation * (rest / diagonal[i] - old)
            new = wp.min(wp.max(new, lower[c, i]), upper[c, i])
            r[c, i] = new
            largest = wp.max(largest, wp.abs(new - old))
        done += 1
        if largest <= tolerance:
            break
    sweeps[c] = done
    change[c] = largest


@wp.kernel
def find_reaction(
    first: int,
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[wp.float64],
    diagonal: wp.array[wp.float64],
    g: wp.array2d[wp.float64],
    r: wp.array2d[wp.float64],
    reaction: wp.array2d[wp.float64],
):
    """A r - g: the force with which intervals and friction hold each coordinate."""
    i = first + wp.tid()
    for c in range(3):
        total = diagonal[i] * r[c, i] - g[c, i]
        for e in range(offsets[i], offsets[i + 1]):
            total += values[e] * r[c, columns[e]]
        reaction[c, i] = total


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
    """The solution as points, and the velocity that leads there."""
    i = first + wp.tid()
    p = wp.vec3d(r[0, i], r[1, i], r[2, i])
    x_end[i] = p
    v_end[i] = (p - x[i]) / dt

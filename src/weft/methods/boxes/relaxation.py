"""Constrained Gauss-Seidel on the system of the elastic surface: vertices stay in their intervals and half-spaces."""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.methods.boxes.elastic_kernels import LinearSystem
from weft.runtime.cooperative import (
    BLOCK,
    barrier_between,
    clusterable,
    grid_barrier,
    on_gpu,
    partition_begin,
    partition_end,
    partition_step,
)
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

_native = NativeHeader(__file__, "elastic_surface.h")

# sweeps over the half-spaces of a vertex at most; two that meet at 60 degrees need 20 for the tolerance
PLANE_SWEEPS = wp.constant(50)
# relative rounding within which a vertex is on a plane, and the least part of a normal along an axis that carries along it
TOUCHES = wp.constant(wp.float64(1e-12))
CARRIES = wp.constant(wp.float64(0.5))


@wp.func
def solve_row(i: int, system: LinearSystem, r: wp.array2d[wp.float64]) -> wp.vec3d:
    """Where a vertex goes if all others stay: its right-hand side less the products off the diagonal, over the diagonal."""
    rest = wp.vec3d(system.g[0, i], system.g[1, i], system.g[2, i])
    for e in range(system.offsets[i], system.offsets[i + 1]):
        j = system.columns[e]
        rest -= system.values[e] * wp.vec3d(r[0, j], r[1, j], r[2, j])
    return rest / system.diagonal[i]


@wp.struct
class HalfSpaces:
    """Half-spaces in which vertices must end a step: those beyond the surfaces of colliders."""

    offsets: wp.array[int]
    """where those of each vertex begin"""
    normal: wp.array[wp.vec3d]
    """unit vector into the half-space"""
    bound: wp.array[wp.float64]
    """m: the least product of the normal and a position"""
    anchor: wp.array[wp.vec3d]
    """where friction holds the vertex"""
    friction: wp.array[wp.float64]
    tolerance: wp.float64
    """m: how far a vertex may be outside"""


@wp.func
def project(
    i: int, p: wp.vec3d, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64], spaces: HalfSpaces
) -> wp.vec3d:
    """Put a point into the interval and the half-spaces of a vertex in turn.

    Where that does not end, as between two planes that are nearly parallel, the vertex stays where the collider carries it: the
    start of a step fulfils all planes.
    """
    home = p
    for _sweep in range(PLANE_SWEEPS):
        q = p
        for c in range(3):
            q[c] = wp.min(wp.max(p[c], lower[c, i]), upper[c, i])
        outside = wp.length(q - p)
        p = q
        for k in range(spaces.offsets[i], spaces.offsets[i + 1]):
            depth = spaces.bound[k] - wp.dot(spaces.normal[k], p)
            if depth > wp.float64(0.0):
                p += depth * spaces.normal[k]
                outside = wp.max(outside, depth)
                home = spaces.anchor[k]
        if outside <= spaces.tolerance:
            return p
    return home


@wp.func
def put_on_planes(
    i: int, free: wp.vec3d, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64], spaces: HalfSpaces
) -> wp.vec3d:
    """Where a vertex goes that would go to `free` alone: into its interval and its half-spaces, held by friction.

    The matrix has the same diagonal for x, y and z, so that the nearest point solves the row of the vertex. A force is its
    diagonal times a displacement: friction moves the vertex towards its anchor by the coefficient times what the half-spaces
    moved it, at most.
    """
    inside = free
    for c in range(3):
        inside[c] = wp.min(wp.max(free[c], lower[c, i]), upper[c, i])
    p = project(i, free, lower, upper, spaces)
    normal = wp.normalize(p - inside)
    # friction is that of the half-space which the vertex would leave most
    deepest = wp.float64(0.0)
    friction = wp.float64(0.0)
    anchor = p
    for k in range(spaces.offsets[i], spaces.offsets[i + 1]):
        depth = spaces.bound[k] - wp.dot(spaces.normal[k], inside)
        if depth > deepest:
            deepest = depth
            friction = spaces.friction[k]
            anchor = spaces.anchor[k]
    slide = p - anchor
    slide -= wp.dot(slide, normal) * normal
    most = friction * wp.dot(p - free, normal)
    length = wp.length(slide)
    if most > wp.float64(0.0) and length > wp.float64(0.0):
        p = project(i, p - wp.min(most / length, wp.float64(1.0)) * slide, lower, upper, spaces)
    return p


@wp.func
def is_held(i: int, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64]) -> bool:
    """Whether a vertex may go to one place only, as pins do."""
    return lower[0, i] == upper[0, i] and lower[1, i] == upper[1, i] and lower[2, i] == upper[2, i]


@wp.func_native(_native.body("report_change"))
def report_change(changes: wp.array[wp.float64], place: int, value: wp.float64):
    """Report the change of a thread: CUDA keeps the largest of all threads at `place`, a CPU thread has its own place."""
    ...


@wp.struct
class SweepReport:
    """How the sweeps of a solve go."""

    changes: wp.array[wp.float64]
    """the largest changes of three sweeps, of each thread of a CPU: one is written, one may still be read, one is cleared"""
    sweeps: wp.array[int]
    """sweeps of x, y and z so far"""
    change: wp.array[wp.float64]
    """the largest change of x, y and z in the last sweep"""


@wp.func
def relax_vertex(
    i: int,
    late: bool,
    going: wp.vec3i,
    system: LinearSystem,
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    spaces: HalfSpaces,
    relaxation: wp.float64,
    r: wp.array2d[wp.float64],
) -> wp.vec3d:
    """Update a vertex in its interval and its half-spaces; gives by how much each coordinate changed."""
    alone = solve_row(i, system, r)
    on_planes = spaces.offsets[i] < spaces.offsets[i + 1] and not is_held(i, lower, upper)
    if on_planes:
        alone = put_on_planes(i, alone, lower, upper, spaces)
        # a vertex that goes to and fro between two planes comes to rest between them
        if late:
            alone = wp.float64(0.5) * (alone + wp.vec3d(r[0, i], r[1, i], r[2, i]))
    changed = wp.vec3d()
    for c in range(3):
        if going[c] == 1:
            old = r[c, i]
            new = alone[c]
            if not on_planes:
                new = wp.min(wp.max(old + relaxation * (new - old), lower[c, i]), upper[c, i])
            r[c, i] = new
            changed[c] = wp.abs(new - old)
    return changed


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def relax(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    system: LinearSystem,
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
    spaces: HalfSpaces,
    relaxation: wp.float64,
    tolerance: wp.float64,
    most_sweeps: int,
    r: wp.array2d[wp.float64],
    report: SweepReport,
):
    """Constrained Gauss-Seidel: every vertex is put into its interval and its half-spaces as it is updated.

    A cooperative kernel. Nodes of one colour are not coupled, so that they are solved in parallel with the result of any
    order. A coordinate (x, y or z) whose largest change in a sweep is within the tolerance is finished, where half-spaces
    couple them all three together.
    """
    t = first + wp.tid()
    own = t
    reports = threads
    if on_gpu():
        own = 0
        reports = 1
        if t < 9:
            report.changes[t] = wp.float64(0.0)
        grid_barrier(arrivals)
    colours = system.colours.shape[0] - 1
    going = wp.vec3i(1, 1, 1)
    sweep = int(0)
    while sweep < most_sweeps and going[0] + going[1] + going[2] > 0:
        if on_gpu() and t < 3:
            report.changes[(sweep + 1) % 3 * 3 + t] = wp.float64(0.0)
        largest = wp.vec3d()
        for colour in range(colours):
            begin = system.colours[colour]
            count = system.colours[colour + 1] - begin
            for k in range(
                partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
            ):
                i = system.order[begin + k]
                late = 2 * sweep > most_sweeps
                changed = relax_vertex(i, late, going, system, lower, upper, spaces, relaxation, r)
                largest = wp.max(largest, changed)
            if colour + 1 < colours:
                barrier_between(arrivals, count, system.colours[colour + 2] - system.colours[colour + 1])
        place = sweep % 3 * 3 * reports
        for c in range(3):
            report_change(report.changes, place + 3 * own + c, largest[c])
        grid_barrier(arrivals)

        # all threads reach the same decision
        sweep += 1
        finished = int(0)
        for c in range(3):
            if going[c] == 1:
                most = wp.float64(0.0)
                for k in range(reports):
                    most = wp.max(most, report.changes[place + 3 * k + c])
                if t == 0:
                    report.sweeps[c] = sweep
                    report.change[c] = most
                if most <= tolerance:
                    finished += 1
                    if spaces.normal.shape[0] == 0:
                        going[c] = 0
        if finished == 3:
            going = wp.vec3i(0, 0, 0)


@wp.kernel
def find_rests(first: int, spaces: HalfSpaces, r: wp.array2d[wp.float64], rests: wp.array[int]):
    """On which sides a collider carries each vertex: bits 0 to 2 from below x, y, z, bits 3 to 5 from above."""
    i = first + wp.tid()
    p = wp.vec3d(r[0, i], r[1, i], r[2, i])
    bits = int(0)
    for k in range(spaces.offsets[i], spaces.offsets[i + 1]):
        n = spaces.normal[k]
        if wp.dot(n, p) <= spaces.bound[k] + TOUCHES * wp.abs(spaces.bound[k]):
            for c in range(3):
                if n[c] > CARRIES:
                    bits = bits | (1 << c)
                if n[c] < -CARRIES:
                    bits = bits | (8 << c)
    rests[i] = bits


@wp.kernel
def open_limits(first: int, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64]):
    """No limits."""
    i = first + wp.tid()
    for c in range(3):
        lower[c, i] = -wp.float64(wp.inf)
        upper[c, i] = wp.float64(wp.inf)


@wp.func
def hold_at(i: int, place: wp.vec3d, lower: wp.array2d[wp.float64], upper: wp.array2d[wp.float64]):
    """Limits that hold a vertex at one place."""
    for c in range(3):
        lower[c, i] = place[c]
        upper[c, i] = place[c]


@wp.kernel
def hold_pins(
    first: int,
    inverse_mass: wp.array[wp.float64],
    target: wp.array[wp.vec3d],
    lower: wp.array2d[wp.float64],
    upper: wp.array2d[wp.float64],
):
    """A pinned vertex goes to its target."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        hold_at(i, target[i], lower, upper)

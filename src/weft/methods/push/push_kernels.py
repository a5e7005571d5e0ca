"""Kernels of `push_out`: the nearest triangle of a vertex, moves away from it, and what they do to velocities."""

import warp as wp

from weft.broad_phase.centroid_trees import KDTREE, RADIUS, CentroidIndex, next_range
from weft.runtime.cooperative import BLOCK, clusterable, grid_barrier
from weft.runtime.partition import interleaved_thread
from weft.runtime.reduction import reduce_sum

wp.set_module_options({"enable_backward": False})

# of what is counted: vertices that were pushed, those that are too close in the end, then those of each look
TOUCHED, LEFT, LOOKS = 0, 1, 2


@wp.struct
class Nearest:
    """The nearest triangle found so far."""

    distance: wp.float64
    needed: wp.float64
    """how far the vertex has to go along the direction to be clear"""
    face: int
    is_cloth: int
    direction: wp.vec3d
    velocity: wp.vec3d


@wp.func
def within_radius(index: CentroidIndex, p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether a triangle can be close to a point: leaves of a kd-tree have triangles beyond its radius."""
    if index.kind != KDTREE:
        return True
    third = wp.float64(1.0) / wp.float64(3.0)
    d = p - third * (a + b + c)
    radius = index.measures[RADIUS]
    return wp.abs(d[0]) <= radius and wp.abs(d[1]) <= radius and wp.abs(d[2]) <= radius


@wp.func
def plane_distance(p: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, n: wp.vec3d) -> wp.float64:
    """Distance above the plane of a triangle for a point over it; infinite for a point beside it."""
    d = wp.dot(n, p - a)
    q = p - d * n
    # the foot is inside when it lies on the inner side of all edges
    inside = (
        wp.dot(n, wp.cross(b - a, q - a)) >= wp.float64(0.0)
        and wp.dot(n, wp.cross(c - b, q - b)) >= wp.float64(0.0)
        and wp.dot(n, wp.cross(a - c, q - c)) >= wp.float64(0.0)
    )
    if inside:
        return d
    return wp.float64(wp.inf)


@wp.func
def next_to(i: int, f: wp.vec3i, offsets: wp.array[int], neighbours: wp.array[int]) -> bool:
    """Whether a vertex belongs to a triangle, or an edge leads from one to the other."""
    if f[0] == i or f[1] == i or f[2] == i:
        return True
    for s in range(offsets[i], offsets[i + 1]):
        n = neighbours[s]
        if f[0] == n or f[1] == n or f[2] == n:
            return True
    return False


@wp.func
def look(
    nearest: Nearest,
    against: wp.vec3d,
    i: int,
    p: wp.vec3d,
    velocity: wp.vec3d,
    close: wp.float64,
    dt: wp.float64,
    is_cloth: int,
    offsets: wp.array[int],
    neighbours: wp.array[int],
    index: CentroidIndex,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
) -> Nearest:
    """The nearest triangle of a list over which the point lies, if it is nearer than what was found before.

    Only triangles that push against the given direction count; a zero vector admits all.
    """
    result = nearest
    radius = index.measures[RADIUS]
    low = p - wp.vec3d(radius, radius, radius)
    high = p + wp.vec3d(radius, radius, radius)
    place = int(1)
    if index.count == 0:
        place = 0
    while place > 0:
        span = next_range(index, p, low, high, place)
        place = span[2]
        for k in range(span[0], span[1]):
            number = index.order[k]
            f = faces[number]
            a = x[f[0]]
            b = x[f[1]]
            c = x[f[2]]
            if within_radius(index, p, a, b, c):
                n = wp.normalize(wp.cross(b - a, c - a))
                d = plane_distance(p, a, b, c, n)  # type: ignore[arg-type]
                far = wp.abs(d)
                nearer = far < result.distance or (
                    far == result.distance and result.is_cloth == is_cloth and number < result.face
                )
                if nearer and (is_cloth == 0 or not next_to(i, f, offsets, neighbours)):
                    third = wp.float64(1.0) / wp.float64(3.0)
                    carrier = third * (v[f[0]] + v[f[1]] + v[f[2]])
                    away = wp.float64(1.0)
                    # from cloth back to the side on which the vertex was a step ago
                    if is_cloth == 1 and d < dt * wp.dot(n, velocity - carrier):
                        away = wp.float64(-1.0)
                    if away * wp.dot(n, against) <= wp.float64(0.0):
                        result.distance = far
                        result.face = number
                        result.is_cloth = is_cloth
                        result.velocity = carrier
                        result.direction = away * n
                        result.needed = close - away * d
    return result


@wp.func
def push_vertex(
    i: int,
    inverse_mass: wp.array[wp.float64],
    close: wp.float64,
    move: wp.float64,
    dt: wp.float64,
    still_index: CentroidIndex,
    moving_index: CentroidIndex,
    mesh_faces: wp.array[wp.vec3i],
    mesh_x: wp.array[wp.vec3d],
    mesh_v: wp.array[wp.vec3d],
    mesh_friction: wp.array[wp.float64],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    cloth_index: CentroidIndex,
    cloth_faces: wp.array[wp.vec3i],
    cloth_friction: wp.float64,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    x_out: wp.array[wp.vec3d],
    normal: wp.array[wp.vec3d],
    carrier: wp.array[wp.vec3d],
    friction: wp.array[wp.float64],
) -> int:
    """One move of a vertex if it is closer than `close` to a triangle; gives 1 then, else 0."""
    p = x[i]
    x_out[i] = p
    if inverse_mass[i] == wp.float64(0.0):
        return 0
    found = Nearest()
    found.distance = close
    found.face = -1
    found.is_cloth = -1
    none = found
    u = v[i]
    all = wp.vec3d()
    found = look(found, all, i, p, u, close, dt, 0, offsets, neighbours, still_index, mesh_faces, mesh_x, mesh_v)
    found = look(found, all, i, p, u, close, dt, 0, offsets, neighbours, moving_index, mesh_faces, mesh_x, mesh_v)
    found = look(found, all, i, p, u, close, dt, 1, offsets, neighbours, cloth_index, cloth_faces, x, v)
    if found.face < 0:
        return 0
    # between two triangles: no farther than the middle
    n = found.direction
    other = look(none, n, i, p, u, close, dt, 0, offsets, neighbours, still_index, mesh_faces, mesh_x, mesh_v)
    other = look(other, n, i, p, u, close, dt, 0, offsets, neighbours, moving_index, mesh_faces, mesh_x, mesh_v)
    other = look(other, n, i, p, u, close, dt, 1, offsets, neighbours, cloth_index, cloth_faces, x, v)
    length = wp.min(move, found.needed)
    if other.face >= 0:
        length = wp.min(length, wp.max(wp.float64(0.0), wp.float64(0.5) * (found.needed - other.needed)))
    x_out[i] = p + length * found.direction
    normal[i] = found.direction
    carrier[i] = found.velocity
    friction[i] = cloth_friction
    if found.is_cloth == 0:
        friction[i] = mesh_friction[found.face]
    return 1


@wp.func
def stop_vertex(n: wp.vec3d, carrier: wp.vec3d, friction: wp.float64, v: wp.vec3d) -> wp.vec3d:
    """A velocity without what leads towards the triangle, and rubbed along it."""
    u = v - carrier
    towards = wp.dot(u, n)
    result = v
    if towards < wp.float64(0.0):
        along = u - towards * n
        speed = wp.length(along)
        if speed > wp.float64(0.0):
            along = along * wp.max(wp.float64(0.0), wp.float64(1.0) + friction * towards / speed)
        result = carrier + along
    return result


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def push_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    moves: int,
    inverse_mass: wp.array[wp.float64],
    close: wp.float64,
    move: wp.float64,
    dt: wp.float64,
    still_index: CentroidIndex,
    moving_index: CentroidIndex,
    mesh_faces: wp.array[wp.vec3i],
    mesh_x: wp.array[wp.vec3d],
    mesh_v: wp.array[wp.vec3d],
    mesh_friction: wp.array[wp.float64],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    cloth_index: CentroidIndex,
    cloth_faces: wp.array[wp.vec3i],
    cloth_friction: wp.float64,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    x_out: wp.array[wp.vec3d],
    normal: wp.array[wp.vec3d],
    carrier: wp.array[wp.vec3d],
    friction: wp.array[wp.float64],
    pushed: wp.array[int],
    touched: wp.array[int],
    counts: wp.array[int],
):
    """Move vertices until all are clear or the moves are used up, then stop those that were pushed.

    A thread has the same vertices all along: every so many, since costly ones lie side by side.
    """
    t = first + wp.tid()
    begin = interleaved_thread(t, threads)
    for i in range(begin, count, threads):
        touched[i] = 0
    if t == 0:
        for k in range(counts.shape[0]):
            counts[k] = 0
    grid_barrier(arrivals)
    done = int(0)
    going = bool(True)
    while going:
        found = int(0)
        for i in range(begin, count, threads):
            pushed[i] = push_vertex(
                i, inverse_mass, close, move, dt, still_index, moving_index, mesh_faces, mesh_x, mesh_v, mesh_friction,
                offsets, neighbours, cloth_index, cloth_faces, cloth_friction, x, v, x_out, normal, carrier, friction,
            )  # fmt: skip
            found += pushed[i]
        reduce_sum(counts, LOOKS + done, found)
        grid_barrier(arrivals)
        # the last look only counts who is still too close
        going = counts[LOOKS + done] > 0 and done < moves
        if going:
            for i in range(begin, count, threads):
                x[i] = x_out[i]
                if pushed[i] != 0:
                    touched[i] = 1
            grid_barrier(arrivals)
            done += 1
    stopped = int(0)
    for i in range(begin, count, threads):
        if touched[i] != 0:
            v[i] = stop_vertex(normal[i], carrier[i], friction[i], v[i])
            stopped += 1
    reduce_sum(counts, TOUCHED, stopped)
    if t == 0:
        counts[LEFT] = counts[LOOKS + done]


@wp.kernel
def place_corners(
    first: int,
    chosen: wp.array[int],
    owner: wp.array[wp.vec3i],
    weights: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    corner_x: wp.array[wp.vec3d],
    corner_v: wp.array[wp.vec3d],
):
    """The chosen corners of split triangles from those they were split from."""
    i = chosen[first + wp.tid()]
    f = owner[i]
    w = weights[i]
    corner_x[i] = w[0] * x[f[0]] + w[1] * x[f[1]] + w[2] * x[f[2]]
    corner_v[i] = w[0] * v[f[0]] + w[1] * v[f[1]] + w[2] * v[f[2]]

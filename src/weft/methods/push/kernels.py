"""Kernels of `push_out`: the nearest triangle of a vertex, moves away from it, and the change of its velocity."""

import warp as wp

from weft.methods.push.centroid_trees import KDTREE, RADIUS, CentroidIndex, next_range
from weft.runtime.compaction import reduce_sum
from weft.runtime.cooperative import BLOCK, clusterable, grid_barrier, interleaved_thread

wp.set_module_options({"enable_backward": False})

# places in the array of counts: vertices that were pushed, vertices that are too close in the end, then the vertices that are
# too close before each move
PUSHED, LEFT, BEFORE_MOVE = 0, 1, 2


@wp.struct
class Colliders:
    """The triangles of colliders, split into small ones."""

    faces: wp.array[wp.vec3i]
    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    friction: wp.array[wp.float64]
    """coefficient of each triangle with cloth"""


@wp.struct
class ClothMesh:
    """The triangles of cloth, and the vertices around each vertex."""

    faces: wp.array[wp.vec3i]
    friction: wp.float64
    inverse_mass: wp.array[wp.float64]
    offsets: wp.array[int]
    """where the neighbours of each vertex begin"""
    neighbours: wp.array[int]


@wp.struct
class PushStep:
    """The numbers of a step."""

    count: int
    """vertices of cloth"""
    most_moves: int

    close: wp.float64
    """m; a vertex nearer to a triangle is moved"""
    move: wp.float64
    """m; the length of a move"""
    dt: wp.float64


@wp.struct
class Moves:
    """What is kept of each vertex between the moves of a step."""

    x: wp.array[wp.vec3d]
    """after the next move"""
    normal: wp.array[wp.vec3d]
    """the direction of its last move"""
    carrier: wp.array[wp.vec3d]
    """the velocity of the triangle that pushed it"""
    friction: wp.array[wp.float64]
    share: wp.array[wp.float64]
    """the part of the velocity between both that the vertex gives up: all of it against what nothing can move"""
    too_close: wp.array[int]
    pushed: wp.array[int]
    counts: wp.array[int]


@wp.struct
class Nearest:
    """The nearest triangle found so far, and the push that it gives."""

    distance: wp.float64
    needed: wp.float64
    """m; how far the vertex must move along the direction to be clear"""
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
    """Signed distance of a point to the plane of a triangle; infinite if its foot is outside the triangle."""
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
    """Whether a vertex belongs to a triangle, or an edge joins the two."""
    if f[0] == i or f[1] == i or f[2] == i:
        return True
    for s in range(offsets[i], offsets[i + 1]):
        n = neighbours[s]
        if f[0] == n or f[1] == n or f[2] == n:
            return True
    return False


@wp.func
def find_nearest(
    nearest: Nearest,
    against: wp.vec3d,
    i: int,
    p: wp.vec3d,
    velocity: wp.vec3d,
    step: PushStep,
    is_cloth: int,
    cloth: ClothMesh,
    index: CentroidIndex,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
) -> Nearest:
    """The nearest triangle of an index with the foot of vertex i, at p, if it is nearer than the one found before.

    Only triangles that push against the direction `against` count; a zero vector admits all. faces, x, v: of the triangles.
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
                if nearer and (is_cloth == 0 or not next_to(i, f, cloth.offsets, cloth.neighbours)):
                    third = wp.float64(1.0) / wp.float64(3.0)
                    carrier = third * (v[f[0]] + v[f[1]] + v[f[2]])
                    away = wp.float64(1.0)
                    # from cloth back to the side on which the vertex was a step ago
                    if is_cloth == 1 and d < step.dt * wp.dot(n, velocity - carrier):
                        away = wp.float64(-1.0)
                    if away * wp.dot(n, against) <= wp.float64(0.0):
                        result.distance = far
                        result.face = number
                        result.is_cloth = is_cloth
                        result.velocity = carrier
                        result.direction = away * n
                        result.needed = step.close - away * d
    return result


@wp.func
def find_nearest_of_all(
    nearest: Nearest,
    against: wp.vec3d,
    i: int,
    step: PushStep,
    still: CentroidIndex,
    moving: CentroidIndex,
    own: CentroidIndex,
    colliders: Colliders,
    cloth: ClothMesh,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
) -> Nearest:
    """The nearest triangle of a vertex among colliders that stand still, colliders that move, and cloth."""
    found = nearest
    p = x[i]
    u = v[i]
    found = find_nearest(found, against, i, p, u, step, 0, cloth, still, colliders.faces, colliders.x, colliders.v)
    found = find_nearest(found, against, i, p, u, step, 0, cloth, moving, colliders.faces, colliders.x, colliders.v)
    return find_nearest(found, against, i, p, u, step, 1, cloth, own, cloth.faces, x, v)


@wp.func
def push_vertex(
    i: int,
    step: PushStep,
    still: CentroidIndex,
    moving: CentroidIndex,
    own: CentroidIndex,
    colliders: Colliders,
    cloth: ClothMesh,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    moves: Moves,
) -> int:
    """One move of a vertex if it is closer than `close` to a triangle; gives 1 then, else 0."""
    p = x[i]
    moves.x[i] = p
    if cloth.inverse_mass[i] == wp.float64(0.0):
        return 0
    none = Nearest()
    none.distance = step.close
    none.face = -1
    none.is_cloth = -1
    found = find_nearest_of_all(none, wp.vec3d(), i, step, still, moving, own, colliders, cloth, x, v)
    if found.face < 0:
        return 0
    # between two triangles: no farther than the middle
    other = find_nearest_of_all(none, found.direction, i, step, still, moving, own, colliders, cloth, x, v)
    length = wp.min(step.move, found.needed)
    if other.face >= 0:
        length = wp.min(length, wp.max(wp.float64(0.0), wp.float64(0.5) * (found.needed - other.needed)))
    moves.x[i] = p + length * found.direction
    moves.normal[i] = found.direction
    moves.carrier[i] = found.velocity
    moves.friction[i] = cloth.friction
    moves.share[i] = wp.float64(1.0)
    if found.is_cloth == 0:
        moves.friction[i] = colliders.friction[found.face]
    else:
        # the vertices of the triangle find this side too: if both gave up all of it they would swap velocities and bounce
        f = cloth.faces[found.face]
        others = cloth.inverse_mass[f[0]] + cloth.inverse_mass[f[1]] + cloth.inverse_mass[f[2]]
        own_mass = cloth.inverse_mass[i]
        moves.share[i] = own_mass / (own_mass + others / wp.float64(3.0))
    return 1


@wp.func
def stop_vertex(n: wp.vec3d, carrier: wp.vec3d, friction: wp.float64, share: wp.float64, v: wp.vec3d) -> wp.vec3d:
    """A velocity without its component towards a triangle that moves with the carrier, and with friction along it.

    The vertex gives up a share of the difference; the vertices of the triangle, where it is cloth, give up the rest.
    """
    u = v - carrier
    towards = wp.dot(u, n)
    result = v
    if towards < wp.float64(0.0):
        along = u - towards * n
        speed = wp.length(along)
        if speed > wp.float64(0.0):
            along = along * wp.max(wp.float64(0.0), wp.float64(1.0) + friction * towards / speed)
        result = carrier + along
    return v + share * (result - v)


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def push_vertices(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    step: PushStep,
    still: CentroidIndex,
    moving: CentroidIndex,
    own: CentroidIndex,
    colliders: Colliders,
    cloth: ClothMesh,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    moves: Moves,
):
    """Cooperative kernel: move vertices until all are clear or the moves are used up, then stop those that were pushed.

    A thread has the same vertices in all moves, interleaved with those of other threads: costly vertices lie side by side.
    """
    t = first + wp.tid()
    begin = interleaved_thread(t, threads)
    for i in range(begin, step.count, threads):
        moves.pushed[i] = 0
    if t == 0:
        for k in range(moves.counts.shape[0]):
            moves.counts[k] = 0
    grid_barrier(arrivals)
    done = int(0)
    going = bool(True)
    while going:
        found = int(0)
        for i in range(begin, step.count, threads):
            too_close = push_vertex(i, step, still, moving, own, colliders, cloth, x, v, moves)
            moves.too_close[i] = too_close
            found += too_close
        reduce_sum(moves.counts, BEFORE_MOVE + done, found)
        grid_barrier(arrivals)
        # after the last move vertices that are still too close are only counted
        going = moves.counts[BEFORE_MOVE + done] > 0 and done < step.most_moves
        if going:
            for i in range(begin, step.count, threads):
                x[i] = moves.x[i]
                if moves.too_close[i] != 0:
                    moves.pushed[i] = 1
            grid_barrier(arrivals)
            done += 1
    stopped = int(0)
    for i in range(begin, step.count, threads):
        if moves.pushed[i] != 0:
            v[i] = stop_vertex(moves.normal[i], moves.carrier[i], moves.friction[i], moves.share[i], v[i])
            stopped += 1
    reduce_sum(moves.counts, PUSHED, stopped)
    if t == 0:
        moves.counts[LEFT] = moves.counts[BEFORE_MOVE + done]


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
    """Positions and velocities of the chosen corners of split triangles, from the triangles that they were split from."""
    i = chosen[first + wp.tid()]
    f = owner[i]
    w = weights[i]
    corner_x[i] = w[0] * x[f[0]] + w[1] * x[f[1]] + w[2] * x[f[2]]
    corner_v[i] = w[0] * v[f[0]] + w[1] * v[f[1]] + w[2] * v[f[2]]

"""What keeps a rod or a limb from passing through cloth: edges that crossed the core of a collider in a step did not.

A half-space holds for a step, and direction and nearest point are those of its start. Where cloth slides far in a step, or
is pulled by its neighbours, an edge can come out on the other side of a thin collider all the same; from then on its half-
spaces hold it there, and the rod is stuck through the cloth. So spheres and capsules have a core
deep inside: the axis, or the centre. An edge whose way through a step, seen from the collider, crosses the core goes with the
collider instead: both of its vertices are carried along as they lay at the start of the step, and take the velocity of the
collider (as rigid impact zones do, Provot 1997). Edges of carried vertices can cross a core for that reason, so that this
is done a few times.

Cloth that would have to be stretched far for that is let go: its vertices are lost, and the collider passes. A thin
collider does not touch a vertex that it has lost; a thick one, as an arm in its sleeve, pushes it back to the side that it
came from. The same goes for vertices where a collider sticks through the cloth all the same, so that cloth does not stay
stretched around it: it falls off, edge by edge. A vertex is no longer lost once the core is away from its edges and
triangles.

Only vertices that have a half-space in the step are looked at, and those that are lost.
"""

# mypy: disable-error-code="arg-type, empty-body"

import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX, first_three
from weft.geometry.stencil import nearest_edge_edge, on_segment
from weft.methods.predictive.collider_shapes import ColliderArrays, carried, rotation_of
from weft.methods.predictive.half_spaces import HalfSpaceArrays
from weft.methods.predictive.state import VertexArrays
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# what is nearer to the core than this share of the collider's radius has crossed it: cloth that lies on a rod never is, since
# edges keep off its surface
DEPTH = wp.constant(wp.float64(0.25))
# a vertex that is nearer to the core than this share of the radius at the start of a step is on no side of the collider
UNKNOWN = wp.constant(wp.float64(0.75))
# square of the least sine of an angle
TINY = wp.constant(wp.float64(1e-4))
# an edge that is longer than this many times its rest length is not carried along: the collider goes through
TORN = wp.constant(wp.float64(1.5))
# the carrier of a vertex that nothing carries, but of which an edge may come near to a core
NEAR = wp.constant(-2)

_native = NativeHeader(__file__, "cores.h")


@wp.func
def segment_distance(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d, d: wp.vec3d) -> wp.float64:
    """The distance of two segments."""
    at = nearest_edge_edge(a, b, c, d)
    return wp.length(a + at[0] * (b - a) - c - at[1] * (d - c))


@wp.func
def pierces(p: wp.vec3d, q: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> bool:
    """Whether the segment pq crosses the triangle abc."""
    n = wp.cross(b - a, c - a)
    above = wp.dot(n, p - a)
    below = wp.dot(n, q - a)
    if above * below >= ZERO:
        return False
    r = p + (above / (above - below)) * (q - p) - a
    squared = wp.dot(n, n)
    v = wp.dot(wp.cross(r, c - a), n)
    w = wp.dot(wp.cross(b - a, r), n)
    return v >= ZERO and w >= ZERO and v + w <= squared


@wp.func
def crosses_core(half: wp.vec3d, near: wp.float64, a: wp.vec3d, b: wp.vec3d, to_a: wp.vec3d, to_b: wp.vec3d) -> bool:
    """Whether an edge ab that goes straight to `to_a`, `to_b` comes near to the segment from -half to half.

    What is near at the start is no crossing of this step.
    """
    if segment_distance(a, b, -half, half) <= near:
        return False
    if segment_distance(to_a, to_b, -half, half) <= near:
        return True
    if segment_distance(a, to_a, -half, half) <= near or segment_distance(b, to_b, -half, half) <= near:
        return True
    return pierces(-half, half, a, b, to_b) or pierces(-half, half, a, to_b, to_a)


@wp.func
def place_in(pose: wp.mat44d, centre: wp.vec3d, x: wp.vec3d) -> wp.vec3d:
    """A point of the world in the frame of a collider, about its centre."""
    return wp.transpose(rotation_of(pose)) * (x - carried(pose, centre))


@wp.func
def off_core(half: wp.vec3d, x: wp.vec3d) -> wp.vec3d:
    """From the nearest point of the core to a point, in the frame of the collider."""
    return x - (wp.float64(2.0) * on_segment(x, -half, half) - ONE) * half


@wp.func
def is_short(i: int, j: int, distance: wp.float64, near: wp.float64, a: VertexArrays) -> bool:
    """Whether an edge is too short, at the start and at the end of the step, to come near to a core so far from vertex i."""
    enough = wp.max(distance - near, ZERO)
    squared = wp.max(wp.length_sq(a.x[j] - a.x[i]), wp.length_sq(first_three(a.p[j] - a.p[i])))
    return squared < enough * enough


@wp.func_native(PACKED_VERTEX + _native.body("comes_near", DEPTH=DEPTH))
def comes_near(i: int, k: int, a: VertexArrays, c: ColliderArrays) -> bool:
    """Whether an edge of vertex i is so long that it can be near to the core of collider k in the step, or at its end."""
    ...


@wp.func
def core_in_the_way(i: int, k: int, a: VertexArrays, c: ColliderArrays) -> int:
    """Whether an edge of vertex i crossed the core of collider k since the start of the step; 2 where it was stretched far.

    -1: no edge is so long that it could have.
    """
    if not comes_near(i, k, a, c):
        return -1
    core = c.cores[k]
    half = wp.vec3d(core[0], core[1], core[2])
    near = DEPTH * core[3]
    centre = c.shapes[k].centre
    x = place_in(c.start[k], centre, a.x[i])
    to_x = place_in(c.end[k], centre, first_three(a.p[i]))
    off = off_core(half, x)
    to_off = off_core(half, to_x)
    on_way = off + on_segment(wp.vec3d(), off, to_off) * (to_off - off)
    distance = wp.length(on_way)
    found = int(0)
    for e in range(a.neighbour_offsets[i], a.neighbour_offsets[i + 1]):
        j = a.neighbours[e]
        if a.lost[j] != k and not is_short(i, j, distance, near, a):
            y = place_in(c.start[k], centre, a.x[j])
            to_y = place_in(c.end[k], centre, first_three(a.p[j]))
            # both of its vertices decide alike, to the last bit
            crosses = False
            if i < j:
                crosses = crosses_core(half, near, x, y, to_x, to_y)
            else:
                crosses = crosses_core(half, near, y, x, to_y, to_x)
            if crosses:
                found = wp.max(found, 1)
                if wp.length(y - x) > TORN * a.neighbour_rest[e]:
                    found = 2
    return found


@wp.func
def nearest_edge(i: int, k: int, a: VertexArrays, c: ColliderArrays) -> wp.float64:
    """How near the edges of a vertex come to the core of a collider at the end of the step."""
    core = c.cores[k]
    half = wp.vec3d(core[0], core[1], core[2])
    centre = c.shapes[k].centre
    x = place_in(c.end[k], centre, first_three(a.p[i]))
    least = wp.float64(1.0e30)
    for e in range(a.neighbour_offsets[i], a.neighbour_offsets[i + 1]):
        y = place_in(c.end[k], centre, first_three(a.p[a.neighbours[e]]))
        least = wp.min(least, segment_distance(x, y, -half, half))
    return least


@wp.func
def is_pierced(i: int, k: int, a: VertexArrays, c: ColliderArrays) -> bool:
    """Whether the core of a collider goes through a triangle of a vertex, or past one of its edges, at the end of the step."""
    core = c.cores[k]
    half = wp.vec3d(core[0], core[1], core[2])
    centre = c.shapes[k].centre
    distance = wp.length(off_core(half, place_in(c.end[k], centre, first_three(a.p[i]))))
    long_edges = int(0)
    for e in range(a.neighbour_offsets[i], a.neighbour_offsets[i + 1]):
        if not is_short(i, a.neighbours[e], distance, DEPTH * core[3], a):
            long_edges += 1
    if long_edges == 0:
        return False
    if nearest_edge(i, k, a, c) <= DEPTH * core[3]:
        return True
    for s in range(a.corner_offsets[i], a.corner_offsets[i + 1]):
        f = a.faces[a.corners[s] // 3]
        p = place_in(c.end[k], centre, first_three(a.p[f[0]]))
        q = place_in(c.end[k], centre, first_three(a.p[f[1]]))
        r = place_in(c.end[k], centre, first_three(a.p[f[2]]))
        if pierces(-half, half, p, q, r):
            return True
    return False


@wp.func
def lose(i: int, k: int, up: wp.vec3d, a: VertexArrays, c: ColliderArrays):
    """Let vertex i pass collider k from now on, which remembers the side that it came from.

    Cloth that was deep inside already, as at the start of a scene, came from above: all of it, so that it is not torn open.
    """
    core = c.cores[k]
    half = wp.vec3d(core[0], core[1], core[2])
    off = off_core(half, place_in(c.start[k], c.shapes[k].centre, a.x[i]))
    if wp.length(off) < UNKNOWN * core[3]:
        axis = wp.normalize(half)
        above = wp.transpose(rotation_of(c.start[k])) * up
        above -= wp.dot(above, axis) * axis
        # along an upright capsule nothing is above
        if wp.length_sq(above) > TINY * wp.length_sq(up):
            off = above
    a.home[i] = wp.normalize(off)
    a.lost[i] = k


@wp.func
def is_new(place: int, first: int, halves: HalfSpaceArrays) -> bool:
    """Whether a half-space is the first one of its vertex and its collider."""
    if place == first:
        return True
    same = halves.vertices[place] == halves.vertices[place - 1] and halves.numbers[place] == halves.numbers[place - 1]
    return not same


@wp.func
def find_carried(first: int, last: int, number: int, halves: HalfSpaceArrays, a: VertexArrays, c: ColliderArrays):
    """Which vertices with half-spaces first..last-1 a collider is to carry along, or to lose, in a round of this number."""
    for place in range(first, last):
        i = halves.vertices[place]
        k = halves.numbers[place]
        if c.cores[k][3] > ZERO and a.carrier[i] < 0 and a.lost[i] != k and is_new(place, first, halves):
            found = core_in_the_way(i, k, a, c)
            if found > 0:
                a.carrier[i] = k + (found - 1) * c.shapes.shape[0]
                a.carries[number] = 1
            elif found == 0:
                a.carrier[i] = NEAR


@wp.func
def carry(i: int, share: wp.float64, up: wp.vec3d, a: VertexArrays, c: ColliderArrays):
    """Have vertex i go with the collider that carries it, if any, or be lost; a substep is this share of the step."""
    if a.carrier[i] < 0:
        return
    k = a.carrier[i] % c.shapes.shape[0]
    if k < a.carrier[i]:
        lose(i, k, up, a, c)
        return
    local = place_in(c.start[k], c.shapes[k].centre, a.x[i])
    end = carried(c.end[k], c.shapes[k].centre + local)
    back = end - share * (end - a.x[i])
    w = a.p[i][3]
    a.p[i] = wp.vec4d(end[0], end[1], end[2], w)
    a.before[i] = wp.vec4d(back[0], back[1], back[2], w)


@wp.func
def free_lost(i: int, a: VertexArrays, c: ColliderArrays):
    """Vertex i is no longer lost once no collider is near to its edges or goes through its triangles."""
    k = a.lost[i]
    if k >= 0:
        if nearest_edge(i, k, a, c) > c.cores[k][3] and not is_pierced(i, k, a, c):
            a.lost[i] = -1


@wp.func
def lose_pierced(first: int, last: int, up: wp.vec3d, halves: HalfSpaceArrays, a: VertexArrays, c: ColliderArrays):
    """Vertices with half-spaces first..last-1 are lost where a collider is through the cloth all the same."""
    for place in range(first, last):
        i = halves.vertices[place]
        k = halves.numbers[place]
        # where nothing was carried, only the edges that may have crossed a core can be at one
        if a.carries[0] == 0 and a.carrier[i] != NEAR:
            continue
        if c.cores[k][3] > ZERO and a.lost[i] < 0 and is_new(place, first, halves):
            if is_pierced(i, k, a, c):
                lose(i, k, up, a, c)

"""Bounds of vertices, edges and triangles that rule out candidates: cones of directions, and bounds on their motion.

A cone holds the directions in which a vertex or an edge can be the nearest feature of a surface. The nearest point of one
triangle may lie on its border while a neighbouring triangle has a nearer one. Such a pair is no contact of the surface, and
pushing along its slanted direction would hook cloth that slides from one triangle to the next. A point on the border counts
only if its direction lies in the cone of that vertex or edge. The cones are a little wider than exact ones, so that flat
surfaces keep the pairs of edges that cross over them.

With bounds on the motion of features in a step most candidates need no further test. Features that are near each other
mostly move alike. So the displacements of the vertices of a feature are enclosed in a ball (centre and radius in a vec4d), and
two features can approach each other by at most the largest difference of points of their balls. A vertex that leaves the box
in which the broad phase expected it is marked as escaped.
"""

# mypy: disable-error-code="arg-type"

from dataclasses import dataclass

import numpy as np
import warp as wp

from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# sine of the angle by which a direction may lean towards a neighbour before the neighbour counts as nearer; exact cones
# have 0
LEAN = wp.constant(wp.float64(0.2))
ZERO = wp.constant(wp.float64(0.0))


@wp.func
def in_edge_cone(
    direction: wp.vec3d, e: int, edges: wp.array[wp.vec2i], wings: wp.array[wp.vec2i], x: wp.array[wp.vec3d]
) -> bool:
    """Whether an edge can be nearest to a point that lies in this unit direction from it."""
    a = x[edges[e][0]]
    along = x[edges[e][1]] - a
    length = wp.dot(along, along)
    for side in range(2):
        c = wings[e][side]
        if c >= 0:
            wing = x[c] - a
            if length > ZERO:
                wing = wing - (wp.dot(wing, along) / length) * along
            if wp.dot(direction, wing) > LEAN * wp.length(wing):
                return False
    return True


@wp.func
def in_vertex_cone(
    direction: wp.vec3d,
    vertex: int,
    neighbour_offsets: wp.array[int],
    neighbours: wp.array[int],
    x: wp.array[wp.vec3d],
) -> bool:
    """Whether a vertex can be nearest to a point that lies in this unit direction from it."""
    centre = x[vertex]
    for k in range(neighbour_offsets[vertex], neighbour_offsets[vertex + 1]):
        spoke = x[neighbours[k]] - centre
        if wp.dot(direction, spoke) > LEAN * wp.length(spoke):
            return False
    return True


@dataclass(frozen=True)
class Cones:
    """The topology that cones need: the third corners beside each edge, the neighbours of each vertex."""

    wings: wp.array
    """(e,) vec2i: the corner opposite the edge in its first two triangles, -1 where there is none"""
    neighbour_offsets: wp.array
    neighbours: wp.array

    @classmethod
    def of(cls, surface: Surface) -> "Cones":
        """The cones of a surface."""
        device = surface.device
        faces, face_edges = surface.faces.numpy().reshape(-1, 3), surface.face_edges.numpy().reshape(-1, 3)
        edges = surface.edges.numpy().reshape(-1, 2)

        # edge k joins corners k and k + 1, so corner k + 2 is opposite
        flat = face_edges.ravel()
        opposite = np.roll(faces, -2, axis=1).ravel()
        order = np.argsort(flat, kind="stable")
        rank = np.arange(len(flat)) - np.searchsorted(flat[order], flat[order])
        wings = np.full((len(edges), 2), -1, np.int32)
        near = rank < 2
        wings[flat[order][near], rank[near]] = opposite[order][near]

        both = np.concatenate([edges, edges[:, ::-1]])
        both = both[np.lexsort((both[:, 1], both[:, 0]))]
        offsets = np.searchsorted(both[:, 0], np.arange(surface.vertex_count + 1)).astype(np.int32)
        return cls(
            wp.array(wings, dtype=wp.vec2i, device=device),
            wp.array(offsets, dtype=int, device=device),
            wp.array(np.ascontiguousarray(both[:, 1]).astype(np.int32), dtype=int, device=device),
        )


HALF = wp.constant(wp.float64(0.5))
THIRD = wp.constant(wp.float64(1.0 / 3.0))


@wp.func
def ball_of_three(a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """Centre and radius of a ball around three points."""
    m = THIRD * (a + b + c)
    radius = wp.sqrt(wp.max(wp.max(wp.length_sq(a - m), wp.length_sq(b - m)), wp.length_sq(c - m)))
    return wp.vec4d(m[0], m[1], m[2], radius)


@wp.func
def ball_of_two(a: wp.vec3d, b: wp.vec3d) -> wp.vec4d:
    """Centre and radius of a ball around two points."""
    m = HALF * (a + b)
    return wp.vec4d(m[0], m[1], m[2], HALF * wp.length(b - a))


@wp.struct
class PairMotion:
    """The motion of the first and of the second features of pairs: vertices and triangles, or edges and edges."""

    balls: wp.array[wp.vec4d]
    """centre and radius of a ball around the displacements of each feature"""
    other_balls: wp.array[wp.vec4d]


@wp.func
def approach(motion: PairMotion, pair: wp.vec2i) -> wp.float64:
    """How far the two features of a pair can approach each other."""
    return relative_motion(motion.balls[pair[0]], motion.other_balls[pair[1]])


@wp.func
def relative_motion(a: wp.vec4d, b: wp.vec4d) -> wp.float64:
    """How far two features can approach each other, from the balls around their displacements."""
    return wp.length(wp.vec3d(a[0] - b[0], a[1] - b[1], a[2] - b[2])) + a[3] + b[3]


@wp.kernel
def enclose_vertices(first: int, x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], motion: wp.array[wp.vec4d]):
    """The displacement of each vertex, as a ball with radius 0."""
    i = first + wp.tid()
    move = end[i] - x[i]
    motion[i] = wp.vec4d(move[0], move[1], move[2], ZERO)


@wp.kernel
def enclose_faces(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    motion: wp.array[wp.vec4d],
):
    """A ball around the displacements of each triangle's corners."""
    i = first + wp.tid()
    f = faces[i]
    motion[i] = ball_of_three(end[f[0]] - x[f[0]], end[f[1]] - x[f[1]], end[f[2]] - x[f[2]])


@wp.kernel
def enclose_edges(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    edges: wp.array[wp.vec2i],
    motion: wp.array[wp.vec4d],
):
    """A ball around the displacements of each edge's ends."""
    i = first + wp.tid()
    e = edges[i]
    motion[i] = ball_of_two(end[e[0]] - x[e[0]], end[e[1]] - x[e[1]])


@wp.kernel
def mark_escaped(
    first: int,
    x: wp.array[wp.vec3d],
    expected: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    frame: wp.array[wp.vec3d],
    slack: wp.float64,
    escaped: wp.array[int],
    new_escapes: wp.array[int],
):
    """Flag the vertices whose `end` is outside the box around x, `expected` and `reached` by more than the slack.

    `reached` is where a vertex that escaped before went; frame[1] is the mean displacement, which the boxes do not
    contain.
    """
    i = first + wp.tid()
    a = x[i]
    b = expected[i] - frame[1]
    c = reached[i] - frame[1]
    d = end[i] - frame[1]
    far = ZERO
    for axis in range(3):
        low = wp.min(wp.min(a[axis], b[axis]), c[axis])
        high = wp.max(wp.max(a[axis], b[axis]), c[axis])
        far = wp.max(far, wp.max(low - d[axis], d[axis] - high))
    if far > slack:
        escaped[i] = 1
        # all threads that write this write the same
        new_escapes[0] = 1
    if escaped[i] == 1:
        reached[i] = end[i]


@wp.kernel
def mark_faces(first: int, faces: wp.array[wp.vec3i], escaped: wp.array[int], marked: wp.array[int]):
    """How many corners of a triangle escaped."""
    i = first + wp.tid()
    f = faces[i]
    marked[i] = escaped[f[0]] + escaped[f[1]] + escaped[f[2]]


@wp.kernel
def mark_edges(first: int, edges: wp.array[wp.vec2i], escaped: wp.array[int], marked: wp.array[int]):
    """How many ends of an edge escaped."""
    i = first + wp.tid()
    e = edges[i]
    marked[i] = escaped[e[0]] + escaped[e[1]]

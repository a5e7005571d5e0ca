"""Cloth that has passed through cloth: found at the start of a step, let go, and drawn back out.

Contacts keep features on the side where the search finds them, so that cloth which has once been forced through would be held
there, and contacts of features that cross pull against each other and against the springs for ever. So the edges that cross
triangles now are found; contacts between vertices at them and around them sleep for the step, unless layers say which side
is right; and the crossings are moved the way that shortens the curve in which the two sheets intersect (Volino and
Magnenat-Thalmann 2006, *Resolving surface collisions through intersection contour minimization*), without giving velocity.

If an edge with unit vector E crosses a triangle of normal N, the curve goes on from there into each triangle at the edge, along
unit vectors R. To move the edge by d against the triangle moves the crossing by d - E (d . N) / (E . N), and shortens the curve
by G . d with G = sum of R - (E . R) / (E . N) N.

Crossings that were not there a step ago are undone first: the five vertices of edge and triangle take the mean of their
displacements over that step, so that they lie to each other as they did at its start, and crossings that share vertices
grow together into zones that move as one (Provot 1997, without rotation). What is left after a few rounds is a tangle.

Vertices sum up their moves as integers, so that the order does not matter and all devices agree.
"""

# mypy: disable-error-code="arg-type"

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import BroadPhase, make_broad_phase
from weft.methods.predictive.contacts import SearchSurface
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
FIFTH = wp.constant(wp.float64(0.2))
TINY = wp.constant(wp.float64(1e-12))
# weight of a held vertex in the mean of displacements
HELD = wp.constant(wp.float64(1e9))
# rounds in which new crossings are undone: where zones are larger, more are needed
ROUNDS = 8
# steps from one look for crossings that no contact announces to the next
RARELY = 16
# moves by which tangles are drawn out at the start of a step
DRAWS = 3
# a unit of the sums of moves: a move of length 1 is so many units, of which 2^22 fit into 64 bits
UNIT = wp.constant(wp.float64(2.0**40))
# share of an edge's length that a vertex is moved in a step at most
LARGEST_MOVE = 0.25
# length of G from which on a crossing moves at full speed: where the curve is nearly straight its direction is noise
CERTAIN = wp.constant(wp.float64(0.3))
# least cosine of the angle between edge and normal that is divided by: grazing edges would be moved along the normal only
GRAZING = wp.constant(wp.float64(0.1))


@wp.struct
class TangleArrays:
    """What is known of each vertex."""

    marks: wp.array[int]
    """1 at a crossing, 2 beside one"""
    before: wp.array[wp.vec3d]
    """positions at the start of the step before"""
    moves: wp.array2d[wp.int64]
    """sums of moves, three numbers a vertex; of changes of velocity, three more; and how many they are"""
    inverse_mass: wp.array[wp.float64]
    counts: wp.array[int]
    """crossings, and those of them that are new"""


@wp.func
def crossing_share(p: wp.vec3d, q: wp.vec3d, a: wp.vec3d, b: wp.vec3d, c: wp.vec3d) -> wp.vec4d:
    """Where the edge pq crosses triangle abc: its share of the edge, and barycentric coordinates; -1 for nowhere."""
    none = wp.vec4d(-ONE, ZERO, ZERO, ZERO)
    n = wp.cross(b - a, c - a)
    squared = wp.dot(n, n)
    above = wp.dot(n, p - a)
    below = wp.dot(n, q - a)
    if squared == ZERO or above * below > ZERO or above == below:
        return none
    t = above / (above - below)
    r = p + t * (q - p) - a
    v = wp.dot(wp.cross(r, c - a), n) / squared
    w = wp.dot(wp.cross(b - a, r), n) / squared
    if v < ZERO or w < ZERO or v + w > ONE:
        return none
    return wp.vec4d(t, ONE - v - w, v, w)


@wp.func
def shortening_move(
    e: wp.vec2i, wings: wp.vec2i, n: wp.vec3d, x: wp.array[wp.vec3d], faces: wp.array[wp.vec3i]
) -> wp.vec3d:
    """G of an edge with triangles `wings` that crosses a triangle of unit normal n."""
    p = x[e[0]]
    along = wp.normalize(x[e[1]] - p)
    steep = wp.dot(along, n)
    if wp.abs(steep) < GRAZING:
        steep = wp.where(steep < ZERO, -GRAZING, GRAZING)
    total = wp.vec3d()
    for k in range(2):
        if wings[k] >= 0:
            f = faces[wings[k]]
            third = x[f[0] + f[1] + f[2] - e[0] - e[1]] - p
            inward = third - wp.dot(third, along) * along
            r = wp.cross(n, wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]]))
            length = wp.length(r)
            if length > TINY * TINY:
                r = r / length
                if wp.dot(r, inward) < ZERO:
                    r = -r
                total += r - (wp.dot(along, r) / steep) * n
    return total


@wp.func
def add_move(i: int, move: wp.vec3d, change: wp.vec3d, tangles: TangleArrays):
    """A move of a vertex and a change of its velocity, and its mark."""
    tangles.marks[i] = 1
    for k in range(3):
        wp.atomic_add(tangles.moves, i, k, wp.int64(UNIT * move[k]))
        wp.atomic_add(tangles.moves, i, 3 + k, wp.int64(UNIT * change[k]))
    wp.atomic_add(tangles.moves, i, 6, wp.int64(1))


@wp.func
def undo_crossing(e: wp.vec2i, f: wp.vec3i, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], tangles: TangleArrays):
    """The moves that give the vertices of edge e and triangle f the mean of their displacements, if the crossing is new.

    They take the mean of their velocities too.
    """
    y = tangles.before
    if crossing_share(y[e[0]], y[e[1]], y[f[0]], y[f[1]], y[f[2]])[0] < ZERO:
        wp.atomic_add(tangles.counts, 1, 1)
        total = wp.vec3d()
        momentum = wp.vec3d()
        weight = ZERO
        for j in range(5):
            i = wp.where(j < 2, e[j % 2], f[(j + 1) % 3])
            # where vertices are held all others take their displacement
            heavy = wp.where(tangles.inverse_mass[i] == ZERO, HELD, ONE)
            total += heavy * (x[i] - tangles.before[i])
            momentum += heavy * v[i]
            weight += heavy
        for j in range(5):
            i = wp.where(j < 2, e[j % 2], f[(j + 1) % 3])
            add_move(i, total / weight - (x[i] - tangles.before[i]), momentum / weight - v[i], tangles)


@wp.func
def cross_faces(
    f: int,
    g: int,
    undo: int,
    v: wp.array[wp.vec3d],
    face_edges: wp.array[wp.vec3i],
    surface: SearchSurface,
    tangles: TangleArrays,
):
    """The edges that triangle f owns and that cross triangle g."""
    corners = surface.faces[g]
    a = surface.x[corners[0]]
    b = surface.x[corners[1]]
    c = surface.x[corners[2]]
    for k in range(3):
        if (surface.owned[f] >> (3 + k)) & 1 == 1:
            edge = face_edges[f][k]
            e = surface.edges[edge]
            shares = False
            for j in range(3):
                shares = shares or e[0] == corners[j] or e[1] == corners[j]
            sewn = False
            if surface.sewn != 0:
                for j in range(3):
                    group = surface.sewn_to[corners[j]]
                    sewn = sewn or surface.sewn_to[e[0]] == group or surface.sewn_to[e[1]] == group
            if not shares and not sewn:
                at = crossing_share(surface.x[e[0]], surface.x[e[1]], a, b, c)
                if at[0] >= ZERO:
                    wp.atomic_add(tangles.counts, 0, 1)
                    layered = surface.above[surface.edge_region[edge], surface.face_region[g]] != 0
                    if undo != 0:
                        if layered:
                            # which side is right is known: contacts bring them back, and the curve moves on the way
                            continue
                        undo_crossing(e, corners, surface.x, v, tangles)
                    else:
                        n = wp.normalize(wp.cross(b - a, c - a))
                        move = shortening_move(e, surface.edge_faces[edge], n, surface.x, surface.faces)
                        move = move / wp.max(wp.length(move), CERTAIN)
                        mean = FIFTH * (v[e[0]] + v[e[1]] + v[corners[0]] + v[corners[1]] + v[corners[2]])
                        for j in range(2):
                            add_move(e[j], move, mean - v[e[j]], tangles)
                        for j in range(3):
                            add_move(corners[j], -move, mean - v[corners[j]], tangles)


@wp.kernel
def find_crossings(
    first: int,
    undo: int,
    pairs: wp.array[wp.vec2i],
    v: wp.array[wp.vec3d],
    face_edges: wp.array[wp.vec3i],
    surface: SearchSurface,
    tangles: TangleArrays,
):
    """The moves of edges that cross triangles, among pairs of triangles: those that undo new crossings, or shorten curves."""
    pair = pairs[first + wp.tid()]
    cross_faces(pair[0], pair[1], undo, v, face_edges, surface, tangles)
    cross_faces(pair[1], pair[0], undo, v, face_edges, surface, tangles)


@wp.func
def mean_move(i: int, first: int, tangles: TangleArrays) -> wp.vec3d:
    """The mean of the moves of a vertex that can move (first = 0), or of the changes of its velocity (3)."""
    total = wp.vec3d()
    count = tangles.moves[i, 6]
    if count > wp.int64(0) and tangles.inverse_mass[i] > ZERO:
        for k in range(3):
            total[k] = wp.float64(tangles.moves[i, first + k]) / (UNIT * wp.float64(count))
    return total


@wp.kernel
def apply_moves(first: int, unit: wp.float64, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], tangles: TangleArrays):
    """Move each vertex by the mean of its moves, in units of so many metres, and change its velocity likewise."""
    i = first + wp.tid()
    x[i] = x[i] + unit * mean_move(i, 0, tangles)
    v[i] = v[i] + mean_move(i, 3, tangles)


class Tangles:
    """The crossings of cloth with cloth at the start of a step."""

    def __init__(self, mesh: Surface, surface: Any, vertices: Any) -> None:
        self.mesh = mesh
        # the surface of the search with positions of its own
        self._view: Any = SearchSurface()
        for name in SearchSurface.vars:  # type: ignore[attr-defined]
            setattr(self._view, name, getattr(surface, name))
        self.device, count = mesh.device, mesh.vertex_count
        # of its own: the search of contacts decides by what it has seen when its tree is built anew
        self._broad_phase: BroadPhase | None = None
        self._length = float(vertices.mean_edge)
        self._dt = 0.0
        self.steps = 0
        """that there were"""
        self.arrays: Any = TangleArrays()
        self.arrays.marks = wp.zeros(count, dtype=int, device=self.device)
        self.arrays.before = wp.zeros(count, dtype=wp.vec3d, device=self.device)
        self.arrays.moves = wp.zeros((count, 7), dtype=wp.int64, device=self.device)  # type: ignore[assignment]
        self.arrays.inverse_mass = vertices.inverse_mass
        self.arrays.counts = wp.zeros(2, dtype=int, device=self.device)
        self.count = 0
        """crossings when they were looked for last"""

    def part(self, x: wp.array, v: wp.array, dt: float, speed: float, *, armed: bool) -> int:
        """Undo what has crossed since the last step, and draw tangles out; gives how many crossings there were.

        x and v are positions and velocities at the start of a step dt; tangles move at most at this speed. Unless `armed`,
        nothing can have crossed: then crossings are looked for only where there were some, and in some steps.
        """
        arrays, length = self.arrays, len(self.arrays.marks)
        self.steps += 1
        if not armed and not self.count and self.steps % RARELY != 1:
            wp.copy(arrays.before, x, count=length)
            return 0
        for _ in range(ROUNDS if self._dt > 0.0 else 0):
            if not self._find(x, v, undo=True):
                break
            launch(apply_moves, length, [1.0, x, v, arrays], device=self.device)
        most = min(speed * dt, LARGEST_MOVE * self._length)
        for _ in range(DRAWS if self.count or self._dt == 0.0 else 0):
            self._find(x, v, undo=False)
            if not self.count:
                break
            launch(apply_moves, length, [most, x, v, arrays], device=self.device)
        wp.copy(arrays.before, x, count=length)
        self._dt = dt
        return self.count

    def forget(self) -> None:
        """The cloth is elsewhere than the last step left it: nothing that crosses is new."""
        self._dt, self.count, self.steps = 0.0, 0, 0

    def saved(self) -> np.ndarray:
        """What the next step needs: whether there was a step, crossings, the number of steps, positions before the last."""
        before = self.arrays.before.numpy()
        return np.concatenate([[[self._dt, self.count, self.steps]], before])

    def restore(self, saved: np.ndarray) -> None:
        """Take up what `saved` gave."""
        self._dt, self.count, self.steps = float(saved[0, 0]), int(saved[0, 1]), int(saved[0, 2])
        self.arrays.before.assign(saved[1:])

    def _find(self, x: wp.array, v: wp.array, *, undo: bool) -> int:
        """Find all crossings and their moves; gives how many new ones there are to undo."""
        arrays: tuple[wp.array, ...] = (self.arrays.marks, self.arrays.moves, self.arrays.counts)
        for array in arrays:
            array.zero_()
        if self._broad_phase is None:
            self._broad_phase = make_broad_phase("bvh", self.mesh)
        self._broad_phase.update(x, x, 0.0)
        pairs = self._broad_phase.triangle_pairs()
        self.count = 0
        if not len(pairs):
            return 0
        self._view.x = x
        inputs = [int(undo), pairs, v, self.mesh.face_edges, self._view, self.arrays]
        # on the CPU atomic additions are of one thread
        launch(find_crossings, len(pairs), inputs, device=self.device, grain=len(pairs))
        self.count, new = self.arrays.counts.numpy().tolist()
        return int(new)

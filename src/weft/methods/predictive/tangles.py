"""Cloth that has passed through cloth: found at the end of a step, and undone or drawn back out.

Contacts keep features on the side where the search finds them, so that cloth which has once been forced through would be held
there, and contacts of features that cross pull against each other and against the springs for ever. So the edges that cross
triangles now are found, and those that are older than the step are moved the way that shortens the curve in which the two
sheets intersect (Volino and Magnenat-Thalmann 2006, *Resolving surface collisions through intersection contour minimization*),
without giving velocity.

If an edge with unit vector E crosses a triangle of normal N, the curve goes on from there into each triangle at the edge, along
unit vectors R. To move the edge by d against the triangle moves the crossing by d - E (d . N) / (E . N), and shortens the curve
by G . d with G = sum of R - (E . R) / (E . N) N.

Crossings that were not there at the start of the step are undone: the five vertices of edge and triangle become a zone, and
zones that share vertices are one. A zone goes through the step as a rigid body, so that its vertices lie to each other as they
did at its start (Provot 1997; `weft.methods.predictive.zones`). What crosses then makes zones larger, until nothing does: at
the latest where all cloth is one zone. Only where cloth is held elsewhere, or would stay stretched far or enter a collider for
it, a crossing is left, which is a tangle from then on. Contacts between vertices at tangles sleep in the next step, unless
layers say which side is right: they would hold the cloth on the side where it is.

Vertices sum up their moves as integers, so that the order does not matter and all devices agree.
"""

# mypy: disable-error-code="arg-type"

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import BroadPhase, make_broad_phase
from weft.methods.predictive.budget import never
from weft.methods.predictive.contacts import SearchSurface, StepContactArrays, StepContacts
from weft.methods.predictive.half_spaces import HalfSpaces
from weft.methods.predictive.zones import (
    Step,
    first_of_each,
    join_zones,
    loose_vertices,
    planes_of,
    rigid_zones,
    weights_of,
)
from weft.runtime import launch
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
FIFTH = wp.constant(wp.float64(0.2))
FAR = wp.constant(wp.float64(1e30))
TINY = wp.constant(wp.float64(1e-12))
# rounds in which new crossings are undone at most: in each zones grow by what they meet. Most need two to ten
ROUNDS = 32
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

    zones: wp.array[int]
    """an earlier vertex of the same zone; the first one refers to itself"""
    marks: wp.array[int]
    """1 at a tangle whose right side is not known"""
    slack: wp.array[int]
    """1 where crossings are not undone, since the cloth would be torn"""
    before: wp.array[wp.vec3d]
    """positions at the start of the step"""
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
    # not the sign of their product, which is 0 where both are tiny
    if squared == ZERO or (above > ZERO and below > ZERO) or (above < ZERO and below < ZERO) or above == below:
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
    """A move of vertex i and a change of its velocity."""
    for k in range(3):
        wp.atomic_add(tangles.moves, i, k, wp.int64(UNIT * move[k]))
        wp.atomic_add(tangles.moves, i, 3 + k, wp.int64(UNIT * change[k]))
    wp.atomic_add(tangles.moves, i, 6, wp.int64(1))


@wp.func
def undo_crossing(e: wp.vec2i, f: wp.vec3i, tangles: TangleArrays):
    """Make the vertices of edge e and triangle f a zone, if their crossing is new."""
    y = tangles.before
    loose = tangles.slack[e[0]] + tangles.slack[e[1]]
    for k in range(3):
        loose += tangles.slack[f[k]]
    if loose == 0 and crossing_share(y[e[0]], y[e[1]], y[f[0]], y[f[1]], y[f[2]])[0] < ZERO:
        wp.atomic_add(tangles.counts, 1, 1)
        join_zones(e[0], e[1], tangles.zones)
        for k in range(3):
            join_zones(e[0], f[k], tangles.zones)


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
                    # layers know which side is right where both face the same way
                    layered = surface.above[surface.edge_region[edge], surface.face_region[g]] != 0
                    if layered:
                        p = surface.x[surface.faces[f][0]]
                        up = wp.cross(surface.x[surface.faces[f][1]] - p, surface.x[surface.faces[f][2]] - p)
                        layered = wp.dot(up, wp.cross(b - a, c - a)) > ZERO
                    if undo != 0:
                        if not layered:
                            # else contacts bring them back, and the curve moves on the way
                            undo_crossing(e, corners, tangles)
                    else:
                        n = wp.normalize(wp.cross(b - a, c - a))
                        move = shortening_move(e, surface.edge_faces[edge], n, surface.x, surface.faces)
                        move = move / wp.max(wp.length(move), CERTAIN)
                        mean = FIFTH * (v[e[0]] + v[e[1]] + v[corners[0]] + v[corners[1]] + v[corners[2]])
                        if not layered:
                            for j in range(5):
                                tangles.marks[wp.where(j < 2, e[j % 2], corners[(j + 1) % 3])] = 1
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
def mean_of(i: int, first: int, count: wp.int64, tangles: TangleArrays) -> wp.vec3d:
    """The mean of so many moves of vertex i, whose sums are from number `first` on."""
    total = wp.vec3d()
    for k in range(3):
        total[k] = wp.float64(tangles.moves[i, first + k]) / (UNIT * wp.float64(count))
    return total


@wp.kernel
def apply_moves(first: int, unit: wp.float64, x: wp.array[wp.vec3d], v: wp.array[wp.vec3d], tangles: TangleArrays):
    """Move each vertex by the mean of its moves, in units of so many metres, and change its velocity likewise."""
    i = first + wp.tid()
    count = tangles.moves[i, 6]
    if count > wp.int64(0) and tangles.inverse_mass[i] > ZERO:
        x[i] = x[i] + unit * mean_of(i, 0, count, tangles)
        v[i] = v[i] + mean_of(i, 3, count, tangles)


@wp.kernel
def sleep_contacts(first: int, contacts: StepContactArrays, marks: wp.array[int]):
    """Let go what contacts between cloth at tangles would hold on the wrong side."""
    i = first + wp.tid()
    q = contacts.vertices[i]
    triangle = contacts.triangles[i] >= 0
    one = marks[q[0]]
    other = marks[q[2]] + marks[q[3]]
    if triangle:
        other += marks[q[1]]
    else:
        one += marks[q[1]]
    if one + other == 4:
        if triangle:
            contacts.kinds[i] = 2 * contacts.kinds[i]
        else:
            contacts.thickness[i] = -FAR


class Tangles:
    """The crossings of cloth with cloth at the end of a step."""

    def __init__(self, mesh: Surface, surface: Any, vertices: Any, halves: HalfSpaces) -> None:
        self.mesh, self.halves = mesh, halves
        # the surface of the search with positions of its own
        self._view: Any = SearchSurface()
        for name in SearchSurface.vars:  # type: ignore[attr-defined]
            setattr(self._view, name, getattr(surface, name))
        self.device, count = mesh.device, mesh.vertex_count
        # of its own: the search of contacts decides by what it has seen when its tree is built anew
        self._broad_phase: BroadPhase | None = None
        self._length, self._edges = float(vertices.mean_edge), (vertices.edges, vertices.rest_lengths)
        self.steps = 0
        """that there were"""
        self.arrays: Any = TangleArrays()
        for name in ("marks", "slack", "zones"):
            setattr(self.arrays, name, wp.zeros(count, dtype=int, device=self.device))
        self.arrays.before = wp.zeros(count, dtype=wp.vec3d, device=self.device)
        self.arrays.moves = wp.zeros((count, 7), dtype=wp.int64, device=self.device)  # type: ignore[assignment]
        self.arrays.inverse_mass = vertices.inverse_mass
        self.arrays.counts = wp.zeros(2, dtype=int, device=self.device)
        self.count = 0
        """crossings when they were looked for last"""
        self.frozen = False
        """whether all cloth went through the last step as one rigid body, for want of time"""

    def begin(self, x: wp.array) -> None:
        """A step starts at these positions."""
        wp.copy(self.arrays.before, x, count=len(self.arrays.before))

    def resolve(
        self, x: wp.array, v: wp.array, dt: float, speed: float, *, armed: bool, late: Callable[[], bool] = never
    ) -> int:
        """Undo what has crossed in a step dt, and draw tangles out; gives how many crossings are left.

        x and v are positions and velocities at the end of the step; tangles move at most at this speed. Unless `armed`,
        nothing can have crossed: then crossings are looked for only where there were some, and in some steps. Once it is `late`
        nothing is looked for any more: if something crossed, all cloth is one zone.
        """
        self.steps += 1
        self.frozen = False
        if not armed and not self.count and self.steps % RARELY != 1:
            return 0
        self._undo(x, v, dt, late)
        if self.count and not late():
            self._draw(x, v, min(speed * dt, LARGEST_MOVE * self._length))
        return self.count

    def _draw(self, x: wp.array, v: wp.array, most: float) -> None:
        """Draw tangles out by moves of this length at most, but not into colliders."""
        was = x.numpy().copy()
        for _ in range(DRAWS):
            self.arrays.marks.zero_()
            self._find(x, v, undo=False)
            if not self.count:
                break
            launch(apply_moves, len(self.arrays.before), [most, x, v, self.arrays], device=self.device)
        drawn = x.numpy().copy()
        planes_of(self.halves).keep_out(was, drawn)
        x.assign(drawn)

    def let_go(self, contacts: StepContacts) -> None:
        """Have the contacts at tangles sleep, unless it is known which side is right."""
        if self.count:
            launch(sleep_contacts, contacts.count, [contacts.arrays, self.arrays.marks], device=self.device)

    def _undo(self, x: wp.array, v: wp.array, dt: float, late: Callable[[], bool]) -> None:
        """Undo the crossings that are new since the start of the step."""
        known = self.count
        arrays, alone = self.arrays, np.arange(len(self.arrays.zones), dtype=np.int32)
        arrays.zones.assign(alone)
        if not self._find(x, v, undo=True):
            return
        start, end, velocity = (array.numpy().copy() for array in (arrays.before, x, v))
        weight = weights_of(arrays.inverse_mass.numpy()[: len(end)])
        step = Step(start, end, velocity, weight, *self._edges, planes_of(self.halves), dt)
        slack = np.zeros(len(end), bool)
        for _ in range(ROUNDS if np.isfinite(end).all() else 0):
            if late():
                # no time to find the zones: all cloth is one, in which only held vertices can cross anything
                for array, values in zip((x, v), rigid_zones(np.zeros_like(alone), step), strict=True):
                    array.assign(values)
                self.count, self.frozen = known, True
                break
            zones = first_of_each(arrays.zones.numpy())
            moved, moving = rigid_zones(zones, step)
            loose = loose_vertices(zones, step, moved) & ~slack
            if loose.any():
                # once more, without them
                slack |= loose
                arrays.slack.assign(slack.astype(np.int32))
                arrays.zones.assign(alone)
                moved, moving = end, velocity
            x.assign(moved)
            v.assign(moving)
            if not self._find(x, v, undo=True):
                break
        if slack.any():
            arrays.slack.zero_()

    def forget(self) -> None:
        """The cloth is elsewhere than the last step left it."""
        self.count, self.steps = 0, 0
        self.arrays.marks.zero_()

    def saved(self) -> np.ndarray:
        """What the next step needs: crossings, the number of steps, and which vertices are at tangles."""
        return np.concatenate([[self.count, self.steps], self.arrays.marks.numpy()])

    def restore(self, saved: np.ndarray) -> None:
        """Take up what `saved` gave."""
        self.count, self.steps = saved[:2].tolist()
        self.arrays.marks.assign(saved[2:].astype(np.int32))

    def _find(self, x: wp.array, v: wp.array, *, undo: bool) -> int:
        """Find all crossings and their moves; gives how many new ones there are to undo."""
        self.arrays.moves.zero_()
        self.arrays.counts.zero_()
        if self._broad_phase is None:
            self._broad_phase = make_broad_phase("bvh", self.mesh)
        self._broad_phase.update(x, x, 0.0)
        pairs = self._broad_phase.triangle_pairs(share_vertex=True)
        self.count = 0
        if not len(pairs):
            return 0
        self._view.x = x
        inputs = [int(undo), pairs, v, self.mesh.face_edges, self._view, self.arrays]
        # on the CPU atomic additions are of one thread
        launch(find_crossings, len(pairs), inputs, device=self.device, grain=len(pairs))
        self.count, new = self.arrays.counts.numpy().tolist()
        return int(new)

"""Strain limiting: cloth stretches a little easily, then hardly any more, since its threads lock.

The conditions of Baraff and Witkin resist stretch as much as compression. Where a seam joins a long edge to a short one, or
a hand drags at a garment, real cloth wrinkles on one side long before it stretches by a quarter on the other; a mesh cannot
wrinkle finer than its edges. So edges that are, or will be, stretched beyond a limit get springs for the step (see
`weft.dynamics.implicit.step_springs`), many times as stiff as the cloth, within the same solve. Such a spring depends on the
edge at the start of the step; edges that are stretched much farther at the end of a step are shortened there (`clip`;
Provot 1995).
"""

import numpy as np
import warp as wp

from weft.dynamics.implicit.step_springs import CORNERS, StepSprings
from weft.mesh.topology import incidence
from weft.methods.untangle.cloth_contact import SpringColumns, spring_columns
from weft.runtime import launch
from weft.runtime.compaction import exclusive_scan
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# stretch at which an edge locks: larger values let seams and dragging hands stretch the cloth visibly
LOCKING_STRETCH = 0.12
LOCKED_LENGTH = wp.constant(wp.float64(1.0 + LOCKING_STRETCH))
# stretch from which an edge gets a spring, before it locks, so that a step does not overshoot
WATCHED_LENGTH = wp.constant(wp.float64(1.0 + LOCKING_STRETCH - 0.03))
# stiffness of a locked edge, in units of the stretch stiffness of the cloth: stiffer holds better and solves more slowly
LOCKED_STIFFNESS = 10.0
# m/s; the fastest contraction of a locked edge
CONTRACT_SPEED = wp.constant(wp.float64(1.0))
# stretch to which edges are clipped at the end of a step
LARGEST_STRETCH = 0.22
CLIPPED_LENGTH = wp.constant(wp.float64(1.0 + LARGEST_STRETCH))
# edges are clipped only if longer than that by this factor, so that rounding does not clip them again
CLIP_TOLERANCE = wp.constant(wp.float64(1.0 + 1e-7))
# rounds of clipping, at most
CLIP_ROUNDS = 30
# on a GPU, rounds between two readbacks of the number of edges that are too long
ROUNDS_PER_READBACK = 5


@wp.kernel
def choose_stretched(
    first: int,
    edges: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    spared: wp.array[wp.int8],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    dt: wp.float64,
    chosen: wp.array[int],
):
    """Mark the edges (with 1) that nearly lock, now or at the end of the step. `spared`: vertices whose edges do not lock."""
    i = first + wp.tid()
    e = edges[i]
    chosen[i] = 0
    if spared[e[0]] != wp.int8(0) or spared[e[1]] != wp.int8(0):
        return
    along = x[e[0]] - x[e[1]]
    now = wp.length(along)
    then = wp.length(along + dt * (v[e[0]] - v[e[1]]))
    if now > ZERO and wp.max(now, then) > WATCHED_LENGTH * rest[i]:
        chosen[i] = 1


@wp.kernel
def lock_edges(
    first: int,
    edges: wp.array[wp.vec2i],
    edge_rest: wp.array[wp.float64],
    edge_stiffness: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    base: int,
    chosen: wp.array[int],
    places: wp.array[int],
    springs: SpringColumns,
):
    """Write a spring that holds the ends of each chosen edge together, from number `base` on."""
    i = first + wp.tid()
    if chosen[i] == 1:
        s = base + places[i]
        e = edges[i]
        along = x[e[0]] - x[e[1]]
        for k in range(CORNERS):
            springs.vertices[CORNERS * s + k] = e[0]
            springs.weights[CORNERS * s + k] = ZERO
        springs.vertices[CORNERS * s + 1] = e[1]
        springs.weights[CORNERS * s] = ONE
        springs.weights[CORNERS * s + 1] = -ONE
        springs.normals[s] = -along / wp.length(along)
        springs.rest[s] = -LOCKED_LENGTH * edge_rest[i]
        springs.speed[s] = CONTRACT_SPEED
        springs.strength[s] = ZERO
        springs.stiffness[s] = edge_stiffness[i]
        springs.friction[s] = ZERO


@wp.func
def is_long(e: wp.vec2i, rest: wp.float64, held: wp.array[wp.int8], x: wp.array[wp.vec3d]) -> bool:
    """Whether an edge is to be clipped: too long, and neither end is held."""
    if held[e[0]] != wp.int8(0) or held[e[1]] != wp.int8(0):
        return False
    return wp.length(x[e[0]] - x[e[1]]) > CLIP_TOLERANCE * CLIPPED_LENGTH * rest


@wp.kernel
def find_long(
    first: int,
    edges: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    held: wp.array[wp.int8],
    x: wp.array[wp.vec3d],
    chosen: wp.array[int],
):
    """Mark the edges (with 1) that are to be clipped."""
    i = first + wp.tid()
    chosen[i] = 0
    if is_long(edges[i], rest[i], held, x):
        chosen[i] = 1


@wp.kernel
def shorten_around(
    first: int,
    offsets: wp.array[int],
    entries: wp.array[int],
    edges: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    held: wp.array[wp.int8],
    rate: wp.float64,
    x: wp.array[wp.vec3d],
    shortened: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """Move a vertex towards the other ends of its edges that are too long, by the mean of the corrections (a Jacobi round)."""
    i = first + wp.tid()
    total = wp.vec3d()
    count = ZERO
    for k in range(offsets[i], offsets[i + 1]):
        edge = entries[k] // 2
        e = edges[edge]
        if is_long(e, rest[edge], held, x):
            along = x[i] - x[e[1 - entries[k] % 2]]
            total += (HALF * (CLIPPED_LENGTH * rest[edge] / wp.length(along) - ONE)) * along
            count += ONE
    if count > ZERO:
        total = total / count
        v[i] = v[i] + rate * total
    shortened[i] = x[i] + total


class Locking:
    """Limits the strain of the edges of all cloths."""

    def __init__(self, world: World) -> None:
        cloths, device = world.cloths, world.device
        self.device, self.count = device, world.cloth_vertex_count
        none = np.zeros(0)
        edges = np.concatenate([np.zeros((0, 2), np.int32), *(cloth.mesh.edges + cloth.first for cloth in cloths)])
        rest = np.concatenate([none, *(cloth.mesh.rest_lengths for cloth in cloths)])
        stretch = [np.full(len(cloth.mesh.edges), cloth.material.mean("stretch")) for cloth in cloths]
        self._edges = wp.array(edges, dtype=wp.vec2i, device=device)
        self._rest = wp.array(rest, dtype=wp.float64, device=device)
        self._stiffness = wp.array(LOCKED_STIFFNESS * np.concatenate([none, *stretch]), dtype=wp.float64, device=device)
        self._around = [wp.array(a, dtype=int, device=device) for a in incidence(edges, self.count)]
        self._chosen, self._places = (wp.zeros(len(edges), dtype=int, device=device) for _ in range(2))
        self._shortened = wp.zeros(self.count, dtype=wp.vec3d, device=device)

    def lock(self, x: wp.array, v: wp.array, dt: float, springs: StepSprings, *, spared: wp.array) -> int:
        """Add springs for the edges that a step dt from x would stretch too far; gives how many.

        `spared`: marks of vertices whose edges do not lock.
        """
        edges, chosen, places = len(self._edges), self._chosen, self._places
        inputs = [self._edges, self._rest, spared, x, v, dt, chosen]
        launch(choose_stretched, edges, inputs, device=self.device)
        found = exclusive_scan(chosen, places)
        if found:
            first = springs.grow(found)
            inputs = [self._edges, self._rest, self._stiffness, x, first, chosen, places, spring_columns(springs)]
            launch(lock_edges, edges, inputs, device=self.device)
        return found

    def clip(self, x: wp.array, v: wp.array, dt: float, *, held: wp.array) -> int:
        """Shorten the edges that are too long after a step dt, by changing x and v; gives how many were too long.

        Both ends move by the same distance, which conserves momentum where masses are equal. Vertices marked in `held`
        stay, and their edges keep their length.
        """
        found, done = self._count_long(x, held), 0
        left = found
        while left and done < CLIP_ROUNDS:
            # a round in which no edge is too long changes nothing
            for _ in range(1 if self.device.is_cpu else ROUNDS_PER_READBACK):
                inputs = [*self._around, self._edges, self._rest, held, 1.0 / dt, x, self._shortened, v]
                launch(shorten_around, self.count, inputs, device=self.device)
                wp.copy(x, self._shortened, count=self.count)
                done += 1
            left = self._count_long(x, held) if done < CLIP_ROUNDS else 0
        return found

    def _count_long(self, x: wp.array, held: wp.array) -> int:
        inputs = [self._edges, self._rest, held, x, self._chosen]
        launch(find_long, len(self._edges), inputs, device=self.device)
        return exclusive_scan(self._chosen, self._places)

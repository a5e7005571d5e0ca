"""Threads lock: cloth gives way to a little stretch, then hardly any more.

The conditions of Baraff and Witkin resist stretch as much as compression. Where a seam joins a long edge to a short one, or
a hand drags at a garment, real cloth wrinkles on one side long before it is stretched by a quarter on the other; a mesh
wrinkles no finer than its edges. So edges that are, or would be, stretched beyond a limit are held by links (see `links`),
many times as stiff as the cloth, within the same solve. A link knows only what an edge does when the step begins; where
the end of a step has edges stretched much farther, `clip` brings their ends nearer to each other (Provot 1995).
"""

import numpy as np
import warp as wp

from weft.dynamics.implicit.step_springs import CORNERS, StepSprings
from weft.mesh.topology import incidence
from weft.runtime import launch
from weft.runtime.compaction import exclusive_scan
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# stretch at which an edge begins to lock, and how much earlier it is watched
LIMIT = 0.12
LONGEST = wp.constant(wp.float64(1.0 + LIMIT))
WATCHED = wp.constant(wp.float64(1.0 + LIMIT - 0.03))
# how stiff a locked edge is, in units of the cloth's stretch stiffness
STIFFER = 10.0
# the fastest way back, m/s
PACE = wp.constant(wp.float64(1.0))
# stretch beyond which the end of a step is clipped, in how many rounds at most
LARGEST = 0.22
CLIPPED = wp.constant(wp.float64(1.0 + LARGEST))
# what was clipped is as long as it may be: only what is longer by this part is clipped again, whatever the last bit says
SLACK = wp.constant(wp.float64(1.0 + 1e-7))
ROUNDS = 30
# rounds of a card between two looks of the host
BATCH = 5


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
    """1 where an edge is about to lock, now or at the end of the step."""
    i = first + wp.tid()
    e = edges[i]
    chosen[i] = 0
    if spared[e[0]] != wp.int8(0) or spared[e[1]] != wp.int8(0):
        return
    way = x[e[0]] - x[e[1]]
    now = wp.length(way)
    then = wp.length(way + dt * (v[e[0]] - v[e[1]]))
    if now > ZERO and wp.max(now, then) > WATCHED * rest[i]:
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
    vertices: wp.array[int],
    weights: wp.array[wp.float64],
    normals: wp.array[wp.vec3d],
    rest: wp.array[wp.float64],
    speed: wp.array[wp.float64],
    strength: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    friction: wp.array[wp.float64],
):
    """A link that holds the ends of a chosen edge together."""
    i = first + wp.tid()
    if chosen[i] == 1:
        row = base + places[i]
        e = edges[i]
        way = x[e[0]] - x[e[1]]
        for k in range(CORNERS):
            vertices[CORNERS * row + k] = e[0]
            weights[CORNERS * row + k] = ZERO
        vertices[CORNERS * row + 1] = e[1]
        weights[CORNERS * row] = ONE
        weights[CORNERS * row + 1] = -ONE
        normals[row] = -way / wp.length(way)
        rest[row] = -LONGEST * edge_rest[i]
        speed[row] = PACE
        strength[row] = ZERO
        stiffness[row] = edge_stiffness[i]
        friction[row] = ZERO


@wp.func
def is_long(e: wp.vec2i, rest: wp.float64, held: wp.array[wp.int8], x: wp.array[wp.vec3d]) -> bool:
    """Whether an edge between vertices that may move is to be shortened."""
    if held[e[0]] != wp.int8(0) or held[e[1]] != wp.int8(0):
        return False
    return wp.length(x[e[0]] - x[e[1]]) > SLACK * CLIPPED * rest


@wp.kernel
def find_long(
    first: int,
    edges: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    held: wp.array[wp.int8],
    x: wp.array[wp.vec3d],
    chosen: wp.array[int],
):
    """1 where an edge is too long."""
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
    """Bring a vertex nearer to the other ends of its edges that are too long: the mean of what each asks for."""
    i = first + wp.tid()
    total = wp.vec3d()
    count = ZERO
    for k in range(offsets[i], offsets[i + 1]):
        edge = entries[k] // 2
        e = edges[edge]
        if is_long(e, rest[edge], held, x):
            way = x[i] - x[e[1 - entries[k] % 2]]
            total += (HALF * (CLIPPED * rest[edge] / wp.length(way) - ONE)) * way
            count += ONE
    if count > ZERO:
        total = total / count
        v[i] = v[i] + rate * total
    shortened[i] = x[i] + total


class Locking:
    """The edges of all cloths, with the stiffness they have when they lock (device arrays)."""

    def __init__(self, world: World) -> None:
        parts, device = world.cloths, world.device
        self.device, self.count = device, world.cloth_vertex_count
        none = np.zeros(0)
        edges = np.concatenate([np.zeros((0, 2), np.int32), *(part.mesh.edges + part.first for part in parts)])
        rest = np.concatenate([none, *(part.mesh.rest_lengths for part in parts)])
        stretch = [np.full(len(part.mesh.edges), part.material.stretch) for part in parts]
        self._edges = wp.array(edges, dtype=wp.vec2i, device=device)
        self._rest = wp.array(rest, dtype=wp.float64, device=device)
        self._stiffness = wp.array(STIFFER * np.concatenate([none, *stretch]), dtype=wp.float64, device=device)
        self._around = [wp.array(a, dtype=int, device=device) for a in incidence(edges, self.count)]
        self._chosen, self._places = (wp.zeros(len(edges), dtype=int, device=device) for _ in range(2))
        self._shortened = wp.zeros(self.count, dtype=wp.vec3d, device=device)

    def lock(self, x: wp.array, v: wp.array, dt: float, links: StepSprings, *, spared: wp.array) -> int:
        """Add links for the edges that a step of dt from x would leave stretched too far; gives how many.

        `spared`: marks of vertices at whose edges nothing locks.
        """
        edges, chosen, places = len(self._edges), self._chosen, self._places
        inputs = [self._edges, self._rest, spared, x, v, dt, chosen]
        launch(choose_stretched, edges, inputs, device=self.device)
        found = exclusive_scan(chosen, places)
        if found:
            first = links.grow(found)
            inputs = [self._edges, self._rest, self._stiffness, x, first, chosen, places, *links.columns]
            launch(lock_edges, edges, inputs, device=self.device)
        return found

    def clip(self, x: wp.array, v: wp.array, dt: float, *, held: wp.array) -> int:
        """Shorten the edges that a step of dt left too long, in x and v themselves; gives how many it found.

        Both ends go alike, which conserves momentum where masses are alike; `held` vertices stay, and edges at them
        may be as long as they are.
        """
        found, done = self._count_long(x, held), 0
        left = found
        while left and done < ROUNDS:
            # a round that finds nothing changes nothing
            for _ in range(1 if self.device.is_cpu else BATCH):
                inputs = [*self._around, self._edges, self._rest, held, 1.0 / dt, x, self._shortened, v]
                launch(shorten_around, self.count, inputs, device=self.device)
                wp.copy(x, self._shortened, count=self.count)
                done += 1
            left = self._count_long(x, held) if done < ROUNDS else 0
        return found

    def _count_long(self, x: wp.array, held: wp.array) -> int:
        inputs = [self._edges, self._rest, held, x, self._chosen]
        launch(find_long, len(self._edges), inputs, device=self.device)
        return exclusive_scan(self._chosen, self._places)

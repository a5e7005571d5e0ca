"""What the kernels of a step read and write: its settings, the arrays of the vertices, and the numbers of its substeps.

`Regions` says which regions of cloth collide, and which lies over which (Lewin 2018, sections 4.6 and 5.1).
"""

# mypy: disable-error-code="arg-type"

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.packed_vertices import bring_back, start_vertex
from weft.mesh.topology import incidence
from weft.runtime.cooperative import on_gpu
from weft.scene import Predictive
from weft.scene.pins import selected_vertices
from weft.world import World

wp.set_module_options({"enable_backward": False})


@dataclass(frozen=True)
class Regions:
    """Regions by number: first all cloths, then the regions of the scene (host arrays, cloth only)."""

    names: list[str]
    vertex_cloth: np.ndarray
    """(n,) int32"""
    vertex_region: np.ndarray
    """(n,) int32"""
    face_region: np.ndarray
    """(m,) int32: the region of most of the triangle's vertices"""
    collide: np.ndarray
    """(regions, regions) int32, symmetric: 1 where two regions collide"""
    above: np.ndarray
    """(regions, regions) int32: 1 where the first lies over the second, -1 where under it, 0 where neither"""


def compile_regions(world: World, options: Predictive) -> Regions:
    """The regions of a scene over the vertices and triangles of its cloths."""
    scene = world.scene
    names = [cloth.name for cloth in scene.cloths] + [region.name for region in options.regions]
    vertex_cloth = np.zeros(world.cloth_vertex_count, np.int32)
    for i, body in enumerate(world.bodies[: len(world.cloths)]):
        vertex_cloth[body.vertices] = i
    vertex_region = vertex_cloth.copy()
    for i, region in enumerate(options.regions):
        cloth = world.cloths[names.index(region.cloth)]
        vertices = selected_vertices(scene, region, cloth.mesh, ("method", "regions", i))
        vertex_region[cloth.first + vertices] = len(scene.cloths) + i

    # the region that two corners have, or the first corner's where all differ
    corners = vertex_region[world.cloth_faces]
    face_region = np.where(corners[:, 1] == corners[:, 2], corners[:, 1], corners[:, 0]).astype(np.int32)

    number = {name: i for i, name in enumerate(names)}
    collide = np.full((len(names),) * 2, int(options.collide is None), np.int32)
    for a, b in options.collide or ():
        collide[number[a], number[b]] = collide[number[b], number[a]] = 1
    above = np.zeros_like(collide)
    for layers in options.layers:
        for lower, upper in combinations(layers, 2):
            above[number[upper], number[lower]] = 1
            above[number[lower], number[upper]] = -1
    # over what lies over something is over that too; scenes in which layers go round in a circle are refused
    for k in range(len(names)):
        higher = np.outer(above[:, k] == 1, above[k] == 1)
        above[higher], above[higher.T] = 1, -1
    return Regions(names, vertex_cloth, vertex_region, face_region, collide, above)


def stack_thickness(regions: Regions, thickness: np.ndarray) -> np.ndarray:
    """How much room the layers under and over each vertex take, (n, 2) in m.

    What lies between a vertex and a body keeps it that much farther away, so that the body does not press all layers
    into one.
    """
    count = len(regions.names)
    of_region = np.zeros(count)
    np.maximum.at(of_region, regions.vertex_region, thickness[: len(regions.vertex_region)])
    under = (regions.above == 1) @ of_region
    over = (regions.above == -1) @ of_region
    return np.stack([under, over], axis=1)[regions.vertex_region]


ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# a prediction has this many times fewer substeps than the step: it only has to show where cloth goes
PREDICTION = 4
# rounds in which vertices that a collider carries along may carry their neighbours
CARRIES = 4


@wp.struct
class Settings:
    """The numbers of a step. On the CPU the host writes them in place between launches, which costs nothing."""

    dt: wp.float64
    gravity: wp.vec3d
    air_damping: wp.float64
    push_speed: wp.float64
    radius: wp.float64
    """static collision radius"""
    collider_thickness: wp.float64
    friction: wp.float64
    """multiple of the materials' friction"""
    vertices: int
    substeps: int
    sweeps: int
    """over all constraints in a substep"""
    contacts: int
    cached: int
    """1 where the contacts come from an earlier step or a pose"""
    windy: int
    prediction: int
    """1 while the step is only predicted, without contacts of cloth with cloth"""


@wp.struct
class VertexArrays:
    """The vertices of all cloths."""

    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    """where held vertices are at the end of the step"""
    inverse_mass: wp.array[wp.float64]
    thickness: wp.array[wp.float64]
    cloth: wp.array[int]
    stack: wp.array[wp.vec2d]
    """thickness of the layers under and over each vertex"""
    faces: wp.array[wp.vec3i]
    corner_offsets: wp.array[int]
    corners: wp.array[int]
    """3 * face + corner for all corners at a vertex, from its offset on"""
    neighbour_offsets: wp.array[int]
    neighbours: wp.array[int]
    """vertices at the other ends of the edges of a vertex, from its offset on"""
    neighbour_rest: wp.array[wp.float64]
    """lengths of these edges at rest"""
    across: wp.array[wp.vec3i]
    """for each corner of each triangle the triangle across the opposite edge, -1 for none in the same region"""
    face_force: wp.array[wp.vec3d]
    """the wind's force on each corner of a triangle"""
    force: wp.array[wp.vec3d]
    """the wind's force on each vertex, held for the step"""
    pull: wp.array[wp.vec3d]
    """that and the force of bending, held until bending is solved again"""
    free: wp.array[wp.vec3d]
    """displacement of each vertex over the step if nothing stopped it"""
    spots: wp.array2d[wp.float32]
    """position, reach and displacement in single precision, one plane for each number; for the CPU"""
    carrier: wp.array[int]
    """the collider that carries a vertex along, since an edge of it would have crossed its core; negative for none"""
    lost: wp.array[int]
    """the collider that passes through the cloth at a vertex, -1 for none"""
    home: wp.array[wp.vec3d]
    """from the core of that collider to where the vertex was before, a unit vector in the frame of the collider"""
    carries: wp.array[int]
    """1 for each round in which colliders carried vertices along"""
    p: wp.array[wp.vec4d]
    """position now and inverse mass"""
    before: wp.array[wp.vec4d]
    """position at the start of the substep, moved along where overlap from before is undone"""
    start: wp.array[wp.vec4d]
    """position at the start of the substep"""


class Vertices:
    """Makes `VertexArrays` and owns those that no one else has."""

    def __init__(self, world: World, regions: Regions, across: wp.array, spots: wp.array) -> None:
        count, device = world.cloth_vertex_count, world.device

        def zeros(dtype: Any) -> wp.array:
            return wp.zeros(count, dtype=dtype, device=device)

        def upload(values: Any, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        offsets, corners = incidence(world.cloth_faces, count)
        neighbour_offsets, neighbours, rest = _neighbours(world, count)
        stack = stack_thickness(regions, world.thickness.numpy())
        self._common = {
            "inverse_mass": world.inverse_mass,
            "thickness": world.thickness,
            "cloth": upload(regions.vertex_cloth, int),
            "stack": upload(stack, wp.vec2d),
            "faces": upload(world.cloth_faces, wp.vec3i),
            "corner_offsets": upload(offsets, int),
            "corners": upload(corners, int),
            "neighbour_offsets": upload(neighbour_offsets, int),
            "neighbours": upload(neighbours, int),
            "neighbour_rest": upload(rest, wp.float64),
            "across": across,
            "force": zeros(wp.vec3d),
            "pull": zeros(wp.vec3d),
            "free": zeros(wp.vec3d),
            "spots": spots,
            "carrier": zeros(int),
            "home": zeros(wp.vec3d),
            "lost": wp.full(count, -1, dtype=int, device=device),
            "carries": wp.zeros(CARRIES, dtype=int, device=device),
            "p": zeros(wp.vec4d),
            "before": zeros(wp.vec4d),
            "start": zeros(wp.vec4d),
        }
        self.force = self._common["force"]
        self.lost, self._home = self._common["lost"], self._common["home"]
        self.free = self._common["free"]
        self.neighbour_offsets, self.neighbours = self._common["neighbour_offsets"], self._common["neighbours"]
        self.inverse_mass = world.inverse_mass
        self.edges = np.concatenate([cloth.mesh.edges + cloth.first for cloth in world.cloths])
        self.rest_lengths = np.concatenate([cloth.mesh.rest_lengths for cloth in world.cloths])
        self.mean_edge = float(self.rest_lengths.mean())

    def saved(self) -> np.ndarray:
        """Which collider passes each vertex, and from which side it came, (n, 4)."""
        return np.concatenate([self.lost.numpy()[:, None], self._home.numpy()], axis=1)

    def restore(self, saved: np.ndarray) -> None:
        """Take up what `saved` gave."""
        self.lost.assign(saved[:, 0].astype(np.int32))
        self._home.assign(saved[:, 1:])

    def arrays(self, x: wp.array, v: wp.array, target: wp.array, air: Air) -> Any:
        """For a step of these positions and velocities."""
        return fill(VertexArrays, x=x, v=v, target=target, face_force=air.force, **self._common)


def _neighbours(world: World, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The vertices at the other ends of the edges of each vertex: where those of a vertex begin, all of them, rest lengths."""
    edges = [cloth.mesh.edges + cloth.first for cloth in world.cloths]
    ends = np.concatenate([np.zeros((0, 2), np.int32), *edges, *(e[:, ::-1] for e in edges)])
    lengths = np.concatenate([np.zeros(0), *(cloth.mesh.rest_lengths for cloth in world.cloths)])
    order = np.lexsort((ends[:, 1], ends[:, 0]))
    ends, lengths = ends[order], np.tile(lengths, 2)[order]
    return np.searchsorted(ends[:, 0], np.arange(count + 1)).astype(np.int32), ends[:, 1].astype(np.int32), lengths


def fill(kind: Any, **values: Any) -> Any:
    """A struct of some kind with all fields set by name."""
    names = set(kind.vars)
    if names != set(values):
        raise TypeError(f"fields missing {sorted(names - set(values))}, unknown {sorted(set(values) - names)}")
    struct = kind()
    for name, value in values.items():
        setattr(struct, name, value)
    return struct


@wp.struct
class Pace:
    """What all substeps of a step have in common."""

    substeps: int
    h: wp.float64
    """duration of a substep"""
    per_h: wp.float64
    share: wp.float64
    """of a substep in the step"""
    slowed: wp.float64
    """what the air leaves of a displacement"""
    push: wp.float64
    """largest displacement by which a substep undoes overlap from before"""


@wp.func
def pace_of(s: Settings) -> Pace:
    """The pace of a step with these settings."""
    pace = Pace()
    pace.substeps = s.substeps
    pace.h = s.dt / wp.float64(s.substeps)
    pace.per_h = ONE / pace.h
    pace.share = ONE / wp.float64(s.substeps)
    pace.slowed = wp.max(ONE - pace.h * s.air_damping, ZERO)
    pace.push = pace.h * s.push_speed
    return pace


@wp.func
def progress_of(substep: int, pace: Pace) -> wp.float64:
    """The share of the step that is over at the end of a substep: substeps run from half a substep after the start."""
    return (wp.float64(substep) + wp.float64(1.5)) * pace.share


@wp.func
def range_begin(t: int, threads: int, count: int) -> int:
    """The first of the items of thread t, of so many: on CUDA every so many-th one, on the CPU neighbours."""
    if on_gpu():
        return t
    return int(wp.int64(count) * wp.int64(t) // wp.int64(threads))


@wp.func
def span_end(t: int, threads: int, count: int) -> int:
    """Where the items of thread t end."""
    if on_gpu():
        return count
    return int(wp.int64(count) * wp.int64(t + 1) // wp.int64(threads))


@wp.func
def span_step(threads: int) -> int:
    """The distance of a thread's items."""
    if on_gpu():
        return threads
    return 1


@wp.func
def ahead_of(i: int, s: Settings, pace: Pace, a: VertexArrays) -> wp.float64:
    """The fraction of a substep by which vertex i is ahead of the time of the step in all substeps: half of one.

    A substep moves with the velocity at its end, so that positions are those of half a substep later. With substeps from half
    of one after the start of the step to half of one after its end, what falls freely falls exactly, and the motion of all else
    is of second order. What is very fast is less far ahead, so that it does not pass others before its contacts are solved.
    """
    way = pace.h * wp.length(a.v[i])
    if way > s.radius:
        return HALF * s.radius / way
    return HALF


@wp.func
def start_moving(i: int, s: Settings, pace: Pace, a: VertexArrays):
    """Vertex i at the start of the step, and where nothing would stop it."""
    start_vertex(i, a.x, a.v, a.inverse_mass, pace.h, ahead_of(i, s, pace, a), a.p, a.before)
    a.free[i] = free_displacement(i, s, a)
    if a.inverse_mass[i] == ZERO:
        place = a.x[i] + (HALF * pace.share) * a.free[i]
        a.p[i] = wp.vec4d(place[0], place[1], place[2], ZERO)


@wp.func
def stop_moving(i: int, s: Settings, pace: Pace, a: VertexArrays):
    """Vertex i at the end of the step, after the last substep."""
    if a.inverse_mass[i] == ZERO:
        bring_back(i, HALF, a.p, a.before)
    else:
        bring_back(i, ahead_of(i, s, pace, a), a.p, a.before)


@wp.func
def free_displacement(i: int, s: Settings, a: VertexArrays) -> wp.vec3d:
    """The displacement of a vertex over the step if nothing stopped it; also takes the wind's force on it."""
    if a.inverse_mass[i] == ZERO:
        return a.target[i] - a.x[i]
    if s.windy != 0:
        wind = wp.vec3d()
        for k in range(a.corner_offsets[i], a.corner_offsets[i + 1]):
            wind += a.face_force[a.corners[k] // 3]
        a.force[i] = wind
    a.pull[i] = a.force[i]
    return s.dt * (a.v[i] + s.dt * (s.gravity + a.inverse_mass[i] * a.force[i]))


@wp.kernel
def begin_step(first: int, settings: wp.array[Settings], vertices: VertexArrays):
    """CUDA: vertices at the start of the step, and where nothing would stop them."""
    i = first + wp.tid()
    s = settings[0]
    start_moving(i, s, pace_of(s), vertices)


@wp.kernel
def move_freely(first: int, settings: wp.array[Settings], vertices: VertexArrays, end: wp.array[wp.vec3d]):
    """Where vertices are at the end of the step if nothing stops them."""
    i = first + wp.tid()
    end[i] = vertices.x[i] + free_displacement(i, settings[0], vertices)

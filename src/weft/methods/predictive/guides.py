"""What guides single vertices: weak springs to an animation, and long-range attachments to pins.

Long-range attachments (Kim, Chentanez and Mueller 2012): no vertex goes farther from a pin than the cloth between them reaches.
The longest distance is the shortest way over the cloth at rest, along edges and across hinges. A vertex is attached to the
nearest vertex of each group of neighbouring pins, to the nearest few groups where there are many. The limit only ever shortens,
and only what is stretched far more than its weight does: cloth that is jerked, or has few substeps.
"""

# mypy: disable-error-code="arg-type, empty-body"

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.state import Pace, VertexArrays, fill, range_begin, span_end, span_step
from weft.runtime.cooperative import grid_barrier
from weft.runtime.native import NativeHeader
from weft.scene import Follow
from weft.scene.motion import MotionModel
from weft.scene.pins import selected_vertices
from weft.scene.placement import Placement
from weft.scene.resolved_motion import SampledMotion, SelectedMotion
from weft.scene.scene import GRAVITY
from weft.world import RestCloth, World

wp.set_module_options({"enable_backward": False})

# groups of pins that a vertex is attached to: each costs one more pass over all vertices in a sweep
GROUPS = 4
# an attachment allows the strain of cloth that carries this many times its own weight: less would take load off the springs
LOAD = 5.0
# least strain that it allows. With 0.03, as a belt round a cylinder would need, a bar that spins through a sheet stays in it,
# with 0.05 the layers of a skirt that spins at 720 degrees a second cross
LEAST_STRAIN = 0.01

_native = NativeHeader(__file__, "guides.h")


@wp.struct
class GuideArrays:
    """Springs to an animation, and attachments by rank: first the nearest pin of every vertex, then the second nearest..."""

    goal_vertices: wp.array[int]
    goal_springs: wp.array[wp.vec3d]
    """angular frequency, damping ratio, reach (infinite: none)"""
    goal_backstops: wp.array[wp.vec4d]
    """a ball that the vertex stays out of: its centre relative to the goal, and its radius; empty where there are none"""
    goal_starts: wp.array[wp.vec3d]
    goal_ends: wp.array[wp.vec3d]
    attached: wp.array[wp.vec2i]
    """vertex, pin"""
    lengths: wp.array[wp.float64]
    ranks: wp.array[int]
    """where each rank of attachments begins; those of a rank have different vertices"""


@wp.func_native(PACKED_VERTEX + _native.body("follow_goals"))
def follow_goals(
    first: int,
    last: int,
    many: int,
    h: wp.float64,
    progress: wp.float64,
    share_of_step: wp.float64,
    guides: GuideArrays,
    vertices: VertexArrays,
):
    """Springs to where the animation has vertices after `progress` of the step; a substep is `share_of_step` of it."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("attach_vertices"))
def attach_vertices(first: int, last: int, many: int, guides: GuideArrays, vertices: VertexArrays):
    """Long-range attachments: a vertex stays within its length of the pin."""
    ...


@wp.func
def solve_guides(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    progress: wp.float64,
    pace: Pace,
    guides: GuideArrays,
    vertices: VertexArrays,
):
    """Goals, then attachments rank by rank, by all threads."""
    step = span_step(threads)
    goals = guides.goal_vertices.shape[0]
    if goals > 0:
        begin, end = range_begin(t, threads, goals), span_end(t, threads, goals)
        follow_goals(begin, end, step, pace.h, progress, pace.share, guides, vertices)
        grid_barrier(arrivals)
    for rank in range(guides.ranks.shape[0] - 1):
        first = guides.ranks[rank]
        size = guides.ranks[rank + 1] - first
        begin, end = range_begin(t, threads, size), span_end(t, threads, size)
        attach_vertices(first + begin, first + end, step, guides, vertices)
        grid_barrier(arrivals)


class GoalGroup(NamedTuple):
    """The goals of one `follow` of the scene."""

    motion: MotionModel
    placement: Placement
    numbers: np.ndarray
    """of its goals among all goals"""
    placed: np.ndarray
    """where the vertices are placed"""


class Goals:
    """The vertices that follow an animation; where two `follow` name a vertex the later one counts.

    A step goes from `starts` to `ends`, both in the world.
    """

    def __init__(self, world: World, follows: tuple[Follow, ...]) -> None:
        scene = world.scene
        names = [cloth.name for cloth in scene.cloths]
        owner = np.full(world.cloth_vertex_count, -1)
        groups = []
        for i, follow in enumerate(follows):
            number = names.index(follow.cloth)
            cloth = world.cloths[number]
            chosen = selected_vertices(scene, follow, cloth.mesh, ("method", "follow", i))
            motion = follow.motion.resolve(base=scene.base, placement=scene.cloths[number].placement)
            if isinstance(motion, SampledMotion):
                motion = SelectedMotion(motion, chosen, len(cloth.mesh.vertices))
            owner[cloth.first + chosen] = i
            groups.append((cloth.first + chosen, cloth.mesh.vertices[chosen], motion))
        self._groups = [(v, p, m, owner[v] == i) for i, (v, p, m) in enumerate(groups)]
        self.count = int((owner >= 0).sum())
        self.groups: list[GoalGroup] = []
        first = 0
        for follow, (_, p, _, mine) in zip(follows, self._groups, strict=True):
            numbers = first + np.arange(int(mine.sum()))
            placement = scene.cloths[names.index(follow.cloth)].placement
            self.groups.append(GoalGroup(follow.motion, placement, numbers, p[mine]))
            first += len(numbers)
        vertices = [np.zeros(0, np.int32), *(v[mine] for v, _, _, mine in self._groups)]
        springs = [np.zeros((0, 3))]
        for follow, (_, _, _, mine) in zip(follows, self._groups, strict=True):
            spring = [2.0 * np.pi * follow.frequency, follow.damping, follow.reach or np.inf]
            springs.append(np.tile(spring, (int(mine.sum()), 1)))
        self.vertices = wp.array(np.concatenate(vertices).astype(np.int32), dtype=int, device=world.device)
        self.springs = wp.array(np.concatenate(springs), dtype=wp.vec3d, device=world.device)
        self.starts = wp.array(self.at(0.0), dtype=wp.vec3d, device=world.device)
        self.ends = wp.clone(self.starts)
        self.moving = any(not motion.still for _, _, motion, _ in self._groups)
        self.backstops = wp.zeros(0, dtype=wp.vec4d, device=world.device)

    def take_over(self, positions: np.ndarray) -> None:
        """Give every vertex a goal, here for now, that the caller moves instead of the scene; springs stay where they were."""
        springs = np.tile([0.0, 0.0, np.inf], (len(positions), 1))
        springs[self.vertices.numpy()] = self.springs.numpy()
        device, self.count = self.vertices.device, len(positions)
        self.vertices = wp.array(np.arange(self.count), dtype=int, device=device)
        self.springs = wp.array(springs, dtype=wp.vec3d, device=device)
        self.starts = wp.array(positions, dtype=wp.vec3d, device=device)
        self.ends = wp.clone(self.starts)
        self.backstops = wp.zeros(self.count, dtype=wp.vec4d, device=device)
        self.groups, self._groups, self.moving = [], [], False

    def at(self, time: float) -> np.ndarray:
        """Where the animation has the vertices at a time."""
        places = [m.positions(p, time)[mine] for _, p, m, mine in self._groups]
        return np.concatenate([np.zeros((0, 3)), *places])

    def follow(self, start: float, end: float) -> None:
        """Take the goals at the start and the end of a step from the motions of the scene."""
        if self.moving:
            self.starts.assign(self.at(start))
            self.ends.assign(self.at(end))


@dataclass(frozen=True)
class Attachments:
    """Attachments by rank: first the nearest pin of every vertex, then the second nearest, and so on."""

    ends: np.ndarray
    """(k, 2) int32: vertex, pin"""
    lengths: np.ndarray
    """(k,) in m"""
    offsets: np.ndarray
    """where each rank begins"""


class Guides:
    """Goals and attachments as kernels take them; attachments change when pins let go."""

    def __init__(self, world: World, goals: Goals) -> None:
        self.goals, self._device = goals, world.device
        self.attach(Attachments(np.zeros((0, 2), np.int32), np.zeros(0), np.zeros(1, int)))

    def attach(self, found: Attachments) -> None:
        """Have these attachments from now on."""
        self._found = found
        self.refresh()

    def refresh(self) -> None:
        """Take the arrays of the goals as they are now."""
        goals, device, found = self.goals, self._device, self._found
        self.arrays = fill(
            GuideArrays,
            goal_vertices=goals.vertices,
            goal_springs=goals.springs,
            goal_backstops=goals.backstops,
            goal_starts=goals.starts,
            goal_ends=goals.ends,
            attached=wp.array(found.ends, dtype=wp.vec2i, device=device),
            lengths=wp.array(found.lengths, dtype=wp.float64, device=device),
            ranks=wp.array(found.offsets, dtype=int, device=device),
        )


def attach_world(world: World, fixed: np.ndarray, reach: float | None = None) -> Attachments:
    """The attachments of all cloths; `fixed` says which vertices are held, `reach` is the limit in lengths at rest."""
    found = [np.zeros((0, 4))]
    for cloth in world.cloths:
        own = fixed[cloth.first : cloth.first + len(cloth.mesh.vertices)]
        found.append(_attach_cloth(cloth, own, reach))
    table = np.concatenate(found)
    order = np.lexsort((table[:, 0], table[:, 3]))
    table = table[order]
    ranks = np.bincount(table[:, 3].astype(int), minlength=1) if len(table) else np.zeros(0, int)
    offsets = np.concatenate([[0], np.cumsum(ranks)]).astype(int)
    return Attachments(table[:, :2].astype(np.int32), table[:, 2].copy(), offsets)


def _attach_cloth(cloth: RestCloth, fixed: np.ndarray, reach: float | None) -> np.ndarray:
    """Vertex, pin, length and rank of the attachments of one cloth, (k, 4)."""
    from scipy.sparse.csgraph import connected_components, dijkstra

    pins = np.flatnonzero(fixed)
    if len(pins) == 0 or fixed.all():
        return np.zeros((0, 4))
    graph = _rest_graph(cloth)
    _, group = connected_components(graph[pins][:, pins], directed=False)
    distance = np.full((group.max() + 1, len(fixed)), np.inf)
    source = np.zeros(distance.shape, int)
    for g in range(len(distance)):
        distance[g], _, source[g] = dijkstra(
            graph, directed=False, indices=pins[group == g], return_predecessors=True, min_only=True
        )

    nearest = np.argsort(distance, axis=0, kind="stable")[:GROUPS]
    free = np.flatnonzero(~fixed)
    found = []
    for rank, groups in enumerate(nearest[:, free]):
        length = distance[groups, free]
        there = np.isfinite(length)
        pin = source[groups, free][there]
        limit = _longest(length[there], cloth, reach)
        found.append(np.column_stack([free[there] + cloth.first, pin + cloth.first, limit, np.full(len(pin), rank)]))
    return np.concatenate(found)


def _longest(length: np.ndarray, cloth: RestCloth, reach: float | None) -> np.ndarray:
    if reach is not None:
        return reach * length
    # strain of a strip of this length under a multiple of its own weight
    strain = LOAD * cloth.material.density * GRAVITY * length / cloth.material.mean("stretch")
    return (1.0 + np.maximum(strain, LEAST_STRAIN)) * length


def _rest_graph(cloth: RestCloth) -> Any:
    """Vertices joined by edges and across hinges, with lengths at rest (a sparse matrix)."""
    from scipy.sparse import coo_matrix

    mesh = cloth.mesh
    across, unfolded = _across_hinges(mesh.hinge_corners, mesh.hinges)
    pairs = np.concatenate([mesh.edges, across])
    lengths = np.concatenate([mesh.rest_lengths, unfolded])
    # the same two vertices can face each other over two edges: the shorter way counts
    low, high = pairs.min(axis=1), pairs.max(axis=1)
    order = np.lexsort((lengths, high, low))
    low, high, lengths = low[order], high[order], lengths[order]
    first = np.append(True, (np.diff(low) != 0) | (np.diff(high) != 0))
    count = len(mesh.vertices)
    return coo_matrix((lengths[first], (low[first], high[first])), shape=(count, count)).tocsr()


def _across_hinges(corners: np.ndarray, hinges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Opposite vertices of hinges whose straight line, with the hinge unfolded, crosses the edge; and its length."""
    a, b, c, d = corners.transpose(1, 0, 2)
    edge = b - a
    length = np.linalg.norm(edge, axis=1)
    along_c, along_d = ((edge * (p - a)).sum(axis=1) / length for p in (c, d))
    off_c, off_d = (
        np.sqrt(np.maximum(((p - a) ** 2).sum(axis=1) - along**2, 0.0)) for p, along in ((c, along_c), (d, along_d))
    )
    crossing = (along_c * off_d + along_d * off_c) / np.maximum(off_c + off_d, 1e-300)
    inside = (crossing >= 0.0) & (crossing <= length)
    return hinges[inside, 2:], np.hypot(along_c - along_d, off_c + off_d)[inside]

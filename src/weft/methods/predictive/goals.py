"""Springs to an animation: which vertices follow it, how strongly, and where it has them."""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.scene import Follow
from weft.scene.motion import MotionModel, SampledMotion, SelectedMotion
from weft.scene.pins import selected_vertices
from weft.scene.placement import Placement
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    PACKED_VERTEX
    + """
    row4* rows = (row4*)p.data;
    // most springs are as the one before: no need to divide again
    double frequency = -1.0, ratio = -1.0, stiff = 0.0, damp = 0.0;
    for (int i = first; i < last; ++i) {
        const int k = vertices.data[i];
        row4 row = rows[k];
        if (!(row[3] > 0.0))
            continue;
        const wp::vec_t<3, double> s = springs.data[i];
        if (s[0] != frequency || s[1] != ratio) {
            frequency = s[0];
            ratio = s[1];
            stiff = s[0] * s[0] * h * h;
            damp = 2.0 * s[1] * s[0] * h;
            const double share = 1.0 / (1.0 + stiff + damp);
            stiff *= share;
            damp *= share;
        }
        const wp::vec_t<3, double> from = starts.data[i];
        const wp::vec_t<3, double> to = goals.data[i];
        row4 goal, way;
        for (int c = 0; c < 3; ++c) {
            way[c] = to[c] - from[c];
            goal[c] = from[c] + progress * way[c];
        }
        way[3] = 0.0;
        goal[3] = row[3];
        row4 away = row - goal;
        const row4 moved = row - ((const row4*)before.data)[k] - part * way;
        away = away - stiff * away - damp * moved;
        const double squared = away[0] * away[0] + away[1] * away[1] + away[2] * away[2];
        if (s[2] > 0.0 && squared > s[2] * s[2])
            away = (s[2] / sqrt(squared)) * away;
        away[3] = 0.0;
        rows[k] = goal + away;
    }
    """
)
def follow_goals(
    first: int,
    last: int,
    vertices: wp.array[int],
    springs: wp.array[wp.vec3d],
    starts: wp.array[wp.vec3d],
    goals: wp.array[wp.vec3d],
    h: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """Springs to where the animation has vertices: angular frequency, damping ratio, reach (0: none).

    The goal goes straight from its start to its end; `part` is the share of the way that a substep makes.
    """
    ...


class GoalPart(NamedTuple):
    """What one follow of the scene leads."""

    motion: MotionModel
    placement: Placement
    numbers: np.ndarray
    """of its goals in the arrays of all"""
    placed: np.ndarray
    """where the vertices are placed"""


class Goals:
    """The vertices that follow an animation; of two follows with the same vertex the later one counts.

    A step goes from `starts` to `ends`, both in the world.
    """

    def __init__(self, world: World, follows: tuple[Follow, ...]) -> None:
        scene = world.scene
        names = [cloth.name for cloth in scene.cloths]
        owner = np.full(world.cloth_vertex_count, -1)
        parts = []
        for i, follow in enumerate(follows):
            number = names.index(follow.cloth)
            part = world.cloths[number]
            chosen = selected_vertices(scene, follow, part.mesh, ("method", "follow", i))
            motion = follow.motion.resolve(base=scene.base, placement=scene.cloths[number].placement)
            if isinstance(motion, SampledMotion):
                motion = SelectedMotion(motion, chosen, len(part.mesh.vertices))
            owner[part.first + chosen] = i
            parts.append((part.first + chosen, part.mesh.vertices[chosen], motion))
        self._parts = [(v, p, m, owner[v] == i) for i, (v, p, m) in enumerate(parts)]
        self.count = int((owner >= 0).sum())
        self.parts: list[GoalPart] = []
        first = 0
        for follow, (_, p, _, mine) in zip(follows, self._parts, strict=True):
            numbers = first + np.arange(int(mine.sum()))
            placement = scene.cloths[names.index(follow.cloth)].placement
            self.parts.append(GoalPart(follow.motion, placement, numbers, p[mine]))
            first += len(numbers)
        vertices = [np.zeros(0, np.int32), *(v[mine] for v, _, _, mine in self._parts)]
        springs = [np.zeros((0, 3))]
        for follow, (_, _, _, mine) in zip(follows, self._parts, strict=True):
            spring = [2.0 * np.pi * follow.frequency, follow.damping, follow.reach or 0.0]
            springs.append(np.tile(spring, (int(mine.sum()), 1)))
        self.vertices = wp.array(np.concatenate(vertices).astype(np.int32), dtype=int, device=world.device)
        self.springs = wp.array(np.concatenate(springs), dtype=wp.vec3d, device=world.device)
        self.starts = wp.array(self.at(0.0), dtype=wp.vec3d, device=world.device)
        self.ends = wp.clone(self.starts)
        self.moving = any(not motion.still for _, _, motion, _ in self._parts)

    def at(self, time: float) -> np.ndarray:
        """Where the animation has the vertices at a time."""
        places = [m.positions(p, time)[mine] for _, p, m, mine in self._parts]
        return np.concatenate([np.zeros((0, 3)), *places])

    def follow(self, start: float, end: float) -> None:
        """Take the goals at the start and the end of a step from the motions of the scene."""
        if self.moving:
            self.starts.assign(self.at(start))
            self.ends.assign(self.at(end))

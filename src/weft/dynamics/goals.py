"""Springs to an animation: which vertices follow it, how strongly, and where it has them."""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.scene import Follow
from weft.scene.chosen import chosen_vertices
from weft.scene.motion import MotionPart
from weft.scene.moving import SequenceMoving, Some
from weft.scene.placement import Placement
from weft.world import World


class GoalPart(NamedTuple):
    """What one follow of the scene leads."""

    motion: MotionPart
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
            chosen = chosen_vertices(scene, follow, part.mesh, ("method", "follow", i))
            motion = follow.motion.resolve(base=scene.base, placement=scene.cloths[number].placement)
            if isinstance(motion, SequenceMoving):
                motion = Some(motion, chosen, len(part.mesh.vertices))
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

"""Steps in which cloth moves far, divided: each part looks for contacts anew.

What is found in one look holds for the step. Where cloth moves against itself by many times the distance within which
contacts are made, as it does when it collapses, folds form that no look at the start could foresee.
"""

# mypy: disable-error-code="arg-type"

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import warp as wp

from weft.methods.predictive.arrays import Numbers
from weft.methods.predictive.collider_contacts import Shape
from weft.runtime import launch
from weft.runtime.command_list import Command

if TYPE_CHECKING:
    from weft.methods.predictive.solver import PredictiveSolver

wp.set_module_options({"enable_backward": False})

# the mean way of a vertex against the cloth as a whole in a part, in distances within which contacts are made
FARTHEST = 1.0
MOST_PARTS = 3
# items of a card that share the vertices
ITEMS = 2048

ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-300))


def parts_for(relative_displacement: float) -> int:
    """How many parts a step needs."""
    return (
        min(max(math.ceil(relative_displacement / FARTHEST), 1), MOST_PARTS)
        if math.isfinite(relative_displacement)
        else 1
    )


@wp.struct
class Course:
    """What moves through a step, and how all of it was before the step was divided."""

    x: wp.array[wp.vec3d]
    v: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    part_target: wp.array[wp.vec3d]
    pose_start: wp.array[wp.mat44d]
    pose_end: wp.array[wp.mat44d]
    goal_starts: wp.array[wp.vec3d]
    goal_ends: wp.array[wp.vec3d]
    shapes: wp.array[Shape]
    settings: wp.array[Numbers]
    now: wp.array[wp.vec2d]
    """start and end of the step, where a chain tells them"""
    parts: wp.array[int]
    """how many there are, 0 where the step is not divided"""
    first_x: wp.array[wp.vec3d]
    first_v: wp.array[wp.vec3d]
    first_poses: wp.array[wp.mat44d]
    last_poses: wp.array[wp.mat44d]
    first_goals: wp.array[wp.vec3d]
    last_goals: wp.array[wp.vec3d]
    whole: wp.array[Numbers]
    whole_now: wp.array[wp.vec2d]


@wp.func
def pose_between(start: wp.mat44d, end: wp.mat44d, centre: wp.vec3d, share: wp.float64) -> wp.mat44d:
    """A pose after a share of the step: the centre moves straight, and all turns at a constant rate."""
    first = wp.mat33d(
        start[0, 0], start[0, 1], start[0, 2],
        start[1, 0], start[1, 1], start[1, 2],
        start[2, 0], start[2, 1], start[2, 2],
    )  # fmt: skip
    last = wp.mat33d(
        end[0, 0], end[0, 1], end[0, 2], end[1, 0], end[1, 1], end[1, 2], end[2, 0], end[2, 1], end[2, 2]
    )  # fmt: skip
    turn = last * wp.transpose(first)
    axis = HALF * wp.vec3d(turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1])
    sine = wp.length(axis)
    angle = share * wp.atan2(sine, HALF * (turn[0, 0] + turn[1, 1] + turn[2, 2] - ONE))
    cross = wp.skew(axis / wp.max(sine, TINY))
    part = wp.diag(wp.vec3d(ONE, ONE, ONE)) + wp.sin(angle) * cross + (ONE - wp.cos(angle)) * (cross * cross)
    t = part * first
    came = first * centre + wp.vec3d(start[0, 3], start[1, 3], start[2, 3])
    goes = last * centre + wp.vec3d(end[0, 3], end[1, 3], end[2, 3])
    shift = (ONE - share) * came + share * goes - t * centre
    return wp.mat44d(
        t[0, 0], t[0, 1], t[0, 2], shift[0],
        t[1, 0], t[1, 1], t[1, 2], shift[1],
        t[2, 0], t[2, 1], t[2, 2], shift[2],
        end[3, 0], end[3, 1], end[3, 2], end[3, 3],
    )  # fmt: skip


@wp.kernel
def begin_parts(first: int, items: int, parts: int, c: Course):
    """Note how all is at the start; many items share the vertices, and the first does all else."""
    s = first + wp.tid()
    for i in range(s, c.first_x.shape[0], items):
        c.first_x[i] = c.x[i]
        c.first_v[i] = c.v[i]
    if s > 0:
        return
    for k in range(c.pose_start.shape[0]):
        c.first_poses[k] = c.pose_start[k]
        c.last_poses[k] = c.pose_end[k]
    for g in range(c.goal_starts.shape[0]):
        c.first_goals[g] = c.goal_starts[g]
        c.last_goals[g] = c.goal_ends[g]
    c.whole[s] = c.settings[s]
    c.whole_now[s] = c.now[s]
    c.parts[s] = parts
    c.settings[s].substeps = (c.settings[s].substeps + parts - 1) / parts


@wp.kernel
def set_part(first: int, items: int, part: int, c: Course):
    """Colliders, pins, goals and the time of a part, given how many came before it; items as above."""
    s = first + wp.tid()
    parts = wp.float64(c.parts[0])
    before = wp.float64(part) / parts
    share = wp.float64(part + 1) / parts
    for i in range(s, c.first_x.shape[0], items):
        c.part_target[i] = c.first_x[i] + share * (c.target[i] - c.first_x[i])
    if s > 0:
        return
    dt = c.whole[s].dt
    time = c.whole_now[s][0] + wp.float64(part) * dt / parts
    c.settings[s].dt = dt / parts
    c.now[s] = wp.vec2d(time, time + dt / parts)
    for k in range(c.pose_start.shape[0]):
        c.pose_end[k] = pose_between(c.first_poses[k], c.last_poses[k], c.shapes[k].centre, share)
    for g in range(c.goal_starts.shape[0]):
        way = c.last_goals[g] - c.first_goals[g]
        c.goal_starts[g] = c.first_goals[g] + before * way
        c.goal_ends[g] = c.first_goals[g] + share * way


@wp.kernel
def end_parts(first: int, items: int, undo: int, c: Course):
    """As if there had been one part; or, with `undo`, none; items as above."""
    s = first + wp.tid()
    if undo != 0:
        for i in range(s, c.first_x.shape[0], items):
            c.x[i] = c.first_x[i]
            c.v[i] = c.first_v[i]
    if s > 0:
        return
    for k in range(c.pose_start.shape[0]):
        c.pose_end[k] = c.last_poses[k]
        c.pose_start[k] = c.last_poses[k]
    for g in range(c.goal_starts.shape[0]):
        c.goal_starts[g] = c.first_goals[g]
        c.goal_ends[g] = c.last_goals[g]
    if undo != 0:
        for k in range(c.pose_start.shape[0]):
            c.pose_start[k] = c.first_poses[k]
    c.settings[s].substeps = c.whole[s].substeps
    c.settings[s].dt = c.whole[s].dt
    c.now[s] = c.whole_now[s]
    c.parts[s] = 0


class Division:
    """A step in several parts, one after another; colliders, pins and goals go straight through them.

    The first part looks for contacts as far as the prediction of the whole step went; each other has its own.
    """

    def __init__(self, solver: "PredictiveSolver") -> None:
        self.solver = solver
        self.target = wp.zeros(solver.count, dtype=wp.vec3d, device=solver.device)
        """where held vertices go in a part"""
        self.parts = wp.zeros(1, dtype=int, device=solver.device)
        """how many parts the step has that is under way, 0 for none"""

    @property
    def possible(self) -> bool:
        """Not where a mesh changes its form: its tree is that of the start."""
        return not self.solver.colliders.deforming

    def course(self, x: wp.array, v: wp.array, target: wp.array, now: wp.array) -> Any:
        """What the kernels of parts take."""
        solver = self.solver
        colliders, goals = solver.colliders, solver.goals
        course: Any = Course()
        course.x, course.v, course.target, course.part_target = x, v, target, self.target
        course.pose_start, course.pose_end, course.shapes = colliders.start, colliders.end, colliders.shapes
        course.goal_starts, course.goal_ends = goals.starts, goals.ends
        course.settings, course.now, course.parts = solver.numbers, now, self.parts
        course.first_x, course.first_v = wp.zeros_like(self.target), wp.zeros_like(self.target)
        course.first_poses, course.last_poses = wp.zeros_like(colliders.start), wp.zeros_like(colliders.end)
        course.first_goals, course.last_goals = wp.zeros_like(goals.starts), wp.zeros_like(goals.ends)
        course.whole, course.whole_now = wp.zeros_like(solver.numbers), wp.zeros_like(now)
        return course

    def advance(self, parts: int, x: wp.array, v: wp.array, target: wp.array, time: float, dt: float) -> None:
        """All parts; afterwards everything is as if there had been one."""
        device, settings = self.solver.device, self.solver.settings
        course = self.course(x, v, target, wp.zeros(1, dtype=wp.vec2d, device=device))
        substeps = int(settings["substeps"][0])
        items = 1 if device.is_cpu else ITEMS
        launch(begin_parts, items, [items, parts, course], device=device)
        # a card has a copy of the settings
        settings["substeps"][0] = -(-substeps // parts)
        for k in range(parts):
            launch(set_part, items, [items, k, course], device=device)
            self.solver.advance(x, v, self.target, time + k * dt / parts, dt / parts, divide=False)
        launch(end_parts, items, [items, 0, course], device=device)
        settings["substeps"][0], settings["dt"][0] = substeps, dt

    def commands(self, parts: int, course: Any, each: Sequence[Command], others: Sequence[Command]) -> list[Command]:
        """The same as part of a chain: `each` are a part's own commands, `others` come first in all but the first."""
        commands: list[Command] = [(begin_parts, 1, (1, parts, course))]
        for k in range(parts):
            commands += [(set_part, 1, (1, k, course)), *(others if k else ()), *each]
        return [*commands, (end_parts, 1, (1, 0, course))]

    def undo(self, course: Any) -> None:
        """As if a step that ended in one of its parts had not begun."""
        if self.parts.numpy()[0]:
            launch(end_parts, 1, [1, 1, course])

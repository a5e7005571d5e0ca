"""What all methods have in common: a frame is some steps, and a step reports what happened in it."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.broad_phase.interface import BROAD_PHASES, make_broad_phase
from weft.broad_phase.patch_search import PatchSearch
from weft.errors import SceneError
from weft.scene import MethodOptions
from weft.world import State, Surface, World

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[+-]?\d+)?")
# method name -> where its class is
METHODS = {
    "plain": "weft.methods.plain:Plain",
    "guarded": "weft.methods.guarded.method:Guarded",
    "robust": "weft.methods.robust.method:Robust",
    "untangle": "weft.methods.untangle.method:Untangle",
    "predictive": "weft.methods.predictive.method:Predictive",
    "boxes": "weft.methods.boxes.method:Boxes",
    "push": "weft.methods.push.method:Push",
}


@dataclass
class StepReport:
    """What a step met, and what it could not do."""

    contacts: int = 0
    collisions: int = 0
    zones: int = 0
    problems: list[str] = field(default_factory=list)


class ContactForces(NamedTuple):
    """The contacts of a step as stencils, on the host, and the mean force of each over the step."""

    vertices: np.ndarray
    """(k, 4) those with positive weights are of the first side, the others of the second"""
    weights: np.ndarray
    """(k, 4)"""
    normals: np.ndarray
    """(k, 3) from the second side to the first"""
    gaps: np.ndarray
    """(k,) along the normal when the step began, m"""
    forces: np.ndarray
    """(k, 3) on the first side, N"""


class Method(ABC):
    """A way to simulate a world, step by step.

    What a frame computes depends on the state and on what `saved` gives, on nothing else: that is what makes a run
    that was interrupted go on with the same bytes.
    """

    name: str

    def __init__(self, world: World, options: MethodOptions) -> None:
        self.world = world
        self.options = options

    def begin(self, state: State) -> int:
        """Make the state of a scene one that the method can start from; gives how many vertices that moved."""
        return 0

    @abstractmethod
    def steps_a_frame(self) -> int:
        """Into how many steps the next frame is divided."""

    @abstractmethod
    def step(self, state: State, dt: float) -> StepReport:
        """Move the state forward by dt."""

    def advance_step(self, state: State) -> list[StepReport]:
        """Move the state forward by one of the equal steps of a frame; gives reports of it, or of its parts.

        `state.step` says how many steps of the frame are done; the last one completes the frame.
        """
        fps, steps = self.world.scene.fps, self.steps_a_frame()
        dt = 1.0 / fps / steps
        if state.step == 0:
            self.begin_frame()
        state.time = state.frame / fps + state.step * dt
        reports = self.divide_step(state, dt)
        self.world.end_step(state)
        state.step += 1
        if state.step == steps:
            state.frame, state.step = state.frame + 1, 0
        state.time = state.frame / fps + state.step * dt
        return reports

    def divide_step(self, state: State, dt: float) -> list[StepReport]:
        """Move the state forward by one of the steps of a frame, at once or in several parts."""
        return [self.step(state, dt)]

    def advance_frame(self, state: State, after_step: Callable[[], object] | None = None) -> dict[str, Any]:
        """Move the state to the next frame; gives the frame's row of the report. `after_step` is called after each step."""
        frame, reports = state.frame, []
        while state.frame == frame:
            reports += self.advance_step(state)
            if after_step is not None:
                after_step()
        return self.frame_row(state, reports)

    def frame_row(self, state: State, reports: list[StepReport], stretch: float | None = None) -> dict[str, Any]:
        """The row of the report for a frame with these steps, which the state is at the end of; `stretch` if it is known."""
        if stretch is None:
            stretch = worst_stretch(self.world, state)
        counts = {"steps": len(reports), **summarise(reports), "stretch": stretch}
        return {**counts, **self.frame_columns(), **self.state_columns(state)}

    def early_impulse(self, dt: float) -> float:
        """The fraction of its impulse that a constant force must give at the start of a step, the rest at the end.

        With it the force displaces vertices by as much as gravity does: by dt^2 a where a step moves with the velocity at its
        end, by half of that where substeps are many.
        """
        return 1.0

    def begin_frame(self) -> None:  # noqa: B027  (most methods count nothing of their own)
        """Reset what is counted over the steps of a frame."""

    def frame_columns(self) -> dict[str, Any]:
        """Columns of the report that only this method has, about the steps of the frame that ends."""
        return {}

    def collider_moves(self) -> None:  # noqa: B027  (most methods rely on nothing)
        """A collider that stood still will be moved by the caller from now on: update what relied on it standing still."""

    def touching_distance(self) -> np.ndarray:
        """For each vertex of the world the distance, m, that things keep which touch; of two that touch, the mean counts."""
        return self.world.thickness.numpy()

    def note_forces(self) -> bool:
        """Keep from now on what the forces of contacts are computed from; gives whether the method knows these forces."""
        return False

    def contact_forces(self) -> ContactForces:
        """The contacts of the last step and their forces, where `note_forces` said that the method knows them."""
        raise NotImplementedError

    def state_columns(self, state: State) -> dict[str, int]:
        """Columns of the report that only this method has, about a state: that of frame 0 has them too."""
        return {}

    def columns_after_check(self, state: State) -> dict[str, int]:
        """What `state_columns` gives, after an exact check found intersections, which no step may have noticed."""
        return self.state_columns(state)

    def noted(self, state: State) -> dict[str, np.ndarray]:
        """What a cache keeps of every frame for viewers besides the report: few whole numbers by name."""
        return {}

    def velocities(self, state: State) -> np.ndarray:
        """How vertices move at the end of a frame; a method may go on from others than these."""
        return state.velocities()

    def saved(self) -> dict[str, np.ndarray]:
        """What the next frame needs besides the state."""
        return {}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Take up what `saved` gave."""
        if saved:
            raise ValueError(f"{self.name} keeps nothing between frames, got {sorted(saved)}")


def early_impulse_of(dynamics: Any) -> float:
    """The fraction of `Method.early_impulse` for a model of cloth: dt^2 a / 2, or dt^2 a of a step with its end velocity."""
    return 0.5 if dynamics.central else 1.0


def summarise(reports: list[StepReport]) -> dict[str, Any]:
    """Counts are sums over the steps of a frame; of problems that differ in their numbers alone, the largest stands for all."""
    largest: dict[str, tuple[list[float], str]] = {}
    for problem in (problem for report in reports for problem in report.problems):
        kind, numbers = NUMBER.sub("", problem), [float(number) for number in NUMBER.findall(problem)]
        largest[kind] = max(largest.get(kind, (numbers, problem)), (numbers, problem))
    problems = [problem for _, problem in largest.values()]
    return {
        "contacts": sum(r.contacts for r in reports),
        "collisions": sum(r.collisions for r in reports),
        "zones": sum(r.zones for r in reports),
        "status": "; ".join(problems) or "ok",
    }


def worst_stretch(world: World, state: State) -> float:
    """Largest strain of any edge of any cloth: 0.1 is 10 % longer than at rest."""
    return max(0.0, float(world.largest_stretch(state.x)) - 1.0)


def make_method(world: World, options: MethodOptions) -> Method:
    """The method that a scene names, ready to run."""
    module, _, name = METHODS[options.name].partition(":")
    with wp.ScopedDevice(world.device):
        return getattr(import_module(module), name)(world, options)


def exact_broad_phase(world: World, surface: Surface, method: str, **options: Any) -> PatchSearch:
    """The broad phase that the scene names (by default `bvh`), over the first vertices of a world.

    For methods that must not miss a pair: they refuse a broad phase that may.
    """
    name = world.scene.broad_phase or "bvh"
    if name not in BROAD_PHASES:
        text = f"{name!r} may miss pairs, and {method} must not; use one of {', '.join(BROAD_PHASES)}"
        raise SceneError(world.scene.problem(("broad_phase",), text))
    material = world.rest_shape.numpy()[: surface.vertex_count]
    broad_phase = make_broad_phase(name, surface, material=material, **options)
    assert isinstance(broad_phase, PatchSearch)
    return broad_phase


def choose_search(world: World, method: str, search: str | None, choices: Sequence[str], default: str) -> str:
    """How a method with an option `search` of its own searches: by that, by the scene's broad phase, or by default.

    A broad phase that the method does not have, or that contradicts the option, is refused.
    """
    wanted = world.scene.broad_phase
    if wanted is None:
        return search or default
    if wanted not in choices:
        text = f"{wanted!r} is not for {method}; use one of {', '.join(choices)}, or leave it out"
        raise SceneError(world.scene.problem(("broad_phase",), text))
    if search not in (None, wanted):
        text = f"is {wanted!r}, but the search of the method is {search!r}; leave one of them out"
        raise SceneError(world.scene.problem(("broad_phase",), text))
    return wanted

"""What all methods have in common: a frame is some steps, and a step tells what happened in it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np
import warp as wp

from weft.scene import MethodOptions
from weft.world import State, World

# method name -> where its class is
_METHODS = {
    "plain": "weft.methods.plain:Plain",
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

    def advance_frame(self, state: State) -> dict[str, Any]:
        """Move the state to the next frame; gives the frame's row of the report."""
        fps = self.world.scene.fps
        start = state.frame / fps
        steps = self.steps_a_frame()
        dt = 1.0 / fps / steps
        reports = []
        for k in range(steps):
            state.time = start + k * dt
            reports.append(self.step(state, dt))
        state.frame += 1
        state.time = state.frame / fps
        return {"steps": steps, **summarise(reports), "stretch": worst_stretch(self.world, state)}

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


def summarise(reports: list[StepReport]) -> dict[str, Any]:
    """Counts are sums over the steps of a frame; problems are told once each."""
    problems = dict.fromkeys(problem for report in reports for problem in report.problems)
    return {
        "contacts": sum(r.contacts for r in reports),
        "collisions": sum(r.collisions for r in reports),
        "zones": sum(r.zones for r in reports),
        "status": "; ".join(problems) or "ok",
    }


def worst_stretch(world: World, state: State) -> float:
    """Largest strain of any edge of any cloth: 0.1 is 10 % longer than at rest."""
    return max(0.0, float(world.longest_edge(state.x)) - 1.0)


def make_method(world: World, options: MethodOptions) -> Method:
    """The method that a scene names, ready to run."""
    module, _, name = _METHODS[options.name].partition(":")
    with wp.ScopedDevice(world.device):
        return getattr(import_module(module), name)(world, options)

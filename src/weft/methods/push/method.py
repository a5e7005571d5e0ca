"""`push`: Draping on meshes. Explicit springs, and vertices moved out of triangles by small constant moves.

A step: integrate; if a vertex moved unusually far, or is unusually fast at the end, take half the step; shorten edges that
are too long (Provot 1995); push vertices away from triangles that are too close. It is simple, and it guarantees nothing:
see `docs/push.md`.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.mass_spring import SAFETY, count_steps, stable_step
from weft.errors import SceneError
from weft.methods.base import Method, StepReport, choose_search
from weft.methods.push.centroid_trees import KINDS
from weft.methods.push.integrators import (
    Integrator,
    LengthCorrection,
    SpringAcceleration,
    find_largest_move,
    hold_pinned,
)
from weft.methods.push.push_out import PushOut
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache
from weft.scene import Push as PushOptions
from weft.world import State, World

# steps without a halving after which a halved step is doubled again
RECOVERY = 8
# s; Euler's method is unstable for undamped springs at any step length, and at this one the motion grows slowly
SHORTEST_DELAY = 1e-4
# s; in shorter steps moves are shorter in proportion: many moves of full length in a short time throw the cloth about.
# A vertex is held by the loss of its velocity towards the triangle; the moves only bring it back out
FULL_MOVE = 1.0 / 60.0


class Push(Method):
    """Mass-spring cloth whose vertices keep a distance from the triangles of colliders and of cloth."""

    name = "push"

    def __init__(self, world: World, options: PushOptions) -> None:
        super().__init__(world, options)
        if np.isinf(world.seams.stiffness).any():
            raise SceneError(
                world.scene.problem(("seams",), "push steps springs explicitly and cannot weld; use kind = 'spring'")
            )
        self.halvings = options.halvings
        self.farthest = 0.5 * options.close
        """m; a vertex that moves farther in a step could pass through a triangle without being noticed"""
        self.options: PushOptions = options
        self.response = self._make_response()
        count = world.cloth_vertex_count
        self.forces = SpringAcceleration.from_world(world)
        self.integrator = Integrator(options.integrator, count, world.device)
        self.correction = LengthCorrection(self.forces.network, options.largest_stretch, world.inverse_mass, count)
        self.steps = options.steps or self._stable_steps()
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self._largest_move = wp.zeros(1, dtype=wp.float64, device=world.device)
        self._counts: np.ndarray = np.zeros(2, np.int32)
        self._pushes_unchecked = not world.device.is_cpu
        """whether a step is pushed before it is known whether it must be halved: a push in vain costs a GPU less than a wait"""
        self._cooperative, self._graphs = CooperativeLauncher(world.device), GraphCache(world.device)
        self.level = 0
        """how often the step is halved at the moment"""
        self.good = 0
        """steps since it was halved or doubled"""
        self.taken = 0
        """steps that the frame took in the end"""
        self.left = 0
        """vertices that are still too close after all moves of the last step"""

    def _make_response(self) -> PushOut:
        """What pushes vertices out of colliders and cloth."""
        world, options = self.world, self.options
        search = choose_search(world, self.name, options.search, tuple(KINDS), "kdtree")
        return PushOut(
            world,
            search=search,
            search_cloth=options.search_cloth or search,
            close=options.close,
            moves=options.moves,
            largest_face=options.largest_face or 2.0 * options.close,
            mesh=options.against != "cloth",
            cloth=options.against != "mesh",
        )

    def step(self, state: State, dt: float) -> StepReport:
        report = StepReport()
        # time is counted in the shortest steps
        whole, done = 1 << self.halvings, 0
        start = state.time
        while done < whole:
            length = whole >> self.level
            h = dt * length / whole
            state.time = start + dt * done / whole
            moved = self._integrate(state, h)
            if not moved <= self.farthest and self.level < self.halvings:
                self.level, self.good = self.level + 1, 0
                continue
            if not moved <= self.farthest:
                report.problems.append(f"a vertex moves {moved:.3g} m in the shortest step: more than half of `close`")
            if not self._pushes_unchecked:
                self._correct_and_push(state, h)
            self._take(state, report)
            done += length
            self.good += 1
            if self.good >= RECOVERY and self.level > 0 and done % (2 * length) == 0:
                self.level, self.good = self.level - 1, 0
        return report

    def _integrate(self, state: State, h: float) -> float:
        """Integrate over h, and push at once on a GPU; gives how far the fastest vertex moves, or will in the next step, m."""
        self.world.begin_step(state, h)
        self.response.prepare(state.x, state.v)

        def work() -> None:
            self._integrate_springs(state, h)
            if self._pushes_unchecked:
                self._correct_and_push(state, h)

        # wind depends on the time, which a graph does not know
        if self.forces.air.wind is None:
            self._graphs.run(work, state.x, state.v, h)
        else:
            work()
        moved, self._counts = read((self._largest_move, 0, 1), (self.response.counts, 0, 2))
        return float(moved[0])

    def _integrate_springs(self, state: State, h: float) -> None:
        world, count = self.world, self.world.cloth_vertex_count
        launch(hold_pinned, count, [world.inverse_mass, state.x, world.target, h, state.v], device=world.device)
        self.integrator.step(state.x, state.v, state.time, h, self.forces, self.x_end, self.v_end)
        inputs = [count, world.inverse_mass, state.x, self.x_end, self.v_end, h, self._largest_move]
        self._cooperative.launch(find_largest_move, count, inputs)

    def _correct_and_push(self, state: State, h: float) -> None:
        """Shorten edges that are too long, then push vertices out."""
        self.world.carry_colliders(state, h, self.x_end, self.v_end)
        self.correction.apply(self.x_end)
        self.response.push(self.x_end, self.v_end, h, fraction=min(1.0, h / FULL_MOVE))

    def _take(self, state: State, report: StepReport) -> None:
        """Accept the step; on the CPU the counts are a view of memory that the push has written."""
        pushed, left = (int(count) for count in self._counts)
        report.contacts += pushed
        self.left = left
        state.take(self.x_end, self.v_end)
        self.taken += 1

    def steps_a_frame(self) -> int:
        return self.steps

    def begin_frame(self) -> None:
        self.taken = 0

    def touching_distance(self) -> np.ndarray:
        return np.maximum(self.world.thickness.numpy(), self.options.close)

    def frame_columns(self) -> dict[str, Any]:
        return {"steps": self.taken, "too_close": self.left}

    def collider_moves(self) -> None:
        self.response = self._make_response()

    def saved(self) -> dict[str, np.ndarray]:
        return {"level": np.array([self.level, self.good])}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.level, self.good = (int(value) for value in saved["level"])

    def _stable_steps(self) -> int:
        """Steps a frame that the stiffest spring needs; with Euler's method no step may be longer than a damping delay."""
        network = self.forces.network
        longest = stable_step(network, self.world.mass[: self.world.cloth_vertex_count])
        if self.integrator.scheme.order == 1:
            delays = network.damping[network.stiffness > 0.0] / network.stiffness[network.stiffness > 0.0]
            longest = min(longest, max(float(np.min(delays, initial=np.inf)), SHORTEST_DELAY))
        return count_steps(self.world.scene, SAFETY * longest)

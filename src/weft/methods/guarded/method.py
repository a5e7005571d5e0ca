"""`guarded`: one method with a guarantee and recovery.

A pair that does not cross at the start of a step does not cross at its end; pairs that cross are parted. While nothing
crosses a step is that of `robust`, and costs the same. Otherwise:

1. the paths of all intersections are found, over cloth and colliders, and what is pinched between solids (`tangles`);
2. pairs within a tangle are left alone (`pair_states`), all others are guarded as ever;
3. pinched cloth moves with what pinches it (`analysis.solids`), the rest of a tangle is parted by a displacement (`parting`);
4. pairs that prescribed motion forces through each other are released, they alone (`forcing`), and cloth that colliders would
   tear lets them pass (`tearing`).
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.contact.step_search import length_scale
from weft.contact.touching import OFFSET
from weft.methods.base import StepReport
from weft.methods.guarded.folds import stack_facets
from weft.methods.guarded.forcing import LEAST_WEIGHT, Forced, GuardedRounds
from weft.methods.guarded.held import HeldVertices
from weft.methods.guarded.ledger import Ledger
from weft.methods.guarded.pair_states import PairStates, TangleSides
from weft.methods.guarded.tangles import TangleFinder, Tangles
from weft.methods.guarded.tearing import Tearing, Torn
from weft.methods.robust.method import Robust
from weft.runtime import launch
from weft.scene import Guarded as GuardedOptions
from weft.world import State, World

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


@wp.kernel
def add_displacement(
    first: int, displacement: wp.array[wp.vec3d], factor: wp.float64, dt: wp.float64, v: wp.array[wp.vec3d]
):
    """Let the average velocities lead farther by a multiple of the displacement."""
    i = first + wp.tid()
    v[i] = v[i] + (factor / dt) * displacement[i]


class Guarded(Robust):
    """Robust, pair by pair: what crosses is parted, what is forced is released, all else stays free."""

    name = "guarded"

    def __init__(self, world: World, options: GuardedOptions) -> None:
        super().__init__(world, options)
        self.collisions: GuardedRounds = GuardedRounds(world, self.contacts, self.motion, self._limit_strain)
        self.states = PairStates(world)
        self.search.leave_alone, self.contacts.turn = self.states.leave_alone, self.states.turn_contacts
        self.contacts.loosen = self.states.loosen_contacts
        self.finder = TangleFinder(world)
        self.tangles: Tangles | None = None
        """what crosses at the start of the next step"""
        self._tangles_known = False
        """whether `tangles` has been found at the current positions"""
        self._held = HeldVertices(world, options.strain_limit)
        self._tearing = Tearing(world, self.motion, self.contact_list, self.finder)
        self._displacement: wp.array | None = None
        self._parted = 0
        """number of steps so far in which a tangle was parted"""
        self.ledger = Ledger(len(world.faces))
        self._released = PairStates(world)
        """which pairs the step released"""

    def begin(self, state: State) -> int:
        """Move cloth off what it touches, layers of one cloth too."""
        start = state.positions()
        super().begin(state)
        vertices, _ = self._find_touching(state.x)
        if len(vertices):
            distance = OFFSET * length_scale(self.world.finest_length)
            cloth = np.unique(vertices[(vertices < self.world.cloth_vertex_count).all(axis=1)])
            if len(cloth):
                state.x.assign(stack_facets(state.positions(), self.world.cloth_faces, cloth, distance))
        return int((state.positions() != start).any(axis=1).sum())

    def begin_frame(self) -> None:
        self.ledger.begin_frame()

    def state_columns(self, state: State) -> dict[str, int]:
        """What crosses now, how much of it is released, and what came to cross in the frame for other reasons."""
        self._find_tangles(state)
        crossing = released = 0
        if self.tangles is not None:
            released = int(self._are_released(self.tangles).sum())
            crossing = len(self.tangles.counted) - released
        events = {"opened": self.ledger.opened, "newly_crossing": self.ledger.newly_crossing}
        return {"released": released, "crossing": crossing, **events}

    def noted(self, state: State) -> dict[str, np.ndarray]:
        """(k, 3) the released pairs: the ends of the edge, and the triangle."""
        self._find_tangles(state)
        if self.tangles is None:
            return {"released": np.zeros((0, 3), np.int64)}
        return {"released": self.tangles.analysis.rows[self.tangles.counted[self._are_released(self.tangles)]]}

    def _are_released(self, tangles: Tangles) -> NDArray[np.bool_]:
        """Which of the pairs that count the ledger knows as released, or are at cloth that bodies pinch."""
        known = np.isin(self._keys(tangles), self.ledger.released)
        return np.asarray(known | self.finder.at_pinched(tangles)[tangles.counted])

    def columns_after_check(self, state: State) -> dict[str, int]:
        """The columns of a state in which an exact check found crossings: those that no step noticed have no cause."""
        if self.tangles is None:
            self.tangles = self.finder.find(state.x)
            if self.tangles is not None:
                nothing = np.zeros(len(self.tangles.counted), dtype=bool)
                self.ledger.end_step(self._keys(self.tangles), nothing, nothing)
        return self.state_columns(state)

    def _keys(self, tangles: Tangles) -> NDArray[np.int64]:
        """(k,) the pairs that cross and count, as the ledger numbers them."""
        return self.ledger.keys(tangles.analysis.edge[tangles.counted], tangles.analysis.face[tangles.counted])

    def _find_tangles(self, state: State) -> None:
        """Find what crosses now, unless it is known."""
        if not self._tangles_known:
            self.tangles, self._tangles_known = self.finder.find(state.x), True
            self.ledger.start(np.zeros(0, np.int64) if self.tangles is None else self._keys(self.tangles))

    def begin_together(self, state: State) -> bool:
        """While nothing crosses a step is that of `robust`."""
        self._find_tangles(state)
        return self.tangles is None and super().begin_together(state)

    def _advance(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None:
        self._find_tangles(state)
        self._held = HeldVertices(self.world, self.options.strain_limit)
        report = None
        while True:
            try:
                report = super()._advance(state, dt, end, may_halve=may_halve)
                break
            # each time more is released, so that this ends
            except Forced as forced:
                self._release(state, dt, forced)
            except Torn as torn:
                self._held.loose = np.union1d(self._held.loose, torn.vertices)
            finally:
                self._held.let_go()
        if report is not None and self.states.any:
            self._find_causes(state)
            if len(self._held.loose):
                report.problems.append("a collider that would have torn the cloth passed through it")
        return report

    def _begin_step(self, state: State, dt: float) -> None:
        """Set what is prescribed, which pairs are within tangles, and what parts them."""
        super()._begin_step(state, dt)
        self._displacement = None
        sides, places = [], None
        if self.tangles is not None:
            sides.append(self.finder.sides(self.tangles))
            motion = self.world.target.numpy() - state.x.numpy()
            self._hold_pinched(self.tangles, motion / dt)
            places = self.finder.places(self.tangles, self._held.released, motion)
        self.states.assign(TangleSides.join(*sides, self._held.sides()), places)
        if not self.states.any:
            return
        pinned = self.world.inverse_mass.numpy() == 0.0
        pinned[self.world.cloth_vertex_count :] = False
        self._held.apply(state.x.numpy(), state.v.numpy(), dt)
        if self.tangles is not None:
            movable = self.world.inverse_mass.numpy() > 0.0
            moved = self.finder.displacements(self.tangles, movable, pinned, self._parted)
            self._displacement = wp.array(moved, dtype=wp.vec3d, device=self.world.device)

    def _hold_pinched(self, tangles: Tangles, velocity: Floats) -> None:
        """Let pinched vertices move with the surfaces that pinch them; `velocity` (n, 3) is that of colliders and pins."""
        if tangles.pinched.any():
            self._held.add(tangles.inside[tangles.pinched], self.finder.held_velocities(tangles, velocity))

    def _release(self, state: State, dt: float, forced: Forced) -> None:
        """Release forced pairs of cloth and colliders, and cloth between the same solids; let cloth and cloth move as one."""
        count = self.world.cloth_vertex_count
        with_collider = (forced.stencils >= count).any(axis=1)
        pinned = self.world.kinematics.fixed(self.world.vertex_count, state.time)
        for stencil, weights in zip(forced.stencils[~with_collider], forced.weights[~with_collider], strict=True):
            self._join(stencil, weights, forced.velocities, pinned)
        vertices = np.unique(forced.stencils[with_collider])
        vertices = vertices[vertices < count]
        self._held.add(vertices, forced.velocities[vertices])
        if len(vertices):
            x, target = state.x.numpy(), self.world.target.numpy()
            self._held.add(*self.finder.pinched_with(vertices, x, target, dt))

    def _join(self, stencil: Ints, weights: Floats, velocities: Floats, pinned: NDArray[np.bool_]) -> None:
        """Let the vertices of a forced pair of cloth move as one; it is released only where pins keep them from that."""
        corners = stencil[np.abs(weights) > LEAST_WEIGHT]
        if not pinned[corners].all():
            self._held.add(corners, velocities[corners], released=False)
            if self._held.join(corners):
                return
        self._held.pairs.append(TangleSides.of(stencil[weights > 0.0], stencil[weights < 0.0]))

    def _end_step(self, state: State, dt: float, substeps: int, report: StepReport) -> None:
        # only colliders that move can push cloth so far that it would tear
        if (report.contacts or report.collisions or self.states.any) and self.world.kinematics.moving:
            self._tearing.refuse(state, dt, self._held.loose, tangled=self.tangles is not None)
        super()._end_step(state, dt, substeps, report)

    def _average_velocity(self, state: State, dt: float) -> None:
        if self._displacement is None:
            super()._average_velocity(state, dt)
            return
        self.motion.average(state, dt)
        # shorter steps part less
        factor = min(1.0, dt * self.world.scene.fps * self.options.steps)
        inputs = [self._displacement, factor, dt, self.motion.v]
        launch(add_displacement, self.world.vertex_count, inputs, device=self.world.device)
        self._limit_strain(state, dt, v_too=self.motion.v_end)
        self.motion.note_free_velocity()

    def _find_causes(self, state: State) -> None:
        """Find what crosses after a step with tangles, and why."""
        self._parted += 1
        self.tangles = self.finder.find(state.x)
        if self.tangles is None:
            self.ledger.start(np.zeros(0, np.int64))
            return
        self._released.assign(self._held.sides(), None)
        counted = self.tangles.counted
        pairs = self.tangles.analysis.rows[counted, :2], self.tangles.corners[counted]
        left_alone = self.states.tangled(*pairs)
        forced = self._released.tangled(*pairs) | (left_alone & self.finder.at_pinched(self.tangles)[counted])
        self.ledger.end_step(self._keys(self.tangles), forced, left_alone)

    def saved(self) -> dict[str, np.ndarray]:
        return {**super().saved(), "parted": np.array([self._parted]), "released": self.ledger.released}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        super().restore(saved)
        self._parted = int(saved["parted"][0])
        self.ledger.released = saved["released"]
        self._tangles_known = False

"""`guarded`: one method with a guarantee and recovery.

A pair that does not cross at the start of a step does not cross at its end; pairs that cross are parted. While nothing
crosses a step is that of `robust`, and costs the same. Otherwise:

1. the paths of all intersections are found, over cloth and colliders, and what is pinched between solids (`tangles`);
2. pairs within a tangle are left alone (`pair_states`), all others are guarded as ever;
3. pinched cloth moves with what pinches it (`analysis.solids`), the rest of a tangle is parted by a displacement (`parting`);
4. pairs that prescribed motion forces through each other are released, they alone (`forcing`).
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.contact.step_search import OFFSET, length_scale
from weft.methods.base import StepReport
from weft.methods.guarded.folds import stack_facets
from weft.methods.guarded.forcing import Forced, GuardedRounds
from weft.methods.guarded.ledger import Ledger
from weft.methods.guarded.pair_states import PairStates, Sides
from weft.methods.guarded.tangles import TangleFinder, Tangles
from weft.methods.robust.method import Robust
from weft.runtime import launch
from weft.scene import Guarded as GuardedOptions
from weft.world import State, World

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


# times its rest length that an edge may be stretched by a collider, which passes through the cloth before it stretches it
# farther: a ball at 50 m/s that a sheet of leather stops stretches it to 2.8 times
TEARING = 4.0


class Torn(Exception):
    """Colliders would stretch cloth beyond `TEARING`; they have to pass the vertices that they push."""

    def __init__(self, vertices: Ints) -> None:
        super().__init__("a collider would tear the cloth")
        self.vertices = vertices


@wp.kernel
def add_displacement(
    first: int, displacement: wp.array[wp.vec3d], factor: wp.float64, dt: wp.float64, v: wp.array[wp.vec3d]
):
    """Let the average velocities lead farther by a multiple of the displacement."""
    i = first + wp.tid()
    v[i] = v[i] + (factor / dt) * displacement[i]


class HeldVertices:
    """Vertices of cloth that move with what holds them in a step, and the pairs that are released for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.vertices = np.zeros(0, np.int64)
        self.velocities = np.zeros((0, 3))
        self.pairs: list[Sides] = []
        """forced pairs of cloth with cloth"""
        self.loose = np.zeros(0, np.int64)
        """vertices that colliders may pass, but that nothing holds"""
        self._masses: tuple[Ints, Floats] | None = None

    def add(self, vertices: Ints, velocities: Floats) -> None:
        """Hold vertices; those that are held already keep their velocities."""
        new = ~np.isin(vertices, self.vertices)
        vertices, first = np.unique(vertices[new], return_index=True)
        self.vertices = np.concatenate([self.vertices, vertices])
        self.velocities = np.concatenate([self.velocities, velocities[new][first]])

    def sides(self) -> Sides:
        """The released pairs: held cloth with all colliders, and the forced pairs of cloth."""
        world = self.world
        parts = list(self.pairs)
        cloth = np.union1d(self.vertices, self.loose)
        if len(cloth):
            parts.append(Sides.of(cloth, np.arange(world.cloth_vertex_count, world.vertex_count)))
        return Sides.join(*parts)

    def apply(self, x: Floats, dt: float) -> None:
        """Prescribe the motion of the held vertices; pins keep their own."""
        if not len(self.vertices):
            return
        world = self.world
        inverse_mass, target = world.inverse_mass.numpy().copy(), world.target.numpy().copy()
        free = inverse_mass[self.vertices] > 0.0
        held = self.vertices[free]
        self._masses = held, inverse_mass[held]
        inverse_mass[held] = 0.0
        target[held] = x[held] + dt * self.velocities[free]
        world.inverse_mass.assign(inverse_mass)
        world.target.assign(target)

    def let_go(self) -> None:
        """Give the vertices their masses back."""
        if self._masses is not None:
            inverse_mass = self.world.inverse_mass.numpy().copy()
            held, masses = self._masses
            inverse_mass[held] = masses
            self.world.inverse_mass.assign(inverse_mass)
            self._masses = None


class Guarded(Robust):
    """Robust, pair by pair: what crosses is parted, what is forced is released, all else stays free."""

    name = "guarded"

    def __init__(self, world: World, options: GuardedOptions) -> None:
        super().__init__(world, options)
        self.collisions: GuardedRounds = GuardedRounds(world, self.contacts, self.motion, self._limit_strain)
        self.states = PairStates(world)
        self.search.leave_alone, self.contacts.turn = self.states.leave_alone, self.states.turn_contacts
        self.finder = TangleFinder(world)
        self.tangles: Tangles | None = None
        """what crosses at the start of the next step"""
        self._looked = False
        """whether `tangles` is that of the current positions"""
        self._held = HeldVertices(world)
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
        self._look(state)
        crossing = released = 0
        if self.tangles is not None:
            known = np.isin(self._keys(self.tangles), self.ledger.released)
            released = int((known | self.finder.at_pinched(self.tangles)).sum())
            crossing = self.tangles.crossings - released
        events = {"opened": self.ledger.opened, "newly_crossing": self.ledger.newly_crossing}
        return {"released": released, "crossing": crossing, **events}

    def look_again(self, state: State) -> dict[str, int]:
        """The columns of a state in which something crosses, says another; what the steps did not notice has no cause."""
        if self.tangles is None:
            self.tangles = self.finder.find(state.x)
            if self.tangles is not None:
                nothing = np.zeros(self.tangles.crossings, dtype=bool)
                self.ledger.end_step(self._keys(self.tangles), nothing, nothing)
        return self.state_columns(state)

    def _keys(self, tangles: Tangles) -> NDArray[np.int64]:
        """(k,) the pairs that cross, as the ledger numbers them."""
        return self.ledger.keys(tangles.analysis.edge, tangles.analysis.face)

    def _look(self, state: State) -> None:
        """Find what crosses now, unless it is known."""
        if not self._looked:
            self.tangles, self._looked = self.finder.find(state.x), True
            self.ledger.start(np.zeros(0, np.int64) if self.tangles is None else self._keys(self.tangles))

    def _advance(self, state: State, dt: float, end: float, *, may_halve: bool) -> StepReport | None:
        self._look(state)
        self._held = HeldVertices(self.world)
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
            self._look_after(state)
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
            self._hold_pinched(self.tangles, state, dt)
            places = self.finder.places(self.tangles, np.union1d(self._held.vertices, self._held.loose))
        self.states.assign(Sides.join(*sides, self._held.sides()), places)
        if not self.states.any:
            return
        self._held.apply(state.x.numpy(), dt)
        if self.tangles is not None:
            movable = self.world.inverse_mass.numpy() > 0.0
            pinned = ~movable
            pinned[self.world.cloth_vertex_count :] = False
            pinned[self._held.vertices] = False
            moved = self.finder.displacements(self.tangles, movable, pinned, self._parted)
            self._displacement = wp.array(moved, dtype=wp.vec3d, device=self.world.device)

    def _hold_pinched(self, tangles: Tangles, state: State, dt: float) -> None:
        """Let pinched vertices move with the surfaces that pinch them."""
        if tangles.pinched.any():
            velocity = (self.world.target.numpy() - state.x.numpy()) / dt
            self._held.add(tangles.inside[tangles.pinched], self.finder.held_velocities(tangles, velocity))

    def _release(self, state: State, dt: float, forced: Forced) -> None:
        """Release forced pairs: cloth and colliders, and cloth between the same solids; or cloth and cloth."""
        count = self.world.cloth_vertex_count
        with_collider = (forced.stencils >= count).any(axis=1)
        for stencil, weights in zip(forced.stencils[~with_collider], forced.weights[~with_collider], strict=True):
            self._held.pairs.append(Sides.of(stencil[weights > 0.0], stencil[weights < 0.0]))
        vertices = np.unique(forced.stencils[with_collider])
        vertices = vertices[vertices < count]
        self._held.add(vertices, forced.velocities[vertices])
        if len(vertices):
            x, target = state.x.numpy(), self.world.target.numpy()
            self._held.add(*self.finder.pinched_with(vertices, x, target, dt))

    def _end_step(self, state: State, dt: float, substeps: int, report: StepReport) -> None:
        # only colliders that move can push cloth so far that it would tear
        if report.collisions and self.world.kinematics.moving:
            self._refuse_to_tear(state)
        super()._end_step(state, dt, substeps, report)

    def _refuse_to_tear(self, state: State) -> None:
        """Raise `Torn` where a collider would stretch an edge to more than `TEARING` times its rest length."""
        if self.world.largest_stretch(self.motion.x_end) < TEARING:
            return
        edges, rest = self.world.cloth_edges
        x, end = state.x.numpy(), self.motion.x_end.numpy()
        a, b = edges.numpy().T
        length = np.linalg.norm(end[b] - end[a], axis=1)
        longer = length > np.linalg.norm(x[b] - x[a], axis=1)
        torn = edges.numpy()[longer & (length > TEARING * rest.numpy())]
        contacts = self.contact_list
        given = contacts.normal_impulses[: contacts.count].numpy() > 0.0
        count = self.world.cloth_vertex_count
        stencils = contacts.vertices[: contacts.count].numpy().reshape(-1, 4)[given]
        touching = np.unique(stencils[(stencils >= count).any(axis=1)])
        pushed = np.setdiff1d(touching[touching < count], self._held.loose)
        pushed = self.finder.connected(pushed, torn.ravel())
        if len(pushed):
            raise Torn(pushed)

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

    def _look_after(self, state: State) -> None:
        """Find what crosses after a step with tangles, and why."""
        self._parted += 1
        self.tangles = self.finder.find(state.x)
        if self.tangles is None:
            self.ledger.start(np.zeros(0, np.int64))
            return
        self._released.assign(self._held.sides(), None)
        pairs = self.tangles.analysis.rows[:, :2], self.tangles.corners
        left_alone = self.states.tangled(*pairs)
        forced = self._released.tangled(*pairs) | (left_alone & self.finder.at_pinched(self.tangles))
        self.ledger.end_step(self._keys(self.tangles), forced, left_alone)

    def saved(self) -> dict[str, np.ndarray]:
        return {**super().saved(), "parted": np.array([self._parted]), "released": self.ledger.released}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        super().restore(saved)
        self._parted = int(saved["parted"][0])
        self.ledger.released = saved["released"]
        self._looked = False

"""`untangle`: implicit cloth that recovers from tangles, and that bodies can pinch (Baraff, Witkin and Kass 2003).

A step, in the order of `Untangle.step`:

1. Pinched vertices, between surfaces that face each other, are flypapered to these (section 4).
2. Global intersection analysis finds where cloth has passed through cloth, from the positions alone (section 5).
3. Springs for the step: near cloth repels, except where the colours of the analysis say that it has passed through; that
   is attracted, so that it passes back (section 6). Edges that are stretched too far lock.
4. One implicit solve moves everything, with hard constraints against colliders and friction (section 3).
5. Corrections: small folds that cross themselves are flattened, overlong edges shortened, and collisions of cloth that is
   not tangled are stopped.

There is no guarantee that nothing intersects; intersections vanish as soon as the surroundings of the cloth allow it.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.analysis.analyser import Analyser, Analysis
from weft.dynamics.implicit.model import Implicit
from weft.methods.base import Method, StepReport
from weft.methods.untangle.attraction import attract
from weft.methods.untangle.cloth_contact import ClothContact
from weft.methods.untangle.corrections import AllowedCrossings, ClothCollisions, Unfolding
from weft.methods.untangle.flypaper import Flypaper
from weft.methods.untangle.locking import Locking
from weft.methods.untangle.pinching import PinchFinder
from weft.methods.untangle.solid_contact import SolidContact
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.runtime import launch
from weft.scene import Untangle as UntangleOptions
from weft.scene.resolve import resolve_grips
from weft.world import State, World
from weft.world.constraints import ConstraintSource
from weft.world.kinematics import TIME_SLACK

wp.set_module_options({"enable_backward": False})

# seconds; by default a step is at most this long. Longer steps let more cloth pass through cloth before it is repelled
LONGEST_STEP = 1.0 / 60.0
# how often, at most, edges are shortened and collisions stopped in a step, in turns
CORRECTION_TURNS = 3


@wp.kernel
def mark_held(first: int, inverse_mass: wp.array[wp.float64], spared: wp.array[wp.int8], held: wp.array[wp.int8]):
    """Mark the vertices that are tangled or pinched (`spared`), and those without inverse mass."""
    i = first + wp.tid()
    held[i] = spared[i]
    if inverse_mass[i] == wp.float64(0.0):
        held[i] = wp.int8(1)


class Untangle(Method):
    """Global intersection analysis, repulsion and attraction, hard contact with colliders, and flypapering."""

    name = "untangle"

    def __init__(self, world: World, options: UntangleOptions) -> None:
        super().__init__(world, options)
        self.options: UntangleOptions = options
        self.dynamics = Implicit.from_world(world, flight=True)
        self.locking = Locking(world)
        areas = world.mass[: world.cloth_vertex_count]
        lengths = np.concatenate([np.zeros(0), *(cloth.mesh.rest_lengths for cloth in world.cloths)])
        self.analyser = Analyser(
            world.cloth_faces,
            world.cloth_vertex_count,
            seams=world.seams.vertices,
            areas=areas,
            length=float(np.median(lengths)) if len(lengths) else 0.0,
            device=world.device,
        )
        self.cloth_contact = ClothContact(world)
        self.collisions = ClothCollisions(world, self.cloth_contact.surface)
        self._spared, self._held = (self.cloth_contact.rings.no_marks() for _ in range(2))
        self.unfolding = Unfolding(world)
        self.surfaces = SolidSurfaces(world)
        self.solid_contact = SolidContact(world, depth=options.depth, surfaces=self.surfaces)
        self.pinches = PinchFinder(world, self.surfaces, depth=options.depth)
        self.flypaper = Flypaper(
            world,
            weights={one.collider: one.weight for one in options.flypaper},
            maps={one.collider: np.array(one.map) for one in options.flypaper if one.map is not None},
            surfaces=resolve_grips(world.scene, options.flypaper, world.collider_meshes),
        )
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self._steps = options.steps or max(1, int(np.ceil(1.0 / (world.scene.fps * LONGEST_STEP) - 1e-9)))
        # of the last step, for the report
        self.crossings = self.paths = self.iterations = 0
        self.pinched_vertices = np.zeros(0, np.int32)

    def early_impulse(self, dt: float) -> float:
        # cloth that flies freely moves with the mean of its velocities before and after the step
        return 0.5

    def steps_a_frame(self) -> int:
        return self._steps

    def begin_frame(self) -> None:
        self.iterations = 0

    def frame_columns(self) -> dict[str, Any]:
        found = {"crossings": self.crossings, "paths": self.paths, "pinched": len(self.pinched_vertices)}
        return {**found, "iterations": self.iterations}

    def step(self, state: State, dt: float) -> StepReport:
        world = self.world
        world.begin_step(state, dt)
        # flypapering: pinched vertices move with the surfaces that pinch them
        if self.options.pinch:
            self.hold_pinched(state)
        # global intersection analysis: where has cloth passed through cloth?
        analysis = self._analyse(state)
        # repulsion and attraction by its colours, and edges that lock
        self._spare(analysis)
        contacts = self._add_springs(state, dt, analysis)
        # one implicit solve, with colliders and flypaper as constraints
        sources: list[ConstraintSource] = [self.solid_contact, self.flypaper]
        self.dynamics.propose(state, world.target, dt, self.x_end, self.v_end, restraints=sources)
        world.carry_colliders(state, dt, self.x_end, self.v_end)
        # corrections of its result
        if analysis is not None:
            self.unfolding.flatten(self.x_end, self.v_end, analysis, held=self.pinched_vertices)
        found = self._correct(state, dt, analysis)
        state.take(self.x_end, self.v_end)
        self.iterations += sum(solution.iterations for solution in self.dynamics.solutions)
        return StepReport(
            contacts=contacts + self.solid_contact.closed, collisions=found, problems=list(self.dynamics.problems)
        )

    def saved(self) -> dict[str, np.ndarray]:
        return {**self.solid_contact.saved(), **self.dynamics.saved()}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.solid_contact.restore(saved)
        self.dynamics.restore(saved)

    def _analyse(self, state: State) -> Analysis | None:
        """Where cloth passes through cloth; None if it does not, or if attraction is off or has not begun."""
        self.crossings = self.paths = 0
        if not self.options.attract or not self._cloth_collides(state):
            return None
        analysis = self.analyser.analyse_in_place(state.x)
        if analysis is not None:
            self.crossings, self.paths = analysis.crossings, len(analysis)
        return analysis

    def _add_springs(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Lock stretched edges, repel near cloth, attract cloth that has passed through; gives how many pairs repel."""
        springs = self.dynamics.step_springs
        springs.clear()
        self.locking.lock(state.x, state.v, dt, springs, spared=self._spared)
        contacts = 0
        if self._cloth_collides(state):
            contacts = self.cloth_contact.repel(state.x, state.v, dt, analysis, springs)
            if analysis is not None:
                number, gap = round(state.time / dt), self.world.largest_thickness
                attract(self.analyser, analysis, springs, dt, number=number, pinched=self.pinched_vertices, gap=gap)
        springs.close()
        return contacts

    def _correct(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Shorten edges and stop collisions, in turns, since each undoes some of the other; gives how many collisions were
        found."""
        total = 0
        for turn in range(CORRECTION_TURNS):
            clipped = self._clip(dt)
            if turn > 0 and clipped == 0:
                break
            found = self._stop(state, dt, analysis)
            total += found
            if found == 0:
                break
        return total

    def _clip(self, dt: float) -> int:
        """Shorten edges that are stretched too far, except at tangled and pinched vertices; gives how many."""
        inputs = [self.world.inverse_mass, self._spared, self._held]
        launch(mark_held, len(self._held), inputs, device=self.world.device)
        return self.locking.clip(self.x_end, self.v_end, dt, held=self._held)

    def _spare(self, analysis: Analysis | None) -> None:
        """Mark the vertices whose edges do not lock: tangled ones must be able to come free, pinched ones are torn along."""
        rings = self.cloth_contact.rings
        tangled = np.zeros(0, np.int32) if analysis is None else analysis.crossing_vertices()
        rings.mark(tangled, 1, self._spared)
        rings.add(self.pinched_vertices, self._spared)

    def _stop(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Stop collisions of cloth that is not tangled; gives how many were found."""
        if not self._cloth_collides(state):
            return 0
        owner, allowed = self.dynamics.constraints.owner, AllowedCrossings(analysis, self.world.cloth_vertex_count)
        return self.collisions.stop(state.x, dt, owner, allowed, self.x_end, self.v_end)[0]

    def _cloth_collides(self, state: State) -> bool:
        """Whether cloth interacts with cloth yet: from the time `begin` of the options on."""
        return state.time >= self.options.begin - TIME_SLACK

    def hold_pinched(self, state: State) -> None:
        """Find the pinched vertices, and hold them in the step that follows."""
        self.surfaces.find(state.x, state.v, reach=self.options.depth)
        points = self.pinches.find(state.x)
        self.pinched_vertices = points.vertices
        self.flypaper.take(points)
        self.solid_contact.pinch(points.vertices)

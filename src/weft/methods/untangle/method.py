"""`untangle`: Baraff, Witkin and Kass 2003. Implicit cloth that recovers from tangles, and pinches without flutter.

A step: the cloth is analysed as it is, without any memory. What is near and has not passed through is pushed apart,
what has passed through is pulled back. Vertices between surfaces that face each other go where those carry them, others
stay out of solids. Then one implicit solve moves everything. It promises no freedom from intersections: it promises
that they go away as soon as what surrounds the cloth lets them.
"""

from typing import Any

import numpy as np
import warp as wp

from weft.analysis.analyser import Analyser, Analysis
from weft.dynamics.implicit.model import Implicit
from weft.methods.base import Method, StepReport
from weft.methods.untangle.cloth_collisions import ClothCollisions, Spared
from weft.methods.untangle.cloth_contact import ClothContact
from weft.methods.untangle.flypaper import Flypaper
from weft.methods.untangle.locking import Locking
from weft.methods.untangle.pinching import PinchFinder
from weft.methods.untangle.pulling import crossing_vertices, pull
from weft.methods.untangle.solid_contact import SolidContact
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.methods.untangle.unfolding import Unfolding
from weft.runtime import launch
from weft.scene import Untangle as UntangleOptions
from weft.world import State, World
from weft.world.constraints import ConstraintSource
from weft.world.kinematics import TIME_SLACK

wp.set_module_options({"enable_backward": False})

# the longest step that is taken by default, s
LONGEST = 1.0 / 60.0
# how often edges are shortened and collisions stopped in a step, at most
TURNS = 3


@wp.kernel
def mark_held(first: int, inverse_mass: wp.array[wp.float64], spared: wp.array[wp.int8], held: wp.array[wp.int8]):
    """Mark what is spared, and what no force moves."""
    i = first + wp.tid()
    held[i] = spared[i]
    if inverse_mass[i] == wp.float64(0.0):
        held[i] = wp.int8(1)


class Untangle(Method):
    """Global intersection analysis, attraction and repulsion, hard contact with solids and flypapering."""

    name = "untangle"

    def __init__(self, world: World, options: UntangleOptions) -> None:
        super().__init__(world, options)
        self.options: UntangleOptions = options
        self.dynamics = Implicit.from_world(world)
        self.locking = Locking(world)
        areas = world.mass[: world.cloth_vertex_count]
        lengths = np.concatenate([np.zeros(0), *(part.mesh.rest_lengths for part in world.cloths)])
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
        )
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self._steps = options.steps or max(1, int(np.ceil(1.0 / (world.scene.fps * LONGEST) - 1e-9)))
        # what the last step found, for the report
        self.crossings = self.paths = self.iterations = 0
        self.pinched_vertices = np.zeros(0, np.int32)

    def steps_a_frame(self) -> int:
        return self._steps

    def advance_frame(self, state: State) -> dict[str, Any]:
        self.iterations = 0
        row = super().advance_frame(state)
        found = {"crossings": self.crossings, "paths": self.paths, "pinched": len(self.pinched_vertices)}
        return {**row, **found, "iterations": self.iterations}

    def step(self, state: State, dt: float) -> StepReport:
        world = self.world
        world.begin_step(state, dt)
        if self.options.pinch:
            self.hold_pinched(state)
        analysis = self._analyse(state)
        self._mark(analysis)
        contacts = self._link(state, dt, analysis)
        restraints: list[ConstraintSource] = [self.solid_contact, self.flypaper]
        self.dynamics.propose(state, world.target, dt, self.x_end, self.v_end, restraints=restraints)
        world.carry_colliders(state, dt, self.x_end, self.v_end)
        if analysis is not None:
            self.unfolding.flatten(self.x_end, self.v_end, analysis, held=self.pinched_vertices)
        found = self._clip_and_stop(state, dt, analysis)
        state.take(self.x_end, self.v_end)
        self.iterations += sum(solution.iterations for solution in self.dynamics.solutions)
        return StepReport(
            contacts=contacts + self.solid_contact.closed, collisions=found, problems=list(self.dynamics.problems)
        )

    def saved(self) -> dict[str, np.ndarray]:
        return self.solid_contact.saved()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.solid_contact.restore(saved)

    def _analyse(self, state: State) -> Analysis | None:
        """Where the cloth passes through itself; None where it does not, or nobody wants to know."""
        self.crossings = self.paths = 0
        if not self.options.attract or not self._meets_itself(state):
            return None
        analysis = self.analyser.analyse_in_place(state.x)
        if analysis is not None:
            self.crossings, self.paths = analysis.crossings, len(analysis)
        return analysis

    def _link(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Push apart what is near, pull back what has passed through; gives how many pairs are near."""
        links = self.dynamics.step_springs
        links.clear()
        self.locking.lock(state.x, state.v, dt, links, spared=self._spared)
        contacts = 0
        if self._meets_itself(state):
            contacts = self.cloth_contact.link(state.x, state.v, dt, analysis, links)
            if analysis is not None:
                number, gap = round(state.time / dt), self.world.largest_thickness
                pull(self.analyser, analysis, links, dt, number=number, pinched=self.pinched_vertices, gap=gap)
        links.close()
        return contacts

    def _clip_and_stop(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Shorten what is too long and stop what would pass through, in turns, since what is stopped may be pulled out
        by it; gives how many collisions were found."""
        total = 0
        for turn in range(TURNS):
            clipped = self._clip(dt)
            if turn > 0 and clipped == 0:
                break
            found = self._stop(state, dt, analysis)
            total += found
            if found == 0:
                break
        return total

    def _clip(self, dt: float) -> int:
        """Shorten edges that are stretched too far, but for those that are tangled or pinched; gives how many."""
        inputs = [self.world.inverse_mass, self._spared, self._held]
        launch(mark_held, len(self._held), inputs, device=self.world.device)
        return self.locking.clip(self.x_end, self.v_end, dt, held=self._held)

    def _mark(self, analysis: Analysis | None) -> None:
        """Where nothing locks: what is tangled must be able to come free, what is pinched stretches in any case."""
        rings = self.cloth_contact.rings
        tangled = np.zeros(0, np.int32) if analysis is None else crossing_vertices(analysis)
        rings.mark(tangled, 1, self._spared)
        rings.add(self.pinched_vertices, self._spared)

    def _stop(self, state: State, dt: float, analysis: Analysis | None) -> int:
        """Stop what is not tangled and would pass through; gives how many collisions were found."""
        if not self._meets_itself(state):
            return 0
        owner, spared = self.dynamics.constraints.owner, Spared(analysis, self.world.cloth_vertex_count)
        return self.collisions.stop(state.x, dt, owner, spared, self.x_end, self.v_end)[0]

    def _meets_itself(self, state: State) -> bool:
        """Whether cloth takes notice of cloth yet."""
        return state.time >= self.options.begin - TIME_SLACK

    def hold_pinched(self, state: State) -> None:
        """Find what is pinched, and hold it in the step that follows."""
        self.surfaces.find(state.x, state.v, reach=self.options.depth)
        points = self.pinches.find(state.x)
        self.pinched_vertices = points.vertices
        self.flypaper.take(points)
        self.solid_contact.pinch(points.vertices)

"""`boxes`: Liu, Ko and Chang 1998. The boxes of triangles do not overlap, so neither do the triangles.

A step is a few runs of two phases. Response: solve the elastic surface within the limits known so far. Detection: find
boxes that touch on the way to that solution, and put a plane between each pair, which narrows the limits. When no boxes touch
any more, the step is taken.
"""

from itertools import count
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import EXACT_BROAD_PHASES, BroadPhase, make_broad_phase
from weft.contact.contact import ContactSearch
from weft.contact.step_search import TOUCHING, length_scale, move_off
from weft.geometry.stencil import Kind
from weft.methods.base import Method, StepReport, choose_search
from weft.methods.boxes.box_tree import BoxTree
from weft.methods.boxes.elastic_surface import ElasticSurface
from weft.methods.boxes.limits import CollisionPlanes, HeldTriangles, Intersecting, PlaneFriction, Touching, near_pairs
from weft.scene import Boxes as BoxesOptions
from weft.world import State, World


class Boxes(Method):
    """Grids of elastic surface whose triangles keep out of each other's boxes, and out of those of colliders."""

    name = "boxes"

    def __init__(self, world: World, options: BoxesOptions) -> None:
        super().__init__(world, options)
        self.steps, self.runs = options.steps, options.runs
        self.avoids_boxes = options.avoid == "boxes"
        self.surface = ElasticSurface.from_world(world)
        self.search = self._make_search(options.search)
        self.planes = CollisionPlanes.from_world(world)
        self.friction = PlaneFriction.from_world(world)
        self.triangles = HeldTriangles(world.surface, world.cloth_face_count)
        pairs = near_pairs(world.surface, world.cloth_face_count)
        self.near = wp.array(pairs, dtype=wp.vec2i, device=world.device)
        """pairs of neighbouring triangles, which have no plane"""
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self.counts: list[int] = []
        """runs of each step of the frame"""
        self.held = 0
        """vertices held in the steps of the frame, since their triangles would have intersected a neighbour"""

    def step(self, state: State, dt: float) -> StepReport:
        world, report = self.world, StepReport()
        world.begin_step(state, dt)
        self.surface.assemble(state, dt)
        self.planes.reset()
        self.triangles.reset()
        for run in count(1):
            # response: solve within the limits of the planes so far
            self._set_limits(state)
            solved = self.surface.solve()
            if not solved.converged:
                report.problems.append(f"Gauss-Seidel was stopped after {solved.sweeps} sweeps")
            self.surface.write(state, dt, self.x_end, self.v_end)
            world.carry_colliders(state, dt, self.x_end, self.v_end)

            # detection: planes between boxes that touch on the way; after `runs` all planes go to where the step started
            still = run >= self.runs
            if run == self.runs:
                self.planes.reset()
            touching = self.detect(state, still=still)
            report.collisions += touching.pairs
            if touching.pairs == 0 or (still and touching.new == 0):
                intersecting = self._hold_intersecting()
                if not intersecting.new:
                    break
        if touching.pairs:
            report.problems.append(f"{touching.pairs} pairs of boxes overlap: pins or colliders press cloth together")
        if intersecting.some:
            report.problems.append("neighbouring triangles pass through each other though their vertices are held")
        report.contacts = self.planes.count
        self.counts.append(run)
        self.held += self.triangles.count
        # the reactions of colliders are the friction of the next step
        self.friction.update(self.planes, self.surface.limits, self.surface.r, self.surface.reactions())
        state.take(self.x_end, self.v_end)
        return report

    def detect(self, state: State, *, still: bool) -> Touching:
        """Put a plane between each pair of boxes that touch on the way to the end of the step."""
        self.pairs = self.find_boxes(state)
        limits, hard_only = self.surface.limits, not self.avoids_boxes
        return self.planes.update(self.pairs, state.x, self.x_end, limits, still=still, hard_only=hard_only)

    def find_boxes(self, state: State) -> wp.array:
        """Pairs of triangles without a common vertex whose boxes overlap as they sweep through the step."""
        self.search.update(state.x, self.x_end, self.world.largest_thickness)
        return self.search.triangle_pairs()

    def _set_limits(self, state: State) -> None:
        """The intervals in which vertices may end: by friction, planes, held triangles and pins."""
        world, limits = self.world, self.surface.limits
        self.surface.free(state.x)
        self.friction.write(state.x, world.target, limits, moving=world.kinematics.moving)
        self.planes.write(limits)
        self.triangles.write(state.x, limits)
        self.surface.hold_pins(world.target)

    def _hold_intersecting(self) -> Intersecting:
        """Hold the vertices of triangles that intersect at the end of the step and have no plane."""
        lists = [self.near] if self.avoids_boxes else [self.near, self.pairs]
        return self.triangles.find(self.x_end, *lists)

    def begin(self, state: State) -> int:
        within = TOUCHING * length_scale(self.world.finest_length)
        search = ContactSearch(make_broad_phase("bvh", self.world.surface), within)

        def find(x: wp.array) -> tuple[np.ndarray, np.ndarray]:
            found = search.find(x)
            weights = found.weights.numpy()
            # an edge that touches with its end touches as a vertex-triangle pair as well
            whole = (found.kind.numpy() == Kind.POINT_TRIANGLE) | (weights != 0.0).all(axis=1)
            return found.vertices.numpy()[whole], weights[whole]

        return move_off(self.world, state, find)

    def steps_a_frame(self) -> int:
        return self.steps

    def begin_frame(self) -> None:
        self.counts, self.held = [], 0

    def frame_columns(self) -> dict[str, Any]:
        return {"runs": sum(self.counts), "most_runs": max(self.counts, default=0), "held": self.held}

    def saved(self) -> dict[str, np.ndarray]:
        return self.friction.saved()

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.friction.restore(saved)

    def _make_search(self, search: str | None) -> BoxTree | BroadPhase:
        """What finds overlapping boxes; the paper's tree has a lean form of its own on the CPU."""
        world = self.world
        on_cpu = world.device.is_cpu
        name = choose_search(world, self.name, search, EXACT_BROAD_PHASES, "material_tree" if on_cpu else "bvh")
        material = world.rest_shape.numpy()
        if name == "material_tree" and on_cpu:
            return BoxTree(world.surface, material)
        return make_broad_phase(name, world.surface, material=material)

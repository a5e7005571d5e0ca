"""`boxes`: Liu, Ko and Chang 1998. The boxes of triangles do not overlap, so neither do the triangles.

A step is a few runs of two phases. Response: solve the elastic surface within the limits known so far. Detection: find
boxes that touch on the way to that solution, and put a plane between each pair, which narrows the limits; a triangle of a
collider is kept out by a plane of any direction. When nothing touches any more, the step is taken.
"""

from itertools import count
from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.interface import BROAD_PHASES, BroadPhase, make_broad_phase
from weft.contact.contact import ContactSearch
from weft.contact.step_search import length_scale
from weft.contact.touching import TOUCHING, move_off
from weft.geometry.stencil import Kind
from weft.methods.base import Method, StepReport, choose_search
from weft.methods.boxes.collider_planes import ColliderPlanes
from weft.methods.boxes.elastic_surface import ElasticSurface
from weft.methods.boxes.limits import CollisionPlanes, HeldTriangles, Intersecting, Touching, near_pairs
from weft.scene import Boxes as BoxesOptions
from weft.world import State, World


class Boxes(Method):
    """Grids of elastic surface whose triangles keep out of each other's boxes, and off the triangles of colliders."""

    name = "boxes"

    def __init__(self, world: World, options: BoxesOptions) -> None:
        super().__init__(world, options)
        self.steps, self.runs = options.steps, options.runs
        self.avoids_boxes = options.avoid == "boxes"
        self.surface = ElasticSurface.from_world(world)
        self.search = self._make_search(options.search)
        self.planes = CollisionPlanes.from_world(world)
        self.collider_planes = ColliderPlanes(world)
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
        self._forget_planes()
        self.triangles.reset()
        for run in count(1):
            # response: solve within the limits of the planes so far
            self._set_limits(state)
            solved = self.surface.solve()
            if not solved.converged:
                report.problems.append(f"Gauss-Seidel was stopped after {solved.sweeps} sweeps")
            self.surface.write(state, dt, self.x_end, self.v_end)
            world.carry_colliders(state, dt, self.x_end, self.v_end)

            # detection: planes between what touches on the way; after `runs` all planes go to where the step started
            still = run >= self.runs
            if run == self.runs:
                self._forget_planes()
            touching = self.detect(state, still=still)
            report.collisions += touching.pairs
            if touching.pairs == 0 or (still and touching.new == 0):
                intersecting = self._hold_intersecting()
                if not intersecting.new:
                    break
        if touching.pairs:
            overlap = "pair of triangles overlaps" if touching.pairs == 1 else "pairs of triangles overlap"
            report.problems.append(f"{touching.pairs} {overlap}: pins or colliders press cloth together")
        if intersecting.some:
            report.problems.append("neighbouring triangles pass through each other though their vertices are held")
        report.contacts = self.planes.count + self.collider_planes.count
        self.counts.append(run)
        self.held += self.triangles.count
        state.take(self.x_end, self.v_end)
        return report

    def detect(self, state: State, *, still: bool) -> Touching:
        """Put a plane between all that touches on the way to the end of the step."""
        self.pairs = self.find_boxes(state)
        touching = self.collider_planes.update(self.pairs, state.x, self.x_end, still=still)
        if not self.avoids_boxes:
            return touching
        limits, rests = self.surface.limits, self.surface.rests
        of_cloth = self.planes.update(self.pairs, state.x, self.x_end, limits, rests, still=still)
        return Touching(touching.pairs + of_cloth.pairs, touching.new + of_cloth.new)

    def find_boxes(self, state: State) -> wp.array:
        """Pairs of triangles without a common vertex whose boxes overlap as they sweep through the step."""
        self.search.update(state.x, self.x_end, self.world.largest_thickness)
        return self.search.triangle_pairs()

    def _forget_planes(self) -> None:
        self.planes.reset()
        self.collider_planes.reset()

    def _set_limits(self, state: State) -> None:
        """Where vertices may end: by planes, held triangles and pins."""
        self.surface.free()
        if self.collider_planes.count:
            self.surface.spaces = self.collider_planes.half_spaces()
        self.planes.write(self.surface.limits)
        self.triangles.write(state.x, self.surface.spaces, self.surface.limits)
        self.surface.hold_pins(self.world.target)

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

    def _make_search(self, search: str | None) -> BroadPhase:
        """What finds overlapping boxes: the paper's tree on the CPU, Warp's hierarchy on a GPU, unless another is chosen."""
        world = self.world
        usual = "material_tree" if world.device.is_cpu else "bvh"
        name = choose_search(world, self.name, search, BROAD_PHASES, usual)
        return make_broad_phase(name, world.surface, material=world.rest_shape.numpy())

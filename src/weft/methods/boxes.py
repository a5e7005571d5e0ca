"""`boxes`: Liu, Ko and Chang 1998. The boxes of triangles do not overlap, so neither do the triangles.

A step is some runs of two phases. Response: solve the elastic surface with the limits known so far. Detection: look
for boxes that meet on the way there, and add a plane for each pair. When none meet any more, the step is taken.
"""

from itertools import count

import numpy as np
import warp as wp

from weft.detection.broad_phase import BroadPhase, make_broad_phase
from weft.dynamics.elastic_surface import ElasticSurface, Limits
from weft.methods.base import Method, StepReport
from weft.response.bounding_planes import CollisionPlanes, Met
from weft.response.box_tree import BoxTree
from weft.response.held_triangles import IntersectingTriangles, near_pairs
from weft.scene import Boxes as BoxesOptions
from weft.world import State, World


class Boxes(Method):
    """Grids of elastic surface that keep out of each other's boxes, and out of those of colliders."""

    name = "boxes"

    def __init__(self, world: World, options: BoxesOptions) -> None:
        super().__init__(world, options)
        self.steps, self.runs = options.steps, options.runs
        self.avoids_boxes = options.avoid == "boxes"
        self.surface = ElasticSurface.from_world(world)
        self.search = _make_search(options.search, world)
        self.planes = CollisionPlanes.from_world(world)
        self.triangles = IntersectingTriangles(world.surface)
        pairs = near_pairs(world.surface, world.cloth_face_count)
        self.near = wp.array(pairs, dtype=wp.vec2i, device=world.device)
        self.grip = np.zeros((3, world.cloth_vertex_count))
        """the largest friction on each coordinate, N"""
        self.carrier = np.full(world.cloth_vertex_count, -1)
        """the collider's triangle that each vertex rubs on; -1: none"""
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self.counts: list[int] = []
        """runs of each step of the frame"""
        self.held = 0
        """vertices that were held in steps of the frame, since neighbouring triangles would have passed through"""

    def steps_a_frame(self) -> int:
        return self.steps

    def advance_frame(self, state: State) -> dict:
        self.counts, self.held = [], 0
        row = super().advance_frame(state)
        return {**row, "runs": sum(self.counts), "most_runs": max(self.counts), "held": self.held}

    def step(self, state: State, dt: float) -> StepReport:
        world, report = self.world, StepReport()
        world.begin_step(state, dt)
        self.surface.assemble(state, dt)
        self.planes.reset()
        held = np.zeros(0, np.int64)
        for run in count(1):
            # response
            limits = self._limits(state, held)
            solved = self.surface.solve(limits)
            if not solved.converged:
                report.problems.append(f"Gauss-Seidel was stopped after {solved.sweeps} sweeps")
            self.surface.write(state, dt, self.x_end, self.v_end)
            world.carry_colliders(state, dt, self.x_end, self.v_end)

            # detection
            still = run >= self.runs
            if run == self.runs:
                self.planes.reset()
            met = self.detect(state, still=still)
            report.collisions += met.pairs
            if met.pairs == 0 or (still and met.new == 0):
                passing = self._find_passing()
                if np.isin(passing, held).all():
                    break
                held = np.union1d(held, passing)
        if met.pairs:
            report.problems.append(f"{met.pairs} pairs of boxes overlap: pins or colliders press cloth together")
        if len(passing):
            report.problems.append("neighbouring triangles pass through each other though their vertices are held")
        report.contacts = len(self.planes.planes.keys)
        self.counts.append(run)
        self.held += len(held)
        self._rub(limits)
        state.take(self.x_end, self.v_end)
        return report

    def detect(self, state: State, *, still: bool) -> Met:
        """Find pairs of boxes that meet on the way to the end of the step; each gets a plane."""
        self.pairs = self.find_boxes(state)
        if not self.avoids_boxes:
            # planes for colliders only; the smaller index of a pair comes first and colliders come last
            self.pairs, hard = self._split(self.pairs)
            return self.planes.update(hard, state.x, self.x_end, *self.surface.limits, still=still)
        return self.planes.update(self.pairs, state.x, self.x_end, *self.surface.limits, still=still)

    def find_boxes(self, state: State) -> wp.array:
        """Pairs of triangles without a common vertex whose boxes overlap as they sweep through the step."""
        self.search.update(state.x, self.x_end, self.world.largest_thickness)
        return self.search.triangle_pairs()

    def saved(self) -> dict[str, np.ndarray]:
        return {"grip": self.grip, "carrier": self.carrier}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.grip, self.carrier = np.array(saved["grip"]), np.array(saved["carrier"])

    def _limits(self, state: State, held: np.ndarray) -> Limits:
        """Where vertices may end: planes, then held triangles, then pins."""
        world, cloth = self.world, self.world.cloth_vertex_count
        limits = Limits.free(cloth)
        start = state.x.numpy()[:cloth]
        limits.anchor[:] = start.T
        limits.grip[:] = self.grip
        rubs = np.flatnonzero(self.carrier >= 0)
        if len(rubs) and world.kinematics.moving:
            corners = world.faces[self.carrier[rubs]]
            limits.anchor[:, rubs] += (world.target.numpy()[corners] - state.x.numpy()[corners]).mean(axis=1).T
        self.planes.write(limits)
        limits.hold(held, start[held])
        pinned = np.flatnonzero(world.inverse_mass.numpy()[:cloth] == 0.0)
        limits.hold(pinned, world.target.numpy()[pinned])
        return limits

    def _find_passing(self) -> np.ndarray:
        """The vertices of triangles that pass through each other at the end of the step and have no plane."""
        pairs = self.find_intersecting(self.near)
        if not self.avoids_boxes:
            pairs = np.concatenate([pairs, self.find_intersecting(self.pairs)])
        return np.unique(self.planes.faces[pairs.ravel()]).astype(np.int64)

    def find_intersecting(self, pairs: wp.array) -> np.ndarray:
        """Those of some pairs of triangles that intersect at the end of the step."""
        return self.triangles.find(pairs, self.x_end)

    def _split(self, pairs: wp.array) -> tuple[wp.array, wp.array]:
        """Pairs of cloth with cloth, and of cloth with colliders."""
        rows = pairs.numpy().reshape(-1, 2)
        hard = rows[:, 1] >= self.world.cloth_face_count
        soft, solid = (wp.array(rows[k], dtype=wp.vec2i, device=self.world.device) for k in (~hard, hard))
        return soft, solid

    def _rub(self, limits: Limits) -> None:
        """How hard colliders press, for friction in the next step."""
        self.grip[:] = 0.0
        self.carrier[:] = -1
        vertices, axis, mu, triangles = self.planes.rubbing(limits, self.surface.r.numpy())
        self.carrier[vertices] = triangles
        if len(vertices):
            force = mu * np.abs(self.surface.reactions()[axis, vertices])
            for other in (1, 2):
                np.maximum.at(self.grip, ((axis + other) % 3, vertices), force)


def _make_search(name: str, world: World) -> BoxTree | BroadPhase:
    """What finds boxes that overlap: the paper's tree in its lean form, which a card has no use for."""
    if name == "material_tree":
        if world.device.is_cpu:
            return BoxTree(world.surface, world.rest_shape.numpy())
        name = "bvh"
    return make_broad_phase(name, world.surface)

"""Cloth that is not tangled does not pass through cloth: what would collide in an implicit step is stopped.

Pushing apart what is near is a force among others, and gives way where cloth is gathered or pressed. So the end of the
step is looked at once more: pairs that would cross on the way there get impulses (Bridson et al. 2002, section 7.3), a few
rounds of them. What has passed through already must be able to come back: pairs beside a path, and those that the colours
of the analysis attract or leave alone, may cross. No promise is made: what is left after the last round crosses, and is
untangled like everything else.
"""

import math
from typing import Any

import numpy as np
import warp as wp
from scipy import sparse

from weft.analysis.analyser import Analysis
from weft.contact.impulses import ContactList, ImpulseSolver
from weft.contact.repulsion import set_repulsion
from weft.contact.step_search import StepSearch
from weft.methods.base import exact_broad_phase
from weft.methods.untangle.cloth_contact import stitched
from weft.methods.untangle.pulling import crossing_vertices
from weft.runtime import launch
from weft.world import Surface, World
from weft.world.constraints import FLYPAPER, PRESCRIBED

wp.set_module_options({"enable_backward": False})

# rounds of impulses, and sweeps over them in each
ROUNDS = 12
SWEEPS = 10
# pairs of one cloth that are nearer along it than this many edges do not rub
FOLD = 3.0


@wp.kernel
def weigh(
    first: int,
    owner: wp.array[int],
    inverse_mass: wp.array[wp.float64],
    weighed: wp.array[wp.float64],
):
    """How easily a vertex is moved by impulses."""
    i = first + wp.tid()
    if owner[i] == PRESCRIBED or owner[i] == FLYPAPER:
        weighed[i] = wp.float64(0.0)
    else:
        weighed[i] = inverse_mass[i]


@wp.kernel
def take_average(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    dt: wp.float64,
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
):
    """The velocity that leads from x to the end in a step, and a copy of it; where it leads."""
    i = first + wp.tid()
    v[i] = (end[i] - x[i]) / dt
    free[i] = v[i]
    reached[i] = end[i]


@wp.kernel
def move_changed(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    dt: wp.float64,
    end: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
):
    """Where the velocity leads in a step; exactly to the end where no impulse has changed it."""
    i = first + wp.tid()
    if v[i] == free[i]:
        reached[i] = end[i]
    else:
        reached[i] = x[i] + dt * v[i]


@wp.kernel
def give_changes(
    first: int,
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """The velocity at the end changes as much as impulses changed the average velocity."""
    i = first + wp.tid()
    x_end[i] = reached[i]
    v_end[i] = v_end[i] + (v[i] - free[i])


class ClothCollisions:
    """Stops what would pass through; buffers are kept between steps."""

    def __init__(self, world: World, surface: Surface) -> None:
        """`surface`: that of all cloths."""
        device = self.device = world.device
        self.world = world
        count = self.count = world.cloth_vertex_count
        broad_phase = exact_broad_phase(world, surface, "untangle")
        thickness = world.thickness, world.rest_shape, world.largest_thickness
        self.search = StepSearch(broad_phase, *thickness, finest_length=world.finest_length)
        self._inverse_mass = wp.zeros(count, dtype=wp.float64, device=device)
        self._rows = ContactList(device)
        self._solver = ImpulseSolver(count, self._inverse_mass)
        lengths = [float(np.median(part.mesh.rest_lengths)) for part in world.cloths]
        self._folds = wp.array(FOLD * np.array(lengths), dtype=wp.float64, device=device)
        self._x, self._v, self._free, self._reached = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(4))
        self._sewn = stitched(world)

    def stop(
        self, x: wp.array, dt: float, owner: wp.array, spared: "Spared", x_end: wp.array, v_end: wp.array
    ) -> tuple[int, int]:
        """Change the end of a step that starts at x; gives how many collisions were found, and how many were left."""
        world, rows, search = self.world, self._rows, self.search
        wp.copy(self._x, x, count=self.count)
        inputs: list[Any] = [owner, world.inverse_mass, self._inverse_mass]
        self._run(weigh, inputs)
        self._run(take_average, [self._x, x_end, dt, self._v, self._free, self._reached])
        rows.clear()
        search.list_candidates(self._x, self._reached)
        total = found = 0
        for _ in range(ROUNDS):
            known = rows.count
            search.find_collisions(self._x, self._reached, rows)
            found = self._keep(known, spared)
            total += found
            if found == 0:
                break
            self._set_up(known, dt)
            self._solver.colour_appended(rows)
            self._solver.sweep(rows, self._v, SWEEPS)
            self._run(move_changed, [self._x, self._v, self._free, dt, x_end, self._reached])
        if total:
            self._run(give_changes, [self._v, self._free, self._reached, x_end, v_end])
        return total, found

    def _keep(self, known: int, spared: "Spared") -> int:
        """Of the rows from `known` on, keep those of pairs that may not cross; gives how many."""
        rows = self._rows
        stop = rows.count
        if stop == known:
            return 0
        vertices, weights = rows.vertices[known:stop].numpy(), rows.weights[known:stop].numpy()
        kept = ~(spared.rows(vertices, weights) | joined(self._sewn, vertices, weights))
        count = int(np.count_nonzero(kept))
        for array in rows.geometry if count else ():
            array[known : known + count].assign(array[known:stop].numpy()[kept])
        rows.count = known + count
        return count

    def _set_up(self, known: int, dt: float) -> None:
        """What the rows from `known` on ask of the velocities."""
        world, rows = self.world, self._rows
        tables = [self._inverse_mass, world.surface.vertex_body, world.friction_static, world.friction_kinetic]
        tables += [world.rest_shape, self._folds]
        inputs = [known, rows.size, rows.vertices, rows.weights, rows.gaps, rows.thickness, *tables, 1.0, math.inf, dt]
        launch(set_repulsion, rows.count - known, [*inputs, *rows.impulses, rows.kept_distances], device=self.device)

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        launch(kernel, self.count, inputs, device=self.device)


class Spared:
    """Which pairs may cross: those beside a path, and those whose sides its colours do not push apart."""

    def __init__(self, analysis: Analysis | None, count: int) -> None:
        """Of `count` vertices."""
        # only what crosses itself: with the ring around it, a fold would cross anew beside where it comes free
        self._tangled = np.zeros(0, np.int32)
        self._regions = self._partners = None
        if analysis is not None and len(analysis):
            self._tangled = crossing_vertices(analysis)
            colours = analysis.colours
            shape = (count, 2 * len(analysis))
            self._regions = sparse.csr_array((np.ones(len(colours.items)), colours.items, colours.offsets), shape=shape)
            # a region passes through its partner, a red one through itself as well
            region = np.arange(shape[1])
            red = region[analysis.single[region // 2]]
            pairs = np.concatenate([np.column_stack([region, region ^ 1]), np.column_stack([red, red])])
            through = sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(shape[1], shape[1]))
            self._partners = sparse.csr_array(self._regions @ through.tocsr())

    def rows(self, vertices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(k,) which of some stencils are of pairs that may cross."""
        spared = np.asarray(np.isin(vertices, self._tangled).any(axis=1))
        if self._regions is not None and self._partners is not None:
            for one, other in sides(vertices, weights):
                spared |= np.asarray(self._regions[one].multiply(self._partners[other]).sum(axis=1)).ravel() > 0.0
        return spared


def sides(vertices: np.ndarray, weights: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of columns that hold every vertex of one side of a stencil with every one of the other side."""
    # a point and a triangle, or two edges: the second vertex is on the side of the first where its weight is positive
    edge = weights[:, 1] > 0.0
    second = np.where(edge, vertices[:, 1], vertices[:, 0])
    far = np.where(edge, vertices[:, 2], vertices[:, 1])
    firsts, others = (vertices[:, 0], second), (far, vertices[:, 2], vertices[:, 3])
    return [(one, other) for one in firsts for other in others]


def joined(relation: sparse.csr_array, vertices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(k,) whether the relation has an entry for some vertex of one side of a stencil and some of the other."""
    found = np.zeros(len(vertices), bool)
    if relation.nnz:
        for one, other in sides(vertices, weights):
            found |= np.asarray(relation[one, other]).ravel() > 0.0
    return found

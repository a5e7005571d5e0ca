"""Corrections of cloth after the implicit solve of a step: collisions are stopped, folds that cross themselves are flattened.

**Collisions.** Repulsion is one force among others and fails where cloth is gathered or pressed. So the end of the step is
tested once more: pairs that would cross during the step get impulses (Bridson et al. 2002, section 7.3), in a few rounds. Cloth
that has passed through already must be able to return: pairs at a path, and pairs that the colours of the analysis attract or
leave alone, may cross. There is no guarantee: what is left after the last round crosses, and is untangled like any tangle.

**Folds.** A fold a few triangles wide, above all at a seam or a border, has no inside to pull back, and its path is too short
to tell a direction. The vertices of what crosses move a fraction of the way to the mean of their neighbours, and their
velocities likewise; the static untangler (`weft.untangling`) smooths such places too.
"""

from typing import Any

import numpy as np
import warp as wp
from scipy import sparse

from weft.analysis.analyser import Analysis
from weft.analysis.colour import DIVIDES
from weft.contact.friction import contact_tables, set_repulsion
from weft.contact.impulses import ImpulseSolver
from weft.contact.lists import ContactList
from weft.contact.step_search import StepSearch
from weft.mesh.topology import make_csr
from weft.methods.base import exact_broad_phase
from weft.methods.untangle.attraction import SMALL_FOLD
from weft.methods.untangle.cloth_contact import stitched
from weft.runtime import launch
from weft.runtime.buffers import Buffer
from weft.world import Surface, World
from weft.world.constraints import FLYPAPER, PRESCRIBED

wp.set_module_options({"enable_backward": False})

# rounds of detection and impulses in a step: cloth that is gathered needs several, most steps one
COLLISION_ROUNDS = 12
# Gauss-Seidel sweeps over the impulses in each round
IMPULSE_SWEEPS = 10
# edge lengths; pairs of one cloth that are nearer to each other at rest have no friction, or folds would lock
FOLD_LENGTH = 3.0
# fraction of the way to the mean of its neighbours that a crossing vertex moves in a step
FLATTENING = 0.1
# the same in small folds that enclose nothing, as at a border: shortening their path alone pulls them to and fro for ever
FOLD_FLATTENING = 0.9


@wp.kernel
def set_inverse_mass(
    first: int,
    owner: wp.array[int],
    inverse_mass: wp.array[wp.float64],
    result: wp.array[wp.float64],
):
    """The inverse mass of each vertex for impulses: 0 where its motion is prescribed or carried by flypaper."""
    i = first + wp.tid()
    if owner[i] == PRESCRIBED or owner[i] == FLYPAPER:
        result[i] = wp.float64(0.0)
    else:
        result[i] = inverse_mass[i]


@wp.kernel
def mean_velocities(
    first: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    dt: wp.float64,
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
):
    """The mean velocity of a step from x to its end, a copy of it (`free`), and the end."""
    i = first + wp.tid()
    v[i] = (end[i] - x[i]) / dt
    free[i] = v[i]
    reached[i] = end[i]


@wp.kernel
def move_by_velocities(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    dt: wp.float64,
    end: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
):
    """Positions at the end of the step with the current velocities; exactly `end` where no impulse changed them."""
    i = first + wp.tid()
    if v[i] == free[i]:
        reached[i] = end[i]
    else:
        reached[i] = x[i] + dt * v[i]


@wp.kernel
def apply_changes(
    first: int,
    v: wp.array[wp.vec3d],
    free: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
    x_end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
):
    """New end positions; the end velocities change by as much as impulses changed the mean velocities."""
    i = first + wp.tid()
    x_end[i] = reached[i]
    v_end[i] = v_end[i] + (v[i] - free[i])


class ClothCollisions:
    """Stops collisions of cloth with cloth at the end of a step."""

    def __init__(self, world: World, surface: Surface) -> None:
        """`surface`: the surface of all cloths."""
        device = self.device = world.device
        self.world = world
        count = self.count = world.cloth_vertex_count
        broad_phase = exact_broad_phase(world, surface, "untangle")
        thickness = world.thickness, world.rest_shape, world.largest_thickness
        self.search = StepSearch(broad_phase, *thickness, finest_length=world.finest_length)
        self._inverse_mass = wp.zeros(count, dtype=wp.float64, device=device)
        self._contacts = ContactList(device)
        self._solver = ImpulseSolver(count, self._inverse_mass)
        lengths = [float(np.median(cloth.mesh.rest_lengths)) for cloth in world.cloths]
        folds, rigid = (
            wp.array(values, dtype=wp.float64, device=device)
            for values in (FOLD_LENGTH * np.array(lengths), np.full(len(lengths), np.inf))
        )
        self._tables = contact_tables(world, self._inverse_mass, folds, rigid)
        self._x, self._v, self._free, self._reached = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(4))
        self._sewn = stitched(world)

    def stop(
        self, x: wp.array, dt: float, owner: wp.array, allowed: "AllowedCrossings", x_end: wp.array, v_end: wp.array
    ) -> tuple[int, int]:
        """Change the end of a step that starts at x so that pairs do not cross, except those that are allowed to.

        Returns how many collisions were found in all rounds, and how many in the last one, which may be left.
        """
        world, contacts, search = self.world, self._contacts, self.search
        wp.copy(self._x, x, count=self.count)
        inputs: list[Any] = [owner, world.inverse_mass, self._inverse_mass]
        self._run(set_inverse_mass, inputs)
        self._run(mean_velocities, [self._x, x_end, dt, self._v, self._free, self._reached])
        contacts.clear()
        search.list_candidates(self._x, self._reached)
        total = found = 0
        for _ in range(COLLISION_ROUNDS):
            known = contacts.count
            search.find_collisions(self._x, self._reached, contacts)
            found = self._keep(known, allowed)
            total += found
            if found == 0:
                break
            self._set_up(known, dt)
            self._solver.colour_appended(contacts)
            self._solver.sweep(contacts, self._v, IMPULSE_SWEEPS)
            self._run(move_by_velocities, [self._x, self._v, self._free, dt, x_end, self._reached])
        if total:
            self._run(apply_changes, [self._v, self._free, self._reached, x_end, v_end])
        return total, found

    def _keep(self, known: int, allowed: "AllowedCrossings") -> int:
        """Of the contacts from number `known` on, keep those of pairs that must not cross; gives how many."""
        contacts = self._contacts
        stop = contacts.count
        if stop == known:
            return 0
        vertices, weights = contacts.vertices[known:stop].numpy(), contacts.weights[known:stop].numpy()
        kept = ~(allowed.of(vertices, weights) | related(self._sewn, vertices, weights))
        count = int(np.count_nonzero(kept))
        for array in contacts.geometry if count else ():
            array[known : known + count].assign(array[known:stop].numpy()[kept])
        contacts.count = known + count
        return count

    def _set_up(self, known: int, dt: float) -> None:
        """Set the wanted relative velocities of the contacts from number `known` on."""
        contacts = self._contacts
        inputs = [known, contacts.size, contacts.arrays, self._tables, 1.0, dt]
        launch(set_repulsion, contacts.count - known, inputs, device=self.device)

    def _run(self, kernel: wp.Kernel, inputs: list[Any]) -> None:
        launch(kernel, self.count, inputs, device=self.device)


class AllowedCrossings:
    """Which pairs may cross: those at a path, and those whose features the colours of the analysis do not push apart."""

    def __init__(self, analysis: Analysis | None, count: int) -> None:
        """`count`: number of cloth vertices."""
        # only the crossing vertices: with the ring around them, a fold would cross anew next to where it comes free
        self._tangled = np.zeros(0, np.int32)
        self._regions = self._partners = None
        if analysis is not None and len(analysis):
            self._tangled = analysis.crossing_vertices()
            colours = analysis.colours
            shape = (count, 2 * len(analysis))
            self._regions = sparse.csr_array((np.ones(len(colours.items)), colours.items, colours.offsets), shape=shape)
            # a region may pass through its partner, a red one also through itself
            region = np.arange(shape[1])
            red = region[analysis.single[region // 2]]
            pairs = np.concatenate([np.column_stack([region, region ^ 1]), np.column_stack([red, red])])
            through = sparse.coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(shape[1], shape[1]))
            self._partners = sparse.csr_array(self._regions @ through.tocsr())

    def of(self, vertices: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """(k,) which of these stencils may cross."""
        allowed = np.asarray(np.isin(vertices, self._tangled).any(axis=1))
        if self._regions is not None and self._partners is not None:
            for one, other in sides(vertices, weights):
                allowed |= np.asarray(self._regions[one].multiply(self._partners[other]).sum(axis=1)).ravel() > 0.0
        return allowed


def sides(vertices: np.ndarray, weights: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """Pairs of columns that together combine every vertex of one feature of a stencil with every vertex of the other."""
    # a point and a triangle, or two edges: the second vertex belongs to the first feature if its weight is positive
    edge = weights[:, 1] > 0.0
    second = np.where(edge, vertices[:, 1], vertices[:, 0])
    far = np.where(edge, vertices[:, 2], vertices[:, 1])
    firsts, others = (vertices[:, 0], second), (far, vertices[:, 2], vertices[:, 3])
    return [(one, other) for one in firsts for other in others]


def related(relation: sparse.csr_array, vertices: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(k,) whether the relation has an entry for a vertex of one feature of a stencil and a vertex of the other."""
    found = np.zeros(len(vertices), bool)
    if relation.nnz:
        for one, other in sides(vertices, weights):
            found |= np.asarray(relation[one, other]).ravel() > 0.0
    return found


@wp.kernel
def flatten_chosen(
    first: int,
    chosen: wp.array[int],
    fraction: wp.float64,
    inverse_mass: wp.array[wp.float64],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    values: wp.array[wp.vec3d],
    flattened: wp.array[wp.vec3d],
):
    """Values (positions or velocities) of chosen vertices, moved by a fraction towards the mean of their neighbours."""
    k = first + wp.tid()
    i = chosen[k]
    own = values[i]
    near = offsets[i + 1] - offsets[i]
    if near > 0 and inverse_mass[i] > wp.float64(0.0):
        mean = wp.vec3d()
        for n in range(offsets[i], offsets[i + 1]):
            mean += values[neighbours[n]]
        own += fraction * (mean / wp.float64(near) - own)
    flattened[k] = own


@wp.kernel
def write_chosen(first: int, chosen: wp.array[int], flattened: wp.array[wp.vec3d], values: wp.array[wp.vec3d]):
    """Write the flattened values back."""
    k = first + wp.tid()
    values[chosen[k]] = flattened[k]


class Unfolding:
    """Flattens cloth that crosses; vertices joined by a stitch count as neighbours."""

    def __init__(self, world: World) -> None:
        self.world, self.device, count = world, world.device, world.cloth_vertex_count
        edges = [cloth.mesh.edges + cloth.first for cloth in world.cloths]
        pairs = np.concatenate([np.zeros((0, 2), np.int64), *edges, world.seams.nearest()])
        one, other = np.concatenate([pairs, pairs[:, ::-1]]).T
        near = make_csr(one, other, count, max(count, 1))
        self._near = [wp.array(a, dtype=int, device=self.device) for a in (near.offsets, near.items)]
        self._chosen, self._flattened = Buffer(int, self.device), Buffer(wp.vec3d, self.device)

    def flatten(self, x: wp.array, v: wp.array, analysis: Analysis, *, held: np.ndarray) -> None:
        """Flatten what crosses in the analysis, by changing x and v; `held` vertices stay."""
        empty = analysis.single & (analysis.status[::2] != DIVIDES)
        folds = empty & (np.diff(analysis.path_offsets) <= SMALL_FOLD)
        for paths, fraction in ((~folds, FLATTENING), (folds, FOLD_FLATTENING)):
            vertices = np.setdiff1d(analysis.crossing_vertices(paths), held)
            for values in (x, v):
                self._flatten(vertices, fraction, values)

    def _flatten(self, vertices: np.ndarray, fraction: float, values: wp.array) -> None:
        count = len(vertices)
        if count:
            chosen, flattened = self._chosen.at_least(count), self._flattened.at_least(count)
            chosen[:count].assign(vertices.astype(np.int32))
            inputs = [chosen, fraction, self.world.inverse_mass, *self._near, values, flattened]
            launch(flatten_chosen, count, inputs, device=self.device)
            launch(write_chosen, count, [chosen, flattened, values], device=self.device)

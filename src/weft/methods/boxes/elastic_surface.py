"""The elastic surface of Terzopoulos et al. 1987 on rectangular grids, stepped by one linear system for x, y and z.

The energy compares the metric tensor G of the sheet with its rest value, which is the identity in material coordinates
(metres), for stretch and shear, and takes the second derivatives of r for the curvature tensor:

    E = sum over grid edges  stretch/8 (G_ii - 1)^2 a  +  sum over cells  shear/2 G_12^2 a
      + sum over nodes and cells  bend/2 (|r_11|^2 + 2 |r_12|^2 + |r_22|^2) a

with finite differences for the derivatives and a the area that belongs to each. Where the sheet does not stretch, r_ij
is along the normal and |r_ij| is the curvature B_ij itself; away from it the vector keeps one matrix for x, y and z.

Every difference is y = sum w_k r_k over some vertices, and the energy is a function of these, so that its gradient is
sum w_k dE/dy. A step solves A r(t + dt) = g with

    A = M/dt^2 + sum c w w^T        g = M/dt^2 (r + dt v) + f + sum w (c y* - dE/dy*)

where * is the prediction and c bounds the second derivative of E along the difference from above. In 1987 c was the secant
stiffness (G - 1), which vanishes for a sheet at rest, where the step is then as short as an explicit one. With the bound,
A r - g is still the exact gradient at the prediction, and A is always positive definite.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.implicit.block_matrix import ExternalForces
from weft.errors import SceneError
from weft.methods.boxes.elastic_kernels import (
    LinearSystem,
    VertexDifferences,
    assemble,
    find_differences,
    find_right_hand_side,
    find_stress,
    gather_positions,
    predict,
)
from weft.methods.boxes.relaxation import HalfSpaces, SweepReport, find_rests, hold_pins, open_limits, relax
from weft.runtime import launch
from weft.runtime.buffers import read
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.thread_pool import MAX_HELPERS
from weft.scene import Grid, Material, Strip
from weft.world import State, World

# over-relaxation of Gauss-Seidel: 1 is the plain sweep, 2 no longer converges; this takes several times fewer sweeps than 1
RELAXATION = 1.8
# sweeps end when no coordinate moves by more than this fraction of the grid spacing
TOLERANCE = 1e-5
MOST_SWEEPS = 400
# kinds of finite differences
STRETCH, SHEAR, BEND = range(3)
# colours of the nodes of a grid: the rows of the matrix reach two nodes along a direction and one diagonally
COLOURS = 5


class Differences(NamedTuple):
    """Finite differences y = sum w_k r_k over up to four vertices (host arrays); unused corners repeat one with weight 0."""

    vertices: np.ndarray
    """(s, 4) int32"""
    weights: np.ndarray
    """(s, 4)"""
    kind: np.ndarray
    """(s,) STRETCH, SHEAR, BEND"""
    partner: np.ndarray
    """(s,) the other difference of a shear, itself for other kinds"""
    modulus: np.ndarray
    """(s,) stiffness times area"""
    delay: np.ndarray
    """(s,) damping time in s"""

    def energy(self, x: np.ndarray) -> float:
        """The elastic energy at positions x, in J."""
        y = np.einsum("sk,skd->sd", self.weights, x[self.vertices])
        square = (y * y).sum(axis=1)
        across = (y * y[self.partner]).sum(axis=1)
        # each shear is two differences, with a quarter for either
        kinds = [self.kind == STRETCH, self.kind == SHEAR]
        density = np.select(kinds, [(square - 1.0) ** 2 / 8.0, across**2 / 4.0], square / 2.0)
        return float((self.modulus * density).sum())


@dataclass(frozen=True)
class Lattice:
    """The grid of one cloth: nodes along both directions, their spacing at rest, its first vertex and material."""

    nodes: tuple[int, int]
    spacing: tuple[float, float]
    first: int
    material: Material

    def differences(self) -> Differences:
        """All finite differences of the energy on this grid."""
        n1, n2 = self.nodes
        h1, h2 = self.spacing
        area = h1 * h2
        index = (self.first + np.arange(n1 * n2)).reshape(n2, n1)
        stretch, shear, stiffness = (self.material.mean(name) for name in ("stretch", "shear", "bend"))
        blocks: list[tuple[Any, ...]] = []

        def add(kind: int, corners: list[np.ndarray], weights: list[float], modulus: Any) -> None:
            vertices = np.stack([c.ravel() for c in corners], axis=1)
            padded = np.concatenate([vertices, np.repeat(vertices[:, :1], 4 - len(corners), axis=1)], axis=1)
            row = np.array([*weights, *[0.0] * (4 - len(weights))])
            count = len(vertices)
            moduli = np.broadcast_to(modulus, corners[0].shape).ravel()
            blocks.append((padded, np.tile(row, (count, 1)), np.full(count, kind), moduli))

        # grid lines at the border stand for half a strip of cloth
        row_width, column_width = np.ones((n2, 1)), np.ones((1, n1))
        row_width[[0, -1]] = 0.5
        column_width[:, [0, -1]] = 0.5
        add(STRETCH, [index[:, :-1], index[:, 1:]], [-1 / h1, 1 / h1], stretch * area * row_width)
        add(STRETCH, [index[:-1], index[1:]], [-1 / h2, 1 / h2], stretch * area * column_width)
        if n1 > 2:
            bend = stiffness * area * row_width
            add(BEND, [index[:, :-2], index[:, 1:-1], index[:, 2:]], [1 / h1**2, -2 / h1**2, 1 / h1**2], bend)
        if n2 > 2:
            bend = stiffness * area * column_width
            add(BEND, [index[:-2], index[1:-1], index[2:]], [1 / h2**2, -2 / h2**2, 1 / h2**2], bend)
        cell = [index[:-1, :-1], index[:-1, 1:], index[1:, :-1], index[1:, 1:]]
        add(BEND, cell, [1 / area, -1 / area, -1 / area, 1 / area], 2.0 * stiffness * area)
        add(SHEAR, cell, [-0.5 / h1, 0.5 / h1, -0.5 / h1, 0.5 / h1], shear * area)
        add(SHEAR, cell, [-0.5 / h2, -0.5 / h2, 0.5 / h2, 0.5 / h2], shear * area)

        vertices, weights, kind, modulus = (np.concatenate(column) for column in zip(*blocks, strict=True))
        # the two halves of a shear are the last two blocks, in the same order
        cells = (n1 - 1) * (n2 - 1)
        partner = np.arange(len(kind))
        partner[-2 * cells :] = np.roll(partner[-2 * cells :], cells)
        keep = np.flatnonzero(modulus > 0.0)
        new_number = np.cumsum(modulus > 0.0) - 1
        return Differences(
            vertices[keep].astype(np.int32),
            weights[keep],
            kind[keep].astype(np.int32),
            new_number[partner[keep]].astype(np.int32),
            modulus[keep],
            np.full(len(keep), self.material.damping),
        )

    def colours(self) -> np.ndarray:
        """The colour of each node, (i + 2 j) mod 5: two nodes that the matrix couples never have the same."""
        n1, n2 = self.nodes
        j, i = np.divmod(np.arange(n1 * n2), n1)
        return np.asarray((i + 2 * j) % COLOURS)


def order_by_colour(lattices: list[Lattice]) -> tuple[np.ndarray, np.ndarray]:
    """The nodes of all grids colour by colour, and where each colour begins; no two grids are coupled."""
    nodes = np.concatenate([lattice.first + np.arange(np.prod(lattice.nodes)) for lattice in lattices])
    colours = np.concatenate([lattice.colours() for lattice in lattices])
    order = np.argsort(colours, kind="stable")
    return nodes[order], np.searchsorted(colours[order], np.arange(COLOURS + 1))


def join(grids: list[Differences]) -> Differences:
    """The differences of several grids in one list."""
    starts = np.cumsum([0, *(len(grid.kind) for grid in grids)])
    moved = [g._replace(partner=g.partner + np.int32(start)) for g, start in zip(grids, starts, strict=False)]
    return Differences(*(np.concatenate(column) for column in zip(*moved, strict=True)))


def gather_lists(
    s: Differences, count: int
) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Differences by vertex, the structure of the matrix off its diagonal, and differences by entry of the matrix.

    As offsets, items and weights; offsets and columns; offsets, items and products of two weights.
    """
    difference, corner = np.nonzero(s.weights)
    vertex, weight = s.vertices[difference, corner], s.weights[difference, corner]
    by_vertex = np.argsort(vertex, kind="stable")
    row_offsets = np.concatenate([[0], np.cumsum(np.bincount(vertex, minlength=count))])

    # all pairs of different corners of a difference
    one, other = (a.ravel() for a in np.divmod(np.arange(16), 4))
    apart = one != other
    one, other = one[apart], other[apart]
    product = s.weights[:, one] * s.weights[:, other]
    owner, pair = np.nonzero(product)
    key = s.vertices[owner, one[pair]].astype(np.int64) * count + s.vertices[owner, other[pair]]
    keys, entry = np.unique(key, return_inverse=True)
    by_entry = np.argsort(entry, kind="stable")
    entry_offsets = np.concatenate([[0], np.cumsum(np.bincount(entry, minlength=len(keys)))])
    offsets = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
    rows = (row_offsets, difference[by_vertex], weight[by_vertex])
    entries = (entry_offsets, owner[by_entry], product[owner, pair][by_entry])
    return rows, (offsets, (keys % count).astype(np.int32)), entries


class Limits(NamedTuple):
    """The interval in which each coordinate of each vertex may end a step: (3, n) on the device."""

    lower: wp.array
    upper: wp.array


class Solved(NamedTuple):
    """How a solve ended."""

    sweeps: int
    converged: bool


class ElasticSurface:
    """The linear system of a step over all grids: `assemble` it once, `solve` it as often as limits change."""

    def __init__(
        self,
        lattices: list[Lattice],
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        tolerance: float = TOLERANCE,
        most_sweeps: int = MOST_SWEEPS,
    ) -> None:
        device = inverse_mass.device
        self.device, self.count = device, len(mass)
        self.air, self.inverse_mass = air, inverse_mass
        self.differences = join([lattice.differences() for lattice in lattices])
        self.tolerance = tolerance * min(min(lattice.spacing) for lattice in lattices)
        self.most_sweeps = most_sweeps

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(np.ascontiguousarray(values), dtype=dtype, device=device)

        s = self.differences
        self._where = (upload(s.vertices, wp.vec4i), upload(s.weights, wp.vec4d))
        self._law = (
            upload(s.kind, int),
            upload(s.partner, int),
            upload(s.modulus, wp.float64),
            upload(s.delay, wp.float64),
        )
        rows, columns, entries = gather_lists(s, self.count)
        self._entries = tuple(upload(a, t) for a, t in zip(entries, (int, int, wp.float64), strict=True))
        order, colours = order_by_colour(lattices)
        self._largest = int(np.diff(colours).max())
        external: Any = ExternalForces()
        external.mass, external.gravity, external.damping = upload(mass, wp.float64), air.gravity, air.damping
        external.face_offsets, external.face_items, external.face_force = air.lists
        self._external = external

        self._old = wp.zeros(len(s.kind), dtype=wp.vec3d, device=device)
        lists: Any = VertexDifferences()
        lists.offsets, lists.differences, lists.weights = (
            upload(a, t) for a, t in zip(rows, (int, int, wp.float64), strict=True)
        )
        lists.y, lists.pull = (wp.zeros(len(s.kind), dtype=wp.vec3d, device=device) for _ in range(2))
        lists.bound = wp.zeros(len(s.kind), dtype=wp.float64, device=device)
        self._lists = lists
        self._guess = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        g, self.r, *limits = (wp.zeros((3, self.count), dtype=wp.float64, device=device) for _ in range(4))
        system: Any = LinearSystem()
        system.colours, system.order = upload(colours, int), upload(order, int)
        system.offsets, system.columns = upload(columns[0], int), upload(columns[1], int)
        system.values = wp.zeros(len(columns[1]), dtype=wp.float64, device=device)
        system.diagonal, system.g = wp.zeros(self.count, dtype=wp.float64, device=device), g
        self._system = system
        self.limits = Limits(*limits)
        """the limits of the next solve, or of the last one"""
        self.spaces: Any = HalfSpaces()
        """the half-spaces of the next solve, or of the last one"""
        self._no_spaces = self.spaces
        self._no_spaces.offsets = wp.zeros(self.count + 1, dtype=int, device=device)
        self.rests = wp.zeros(self.count, dtype=int, device=device)
        """on which sides colliders carry each vertex at the end of the last solve"""
        self._report: Any = SweepReport()
        self._report.sweeps = wp.zeros(3, dtype=int, device=device)
        self._report.change = wp.zeros(3, dtype=wp.float64, device=device)
        self._report.changes = wp.zeros(9 * (MAX_HELPERS + 1), dtype=wp.float64, device=device)
        self._cooperative = CooperativeLauncher(device)

    @classmethod
    def from_world(cls, world: World, **options: Any) -> "ElasticSurface":
        """All cloths of a world, which must be grids without seams."""
        scene = world.scene
        if scene.seams:
            raise SceneError(
                scene.problem(("seams",), "boxes takes grids without seams; leave them out, or choose another method")
            )
        lattices = []
        for i, (sheet, cloth) in enumerate(zip(world.cloths, scene.cloths, strict=True)):
            if not isinstance(cloth.shape, Grid | Strip):
                text = "boxes takes cloth of the shape grid or strip only; other methods take any mesh"
                raise SceneError(scene.problem(("cloths", i), text))
            n1, n2 = cloth.shape.cells[0] + 1, cloth.shape.cells[1] + 1
            assert sheet.mesh.uv is not None
            uv = sheet.mesh.uv.reshape(n2, n1, 2)
            spacing = (float(np.linalg.norm(uv[0, 1] - uv[0, 0])), float(np.linalg.norm(uv[1, 0] - uv[0, 0])))
            lattices.append(Lattice((n1, n2), spacing, sheet.first, sheet.material))
        mass = world.mass[: world.cloth_vertex_count]
        return cls(lattices, mass, world.inverse_mass, Air.from_world(world), **options)

    def assemble(self, state: State, dt: float) -> None:
        """Build the matrix and the right-hand side of a step from this state; the solution starts from free fall."""
        device, count = self.device, self.count
        x, v, gravity = state.x, state.v, self.air.gravity
        launch(predict, count, [x, v, gravity, dt, self._guess, self.r], device=device)
        lists, system = self._lists, self._system
        launch(find_differences, len(lists.y), [*self._where, x, self._old], device=device)
        launch(find_differences, len(lists.y), [*self._where, self._guess, lists.y], device=device)
        inputs = [*self._law, 1.0 / dt, lists.y, self._old, lists.pull, lists.bound]
        launch(find_stress, len(lists.y), inputs, device=device)
        launch(assemble, len(system.values), [*self._entries, lists.bound, system.values], device=device)
        self.air.blow(x, v, state.time)
        launch(find_right_hand_side, count, [lists, self._external, x, v, dt, system], device=device)

    def free(self) -> None:
        """Remove all limits and all half-spaces."""
        self.spaces = self._no_spaces
        launch(open_limits, self.count, [*self.limits], device=self.device)

    def hold_pins(self, target: wp.array) -> None:
        """Limits that hold pinned vertices at their targets."""
        inputs = [self.inverse_mass, target, self.limits.lower, self.limits.upper]
        launch(hold_pins, self.count, inputs, device=self.device)

    def solve(self, *, relaxation: float = RELAXATION) -> Solved:
        """Constrained Gauss-Seidel within the limits and half-spaces, starting from the last solution."""
        numbers = [relaxation, self.tolerance, self.most_sweeps]
        inputs = [self._system, *self.limits, self.spaces, *numbers, self.r, self._report]
        self._cooperative.launch(relax, self._largest, inputs, work=self.count)
        launch(find_rests, self.count, [self.spaces, self.r, self.rests], device=self.device)
        sweeps, change = read((self._report.sweeps, 0, 3), (self._report.change, 0, 3))
        return Solved(int(sweeps.max()), bool(np.all(change <= self.tolerance)))

    def write(self, state: State, dt: float, x_end: wp.array, v_end: wp.array) -> None:
        """The solution as positions and velocities at the end of the step."""
        launch(gather_positions, self.count, [self.r, state.x, dt, x_end, v_end], device=self.device)

    def system(self) -> tuple[Any, np.ndarray]:
        """The matrix (scipy, sparse) and the right-hand side (3, n) that were assembled last."""
        from scipy import sparse

        shape, found = (self.count, self.count), self._system
        off = sparse.csr_matrix((found.values.numpy(), found.columns.numpy(), found.offsets.numpy()), shape=shape)
        return off + sparse.diags(found.diagonal.numpy()), found.g.numpy().copy()

    def propose(self, state: State, target: wp.array, dt: float, x_end: wp.array, v_end: wp.array) -> int:
        """Where the cloth would be after dt if nothing but its pins held it."""
        self.assemble(state, dt)
        self.free()
        self.hold_pins(target)
        self.solve()
        self.write(state, dt, x_end, v_end)
        return 1

"""The elastic surface of Terzopoulos et al. 1987 on rectangular grids, stepped by one linear system for x, y and z.

The energy compares the metric tensor G of the sheet with its rest value, which is the identity in material coordinates
(metres), for stretch and shear, and takes the second derivatives of r for the curvature tensor:

    E = sum over grid edges  stretch/8 (G_ii - 1)^2 a  +  sum over cells  shear/2 G_12^2 a
      + sum over nodes and cells  bend/2 (|r_11|^2 + 2 |r_12|^2 + |r_22|^2) a

with finite differences for the derivatives and a the area that belongs to each. Where the sheet does not stretch, r_ij
is along the normal and |r_ij| is the curvature B_ij itself; away from it the vector keeps one matrix for x, y and z.

Every difference is a stencil y = sum w_k r_k, and the energy is a function of these, so that its gradient is
sum w_k dE/dy. A step solves A r(t + dt) = g with

    A = M/dt^2 + sum c w w^T        g = M/dt^2 (r + dt v) + f + sum w (c y* - dE/dy*)

where * is the prediction and c bounds the second derivative of E along the stencil from above. In 1987 c was the secant
stiffness (G - 1): it vanishes for a sheet at rest, and the step is then as short as an explicit one. With the bound,
A r - g is still the exact gradient at the prediction, and A is positive definite whatever the cloth does.
"""

from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.elastic_surface.kernels import (
    assemble,
    find_reaction,
    find_stress,
    gather_positions,
    hold_pins,
    load_rows,
    measure,
    open_limits,
    predict,
    relax,
)
from weft.dynamics.elastic_surface.stencils import Lattice, gather_lists, join, order_by_colour
from weft.errors import SceneError
from weft.runtime import launch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.readback import read
from weft.runtime.thread_pool import MAX_HELPERS
from weft.scene import Grid, Strip
from weft.world import State, World

# over-relaxation of Gauss-Seidel: 1 is the plain sweep, this converges several times as fast
RELAXATION = 1.8
# sweeps end when no coordinate moves by more than this part of a cell
TOLERANCE = 1e-5
MOST_SWEEPS = 400


class Limits(NamedTuple):
    """Where each coordinate of each vertex may be at the end of a step: (3, n) on the device."""

    lower: wp.array
    upper: wp.array
    anchor: wp.array
    """where friction holds it"""
    grip: wp.array
    """the largest force of that friction in N; 0 where there is none"""


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
        self.stencils = join([lattice.stencils() for lattice in lattices])
        self.tolerance = tolerance * min(min(lattice.spacing) for lattice in lattices)
        self.most_sweeps = most_sweeps

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(np.ascontiguousarray(values), dtype=dtype, device=device)

        s = self.stencils
        self._where = (upload(s.vertices, wp.vec4i), upload(s.weights, wp.vec4d))
        self._law = (
            upload(s.kind, int),
            upload(s.partner, int),
            upload(s.modulus, wp.float64),
            upload(s.delay, wp.float64),
        )
        rows, columns, entries = gather_lists(s, self.count)
        self._rows = tuple(upload(a, t) for a, t in zip(rows, (int, int, wp.float64), strict=True))
        self._entries = tuple(upload(a, t) for a, t in zip(entries, (int, int, wp.float64), strict=True))
        self._offsets, self._columns = upload(columns[0], int), upload(columns[1], int)
        order, colours = order_by_colour(lattices)
        self._order, self._colours = upload(order, int), upload(colours, int)
        self._largest = int(np.diff(colours).max())
        self._mass = upload(mass, wp.float64)

        self._y, self._old, self._pull = (wp.zeros(len(s.kind), dtype=wp.vec3d, device=device) for _ in range(3))
        self._bound = wp.zeros(len(s.kind), dtype=wp.float64, device=device)
        self._values = wp.zeros(len(columns[1]), dtype=wp.float64, device=device)
        self._diagonal = wp.zeros(self.count, dtype=wp.float64, device=device)
        self._guess = wp.zeros(self.count, dtype=wp.vec3d, device=device)
        self._g, self.r, self._reaction, *limits = (
            wp.zeros((3, self.count), dtype=wp.float64, device=device) for _ in range(7)
        )
        self.limits = Limits(*limits)
        """what the next solve keeps to, or the last one kept to"""
        self._sweeps = wp.zeros(3, dtype=int, device=device)
        self._change = wp.zeros(3, dtype=wp.float64, device=device)
        # of three sweeps: three coordinates for every thread of a CPU
        self._changes = wp.zeros(9 * (MAX_HELPERS + 1), dtype=wp.float64, device=device)
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
        for i, (part, cloth) in enumerate(zip(world.cloths, scene.cloths, strict=True)):
            if not isinstance(cloth.shape, Grid | Strip):
                text = "boxes takes cloth of the shape grid or strip only; other methods take any mesh"
                raise SceneError(scene.problem(("cloths", i), text))
            n1, n2 = cloth.shape.cells[0] + 1, cloth.shape.cells[1] + 1
            assert part.mesh.uv is not None
            uv = part.mesh.uv.reshape(n2, n1, 2)
            spacing = (float(np.linalg.norm(uv[0, 1] - uv[0, 0])), float(np.linalg.norm(uv[1, 0] - uv[0, 0])))
            lattices.append(Lattice((n1, n2), spacing, part.first, part.material))
        mass = world.mass[: world.cloth_vertex_count]
        return cls(lattices, mass, world.inverse_mass, Air.from_world(world), **options)

    def assemble(self, state: State, dt: float) -> None:
        """The matrix and the right-hand side of a step from this state; the solution starts from free fall."""
        device, count = self.device, self.count
        x, v, gravity = state.x, state.v, self.air.gravity
        launch(predict, count, [x, v, gravity, dt, self._guess, self.r], device=device)
        launch(measure, len(self._y), [*self._where, x, self._old], device=device)
        launch(measure, len(self._y), [*self._where, self._guess, self._y], device=device)
        inputs = [*self._law, 1.0 / dt, self._y, self._old, self._pull, self._bound]
        launch(find_stress, len(self._y), inputs, device=device)
        inputs = [*self._entries, self._bound, self._values]
        launch(assemble, len(self._values), inputs, device=device)
        self.air.blow(x, v, state.time)
        launch(
            load_rows,
            count,
            [*self._rows, self._mass, x, v, self._y, self._pull, self._bound, *self.air.lists]
            + [gravity, self.air.damping, dt, self._diagonal, self._g],
            device=device,
        )

    def free(self, x: wp.array) -> None:
        """Take all limits away, and all friction."""
        launch(open_limits, self.count, [x, *self.limits], device=self.device)

    def hold_pins(self, target: wp.array) -> None:
        """Limits that leave pinned vertices their targets."""
        inputs = [self.inverse_mass, target, self.limits.lower, self.limits.upper]
        launch(hold_pins, self.count, inputs, device=self.device)

    def solve(self, *, relaxation: float = RELAXATION) -> Solved:
        """Constrained Gauss-Seidel from where the last solve ended, within the limits; x, y and z each by itself."""
        system = [self._order, self._offsets, self._columns, self._values, self._diagonal, self._g]
        numbers = [relaxation, self.tolerance, self.most_sweeps]
        inputs = [self._colours, *system, *self.limits, *numbers, self.r]
        inputs += [self._changes, self._sweeps, self._change]
        self._cooperative.launch(relax, self._largest, inputs, work=self.count)
        sweeps, change = read((self._sweeps, 0, 3), (self._change, 0, 3))
        return Solved(int(sweeps.max()), bool(np.all(change <= self.tolerance)))

    def write(self, state: State, dt: float, x_end: wp.array, v_end: wp.array) -> None:
        """The solution as positions and velocities at the end of the step."""
        launch(gather_positions, self.count, [self.r, state.x, dt, x_end, v_end], device=self.device)

    def reactions(self) -> wp.array:
        """The forces (3, n) that the limits of the last solve exert, in N; on the device."""
        system = [self._offsets, self._columns, self._values, self._diagonal, self._g, self.r, self._reaction]
        launch(find_reaction, self.count, system, device=self.device)
        return self._reaction

    def system(self) -> tuple[Any, np.ndarray]:
        """The matrix (scipy, sparse) and the right-hand side (3, n) that were assembled last."""
        from scipy import sparse

        shape = (self.count, self.count)
        off = sparse.csr_matrix((self._values.numpy(), self._columns.numpy(), self._offsets.numpy()), shape=shape)
        return off + sparse.diags(self._diagonal.numpy()), self._g.numpy().copy()

    def propose(self, state: State, target: wp.array, dt: float, x_end: wp.array, v_end: wp.array) -> int:
        """Where the cloth would be after dt if nothing but its pins held it."""
        self.assemble(state, dt)
        self.free(state.x)
        self.hold_pins(target)
        self.solve()
        self.write(state, dt, x_end, v_end)
        return 1

"""Bending of several worlds: their matrices side by side, and in each world the iterations that it has alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import warp as wp
from scipy.sparse import csr_array, vstack

from weft.dynamics.packed_vertices import first_three
from weft.dynamics.position_based.bending import Bending, find_rest_stretch
from weft.dynamics.position_based.sparse_rows import SparseRows, iterate_rows, sliced_rows, start_rows
from weft.methods.joined.world import JoinedWorld
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})


@wp.struct
class ChebyshevEach:
    """The numbers of the solves of all worlds (see `bending.Chebyshev`)."""

    iterations: wp.array[int]
    rates: wp.array[wp.float64]
    starts: wp.array[wp.float64]
    """of the first iterate"""
    momenta: wp.array2d[wp.float64]
    """(worlds, iterations)"""
    factors: wp.array2d[wp.float64]


@wp.kernel
def start_each(
    first: int,
    k: SparseRows,
    p: wp.array[wp.vec4d],
    moments: SparseRows,
    rest_stretch: wp.array[wp.vec4d],
    dt: wp.float64,
    world: wp.array[int],
    numbers: ChebyshevEach,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
):
    """The right-hand side, and the first iterate from dv = 0."""
    i = first + wp.tid()
    start_rows(i, i + 1, 1, k, p, moments, rest_stretch, dt, numbers.starts[world[i]], right, direction, dv)


@wp.kernel
def iterate_each(
    first: int,
    number: int,
    k: SparseRows,
    delay: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
    dt: wp.float64,
    world: wp.array[int],
    numbers: ChebyshevEach,
    right: wp.array[wp.vec4d],
    direction: wp.array[wp.vec4d],
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
):
    """A further iteration in the worlds that have so many."""
    i = first + wp.tid()
    w = world[i]
    if number < numbers.iterations[w] - 1:
        momentum = numbers.momenta[w, number]
        factor = numbers.factors[w, number]
        iterate_rows(i, i + 1, 1, k, delay, p, dt, momentum, factor, right, direction, dv, dv_next)


@wp.kernel
def push_each(
    first: int,
    p: wp.array[wp.vec4d],
    world: wp.array[int],
    numbers: ChebyshevEach,
    dv: wp.array[wp.vec4d],
    dv_next: wp.array[wp.vec4d],
    push: wp.array[wp.vec3d],
):
    """Add the change of velocity, spread over the step, to `push`."""
    i = first + wp.tid()
    if p[i][3] > wp.float64(0.0):
        w = world[i]
        last = dv[i]
        if numbers.iterations[w] % 2 == 0:
            last = dv_next[i]
        push[i] = push[i] + numbers.rates[w] * first_three(last)


class JoinedBending:
    """The bending of all worlds: their matrices side by side."""

    def __init__(self, bendings: Sequence[Bending], world: JoinedWorld, of_vertex: wp.array) -> None:
        self._of_worlds, self.active = list(bendings), bendings[0].active
        self.device, self.count = world.device, world.vertex_count
        self._cloth = world.cloth_vertex_count // len(bendings)
        delays = [bending.delay.numpy() for bending in self._of_worlds]
        self.delay = wp.array(world.of_vertices(delays), dtype=wp.float64, device=self.device)
        self._world = of_vertex
        self._work = [wp.zeros(self.count, dtype=wp.vec4d, device=self.device) for _ in range(4)]
        self._moments: Any = SparseRows()
        self._hinges = self._join_hinges(world) if self._of_worlds[0].memory.curved else []
        hinges = len(self._hinges[0]) if self._hinges else 0
        self._rest_stretch = wp.zeros(hinges, dtype=wp.vec4d, device=self.device)
        self._matrices: list[Any] = []
        self._plans: list[Any] = []
        self._numbers: Any = None
        self._most = 0
        self.version = 0
        """how often matrices or numbers have changed"""

    def _join_hinges(self, world: JoinedWorld) -> list[wp.array]:
        """Vertices, weights and rest jumps of the hinges of all worlds."""
        memories = [bending.memory for bending in self._of_worlds]
        quads = [
            place[memory.quads.numpy()].reshape(-1, 4) for place, memory in zip(world.place, memories, strict=True)
        ]
        columns = (
            (np.concatenate(quads).astype(np.int32), wp.vec4i),
            (np.concatenate([memory.weights.numpy() for memory in memories]), wp.vec4d),
            (np.concatenate([memory.rest.numpy() for memory in memories]), wp.float64),
        )
        return [wp.array(values, dtype=kind, device=self.device) for values, kind in columns]

    def prepare(self, dt: float) -> None:
        """Take the matrices and numbers that the worlds have now, for solves over a step dt."""
        if not self.active:
            return
        # a world that could not even begin its first step has no matrices: it gets others, and its result is not used
        prepared = next(bending for bending in self._of_worlds if bending.matrix is not None)
        bendings = [bending if bending.matrix is not None else prepared for bending in self._of_worlds]
        matrices = [bending.stiffness for bending in bendings]
        if len(self._matrices) != len(matrices) or any(
            a is not b for a, b in zip(matrices, self._matrices, strict=True)
        ):
            self._matrices = matrices
            self._k = self._side_by_side(matrices)
            self._equal_shares = self._side_by_side([bending.equal_shares for bending in bendings])
            if self._hinges:
                self._moments = self._side_by_side([bending.moments for bending in bendings], of_hinges=True)
            self.version += 1
        plans = [bending.plan(dt) for bending in bendings]
        if len(self._plans) != len(plans) or any(a is not b for a, b in zip(plans, self._plans, strict=True)):
            self._plans = plans
            self._numbers, self._most = self._upload(plans)
            self.version += 1

    def _side_by_side(self, matrices: Sequence[csr_array], *, of_hinges: bool = False) -> Any:
        """The matrices of the worlds as one; rows are vertices, and zero for colliders, columns vertices, or all hinges."""
        rows, n, start = [], self._cloth, 0
        columns = sum(matrix.shape[1] for matrix in matrices)
        for matrix in matrices:
            own = matrix[:n]
            own.sort_indices()
            rows.append(csr_array((own.data, own.indices + start, own.indptr), shape=(n, columns)))
            start += matrix.shape[1] if of_hinges else n
        rows.append(csr_array((self.count - len(rows) * n, columns)))
        return sliced_rows(csr_array(vstack(rows, format="csr")), self.device)

    def _upload(self, plans: Sequence[Any]) -> tuple[Any, int]:
        """The numbers of all solves, and the most iterations of any."""
        most = max(int(plan.iterations) for plan in plans)
        momenta, factors = (np.zeros((len(plans), most)) for _ in range(2))
        # the recurrence of `solve_bending`, with the same roundings
        for k, plan in enumerate(plans):
            half = float(plan.half)
            ratio = rho = half / float(plan.middle)
            for number in range(int(plan.iterations) - 1):
                new = 1.0 / (2.0 / ratio - rho)
                momenta[k, number], factors[k, number] = new * rho, 2.0 * new / half
                rho = new
        numbers: Any = ChebyshevEach()

        def upload(values: Any, dtype: Any = wp.float64) -> wp.array:
            return wp.array(np.array(values), dtype=dtype, ndim=np.ndim(values), device=self.device)

        numbers.iterations = upload([int(plan.iterations) for plan in plans], int)
        numbers.rates = upload([float(plan.rate) for plan in plans])
        numbers.starts = upload([1.0 / float(plan.middle) for plan in plans])
        numbers.momenta, numbers.factors = upload(momenta), upload(factors)
        return numbers, most

    def solve(self, dt: float, p: wp.array, push: wp.array) -> None:
        """Add the mean acceleration by bending over a step dt to `push` (see `Bending.solve`)."""
        right, direction, dv, dv_next = self._work
        given = [dt, self._world, self._numbers]
        if self._hinges:
            inputs = [*self._hinges, p, self._rest_stretch]
            launch(find_rest_stretch, len(self._rest_stretch), inputs, device=self.device)
        start = [self._k, p, self._moments, self._rest_stretch, *given, right, direction, dv]
        launch(start_each, self.count, start, device=self.device)
        for number in range(self._most - 1):
            turn = (dv, dv_next) if number % 2 == 0 else (dv_next, dv)
            again = [number, self._equal_shares, self.delay, p, *given, right, direction, *turn]
            launch(iterate_each, self.count, again, device=self.device)
        launch(push_each, self.count, [p, self._world, self._numbers, dv, dv_next, push], device=self.device)

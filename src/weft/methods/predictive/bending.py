"""Bending in the substeps of `predictive`: the implicit solve of position-based dynamics, several times a step.

A sweep over hinges would carry nothing on fine meshes (see `dynamics.position_based.bending`, which has the equations). So the
change of velocity by bending over a few substeps is solved for at once, and acts in them as a constant acceleration. All
threads of the kernel of a step share each iteration.
"""

# mypy: disable-error-code="arg-type, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.bend_memory import SHARP_FOLD
from weft.dynamics.packed_vertices import PACKED_VERTEX, first_three
from weft.dynamics.position_based.bending import Bending, Chebyshev, rest_stretch_of
from weft.dynamics.position_based.sparse_rows import SparseRows, iterate_rows, start_rows
from weft.dynamics.springs import from_world
from weft.methods.predictive.state import (
    PREDICTION,
    Pace,
    Settings,
    VertexArrays,
    fill,
    range_begin,
    span_end,
    span_step,
)
from weft.runtime.cooperative import grid_barrier, on_gpu
from weft.runtime.native import NativeHeader
from weft.world import World

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
TWO = wp.constant(wp.float64(2.0))
# substeps of one solve: it costs as much as two or three sweeps over the springs. With one solve a substep a strip hangs as
# deep to 0.1 %, and small figures take half as long again
INTERVAL = 3
# fewer substeps where a solve would take more iterations than this: shorter solves need so many fewer iterations that they
# cost little, and where dt^2 times the stiffest eigenvalue is above 5,000 cloth at rest trembles
FEW_ITERATIONS = 8

_native = NativeHeader(__file__, "bending.h")


@wp.struct
class BendingArrays:
    """The bending matrix, the rest shape where that is not flat, and what a solve writes."""

    matrix: SparseRows
    """empty where the moments of hinges are found from their jumps: fewer products than with rows of the matrix besides"""
    iterated: SparseRows
    """the matrix of equal shares, of the iterations"""
    delay: wp.array[wp.float64]
    quads: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    rest: wp.array[wp.float64]
    rest_moments: SparseRows
    lacks: wp.array[wp.vec4d]
    """of each hinge, see `lack_of`; empty where all cloth is flat at rest"""
    ahead: wp.array[wp.vec4d]
    right: wp.array[wp.vec4d]
    direction: wp.array[wp.vec4d]
    dv: wp.array[wp.vec4d]
    dv_next: wp.array[wp.vec4d]
    intervals: wp.array[int]
    """so many substeps of a step, and of its prediction, have one solve; 0: nothing bends"""
    plans: wp.array[Chebyshev]
    """the numbers of a solve of a step, and of its prediction"""


@wp.func
def extrapolate_unbent(i: int, dt: wp.float64, s: Settings, pace: Pace, a: VertexArrays, b: BendingArrays):
    """Where a vertex will be after dt and its damping time without bending and springs, but with gravity and wind."""
    row = a.p[i]
    speed = pace.per_h * first_three(row - a.before[i])
    if row[3] == ZERO:
        speed = (pace.per_h * pace.share) * (a.target[i] - a.x[i])
    else:
        speed += dt * (s.gravity + row[3] * a.force[i])
    place = first_three(row) + (dt + b.delay[i]) * speed
    b.ahead[i] = wp.vec4d(place[0], place[1], place[2], row[3])


@wp.func
def lack_of(i: int, b: BendingArrays) -> wp.vec4d:
    """How much the jump of a hinge, W p, is short of that at rest; where the matrix has that, only the jump at rest."""
    lack = rest_stretch_of(i, b.quads, b.weights, b.rest, b.ahead)
    if b.matrix.begins.shape[0] == 0:
        for k in range(4):
            lack -= b.weights[i][k] * b.ahead[b.quads[i][k]]
    lack[3] = ZERO
    return lack


@wp.func_native(PACKED_VERTEX + _native.body("find_lacks", SHARP_FOLD=SHARP_FOLD))
def find_lacks(first: int, last: int, b: BendingArrays):
    """CPU: `lack_of` the hinges from `first` to `last` (exclusive), four at a time."""
    ...


@wp.func
def solve_bending(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    s: Settings,
    pace: Pace,
    a: VertexArrays,
    b: BendingArrays,
):
    """The force of bending and wind on the vertices over the next substeps; all threads call this."""
    plan = b.plans[s.prediction]
    first, last, step = range_begin(t, threads, s.vertices), span_end(t, threads, s.vertices), span_step(threads)
    grid_barrier(arrivals)
    for i in range(first, last, step):
        extrapolate_unbent(i, plan.dt, s, pace, a, b)
    grid_barrier(arrivals)
    if b.lacks.shape[0] > 0:
        if on_gpu():
            for i in range(t, b.lacks.shape[0], threads):
                b.lacks[i] = lack_of(i, b)
        else:
            hinges = b.lacks.shape[0]
            find_lacks(range_begin(t, threads, hinges), span_end(t, threads, hinges), b)
        grid_barrier(arrivals)
    start_rows(
        first, last, step, b.matrix, b.ahead, b.rest_moments, b.lacks, plan.dt, ONE / plan.middle, b.right,
        b.direction, b.dv,
    )  # fmt: skip
    k = b.iterated
    ratio = plan.half / plan.middle
    rho = ratio
    for number in range(plan.iterations - 1):
        grid_barrier(arrivals)
        new = ONE / (TWO / ratio - rho)
        momentum = new * rho
        factor = TWO * new / plan.half
        rho = new
        if number % 2 == 0:
            iterate_rows(
                first, last, step, k, b.delay, a.p, plan.dt, momentum, factor, b.right, b.direction, b.dv, b.dv_next
            )
        else:
            iterate_rows(
                first, last, step, k, b.delay, a.p, plan.dt, momentum, factor, b.right, b.direction, b.dv_next, b.dv
            )
    for i in range(first, last, step):
        w = a.p[i][3]
        if w > ZERO:
            change = b.dv[i]
            if plan.iterations % 2 == 0:
                change = b.dv_next[i]
            a.pull[i] = a.force[i] + (plan.rate / w) * first_three(change)
    grid_barrier(arrivals)


class StepBending:
    """The bending of all cloths of a world in the steps of `predictive`."""

    def __init__(self, world: World) -> None:
        self._world, self._count = world, world.cloth_vertex_count
        self._bending = Bending(from_world(world), world.mass[: self._count], world.device)
        self._factor = 1.0
        self._paces: tuple[float, int] | None = None
        self._intervals = wp.zeros(2, dtype=int, device=world.device)
        self._plans = wp.zeros(2, dtype=Chebyshev, device=world.device)
        self._ahead = wp.zeros(self._count, dtype=wp.vec4d, device=world.device)
        self.pin()

    def pin(self) -> None:
        """Take up which vertices are held now."""
        bending = self._bending
        before = bending.matrix
        bending.pin(self._world.inverse_mass.numpy()[: self._count] == 0.0)
        if bending.matrix is before:
            return
        bending.scale(self._factor)
        hinges = {"quads": bending.memory.quads, "weights": bending.memory.weights, "rest": bending.memory.rest}
        by_hinges = bending.memory.curved and not bending.welded
        self.arrays = fill(
            BendingArrays,
            matrix=SparseRows() if by_hinges else bending.matrix,
            iterated=bending.iterated,
            delay=bending.delay,
            **hinges,
            rest_moments=bending.rest_moments,
            lacks=bending.rest_stretch,
            ahead=self._ahead,
            right=bending.work[0],
            direction=bending.work[1],
            dv=bending.work[2],
            dv_next=bending.work[3],
            intervals=self._intervals,
            plans=self._plans,
        )
        """as kernels take them; another object when other vertices are held"""
        self._paces = None

    def scale(self, factor: float) -> None:
        """Make cloth so many times as stiff against bending as its material."""
        self._factor = factor
        self._bending.scale(factor)
        self._paces = None

    def iterations(self, dt: float) -> int:
        """How many iterations a solve over dt takes."""
        return self._bending.iterations(dt) if self._bending.active else 0

    def plan(self, dt: float, substeps: int) -> None:
        """Prepare steps dt of so many substeps."""
        if self._paces == (dt, substeps) or not self._bending.active:
            return
        self._paces = dt, substeps
        intervals, plans = [], []
        for count in (substeps, -(-substeps // PREDICTION)):
            h, interval = dt / count, min(INTERVAL, count)
            while interval > 1 and self._bending.iterations(interval * h) > FEW_ITERATIONS:
                interval -= 1
            intervals.append(interval)
            plans.append(self._bending.plan(interval * h))
        self._intervals.assign(np.array(intervals, np.int32))
        self._plans.assign(plans)

    def follow(self, x: wp.array) -> None:
        """Let bends that stay follow the cloth at the start of a step."""
        self._bending.memory.follow(x)

    def saved(self) -> dict[str, np.ndarray]:
        """The bends that stay."""
        return self._bending.memory.saved()

    def restore(self, saved: Any) -> None:
        """Take up what `saved` gave."""
        self._bending.memory.restore(saved)

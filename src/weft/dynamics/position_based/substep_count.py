"""How many substeps a step of position-based cloth has: more where edges change fast, or where contacts strain them.

Substeps are at most `LONGEST_SUBSTEP` long. In each of them springs and contacts get one Gauss-Seidel sweep, so that short
substeps solve the cloth better and cost more. How much shorter they must be is measured on the positions and velocities at the
start of a step, on the device, while the host looks for contacts; it then changes slowly from step to step.
"""

import math

import numpy as np
import warp as wp

from weft.dynamics.position_based.kernels import find_worst_edges
from weft.runtime import launch
from weft.runtime.buffers import AsyncReadback
from weft.runtime.graph_cache import GraphCache
from weft.world import State

# s: 36 substeps a frame at 60 Hz. With one sweep each, longer substeps are softer than the material, shorter ones cost more
LONGEST_SUBSTEP = 1.0 / 2160.0
# Substeps are refined, made up to MOST_REFINED times shorter, where the length of an edge would change by more than the
# fraction LARGEST_CHANGE in one, or where, while there are contacts, its strain is more than LARGEST_STRAIN. Cloth that hits
# the ground faster than the first allows crumples; folds that contacts hold come free only if springs are solved well
MOST_REFINED = 8.0
LARGEST_CHANGE = 0.1
LARGEST_STRAIN = 0.08
# Springs are softer in longer substeps, so that each change of the refinement moves cloth at rest. So strain changes it slowly:
# by this power of what strain asks for in a step, and down by no more than RETURN a step. Only where strain asks for more than
# FAR times as much it follows at once, by at most FASTEST_REFINING times a step
FOLLOWING = 0.1
FAR, RETURN, FASTEST_REFINING = 1.25, 0.97, 2.0
# in cloth with more springs than this some single edges are always caught somewhere, which must not slow down all of it: so
# large a fraction of the further springs may exceed the limits above
LARGE_CLOTH = 100_000
SPARED_FRACTION = 1.0 / 1500.0
# threads that measure the worst edges, on CUDA for large cloth, and how many maxima they keep where some are spared
MEASURING_THREADS = 16384
MEASURING_THREADS_CUDA = 8 * MEASURING_THREADS
MAXIMA = 4096
# maxima of smaller cloth on CUDA: with a single one all threads would wait for its atomic
MAXIMA_SMALL = 64


class SubstepCount:
    """The number of substeps of the next step, from what its edges do at the start and from the step before."""

    def __init__(
        self, springs: tuple[wp.array, ...], count: int, inverse_mass: wp.array, *, longest: float = LONGEST_SUBSTEP
    ) -> None:
        """`springs` are the vertices, rest lengths and compliances of all slots, `count` of which are in use.

        `longest` is the length of a substep that is not refined, s.
        """
        device = wp.get_device(inverse_mass.device)
        self.longest = longest
        self.refined = 1.0
        """how many times shorter substeps were in the last step"""
        self._springs, self._inverse_mass, self._device = springs, inverse_mass, device
        large = not device.is_cpu and count >= MEASURING_THREADS_CUDA
        self._threads = max(1, min(count, MEASURING_THREADS_CUDA if large else MEASURING_THREADS))
        self._spared = min(MAXIMA // 2, int(SPARED_FRACTION * max(0, count - LARGE_CLOTH)))
        # CPU threads have a maximum each: Warp's atomics are not atomic there
        self._maxima = self._threads if device.is_cpu else MAXIMA if self._spared else MAXIMA_SMALL
        self._worst = wp.zeros(2 * self._maxima, dtype=wp.float64, device=device)
        self._requested = AsyncReadback(self._worst)
        self._measured: tuple[wp.array | None, wp.array | None, float] = None, None, 0.0
        """positions, velocities and length of the step that was measured"""
        self._graphs = GraphCache(device)

    def least(self, dt: float) -> int:
        """How many substeps a step of dt has while nothing asks for more."""
        return max(1, math.ceil(dt / self.longest - 1e-9))

    def measure(self, state: State, dt: float) -> None:
        """Measure on the device how fast edges change in a step of dt, and how strained they are."""
        h = dt / self.least(dt)

        def measure() -> None:
            inputs = [len(self._springs[0]), self._threads, *self._springs, self._inverse_mass, state.x, state.v, h]
            self._worst.zero_()
            inputs += [self._maxima, self._worst]
            launch(find_worst_edges, self._threads, inputs, device=self._device, grain=64)
            self._requested.copy_to_host()

        self._graphs.run(measure, "measure", state.x, state.v, dt)
        self._requested.mark_launched()
        self._measured = state.x, state.v, dt

    def find(self, state: State, dt: float, *, touched: bool) -> int:
        """How many substeps a step of dt needs, whether the cloth is `touched` by contacts or not."""
        x, v, length = self._measured
        if x is not state.x or v is not state.v or length != dt:
            self.measure(state, dt)
        self._measured = None, None, 0.0
        worst = self._requested.values().reshape(2, -1)
        if self._spared:
            worst = worst.reshape(2, -1, MAXIMA).max(axis=1)
            worst = np.partition(worst, -1 - self._spared, axis=1)[:, : -self._spared]
        change, strain = worst.max(axis=1).tolist()
        return self.refine(change, strain, dt, touched=touched)

    def refine(self, change: float, strain: float, dt: float, *, touched: bool) -> int:
        """How many substeps the next step of dt has, and remember by how much they are refined.

        `change` is the largest change of an edge in a substep, as a fraction of its length, `strain` the largest strain.
        """
        # the strain by which contacts win over springs grows with the square of the substep
        wanted = math.sqrt(strain / LARGEST_STRAIN) if touched else 0.0
        factor = min(max(wanted**FOLLOWING, wanted / FAR, RETURN), FASTEST_REFINING)
        self.refined = min(max(change / LARGEST_CHANGE, self.refined * factor, 1.0), MOST_REFINED)
        return math.ceil(self.least(dt) * self.refined)

"""Position-based cloth (XPBD, Macklin et al. 2016): small substeps, one sweep of Gauss-Seidel each, colour by colour.

Compliances make the stiffness that of the material whatever the step. Stretch and shear springs are solved in every
substep, those in a line together (see `spring_lines`). Bending is orders of magnitude softer, so that one implicit
sweep over the whole step carries it: the step's bending enters the velocity before the substeps start.
"""

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.interface import SubstepContacts
from weft.dynamics.position_based.kernels import (
    advance_substep,
    end_substeps,
    find_worst_edges,
    pull_stencils,
    start_step,
    take_bending,
)
from weft.dynamics.position_based.spring_lines import (
    BATCH,
    SIMD_BATCHES,
    SpringLines,
    find_spring_lines,
    prepare_springs,
)
from weft.dynamics.springs import BEND, SpringNetwork, from_world
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache, launch_fused
from weft.runtime.readback import AsyncReadback
from weft.world import State, World

# longest substep in s: 40 a frame at 60 Hz
LONGEST_SUBSTEP = 1.0 / 2400.0
# substeps are up to this many times shorter where an edge would change by more than `LARGEST_CHANGE` of its length in
# one, or is off it by more than `LARGEST_STRAIN` while something touches. What hits the ground faster than that crumples,
# and what is caught in folds comes free only if springs are solved well
MOST_REFINED = 8.0
LARGEST_CHANGE = 0.1
LARGEST_STRAIN = 0.08
# springs are softer in longer substeps, so that each change of them moves what lies at rest: this power of what strain asks
# for is what they follow in a step, back by no more than `RETURN`. Only where an edge is off by far do they follow at once
FOLLOWING = 0.1
FAR, RETURN, FASTEST_REFINING = 1.25, 0.97, 2.0
# a cloth of more springs than this has single edges that are caught somewhere, and all others need not wait for each of
# them: so large a part of the further springs may be worse than the substeps are made for
HEEDED = 100_000
SPARED_PART = 1.0 / 1500.0
# threads that look for the worst edge, on a card for those of a large cloth, and how many of these worst ones are told apart
LOOKERS = 16384
LOOKERS_ON_CARD = 8 * LOOKERS
PLACES = 4096
# places for the worst edge of small cloth on a card: threads would wait for each other at one
FEW_PLACES = 64
# substeps that are launched together, as many as possible
BATCHES = 16, 8, 4, 2, 1


class Coloured(NamedTuple):
    """Constraints in the order of their colours."""

    offsets: np.ndarray
    """where each colour starts"""
    starts: wp.array
    """the same on the device"""
    arrays: tuple[wp.array, ...]

    @property
    def colours(self) -> int:
        """How many there are."""
        return len(self.offsets) - 1

    @property
    def total(self) -> int:
        """How many constraints there are."""
        return int(self.offsets[-1])

    @property
    def largest(self) -> int:
        """The size of the first colour: the greedy choice makes it about the largest."""
        return int(self.offsets[1]) if len(self.offsets) > 1 else 0


class PositionBased:
    """XPBD over a spring network; `propose` moves a copy of the state forward."""

    central = False

    def __init__(
        self,
        network: SpringNetwork,
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        longest_substep: float = LONGEST_SUBSTEP,
    ) -> None:
        device = wp.get_device(inverse_mass.device)
        count = len(mass)
        self.count = count
        self.device = device
        self.inverse_mass = inverse_mass
        self.air = air
        self.longest_substep = longest_substep

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        # the hinge's stencil bends alone here: the spring between opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        self.springs = self._upload_lines(network, find_spring_lines(network, keep, count))
        places = len(self.springs.arrays[0])
        self._parts, self._softness = (wp.zeros(places, dtype=wp.float64, device=device) for _ in range(2))
        self._cooperative = CooperativeLauncher(device)
        self._graphs = GraphCache(device)
        self._length = wp.zeros(1, dtype=wp.float64, device=device)
        """of a substep: on the device, so that substeps of any length are the same launches"""
        self.hinges = self._upload_quads(network, ~network.sewn)
        self.stitches = self._upload_quads(network, network.sewn)
        lookers = LOOKERS if device.is_cpu or len(keep) < LOOKERS_ON_CARD else LOOKERS_ON_CARD
        self._lookers = max(1, min(len(keep), lookers))
        self._spared = min(PLACES // 2, int(SPARED_PART * max(0, len(keep) - HEEDED)))
        # each has a place of its own where maxima of several threads could be lost
        self._places = self._lookers if device.is_cpu else PLACES if self._spared else FEW_PLACES
        self._worst = wp.zeros(2 * self._places, dtype=wp.float64, device=device)
        self._asked = AsyncReadback(self._worst)
        # the state and the step for which that was asked
        self._foreseen: tuple[Any, Any, float] = None, None, 0.0
        # how many times shorter substeps were in the last step
        self.refined = 1.0
        self._push = wp.zeros(count, dtype=wp.vec3d, device=device)
        self._rows, self._before = (wp.zeros(count, dtype=wp.vec4d, device=device) for _ in range(2))
        """positions and inverse masses in substeps, and at the start of one"""

    def _upload_lines(self, network: SpringNetwork, spring_lines: SpringLines) -> Coloured:
        """Pairs of vertices, rest lengths, compliances and delays in all places of all rows, in the order of their colours.

        A CPU has the places of `SIMD_BATCHES` rows side by side, a card row after row.
        """
        side = SIMD_BATCHES if self.device.is_cpu else 1

        def placed(values: np.ndarray) -> np.ndarray:
            return values.reshape(-1, side, BATCH, *values.shape[2:]).swapaxes(1, 2).reshape(-1, *values.shape[2:])

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(placed(values), dtype=dtype, device=self.device)

        # what is in an empty place, nobody looks at
        k = np.where(spring_lines.springs >= 0, spring_lines.springs, spring_lines.springs.max(initial=-1))
        stiffness = network.stiffness[k]
        arrays = (
            upload(spring_lines.vertices, wp.vec2i),
            upload(network.rest[k], wp.float64),
            upload(1.0 / stiffness, wp.float64),
            upload(network.damping[k] / stiffness, wp.float64),
        )
        offsets = BATCH * spring_lines.offsets
        return Coloured(offsets, wp.array(offsets, dtype=int, device=self.device), arrays)

    def _upload_quads(self, network: SpringNetwork, chosen: np.ndarray) -> Coloured:
        """Some of the stencils in the order of their colours."""
        firm = np.flatnonzero((network.quad_stiffness > 0.0) & chosen)
        # a vertex that a stitch names without weight does not count
        order, offsets = colour_items(np.where(network.weights[firm] == 0.0, -1, network.quads[firm]), self.count)
        k = firm[order]

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values[k], dtype=dtype, device=self.device)

        arrays = (
            upload(network.quads, wp.vec4i),
            upload(network.weights, wp.vec4d),
            upload(network.quad_rest, wp.float64),
            upload(network.quad_stiffness, wp.float64),
            upload(network.quad_damping, wp.float64),
        )
        return Coloured(offsets, wp.array(offsets, dtype=int, device=self.device), arrays)

    @classmethod
    def from_world(cls, world: World) -> "PositionBased":
        """The springs of all cloths of a world, its masses and its forces."""
        return cls(from_world(world), world.mass, world.inverse_mass, Air.from_world(world))

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: SubstepContacts | None = None,
    ) -> int:
        """Where everything would be after dt; gives the number of substeps it took.

        Vertices without inverse mass go straight from where they are to `target`. `contacts` is called in each substep
        with the positions, which it may correct, and the positions at the start of the substep.
        """
        substeps = self._substeps(state, dt, touched=contacts is not None and len(contacts) > 0)
        self.air.blow(state.x, state.v, state.time, dt)
        self._length.fill_(dt / substeps)
        with self._graphs.fuse():
            self._bend(state, target, dt, v_end)
            self._take_substeps(substeps, dt / substeps, x_end, v_end, contacts)
        return substeps

    def _take_substeps(
        self, substeps: int, h: float, x_end: wp.array, v_end: wp.array, contacts: SubstepContacts | None
    ) -> None:
        """Move positions and velocities forward by so many substeps of h."""
        first, again = (self._stretching(v_end, again=again) for again in (False, True))
        given = (x_end, v_end, h if self.stitches.total else 0.0, *(() if contacts is None else contacts.given))

        def advance(count: int) -> None:
            for _ in range(count):
                self._substep(again, h, contacts)

        def begin() -> None:
            self._prepare()
            self._substep(first, h, contacts)

        def end() -> None:
            launch(end_substeps, self.count, [self._length, self._rows, self._before, x_end, v_end], device=self.device)

        self._graphs.run(begin, "first", *given)
        # graphs of some substeps each, which come again whatever the number of all
        launch_fused()
        rest = substeps - 1
        for batch in BATCHES:
            for _ in range(rest // batch):
                self._graphs.run(partial(advance, batch), "substeps", batch, *given)
                launch_fused()
            rest %= batch
        self._graphs.run(end, "end", x_end, v_end)

    def _prepare(self) -> None:
        """What is the same in all substeps of a step."""
        pairs, _, compliance, delay = self.springs.arrays
        inputs = [pairs, compliance, delay, self._length, self._parts, self._softness]
        launch(prepare_springs, len(pairs), inputs, device=self.device)

    def _substep(self, inputs: tuple[Any, ...], h: float, contacts: SubstepContacts | None) -> None:
        """Free motion, springs, stitches, contacts."""
        springs = self.springs
        items, work = max(self.count, springs.largest), self.count + springs.total
        self._cooperative.launch(advance_substep, items, inputs, work=work)
        self._pull(self.stitches, h)
        if contacts is not None:
            contacts(self._rows, self._before)

    def _stretching(self, v: wp.array, *, again: bool) -> tuple[Any, ...]:
        """What free motion over a substep and a sweep over the springs take: a tuple, so that it is looked at once."""
        springs, air = self.springs, self.air
        pairs, rests, *_ = springs.arrays
        colours = (self.count, int(again), springs.colours, springs.starts)
        forces = (self._push, air.gravity, air.damping, self._length)
        return (*colours, pairs, rests, self._parts, self._softness, *forces, v, self._rows, self._before)

    def foresee(self, state: State, dt: float) -> None:
        """Look how far edges are off their lengths, or soon will be."""
        least = self._least_substeps(dt)

        def look() -> None:
            springs = self.springs.arrays[:3]
            inputs = [
                len(springs[0]),
                self._lookers,
                *springs,
                self.inverse_mass,
                state.x,
                state.v,
                dt / least,
                self._places,
            ]
            self._worst.zero_()
            launch(find_worst_edges, self._lookers, [*inputs, self._worst], device=self.device, grain=64)
            self._asked.copy_to_host()

        self._graphs.run(look, "look", state.x, state.v, dt)
        self._asked.mark_launched()
        self._foreseen = state.x, state.v, dt

    def _substeps(self, state: State, dt: float, *, touched: bool) -> int:
        """How many substeps dt needs: more where edges change fast, or where contacts hold them far off their lengths."""
        x, v, length = self._foreseen
        if x is not state.x or v is not state.v or length != dt:
            self.foresee(state, dt)
        self._foreseen = None, None, 0.0
        worst = self._asked.values().reshape(2, -1)
        if self._spared:
            worst = worst.reshape(2, -1, PLACES).max(axis=1)
            worst = np.partition(worst, -1 - self._spared, axis=1)[:, : -self._spared]
        change, strain = worst.max(axis=1).tolist()
        # springs do not know of contacts, which hold them off their lengths by as much as grows with a substep squared
        asked = math.sqrt(strain / LARGEST_STRAIN) if touched else 0.0
        again = min(max(asked**FOLLOWING, asked / FAR, RETURN), FASTEST_REFINING)
        self.refined = min(max(change / LARGEST_CHANGE, self.refined * again, 1.0), MOST_REFINED)
        return math.ceil(self._least_substeps(dt) * self.refined)

    def saved(self) -> dict[str, np.ndarray]:
        return {"refined": np.array([self.refined])}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self.refined = float(saved["refined"][0])

    def _least_substeps(self, dt: float) -> int:
        return max(1, math.ceil(dt / self.longest_substep - 1e-9))

    def _bend(self, state: State, target: wp.array, dt: float, v_end: wp.array) -> None:
        """The wind's push and the bending of the whole step."""
        x, v, w = state.x, state.v, self.inverse_mass

        def bend() -> None:
            inputs = [x, v, w, target, *self.air.lists, dt, self._push, self._rows, self._before]
            launch(start_step, self.count, inputs, device=self.device)
            self._pull(self.hinges, dt)
            launch(take_bending, self.count, [self._before, dt, self._rows, v_end], device=self.device)

        self._graphs.run(bend, "bend", dt, x, v, target, v_end)

    def _pull(self, quads: Coloured, dt: float) -> None:
        """One sweep over stencils, for positions that were at `_before` dt ago."""
        if quads.total == 0:
            return
        inputs = [quads.colours, quads.starts, *quads.arrays, dt, self._before, self._rows]
        self._cooperative.launch(pull_stencils, quads.largest, inputs, work=quads.total)

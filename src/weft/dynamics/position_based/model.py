"""Position-based cloth (XPBD, Macklin et al. 2016): small substeps, one Gauss-Seidel sweep in each, colour by colour.

Compliances make the stiffness that of the material whatever the substep. Stretch and shear springs are solved in every
substep, those in a straight line together (see `spring_lines`). Bending is orders of magnitude softer, so it is solved once
a step, implicitly (see `bending`), and acts as a constant acceleration in the substeps.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.interface import SubstepContacts
from weft.dynamics.position_based.bending import Bending
from weft.dynamics.position_based.kernels import (
    advance_substep,
    end_substeps,
    extrapolate_unbent,
    pull_stencils,
    start_step,
)
from weft.dynamics.position_based.membrane import Membrane, find_extensions, follow_triangles
from weft.dynamics.position_based.spring_lines import (
    SLOTS_A_THREAD,
    SpringLines,
    find_spring_lines,
    interleaved,
    prepare_springs,
)
from weft.dynamics.position_based.substep_count import LONGEST_SUBSTEP, SubstepCount
from weft.dynamics.springs import BEND, SpringNetwork, from_world
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache, launch_fused
from weft.world import Seams, State, World

# s: damping times are cut to this. Cloth stops within a step at far shorter ones; from 1e5 s on the solve loses all its digits
LONGEST_DELAY = 1e3
# s: bending is solved once in so long a time, and in half of it where a solve would take more than FEW_ITERATIONS. It foresees
# gravity, but not what springs and contacts will do, and is the softer for it the longer this is: with 1/360 s a strip at rest
# (G = 100, 20 cells) hangs 6.9 % too deep, with 1/720 4.4, with 1/1080 3.6, with 1/2160 2.9, and waves shorter than
# (bend dt^2 / density)^(1/4), 3 mm of cotton, have little stiffness. Shorter solves take fewer iterations, so that on fine
# meshes they cost little
LONGEST_BENDING = 1.0 / 1080.0
FEW_ITERATIONS = 4
# substeps of one CUDA graph: a step is made of as few graphs of these sizes as possible, whatever its number of substeps
SUBSTEPS_A_GRAPH = 16, 8, 4, 2, 1


class ColouredConstraints(NamedTuple):
    """Constraints sorted by colour."""

    offsets: np.ndarray
    """where each colour begins"""
    starts: wp.array
    """the same on the device"""
    arrays: tuple[wp.array, ...]

    @property
    def colours(self) -> int:
        """The number of colours."""
        return len(self.offsets) - 1

    @property
    def total(self) -> int:
        """The number of constraints."""
        return int(self.offsets[-1])

    @property
    def largest(self) -> int:
        """The size of the first colour, about the largest of a greedy colouring."""
        return int(self.offsets[1]) if len(self.offsets) > 1 else 0


class PositionBased:
    """XPBD over a spring network."""

    central = True

    def __init__(
        self,
        network: SpringNetwork,
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        longest_substep: float = LONGEST_SUBSTEP,
        pins_at: Callable[[float], int] | None = None,
        seams: Seams | None = None,
    ) -> None:
        """`pins_at` gives a number for a time, which changes when pinned vertices do; without it they never change.

        `seams` are the stitches of the network, in its order, where they are drawn together in time.
        """
        device = wp.get_device(inverse_mass.device)
        count = len(mass)
        self.count = count
        self.device = device
        self.inverse_mass = inverse_mass
        self.air = air

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        membrane = Membrane.of(network)
        network = replace(
            network,
            stiffness=membrane.stiffness,
            damping=delays_of(network) * membrane.stiffness,
            quad_damping=np.minimum(network.quad_damping, LONGEST_DELAY * network.quad_stiffness),
        )
        # hinges bend by their stencils alone: the springs between opposite vertices would lock the spring lines
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        lines = find_spring_lines(network, keep, count, align=1 if device.is_cpu else SLOTS_A_THREAD)
        self.springs = self._upload_lines(network, membrane, lines)
        self._blocks = upload(lines.blocks, int)
        limited = bool(np.isfinite(network.face_threads[:, 2, 2]).any())
        threads = network.face_threads if limited else np.zeros((0, 3, 3))
        tensors = (upload(values, wp.mat33d) for values in (network.face_tension, threads))
        self._faces = upload(network.face_springs, wp.vec3i), *tensors
        self._make_buffers(len(network.pairs), limited=limited, lengths=1)
        self._closing = seams if seams is not None and seams.closing is not None else None
        self.stitches = self._upload_stitches(network)
        self.bending = Bending(network, mass, device)
        self._pins_at = pins_at
        self._pins = -1
        self.substeps = SubstepCount(self.springs.arrays[:3], len(keep), inverse_mass, longest=longest_substep)

    def _make_buffers(self, springs: int, *, limited: bool, lengths: int) -> None:
        """What a step works with, for so many springs; `lengths` of substeps are one for all, or one a vertex."""
        device, slots = self.device, len(self.springs.arrays[0])

        def zeros(count: int, dtype: Any = wp.float64) -> wp.array:
            return wp.zeros(count, dtype=dtype, device=device)

        self._extensions = zeros(springs)
        self._elastics, self._softness, self._pushes = (zeros(slots) for _ in range(3))
        self._rests = wp.clone(self.springs.arrays[1])
        """rest lengths that follow the triangles (see `membrane`)"""
        self._compliance = wp.clone(self.springs.arrays[2]) if limited else self.springs.arrays[2]
        """compliances of the step, smaller where threads are at their limit"""
        self._cooperative = CooperativeLauncher(device)
        self._graphs = GraphCache(device)
        self._length, self._length_before = (wp.ones(lengths, dtype=wp.float64, device=device) for _ in range(2))
        """the length of a substep, on the device, so that CUDA graphs serve substeps of any length"""
        self._push, self._wind = (zeros(self.count, wp.vec3d) for _ in range(2))
        self._packed, self._before, self._ahead = (zeros(self.count, wp.vec4d) for _ in range(3))
        """packed vertices in a substep, at its start, and where they would be without bending"""

    def _upload_lines(
        self, network: SpringNetwork, membrane: Membrane, spring_lines: SpringLines
    ) -> ColouredConstraints:
        """Pairs of vertices, rest lengths, compliances, delays and triangles of all slots of all batches, sorted by colour."""
        slots = spring_lines.springs.shape[1]

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(interleaved(values, self.device), dtype=dtype, device=self.device)

        # the values of an empty slot are never read
        k = np.where(spring_lines.springs >= 0, spring_lines.springs, spring_lines.springs.max(initial=-1))
        stiffness = network.stiffness[k]
        arrays = (
            upload(spring_lines.vertices, wp.vec2i),
            upload(network.rest[k], wp.float64),
            upload(1.0 / stiffness, wp.float64),
            upload(network.damping[k] / stiffness, wp.float64),
            upload(spring_lines.springs, int),
            upload(membrane.sides[k], wp.vec2i),
        )
        # in items of `advance_substep`
        offsets = slots * spring_lines.offsets // (1 if self.device.is_cpu else SLOTS_A_THREAD)
        return ColouredConstraints(offsets, wp.array(offsets, dtype=int, device=self.device), arrays)

    def _upload_stitches(self, network: SpringNetwork) -> ColouredConstraints:
        """The stitches of seams, sorted by colour."""
        firm = np.flatnonzero((network.quad_stiffness > 0.0) & network.sewn)
        # a corner without weight is no conflict between colours
        order, offsets = colour_items(np.where(network.weights[firm] == 0.0, -1, network.quads[firm]), self.count)
        k = firm[order]
        self._stitch_order = np.searchsorted(np.flatnonzero(network.sewn), k)

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values[k], dtype=dtype, device=self.device)

        arrays = (
            upload(network.quads, wp.vec4i),
            upload(network.weights, wp.vec4d),
            upload(network.quad_rest, wp.float64),
            upload(network.quad_stiffness, wp.float64),
            upload(network.quad_damping, wp.float64),
        )
        return ColouredConstraints(offsets, wp.array(offsets, dtype=int, device=self.device), arrays)

    @classmethod
    def from_world(cls, world: World) -> "PositionBased":
        """The springs of all cloths of a world, its masses and its forces."""
        phase = world.kinematics.phase
        return cls(
            from_world(world), world.mass, world.inverse_mass, Air.from_world(world), pins_at=phase, seams=world.seams
        )

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: SubstepContacts | None = None,
    ) -> int:
        """Write where everything is after dt; returns the number of substeps taken.

        Vertices without inverse mass move on a straight line to `target`. `contacts` is called in each substep with the
        packed vertices, which it may correct, and those at the start of the substep.
        """
        self.pin(state)
        solves = self.solves(dt)
        substeps = self.substeps.find(state, dt, touched=contacts is not None and len(contacts) > 0)
        substeps = solves * math.ceil(substeps / solves)
        self.air.blow(state.x, state.v, state.time, dt)
        wp.copy(self._length_before, self._length)
        self._length.fill_(dt / substeps)
        if self._closing is not None:
            self._draw_together(state.time + dt)
        self._take_solves(state, target, dt, (solves, substeps), (x_end, v_end), contacts)
        return substeps

    def _take_solves(
        self,
        state: State,
        target: wp.array,
        dt: float,
        counts: tuple[int, int],
        ends: tuple[wp.array, wp.array],
        contacts: SubstepContacts | None,
    ) -> None:
        """A step with so many solves of bending and substeps; writes positions and velocities at its end."""
        (solves, substeps), (x_end, v_end) = counts, ends
        with self._graphs.fuse():
            self._start(state, target, dt, v_end)
            for solve in range(solves):
                self._bend(dt / solves, v_end, again=solve > 0)
                self._take_substeps(substeps // solves, dt / substeps, v_end, contacts, again=solve > 0)
            inputs = [self._length, self._packed, self._before, x_end, v_end]
            end = partial(launch, end_substeps, self.count, inputs, device=self.device)
            self._graphs.run(end, "end", x_end, v_end)

    def _take_substeps(
        self, substeps: int, h: float, v: wp.array, contacts: SubstepContacts | None, *, again: bool
    ) -> None:
        """So many substeps of length h of the packed vertices; v are their velocities at the start of the step."""
        given = (v, h if self.stitches.total else 0.0, *(() if contacts is None else contacts.given))
        first = self._substep_inputs(v, again=again)
        self._graphs.run(partial(self._substep, first, h, contacts), "first", again, *given)
        launch_fused()
        self._take_more(substeps - 1, h, v, contacts, given)

    def _take_more(
        self, substeps: int, h: float, v: wp.array, contacts: SubstepContacts | None, given: tuple[Any, ...]
    ) -> None:
        """So many substeps after another one; `given` is what their CUDA graphs depend on."""
        later = self._substep_inputs(v, again=True)

        def advance(count: int) -> None:
            for _ in range(count):
                self._substep(later, h, contacts)

        for batch in SUBSTEPS_A_GRAPH:
            for _ in range(substeps // batch):
                self._graphs.run(partial(advance, batch), "substeps", batch, *given)
                launch_fused()
            substeps %= batch

    def _prepare(self) -> None:
        """The constants of springs that are the same in all substeps of a step."""
        pairs, rests, compliance, delay, springs, sides = self.springs.arrays
        inputs = [springs, pairs, rests, self._compliance, self._length_before, self._pushes, self._rests]
        launch(find_extensions, len(pairs), [*inputs, self._extensions], device=self.device)
        inputs = [springs, rests, compliance, sides, *self._faces, self._extensions, self._compliance, self._rests]
        launch(follow_triangles, len(pairs), inputs, device=self.device)
        inputs = [pairs, self._compliance, delay, self._length, self._elastics, self._softness]
        launch(prepare_springs, len(pairs), inputs, device=self.device)

    def _substep(self, inputs: tuple[Any, ...], h: float, contacts: SubstepContacts | None) -> None:
        """Free motion, springs, stitches, contacts."""
        springs = self.springs
        items, work = max(self.count, springs.largest), self.count + springs.total
        self._cooperative.launch(advance_substep, items, inputs, work=work)
        self._pull(h)
        if contacts is not None:
            contacts(self._packed, self._before)

    def _substep_inputs(self, v: wp.array, *, again: bool) -> tuple[Any, ...]:
        """The arguments of `advance_substep` for the first or a later substep: a tuple, which `launch` checks only once."""
        springs, air = self.springs, self.air
        colours = (self.count, int(again), springs.colours, springs.starts)
        slots = (springs.arrays[0], self._rests, self._elastics, self._softness, self._pushes, self._blocks)
        forces = (self._push, air.gravity, air.damping, self._length)
        return (*colours, *slots, *forces, v, self._packed, self._before)

    def measure_ahead(self, state: State, dt: float) -> None:
        self.substeps.measure(state, dt)

    def saved(self) -> dict[str, np.ndarray]:
        springs = {name: array.numpy() for name, array in self.kept().items()}
        return {"refined": np.array([self.substeps.refined]), **springs, **self.bending.memory.saved()}

    def restore(self, saved: Mapping[str, np.ndarray]) -> None:
        self.substeps.refined = float(saved["refined"][0])
        self.bending.memory.restore(saved)
        for name, array in self.kept().items():
            array.assign(saved[name])

    def kept(self) -> dict[str, wp.array]:
        """What the springs of the next step depend on, by the names in `saved`."""
        kept = {"rests": self._rests, "pushes": self._pushes, "substep": self._length}
        return kept if self._compliance is self.springs.arrays[2] else {**kept, "compliance": self._compliance}

    def pin(self, state: State) -> None:
        """Let bending know which vertices are pinned now."""
        pins = 0 if self._pins_at is None else self._pins_at(state.time)
        if self.bending.active and pins != self._pins:
            self.bending.pin(self.inverse_mass.numpy()[: self.count] == 0.0)
            self._pins = pins

    def solves(self, dt: float) -> int:
        """How often bending is solved in a step dt."""
        if not self.bending.active:
            return 1
        solves = max(1, math.ceil(dt / LONGEST_BENDING - 1e-9))
        return solves if self.bending.iterations(dt / solves) <= FEW_ITERATIONS else 2 * solves

    def _start(self, state: State, target: wp.array, dt: float, v_start: wp.array) -> None:
        """Pack the vertices, and set what is the same in all substeps of a step."""
        x, v, w = state.x, state.v, self.inverse_mass

        def start() -> None:
            inputs = [x, v, w, target, *self.air.lists, dt, self._length, self._wind, self._push, self._packed, v_start]
            launch(start_step, self.count, inputs, device=self.device)
            self._follow_bends(x)
            self._prepare()

        self._graphs.run(start, "start", dt, x, v, target, v_start)

    def _follow_bends(self, x: wp.array) -> None:
        """Let rest shapes follow the positions at the start of a step, where the material does so."""
        self.bending.memory.follow(x)

    def _bend(self, dt: float, v: wp.array, *, again: bool) -> None:
        """The acceleration by wind and by bending over the next substeps, which take dt together."""
        if not self.bending.active:
            return

        def bend() -> None:
            packed, ahead = self._packed, self._ahead
            forces = [self._length, self._wind, self.air.gravity, self.bending.delay, dt, self._push]
            launch(
                extrapolate_unbent,
                self.count,
                [int(again), v, packed, self._before, *forces, ahead],
                device=self.device,
            )
            self.bending.solve(dt, ahead, self._push)

        self._graphs.run(bend, "bend", dt, self._pins, again, v)

    def _draw_together(self, time: float) -> None:
        """Set how far stitches may be apart at the end of a step."""
        assert self._closing is not None
        self.stitches.arrays[2].assign(self._closing.lengths(time)[self._stitch_order])

    def _pull(self, dt: float) -> None:
        """One sweep over the stitches, for packed vertices that were `_before` dt ago."""
        stitches = self.stitches
        if stitches.total == 0:
            return
        inputs = [stitches.colours, stitches.starts, *stitches.arrays, dt, self._before, self._packed]
        self._cooperative.launch(pull_stencils, stitches.largest, inputs, work=stitches.total)


def delays_of(network: SpringNetwork) -> np.ndarray:
    """The damping time of each spring in s."""
    stiff = network.stiffness > 0.0
    delays = np.divide(network.damping, network.stiffness, where=stiff, out=np.zeros(len(stiff)))
    return np.minimum(delays, LONGEST_DELAY)

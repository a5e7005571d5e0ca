"""Position-based cloth of several worlds in the same launches; each world moves as alone, to the byte.

Springs keep the lines and colours that they have alone: batches of the same colour of all worlds lie side by side, which also
fills the SIMD lanes that small cloth leaves idle. Each world has its own number of substeps. All worlds take as many as the one
that needs most, between two solves of bending; what a world has after its own last one is kept aside until the others are done.
Bending has the matrices of the worlds side by side, and the number of iterations that each has alone.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.dynamics.air import Air
from weft.dynamics.position_based.kernels import change_and_strain
from weft.dynamics.position_based.model import ColouredConstraints, PositionBased
from weft.dynamics.position_based.spring_lines import BATCH, SIMD_BATCHES, SLOTS_A_THREAD
from weft.methods.joined.bending import JoinedBending
from weft.methods.joined.world import JoinedWorld
from weft.runtime import launch
from weft.runtime.buffers import AsyncReadback, Buffer
from weft.world import State

wp.set_module_options({"enable_backward": False})

Ints = NDArray[np.int64]

# threads that measure the edges of a world
MEASURING_THREADS = wp.constant(32)
# cost of a substep of a world that is taken together with others, as a fraction of that of one taken alone: 10 of 27
# microseconds where cloth has 20 x 20 cells
COST_TOGETHER = 0.4


@wp.kernel
def find_worst_edges_each(
    first: int,
    begins: wp.array[int],
    slots: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    worst: wp.array[wp.vec2d],
):
    """The largest relative change of length and the largest strain in each world, whose slots begin at `begins` (see
    `find_worst_edges`); `MEASURING_THREADS` threads have a share of them each."""
    i = first + wp.tid()
    world = i // MEASURING_THREADS
    found = wp.vec2d()
    for k in range(begins[world] + i % MEASURING_THREADS, begins[world + 1], MEASURING_THREADS):
        slot = slots[k]
        found = wp.max(found, change_and_strain(pairs[slot], rest[slot], compliance[slot], inverse_mass, x, v, h))
    worst[i] = found


@wp.kernel
def spread_lengths(first: int, of_world: wp.array[wp.float64], world: wp.array[int], lengths: wp.array[wp.float64]):
    """Give each vertex the length of a substep of its world."""
    i = first + wp.tid()
    lengths[i] = of_world[world[i]]


@wp.func
def is_among(world: int, least: int, most: int, counts: wp.array[int]) -> bool:
    """Whether a world has so many substeps."""
    result = bool(False)
    if world >= 0:
        result = counts[world] >= least and counts[world] <= most
    return result


@wp.kernel
def copy_vertices(
    first: int,
    least: int,
    most: int,
    counts: wp.array[int],
    world: wp.array[int],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p_kept: wp.array[wp.vec4d],
    before_kept: wp.array[wp.vec4d],
):
    """Copy packed vertices of the worlds that have `least` to `most` substeps."""
    i = first + wp.tid()
    if is_among(world[i], least, most, counts):
        p_kept[i] = p[i]
        before_kept[i] = before[i]


@wp.kernel
def copy_pushes(
    first: int,
    least: int,
    most: int,
    counts: wp.array[int],
    world: wp.array[int],
    pushes: wp.array[wp.float64],
    kept: wp.array[wp.float64],
):
    """Copy the pushes of the springs of worlds that have `least` to `most` substeps."""
    i = first + wp.tid()
    if is_among(world[i], least, most, counts):
        kept[i] = pushes[i]


@wp.kernel
def copy_corrections(
    first: int,
    least: int,
    most: int,
    counts: wp.array[int],
    world: wp.array[int],
    size: wp.array[int],
    vertices: wp.array[wp.vec4i],
    corrections: wp.array[wp.vec3d],
    kept: wp.array[wp.vec3d],
):
    """Copy the corrections of the contacts of worlds that have `least` to `most` substeps."""
    i = first + wp.tid()
    if i < size[0] and is_among(world[vertices[i][0]], least, most, counts):
        kept[i] = corrections[i]


class JoinedPositionBased(PositionBased):
    """The cloth of several worlds, from the models that they have alone."""

    def __init__(self, models: Sequence[PositionBased], world: JoinedWorld) -> None:
        """The models have no seams, rest shapes that stay as they are, and springs that are limited in stretch all or none."""
        device = world.device
        self.models, self.count, self.device = list(models), world.vertex_count, device
        self.inverse_mass, self.air = world.inverse_mass, Air.from_world(world)
        self.of_vertex = wp.array(world.world_of_vertex, dtype=int, device=device)
        """the world of each vertex"""
        self.springs, self.slot_world, self.slot = self._join_springs(world)
        self.of_slot = wp.array(self.slot_world, dtype=int, device=device)
        self._faces = self._join_faces()
        limited = len(self._faces[2]) > 0
        self._make_buffers(sum(len(model._extensions) for model in models), limited=limited, lengths=self.count)
        self._closing = None
        self.stitches = ColouredConstraints(np.zeros(1, np.int32), wp.zeros(1, dtype=int, device=device), ())
        self.bending: Any = JoinedBending([model.bending for model in models], world, self.of_vertex)
        self._pins = 0
        used = np.flatnonzero(self.springs.arrays[0].numpy()[:, 0] >= 0)
        used = used[np.argsort(self.slot_world[used], kind="stable")]
        begins = np.searchsorted(self.slot_world[used], np.arange(len(models) + 1))
        self._measured = [wp.array(values, dtype=int, device=device) for values in (begins, used)]
        self._worst = wp.zeros(int(MEASURING_THREADS) * len(models), dtype=wp.vec2d, device=device)
        self._requested = AsyncReadback(self._worst)
        self._kept_vertices = [wp.zeros_like(self._packed) for _ in range(2)]
        self._kept_pushes = wp.zeros_like(self._pushes)
        self._kept_corrections = Buffer(wp.vec3d, device)
        self._counts = wp.zeros(len(models), dtype=int, device=device)
        self._of_world = wp.zeros(len(models), dtype=wp.float64, device=device)
        self._substeps_between: Ints = np.zeros(len(models), np.int64)
        """how many substeps each world takes between two solves of bending"""

    def _join_springs(self, world: JoinedWorld) -> tuple[ColouredConstraints, Ints, Ints]:
        """The springs of all worlds, and for each slot its world and its number there; sets the blocks of groups of batches.

        The groups of lines of several blocks stay as they are; batches of other lines fill new groups, world after world.
        """
        lists = [[array.numpy() for array in model.springs.arrays] for model in self.models]
        columns: list[list[np.ndarray]] = [[], [], []]
        offsets = [0]
        for colour in range(max(model.springs.colours for model in self.models)):
            found = [_batches(model, arrays[0], colour) for model, arrays in zip(self.models, lists, strict=True)]
            blocks = [np.concatenate([one.blocks for one in found])]
            batches = [np.concatenate([getattr(one, name) for one in found]) for name in ("long", "short")]
            of = [
                np.repeat(np.arange(len(found)), [len(getattr(one, name)) for one in found])
                for name in ("long", "short")
            ]
            padding = -len(batches[1]) % SIMD_BATCHES
            blocks.append(np.ones((len(batches[1]) + padding) // SIMD_BATCHES, np.int32))
            slots = np.concatenate([*batches, np.zeros((padding, BATCH), np.int64)])
            worlds = np.concatenate([*of, np.full(padding, -1)])[:, None] * np.ones(BATCH, np.int64)
            if self.device.is_cpu:
                slots, worlds = (_interleaved(values) for values in (slots, worlds))
            for column, values in zip(columns, (worlds, slots, np.concatenate(blocks)), strict=True):
                column.append(values.ravel())
            offsets.append(offsets[-1] + slots.size)
        slot_world, slot, group_blocks = (np.concatenate([np.zeros(0, np.int64), *column]) for column in columns)
        self._blocks = wp.array(group_blocks, dtype=int, device=self.device)
        arrays = self._gather_springs(world, lists, slot_world, slot)
        starts = (np.array(offsets) // (1 if self.device.is_cpu else SLOTS_A_THREAD)).astype(np.int32)
        return ColouredConstraints(starts, wp.array(starts, dtype=int, device=self.device), arrays), slot_world, slot

    def _gather_springs(
        self, world: JoinedWorld, lists: list[list[np.ndarray]], slot_world: Ints, slot: Ints
    ) -> tuple[wp.array, ...]:
        """The arrays of all slots, with the numbers that vertices, springs and triangles have together."""
        springs = np.cumsum([0, *(len(model._extensions) for model in self.models)])
        faces = np.cumsum([0, *(len(model._faces[0]) for model in self.models)])
        starts = np.cumsum([0, *(len(arrays[0]) for arrays in lists)])
        empty = slot_world < 0
        own = np.where(empty, 0, slot_world)
        source = np.where(empty, 0, starts[own] + slot)
        pairs, rest, compliance, delay, spring, sides = (
            np.concatenate(columns)[source] for columns in zip(*lists, strict=True)
        )
        pairs = np.where((pairs < 0) | empty[:, None], -1, world.place[own[:, None], np.maximum(pairs, 0)])
        spring = np.where((spring < 0) | empty, -1, spring + springs[own])
        sides = np.where(sides < 0, -1, sides + 3 * faces[own][:, None])
        types = (wp.vec2i, wp.float64, wp.float64, wp.float64, int, wp.vec2i)
        values = (pairs.astype(np.int32), rest, compliance, delay, spring.astype(np.int32), sides.astype(np.int32))
        return tuple(wp.array(array, dtype=kind, device=self.device) for array, kind in zip(values, types, strict=True))

    def _join_faces(self) -> tuple[wp.array, ...]:
        """The springs and tensors of the triangles of all worlds."""
        starts = np.cumsum([0, *(len(model._extensions) for model in self.models)])
        springs = [
            model._faces[0].numpy().reshape(-1, 3) + start for model, start in zip(self.models, starts, strict=False)
        ]
        tensors = [np.concatenate([model._faces[k].numpy() for model in self.models]) for k in (1, 2)]
        joined = np.concatenate(springs).astype(np.int32)
        return (
            wp.array(joined, dtype=wp.vec3i, device=self.device),
            *(wp.array(values.reshape(-1, 3, 3), dtype=wp.mat33d, device=self.device) for values in tensors),
        )

    def _follow_bends(self, x: wp.array) -> None:
        """Rest shapes stay as they are."""

    def measure_ahead(self, state: State, dt: float) -> None:
        least = self.models[0].substeps.least(dt)

        def measure() -> None:
            inputs = [*self._measured, *self.springs.arrays[:3], self.inverse_mass, state.x, state.v, dt / least]
            launch(find_worst_edges_each, len(self._worst), [*inputs, self._worst], device=self.device, grain=64)
            self._requested.copy_to_host()

        self._graphs.run(measure, "measure", state.x, state.v, dt)
        self._requested.mark_launched()

    def count_substeps(self, solves: int, dt: float, touched: NDArray[np.bool_], chosen: Ints) -> Ints:
        """(w,) how many substeps of dt each chosen world takes, where it is touched or not; the others take as few.

        Those that take so many more that they cost less alone get none.
        """
        worst = self._requested.values().reshape(len(self.models), int(MEASURING_THREADS), 2).max(axis=1)
        substeps = np.zeros(len(self.models), np.int64)
        for k in chosen.tolist():
            wanted = self.models[k].substeps.refine(*worst[k].tolist(), dt, touched=bool(touched[k]))
            substeps[k] = solves * -(-wanted // solves)
        substeps[substeps == 0] = substeps[chosen].min()
        substeps[substeps > most_together(substeps)] = 0
        return substeps

    def propose_each(
        self,
        state: State,
        target: wp.array,
        dt: float,
        ends: tuple[wp.array, wp.array],
        contacts: Any,
        solves: int,
        substeps: Ints,
    ) -> wp.array:
        """Propose the end of a step with so many substeps in each world; gives the length of a substep at each vertex."""
        substeps = np.where(substeps > 0, substeps, substeps.max())
        self._substeps_between = substeps // solves
        self._counts.assign(self._substeps_between.astype(np.int32))
        self.bending.prepare(dt / solves)
        self._pins = self.bending.version
        self.air.blow(state.x, state.v, state.time, dt)
        wp.copy(self._length_before, self._length)
        self._of_world.assign(dt / substeps)
        launch(spread_lengths, self.count, [self._of_world, self.of_vertex, self._length], device=self.device)
        self._take_solves(state, target, dt, (solves, int(substeps.max())), ends, contacts)
        return self._length

    def _take_more(self, substeps: int, h: float, v: wp.array, contacts: Any, given: tuple[Any, ...]) -> None:
        """All further substeps of each world; those that are done before others wait for them."""
        done, (*fewer, most) = 1, np.unique(self._substeps_between).tolist()
        for count in fewer:
            super()._take_more(count - done, h, v, contacts, given)
            self._copy_worlds(count, count, contacts, back=False)
            done = count
        super()._take_more(most - done, h, v, contacts, given)
        if fewer:
            self._copy_worlds(0, fewer[-1], contacts, back=True)

    def _copy_worlds(self, least: int, most: int, contacts: Any, *, back: bool) -> None:
        """Keep what the worlds have that take so many substeps, or take it back."""

        def run(kernel: wp.Kernel, given: list[Any], now: list[wp.array], kept: list[wp.array]) -> None:
            inputs = [least, most, self._counts, *given, *(kept + now if back else now + kept)]
            launch(kernel, len(now[0]), inputs, device=self.device)

        run(copy_vertices, [self.of_vertex], [self._packed, self._before], self._kept_vertices)
        run(copy_pushes, [self.of_slot], [self._pushes], [self._kept_pushes])
        if len(contacts):
            found = contacts.contacts
            kept = self._kept_corrections.at_least(len(found.corrections))
            given = [self.of_vertex, found.size, found.vertices]
            inputs = [found.corrections, kept] if not back else [kept, found.corrections]
            inputs = [least, most, self._counts, *given, *inputs]
            launch(copy_corrections, found.launch_bound, inputs, device=self.device)


def most_together(substeps: Ints) -> int:
    """The most substeps of worlds that are worth a step together: each world costs as many, and those with more go alone."""
    counts = np.unique(substeps)
    alone = np.array([substeps[substeps > most].sum() for most in counts])
    return int(counts[np.argmin(COST_TOGETHER * len(substeps) * counts + alone)])


class Batches(NamedTuple):
    """The batches of a colour in a world, as the numbers of their slots."""

    long: Ints
    """(b, BATCH) of groups with lines of several blocks"""
    blocks: NDArray[np.int32]
    """(b / SIMD_BATCHES,) how many blocks these groups have (see `SpringLines`)"""
    short: Ints
    """(b, BATCH) of all other groups, without empty ones"""


def _batches(model: PositionBased, pairs: np.ndarray, colour: int) -> Batches:
    """Those of a model whose slots have these pairs of vertices."""
    group = BATCH * SIMD_BATCHES
    if colour < model.springs.colours:
        begin, end = model.springs.offsets[colour : colour + 2] * (1 if model.device.is_cpu else SLOTS_A_THREAD)
    else:
        begin = end = 0
    slots = np.arange(begin, end)
    slots = slots.reshape(-1, BATCH, SIMD_BATCHES).swapaxes(1, 2) if model.device.is_cpu else slots
    slots = slots.reshape(-1, SIMD_BATCHES, BATCH)
    blocks = model._blocks.numpy()[begin // group : end // group]
    short = slots[blocks == 1].reshape(-1, BATCH)
    return Batches(
        slots[blocks != 1].reshape(-1, BATCH), blocks[blocks != 1], short[(pairs[short, 0] >= 0).any(axis=1)]
    )


def _interleaved(batches: np.ndarray) -> np.ndarray:
    """Slots in the order in which the CPU reads them (see `PositionBased._upload_lines`)."""
    return batches.reshape(-1, SIMD_BATCHES, BATCH).swapaxes(1, 2)

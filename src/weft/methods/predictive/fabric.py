"""The springs and hinges of cloth as constraints on positions (XPBD, Macklin et al. 2016), in the order in which they are
solved: colour by colour, or part by part where each block of a card has its own. What each does is in `fabric_constraints`.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, from_world
from weft.methods.predictive.fabric_constraints import hinge_softness, largest_stretch, prepare_pair, prepare_quad
from weft.methods.predictive.partition_order import PartOrder, make_parts, order_in_parts
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import SMALL_BLOCK
from weft.world import World

wp.set_module_options({"enable_backward": False})


@wp.kernel
def measure_stretch(
    first: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
    found: wp.array[wp.float64],
):
    """The largest stretch of the springs, an equal share of them an item."""
    i = first + wp.tid()
    share = (count + found.shape[0] - 1) / found.shape[0]
    found[i] = largest_stretch(i * share, wp.min((i + 1) * share, count), pairs, springs, x)


@wp.kernel
def prepare_pairs(
    first: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    per_h: wp.float64,
    inverse_mass: wp.array[wp.float64],
    moves: wp.array2d[wp.float64],
):
    """What the springs of a step share in all its substeps."""
    prepare_pair(first + wp.tid(), pairs, springs, per_h, inverse_mass, moves)


@wp.kernel
def prepare_quads(
    first: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    stitches: int,
    substeps: int,
    prediction: int,
    per_h: wp.float64,
    inverse_mass: wp.array[wp.float64],
    moves: wp.array[wp.vec4d],
):
    """What stitches and hinges share."""
    softness = hinge_softness(substeps, prediction, per_h)
    prepare_quad(first + wp.tid(), quads, weights, springs, stitches, per_h, softness, inverse_mass, moves)


@wp.struct
class Stages:
    """Where constraints in parts lie, as `PartOrder` has them: of springs, or of stitches and then of hinges."""

    starts: wp.array[int]
    """of each colour of each block; of each kind those within parts, then those across"""
    tables: wp.array[int]
    """where each of these four begins in `starts`"""
    colours: wp.array[int]
    """that each of them has"""
    far: wp.array[wp.vec2i]
    """begin and end of each colour of what is left"""
    firm: int
    """how many of these colours are of the first kind"""


@dataclass
class Coloured:
    """Constraints in the order of their colours, and `offsets` are where each colour starts; or in the order of parts."""

    arrays: tuple[wp.array, ...]
    offsets: np.ndarray
    """of one colour that is none, where constraints are in parts"""
    pull: wp.array

    @cached_property
    def starts(self) -> wp.array:
        """The offsets on the device."""
        return wp.array(self.offsets, dtype=int, device=self.pull.device)

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    @property
    def largest(self) -> int:
        """The size of the largest colour."""
        return int(np.diff(self.offsets).max(initial=0))


class Fabric:
    """The springs and hinges of all cloths of a world, coloured, on the device."""

    def __init__(self, world: World, *, blocks: int = 0) -> None:
        """Given how many blocks of threads share a sweep, in the order of parts, else in that of colours."""
        self.device = world.device
        network = from_world(world)
        count = self._vertex_count = world.cloth_vertex_count

        # the hinge's stencil bends alone: the spring between opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        self.parts = make_parts([network.pairs[keep], network.quads], count, blocks) if blocks else None
        """of the vertices"""
        self.stages: list[Any] = []
        """of springs, and of stitches and hinges, where they are in parts"""
        chosen, offsets = self._put_in_order([keep], network.pairs)
        springs = _springs(network.rest, network.stiffness, network.damping, chosen)
        self._stretch_springs = springs
        self.stretch = Coloured(
            (self._upload(network.pairs[chosen], wp.vec2i), self._upload(springs, wp.vec3d)),
            offsets,
            wp.zeros(len(chosen), dtype=wp.float64, device=self.device),
        )
        # stitches come first: they are as stiff as springs, and solved as often
        firm = network.quad_stiffness > 0.0
        sewn, others = np.flatnonzero(firm & network.sewn), np.flatnonzero(firm & ~network.sewn)
        chosen, offsets = self._put_in_order([sewn, others], network.quads, network.quad_rest > 0.0)
        self.stitches = len(sewn)
        self.stitch_colours = int(np.searchsorted(offsets, len(sewn)))
        springs = _springs(network.quad_rest, network.quad_stiffness, network.quad_damping, chosen)
        self._bend_springs = springs
        arrays = (
            self._upload(network.quads[chosen], wp.vec4i),
            self._upload(network.weights[chosen], wp.vec4d),
            self._upload(springs, wp.vec3d),
        )
        self.bend = Coloured(arrays, offsets, wp.zeros(len(chosen), dtype=wp.vec4d, device=self.device))
        self.moves = [wp.zeros(len(chosen), dtype=wp.vec4d, device=self.device) for _ in range(2)]
        """of the hinges, in a step and in its prediction, which has other substeps"""
        # four springs at once ask for these, which only a CPU does
        room = self.stretch.count if self.device.is_cpu else 0
        self.pair_moves = [wp.zeros((3, room + 4), dtype=wp.float64, device=self.device) for _ in range(2)]
        # shares of the springs that are measured each by a thread
        self._found = wp.zeros(1 if self.device.is_cpu else 1024, dtype=wp.float64, device=self.device)
        self.prepared = wp.zeros(2, dtype=wp.vec2d, device=self.device)
        """1/h and softness for which each of them was prepared, 0 for none; only a serial step asks"""

    def scale(self, stretch: float, bend: float) -> None:
        """Make the cloth so many times as stiff as its material against stretching and shearing, and bending."""
        self.stretch.arrays[-1].assign(self._stretch_springs / [1.0, stretch, 1.0])
        self.bend.arrays[-1].assign(self._bend_springs / [1.0, bend, 1.0])
        self.prepared.zero_()

    def prepare(self, substeps: int, per_h: float, inverse_mass: wp.array, *, prediction: bool = False) -> None:
        """What springs and hinges need in so many substeps of h, before they are swept over."""
        if self.device.is_cpu:
            inputs = [*self.stretch.arrays, per_h, inverse_mass, self.pair_moves[prediction]]
            launch(prepare_pairs, self.stretch.count, inputs)
        inputs = [*self.bend.arrays, self.stitches, substeps, int(prediction), per_h]
        inputs += [inverse_mass, self.moves[prediction]]
        launch(prepare_quads, self.bend.count, inputs, device=self.device)

    def largest_stretch(self, x: wp.array) -> float:
        """How much longer than at rest a spring is at most, in parts of its length."""
        if self.stretch.count == 0:
            return 0.0
        launch(
            measure_stretch,
            len(self._found),
            [self.stretch.count, *self.stretch.arrays, x, self._found],
            device=self.device,
            grain=1,
        )
        return float(self._found.numpy().max())

    def _put_in_order(
        self, kinds: list[np.ndarray], items: np.ndarray, bent: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Those of the items that are chosen, kind after kind in the order of colours or parts, and where colours start.

        Where items are in parts their offsets are those of one colour that is none. What is not bent comes first in a colour: a
        processor guesses what comes next.
        """
        orders: list[np.ndarray] = []
        offsets: list[np.ndarray] = [np.zeros(1, np.int32)]
        found: list[PartOrder] = []
        for some in kinds:
            done = sum(map(len, orders))
            if self.parts is not None:
                found.append(order_in_parts(items[some], self.parts, most=SMALL_BLOCK))
                orders.append(some[found[-1].order])
                continue
            order, starts = colour_items(items[some], self._vertex_count)
            if bent is not None:
                colour = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
                order = order[np.lexsort((bent[some][order], colour))]
            orders.append(some[order])
            offsets.append(done + starts[1:])
        chosen = np.concatenate(orders)
        if found:
            self.stages.append(self._make_stages(found))
            offsets.append(np.array([len(chosen)] if len(chosen) else [], np.int32))
        return chosen, np.concatenate(offsets).astype(np.int32)

    def _make_stages(self, kinds: list[PartOrder]) -> Any:
        """What kernels take of items of some kinds, one after another."""
        assert self.parts is not None
        done = np.cumsum([0, *(len(found.order) for found in kinds)])
        starts = [base + found.starts for base, found in zip(done, kinds, strict=False)]
        far = [
            base + np.stack([found.far[:-1], found.far[1:]], axis=1) for base, found in zip(done, kinds, strict=False)
        ]
        colours = np.concatenate([found.colours for found in kinds])
        stages: Any = Stages()
        stages.starts = self._upload(np.concatenate(starts), int)
        stages.tables = self._upload(np.cumsum([0, *(self.parts.blocks * colours + 1)])[:-1], int)
        stages.colours = self._upload(colours, int)
        stages.far, stages.firm = self._upload(np.concatenate(far), wp.vec2i), len(far[0])
        return stages

    def _upload(self, values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)


def _springs(rest: np.ndarray, stiffness: np.ndarray, damping: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rest length, compliance and delay of the chosen springs; a weld has neither compliance nor delay."""
    rest, stiffness, damping = rest[chosen], stiffness[chosen], damping[chosen]
    return np.stack([rest, 1.0 / stiffness, damping / stiffness], axis=1)

"""Impulses over stencils: Gauss-Seidel on velocities until no pair approaches faster than it may.

An impulse j along a direction d changes the velocity of corner k by (j w_k / m_k) d, so that momentum is conserved by
the weights' sum of zero. Each stencil remembers the impulse it has given; it can be taken back, but the normal part
never pulls. Sweeps go colour by colour: on one thread, on many or on a GPU, the bytes are the same. The contacts of a step
lie in memory in the order of their colours; the fewer rows that come later have colours of their own behind them, so that
the many need not be coloured again.
"""

from collections.abc import Sequence
from typing import Any

import warp as wp

from weft.contact.impulse_sweeps import put_in_order, solve_together
from weft.contact.stencil_colours import COLOURS, StencilColouring
from weft.contact.stencil_lists import StencilRows
from weft.runtime import launch
from weft.runtime.buffers import Buffer, allocation_epoch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache

__all__ = ["COLOURS", "ImpulseRows", "ImpulseSolver"]


class ImpulseRows(StencilRows):
    """Stencils with the impulses they have given so far."""

    def __init__(self, device: wp.Device) -> None:
        super().__init__(device)
        self._speeds, self._friction = Buffer(wp.float64, device), Buffer(wp.vec2d, device)
        self._push, self._drag = Buffer(wp.float64, device), Buffer(wp.vec3d, device)
        self._distances, self._gains = Buffer(wp.float64, device), Buffer(wp.vec4d, device)
        self._geometry = list(self._all)
        self._all += [self._speeds, self._friction, self._push, self._drag, self._distances]
        # what rows are put in order into; then these are the rows
        self._ordered = [Buffer(dtype, device) for dtype in (wp.vec4i, wp.vec4d, wp.vec3d, wp.float64, wp.float64)]
        self._in_order = False

    @property
    def speeds(self) -> wp.array:
        """float64: least normal velocity of each pair"""
        return self._speeds.array

    @property
    def friction(self) -> wp.array:
        """vec2d: static and kinetic coefficient"""
        return self._friction.array

    @property
    def push(self) -> wp.array:
        """float64: normal impulse given so far"""
        return self._push.array

    @property
    def drag(self) -> wp.array:
        """vec3d: tangential impulse given so far"""
        return self._drag.array

    @property
    def distances(self) -> wp.array:
        """float64: the gap that a contact keeps in the substeps of position-based dynamics"""
        return self._distances.array

    @property
    def impulses(self) -> list[wp.array]:
        """Speeds, friction, push, drag."""
        return [self.speeds, self.friction, self.push, self.drag]

    @property
    def gains(self) -> wp.array:
        """vec4d: what each corner does for the two sides to part by one; of rows that were put in order"""
        return self._gains.array

    def clear(self) -> None:
        super().clear()
        # rows are always found in the same arrays, and put in order into the same
        if self._in_order:
            self._change_places()

    def room_in_order(self) -> list[wp.array]:
        """Where the geometry of all rows goes when they are put in order, and their gains."""
        return [buffer.at_least(self.most) for buffer in (*self._ordered, self._gains)]

    def take_order(self) -> None:
        """Be what was put in order; of impulses nothing is known yet."""
        self._change_places()

    def _change_places(self) -> None:
        self._in_order = not self._in_order
        for one, other in zip(self._geometry, self._ordered, strict=True):
            one.array, other.array = other.array, one.array


class ImpulseSolver:
    """Gauss-Seidel over rows; buffers are kept between steps."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array) -> None:
        self.inverse_mass = inverse_mass
        self.device = wp.get_device(inverse_mass.device)
        self._colouring = StencilColouring(vertex_count, inverse_mass)
        self._cooperative = CooperativeLauncher(self.device)
        # velocities and inverse masses side by side
        self._rows = wp.zeros(vertex_count, dtype=wp.vec4d, device=self.device)
        self.placed = 0
        """rows that lie in the order of their colours"""
        self.offsets = wp.zeros_like(self._colouring.offsets)
        """where their colours begin"""
        self._graphs = GraphCache(self.device)

    def place(self, rows: ImpulseRows) -> None:
        """Put all rows in the order of their colours, before it is set what they ask of velocities and positions.

        So sweeps go through memory from front to back. Rows that come after them need `colour`.
        """
        self.placed, most = rows.count, rows.most
        found, room = rows.geometry, rows.room_in_order()

        def put() -> None:
            self._colouring.colour(found[0], most, self.offsets, rows.sizes)
            if self.device.is_cpu:
                self._colouring.gather(found[0], most, self.offsets)
            *ordered, gains = room
            inputs = [rows.sizes, self._colouring.order, *found, *ordered, self.inverse_mass, gains]
            launch(put_in_order, most, inputs, device=self.device)

        self._graphs.run(put, "place", most, found[0], allocation_epoch())
        rows.take_order()

    def colour(self, rows: ImpulseRows) -> None:
        """Find the order of the rows after the placed ones by colour; needed once after they change."""
        later = rows.count - self.placed
        self._colouring.colour(rows.vertices[self.placed : rows.count] if self.placed else rows.vertices, later)

    def sweep(self, rows: ImpulseRows, v: wp.array, sweeps: int) -> None:
        """Solve all rows a number of times, in the order of their colours."""
        later = int(rows.count > self.placed)
        colouring, most = self._colouring, rows.most
        inputs = [sweeps, self.offsets, later, colouring.offsets, colouring.order]
        inputs += [rows.vertices, rows.weights, rows.normals, *rows.impulses, self.inverse_mass, v, self._rows]
        given = ("sweep", sweeps, later, most, v, rows.vertices, allocation_epoch())
        self._graphs.run(lambda: self.run(most, solve_together, inputs, sweeps), *given)

    def threads_for(self, count: int) -> int:
        """With how many threads so many rows are swept."""
        return self._cooperative.threads_for(count)

    def run(self, count: int, kernel: wp.Kernel, inputs: Sequence[Any], sweeps: int = 1) -> None:
        """Sweeps over `count` coloured rows in one launch."""
        self._cooperative.launch(kernel, count, inputs, work=sweeps * count)

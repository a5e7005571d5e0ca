"""Impulses at contacts and collisions: Gauss-Seidel on velocities until no pair approaches faster than it may.

An impulse j along a direction d changes the velocity of vertex k of a stencil by (j w_k / m_k) d; momentum is conserved
since the weights sum to zero. Each contact accumulates the impulse that it has given and may take it back, but never
pulls. Sweeps go colour by colour, so that one thread, many threads and a GPU give the same bytes. The contacts of a step
are stored in the order of their colours; the fewer collisions that are found later are appended with colours of their
own, so that the many contacts need not be coloured again.
"""

from collections.abc import Sequence
from typing import Any

import warp as wp

from weft.contact.execution_plan import ExecutionPlan
from weft.contact.impulse_sweeps import reorder_contacts, sweep_impulses
from weft.contact.stencil_colours import COLOURS, StencilColouring
from weft.runtime import launch
from weft.runtime.buffers import Buffer, LaunchBound, allocation_epoch
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache

wp.set_module_options({"enable_backward": False})

__all__ = ["COLOURS", "ContactList", "ImpulseSolver"]


@wp.kernel
def _write_size(first: int, count: int, size: wp.array[int]):
    i = first + wp.tid()
    size[i] = count


class ContactList:
    """Contacts and collisions of a step as stencils in device arrays that grow; the first `count` entries are in use.

    The search fills in the geometry (four vertices, weights, normal, gap, thickness), `set_repulsion` what each entry
    asks for, and the sweeps the impulses.
    """

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.count = 0
        self._launch_bound = LaunchBound(device)
        self.size = wp.zeros(1, dtype=int, device=device)
        """`count` for kernels"""
        geometry = (wp.vec4i, wp.vec4d, wp.vec3d, wp.float64, wp.float64)
        self._geometry = [Buffer(dtype, device) for dtype in geometry]
        # the other half of a double buffer, into which contacts are reordered
        self._reordered = [Buffer(dtype, device) for dtype in geometry]
        self._is_reordered = False
        self._impulses = [Buffer(dtype, device) for dtype in (wp.float64, wp.vec2d, wp.float64, wp.vec3d)]
        self._kept_distances, self._gains = Buffer(wp.float64, device), Buffer(wp.vec4d, device)

    @property
    def vertices(self) -> wp.array:
        """vec4i: point and triangle corners, or the ends of two edges"""
        return self._geometry[0].array

    @property
    def weights(self) -> wp.array:
        """vec4d, sum zero"""
        return self._geometry[1].array

    @property
    def normals(self) -> wp.array:
        """vec3d, from the second side to the first"""
        return self._geometry[2].array

    @property
    def gaps(self) -> wp.array:
        """float64: gap along the normal at the start of the step, in m"""
        return self._geometry[3].array

    @property
    def thickness(self) -> wp.array:
        """float64: the gap that is wanted at the end of the step, in m"""
        return self._geometry[4].array

    @property
    def geometry(self) -> list[wp.array]:
        """Vertices, weights, normals, gaps, thickness."""
        return [buffer.array for buffer in self._geometry]

    @property
    def least_speeds(self) -> wp.array:
        """float64: the least relative normal velocity that the contact accepts, in m/s"""
        return self._impulses[0].array

    @property
    def friction(self) -> wp.array:
        """vec2d: static and kinetic coefficient"""
        return self._impulses[1].array

    @property
    def normal_impulses(self) -> wp.array:
        """float64: accumulated, not negative"""
        return self._impulses[2].array

    @property
    def tangential_impulses(self) -> wp.array:
        """vec3d: accumulated"""
        return self._impulses[3].array

    @property
    def impulses(self) -> list[wp.array]:
        """Least speeds, friction, normal impulses, tangential impulses."""
        return [buffer.array for buffer in self._impulses]

    @property
    def kept_distances(self) -> wp.array:
        """float64: the gap that a contact keeps in the substeps of position-based dynamics, in m"""
        return self._kept_distances.array

    @property
    def gains(self) -> wp.array:
        """vec4d: the move of each vertex along the normal that moves the sides apart by one; of reordered contacts"""
        return self._gains.array

    @property
    def launch_bound(self) -> int:
        """Items of launches whose kernels read `size`: on CUDA this seldom changes, so that graphs can be reused."""
        return self._launch_bound.for_count(self.count)

    def clear(self) -> None:
        """No contacts. New ones are always written to the same half of the double buffer, for the sake of CUDA graphs."""
        self.count = 0
        if self._is_reordered:
            self._swap()

    def grow(self, count: int) -> None:
        """Make room for `count` contacts; those in use stay."""
        bound = self._launch_bound.for_count(count)
        for buffer in (*self._geometry, *self._impulses, self._kept_distances):
            buffer.at_least(bound, keep=self.count)
        self.count = count
        launch(_write_size, 1, [count, self.size], device=self.device)

    def reordering_buffers(self) -> list[wp.array]:
        """Where `reorder_contacts` writes the geometry of all contacts, and their gains."""
        return [buffer.at_least(self.launch_bound) for buffer in (*self._reordered, self._gains)]

    def take_reordered(self) -> None:
        """Use what was reordered; impulses are not set yet."""
        self._swap()

    def _swap(self) -> None:
        self._is_reordered = not self._is_reordered
        for one, other in zip(self._geometry, self._reordered, strict=True):
            one.array, other.array = other.array, one.array


class ImpulseSolver:
    """Gauss-Seidel over a `ContactList`; buffers are kept between steps."""

    def __init__(self, vertex_count: int, inverse_mass: wp.array, plan: ExecutionPlan | None = None) -> None:
        self.inverse_mass = inverse_mass
        self.device = wp.get_device(inverse_mass.device)
        self.plan = plan or ExecutionPlan.for_device(self.device)
        by_dependencies = self.plan.colour_by_dependencies
        self._colouring = StencilColouring(vertex_count, inverse_mass, by_dependencies=by_dependencies)
        self._cooperative = CooperativeLauncher(self.device)
        # packed vertices: velocities and inverse masses
        self._packed = wp.zeros(vertex_count, dtype=wp.vec4d, device=self.device)
        self.ordered = 0
        """contacts that are stored in the order of their colours"""
        self.offsets = wp.zeros_like(self._colouring.offsets)
        """where their colours begin"""
        self._graphs = GraphCache(self.device)

    def order_by_colour(self, contacts: ContactList) -> None:
        """Store all contacts in the order of their colours, so that sweeps go through memory from front to back.

        To be called before it is set what they ask for. Contacts that are appended later need `colour_appended`.
        """
        self.ordered, bound = contacts.count, contacts.launch_bound
        found, buffers = contacts.geometry, contacts.reordering_buffers()

        def reorder() -> None:
            self._colouring.colour(found[0], bound, self.offsets, contacts.size)
            if self.plan.sort_colours_by_region:
                self._colouring.sort_by_region(found[0], bound, self.offsets)
            *reordered, gains = buffers
            inputs = [contacts.size, self._colouring.order, *found, *reordered, self.inverse_mass, gains]
            launch(reorder_contacts, bound, inputs, device=self.device)

        self._graphs.run(reorder, "order by colour", bound, found[0], allocation_epoch())
        contacts.take_reordered()

    def colour_appended(self, contacts: ContactList) -> None:
        """Colour the contacts behind the ordered ones; needed once after they change."""
        vertices = contacts.vertices[self.ordered : contacts.count] if self.ordered else contacts.vertices
        self._colouring.colour(vertices, contacts.count - self.ordered)

    def sweep(self, contacts: ContactList, v: wp.array, sweeps: int) -> None:
        """Solve all contacts a number of times, colour by colour; changes the velocities v and the accumulated impulses."""
        any_appended = int(contacts.count > self.ordered)
        colouring, bound = self._colouring, contacts.launch_bound
        inputs = [sweeps, self.offsets, any_appended, colouring.offsets, colouring.order]
        inputs += [contacts.vertices, contacts.weights, contacts.normals, *contacts.impulses]
        inputs += [self.inverse_mass, v, self._packed]
        given = ("sweep", sweeps, any_appended, bound, v, contacts.vertices, allocation_epoch())
        self._graphs.run(lambda: self.run(bound, sweep_impulses, inputs, sweeps), *given)

    def threads_for(self, count: int) -> int:
        """How many CUDA threads sweep so many contacts."""
        return self._cooperative.threads_for(count)

    def run(self, count: int, kernel: wp.Kernel, inputs: Sequence[Any], sweeps: int = 1) -> None:
        """One cooperative launch of sweeps over `count` coloured contacts."""
        self._cooperative.launch(kernel, count, inputs, work=sweeps * count)

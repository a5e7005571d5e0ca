"""The contacts and collisions of a step as stencils in device arrays."""

from typing import Any

import warp as wp

from weft.runtime import launch
from weft.runtime.buffers import Buffer, LaunchBound

wp.set_module_options({"enable_backward": False})


@wp.struct
class ContactArrays:
    """The arrays of a `ContactList` for kernels; its properties say what they hold."""

    vertices: wp.array[wp.vec4i]
    weights: wp.array[wp.vec4d]
    normals: wp.array[wp.vec3d]
    gaps: wp.array[wp.float64]
    thickness: wp.array[wp.float64]
    least_speeds: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    normal_impulses: wp.array[wp.float64]
    tangential_impulses: wp.array[wp.vec3d]
    kept_distances: wp.array[wp.float64]
    gains: wp.array[wp.vec4d]


GEOMETRY = ("vertices", "weights", "normals", "gaps", "thickness")
IMPULSES = ("least_speeds", "friction", "normal_impulses", "tangential_impulses")


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
        self._structs: dict[bool, tuple[list[wp.array], Any]] = {}

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

    @property
    def arrays(self) -> Any:
        """All arrays as a struct; the same object as long as they are the same."""
        return self._struct(self._geometry, self._is_reordered)

    def reordered_arrays(self) -> Any:
        """The struct of the other half of the double buffer, with room for all contacts: `reorder_contacts` writes into it."""
        for buffer in (*self._reordered, self._gains):
            buffer.at_least(self.launch_bound)
        return self._struct(self._reordered, not self._is_reordered)

    def _struct(self, geometry: list[Buffer], half: bool) -> Any:
        columns = [buffer.array for buffer in (*geometry, *self._impulses, self._kept_distances, self._gains)]
        known, result = self._structs.get(half, ([], None))
        if len(known) != len(columns) or any(one is not other for one, other in zip(known, columns, strict=True)):
            result = ContactArrays()
            for name, column in zip((*GEOMETRY, *IMPULSES, "kept_distances", "gains"), columns, strict=True):
                setattr(result, name, column)
            self._structs[half] = columns, result
        return result

    def take_reordered(self) -> None:
        """Use what was reordered; impulses are not set yet."""
        self._swap()

    def _swap(self) -> None:
        self._is_reordered = not self._is_reordered
        for one, other in zip(self._geometry, self._reordered, strict=True):
            one.array, other.array = other.array, one.array

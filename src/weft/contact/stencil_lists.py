"""Stencils of a step in device arrays that grow: contacts first, then the collisions that were found on the way."""

import warp as wp

from weft.runtime import launch
from weft.runtime.buffers import Buffer, LaunchBound

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _tell(first: int, count: int, sizes: wp.array[int]):
    i = first + wp.tid()
    sizes[i] = count


class StencilRows:
    """Four vertices, four weights and a unit normal a row; the first `count` rows are in use."""

    def __init__(self, device: wp.Device) -> None:
        self.device = device
        self.count = 0
        self._roof = LaunchBound(device)
        self.sizes = wp.zeros(1, dtype=int, device=device)
        """the same for kernels"""
        self._vertices, self._weights = Buffer(wp.vec4i, device), Buffer(wp.vec4d, device)
        self._normals = Buffer(wp.vec3d, device)
        self._gaps, self._thickness = Buffer(wp.float64, device), Buffer(wp.float64, device)
        self._all = [self._vertices, self._weights, self._normals, self._gaps, self._thickness]

    @property
    def vertices(self) -> wp.array:
        """vec4i"""
        return self._vertices.array

    @property
    def weights(self) -> wp.array:
        """vec4d, sum zero"""
        return self._weights.array

    @property
    def normals(self) -> wp.array:
        """vec3d, from the second side to the first"""
        return self._normals.array

    @property
    def gaps(self) -> wp.array:
        """float64: gap along the normal at the start of the step"""
        return self._gaps.array

    @property
    def thickness(self) -> wp.array:
        """float64: the gap that is wanted at the end of the step"""
        return self._thickness.array

    @property
    def geometry(self) -> list[wp.array]:
        """Vertices, weights, normals, gaps, thickness."""
        return [self.vertices, self.weights, self.normals, self.gaps, self.thickness]

    def clear(self) -> None:
        self.count = 0

    @property
    def most(self) -> int:
        """As many rows as launches have whose kernels look at `sizes`."""
        return self._roof.for_count(self.count)

    def grow(self, count: int) -> None:
        """Make room for `count` rows; those in use stay."""
        most = self._roof.for_count(count)
        for buffer in self._all:
            buffer.at_least(most, keep=self.count)
        self.count = count
        launch(_tell, 1, [count, self.sizes], device=self.device)

"""The default broad phase: a bounding volume hierarchy of Warp's over the patches."""

from typing import Any

import warp as wp

from weft.detection.broad_phase import GRAIN, BroadPhase
from weft.detection.compare import sort_row
from weft.detection.lists import row_start
from weft.world import Surface, launch

wp.set_module_options({"enable_backward": False})


@wp.kernel
def _find_rows(
    first: int,
    chosen: int,
    items: wp.array[int],
    starts: wp.array[wp.int64],
    capacity: int,
    stop: int,
    found: wp.array[int],
    counts: wp.array[int],
    bvh: wp.uint64,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    body: wp.array[int],
    body_pairs: wp.array2d[int],
):
    i = first + wp.tid()
    patch = i
    if chosen == 1:
        patch = items[i]
    start = row_start(chosen, patch, starts, capacity)
    own = body[patch]
    n = int(0)
    other = int(0)
    query = wp.bvh_query_aabb(bvh, lower[patch], upper[patch])
    while wp.bvh_query_next(query, other):
        if body_pairs[own, body[other]] != 0:
            if n < capacity:
                found[start + wp.int64(n)] = other
            n += 1
            if n > stop:
                break
    if n <= capacity:
        sort_row(found, start, n)
    counts[patch] = n


class Bvh(BroadPhase):
    """Rows from a `wp.Bvh` over the patches, refitted at every update and built anew when it has degraded."""

    name = "bvh"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        self._bvh: wp.Bvh | None = None
        self.builds = 0
        """how often the tree was built"""

    def _prepare(self) -> None:
        if self._bvh is None:
            self._build()
        else:
            self._bvh.refit()

    def _build(self) -> None:
        constructor = "sah" if self.device.is_cpu else "lbvh"
        self._bvh = wp.Bvh(self.boxes.lower, self.boxes.upper, constructor=constructor)
        self.builds += 1

    def _find_rows(self, count: int, slots: list[Any]) -> None:
        assert self._bvh is not None
        inputs = [*slots, self._bvh.id, self.boxes.lower, self.boxes.upper]
        inputs += [self.patches.body, self.surface.body_pairs]
        launch(_find_rows, count, inputs, device=self.device, grain=GRAIN)

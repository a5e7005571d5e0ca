"""The default broad phase: a bounding volume hierarchy of Warp's over the patches."""

from typing import Any

import warp as wp

from weft.broad_phase.list_kernels import row_start, sort_row, sorts_itself
from weft.broad_phase.patch_pairs import query_patch
from weft.broad_phase.patch_search import GRAIN, PatchSearch
from weft.runtime import launch
from weft.runtime.graph_cache import launch_fused
from weft.runtime.reduction import WARP, threads_per_item
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# every so many updates the tree is looked at; it is built anew when patches moved so many times their size
LOOK = 4
# on a card, where it is built then
LOOK_ON_CARD = 16
REBUILD = 2.0
# patches looked at, the square root
SAMPLES = wp.constant(16)


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
    asked: wp.array[int],
    bvh: wp.uint64,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    body: wp.array[int],
    body_pairs: wp.array2d[int],
    carried: wp.array[int],
    apart: int,
):
    thread = first + wp.tid()
    # the others only keep walks that part ways from being threads of one warp, which goes all of them
    if thread % apart != 0:
        return
    query = thread // apart
    if chosen == 1:
        query = items[query]
    start = row_start(chosen, query, starts, capacity)
    patch = query_patch(query, asked)
    own = body[patch]
    if carried[own] != 0:
        counts[query] = 0
        return
    n = int(0)
    other = int(0)
    walk = wp.bvh_query_aabb(bvh, lower[patch], upper[patch])
    while wp.bvh_query_next(walk, other):
        if body_pairs[own, body[other]] != 0:
            if n < capacity:
                found[start + wp.int64(n)] = other
            n += 1
            if n > stop:
                break
    if n <= capacity and sorts_itself(chosen, n):
        sort_row(found, start, n)
    counts[query] = n


@wp.kernel
def _measure(
    first: int,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    built_lower: wp.array[wp.vec3],
    built_upper: wp.array[wp.vec3],
    measures: wp.array[wp.vec2],
):
    # how far a sample of patches has moved since the tree was built, and how large they are
    i = first + wp.tid()
    moved = float(0.0)
    extent = float(0.0)
    for k in range(SAMPLES):
        patch = int(wp.int64(i * SAMPLES + k) * wp.int64(lower.shape[0]) / wp.int64(SAMPLES * SAMPLES))
        low = lower[patch]
        high = upper[patch]
        moved += wp.length(low - built_lower[patch] + high - built_upper[patch]) * 0.5
        extent += wp.length(high - low)
    measures[i] = wp.vec2(moved, extent)


class Bvh(PatchSearch):
    """Rows from a `wp.Bvh` over the patches, refitted at every update and built anew when it has degraded.

    A refitted tree is as good as it was while neighbours stay neighbours. It counts as degraded once the patches have
    moved against each other by `REBUILD` times their size in the mean.
    """

    name = "bvh"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        self._bvh: wp.Bvh | None = None
        self.builds = 0
        """how often the tree was built"""
        self._updates = 0
        self._built_lower = wp.empty_like(self.boxes.lower)
        self._built_upper = wp.empty_like(self.boxes.upper)
        self._measures = wp.empty(int(SAMPLES), dtype=wp.vec2, device=self.device)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        self._updates += 1
        if self._bvh is None or (self.device.is_cpu and self._updates % LOOK == 0 and self._degraded()):
            self._build()
        elif self.device.is_cuda and self._updates % LOOK_ON_CARD == 0:
            # building anew takes less time there than finding out whether that is needed
            launch_fused()
            self._bvh.rebuild()
            self.builds += 1
        else:
            self._graphs.run(self._bvh.refit, "refit")

    def update_again(self, start: wp.array, end: wp.array, margin: float) -> None:
        """As `update`, but the tree stays what it is: launches alone, which can be replayed."""
        assert self._bvh is not None
        self._start_afresh(margin)
        self.boxes.update(start, end, margin, follow=True)
        self._bvh.refit()

    def look_at_tree(self) -> None:
        """On CUDA: build the tree anew after some updates that left it as it was."""
        self._updates += 1
        if self._updates % LOOK_ON_CARD == 0 and self._bvh is not None:
            self._bvh.rebuild()
            self.builds += 1

    def _degraded(self) -> bool:
        inputs = [self.boxes.lower, self.boxes.upper, self._built_lower, self._built_upper, self._measures]
        launch(_measure, int(SAMPLES), inputs, device=self.device)
        moved, extent = self._measures.numpy().sum(axis=0)
        return bool(moved > REBUILD * extent)

    def _build(self) -> None:
        launch_fused()
        constructor = "sah" if self.device.is_cpu else "lbvh"
        self._bvh = wp.Bvh(self.boxes.lower, self.boxes.upper, constructor=constructor)
        wp.copy(self._built_lower, self.boxes.lower)
        wp.copy(self._built_upper, self.boxes.upper)
        self.builds += 1

    def _find_rows(self, count: int, slots: list[Any], asked: wp.array) -> None:
        assert self._bvh is not None
        inputs = [*slots, asked, self._bvh.id, self.boxes.lower, self.boxes.upper]
        apart = threads_per_item(self.device, count, WARP)
        inputs += [self.patches.body, self.row_pairs, self.carried, apart]
        launch(_find_rows, count * apart, inputs, device=self.device, grain=GRAIN)

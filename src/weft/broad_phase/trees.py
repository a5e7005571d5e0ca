"""Broad phases over the patches: Warp's bounding volume hierarchy, and brute force.

`bvh`, the default, is the hierarchy of Warp. `brute` compares every triangle with every other: it is the oracle of all other
broad phases, and enough for a few hundred triangles.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from weft.broad_phase.boxes import load_box, lowest_bit, overlap_limit, overlap_mask
from weft.broad_phase.list_kernels import Queries, first_slot, must_sort, query_of_item, sort_entries
from weft.broad_phase.patch_pairs import patch_of_query
from weft.broad_phase.patch_search import GRAIN, PatchSearch
from weft.broad_phase.patches import Patches
from weft.runtime import launch
from weft.runtime.compaction import WARP, threads_per_item
from weft.runtime.graph_cache import launch_fused
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

# updates between two checks whether the tree has degraded, on the CPU: a check costs a launch and a look at 256 patches, and
# a degraded tree is only slower
CHECK_EVERY = 4
# updates after which the tree is rebuilt on CUDA, needed or not: a rebuild takes less time there than reading back a measure
REBUILD_EVERY_CUDA = 16
# the tree is rebuilt once patches have moved relative to the tree by this many times their size in the mean; a smaller value
# rebuilds more often (15 times the cost of a refit), a larger one searches longer in boxes that overlap
DEGRADED = 2.0
# patches that are measured: the square of this
SAMPLES = wp.constant(16)


@wp.kernel
def _find_overlaps(
    first: int,
    queries: Queries,
    found: wp.array[int],
    selected_patches: wp.array[int],
    bvh: wp.uint64,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    body: wp.array[int],
    searched_bodies: wp.array2d[int],
    passive: wp.array[int],
    group: wp.array[int],
    spacing: int,
):
    thread = first + wp.tid()
    # only one thread in `spacing` walks: walks in one warp diverge, and its threads wait for each other
    if thread % spacing != 0:
        return
    query = query_of_item(queries, thread // spacing)
    start = first_slot(queries, query)
    patch = patch_of_query(query, selected_patches)
    own = body[patch]
    if passive[own] != 0:
        queries.counts[query] = 0
        return
    n = int(0)
    other = int(0)
    root = int(-1)
    if group.shape[0] > 0:
        root = wp.bvh_get_group_root(bvh, group[patch])
    walk = wp.bvh_query_aabb(bvh, lower[patch], upper[patch], root)
    while wp.bvh_query_next(walk, other):
        if searched_bodies[own, body[other]] != 0:
            if n < queries.capacity:
                found[start + wp.int64(n)] = other
            n += 1
            if n > queries.stop:
                break
    if n <= queries.capacity and must_sort(queries, n):
        sort_entries(found, start, n)
    queries.counts[query] = n


@wp.kernel
def _measure(
    first: int,
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
    built_lower: wp.array[wp.vec3],
    built_upper: wp.array[wp.vec3],
    measures: wp.array[wp.vec2],
):
    # how far the sampled patches have moved since the tree was built, and how large they are
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
    """Overlapping patches from a `wp.Bvh`, which is refitted at every update and rebuilt when it has degraded.

    A refitted tree stays good while neighbours stay neighbours. It counts as degraded once the patches have moved
    by `DEGRADED` times their size in the mean since it was built, in the frame of the boxes.

    Bodies that no chain of interacting bodies joins have subtrees of their own, in which alone their patches are searched:
    worlds that are simulated together lie in one place.
    """

    name = "bvh"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, **options)
        self._bvh: wp.Bvh | None = None
        sets = interacting_sets(self.surface.body_pairs.numpy())
        several = sets.max(initial=0) > 0
        self._group = wp.array(sets[self.patches.body.numpy()] if several else sets[:0], dtype=int, device=self.device)
        """of each patch, the subtree that it is in; empty if there is one alone"""
        self.builds = 0
        """how often the tree was built"""
        self._updates = 0
        self._built_lower = wp.empty_like(self.boxes.lower)
        self._built_upper = wp.empty_like(self.boxes.upper)
        self._measures = wp.empty(int(SAMPLES), dtype=wp.vec2, device=self.device)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        self._updates += 1
        if self._bvh is None or (self.device.is_cpu and self._updates % CHECK_EVERY == 0 and self._degraded()):
            self._build()
        elif self.device.is_cuda and self._updates % REBUILD_EVERY_CUDA == 0:
            launch_fused()
            self._bvh.rebuild()
            self.builds += 1
        else:
            self._graphs.run(self._bvh.refit, "refit")

    def refit(self, start: wp.array, end: wp.array, margin: float) -> None:
        """As `update`, without ever rebuilding the tree: launches alone, which a CUDA graph can hold."""
        assert self._bvh is not None
        self._reset(margin)
        self.boxes.update(start, end, margin, follow=True)
        self._bvh.refit()

    def rebuild_if_due(self) -> None:
        """Rebuild the tree on CUDA after some calls of `refit`, of which each comes with one of this."""
        self._updates += 1
        if self._updates % REBUILD_EVERY_CUDA == 0 and self._bvh is not None:
            self._bvh.rebuild()
            self.builds += 1

    def _degraded(self) -> bool:
        inputs = [self.boxes.lower, self.boxes.upper, self._built_lower, self._built_upper, self._measures]
        launch(_measure, int(SAMPLES), inputs, device=self.device)
        moved, extent = self._measures.numpy().sum(axis=0)
        return bool(moved > DEGRADED * extent)

    def _build(self) -> None:
        launch_fused()
        constructor = "sah" if self.device.is_cpu else "lbvh"
        groups = self._group if len(self._group) else None
        self._bvh = wp.Bvh(self.boxes.lower, self.boxes.upper, constructor=constructor, groups=groups)
        wp.copy(self._built_lower, self.boxes.lower)
        wp.copy(self._built_upper, self.boxes.upper)
        self.builds += 1

    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        assert self._bvh is not None
        spacing = threads_per_item(self.device, count, WARP)
        inputs = [queries, found, selected_patches, self._bvh.id, self.boxes.lower, self.boxes.upper]
        inputs += [self.patches.body, self.searched_bodies, self.passive, self._group, spacing]
        launch(_find_overlaps, count * spacing, inputs, device=self.device, grain=GRAIN)


def interacting_sets(body_pairs: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
    """A number for each body, the same for those that a chain of interacting bodies joins."""
    return np.asarray(connected_components(csr_array(body_pairs), directed=False)[1], np.int32)


@wp.kernel
def _compare_all(
    first: int,
    queries: Queries,
    found: wp.array[int],
    selected_patches: wp.array[int],
    count: int,
    patch_boxes: wp.array2d[wp.float32],
    body: wp.array[int],
    searched_bodies: wp.array2d[int],
):
    query = query_of_item(queries, first + wp.tid())
    start = first_slot(queries, query)
    patch = patch_of_query(query, selected_patches)
    limit = overlap_limit(load_box(patch_boxes, patch))
    own = body[patch]
    n = int(0)
    for begin in range(0, count, 64):
        hits = overlap_mask(patch_boxes, begin, wp.min(64, count - begin), limit)
        while hits != wp.uint64(0):
            other = begin + lowest_bit(hits)
            hits &= hits - wp.uint64(1)
            if searched_bodies[own, body[other]] != 0:
                if n < queries.capacity:
                    found[start + wp.int64(n)] = other
                n += 1
        if n > queries.stop:
            break
    queries.counts[query] = n


class Brute(PatchSearch):
    """No hierarchy at all: patches of one triangle, each compared with all."""

    name = "brute"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, patches=Patches(surface, largest=1), **options)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        pass

    def _find_overlaps(self, count: int, queries: Queries, found: wp.array, selected_patches: wp.array) -> None:
        inputs = [queries, found, selected_patches, self.patches.count, self.boxes.patch]
        launch(_compare_all, count, [*inputs, self.patches.body, self.searched_bodies], device=self.device, grain=GRAIN)

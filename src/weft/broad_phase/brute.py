"""Every triangle against every other: the oracle of the other broad phases, and enough for a few hundred triangles."""

from typing import Any

import warp as wp

from weft.broad_phase.boxes import load_box, lowest_bit, overlap_mask, reach
from weft.broad_phase.list_kernels import row_start
from weft.broad_phase.patch_pairs import query_patch
from weft.broad_phase.patch_search import GRAIN, PatchSearch
from weft.broad_phase.patches import Patches
from weft.runtime import launch
from weft.world import Surface

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
    asked: wp.array[int],
    patches: int,
    boxes: wp.array2d[wp.float32],
    body: wp.array[int],
    body_pairs: wp.array2d[int],
):
    i = first + wp.tid()
    query = i
    if chosen == 1:
        query = items[i]
    start = row_start(chosen, query, starts, capacity)
    patch = query_patch(query, asked)
    limit = reach(load_box(boxes, patch))
    own = body[patch]
    n = int(0)
    for begin in range(0, patches, 64):
        hits = overlap_mask(boxes, begin, wp.min(64, patches - begin), limit)
        while hits != wp.uint64(0):
            other = begin + lowest_bit(hits)
            hits &= hits - wp.uint64(1)
            if body_pairs[own, body[other]] != 0:
                if n < capacity:
                    found[start + wp.int64(n)] = other
                n += 1
        if n > stop:
            break
    counts[query] = n


class Brute(PatchSearch):
    """No hierarchy at all: patches of one triangle, each compared with all."""

    name = "brute"

    def __init__(self, surface: Surface, **options: Any) -> None:
        super().__init__(surface, patches=Patches(surface, largest=1), **options)

    def _prepare(self, start: wp.array, end: wp.array, margin: float) -> None:
        pass

    def _find_rows(self, count: int, slots: list[Any], asked: wp.array) -> None:
        inputs = [*slots, asked, self.patches.count, self.boxes.patch, self.patches.body, self.row_pairs]
        launch(_find_rows, count, inputs, device=self.device, grain=GRAIN)

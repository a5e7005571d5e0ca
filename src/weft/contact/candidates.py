"""Candidates of one kind, vertices with triangles or pairs of edges: their list, what is known of them, and the chosen ones."""

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import lowest_bit
from weft.contact import contact_tests as approach
from weft.contact import prefilter as prefilter
from weft.contact.batches import batch_size
from weft.runtime import launch
from weft.runtime.buffers import Buffer

wp.set_module_options({"enable_backward": False})


@wp.kernel
def list_hits(
    first: int,
    batch: int,
    pairs: wp.array[wp.vec2i],
    chosen: wp.array[wp.uint64],
    places: wp.array[int],
    hits: wp.array[wp.vec2i],
):
    """The chosen candidates."""
    item = first + wp.tid()
    left = chosen[item]
    place = places[item]
    while left != wp.uint64(0):
        hits[place] = pairs[item * batch + lowest_bit(left)]
        left &= left - wp.uint64(1)
        place += 1


class Candidates:
    """Buffers for one kind of candidates."""

    def __init__(self, device: wp.Device, kernels: tuple[wp.Kernel, ...]) -> None:
        self.measure, self.fill, self.collide, self.fill_hits, self.sift, self.look_at, self.test = kernels
        self.device = device
        self.of_vertices = self.fill is approach.fill_vertex_triangle
        self.pairs = wp.empty(0, dtype=wp.vec2i, device=device)
        """the list, of which the first `count` count"""
        self.count = self.batches = 0
        self.tested = False
        """whether these pairs were there in the first test of the step"""
        self._near, self._time = Buffer(wp.float64, device), Buffer(wp.float64, device)
        self._chosen, self._counts, self._places = Buffer(wp.uint64, device), Buffer(int, device), Buffer(int, device)
        self.near, self.time = self._near.array, self._time.array
        self._left = Buffer(wp.int8, device)
        self.left = self._left.array
        self.batch = batch_size(device, 0)
        self.chosen = self._chosen.array
        """which candidates of each batch are chosen"""
        self.counts = self.places = self._none = wp.empty(0, dtype=int, device=device)
        """how many of each batch are, and how many of those before it; as many as there are batches, or more"""
        self.order = self._none
        """the places of the chosen ones where they are not those of the list"""
        self._hits = Buffer(wp.vec2i, device)
        self._worth = Buffer(int, device)
        self._number = wp.zeros(1, dtype=int, device=device)

    @property
    def prefiltered(self) -> bool:
        """Whether it is first looked who is worth a closer look."""
        return self.batch > 1 and self.device.is_cuda

    def take(self, pairs: wp.array) -> None:
        """A new list of candidates."""
        if pairs is self.pairs and len(pairs) == 0:
            return
        self.pairs = pairs
        self.tested = False
        count = self.count = len(pairs)
        self.near, self.time = self._near.at_least(count), self._time.at_least(count)
        self.left = self._left.at_least(count)
        self.order = self._none
        self.batch = batch_size(self.device, count)
        self.batches = -(-count // self.batch)
        self.chosen = self._chosen.at_least(self.batches)
        self.counts = self._counts.at_least(self.batches)
        self.places = self._places.at_least(self.batches)

    def prefilter_first(self, sift: wp.Kernel, given: list[Any], look: wp.Kernel, then: list[Any]) -> None:
        """Choose in two goes: who is worth a closer look, given what these kernels take besides, and who is chosen."""
        device, count = self.device, self.count
        self._number.zero_()
        rest = [self.chosen, self._worth.at_least(count), self._number]
        launch(sift, count, [self.pairs, *given, *rest], device=device)
        launch(look, prefilter.THREADS, [self.pairs, *then, *rest], device=device)
        launch(prefilter.count_chosen_bits, self.batches, [self.chosen, self.counts], device=device)

    def sort_chosen(self, count: int) -> None:
        """Order the few chosen ones of a list by pair: its own order depends on the patches, which devices differ in."""
        device = self.device
        hits = self._hits.at_least(count)
        launch(list_hits, self.batches, [self.batch, self.pairs, self.chosen, self.places, hits], device=device)
        one, other = hits.numpy()[:count].reshape(-1, 2).T
        ranks = np.empty(count, np.int32)
        ranks[np.lexsort((other, one))] = np.arange(count, dtype=np.int32)
        self.order = wp.array(ranks, dtype=int, device=device)

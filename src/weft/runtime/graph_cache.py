"""Launches that come in the same order again and again: on CUDA a graph, which the host starts in one go.

A step of a small cloth is some hundred launches of a few microseconds each, and Python takes longer for one than the card.
So what is launched with the same arrays and numbers as before is captured, and from then on replayed. Whatever else the
work does besides launching must not matter: it is not done again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp

# streams of each device for work beside other work
_beside: dict[str, list[wp.Stream]] = {}
# graphs that are kept at most, arrays that grow leave some behind that never come again; and work that came once
MOST = 256


class GraphCache:
    """The graphs of a device."""

    enabled = True
    """off where every kernel is to be timed by itself"""
    _capturing = False
    _fused: list[tuple[Callable[[], None], tuple[Any, ...]]] | None = None
    """work that is to be one graph, and what it depends on, while somebody joins it"""
    _joiner: "GraphCache | None" = None

    def __init__(self, device: wp.DeviceLike) -> None:
        self.device = wp.get_device(device)
        self._graphs: dict[tuple[Any, ...], wp.Graph] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def run(self, work: Callable[[], None], *given: Any) -> wp.Graph | None:
        """Do some work that launches, and depends on what is given alone: arrays by place and size, numbers and names.

        The first time it is done as it is, so that kernels are loaded; the second time it is captured. What is captured
        already becomes part of that graph. Gives the graph that did it, if one did.
        """
        if self.device.is_cpu or not self.enabled or GraphCache._capturing:
            work()
            return None
        # another array may lie where one was that is gone
        key = tuple([(value.ptr, value.size) if type(value) is wp.array else value for value in given])
        if GraphCache._fused is not None:
            GraphCache._fused.append((work, (id(self), *key)))
            return None
        return self._start(work, key)

    @contextmanager
    def fuse(self) -> Iterator[None]:
        """Have all that is replayed meanwhile, by whomever, be one graph.

        It starts at the end, or before anything else is launched or read. Who uses Warp itself meanwhile on what is
        replayed calls `launch_fused` first.
        """
        if self.device.is_cpu or not self.enabled or GraphCache._capturing or GraphCache._fused is not None:
            yield
            return
        GraphCache._fused, GraphCache._joiner = [], self
        try:
            yield
        finally:
            launch_fused()
            GraphCache._fused = GraphCache._joiner = None

    def _start(self, work: Callable[[], None], key: tuple[Any, ...]) -> wp.Graph | None:
        """Do some work, as a graph if it was captured."""
        graph = self._graphs.get(key)
        if graph is not None:
            wp.capture_launch(graph)
        elif key not in self._seen:
            if len(self._seen) >= MOST:
                self._seen.clear()
            self._seen.add(key)
            work()
        else:
            if len(self._graphs) >= MOST:
                self._graphs.clear()
            wp.capture_begin(self.device, force_module_load=False)
            GraphCache._capturing = True
            try:
                work()
            finally:
                GraphCache._capturing = False
                graph = wp.capture_end(self.device)
            self._graphs[key] = graph
            wp.capture_launch(graph)
        return graph


def launch_fused() -> None:
    """Start what is to be one graph, as far as it has come."""
    joined, joiner = GraphCache._fused, GraphCache._joiner
    if not joined or joiner is None:
        return

    def do_all() -> None:
        for work, _ in joined:
            work()

    # what works replay themselves is part of them
    GraphCache._fused = None
    try:
        joiner._start(do_all, tuple(key for _, key in joined))
    finally:
        GraphCache._fused = []


def fork_join(device: wp.DeviceLike, *works: Callable[[], None]) -> None:
    """Do pieces of work that do not depend on each other: in a graph at the same time, elsewhere one after another."""
    card = wp.get_device(device)
    if not GraphCache._capturing:
        if not card.is_cpu:
            # those that a graph will have
            _streams(card, len(works) - 1)
        for work in works:
            work()
        return
    main = card.stream
    begun = main.record_event()
    ends = []
    for stream, work in zip(_streams(card, len(works) - 1), works[1:], strict=True):
        stream.wait_event(begun)
        with wp.ScopedStream(stream, sync_enter=False):
            work()
        ends.append(stream.record_event())
    works[0]()
    for end in ends:
        main.wait_event(end)


def _streams(device: wp.Device, count: int) -> list[wp.Stream]:
    streams = _beside.setdefault(device.alias, [])
    while len(streams) < count:
        streams.append(wp.Stream(device))
    return streams[:count]

"""CUDA graphs: launches that come in the same order again and again are captured once, and replayed with one call.

A step of a small cloth is some hundred launches of a few microseconds each, and Python takes longer to launch a kernel than
the GPU to run it. So work that launches the same kernels with the same arrays and numbers as before is captured into a CUDA
graph. Only its launches and copies are replayed: whatever else the Python function does, it does not do again.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import warp as wp

# streams of each device for the branches of `fork_join`
_branch_streams: dict[str, list[wp.Stream]] = {}
# graphs, and keys of work seen once, that a cache keeps at most. Arrays that grew leave graphs behind that are never
# replayed; a full cache is emptied, and what is still in use is captured again
MAX_GRAPHS = 256


class GraphCache:
    """The CUDA graphs of one owner on a device; on the CPU all work is simply done."""

    enabled = True
    """off to time every kernel by itself"""
    _capturing = False
    _fused: list[tuple[Callable[[], None], tuple[Any, ...]]] | None = None
    """inside `fuse`: the work that is to be one graph, and its keys"""
    _fuser: "GraphCache | None" = None
    """inside `fuse`: the cache that will hold that graph"""

    def __init__(self, device: wp.DeviceLike) -> None:
        self.device = wp.get_device(device)
        self._graphs: dict[tuple[Any, ...], wp.Graph] = {}
        self._seen: set[tuple[Any, ...]] = set()

    def run(self, work: Callable[[], None], *key: Any) -> wp.Graph | None:
        """Do `work`, whose launches depend on nothing but `key`: arrays (by address and size), numbers and names.

        The first time the function is called, which also loads its kernels; the second time it is captured, and from then
        on replayed. Inside another capture it becomes a part of that graph. Returns the graph that was replayed, if any.
        """
        if self.device.is_cpu or not self.enabled or GraphCache._capturing:
            work()
            return None
        # an array that has been freed may have left its address to another one of a different size
        key = tuple([(value.ptr, value.size) if type(value) is wp.array else value for value in key])
        if GraphCache._fused is not None:
            GraphCache._fused.append((work, (id(self), *key)))
            return None
        return self._replay(work, key)

    @contextmanager
    def fuse(self) -> Iterator[None]:
        """Make one graph of all work that any cache runs inside the `with` block.

        It is launched at the end of the block, or earlier if something else is launched or read through this package.
        Code that calls Warp itself on the same arrays calls `launch_fused` first.
        """
        if self.device.is_cpu or not self.enabled or GraphCache._capturing or GraphCache._fused is not None:
            yield
            return
        GraphCache._fused, GraphCache._fuser = [], self
        try:
            yield
        finally:
            launch_fused()
            GraphCache._fused = GraphCache._fuser = None

    def _replay(self, work: Callable[[], None], key: tuple[Any, ...]) -> wp.Graph | None:
        graph = self._graphs.get(key)
        if graph is not None:
            wp.capture_launch(graph)
        elif key not in self._seen:
            if len(self._seen) >= MAX_GRAPHS:
                self._seen.clear()
            self._seen.add(key)
            work()
        else:
            if len(self._graphs) >= MAX_GRAPHS:
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
    """Launch what `fuse` has collected so far, as one graph."""
    fused, fuser = GraphCache._fused, GraphCache._fuser
    if not fused or fuser is None:
        return

    def do_all() -> None:
        for work, _ in fused:
            work()

    # work that runs other work inside must not be collected again
    GraphCache._fused = None
    try:
        fuser._replay(do_all, tuple(key for _, key in fused))
    finally:
        GraphCache._fused = []


def fork_join(device: wp.DeviceLike, *branches: Callable[[], None]) -> None:
    """Do work that does not depend on each other: concurrent branches of a CUDA graph, elsewhere one after another."""
    target = wp.get_device(device)
    if not GraphCache._capturing:
        if not target.is_cpu:
            # streams cannot be created during a capture: make those that it will need
            _streams(target, len(branches) - 1)
        for work in branches:
            work()
        return
    main = target.stream
    fork = main.record_event()
    ends = []
    for stream, work in zip(_streams(target, len(branches) - 1), branches[1:], strict=True):
        stream.wait_event(fork)
        with wp.ScopedStream(stream, sync_enter=False):
            work()
        ends.append(stream.record_event())
    branches[0]()
    for end in ends:
        main.wait_event(end)


def _streams(device: wp.Device, count: int) -> list[wp.Stream]:
    streams = _branch_streams.setdefault(device.alias, [])
    while len(streams) < count:
        streams.append(wp.Stream(device))
    return streams[:count]

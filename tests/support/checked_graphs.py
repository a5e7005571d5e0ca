"""CUDA graphs without CUDA: does work launch the same kernels with the same arguments whenever its key is the same?

A graph is captured when a key comes for the second time, and replayed from then on, whatever the arguments of its launches have
become. On a CPU all work is done each time, so it can be compared with what a graph would have replayed.
"""

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import warp as wp

from weft.runtime.graph_cache import GraphCache

LAUNCH = importlib.import_module("weft.runtime.launch")


def signature(value: Any) -> Any:
    """What a captured launch keeps of an argument: addresses and numbers."""
    if isinstance(value, wp.array):
        return value.ptr, value.shape
    if hasattr(value, "_cls"):
        return tuple(signature(getattr(value, name)) for name in value._cls.vars)
    if isinstance(value, (tuple, list)):
        return tuple(signature(one) for one in value)
    return value if isinstance(value, (int, float, str)) else str(value)


class GraphCheck:
    """The launches of each key when it came for the second time, and the keys whose launches changed later."""

    def __init__(self) -> None:
        self.depth, self.launches = 0, []
        self.times: dict[Any, int] = {}
        self.captured: dict[Any, list[Any]] = {}
        self.changed: dict[str, str] = {}
        self.replayed = 0

    def note(self, name: str, *given: Any) -> None:
        if self.depth:
            self.launches.append((name, signature(given)))

    def run(self, cache: GraphCache, work: Any, key: tuple[Any, ...]) -> None:
        """Do work, as `GraphCache.run` does on a CPU, and compare its launches with those that a graph would replay."""
        if self.depth:
            work()
            return
        full = (id(cache), *((v.ptr, v.size) if isinstance(v, wp.array) else v for v in key))
        self.depth, self.launches = 1, []
        try:
            work()
        finally:
            self.depth = 0
        self.times[full] = self.times.get(full, 0) + 1
        if self.times[full] == 2:
            self.captured[full] = self.launches
        elif self.times[full] > 2:
            self.replayed += 1
            for was, now in zip(self.captured[full], self.launches, strict=False):
                if was != now:
                    self.changed.setdefault(
                        f"{work.__qualname__ if hasattr(work, '__qualname__') else work}", f"{was} {now}"
                    )
            if len(self.captured[full]) != len(self.launches):
                self.changed.setdefault(str(work), f"{len(self.captured[full])} launches, then {len(self.launches)}")


@contextmanager
def checked_graphs() -> Iterator[GraphCheck]:
    """In the block, all graphs of all owners are checked on the CPU."""
    check = GraphCheck()
    launcher = LAUNCH._CpuLauncher
    launch, run_each, copy = launcher.launch, launcher.run_each, wp.copy
    zero, fill = wp.array.zero_, wp.array.fill_

    def launched(self: Any, kernel: wp.Kernel, dim: int, inputs: Any, grain: int) -> None:
        check.note(kernel.key, dim, *inputs)
        launch(self, kernel, dim, inputs, grain)

    def cooperated(self: Any, kernel: wp.Kernel, threads: int, inputs: Any) -> float:
        # the number of threads, which follows the load of a CPU, comes first
        check.note(kernel.key, *inputs[1:])
        return run_each(self, kernel, threads, inputs)

    def copied(dest: wp.array, src: wp.array, *given: Any, **named: Any) -> Any:
        check.note("copy", dest, src, *given, *named.values())
        return copy(dest, src, *given, **named)

    def zeroed(self: wp.array) -> None:
        check.note("zero", self)
        zero(self)

    def filled(self: wp.array, value: Any) -> None:
        check.note("fill", self, value)
        fill(self, value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GraphCache, "run", lambda self, work, *key: check.run(self, work, key))
        patch.setattr(launcher, "launch", launched)
        patch.setattr(launcher, "run_each", cooperated)
        patch.setattr(wp, "copy", copied)
        patch.setattr(wp.array, "zero_", zeroed)
        patch.setattr(wp.array, "fill_", filled)
        yield check

"""Real-time cloth: the time of a 30 Hz step on one thread, scene by scene, beside the figures of Lewin 2018.

The scenes are the examples `predictive_*` at full size, stepped by `weft.Realtime`. Columns: number of vertices; the paper's
figure or our bar; median and longest step after warm-up in wall-clock time, and the median in processor time, which other
programs on the machine change less; of the same steps once more the time outside of kernels ("python": the median, and
what nine of ten steps stay below); contacts of a step; launches of a step. Memory is what Python's allocator holds more
after twenty steps.
"""

import gc
import importlib
import sys
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np

import weft
from weft.runtime import get_threads, set_threads
from weft.runtime.thread_pool import PackedKernel

EXAMPLES = Path(__file__).parent.parent / "examples"
# example, the most steps that are timed, the paper's figure or our bar in ms
SCENES = (
    ("predictive_flaps", 120, 0.1),
    ("predictive_skirt", 180, 0.2),
    ("predictive_character", 110, 0.4),
    ("predictive_knot", 150, 20.0),
    ("predictive_sphere", 60, 100.0),
)
WARM_UP = 10


def main(quick: bool = False) -> None:
    before = get_threads()
    set_threads(1)
    try:
        print(
            f"{'scene':<11} {'vertices':>8} {'bar ms':>7} {'median':>8} {'longest':>8} {'of cpu':>8} {'python':>7} "
            f"{'9 of 10':>7} {'solved':>7} {'generated':>9} {'cached':>7} {'launches':>8} {'kB more':>8}"
        )
        for name, steps, bar in SCENES:
            row = measure(name, quick=quick, steps=min(steps, 40) if quick else steps)
            print(
                f"{name.removeprefix('predictive_'):<11} {row['vertices']:8d} {bar:7.1f} {row['median']:8.3f} "
                f"{row['longest']:8.3f} {row['cpu']:8.3f} {row['python']:7.4f} {row['mostly']:7.4f} {row['contacts']:7.0f} "
                f"{row['generated']:9.0f} {row['cached']:7.0f} "
                f"{row['launches']:8.0f} {row['memory']:8.1f}",
                flush=True,
            )
    finally:
        set_threads(before)


def measure(name: str, *, quick: bool, steps: int) -> dict[str, Any]:
    """The steps of one example."""
    sys.path.insert(0, str(EXAMPLES))
    scene = importlib.import_module(name).scene("quick" if quick else "full")
    cloth = weft.Realtime(scene)
    dt = 1.0 / scene.fps
    for _ in range(WARM_UP):
        cloth.step(dt)
    wall, cpu, reports = [], [], []
    for _ in range(steps):
        start, used = time.perf_counter(), time.thread_time()
        cloth.step(dt)
        wall.append(time.perf_counter() - start)
        cpu.append(time.thread_time() - used)
        reports.append(cloth.report)
    counts = {key: float(np.mean([r[key] for r in reports])) for key in ("contacts", "generated", "cached")}
    grown = memory(cloth, dt)
    python, mostly, kernels = overhead(cloth, dt, steps)
    return {
        "vertices": len(cloth.positions),
        "median": 1e3 * float(np.median(wall)),
        "longest": 1e3 * max(wall),
        "cpu": 1e3 * float(np.median(cpu)),
        "python": 1e3 * python,
        "mostly": 1e3 * mostly,
        "launches": kernels,
        "memory": grown / 1e3,
        **counts,
    }


def memory(cloth: weft.Realtime, dt: float) -> int:
    """Bytes that twenty steps leave behind."""
    tracemalloc.start()
    cloth.step(dt)
    gc.collect()
    start = tracemalloc.get_traced_memory()[0]
    for _ in range(20):
        cloth.step(dt)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - start
    tracemalloc.stop()
    return grown


def overhead(cloth: weft.Realtime, dt: float, steps: int) -> tuple[float, float, float]:
    """The time of a step outside of kernels, the median and what nine of ten stay below, and how many kernels it launches.

    The steps are those from the start.
    """
    inside = [0.0, 0.0]
    real = PackedKernel.call

    def timed(self: PackedKernel, first: int, count: int) -> None:
        start = time.thread_time()
        real(self, first, count)
        inside[0] += time.thread_time() - start
        inside[1] += 1.0

    cloth.reset()
    outside, calls = [], []
    PackedKernel.call = timed  # type: ignore[method-assign]
    try:
        for _ in range(WARM_UP + steps):
            inside[:] = 0.0, 0.0
            start = time.thread_time()
            cloth.step(dt)
            outside.append(time.thread_time() - start - inside[0])
            calls.append(inside[1])
    finally:
        PackedKernel.call = real  # type: ignore[method-assign]
    median, mostly = np.quantile(outside[WARM_UP:], [0.5, 0.9])
    return float(median), float(mostly), float(np.median(calls[WARM_UP:]))


if __name__ == "__main__":
    main("--quick" in sys.argv)

"""The implicit step: its time, its iterations and its error, on sheets of several sizes.

A sheet of one metre, cotton, hangs from two corners and falls; after half a second, when it folds and whips, single
steps of 1/60 s from that state are timed. Of each size: vertices, milliseconds a step of the wall clock and of all
cores together (the best of several, since other programs may run), iterations of the solver, and its error: the
largest difference in the new velocities from a solve that is a thousand times tighter.
"""

import time
from typing import Any

import numpy as np
import warp as wp

import weft
from weft.dynamics.implicit.model import Implicit
from weft.runtime import get_threads, set_threads
from weft.world import State, World

FRAME = 1.0 / 60.0


def main(quick: bool = False) -> None:
    sizes = (30, 50) if quick else (30, 50, 100, 150)
    print(f"{'vertices':>9} {'threads':>8} {'ms':>8} {'ms of cores':>12} {'iterations':>11} {'error m/s':>10}")
    for size in sizes:
        world, state = hanging_sheet(size, frames=10 if quick else 30)
        for threads in sorted({1, get_threads()}):
            row = measure(world, state, threads, repeats=5 if quick else 20)
            print(
                f"{size * size:9d} {threads:8d} {row['wall']:8.1f} {row['cores']:12.1f} {row['iterations']:11d} "
                f"{row['error']:10.1e}",
                flush=True,
            )


def hanging_sheet(size: int, *, frames: int) -> tuple[World, State]:
    """A sheet of size x size vertices that has fallen for some frames, held at two corners."""
    cells = size - 1
    cloth = weft.Cloth(
        shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)), pins=[weft.Pin(indices=[0, cells])], material="cotton"
    )
    world = World(weft.Scene(cloths=[cloth]))
    state = world.initial_state()
    # a flat sheet would fall flat for ever
    ripple = np.random.default_rng(0).normal(scale=1e-4, size=(world.vertex_count, 3))
    state.x.assign(state.positions() + ripple)
    model = Implicit.from_world(world)
    x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
    for _ in range(frames):
        world.begin_step(state, FRAME)
        model.propose(state, world.target, FRAME, x_end, v_end)
        state.take(x_end, v_end)
        state.time += FRAME
    return world, state


def measure(world: World, state: State, threads: int, *, repeats: int) -> dict[str, Any]:
    """One step from the state, several times."""
    before = get_threads()
    set_threads(threads)
    try:
        model = Implicit.from_world(world)
        x_end, v_end = wp.zeros_like(state.x), wp.zeros_like(state.v)
        wall, cores = [], []
        for _ in range(repeats + 1):
            start, used = time.perf_counter(), time.process_time()
            model.propose(state, world.target, FRAME, x_end, v_end)
            wall.append(time.perf_counter() - start)
            cores.append(time.process_time() - used)
        answer = v_end.numpy().copy()
        exact = Implicit.from_world(world, tolerance=1e-3 * model.solver.tolerance)
        exact.propose(state, world.target, FRAME, x_end, v_end)
        return {
            "wall": 1e3 * min(wall[1:]),
            "cores": 1e3 * min(cores[1:]),
            "iterations": sum(solution.iterations for solution in model.solutions),
            "error": float(np.abs(answer - v_end.numpy()).max()),
        }
    finally:
        set_threads(before)


if __name__ == "__main__":
    main()

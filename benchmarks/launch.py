"""What a second thread gains: `weft.runtime.launch` on one thread and on two, and the same bytes from one, two and three.

    python -m benchmarks.launch [--quick]

Two bare kernels, one that gathers spring forces and one that asks a tree which boxes overlap, and two whole stages made
of such kernels: mass-spring dynamics and a search for candidates. Runs with one and with two threads take
turns and the fastest of each counts, so that a busy machine does not favour either; a second thread needs a second
core that is free.

Then a whole frame of `robust`, the twist at 60 x 60 vertices, on an otherwise quiet machine and beside as many processes that
compute all the time as it has cores less one, and as it has cores: means, since what a busy neighbour costs is not in
the fastest frame. One and two threads take turns here too.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter, sleep
from typing import NamedTuple

import numpy as np
import warp as wp

import weft
from benchmarks.robust import scene_of
from weft.broad_phase import make_broad_phase
from weft.dynamics.mass_spring import MassSpring
from weft.mesh import TriMesh, shapes
from weft.methods import make_method
from weft.runtime import get_threads, launch, set_threads
from weft.world import Surface, World

wp.set_module_options({"enable_backward": False})


@wp.kernel
def gather_springs(
    first: int,
    x: wp.array[wp.vec3d],
    offsets: wp.array[int],
    neighbours: wp.array[int],
    rest: wp.array[wp.float64],
    stiffness: wp.float64,
    force: wp.array[wp.vec3d],
):
    """The force of all springs at a vertex."""
    i = first + wp.tid()
    total = wp.vec3d()
    for s in range(offsets[i], offsets[i + 1]):
        d = x[neighbours[s]] - x[i]
        length = wp.length(d)
        total += (stiffness * (length - rest[s]) / length) * d
    force[i] = total


@wp.kernel
def count_overlaps(
    first: int, tree: wp.uint64, lower: wp.array[wp.vec3], upper: wp.array[wp.vec3], count: wp.array[int]
):
    """How many boxes a box overlaps."""
    i = first + wp.tid()
    found = int(0)
    other = int(0)
    query = wp.bvh_query_aabb(tree, lower[i], upper[i])
    while wp.bvh_query_next(query, other):
        found += 1
    count[i] = found


class Work(NamedTuple):
    """Something to time."""

    name: str
    size: str
    run: Callable[[], None]
    result: Callable[[], bytes]


def crumpled(side: int) -> TriMesh:
    """A square sheet of side x side vertices that waves bend over itself."""
    mesh = shapes.grid((1.0, 1.0), (side - 1, side - 1))
    x = np.array(mesh.vertices)
    rng = np.random.default_rng(0)
    for _ in range(24):
        phase = mesh.vertices @ (9.0 * rng.normal(size=3)) + rng.uniform(0.0, 2.0 * np.pi)
        x += 0.03 * np.sin(phase)[:, None] * rng.normal(size=3)
    return mesh.with_vertices(x)


def force_kernel(side: int) -> Work:
    # springs are cheap: three times as many vertices along a side, so that waking a thread does not count
    mesh = crumpled(3 * side)
    offsets, neighbours = mesh.vertex_neighbours
    count = len(mesh.vertices)
    start = np.repeat(np.arange(count), np.diff(offsets))
    rest = 0.9 * np.linalg.norm(mesh.vertices[start] - mesh.vertices[neighbours], axis=1)
    force = wp.zeros(count, dtype=wp.vec3d, device="cpu")
    inputs = (
        wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu"),
        wp.array(offsets, dtype=int, device="cpu"),
        wp.array(neighbours, dtype=int, device="cpu"),
        wp.array(rest, dtype=wp.float64, device="cpu"),
        500.0,
        force,
    )
    size = f"{count:,} vertices, {len(neighbours):,} springs"
    return Work("force kernel", size, lambda: launch(gather_springs, count, inputs), lambda: force.numpy().tobytes())


def query_kernel(side: int) -> Work:
    mesh = crumpled(side)
    corners = mesh.vertices[mesh.faces].astype(np.float32)
    lower, upper = (wp.array(box, dtype=wp.vec3, device="cpu") for box in (corners.min(axis=1), corners.max(axis=1)))
    tree = wp.Bvh(lower, upper)
    count = wp.zeros(len(mesh.faces), dtype=int, device="cpu")
    inputs = (tree.id, lower, upper, count)

    def run() -> None:
        launch(count_overlaps, len(mesh.faces), inputs, grain=64)

    # the tree must live as long as its id is used
    return Work("query kernel", f"{len(mesh.faces):,} triangles", run, lambda: (tree, count.numpy().tobytes())[1])


def springs_in_motion(side: int) -> Work:
    shape = weft.Grid(size=(1.0, 1.0), cells=(side - 1, side - 1))
    scene = weft.Scene(cloths=[weft.Cloth(shape=shape, pins=[weft.Pin(boundary="left")])])
    world = World(scene)
    dynamics = MassSpring.from_world(world)
    dt = 8 * dynamics.largest_step
    state = world.initial_state()
    world.begin_step(state, dt)
    x, v = (wp.zeros(world.vertex_count, dtype=wp.vec3d, device="cpu") for _ in range(2))

    def run() -> None:
        dynamics.propose(state, world.target, dt, x, v)

    size = f"{world.vertex_count:,} vertices, 8 substeps"
    return Work("mass-spring dynamics", size, run, lambda: x.numpy().tobytes() + v.numpy().tobytes())


def search_for_candidates(side: int) -> Work:
    mesh = crumpled(side)
    broad = make_broad_phase("bvh", Surface.from_arrays(len(mesh.vertices), mesh.faces))
    x = wp.array(mesh.vertices, dtype=wp.vec3d, device="cpu")
    found = [b""]

    def run() -> None:
        broad.update(x, x, 0.001)
        found[0] = b"".join(pairs.numpy().tobytes() for pairs in broad.feature_pairs())

    return Work("candidates, bvh", f"{len(mesh.faces):,} triangles", run, lambda: found[0])


def fastest(run: Callable[[], None], seconds: float) -> dict[int, float]:
    """Seconds of the fastest run with one thread and with two, taken in turn for some time."""
    best = {1: np.inf, 2: np.inf}
    end = perf_counter() + seconds
    while perf_counter() < end:
        for threads in best:
            set_threads(threads)
            # the first launch after a change records the kernel anew
            run()
            for _ in range(3):
                begin = perf_counter()
                run()
                best[threads] = min(best[threads], perf_counter() - begin)
    return best


def same_bytes(work: Work) -> bool:
    """Whether one, two and three threads give the same."""
    results = set()
    for threads in (1, 2, 3):
        set_threads(threads)
        work.run()
        results.add(work.result())
    return len(results) == 1


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """So many other processes that compute all the time."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        sleep(0.2)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def twist_frames(turns: int) -> dict[int, list[float]]:
    """Seconds of frames of the twist by one and by two threads, which take turns of five frames."""
    world = World(scene_of("robust_twist", 60))
    runs = {threads: (make_method(world, world.scene.method), world.initial_state()) for threads in (1, 2)}
    seconds: dict[int, list[float]] = {1: [], 2: []}
    for turn in range(turns):
        for threads, (method, state) in runs.items():
            set_threads(threads)
            for _ in range(5):
                begin = perf_counter()
                method.advance_frame(state)
                # the first frames compile kernels, and have no contacts
                if turn >= 4:
                    seconds[threads].append(perf_counter() - begin)
    if runs[1][1].positions().tobytes() != runs[2][1].positions().tobytes():
        raise SystemExit("the twist: the number of threads changes the result")
    return seconds


def under_load(*, quick: bool) -> None:
    cores = os.cpu_count() or 1
    print("\n| twist, 60 x 60 | 1 thread, ms a frame | 2 threads, ms a frame | ratio |")
    print("|---|---:|---:|---:|")
    for count in sorted({0, max(1, cores - 1), cores}):
        with neighbours(count):
            one, two = (1e3 * float(np.mean(found)) for found in twist_frames(6 if quick else 12).values())
        print(f"| beside {count} busy processes | {one:.0f} | {two:.0f} | {one / two:.2f} |", flush=True)


def main(*, quick: bool = False) -> None:
    threads = get_threads()
    side = 60 if quick else 200
    makers = (force_kernel, query_kernel, springs_in_motion, search_for_candidates)
    try:
        print(f"{os.cpu_count()} cores\n")
        print("| what | size | 1 thread, ms | 2 threads, ms | ratio | 1, 2, 3 threads |")
        print("|---|---|---:|---:|---:|---|")
        for make in makers:
            work = make(side)
            same = same_bytes(work)
            best = fastest(work.run, 0.5 if quick else 4.0)
            print(
                f"| {work.name} | {work.size} | {1e3 * best[1]:.2f} | {1e3 * best[2]:.2f} | {best[1] / best[2]:.2f} | "
                f"{'same bytes' if same else 'DIFFERENT'} |",
                flush=True,
            )
            if not same:
                raise SystemExit(f"{work.name}: the number of threads changes the result")
        under_load(quick=quick)
    finally:
        set_threads(threads)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])

"""Detection against ipctk: candidates, and a whole pass over a step, with the same number of threads.

    python -m benchmarks.detection [--quick]

The cloth is a pleated sheet, bent by smooth waves that keep it free of intersections, so that layers lie a few edge
lengths apart; it falls and trembles. Candidates are vertex-triangle and edge-edge pairs (ipctk: `Candidates.build` with its
LBVH). The whole pass is boxes, candidates and continuous collision detection, down to the fraction of the step that is
free of collisions (ipctk: `compute_collision_free_stepsize` with LBVH and tight inclusion). Runs of the two alternate, and the
fastest of each counts; with one thread processor time counts. So a busy machine favours neither.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

import ipctk
import numpy as np
import warp as wp

from weft.broad_phase import make_broad_phase
from weft.contact.contact import CollisionSearch
from weft.runtime import get_threads, set_threads
from weft.world import Surface

IMAGE = Path(__file__).parent.parent / "docs" / "images" / "detection.png"
BROAD_PHASES = ("bvh", "topology_tree", "material_tree")


class Motion(NamedTuple):
    """A cloth that moves from start to end."""

    start: np.ndarray
    end: np.ndarray
    faces: np.ndarray


class Row(NamedTuple):
    """One line of the table, times in seconds."""

    triangles: int
    threads: int
    what: str
    ours: float
    theirs: float
    note: str


def pleated(side: int, seed: int = 0) -> Motion:
    """A sheet of side x side vertices and about a metre, in pleats, bent; all of it by maps that can be undone."""
    rng = np.random.default_rng(seed)
    corner = np.arange(side * side).reshape(side, side)
    a, b, c, d = (part.ravel() for part in (corner[:-1, :-1], corner[:-1, 1:], corner[1:, :-1], corner[1:, 1:]))
    faces = np.stack([a, b, d, a, d, c], axis=1).reshape(-1, 3).astype(np.int32)

    # a meander: the direction of the cloth swings to and fro by more than a right angle's worth
    edge = 1.0 / (side - 1)
    turn = 1.45 * np.sin(np.arange(side) * edge * 12.0 * np.pi)
    step = 0.5 * (turn[1:] + turn[:-1])
    across, along = (np.concatenate([[0.0], np.cumsum(wave(step))]) * edge for wave in (np.sin, np.cos))
    u, v = np.meshgrid(np.arange(side), np.arange(side) * edge)
    x = np.stack([across[u], v, along[u]], axis=-1).reshape(-1, 3)

    # shears one coordinate after the other keep what is apart apart
    for axis in [0, 1, 2] * 3:
        for other in ((axis + 1) % 3, (axis + 2) % 3):
            frequency = rng.uniform(6.0, 25.0)
            x[:, axis] += rng.uniform(0.3, 0.8) / frequency * np.sin(frequency * x[:, other] + rng.uniform(0.0, 6.28))

    # trembling of a quarter of an edge, falling by one edge
    moved = 0.025 * edge * rng.standard_normal(x.shape) + [0.0, -edge, 0.0]
    for axis in range(3):
        for other in range(3):
            wave = np.sin(rng.uniform(10.0, 60.0) * x[:, other] + rng.uniform(0.0, 6.28))
            moved[:, axis] += 0.25 * edge * wave
    return Motion(np.asfortranarray(x), np.asfortranarray(x + moved), faces)


def fastest(runs: list[Callable[[], object]], repeats: int, threads: int) -> list[float]:
    """Seconds of the fastest run of each, the runs taken in turn."""
    clock = process_time if threads == 1 else perf_counter
    best = [float("inf")] * len(runs)
    for _ in range(repeats):
        for k, run in enumerate(runs):
            begin = clock()
            run()
            best[k] = min(best[k], clock() - begin)
    return best


def compare(side: int, threads: int, repeats: int) -> list[Row]:
    """Time one cloth."""
    motion = pleated(side)
    set_threads(threads)
    ipctk.set_num_threads(threads)
    mesh = ipctk.CollisionMesh(motion.start, ipctk.edges(motion.faces), motion.faces)
    surface = Surface.from_arrays(len(motion.start), motion.faces)
    start, end = (wp.array(np.ascontiguousarray(x), dtype=wp.vec3d, device="cpu") for x in (motion.start, motion.end))
    broad = {name: make_broad_phase(name, surface, material=motion.start) for name in BROAD_PHASES}
    search = CollisionSearch(broad["bvh"])
    theirs = ipctk.Candidates()
    free = {}

    def list_ours(name: str, follow: bool) -> int:
        broad[name].update(start, end, follow=follow)
        return sum(len(pairs) for pairs in broad[name].feature_pairs())

    def pass_ours() -> None:
        free["weft"] = search.free_step(start, end)

    def pass_theirs() -> None:
        free["ipctk"] = ipctk.compute_collision_free_stepsize(mesh, motion.start, motion.end, 0.0, ipctk.LBVH())

    runs: list[Callable[[], object]] = [lambda: theirs.build(mesh, motion.start, motion.end, 0.0, ipctk.LBVH())]
    runs += [lambda name=name: list_ours(name, True) for name in BROAD_PHASES]
    runs += [lambda: list_ours("bvh", False)]
    for run in runs:
        run()
    times = fastest(runs, repeats, threads)
    whole = fastest([pass_theirs, pass_ours], max(2, repeats // 3), threads)

    theirs_count = len(theirs.fv_candidates) + len(theirs.ee_candidates)
    rows = []
    for k, name in enumerate(BROAD_PHASES, start=1):
        note = f"{list_ours(name, True):,} pairs, ipctk {theirs_count:,}"
        rows.append(Row(len(motion.faces), threads, f"candidates, {name}", times[k], times[0], note))
    same = f"the same boxes: {list_ours('bvh', False):,} pairs"
    rows.append(Row(len(motion.faces), threads, "candidates, bvh, resting frame", times[-1], times[0], same))
    note = f"free step {free['weft']:.4f}, ipctk {free['ipctk']:.4f}"
    rows.append(Row(len(motion.faces), threads, "whole pass", whole[1], whole[0], note))
    return rows


def print_rows(rows: list[Row]) -> None:
    print("| triangles | threads | what | weft, ms | ipctk, ms | ratio | |")
    print("|---:|---:|---|---:|---:|---:|---|")
    for row in rows:
        print(
            f"| {row.triangles:,} | {row.threads} | {row.what} | {1e3 * row.ours:.1f} | {1e3 * row.theirs:.1f} | "
            f"{row.theirs / row.ours:.1f} | {row.note} |"
        )


def plot(rows: list[Row], path: Path) -> None:
    """Cost against size, both axes logarithmic."""
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for what, colour in (("candidates, bvh", "tab:blue"), ("whole pass", "tab:orange")):
        chosen = [row for row in rows if row.what == what]
        sizes = [row.triangles for row in chosen]
        label = what.split(",")[0]
        axes.loglog(sizes, [1e3 * row.ours for row in chosen], "o-", color=colour, label=f"weft, {label}")
        axes.loglog(
            sizes, [1e3 * row.theirs for row in chosen], "s--", color=colour, alpha=0.6, label=f"ipctk, {label}"
        )
    ends = np.array([min(row.triangles for row in rows), max(row.triangles for row in rows)], float)
    axes.loglog(ends, ends * 1e-4, ":", color="grey", label="linear")
    axes.set(xlabel="triangles", ylabel="milliseconds on one thread")
    axes.grid(visible=True, which="both", alpha=0.2)
    axes.legend(fontsize=8)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def main(*, quick: bool = False) -> None:
    threads = get_threads()
    try:
        rows = []
        for side in (60,) if quick else (150, 500):
            for count in sorted({1, threads}):
                rows += compare(side, count, 3 if quick or side > 300 else 12)
        print_rows(rows)
        if not quick:
            sides = (24, 42, 72, 127, 225, 400, 708)
            series = [row for side in sides for row in compare(side, 1, 3 if side > 300 else 7)]
            print("\ncost against size")
            print_rows([row for row in series if row.what in ("candidates, bvh", "whole pass")])
            plot(series, IMAGE)
            print(f"\nplot: {IMAGE}")
    finally:
        set_threads(threads)


if __name__ == "__main__":
    main(quick="--quick" in sys.argv[1:])

"""Continuous collision detection against ipctk: queries a second on one thread, in one run.

    python -m benchmarks.ccd [vertices along a side]

The queries are the candidates of ipctk's own broad phase on a crumpled sheet with motion. Those that stay apart go
through ipctk in bulk, inside its C++ loop (`compute_collision_free_stepsize`); it shortens the step as soon as it sees
an alarm of its own, which makes the rest cheaper for it and is not corrected for. Those that meet go through it one by
one, less the cost of a call that has nothing to do. Times are processor time, so that a busy machine does not matter.
"""

import sys
from collections.abc import Callable
from time import process_time

import ipctk
import numpy as np
import warp as wp

from weft.geometry.ccd import ccd_edge_edge, ccd_point_triangle
from weft.mesh.shapes import grid
from weft.runtime import launch, set_threads

wp.set_module_options({"enable_backward": False})

# pairs that meet are slow in ipctk: this many stand for all
SAMPLE = 100


@wp.kernel
def point_triangle_stencils(
    first: int,
    stencils: wp.array[wp.vec4i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
):
    i = first + wp.tid()
    s = stencils[i]
    p, a, b, c = s[0], s[1], s[2], s[3]
    met, t = ccd_point_triangle(start[p], start[a], start[b], start[c], end[p], end[a], end[b], end[c], tolerance)
    hit[i] = met
    time[i] = t


@wp.kernel
def edge_edge_stencils(
    first: int,
    stencils: wp.array[wp.vec4i],
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
):
    i = first + wp.tid()
    s = stencils[i]
    a, b, c, d = s[0], s[1], s[2], s[3]
    met, t = ccd_edge_edge(start[a], start[b], start[c], start[d], end[a], end[b], end[c], end[d], tolerance)
    hit[i] = met
    time[i] = t


def crumpled(side: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Start, end and faces of a square sheet crumpled by random waves; it falls by 4 mm and trembles by 1 mm."""
    rng = np.random.default_rng(0)
    mesh = grid((1.0, 1.0), (side - 1, side - 1))

    def waves(x: np.ndarray, frequency: float, height: float) -> np.ndarray:
        total = np.zeros_like(x)
        for _ in range(24):
            phase = x @ (frequency * rng.normal(size=3)) + rng.uniform(0.0, 2.0 * np.pi)
            total += height * np.sin(phase)[:, None] * rng.normal(size=3)
        return total

    flat = mesh.vertices
    start = 0.55 * flat + waves(flat, 9.0, 0.03) + waves(flat, 40.0, 0.001)
    end = start + waves(flat, 12.0, 0.0007) + 0.0004 * rng.normal(size=flat.shape) + (0.0, -0.004, 0.0)
    return np.asfortranarray(start), np.asfortranarray(end), np.asarray(mesh.faces)


def best(run: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of several runs."""
    seconds = []
    for _ in range(repeats):
        begin = process_time()
        run()
        seconds.append(process_time() - begin)
    return min(seconds)


class Ours:
    """weft on a list of stencils."""

    def __init__(self, kernel: wp.Kernel, stencils: np.ndarray, start: np.ndarray, end: np.ndarray) -> None:
        self.kernel = kernel
        self.stencils = wp.array(stencils, dtype=wp.vec4i, device="cpu")
        self.ends = [wp.array(np.ascontiguousarray(x), dtype=wp.vec3d, device="cpu") for x in (start, end)]
        self.hit = wp.zeros(len(stencils), dtype=wp.bool, device="cpu")
        self.time = wp.zeros(len(stencils), dtype=wp.float64, device="cpu")
        self.run()

    def run(self) -> None:
        launch(self.kernel, len(self.stencils), [self.stencils, *self.ends, 1e-6, self.hit, self.time])


def in_bulk(
    mesh: ipctk.CollisionMesh, start: np.ndarray, end: np.ndarray, kind: str, pairs: list, ccd: object
) -> float:
    """Seconds that ipctk takes for pairs that stay apart."""
    candidates = ipctk.Candidates()
    setattr(candidates, kind, pairs)
    return best(lambda: candidates.compute_collision_free_stepsize(mesh, start, end, 0.0, ccd), 3)


def one_by_one(
    mesh: ipctk.CollisionMesh, start: np.ndarray, end: np.ndarray, kind: str, pairs: list, ccd: object
) -> float:
    """Seconds that ipctk takes for pairs that meet, from a sample."""
    sample = pairs[:: max(1, len(pairs) // SAMPLE)]
    near = [(c, c.dof(start, mesh.edges, mesh.faces), c.dof(end, mesh.edges, mesh.faces)) for c in sample]
    far = np.zeros(12)
    far[[0, 3] if kind == "ee_candidates" else [0]] = 1e3
    call = best(lambda: [c.ccd(a + far, b + far, narrow_phase_ccd=ccd) for c, a, b in near], 5)
    work = best(lambda: [c.ccd(a + 0.0, b + 0.0, narrow_phase_ccd=ccd) for c, a, b in near], 2)
    return max(0.0, work - call) * len(pairs) / len(sample)


def main(side: int = 150) -> None:
    set_threads(1)
    ipctk.set_num_threads(1)
    start, end, faces = crumpled(side)
    edges = ipctk.edges(faces)
    mesh = ipctk.CollisionMesh(start, edges, faces)
    candidates = ipctk.Candidates()
    candidates.build(mesh, start, end, 0.0, ipctk.LBVH())
    stencils = {
        "fv_candidates": [[c.vertex_id, *faces[c.face_id]] for c in candidates.fv_candidates],
        "ee_candidates": [[*edges[c.edge0_id], *edges[c.edge1_id]] for c in candidates.ee_candidates],
    }
    kernels = {"fv_candidates": point_triangle_stencils, "ee_candidates": edge_edge_stencils}
    narrow = {"tight inclusion": ipctk.TightInclusionCCD(), "additive": ipctk.AdditiveCCD()}

    print(f"crumpled sheet of {side} x {side} vertices, one thread, million queries a second")
    print(f"{'':24}{'queries':>10}{'weft':>8}" + "".join(f"{name:>18}{'ratio':>8}" for name in narrow))
    total = dict.fromkeys(["weft", *narrow], 0.0)
    count = 0
    for kind, label in (("fv_candidates", "point-triangle"), ("ee_candidates", "edge-edge")):
        rows = np.array(stencils[kind], np.int32).reshape(-1, 4)
        hit = Ours(kernels[kind], rows, start, end).hit.numpy().astype(bool)
        listed = list(getattr(candidates, kind))
        for meets, timed in ((False, in_bulk), (True, one_by_one)):
            pairs = [c for c, h in zip(listed, hit, strict=True) if h == meets]
            ours = Ours(kernels[kind], rows[hit == meets], start, end)
            seconds = {"weft": best(ours.run, 9)}
            for name, ccd in narrow.items():
                seconds[name] = timed(mesh, start, end, kind, pairs, ccd)
            _print_row(f"{label}, {'meet' if meets else 'apart'}", len(pairs), seconds)
            count += len(pairs)
            for name in total:
                total[name] += seconds[name]
    _print_row("all", count, total)


def _print_row(label: str, queries: int, seconds: dict[str, float]) -> None:
    cells = [f"{label:24}{queries:>10}{queries / seconds['weft'] / 1e6:>8.1f}"]
    for name, took in seconds.items():
        if name != "weft":
            cells.append(f"{queries / took / 1e6:>18.3f}{took / seconds['weft']:>8.1f}")
    print("".join(cells))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

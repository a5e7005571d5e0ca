"""How much longer than at rest the edges of cloth are."""

import warp as wp

from weft.runtime.buffers import read
from weft.runtime.launch import launch

wp.set_module_options({"enable_backward": False})

# threads that measure edges at most: each takes many edges, so that few of them contend for the one maximum
STRETCH_THREADS = 16384


@wp.func
def stretch_of(a: wp.vec3d, b: wp.vec3d, rest: wp.float64) -> wp.float64:
    """The ratio of an edge's length to its length at rest."""
    return wp.length(b - a) / rest


@wp.kernel
def measure_stretch(
    first: int,
    threads: int,
    edges: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    largest: wp.array[wp.float64],
):
    """Thread i of `threads` measures every `threads`-th edge; the largest ratio of length to rest length goes to `largest`."""
    i = first + wp.tid()
    found = wp.float64(0.0)
    for k in range(i, edges.shape[0], threads):
        e = edges[k]
        found = wp.max(found, stretch_of(x[e[0]], x[e[1]], rest[k]))
    wp.atomic_max(largest, i % largest.shape[0], found)


def largest_stretch(edges: wp.array, rest: wp.array, x: wp.array) -> float:
    """The largest ratio of an edge's length to its length at rest, at positions x."""
    threads, device = min(len(edges), STRETCH_THREADS), wp.get_device(x.device)
    # Warp's atomics are no atomics on the CPU, where each thread writes a maximum of its own
    largest = wp.zeros(max(1, threads) if device.is_cpu else 1, dtype=wp.float64, device=device)
    launch(measure_stretch, threads, [threads, edges, rest, x, largest], device=device, grain=64)
    return float(read((largest, 0, len(largest)))[0].max())

"""How the steps of a run are executed, and the numbers that `predictive` takes where the scene gives none."""

import math
from dataclasses import dataclass

import numpy as np
import warp as wp

from weft.runtime.cooperative import CLUSTER_BLOCKS
from weft.scene import Predictive
from weft.world import World

# vertices from which on the threads of the CPU share a step: below, they would wait for each other at some forty colours a
# substep for longer than the work takes
SHARED_FROM = 20_000
# vertices up to which a cluster of CUDA blocks is used, whose barriers are shorter; beyond, vertices for each block. On an H200
# 8,000 vertices take 2.5 ms a step in a cluster and 2.8 in 40 blocks, 10,000 take 4.5 and 3.6: bending needs many threads
CLUSTER_VERTICES = 9_000
VERTICES_A_BLOCK = 256
# default of the static collision radius, in mean lengths of edges: with less, fast cloth is missed; with more, there are more
# contacts to solve
RADIUS_SHARE = 0.5
# longest substep, s: contacts of thin cloth and cloth that is thrown need as many. With 1/270 s folds that fall, sheets that
# are struck and layers that swing cross by the hundred, with 1/720 s few or none do
LONGEST_SUBSTEP = 1.0 / 720.0
# longest substep, s, where bending is stiff on its mesh, so that a solve over the one above takes more than so many iterations.
# Lines of springs are solved one after another, once a substep, and give too much where bending pulls at them: with 1/720 s a
# strip on its edge falls over below its critical load, and one of 40 irregular cells hangs 6 % too deep
STIFF_SUBSTEP = 1.0 / 2160.0
STIFF_ITERATIONS = 4
# an edge that is longer than at rest by this share asks for as many substeps again, where the scene allows more
STRETCHED = 0.5


@dataclass(frozen=True)
class ExecutionPlan:
    """Which way the steps of a run are executed; made once, when the solver is set up.

    CPU (`blocks` = 0): a step is one kernel (`substeps.advance`), and contacts are solved in the order in which they are found.
    One thread is serial code, which is what makes 450 vertices take 0.14 ms; from 20,000 vertices on all threads share the
    kernel, with the same bytes as a result. The search is one kernel too (`search_cpu`), where the broad phase has patches and
    contacts are of triangles and edges; else it goes through the lists of the broad phase (`list_search`).

    CUDA (`blocks` > 0): all substeps are one kernel (`cuda_substeps`), and contacts are solved by reservations: contacts
    by colour take fifty times as long as those that push need. Where `captured`, a step is one CUDA graph (`cuda_graph_step`):
    about 0.1 ms of host time instead of that of some forty launches.
    """

    blocks: int
    shared: bool
    captured: bool

    @classmethod
    def make(cls, world: World, options: Predictive, *, blocks: int | None = None) -> "ExecutionPlan":
        """The plan for a scene on its device; `blocks` has a CPU imitate CUDA, which tests do."""
        count = world.cloth_vertex_count
        blocks = blocks_for(world.device, count) if blocks is None else blocks
        usual = options.predict and options.most_substeps is None and options.self_contacts == "triangles"
        captured = blocks > 0 and usual and not options.cache and (world.scene.broad_phase or "bvh") == "bvh"
        return cls(blocks, world.device.is_cpu and count >= SHARED_FROM, captured)


def blocks_for(device: wp.Device, vertex_count: int) -> int:
    """How many CUDA blocks share so many vertices; 0 on a CPU."""
    if device.is_cpu:
        return 0
    if vertex_count <= CLUSTER_VERTICES:
        # blocks of a cluster wait for each other without going through memory
        return CLUSTER_BLOCKS
    return min(int(device.sm_count), -(-vertex_count // VERTICES_A_BLOCK))


def usual_radius(world: World) -> float:
    """The static collision radius, where the scene has none."""
    lengths = np.concatenate([cloth.mesh.rest_lengths for cloth in world.cloths])
    return max(RADIUS_SHARE * float(lengths.mean()), world.largest_thickness)


def usual_substeps(world: World, options: Predictive, iterations: int = 0) -> int:
    """How many substeps a step has: as many as contacts need, or as bending needs.

    `iterations` is how many iterations a solve of bending takes over the longest substep that contacts allow.
    """
    longest = STIFF_SUBSTEP if iterations > STIFF_ITERATIONS else LONGEST_SUBSTEP
    return math.ceil(1.0 / world.scene.fps / options.steps / longest - 1e-9)


def refined_substeps(substeps: int, most: int | None, stretch: float) -> int:
    """More substeps, up to `most`, where an edge is stretched by this share of its length: few are enough for calm cloth."""
    if most is None:
        return substeps
    return max(substeps, min(most, substeps * (1 + int(max(stretch, 0.0) / STRETCHED))))

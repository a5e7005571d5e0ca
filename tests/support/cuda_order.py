"""Methods on the CPU in the order in which CUDA solves, where that is another one: the two then differ by rounding."""

import warp as wp

from weft.methods import make_method
from weft.methods.base import Method
from weft.methods.predictive.plan import ExecutionPlan, blocks_for
from weft.methods.predictive.solver import PredictiveSolver
from weft.world import World


def method_of(world: World, *, blocks: int | None = None, captured: bool = False) -> Method:
    """The method of a scene; `predictive` on the CPU has the partitions of CUDA, as many as there would be or `blocks`."""
    method = make_method(world, world.scene.method)
    if world.scene.method.name == "predictive" and world.device.is_cpu:
        if blocks is None:
            blocks = blocks_for(wp.get_device("cuda:0"), world.cloth_vertex_count)
        plan = ExecutionPlan(blocks, shared=False, captured=captured)
        method.solver = PredictiveSolver(world, world.scene.method, plan)
        method.solver.search.cpu = None
        if world.scene.method.cache:
            world.begin_step(world.initial_state(), 1.0 / world.scene.fps)
            pose = method.solver.read_pose()
            method.solver.cache_contacts(world.initial_state().x if pose is None else pose)
    return method

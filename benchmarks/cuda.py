"""The same runs on a GPU: time a frame, intersections, memory, and how far each stage is from the GPU's bandwidth.

`robust` on the rotating sphere at growing sizes, a stack of 50 sheets, `predictive` on the rotating sphere, and detection
alone on millions of triangles. Of the last frame of each sphere every kernel is timed by itself: its time, the bytes
that it must move at least (each of its arrays once, as far as its items reach), and the time that those bytes take at
the bandwidth of a copy measured in the same run; a table adds them up by stage. Timing a kernel by itself adds some
microseconds to each, so that the sum is more than what they take in a run.

`python -m benchmarks.cuda`; `--quick` for the smaller sizes, `--memory` for what two million vertices take, `--methods` for a
frame of every method on the GPU and on the CPU of the same machine, numbers for spheres of these sizes alone.
"""

import importlib
import sys
import time
from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np
import warp as wp

import weft
from benchmarks.predictive import EXAMPLES, WARM_UP
from benchmarks.robust import scene_of
from benchmarks.stages import stage_of
from weft.broad_phase import make_broad_phase
from weft.geometry.intersection import IntersectionFinder
from weft.mesh import shapes
from weft.methods import make_method
from weft.run.runner import FrozenGarbage
from weft.runtime.buffers import LaunchBound
from weft.runtime.cooperative import CooperativeLauncher
from weft.runtime.graph_cache import GraphCache
from weft.world import State, Surface, World

# side in vertices, and the bar in ms a frame
SPHERES = {150: 15.0, 500: 60.0, 1000: 400.0}
# timed steps of `predictive`
STEPS = 60
# longest run of one scene, in s
LONGEST = 90.0


class Traffic(NamedTuple):
    """What one kernel took and moved at least."""

    milliseconds: float
    launches: int
    bytes: float
    stage: str


def main(quick: bool = False) -> None:
    if not wp.is_cuda_available():
        print("there is no CUDA device here")
        return
    if "--memory" in sys.argv:
        memory()
        return
    if "--methods" in sys.argv:
        methods()
        return
    device = wp.get_device("cuda:0")
    speed = bandwidth(device)
    print(f"{device.name}, {speed / 1e9:.0f} GB/s by copying\n")
    print(f"{'scene':24} {'vertices':>9} {'median ms':>10} {'slowest ms':>11} {'bar ms':>8} {'intersections':>14}")
    named = [int(word) for word in sys.argv[1:] if word.isdigit()]
    if not named:
        predictive()
        if not quick:
            detection()
            stack()
    for size in named or ([min(SPHERES)] if quick else SPHERES):
        sphere(size, SPHERES.get(size, 0.0), speed)


def bandwidth(device: wp.Device) -> float:
    """Bytes a second of a copy, read and write counted."""
    a, b = (wp.zeros(2**27, dtype=wp.float64, device=device) for _ in range(2))
    wp.copy(b, a)
    wp.synchronize_device(device)
    start = time.perf_counter()
    for _ in range(10):
        wp.copy(b, a)
    wp.synchronize_device(device)
    return 10 * 2 * 8 * 2**27 / (time.perf_counter() - start)


def frames(world: World, count: int, longest: float = LONGEST) -> tuple[Any, State, np.ndarray]:
    """Advance that many frames, for `longest` seconds at most; seconds of each."""
    method, state = make_method(world, world.scene.method), world.initial_state()
    seconds: list[float] = []
    # as in a run
    with FrozenGarbage() as garbage:
        for _ in range(count):
            wp.synchronize_device(world.device)
            start = time.perf_counter()
            method.advance_frame(state)
            wp.synchronize_device(world.device)
            seconds.append(time.perf_counter() - start)
            garbage.frame_done()
            if sum(seconds[1:]) > longest:
                break
    return method, state, np.array(seconds)


def intersections(world: World, state: State) -> int:
    surface = world.surface
    bodies = {"face_body": surface.face_body.numpy(), "body_pairs": surface.body_pairs.numpy()}
    return len(IntersectionFinder(world.faces, **bodies).find(state.positions()))


def row(title: str, world: World, state: State, seconds: np.ndarray, bar: str) -> None:
    print_row(title, world.cloth_vertex_count, seconds, bar, intersections(world, state))


def print_row(title: str, vertices: int, seconds: np.ndarray, bar: str, crossings: int) -> None:
    median, slowest = 1e3 * np.median(seconds), 1e3 * seconds.max()
    print(f"{title:24} {vertices:9d} {median:10.2f} {slowest:11.1f} {bar:>8} {crossings:14d}", flush=True)


def sphere(size: int, bar: float, speed: float) -> None:
    """The frames in which the cloth lies on the sphere, and the kernels of one of them."""
    scene = scene_of("robust_rotating_sphere", size)
    # cloth thicker than half an edge would be in contact with itself everywhere
    world = World(scene.replace(thickness=min(scene.thickness, 0.5 / size)), "cuda:0")
    method, state, seconds = frames(world, 45)
    row(f"sphere {size} x {size}", world, state, seconds[-15:], f"{bar:g}")
    kernels = measure_kernels(lambda: method.advance_frame(state), world.device)
    print(f"\n  {'kernel':28} {'ms':>8} {'launches':>9} {'MB':>9} {'ms at least':>12}")
    for name, kernel in sorted(kernels.items(), key=lambda item: -item[1].milliseconds)[:12]:
        least = 1e3 * kernel.bytes / speed
        print(f"  {name:28} {kernel.milliseconds:8.2f} {kernel.launches:9d} {kernel.bytes / 1e6:9.1f} {least:12.3f}")
    print_stages(kernels, speed)


def print_stages(kernels: dict[str, Traffic], speed: float) -> None:
    """Kernels by stage: how far each is from the limit, and the three that lose most."""
    stages: dict[str, list[Traffic]] = defaultdict(list)
    for kernel in kernels.values():
        stages[kernel.stage].append(kernel)
    lost = {}
    print(f"\n  {'stage':28} {'ms':>8} {'launches':>9} {'MB':>9} {'ms at least':>12} {'times':>7}")
    for name, found in sorted(stages.items(), key=lambda item: -sum(kernel.milliseconds for kernel in item[1])):
        taken, launches = sum(kernel.milliseconds for kernel in found), sum(kernel.launches for kernel in found)
        moved = sum(kernel.bytes for kernel in found)
        least = 1e3 * moved / speed
        lost[name] = taken - least
        times = f"{taken / least:7.0f}" if least > 0.0 else f"{'-':>7}"
        print(f"  {name:28} {taken:8.2f} {launches:9d} {moved / 1e6:9.1f} {least:12.3f} {times}")
    total = sum(kernel.milliseconds for kernel in kernels.values())
    print(f"  {'all':28} {total:8.2f} {sum(kernel.launches for kernel in kernels.values()):9d}")
    worst = sorted(lost, key=lambda name: -lost[name])[:3]
    print(f"  worth working on next: {', '.join(worst)}\n", flush=True)


def measure_kernels(run: Any, device: wp.Device) -> dict[str, Traffic]:
    """Time every kernel that runs by itself, and add up what its arrays hold."""
    launcher = sys.modules["weft.runtime.launch"]._cuda[device.alias]
    moved: dict[str, float] = defaultdict(float)
    stage: dict[str, str] = {}
    launch, launch_cooperative = launcher.launch, CooperativeLauncher.launch
    reach: list[int] = []

    def cooperative(self: CooperativeLauncher, kernel: Any, items: int, inputs: Any, **how: Any) -> None:
        # a kernel passes over contacts, which have an order, several times, and over springs and vertices once
        contacts = any(arg.label == "order" for arg in kernel.adj.args)
        work = how.get("work")
        reach.append(items if contacts or work is None else work)
        launch_cooperative(self, kernel, items, inputs, **how)
        reach.clear()

    def counted(kernel: Any, dim: int, inputs: Any, block: int | None = None) -> None:
        arrays = [value for value in inputs if isinstance(value, wp.array)]
        items = reach[0] if reach else dim
        moved[kernel.key] += sum(min(array.size, items) * wp.types.type_size_in_bytes(array.dtype) for array in arrays)
        stage[kernel.key] = stage_of(kernel)
        launch(kernel, dim, inputs, block)

    launcher.launch, CooperativeLauncher.launch = counted, cooperative  # type: ignore[method-assign]
    # count the bytes of the items that there are, not of the launch bound: kernels do not touch the others
    for_count = LaunchBound.for_count
    LaunchBound.for_count = lambda self, count: count  # type: ignore[method-assign]
    # kernels of a graph are not timed one by one
    GraphCache.enabled = False
    wp.timing_begin(cuda_filter=wp.TIMING_KERNEL)
    try:
        run()
    finally:
        del launcher.launch
        GraphCache.enabled = True
        CooperativeLauncher.launch = launch_cooperative  # type: ignore[method-assign]
        LaunchBound.for_count = for_count  # type: ignore[method-assign]
    found: dict[str, list[float]] = defaultdict(list)
    for result in wp.timing_end():
        # Warp adds a hash to the names of kernels
        found[result.name.removeprefix("forward kernel ").rpartition("_")[0]].append(result.elapsed)
    return {
        name: Traffic(sum(times), len(times), moved.get(name, 0.0), stage.get(name, "the rest"))
        for name, times in found.items()
    }


def memory() -> None:
    """What two million vertices take: a sheet of 4 x 4 m that falls onto the ground and lies there."""
    sheet = weft.Cloth(shape=weft.Grid(size=(4.0, 4.0), cells=(1413, 1413)), placement={"position": (0.0, 0.004, 0.0)})
    ground = weft.Collider(name="ground", shape=weft.Plane(size=(8.0, 8.0)))
    world = World(weft.Scene(name="sheet", cloths=[sheet], colliders=[ground], method="robust"), "cuda:0")
    for count in (1, 8):
        method, _, seconds = frames(world, count)
        used = wp.get_mempool_used_mem_high("cuda:0")
        title = f"{world.vertex_count} vertices, {count} frames, {method.contact_list.count} contacts"
        print(
            f"{title}: {used / 1e9:.2f} GB, {used / world.vertex_count:.0f} bytes a vertex, {1e3 * seconds[-1]:.0f} ms"
        )


def methods() -> None:
    """A sheet that falls over a ball and onto the ground, under methods and dynamics that have no bar: some frames of each."""
    kinds: dict[str, dict[str, Any]] = {
        "untangle": {"name": "untangle"},
        "boxes": {"name": "boxes"},
        "push": {"name": "push"},
        "robust, springs": {"name": "robust", "dynamics": "mass_spring"},
        "robust, implicit end": {"name": "robust", "end_velocity": "implicit"},
    }
    print(f"{'method':24} {'vertices':>9} {'GPU ms':>10} {'CPU ms':>10} {'times':>7}")
    for title, method in kinds.items():
        # explicit steps of finer cloth take minutes a frame on a CPU
        for size in (100,) if title == "push" else (100, 300):
            scene = sheet_over_ball(size, method)
            # the first frames compile kernels and find room
            gpu, cpu = (
                1e3 * np.median(frames(World(scene, device), 8, 6.0)[2][1:][-4:]) for device in ("cuda:0", "cpu")
            )
            print(f"{title:24} {size * size:9d} {gpu:10.1f} {cpu:10.1f} {cpu / gpu:7.1f}", flush=True)


def sheet_over_ball(size: int, method: dict[str, Any]) -> weft.Scene:
    """A square metre of size x size vertices."""
    cells = size - 1
    sheet = weft.Cloth(
        shape=weft.Grid(size=(1.0, 1.0), cells=(cells, cells)),
        placement={"position": (0.0, 0.26, 0.0), "rotation_deg": (0.0, 20.0, 3.0)},
    )
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.25))
    ground = weft.Collider(name="ground", shape=weft.Plane(size=(3.0, 3.0)), placement={"position": (0.0, -0.25, 0.0)})
    thickness = min(0.004, 0.5 / size)
    return weft.Scene(name="sheet", cloths=[sheet], colliders=[ball, ground], thickness=thickness, method=method)


def stack_scene() -> weft.Scene:
    """Fifty sheets of 70 x 70 that fall onto each other: 1/240 s a step."""
    sheets = [
        weft.Cloth(
            name=f"sheet {k}",
            shape=weft.Grid(size=(0.7, 0.7), cells=(69, 69)),
            placement=weft.Placement(position=(0.0, 0.01 + 0.005 * k, 0.0), rotation_deg=(0.0, 7.0 * k, 0.0)),
        )
        for k in range(50)
    ]
    table = weft.Collider(
        name="table", shape=weft.Box(size=(1.0, 0.02, 1.0)), placement={"position": (0.0, -0.011, 0.0)}
    )
    method = {"name": "robust", "steps": 1}
    return weft.Scene(name="stack", fps=240, cloths=sheets, colliders=[table], method=method)


def stack() -> None:
    world = World(stack_scene(), "cuda:0")
    _, state, seconds = frames(world, 120)
    row("stack of 50, a step", world, state, seconds, "25")


def predictive() -> None:
    """The rotating sphere of the method's own examples at full size, the steps that the CPU's benchmark times."""
    sys.path.insert(0, str(EXAMPLES))
    scene = importlib.import_module("predictive_sphere").scene("full")
    cloth = weft.Realtime(scene, device="cuda:0")
    seconds = []
    for _ in range(WARM_UP + STEPS):
        start = time.perf_counter()
        # positions are with the host when it comes back
        cloth.step(1.0 / scene.fps)
        seconds.append(time.perf_counter() - start)
    crossings = len(weft.intersections(cloth.positions, cloth.faces))
    print_row("predictive 100 x 100", len(cloth.positions), np.array(seconds[WARM_UP:]), "2", crossings)


def detection() -> None:
    """Candidates of a crumpled sheet of 4.5 million triangles."""
    side = 1500
    mesh = shapes.grid((1.0, 1.0), (side, side))
    x = mesh.vertices.copy()
    x[:, 1] = 0.02 * np.sin(40.0 * x[:, 0]) * np.cos(37.0 * x[:, 2])
    x[:, 0] += 0.015 * np.sin(55.0 * x[:, 2])
    surface = Surface.from_arrays(len(x), mesh.faces, device="cuda:0")
    broad_phase = make_broad_phase("bvh", surface)
    positions = wp.array(x, dtype=wp.vec3d, device="cuda:0")
    seconds = []
    for _ in range(6):
        wp.synchronize()
        start = time.perf_counter()
        broad_phase.update(positions, positions, 2e-4)
        found = broad_phase.feature_pairs()
        wp.synchronize()
        seconds.append(time.perf_counter() - start)
    pairs = sum(len(kind) for kind in found)
    title = f"detection, {pairs / 1e6:.1f} M pairs"
    print(f"{title:24} {len(mesh.faces):9d} {1e3 * np.median(seconds[1:]):10.1f} {'triangles':>11} {40:>8}", flush=True)


if __name__ == "__main__":
    main("--quick" in sys.argv)

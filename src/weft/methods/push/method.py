"""`push`: Draping on meshes. Explicit springs, and vertices moved out of triangles by small constant moves.

A step: integrate; if a vertex moved unusually far, take half the step; shorten edges that are too long (Provot 1995);
push vertices away from triangles that are too close. As simple as can be, and it promises nothing: see `docs/push.md`.
"""

import numpy as np
import warp as wp

from weft.broad_phase.centroid_trees import KINDS
from weft.dynamics.mass_spring import SAFETY, stable_step
from weft.dynamics.springs import BEND
from weft.errors import SceneError
from weft.methods.base import Method, StepReport, choose_search
from weft.methods.push.integrators import Integrator, SpringAcceleration
from weft.methods.push.push_out import Push as PushResponse
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.cooperative import BLOCK, CooperativeLauncher, clusterable, grid_barrier
from weft.runtime.graph_cache import GraphCache
from weft.runtime.partition import partition_begin, partition_end, partition_step
from weft.runtime.readback import read
from weft.runtime.reduction import reduce_max
from weft.scene import Push as PushOptions
from weft.world import State, World

wp.set_module_options({"enable_backward": False})

# good steps before a halved step is doubled again
RECOVERY = 8
# without damping no step is short enough for Euler's method; this one grows slowly, s
SHORTEST_DELAY = 1e-4
# in steps shorter than this, s, moves are shorter too: many moves of full length in a short time throw the cloth about.
# what holds a vertex is that its velocity towards a triangle is taken away; the moves only copy_to_host it back out
FULL_MOVE = 1.0 / 60.0
# sweeps of Provot's correction a step
CORRECTIONS = 4


@wp.kernel
def hold_pinned(
    first: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    h: wp.float64,
    v: wp.array[wp.vec3d],
):
    """A pinned vertex goes straight to its target."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        v[i] = (target[i] - x[i]) / h


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def measure_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    farthest: wp.array[wp.float64],
):
    """How far the fastest vertex goes; pins go where they must, however far."""
    t = first + wp.tid()
    if t == 0:
        farthest[0] = wp.float64(0.0)
    grid_barrier(arrivals)
    far = wp.float64(0.0)
    for i in range(
        partition_begin(t, threads, count), partition_end(t, threads, count), partition_step(threads, count)
    ):
        if inverse_mass[i] > wp.float64(0.0):
            moved = wp.length(end[i] - x[i])
            # what is not a number must not get lost
            if moved > far or wp.isnan(moved):
                far = moved
    reduce_max(farthest, 0, far)


@wp.func
def shorten_edge(
    k: int,
    sweep: int,
    pairs: wp.array[wp.vec2i],
    longest: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    changed: wp.array[int],
    x: wp.array[wp.vec3d],
):
    """Both ends of an edge that is too long come nearer, a held end stays."""
    p = pairs[k]
    d = x[p[1]] - x[p[0]]
    length = wp.length(d)
    wa = inverse_mass[p[0]]
    wb = inverse_mass[p[1]]
    if length > longest[k] and wa + wb > wp.float64(0.0):
        step = ((length - longest[k]) / (length * (wa + wb))) * d
        x[p[0]] = x[p[0]] + wa * step
        x[p[1]] = x[p[1]] - wb * step
        # whoever writes writes the same
        changed[sweep] = 1


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def shorten_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    sweeps: int,
    colours: int,
    offsets: wp.array[int],
    pairs: wp.array[wp.vec2i],
    longest: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    changed: wp.array[int],
    x: wp.array[wp.vec3d],
):
    """Provot's correction in sweeps over all edges, colour by colour, until none is too long."""
    t = first + wp.tid()
    if t == 0:
        for sweep in range(sweeps):
            changed[sweep] = 0
    grid_barrier(arrivals)
    for sweep in range(sweeps):
        for colour in range(colours):
            begin = offsets[colour]
            count = offsets[colour + 1] - begin
            first_k = begin + partition_begin(t, threads, count)
            last_k = begin + partition_end(t, threads, count)
            for k in range(first_k, last_k, partition_step(threads, count)):
                shorten_edge(k, sweep, pairs, longest, inverse_mass, changed, x)
            grid_barrier(arrivals)
        if changed[sweep] == 0:
            break


class Push(Method):
    """Mass-spring cloth whose vertices keep a distance from the triangles of meshes and of cloth."""

    name = "push"

    def __init__(self, world: World, options: PushOptions) -> None:
        super().__init__(world, options)
        if np.isinf(world.seams.stiffness).any():
            raise SceneError(
                world.scene.problem(("seams",), "push steps springs explicitly and cannot weld; use kind = 'spring'")
            )
        self.halvings = options.halvings
        self.farthest = 0.5 * options.close
        self.response = PushResponse(
            world,
            search=choose_search(world, self.name, options.search, tuple(KINDS), "kdtree"),
            close=options.close,
            moves=options.moves,
            largest_face=options.largest_face or 2.0 * options.close,
            mesh=options.against != "cloth",
            cloth=options.against != "mesh",
        )
        self.forces = SpringAcceleration.from_world(world)
        self.integrator = Integrator(options.integrator, world.cloth_vertex_count, world.device)
        self.steps = options.steps or self._stable_steps()
        self.x_end, self.v_end = wp.zeros_like(world.target), wp.zeros_like(world.target)
        self._farthest = wp.zeros(1, dtype=wp.float64, device=world.device)
        self._counts: np.ndarray = np.zeros(2, np.int32)
        self._ahead = not world.device.is_cpu
        """whether to push before anyone knows how far vertices go"""
        self._cooperative, self._graphs = CooperativeLauncher(world.device), GraphCache(world.device)
        self._correct = self._make_correction(options.largest_stretch)
        self.level = 0
        """how often the step is halved at the moment"""
        self.good = 0
        """steps since it was halved or doubled"""
        self.taken = 0
        """steps that the frame took in the end"""
        self.left = 0
        """vertices that are still too close after all moves of the last step"""

    def steps_a_frame(self) -> int:
        return self.steps

    def advance_frame(self, state: State) -> dict:
        self.taken = 0
        row = super().advance_frame(state)
        return {**row, "steps": self.taken, "too_close": self.left}

    def step(self, state: State, dt: float) -> StepReport:
        report = StepReport()
        # in units of the shortest step
        whole, done = 1 << self.halvings, 0
        start = state.time
        while done < whole:
            part = whole >> self.level
            h = dt * part / whole
            state.time = start + dt * done / whole
            moved = self._propose(state, h)
            if not moved <= self.farthest and self.level < self.halvings:
                self.level, self.good = self.level + 1, 0
                continue
            if not moved <= self.farthest:
                report.problems.append(f"a vertex moves {moved:.3g} m in the shortest step: more than half of `close`")
            self._finish(state, h, report)
            done += part
            self.good += 1
            if self.good >= RECOVERY and self.level > 0 and done % (2 * part) == 0:
                self.level, self.good = self.level - 1, 0
        return report

    def saved(self) -> dict[str, np.ndarray]:
        return {"level": np.array([self.level, self.good])}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        self.level, self.good = (int(value) for value in saved["level"])

    def _stable_steps(self) -> int:
        """As many steps a frame as the stiffest spring asks for; Euler's method also must not outrun the damping."""
        network = self.forces.network
        longest = stable_step(network, self.world.mass[: self.world.cloth_vertex_count])
        if self.integrator.scheme.order == 1:
            delays = network.damping[network.stiffness > 0.0] / network.stiffness[network.stiffness > 0.0]
            longest = min(longest, max(float(np.min(delays, initial=np.inf)), SHORTEST_DELAY))
        return max(1, int(np.ceil(1.0 / (self.world.scene.fps * SAFETY * longest))))

    def _propose(self, state: State, h: float) -> float:
        """Integrate over h; gives how far the fastest vertex goes.

        A card pushes ahead, before anyone knows that: to push in vain now and then takes less than a wait in every step.
        """
        self.world.begin_step(state, h)
        self.response.prepare(state.x, state.v)

        def work() -> None:
            self._integrate(state, h)
            if self._ahead:
                self._push(state, h)

        # the time of wind is no part of a graph
        if self.forces.air.wind is None:
            self._graphs.run(work, state.x, state.v, h)
        else:
            work()
        farthest, self._counts = read((self._farthest, 0, 1), (self.response.counts, 0, 2))
        return float(farthest[0])

    def _integrate(self, state: State, h: float) -> None:
        world, count = self.world, self.world.cloth_vertex_count
        inputs = [world.inverse_mass, state.x, world.target, h, state.v]
        launch(hold_pinned, count, inputs, device=world.device)
        self.integrator.step(state.x, state.v, state.time, h, self.forces, self.x_end, self.v_end)
        inputs = [count, world.inverse_mass, state.x, self.x_end, self._farthest]
        self._cooperative.launch(measure_together, count, inputs)

    def _push(self, state: State, h: float) -> None:
        """Correct what was integrated, and push."""
        self.world.carry_colliders(state, h, self.x_end, self.v_end)
        self._correct(self.x_end)
        self.response.push(self.x_end, self.v_end, h, part=min(1.0, h / FULL_MOVE))

    def _finish(self, state: State, h: float, report: StepReport) -> None:
        """Push, where that is not done, and take the step."""
        if not self._ahead:
            self._push(state, h)
        # on the CPU these are the counts themselves, so that they have followed
        pushed, left = (int(count) for count in self._counts)
        report.contacts += pushed
        self.left = left
        state.take(self.x_end, self.v_end)
        self.taken += 1

    def _make_correction(self, stretch: float):
        """Provot's correction of edges longer than (1 + stretch) times their rest length."""
        network, device = self.forces.network, self.world.device
        if stretch == 0.0:
            return lambda x: None
        edges = np.flatnonzero(network.kind != BEND)
        order, offsets = colour_items(network.pairs[edges], self.world.cloth_vertex_count)
        chosen = edges[order]
        pairs = wp.array(network.pairs[chosen], dtype=wp.vec2i, device=device)
        longest = wp.array((1.0 + stretch) * network.rest[chosen], dtype=wp.float64, device=device)
        colours = [len(offsets) - 1, wp.array(offsets, dtype=int, device=device)]
        changed = wp.zeros(CORRECTIONS, dtype=int, device=device)
        inputs = [CORRECTIONS, *colours, pairs, longest, self.world.inverse_mass, changed]
        largest = int(np.diff(offsets).max(initial=0))
        # an edge that is not too long is little work
        return lambda x: self._cooperative.launch(shorten_together, largest, [*inputs, x], work=len(chosen) // 2)

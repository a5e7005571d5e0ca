"""Cloth without collisions in `push`: explicit integrators, the acceleration of springs, and Provot's correction.

The integrators for x' = v, v' = a(x, v, t) are Euler, midpoint, trapezoid and Runge-Kutta 4. All are Runge-Kutta schemes in
which a stage depends on the stage before it alone: with k_1 the rates at the start, stage i is taken at
y + h a_i k_(i-1), and the step ends at y + h sum b_i k_i.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.spring_forces import SpringForces, VertexForces, acceleration_of
from weft.dynamics.springs import BEND, SpringNetwork, from_world
from weft.runtime import launch
from weft.runtime.colouring import colour_items
from weft.runtime.compaction import reduce_max
from weft.runtime.cooperative import (
    BLOCK,
    CooperativeLauncher,
    clusterable,
    grid_barrier,
    partition_begin,
    partition_end,
    partition_step,
)
from weft.world import World

wp.set_module_options({"enable_backward": False})

# sweeps of Provot's correction a step at most: an edge that is still too long then is shortened further in the next step
SWEEPS = 4

Accelerate = Callable[[wp.array, wp.array, float, wp.array], None]
"""(x, v, time, a): write the accelerations of a state into a"""


@dataclass(frozen=True)
class Scheme:
    """How far along the rates of the last stage each stage lies, and the weight of its own rates in the result."""

    order: int
    stages: tuple[float, ...]
    weights: tuple[float, ...]


SCHEMES = {
    "euler": Scheme(1, (0.0,), (1.0,)),
    "midpoint": Scheme(2, (0.0, 0.5), (0.0, 1.0)),
    "trapezoid": Scheme(2, (0.0, 1.0), (0.5, 0.5)),
    "runge_kutta": Scheme(4, (0.0, 0.5, 0.5, 1.0), (1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0)),
}


@wp.kernel
def advance(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    speed: wp.array[wp.vec3d],
    gain: wp.array[wp.vec3d],
    h: wp.float64,
    x_out: wp.array[wp.vec3d],
    v_out: wp.array[wp.vec3d],
):
    """The state after h at constant rates."""
    i = first + wp.tid()
    x_out[i] = x[i] + h * speed[i]
    v_out[i] = v[i] + h * gain[i]


@wp.kernel
def add_rates(
    first: int,
    speed: wp.array[wp.vec3d],
    gain: wp.array[wp.vec3d],
    weight: wp.float64,
    speed_sum: wp.array[wp.vec3d],
    gain_sum: wp.array[wp.vec3d],
):
    """Add weighted rates to their sums."""
    i = first + wp.tid()
    speed_sum[i] = speed_sum[i] + weight * speed[i]
    gain_sum[i] = gain_sum[i] + weight * gain[i]


class Integrator:
    """Steps a state of `count` points by one of `SCHEMES`."""

    def __init__(self, name: str, count: int, device: wp.DeviceLike = "cpu") -> None:
        self.scheme = SCHEMES[name]
        self.count, self.device = count, device

        def new() -> wp.array:
            return wp.zeros(count, dtype=wp.vec3d, device=device)

        self._x, self._speed, self._gain, self._speed_sum, self._gain_sum = (new() for _ in range(5))

    def step(
        self, x: wp.array, v: wp.array, time: float, h: float, accelerate: Accelerate, x_end: wp.array, v_end: wp.array
    ) -> None:
        """Write the state after h; x and v stay as they are."""
        self._speed_sum.zero_()
        self._gain_sum.zero_()
        for stage, weight in zip(self.scheme.stages, self.scheme.weights, strict=True):
            if stage > 0.0:
                # the velocity of the stage overwrites that of the last one
                inputs = [x, v, self._speed, self._gain, stage * h, self._x, self._speed]
                launch(advance, self.count, inputs, device=self.device)
                accelerate(self._x, self._speed, time + stage * h, self._gain)
            else:
                wp.copy(self._speed, v, count=self.count)
                accelerate(x, self._speed, time, self._gain)
            if weight > 0.0:
                inputs = [self._speed, self._gain, weight, self._speed_sum, self._gain_sum]
                launch(add_rates, self.count, inputs, device=self.device)
        launch(advance, self.count, [x, v, self._speed_sum, self._gain_sum, h, x_end, v_end], device=self.device)


@wp.kernel
def accelerate_vertices(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    forces: VertexForces,
    a: wp.array[wp.vec3d],
):
    """Accelerations by springs, gravity and air; pinned vertices keep their velocity."""
    i = first + wp.tid()
    a[i] = wp.vec3d()
    w = inverse_mass[i]
    if w > wp.float64(0.0):
        a[i] = acceleration_of(i, w, forces, x, v)


class SpringAcceleration:
    """The accelerations of a spring network, for an integrator."""

    def __init__(self, network: SpringNetwork, count: int, inverse_mass: wp.array, air: Air) -> None:
        self.network, self.count, self.air = network, count, air
        self.inverse_mass, self.device = inverse_mass, inverse_mass.device
        self._forces = SpringForces(network, count, air, self.device)

    @classmethod
    def from_world(cls, world: World) -> "SpringAcceleration":
        """The springs of all cloths of a world, its masses and its forces."""
        return cls(from_world(world), world.cloth_vertex_count, world.inverse_mass, Air.from_world(world))

    def __call__(self, x: wp.array, v: wp.array, time: float, a: wp.array) -> None:
        self._forces.pull(x, v)
        self.air.blow(x, v, time)
        inputs = [x, v, self.inverse_mass, self._forces.arrays, a]
        launch(accelerate_vertices, self.count, inputs, device=self.device, grain=512)


@wp.kernel
def hold_pinned(
    first: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    h: wp.float64,
    v: wp.array[wp.vec3d],
):
    """Give a pinned vertex the velocity that brings it to its target in the step h."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        v[i] = (target[i] - x[i]) / h


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def find_largest_move(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    count: int,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    v_end: wp.array[wp.vec3d],
    h: wp.float64,
    farthest: wp.array[wp.float64],
):
    """Cooperative kernel: how far the fastest vertex moves in the step h, or would in another at the speed that it has then, m.

    Springs that are too stiff for the step first show in the speed. Pinned vertices do not count.
    """
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
            ahead = h * wp.length(v_end[i])
            # a NaN fails every comparison and must be reported
            if ahead > moved or wp.isnan(ahead):
                moved = ahead
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
    """Move the ends of an edge that is too long towards each other, by their inverse masses."""
    p = pairs[k]
    d = x[p[1]] - x[p[0]]
    length = wp.length(d)
    wa = inverse_mass[p[0]]
    wb = inverse_mass[p[1]]
    if length > longest[k] and wa + wb > wp.float64(0.0):
        step = ((length - longest[k]) / (length * (wa + wb))) * d
        x[p[0]] = x[p[0]] + wa * step
        x[p[1]] = x[p[1]] - wb * step
        # all threads that write write the same
        changed[sweep] = 1


@clusterable
@wp.kernel(launch_bounds=BLOCK)
def shorten_edges(
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
    """Cooperative kernel: Provot's correction, in sweeps over all edges, colour by colour, until none is too long."""
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


class LengthCorrection:
    """Provot 1995: after a step, edges longer than (1 + stretch) times their rest length are shortened."""

    def __init__(self, network: SpringNetwork, stretch: float, inverse_mass: wp.array, vertex_count: int) -> None:
        """Bend springs are left alone; with a stretch of 0 nothing is corrected."""
        device = inverse_mass.device
        edges = np.flatnonzero(network.kind != BEND) if stretch > 0.0 else np.zeros(0, int)
        order, offsets = colour_items(network.pairs[edges], vertex_count)
        chosen = edges[order]
        longest = (1.0 + stretch) * network.rest[chosen]
        self._count, self._largest_colour = len(chosen), int(np.diff(offsets).max(initial=0))
        self._inputs = [
            SWEEPS,
            len(offsets) - 1,
            wp.array(offsets, dtype=int, device=device),
            wp.array(network.pairs[chosen], dtype=wp.vec2i, device=device),
            wp.array(longest, dtype=wp.float64, device=device),
            inverse_mass,
            wp.zeros(SWEEPS, dtype=int, device=device),
        ]
        self._cooperative = CooperativeLauncher(device)

    def apply(self, x: wp.array) -> None:
        """Shorten edges of x that are too long."""
        if self._count:
            # an edge that is not too long is little work
            self._cooperative.launch(shorten_edges, self._largest_colour, [*self._inputs, x], work=self._count // 2)

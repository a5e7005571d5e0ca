"""Mass-spring cloth, integrated explicitly by central differences, with substeps as long as the stiffest spring allows.

Velocities live at half substeps: v(1/2) = v(0) + h/2 a(0), then v += h a and x += h v in turn, and a last half substep brings
the velocity to the time of the positions. Damping forces are computed from the velocity of half a substep before.
"""

from functools import partial
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.air import Air
from weft.dynamics.interface import StatelessDynamics, SubstepContacts
from weft.dynamics.spring_forces import SpringForces, VertexForces, acceleration_of
from weft.dynamics.springs import SpringNetwork, firm_welds, from_world
from weft.errors import SceneError
from weft.runtime import launch
from weft.runtime.graph_cache import GraphCache
from weft.world import State, World

wp.set_module_options({"enable_backward": False})

# fraction of the stability limit that is used: the limit is for springs at rest; tension makes them stiffer sideways
SAFETY = 0.8
# steps a frame that explicit springs may need. push on 20 x 20 cells took 24,000 steps in 12 s on two busy cores, so a frame
# of so many takes over an hour; a larger number lets a run begin that shows no progress, a smaller one refuses slow runs
MOST_STEPS = 1e7
# substeps of one CUDA graph: even numbers, so that the two buffers that substeps alternate between are the same again
SUBSTEPS_A_GRAPH = (64, 16, 4)


@wp.struct
class PinnedPaths:
    """Where vertices without inverse mass go in a step of so many substeps."""

    start: wp.array[wp.vec3d]
    target: wp.array[wp.vec3d]
    duration: wp.float64
    substeps: int


@wp.struct
class SubstepClock:
    """Counts substeps on the device, so that one CUDA graph serves all of them."""

    done: wp.array[int]
    """how many substeps were done before this one"""
    done_out: wp.array[int]
    times: wp.array[wp.vec2d]
    """the time of each substep, where there is wind; the second number of a pair is not used"""
    now: wp.array[wp.vec2d]


@wp.kernel
def advance_vertices(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    forces: VertexForces,
    pinned: PinnedPaths,
    clock: SubstepClock,
    kick: wp.float64,
    drift: wp.float64,
    x_out: wp.array[wp.vec3d],
    v_out: wp.array[wp.vec3d],
):
    """v += kick a, x += drift v; a pinned vertex is on the way from start to target, by the number of substeps done.

    The first item counts the substep, and sets `now` to the time of the next one where `times` are given (for wind).
    """
    i = first + wp.tid()
    done = clock.done[0] + 1
    if i == 0:
        clock.done_out[0] = done
        if clock.times.shape[0] > 0:
            clock.now[0] = clock.times[done]
    w = inverse_mass[i]
    if w == wp.float64(0.0):
        way = pinned.target[i] - pinned.start[i]
        progress = wp.float64(wp.min(done, pinned.substeps)) / wp.float64(pinned.substeps)
        x_out[i] = pinned.start[i] + progress * way
        v_out[i] = way / pinned.duration
        return
    vi = v[i] + kick * acceleration_of(i, w, forces, x, v)
    v_out[i] = vi
    x_out[i] = x[i] + drift * vi


class MassSpring(StatelessDynamics):
    """Explicit dynamics of a spring network."""

    central = True

    def __init__(self, network: SpringNetwork, mass: np.ndarray, inverse_mass: wp.array, air: Air) -> None:
        device = inverse_mass.device
        count = len(mass)
        self.count = count
        self.device = device
        self.inverse_mass = inverse_mass
        self.air = air
        self.largest_step = SAFETY * stable_step(network, mass)
        self._forces = SpringForces(network, count, air, device)
        self._x, self._v = ([wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(2)] for _ in range(2))
        done = [wp.zeros(1, dtype=int, device=device) for _ in range(2)]
        self._times = wp.empty(0, dtype=wp.vec2d, device=device)
        self._now = wp.zeros(1, dtype=wp.vec2d, device=device)
        """the first of the two numbers is the time of the substep, for wind"""
        # even and odd substeps alternate between two buffers
        self._clocks: list[Any] = [SubstepClock(), SubstepClock()]
        for place, clock in enumerate(self._clocks):
            clock.done, clock.done_out, clock.times, clock.now = done[1 - place], done[place], self._times, self._now
        self._graphs = GraphCache(device)

    @classmethod
    def from_world(cls, world: World) -> "MassSpring":
        """The springs of all cloths of a world, its masses and forces; a weld is a very stiff spring."""
        network = firm_welds(from_world(world), world)
        made = cls(network, world.mass, world.inverse_mass, Air.from_world(world))
        count_steps(world.scene, made.largest_step)
        return made

    def measure_ahead(self, state: State, dt: float) -> None:
        """`propose` needs nothing measured early."""

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: SubstepContacts | None = None,
    ) -> int:
        """Write where the cloth is after dt; returns the number of substeps taken.

        Vertices without inverse mass move on a straight line to `target`. `contacts` are ignored: they are for models that
        solve for positions.
        """
        substeps = max(1, int(np.ceil(dt / self.largest_step * (1.0 - 1e-12))))
        h = dt / substeps
        given = (state.x, state.v, target, dt, x_end, v_end)
        pinned: Any = PinnedPaths()
        pinned.start, pinned.target = state.x, target
        pinned.duration, pinned.substeps = wp.float64(dt), substeps
        if self.air.wind is not None:
            self._set_times(state.time + h * np.arange(substeps + 2))

        def advance(begin: int, count: int) -> None:
            for k in range(begin, begin + count):
                self._advance(k, h, pinned, state.v, x_end, v_end)

        self._graphs.run(partial(advance, 0, 1), "first", self._times, *given)
        begin = 1
        for batch in SUBSTEPS_A_GRAPH:
            while begin + batch <= substeps:
                self._graphs.run(partial(advance, begin, batch), "substeps", batch, self._times, *given)
                begin += batch
        rest = substeps + 1 - begin
        self._graphs.run(partial(advance, begin, rest), "last", rest, self._times, *given)
        return substeps

    def _set_times(self, times: np.ndarray) -> None:
        """Copy the times of the substeps to the device."""
        if len(self._times) < len(times):
            self._times = wp.zeros(len(times), dtype=wp.vec2d, device=self.device)
            for clock in self._clocks:
                clock.times = self._times
        host = wp.array(np.column_stack([times, np.zeros_like(times)]), dtype=wp.vec2d, device="cpu", copy=False)
        wp.copy(self._times, host, count=len(times))

    def _advance(self, k: int, h: float, pinned: Any, v_start: wp.array, x_end: wp.array, v_end: wp.array) -> None:
        """Substep k: a kick (half of one at either end of the step), then a drift."""
        place, before = k % 2, (k + 1) % 2
        clock = self._clocks[place]
        if k == 0:
            clock.done.zero_()
            wp.copy(self._now, self._times, count=min(1, len(self._times)))
        last = k == pinned.substeps
        x, v = (pinned.start, v_start) if k == 0 else (self._x[before], self._v[before])
        x_out, v_out = (x_end, v_end) if last else (self._x[place], self._v[place])
        kick = 0.5 * h if k == 0 or last else h
        drift = 0.0 if last else h
        self._forces.pull(x, v)
        self.air.blow_now(x, v, self._now)
        inputs = [x, v, self.inverse_mass, self._forces.arrays, pinned, clock, kick, drift, x_out, v_out]
        launch(advance_vertices, self.count, inputs, device=self.device, grain=512)


def stable_step(network: SpringNetwork, mass: np.ndarray) -> float:
    """The longest stable step of central differences, from Gershgorin's bound on the frequencies.

    With damping c = tau k a mode of frequency w allows 2/w (sqrt(1 + z^2) - z), z = tau w / 2.
    """
    load = np.zeros(len(mass))
    for end in range(2):
        np.add.at(load, network.pairs[:, end], 2.0 * network.stiffness)
    if len(network.quads):
        reach = network.quad_stiffness * np.abs(network.weights).sum(axis=1)
        for corner in range(4):
            np.add.at(load, network.quads[:, corner], reach * np.abs(network.weights[:, corner]))
    frequency = np.sqrt(np.max(load / mass, initial=0.0))
    if frequency == 0.0:
        return np.inf
    ratio = np.concatenate([network.damping, network.quad_damping]) / np.maximum(
        np.concatenate([network.stiffness, network.quad_stiffness]), 1e-300
    )
    z = 0.5 * float(np.max(ratio, initial=0.0)) * frequency
    # the difference of nearly equal numbers is 1 / (2 z)
    shortening = np.sqrt(1.0 + z * z) - z if z < 1e4 else 0.5 / z
    return float(2.0 / frequency * shortening)


def count_steps(scene: Any, longest: float) -> int:
    """Steps a frame with steps no longer than `longest`, s; an error where no machine would finish them."""
    steps = 1.0 / (scene.fps * longest) if longest > 0.0 else np.inf
    if not steps < MOST_STEPS:
        raise SceneError(
            scene.problem(
                (),
                f"its springs need {steps:.2g} steps a frame ({longest:.2g} s each), and {MOST_STEPS:.0e} would take minutes "
                "at least: less stiffness or damping, longer edges or another method (dynamics) help",
            )
        )
    return max(1, int(np.ceil(steps)))

"""Position-based cloth (XPBD, Macklin et al. 2016): small substeps, one sweep of Gauss-Seidel each, colour by colour.

Compliances make the stiffness that of the material whatever the step. Stretch and shear springs are solved in every
substep. Bending is orders of magnitude softer, so that one implicit sweep over the whole step carries it: the step's
bending enters the velocity before the substeps start.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics import Contacts
from weft.dynamics.air import Air
from weft.dynamics.springs import BEND, SpringNetwork, from_world
from weft.world import State, World, launch, repeat
from weft.world.colouring import colour_items

wp.set_module_options({"enable_backward": False})

# longest substep in s: 40 a frame at 60 Hz
LONGEST_SUBSTEP = 1.0 / 2400.0
# substeps are up to this many times shorter where an edge would change by more than `LARGEST_CHANGE` of its length in
# one, or is off it by more than `LARGEST_STRAIN`. One sweep passes a push on by an edge or two: what hits the ground
# faster than that crumples, and what is caught in folds comes free only if springs are solved well
MOST_REFINED = 8
LARGEST_CHANGE = 0.1
LARGEST_STRAIN = 0.1
# so much more strain asks for as many substeps again
STRAIN_STEP = wp.constant(wp.float64(0.008))
# threads that look for the worst edge
LOOKERS = 16384


@wp.kernel
def start_step(
    first: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    target: wp.array[wp.vec3d],
    face_offsets: wp.array[int],
    face_items: wp.array[int],
    face_force: wp.array[wp.vec3d],
    dt: wp.float64,
    push: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
):
    """Acceleration by wind, held for the step, and where each vertex would be at its end."""
    i = first + wp.tid()
    if inverse_mass[i] == wp.float64(0.0):
        push[i] = wp.vec3d()
        guess[i] = target[i]
        return
    force = wp.vec3d()
    for s in range(face_offsets[i], face_offsets[i + 1]):
        force += face_force[face_items[s] // 3]
    push[i] = inverse_mass[i] * force
    guess[i] = x[i] + dt * v[i]


@wp.kernel
def pull_quads(
    first: int,
    offset: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    rest: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    damping: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    dt: wp.float64,
    x: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
):
    """One colour of hinges or stitches: three constraints r = 0 (or one, |r| = rest), with gradients w."""
    i = offset + first + wp.tid()
    q = quads[i]
    w = weights[i]
    m0 = inverse_mass[q[0]]
    m1 = inverse_mass[q[1]]
    m2 = inverse_mass[q[2]]
    m3 = inverse_mass[q[3]]
    a = guess[q[0]]
    b = guess[q[1]]
    c = guess[q[2]]
    d = guess[q[3]]
    r = w[0] * a + w[1] * b + w[2] * c + w[3] * d
    back = r
    if rest[i] > wp.float64(0.0):
        back = (wp.float64(1.0) - rest[i] / wp.max(wp.length(r), wp.float64(1.0e-30))) * r
    # damping resists the change of r over the step
    gamma = damping[i] / (stiffness[i] * dt)
    moved = r - (w[0] * x[q[0]] + w[1] * x[q[1]] + w[2] * x[q[2]] + w[3] * x[q[3]])
    total = w[0] * w[0] * m0 + w[1] * w[1] * m1 + w[2] * w[2] * m2 + w[3] * w[3] * m3
    compliance = wp.float64(1.0) / (stiffness[i] * dt * dt)
    step = -(back + gamma * moved) / ((wp.float64(1.0) + gamma) * total + compliance)
    # colours leave out vertices without weight, and a stitch names its last vertex twice: those belong to others
    if w[0] != wp.float64(0.0):
        guess[q[0]] = a + (w[0] * m0) * step
    if w[1] != wp.float64(0.0):
        guess[q[1]] = b + (w[1] * m1) * step
    if w[2] != wp.float64(0.0):
        guess[q[2]] = c + (w[2] * m2) * step
    if w[3] != wp.float64(0.0):
        guess[q[3]] = d + (w[3] * m3) * step


@wp.kernel
def take_bending(
    first: int,
    x: wp.array[wp.vec3d],
    guess: wp.array[wp.vec3d],
    dt: wp.float64,
    x_out: wp.array[wp.vec3d],
    v_out: wp.array[wp.vec3d],
):
    """The velocity that contains the step's bending; a pinned vertex gets the velocity of its way."""
    i = first + wp.tid()
    x_out[i] = x[i]
    v_out[i] = (guess[i] - x[i]) / dt


@wp.kernel
def predict(
    first: int,
    inverse_mass: wp.array[wp.float64],
    push: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    before: wp.array[wp.vec3d],
):
    """Free motion over a substep."""
    i = first + wp.tid()
    before[i] = x[i]
    vi = v[i]
    if inverse_mass[i] != wp.float64(0.0):
        vi += h * (gravity + push[i] - air_damping * vi)
    x[i] = x[i] + h * vi


@wp.kernel
def stretch_pairs(
    first: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    delay: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    h: wp.float64,
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """One colour of distance springs; compliance 1/k, delay = damping / k."""
    i = offset + first + wp.tid()
    p = pairs[i]
    a = x[p[0]]
    b = x[p[1]]
    ma = inverse_mass[p[0]]
    mb = inverse_mass[p[1]]
    d = b - a
    length = wp.length(d)
    if length > wp.float64(0.0) and ma + mb > wp.float64(0.0):
        n = d / length
        gamma = delay[i] / h
        moved = wp.dot(n, (b - before[p[1]]) - (a - before[p[0]]))
        step = (length - rest[i] + gamma * moved) / ((wp.float64(1.0) + gamma) * (ma + mb) + compliance[i] / (h * h))
        x[p[0]] = a + (ma * step) * n
        x[p[1]] = b - (mb * step) * n


@wp.kernel
def find_velocity(first: int, h: wp.float64, x: wp.array[wp.vec3d], before: wp.array[wp.vec3d], v: wp.array[wp.vec3d]):
    """The velocity is what the substep made of the positions."""
    i = first + wp.tid()
    v[i] = (x[i] - before[i]) / h


@wp.kernel
def find_worst_edges(
    first: int,
    count: int,
    pairs: wp.array[wp.vec2i],
    rest: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    h: wp.float64,
    largest_change: wp.float64,
    largest_strain: wp.float64,
    worst: wp.array[wp.float64],
):
    """How far some of the springs are beyond what a substep of h can do with them: 1 is just right."""
    i = first + wp.tid()
    found = wp.float64(0.0)
    for k in range(i, count, worst.shape[0]):
        p = pairs[k]
        change = h * wp.length(v[p[1]] - v[p[0]]) / rest[k]
        strain = wp.length(x[p[1]] - x[p[0]]) / rest[k] - wp.float64(1.0)
        off = wp.float64(1.0) + (wp.abs(strain) - largest_strain) / STRAIN_STEP
        found = wp.max(found, wp.max(change / largest_change, off))
    worst[i] = found


class PositionBased:
    """XPBD over a spring network; `propose` moves a copy of the state forward."""

    def __init__(
        self,
        network: SpringNetwork,
        mass: np.ndarray,
        inverse_mass: wp.array,
        air: Air,
        *,
        longest_substep: float = LONGEST_SUBSTEP,
    ) -> None:
        device = inverse_mass.device
        count = len(mass)
        self.count = count
        self.device = device
        self.inverse_mass = inverse_mass
        self.air = air
        self.longest_substep = longest_substep

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        # the hinge's stencil bends alone here: the spring between opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        order, self.pair_offsets = colour_items(network.pairs[keep], count)
        chosen = keep[order]
        stiffness = network.stiffness[chosen]
        self.pairs = (
            upload(network.pairs[chosen], wp.vec2i),
            upload(network.rest[chosen], wp.float64),
            upload(1.0 / stiffness, wp.float64),
            upload(network.damping[chosen] / stiffness, wp.float64),
        )
        self.hinges = self._upload_quads(network, ~network.sewn)
        self.stitches = self._upload_quads(network, network.sewn)
        self._worst = wp.zeros(max(1, min(len(chosen), LOOKERS)), dtype=wp.float64, device=device)
        self._push, self._guess, self._before = (wp.zeros(count, dtype=wp.vec3d, device=device) for _ in range(3))

    def _upload_quads(self, network: SpringNetwork, chosen: np.ndarray) -> tuple[np.ndarray, tuple[wp.array, ...]]:
        """Some of the stencils in the order of their colours, and where each colour starts."""
        firm = np.flatnonzero((network.quad_stiffness > 0.0) & chosen)
        # a vertex that a stitch names without weight does not count
        order, offsets = colour_items(np.where(network.weights[firm] == 0.0, -1, network.quads[firm]), self.count)
        k = firm[order]

        def upload(values: np.ndarray, dtype: Any) -> wp.array:
            return wp.array(values[k], dtype=dtype, device=self.device)

        return offsets, (
            upload(network.quads, wp.vec4i),
            upload(network.weights, wp.vec4d),
            upload(network.quad_rest, wp.float64),
            upload(network.quad_stiffness, wp.float64),
            upload(network.quad_damping, wp.float64),
        )

    @classmethod
    def from_world(cls, world: World) -> "PositionBased":
        """The springs of all cloths of a world, its masses and its forces."""
        return cls(from_world(world), world.mass, world.inverse_mass, Air.from_world(world))

    def propose(
        self,
        state: State,
        target: wp.array,
        dt: float,
        x_end: wp.array,
        v_end: wp.array,
        contacts: Contacts | None = None,
    ) -> int:
        """Where everything would be after dt; gives the number of substeps it took.

        Vertices without inverse mass go straight from where they are to `target`. `contacts` is called in each substep
        with the positions, which it may correct, and the positions at the start of the substep.
        """
        substeps = self._substeps(state, dt)
        h = dt / substeps
        self._start(state, target, dt, x_end, v_end)

        def substep() -> None:
            inputs = [self.inverse_mass, self._push, self.air.gravity, self.air.damping, h, x_end, v_end, self._before]
            launch(predict, self.count, inputs, device=self.device)
            for first, last in pairwise(self.pair_offsets):
                inputs = [int(first), *self.pairs, self.inverse_mass, h, self._before, x_end]
                launch(stretch_pairs, int(last - first), inputs, device=self.device)
            self._pull(self.stitches, h, self._before, x_end)
            if contacts is not None:
                contacts(x_end, self._before)
            launch(find_velocity, self.count, [h, x_end, self._before, v_end], device=self.device)

        repeat(substeps, substep, device=self.device)
        return substeps

    def _substeps(self, state: State, dt: float) -> int:
        """How many substeps dt needs: more where edges are far off their lengths, or soon will be."""
        least = max(1, int(np.ceil(dt / self.longest_substep - 1e-9)))
        pairs, rest = self.pairs[:2]
        limits = [dt / least, LARGEST_CHANGE, LARGEST_STRAIN]
        inputs = [len(pairs), pairs, rest, state.x, state.v, *limits, self._worst]
        launch(find_worst_edges, len(self._worst), inputs, device=self.device, grain=64)
        worst = float(self._worst.numpy().max())
        return int(np.ceil(least * np.clip(worst, 1.0, MOST_REFINED)))

    def _start(self, state: State, target: wp.array, dt: float, x_end: wp.array, v_end: wp.array) -> None:
        """Wind and bending of the whole step."""
        x, v, w = state.x, state.v, self.inverse_mass
        self.air.blow(x, v, state.time, dt)
        inputs = [x, v, w, target, *self.air.lists, dt, self._push, self._guess]
        launch(start_step, self.count, inputs, device=self.device)
        self._pull(self.hinges, dt, x, self._guess)
        launch(take_bending, self.count, [x, self._guess, dt, x_end, v_end], device=self.device)

    def _pull(self, quads: tuple[np.ndarray, tuple[wp.array, ...]], dt: float, before: wp.array, x: wp.array) -> None:
        """One sweep over stencils, for positions that were at `before` dt ago."""
        offsets, arrays = quads
        for first, last in pairwise(offsets):
            inputs = [int(first), *arrays, self.inverse_mass, dt, before, x]
            launch(pull_quads, int(last - first), inputs, device=self.device)

"""Cloth as constraints on positions (XPBD, Macklin et al. 2016): springs, hinges, attachments and goals.

Positions are rows (x, y, z, inverse mass): one load brings all that a constraint needs of a vertex. Each constraint is
a function of one item, called from a serial loop over all of them where cloth is small, or from a kernel over one
colour where it is large: both go through the items in the same order. A substep of length h starts with `predict`, then
come sweeps over all constraints; with more than one sweep a substep the multipliers add up in `pull`, so that stiffness
does not depend on how many there are. Damping of a spring whose delay is less than a tenth of a substep is left out:
the substep itself damps five times as much, and asking costs a third of the time.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.springs import BEND, from_world
from weft.world import World, launch
from weft.world.colouring import colour_items

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))


@wp.func
def point(p: wp.vec4d) -> wp.vec3d:
    """The position in a row."""
    return wp.vec3d(p[0], p[1], p[2])


@wp.func
def start_vertex(
    i: int,
    x: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    p: wp.array[wp.vec4d],
):
    """The row of a vertex at the start of a step."""
    xi = x[i]
    p[i] = wp.vec4d(xi[0], xi[1], xi[2], inverse_mass[i])


@wp.func
def predict_vertex(
    i: int,
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    force: wp.vec3d,
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    progress: wp.float64,
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    start: wp.array[wp.vec4d],
):
    """Free motion over a substep; a held vertex is at `progress` of its way from x to its target afterwards.

    `start` keeps where the vertex was; `before` does too, until contacts that part what was through shift it along.
    """
    row = p[i]
    before[i] = row
    start[i] = row
    if row[3] == ZERO:
        place = x[i] + progress * (target[i] - x[i])
        p[i] = wp.vec4d(place[0], place[1], place[2], ZERO)
    else:
        vi = (v[i] + h * (gravity + row[3] * force)) / (ONE + h * air_damping)
        p[i] = wp.vec4d(row[0] + h * vi[0], row[1] + h * vi[1], row[2] + h * vi[2], row[3])


# rows of four as one vector register where the compiler has such; the plain type elsewhere
_ROW = """
#if defined(__CUDACC__)
typedef wp::vec_t<4, double> row4;
#else
typedef double row4 __attribute__((vector_size(32), aligned(8)));
#endif
"""


@wp.func_native(
    _ROW
    + """
    const wp::vec_t<2, int> q = pairs.data[i];
    const wp::vec_t<3, double> s = springs.data[i];
    row4* rows = (row4*)p.data;
    const row4 a = rows[q[0]];
    const row4 b = rows[q[1]];
    row4 d = b - a;
    const double mass = a[3] + b[3];
    d[3] = 0.0;
    const double squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2];
    if (!(squared * mass > 0.0))
        return;
    const double length = sqrt(squared);
    const double alpha = s[1] * per_h * per_h;
    const double gamma = s[2] * per_h > 0.1 ? s[2] * per_h : 0.0;
    double wanted = length - s[0];
    if (sweep > 0)
        wanted += alpha * pull.data[i];
    // all times the length, which saves a division
    wanted *= length;
    if (gamma > 0.0) {
        const row4 moved = d - ((const row4*)before.data)[q[1]] + ((const row4*)before.data)[q[0]];
        wanted += gamma * (d[0] * moved[0] + d[1] * moved[1] + d[2] * moved[2]);
    }
    const double step = wanted / (((1.0 + gamma) * mass + alpha) * squared);
    if (sweeps > 1)
        pull.data[i] = (sweep > 0 ? pull.data[i] : 0.0) - step * length;
    rows[q[0]] = a + (a[3] * step) * d;
    rows[q[1]] = b - (b[3] * step) * d;
    """
)
def stretch_pair(
    i: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """A spring between two vertices: rest length, compliance 1/k, delay = damping / k."""
    ...


@wp.func_native(
    _ROW
    + """
    const wp::vec_t<4, int> q = quads.data[i];
    const wp::vec_t<3, double> s = springs.data[i];
    const row4 w = ((const row4*)weights.data)[i];
    row4* rows = (row4*)p.data;
    const row4 a = rows[q[0]];
    const row4 b = rows[q[1]];
    const row4 c = rows[q[2]];
    const row4 d = rows[q[3]];
    // way that each corner makes for a unit of the multiplier
    const double ga = w[0] * a[3];
    const double gb = w[1] * b[3];
    const double gc = w[2] * c[3];
    const double gd = w[3] * d[3];
    const double mass = w[0] * ga + w[1] * gb + w[2] * gc + w[3] * gd;
    if (!(mass > 0.0))
        return;
    const double alpha = s[1] * per_h * per_h;
    const double gamma = s[2] * per_h > 0.1 ? s[2] * per_h : 0.0;
    row4 r = w[0] * a + w[1] * b + w[2] * c + w[3] * d;
    r[3] = 0.0;
    row4 wanted = r;
    if (s[0] > 0.0) {
        const double length = sqrt(r[0] * r[0] + r[1] * r[1] + r[2] * r[2]);
        wanted = (1.0 - s[0] / (length > 1e-30 ? length : 1e-30)) * r;
    }
    row4* pulls = (row4*)pull.data;
    if (sweep > 0)
        wanted = wanted + alpha * pulls[i];
    if (gamma > 0.0) {
        // damping resists the change of r over the substep
        const row4* was = (const row4*)before.data;
        row4 moved = r - (w[0] * was[q[0]] + w[1] * was[q[1]] + w[2] * was[q[2]] + w[3] * was[q[3]]);
        moved[3] = 0.0;
        wanted = wanted + gamma * moved;
    }
    const row4 step = (-1.0 / ((1.0 + gamma) * mass + alpha)) * wanted;
    if (sweeps > 1)
        pulls[i] = sweep > 0 ? pulls[i] + step : step;
    rows[q[0]] = a + ga * step;
    rows[q[1]] = b + gb * step;
    rows[q[2]] = c + gc * step;
    rows[q[3]] = d + gd * step;
    """
)
def bend_quad(
    i: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """A spring over four vertices: r = sum w_k x_k is to vanish, or to have its rest length."""
    ...


@wp.func
def attach_vertex(i: int, ends: wp.array[wp.vec2i], lengths: wp.array[wp.float64], p: wp.array[wp.vec4d]):
    """A long-range attachment: the vertex stays within its length of the pin."""
    e = ends[i]
    a = p[e[0]]
    d = a - p[e[1]]
    d[3] = ZERO
    squared = d[0] * d[0] + d[1] * d[1] + d[2] * d[2]
    longest = lengths[i]
    if squared > longest * longest and a[3] > ZERO:
        p[e[0]] = a - (ONE - longest / wp.sqrt(squared)) * d


@wp.func
def follow_goal(
    i: int,
    vertices: wp.array[int],
    springs: wp.array[wp.vec3d],
    starts: wp.array[wp.vec3d],
    goals: wp.array[wp.vec3d],
    h: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """A spring to where the animation has the vertex: angular frequency, damping ratio, reach (0: none).

    The goal goes straight from its start to its end; `part` is the share of the way that a substep makes.
    """
    k = vertices[i]
    row = p[k]
    if row[3] > ZERO:
        s = springs[i]
        way = goals[i] - starts[i]
        goal = starts[i] + progress * way
        x = point(row)
        stiff = s[0] * s[0] * h * h
        damp = wp.float64(2.0) * s[1] * s[0] * h
        moved = x - point(before[k]) - part * way
        x = x - (stiff * (x - goal) + damp * moved) / (ONE + stiff + damp)
        if s[2] > ZERO:
            away = x - goal
            distance = wp.length(away)
            if distance > s[2]:
                x = goal + (s[2] / distance) * away
        p[k] = wp.vec4d(x[0], x[1], x[2], row[3])


@wp.func
def end_substep(i: int, per_h: wp.float64, p: wp.array[wp.vec4d], before: wp.array[wp.vec4d], v: wp.array[wp.vec3d]):
    """The velocity is what the substep made of the positions."""
    v[i] = per_h * point(p[i] - before[i])


@wp.kernel
def predict(
    first: int,
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    air_damping: wp.float64,
    h: wp.float64,
    progress: wp.float64,
    v: wp.array[wp.vec3d],
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    start: wp.array[wp.vec4d],
):
    """Free motion over a substep."""
    i = first + wp.tid()
    predict_vertex(i, x, target, force[i], gravity, air_damping, h, progress, v, p, before, start)


@wp.kernel
def stretch_colour(
    first: int,
    offset: int,
    pairs: wp.array[wp.vec2i],
    springs: wp.array[wp.vec3d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.float64],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """One colour of springs between two vertices."""
    stretch_pair(offset + first + wp.tid(), pairs, springs, sweep, sweeps, per_h, pull, before, p)


@wp.kernel
def bend_colour(
    first: int,
    offset: int,
    quads: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    springs: wp.array[wp.vec3d],
    sweep: int,
    sweeps: int,
    per_h: wp.float64,
    pull: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """One colour of springs over four vertices."""
    bend_quad(offset + first + wp.tid(), quads, weights, springs, sweep, sweeps, per_h, pull, before, p)


@wp.kernel
def attach(first: int, offset: int, ends: wp.array[wp.vec2i], lengths: wp.array[wp.float64], p: wp.array[wp.vec4d]):
    """One rank of attachments: the k-th of each vertex."""
    attach_vertex(offset + first + wp.tid(), ends, lengths, p)


@wp.kernel
def follow(
    first: int,
    vertices: wp.array[int],
    springs: wp.array[wp.vec3d],
    starts: wp.array[wp.vec3d],
    goals: wp.array[wp.vec3d],
    h: wp.float64,
    progress: wp.float64,
    part: wp.float64,
    before: wp.array[wp.vec4d],
    p: wp.array[wp.vec4d],
):
    """All goals; no vertex has two."""
    follow_goal(first + wp.tid(), vertices, springs, starts, goals, h, progress, part, before, p)


@wp.kernel
def end_substeps(
    first: int, per_h: wp.float64, p: wp.array[wp.vec4d], before: wp.array[wp.vec4d], v: wp.array[wp.vec3d]
):
    """Velocities of all vertices."""
    end_substep(first + wp.tid(), per_h, p, before, v)


@dataclass
class Coloured:
    """Constraints in the order of their colours; `offsets` are where each colour starts."""

    arrays: tuple[wp.array, ...]
    offsets: np.ndarray
    pull: wp.array

    @cached_property
    def starts(self) -> wp.array:
        """The offsets on the device."""
        return wp.array(self.offsets, dtype=int, device=self.pull.device)

    @property
    def count(self) -> int:
        return int(self.offsets[-1])

    @property
    def largest(self) -> int:
        """The size of the largest colour."""
        return int(np.diff(self.offsets).max(initial=0))


class Fabric:
    """The springs and hinges of all cloths of a world, coloured, on the device."""

    def __init__(self, world: World) -> None:
        self.device = world.device
        network = from_world(world)
        count = world.cloth_vertex_count

        # the hinge's stencil bends alone: the spring between opposite vertices would only lock it
        keep = np.flatnonzero((network.kind != BEND) & (network.stiffness > 0.0))
        order, offsets = colour_items(network.pairs[keep], count)
        chosen = keep[order]
        springs = _springs(network.rest, network.stiffness, network.damping, chosen)
        self._stretch_springs = springs
        self.stretch = Coloured(
            (self._upload(network.pairs[chosen], wp.vec2i), self._upload(springs, wp.vec3d)),
            offsets,
            wp.zeros(len(chosen), dtype=wp.float64, device=self.device),
        )
        firm = np.flatnonzero(network.quad_stiffness > 0.0)
        order, offsets = colour_items(network.quads[firm], count)
        chosen = firm[order]
        springs = _springs(network.quad_rest, network.quad_stiffness, network.quad_damping, chosen)
        self._bend_springs = springs
        arrays = (
            self._upload(network.quads[chosen], wp.vec4i),
            self._upload(network.weights[chosen], wp.vec4d),
            self._upload(springs, wp.vec3d),
        )
        self.bend = Coloured(arrays, offsets, wp.zeros(len(chosen), dtype=wp.vec4d, device=self.device))

    def scale(self, stretch: float, bend: float) -> None:
        """Make the cloth so many times as stiff as its material against stretching and shearing, and bending."""
        self.stretch.arrays[-1].assign(self._stretch_springs / [1.0, stretch, 1.0])
        self.bend.arrays[-1].assign(self._bend_springs / [1.0, bend, 1.0])

    def sweep_stretch(self, sweep: int, sweeps: int, per_h: float, before: wp.array, p: wp.array) -> None:
        """One sweep over all springs, colour by colour."""
        self._sweep(stretch_colour, self.stretch, [sweep, sweeps, per_h, self.stretch.pull, before, p])

    def sweep_bend(self, sweep: int, sweeps: int, per_h: float, before: wp.array, p: wp.array) -> None:
        """One sweep over all hinges, colour by colour."""
        self._sweep(bend_colour, self.bend, [sweep, sweeps, per_h, self.bend.pull, before, p])

    def _sweep(self, kernel: wp.Kernel, items: Coloured, tail: list[Any]) -> None:
        for first, last in zip(items.offsets[:-1], items.offsets[1:], strict=True):
            launch(kernel, int(last - first), [int(first), *items.arrays, *tail], device=self.device)

    def _upload(self, values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device=self.device)


def _springs(rest: np.ndarray, stiffness: np.ndarray, damping: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Rest length, compliance and delay of the chosen springs; a weld has neither compliance nor delay."""
    rest, stiffness, damping = rest[chosen], stiffness[chosen], damping[chosen]
    return np.stack([rest, 1.0 / stiffness, damping / stiffness], axis=1)

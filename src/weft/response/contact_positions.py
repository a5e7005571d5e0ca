"""Contacts inside the substeps of position-based dynamics: springs and contacts find their balance together.

Contacts are found once a step; in every substep the pairs that are nearer than they should be are moved apart, and
their sliding is held back by friction, as far as the push of that substep allows: that since the start of the step where
they touched then, else that over the substep.
"""

from typing import Any

import warp as wp

from weft.detection.boxes import lowest_bit
from weft.response.contacts_on_card import part_many_on_card, part_on_card
from weft.response.impulses import ImpulseRows, ImpulseSolver
from weft.response.parting import parting, touched
from weft.response.stencil_colours import COLOURS
from weft.response.stencil_masks import MOST, rows_below
from weft.world.together import meet, meet_between, share_begin, share_end

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))


@wp.kernel
def set_distances(
    first: int,
    gaps: wp.array[wp.float64],
    thickness: wp.array[wp.float64],
    part: wp.float64,
    distances: wp.array[wp.float64],
):
    """The gap that each contact keeps during the step: its thickness, or a little more than it has now."""
    i = first + wp.tid()
    distances[i] = wp.min(thickness[i], gaps[i] + part * wp.max(thickness[i] - gaps[i], ZERO))


@wp.func
def part_contact(
    i: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """Move one pair apart, and back against its sliding."""
    q = vertices[i]
    w = weights[i]
    n = normals[i]
    x0 = x[q[0]]
    x1 = x[q[1]]
    x2 = x[q[2]]
    x3 = x[q[3]]
    r = w[0] * x0 + w[1] * x1 + w[2] * x2 + w[3] * x3
    lack = distances[i] - wp.dot(n, r)
    if lack <= ZERO:
        return
    g = gains[i]
    was = wp.vec3d()
    if not touched(gaps[i], distances[i]):
        was = w[0] * before[q[0]] + w[1] * before[q[1]] + w[2] * before[q[2]] + w[3] * before[q[3]]
    shift = parting(lack, n, r, was, friction[i])
    x[q[0]] = x0 + g[0] * shift
    x[q[1]] = x1 + g[1] * shift
    x[q[2]] = x2 + g[2] * shift
    x[q[3]] = x3 + g[3] * shift


@wp.kernel
def part_together(
    first: int,
    threads: int,
    arrivals: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    distances: wp.array[wp.float64],
    gaps: wp.array[wp.float64],
    gains: wp.array[wp.vec4d],
    friction: wp.array[wp.vec2d],
    before: wp.array[wp.vec3d],
    x: wp.array[wp.vec3d],
):
    """A sweep over contacts that lie in the order of their colours, then over those that found none, one after another. On
    a CPU."""
    t = first + wp.tid()
    begin = offsets[0]
    end = offsets[1]
    colour = int(0)
    while colour < COLOURS and end > begin:
        following = offsets[colour + 2]
        first_i = begin + share_begin(t, threads, end - begin)
        last_i = begin + share_end(t, threads, end - begin)
        for i in range(first_i, last_i, MOST):
            near = rows_below(i, wp.min(MOST, last_i - i), vertices, weights, normals, distances, x)
            while near != wp.uint64(0):
                k = i + lowest_bit(near)
                near &= near - wp.uint64(1)
                part_contact(k, vertices, weights, normals, distances, gaps, gains, friction, before, x)
        meet_between(arrivals, end - begin, following - end)
        begin = end
        end = following
        colour += 1
    if offsets[COLOURS + 1] > offsets[COLOURS]:
        meet(arrivals)
        if t == 0:
            for i in range(offsets[COLOURS], offsets[COLOURS + 1]):
                part_contact(i, vertices, weights, normals, distances, gaps, gains, friction, before, x)


class PositionContacts:
    """The contacts of a step as position-based dynamics meet them: called once a substep."""

    def __init__(self, solver: ImpulseSolver, rows: ImpulseRows) -> None:
        self.solver, self.rows = solver, rows
        self._inputs: tuple[Any, ...] = ()

    def __len__(self) -> int:
        """How many there are."""
        return self.rows.count

    @property
    def given(self) -> tuple[Any, ...]:
        """What a call depends on besides the positions."""
        return self.solver.clumped, self.solver.threads_for(self.rows.count), *self._arrays

    @property
    def _arrays(self) -> tuple[wp.array, ...]:
        rows = self.rows
        return rows.vertices, rows.weights, rows.normals, rows.distances, rows.gaps, rows.gains, rows.friction

    def __call__(self, x: wp.array, before: wp.array) -> None:
        """Correct positions x that were at `before` when the substep started; on a card both are rows."""
        solver = self.solver
        inputs = (solver.offsets, *solver.clump_arrays, *self._arrays, before, x)
        # the same tuple in all substeps of a step is looked at once
        if len(inputs) != len(self._inputs) or any(a is not b for a, b in zip(inputs, self._inputs, strict=True)):
            self._inputs = inputs
        on_card = part_on_card if solver.clumped else part_many_on_card
        solver.run(self.rows.count, part_together if solver.device.is_cpu else on_card, self._inputs)

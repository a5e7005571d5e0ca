"""The matrix of the implicit step: 3x3 blocks in rows that the mesh fixes once (see `block_rows`), filled anew each step.

Each block gathers what the elements at its two vertices give, in a fixed order; no two threads write to one place, and the
bytes do not depend on their number. Every element is unmoved by a common translation, so a diagonal block is the mass less
the sum of the blocks beside it: momentum is then conserved to rounding.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.implicit.block_rows import BlockRows, CornerPairs, corner_pairs
from weft.dynamics.implicit.elements import Elements
from weft.mesh.topology import incidence
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))


@wp.struct
class Terms:
    """What the elements give to a step (see `bw_forces`)."""

    uu: wp.array[wp.mat33d]
    vv: wp.array[wp.mat33d]
    uv: wp.array[wp.mat33d]
    along_u: wp.array[wp.vec3d]
    along_v: wp.array[wp.vec3d]
    gradient: wp.array[wp.vec3d]
    bend_along: wp.array[wp.float64]
    stitch_along: wp.array[wp.vec3d]
    stitch_factor: wp.array[wp.float64]


@wp.struct
class PairLists:
    """The elements at each pair of vertices, with what the terms of each are multiplied by."""

    face_offsets: wp.array[int]
    faces: wp.array[int]
    face_factors: wp.array[wp.vec4d]
    """p_i p_j, q_i q_j, p_i q_j, q_i p_j"""
    hinge_offsets: wp.array[int]
    hinge_corners: wp.array[wp.vec2i]
    """places of the two gradients"""
    stitch_offsets: wp.array[int]
    stitches: wp.array[int]
    stitch_factors: wp.array[wp.float64]
    """w_i w_j"""


@wp.struct
class VertexLists:
    """The elements at each vertex, with what the terms of each are multiplied by."""

    face_offsets: wp.array[int]
    faces: wp.array[int]
    face_factors: wp.array[wp.vec2d]
    """p_i, q_i"""
    hinge_offsets: wp.array[int]
    hinge_corners: wp.array[int]
    """place of the gradient, four a hinge"""
    stitch_offsets: wp.array[int]
    stitches: wp.array[int]
    stitch_factors: wp.array[wp.float64]
    """w_i"""


@wp.struct
class Outside:
    """Gravity and air on each vertex."""

    mass: wp.array[wp.float64]
    gravity: wp.vec3d
    damping: wp.float64
    windy: int
    face_offsets: wp.array[int]
    face_items: wp.array[int]
    face_force: wp.array[wp.vec3d]
    face_drag: wp.array[wp.mat33d]


@wp.func
def sum_faces(i: int, lists: PairLists, terms: Terms) -> wp.mat33d:
    """What the triangles at a pair of vertices give."""
    block = wp.mat33d()
    for k in range(lists.face_offsets[i], lists.face_offsets[i + 1]):
        t = lists.faces[k]
        c = lists.face_factors[k]
        uv = terms.uv[t]
        block += c[0] * terms.uu[t] + c[1] * terms.vv[t] + c[2] * uv + c[3] * wp.transpose(uv)
    return block


@wp.func
def sum_hinges(i: int, lists: PairLists, terms: Terms) -> wp.mat33d:
    """What the hinges at a pair of vertices give."""
    block = wp.mat33d()
    for k in range(lists.hinge_offsets[i], lists.hinge_offsets[i + 1]):
        corners = lists.hinge_corners[k]
        block += wp.outer(terms.gradient[corners[0]], terms.gradient[corners[1]])
    return block


@wp.func
def sum_stitches(i: int, lists: PairLists, terms: Terms) -> wp.float64:
    """What the stitches at a pair of vertices give, times the identity."""
    pull = ZERO
    for k in range(lists.stitch_offsets[i], lists.stitch_offsets[i + 1]):
        pull += terms.stitch_factor[lists.stitches[k]] * lists.stitch_factors[k]
    return pull


@wp.kernel
def assemble_pairs(
    first: int,
    lists: PairLists,
    terms: Terms,
    places: wp.array[wp.vec2i],
    blocks: wp.array[wp.mat33d],
):
    """The block between two vertices, and its transpose."""
    i = first + wp.tid()
    # functions of their own: the compiler keeps their sums in registers
    block = sum_faces(i, lists, terms) + sum_hinges(i, lists, terms)
    if lists.stitch_offsets[i + 1] > lists.stitch_offsets[i]:
        block += sum_stitches(i, lists, terms) * wp.identity(n=3, dtype=wp.float64)
    place = places[i]
    blocks[place[0]] = block
    blocks[place[1]] = wp.transpose(block)


@wp.kernel
def assemble_diagonal(
    first: int,
    order: wp.array[int],
    offsets: wp.array[int],
    diagonal: wp.array[int],
    outside: Outside,
    h: wp.float64,
    blocks: wp.array[wp.mat33d],
):
    """Mass and what air takes from the momentum, less the other blocks of the row."""
    r = first + wp.tid()
    i = order[r]
    own = diagonal[r]
    m = outside.mass[i]
    total = (m + h * outside.damping * m) * wp.identity(n=3, dtype=wp.float64)
    for k in range(offsets[r], offsets[r + 1]):
        if k != own:
            total -= blocks[k]
    if outside.windy == 1:
        for k in range(outside.face_offsets[i], outside.face_offsets[i + 1]):
            total += h * outside.face_drag[outside.face_items[k] // 3]
    blocks[own] = HALF * (total + wp.transpose(total))


@wp.kernel
def gather_right_hand_side(
    first: int,
    order: wp.array[int],
    lists: VertexLists,
    terms: Terms,
    outside: Outside,
    v: wp.array[wp.vec3d],
    push: wp.array[wp.vec3d],
    h: wp.float64,
    b: wp.array[wp.vec3d],
):
    """h (F + dF/dx (h v + y)) of each row; `push` are forces of constraints."""
    r = first + wp.tid()
    i = order[r]
    total = (h * outside.mass[i]) * (outside.gravity - outside.damping * v[i]) + h * push[i]
    for k in range(lists.face_offsets[i], lists.face_offsets[i + 1]):
        t = lists.faces[k]
        c = lists.face_factors[k]
        total += c[0] * terms.along_u[t] + c[1] * terms.along_v[t]
    for k in range(lists.hinge_offsets[i], lists.hinge_offsets[i + 1]):
        corner = lists.hinge_corners[k]
        total += terms.bend_along[corner // 4] * terms.gradient[corner]
    for k in range(lists.stitch_offsets[i], lists.stitch_offsets[i + 1]):
        total += lists.stitch_factors[k] * terms.stitch_along[lists.stitches[k]]
    if outside.windy == 1:
        for k in range(outside.face_offsets[i], outside.face_offsets[i + 1]):
            total += h * outside.face_force[outside.face_items[k] // 3]
    b[r] = total


Upload = Callable[[np.ndarray, Any], wp.array]


class BlockMatrix(BlockRows):
    """The structure of the matrix and its numbers (device arrays)."""

    def __init__(self, elements: Elements, vertex_count: int, device: wp.DeviceLike) -> None:
        def upload(values: np.ndarray, dtype: Any = int) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        # every pair of vertices that an element joins
        kinds = [corner_pairs(a) for a in (elements.faces, elements.hinges, elements.stitches)]
        joined = np.concatenate([np.column_stack([kind.low, kind.high]) for kind in kinds])
        links = np.concatenate([np.column_stack([kinds[k].low, kinds[k].high]) for k in (0, 2)])
        super().__init__(joined, links, vertex_count, device)
        self.pair_lists = _pair_lists(elements, kinds, self.pair_of, self.pair_count, upload)
        self.vertex_lists = _vertex_lists(elements, vertex_count, upload)

    def assemble(self, terms: Any, outside: Any, h: float) -> None:
        """Fill the blocks for a step h from the terms of the elements."""
        inputs = [self.pair_lists, terms, self.places, self.blocks]
        launch(assemble_pairs, self.pair_count, inputs, device=self.device, grain=256)
        inputs = [self.order, self.offsets, self.diagonal, outside, h, self.blocks]
        launch(assemble_diagonal, self.count, inputs, device=self.device, grain=512)

    def right_hand_side(self, terms: Any, outside: Any, v: wp.array, push: wp.array, h: float, b: wp.array) -> None:
        """Sum the elements' part of each row, gravity, air and the forces that come with constraints."""
        inputs = [self.order, self.vertex_lists, terms, outside, v, push, h, b]
        launch(gather_right_hand_side, self.count, inputs, device=self.device, grain=512)


def _pair_lists(
    elements: Elements, kinds: list[CornerPairs], pair_of: np.ndarray, pair_count: int, upload: Upload
) -> Any:
    lists = PairLists()
    start = 0
    gathered = []
    for kind in kinds:
        numbers = pair_of[start : start + len(kind.element)]
        start += len(numbers)
        chosen = np.argsort(numbers, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(numbers, minlength=pair_count))])
        gathered.append((upload(offsets, int), kind.element[chosen], *kind.corners[chosen].T))
    lists.face_offsets, face, i, j = gathered[0]
    lists.faces = upload(face, int)
    p, q = elements.p[face], elements.q[face]
    k = np.arange(len(face))
    factors = [p[k, i] * p[k, j], q[k, i] * q[k, j], p[k, i] * q[k, j], q[k, i] * p[k, j]]
    lists.face_factors = upload(np.column_stack(factors), wp.vec4d)
    lists.hinge_offsets, hinge, i, j = gathered[1]
    lists.hinge_corners = upload(np.column_stack([4 * hinge + i, 4 * hinge + j]), wp.vec2i)
    lists.stitch_offsets, stitch, i, j = gathered[2]
    lists.stitches = upload(stitch, int)
    w = elements.stitch_weights
    lists.stitch_factors = upload(w[stitch, i] * w[stitch, j], wp.float64)
    return lists


def _vertex_lists(elements: Elements, vertex_count: int, upload: Upload) -> Any:
    lists = VertexLists()
    offsets, items = incidence(elements.faces, vertex_count)
    lists.face_offsets, lists.faces = upload(offsets, int), upload(items // 3, int)
    lists.face_factors = upload(np.column_stack([elements.p.ravel()[items], elements.q.ravel()[items]]), wp.vec2d)
    offsets, items = incidence(elements.hinges, vertex_count)
    lists.hinge_offsets, lists.hinge_corners = upload(offsets, int), upload(items, int)
    offsets, items = incidence(elements.stitches, vertex_count)
    lists.stitch_offsets, lists.stitches = upload(offsets, int), upload(items // 3, int)
    lists.stitch_factors = upload(elements.stitch_weights.ravel()[items], wp.float64)
    return lists

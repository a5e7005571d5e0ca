"""The matrix of the implicit step: 3x3 blocks at places that the mesh fixes once, filled again in each step.

Rows are vertices, sorted by patch (see `coarse_structure`), so that a patch is a range of rows. Every pair of vertices that
some element joins has a block in either of its two rows, and every row has one on the diagonal.

Each block gathers what the elements at its two vertices contribute, in a fixed order; no two threads write to one place, and
the bytes do not depend on the number of threads. A common translation changes no element, so a diagonal block is the mass less
the sum of the other blocks of its row: momentum is then conserved to rounding.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import warp as wp
from scipy.sparse import csr_array

from weft.dynamics.implicit.coarse_structure import aggregate
from weft.dynamics.implicit.elements import Elements
from weft.dynamics.implicit.forces import Terms
from weft.mesh.topology import incidence
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
HALF = wp.constant(wp.float64(0.5))

Upload = Callable[[np.ndarray, Any], wp.array]


@wp.struct
class PairLists:
    """The elements at each pair of vertices, with the factors of their terms."""

    face_offsets: wp.array[int]
    faces: wp.array[int]
    face_factors: wp.array[wp.vec4d]
    """p_i p_j, q_i q_j, p_i q_j, q_i p_j"""
    bend: wp.array[wp.float64]
    """of the bending matrix, N/m"""
    bend_delay: wp.array[wp.float64]
    """damping time, s"""
    stitch_offsets: wp.array[int]
    stitches: wp.array[int]
    stitch_factors: wp.array[wp.float64]
    """w_i w_j"""


@wp.struct
class VertexLists:
    """The elements at each vertex, with the factors of their terms."""

    face_offsets: wp.array[int]
    faces: wp.array[int]
    face_factors: wp.array[wp.vec2d]
    """p_i, q_i"""
    hinge_offsets: wp.array[int]
    hinges: wp.array[int]
    hinge_factors: wp.array[wp.float64]
    """w_i"""
    stitch_offsets: wp.array[int]
    stitches: wp.array[int]
    stitch_factors: wp.array[wp.float64]
    """w_i"""


@wp.struct
class ExternalForces:
    """Mass, gravity and air."""

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
    """The block of the triangles at a pair of vertices."""
    block = wp.mat33d()
    for k in range(lists.face_offsets[i], lists.face_offsets[i + 1]):
        t = lists.faces[k]
        c = lists.face_factors[k]
        uv = terms.uv[t]
        block += c[0] * terms.uu[t] + c[1] * terms.vv[t] + c[2] * uv + c[3] * wp.transpose(uv)
    return block


@wp.func
def sum_stitches(i: int, lists: PairLists, terms: Terms) -> wp.float64:
    """The block of the stitches at a pair of vertices, as a factor of the identity."""
    pull = ZERO
    for k in range(lists.stitch_offsets[i], lists.stitch_offsets[i + 1]):
        pull += terms.stitch_factor[lists.stitches[k]] * lists.stitch_factors[k]
    return pull


@wp.kernel
def assemble_pairs(
    first: int,
    lists: PairLists,
    terms: Terms,
    h: wp.float64,
    places: wp.array[wp.vec2i],
    blocks: wp.array[wp.mat33d],
):
    """The block between two vertices, and its transpose."""
    i = first + wp.tid()
    # in functions of their own the compiler keeps these sums in registers
    block = sum_faces(i, lists, terms)
    equal = h * (h + lists.bend_delay[i]) * lists.bend[i] + sum_stitches(i, lists, terms)
    block += equal * wp.identity(n=3, dtype=wp.float64)
    place = places[i]
    blocks[place[0]] = block
    blocks[place[1]] = wp.transpose(block)


@wp.kernel
def assemble_diagonal(
    first: int,
    order: wp.array[int],
    offsets: wp.array[int],
    diagonal: wp.array[int],
    external: ExternalForces,
    h: wp.float64,
    blocks: wp.array[wp.mat33d],
):
    """The diagonal block of a row: mass, air damping and wind drag, less the other blocks of the row."""
    r = first + wp.tid()
    i = order[r]
    own = diagonal[r]
    m = external.mass[i]
    total = (m + h * external.damping * m) * wp.identity(n=3, dtype=wp.float64)
    for k in range(offsets[r], offsets[r + 1]):
        if k != own:
            total -= blocks[k]
    if external.windy == 1:
        for k in range(external.face_offsets[i], external.face_offsets[i + 1]):
            total += h * external.face_drag[external.face_items[k] // 3]
    blocks[own] = HALF * (total + wp.transpose(total))


@wp.kernel
def gather_right_hand_side(
    first: int,
    order: wp.array[int],
    lists: VertexLists,
    terms: Terms,
    external: ExternalForces,
    v: wp.array[wp.vec3d],
    push: wp.array[wp.vec3d],
    h: wp.float64,
    b: wp.array[wp.vec3d],
):
    """h (F + dF/dx (h v + y)) of each row; `push` has the forces that come with constraints, such as friction."""
    r = first + wp.tid()
    i = order[r]
    total = (h * external.mass[i]) * (external.gravity - external.damping * v[i]) + h * push[i]
    for k in range(lists.face_offsets[i], lists.face_offsets[i + 1]):
        t = lists.faces[k]
        c = lists.face_factors[k]
        total += c[0] * terms.along_u[t] + c[1] * terms.along_v[t]
    for k in range(lists.hinge_offsets[i], lists.hinge_offsets[i + 1]):
        total -= (h * lists.hinge_factors[k]) * terms.moment[lists.hinges[k]]
    for k in range(lists.stitch_offsets[i], lists.stitch_offsets[i + 1]):
        total += lists.stitch_factors[k] * terms.stitch_along[lists.stitches[k]]
    if external.windy == 1:
        for k in range(external.face_offsets[i], external.face_offsets[i + 1]):
            total += h * external.face_force[external.face_items[k] // 3]
    b[r] = total


class CornerPairs(NamedTuple):
    """Two corners of an element, lower vertex first."""

    low: np.ndarray
    high: np.ndarray
    element: np.ndarray
    corners: np.ndarray
    """(k, 2): which corners of the element they are"""


class BlockRows:
    """The places of the blocks of a matrix, and their numbers (device arrays)."""

    def __init__(self, joined: np.ndarray, edges: np.ndarray, vertex_count: int, device: wp.DeviceLike) -> None:
        """Blocks at the joined pairs of vertices (k, 2), in any order, repeated or not; patches grow over `edges` (e, 2)."""
        self.device = device
        count = self.count = vertex_count

        def upload(values: np.ndarray) -> wp.array:
            return wp.array(values, dtype=int, device=device)

        joined = joined.astype(np.int64)
        self.aggregates = aggregate(edges, joined, count)

        # rows in the order of their patches
        label = self.aggregates.label
        order = np.argsort(label, kind="stable").astype(np.int32)
        row_of = np.empty(count, np.int32)
        row_of[order] = np.arange(count)
        self.order = upload(order)
        self.row_of = upload(row_of)
        self.patches = upload(np.concatenate([[0], np.cumsum(np.bincount(label, minlength=self.aggregates.count))]))
        self.patch_of = upload(label[order])

        # pairs sorted by rows; a block at either place of a pair, and one a row on the diagonal
        ends = row_of[joined].astype(np.int64)
        keys, self.pair_of = np.unique(ends.min(axis=1) * count + ends.max(axis=1), return_inverse=True)
        pairs = self.pair_count = len(keys)
        turned = np.zeros(pairs, bool)
        turned[self.pair_of] = ends[:, 0] > ends[:, 1]
        low, high = np.where(turned, keys % count, keys // count), np.where(turned, keys // count, keys % count)
        own = np.arange(count, dtype=np.int32)
        rows, columns = np.concatenate([low, high, own]), np.concatenate([high, low, own])
        sorted_entries = np.lexsort((columns, rows))
        place = np.empty(len(rows), np.int32)
        place[sorted_entries] = np.arange(len(rows))
        self.places = wp.array(
            np.column_stack([place[:pairs], place[pairs : 2 * pairs]]), dtype=wp.vec2i, device=device
        )
        self.diagonal = upload(place[2 * pairs :])
        self.offsets = upload(np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]))
        self.rows = upload(rows[sorted_entries])
        self.columns = upload(columns[sorted_entries])
        self.blocks = wp.zeros(len(rows), dtype=wp.mat33d, device=device)


def corner_pairs(vertices: np.ndarray, weights: np.ndarray | None = None) -> CornerPairs:
    """All pairs of corners of elements (k, width), except pairs of a vertex with itself and corners of weight 0."""
    count, width = vertices.shape
    one, two = np.triu_indices(width, 1)
    a, b = vertices[:, one].ravel(), vertices[:, two].ravel()
    keep = a != b
    if weights is not None:
        keep &= (weights[:, one] * weights[:, two] != 0.0).ravel()
    element = np.repeat(np.arange(count), len(one))
    one, two = np.tile(one, count), np.tile(two, count)
    swap = a > b
    corners = np.column_stack([np.where(swap, two, one), np.where(swap, one, two)])
    return CornerPairs(np.minimum(a, b)[keep], np.maximum(a, b)[keep], element[keep], corners[keep])


class BlockMatrix(BlockRows):
    """The matrix of all elements, and the lists by which it is assembled (device arrays)."""

    def __init__(self, elements: Elements, bent: np.ndarray, vertex_count: int, device: wp.DeviceLike) -> None:
        """`bent` (k, 2) are the pairs of vertices that bending joins."""

        def upload(values: np.ndarray, dtype: Any = int) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        # every pair of vertices that an element joins; patches grow over the edges of triangles and over stitches
        kinds = [corner_pairs(a) for a in (elements.faces, elements.stitches)]
        edges = np.concatenate([np.column_stack([kind.low, kind.high]) for kind in kinds])
        super().__init__(np.concatenate([edges, bent]), edges, vertex_count, device)
        self._bent, self._bent_pairs = bent, self.pair_of[len(edges) :]
        self.pair_lists = _pair_lists(elements, kinds, self.pair_of, self.pair_count, upload)
        self.vertex_lists = _vertex_lists(elements, vertex_count, upload)
        delay = np.zeros(vertex_count)
        delay[elements.hinges.quads] = elements.bend_delay[:, None]
        pair_delay = np.zeros(self.pair_count)
        pair_delay[self._bent_pairs] = delay[bent[:, 0]]
        self.pair_lists.bend_delay = upload(pair_delay, wp.float64)
        self.pair_lists.bend = upload(np.zeros(self.pair_count), wp.float64)

    def set_bending(self, bending: csr_array) -> None:
        """Take this bending matrix, (n, n) in N/m."""
        if len(self._bent) > 0:
            values = np.zeros(self.pair_count)
            values[self._bent_pairs] = bending[self._bent[:, 0], self._bent[:, 1]]
            self.pair_lists.bend.assign(values)

    def assemble(self, terms: Any, external: Any, h: float) -> None:
        """Fill the blocks for a step h from the terms of the elements."""
        inputs = [self.pair_lists, terms, h, self.places, self.blocks]
        launch(assemble_pairs, self.pair_count, inputs, device=self.device, grain=256)
        inputs = [self.order, self.offsets, self.diagonal, external, h, self.blocks]
        launch(assemble_diagonal, self.count, inputs, device=self.device, grain=512)

    def right_hand_side(self, terms: Any, external: Any, v: wp.array, push: wp.array, h: float, b: wp.array) -> None:
        """Write b for a step h: elements, gravity, air and the forces `push` that come with constraints."""
        inputs = [self.order, self.vertex_lists, terms, external, v, push, h, b]
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
    lists.stitch_offsets, stitch, i, j = gathered[1]
    lists.stitches = upload(stitch, int)
    w = elements.stitch_weights
    lists.stitch_factors = upload(w[stitch, i] * w[stitch, j], wp.float64)
    return lists


def _vertex_lists(elements: Elements, vertex_count: int, upload: Upload) -> Any:
    lists = VertexLists()
    offsets, items = incidence(elements.faces, vertex_count)
    lists.face_offsets, lists.faces = upload(offsets, int), upload(items // 3, int)
    lists.face_factors = upload(np.column_stack([elements.p.ravel()[items], elements.q.ravel()[items]]), wp.vec2d)
    offsets, items = incidence(elements.hinges.quads, vertex_count)
    lists.hinge_offsets, lists.hinges = upload(offsets, int), upload(items // 4, int)
    lists.hinge_factors = upload(elements.hinges.weights.ravel()[items], wp.float64)
    offsets, items = incidence(elements.stitches, vertex_count)
    lists.stitch_offsets, lists.stitches = upload(offsets, int), upload(items // 3, int)
    lists.stitch_factors = upload(elements.stitch_weights.ravel()[items], wp.float64)
    return lists

"""Springs that hold for one step between points of the cloth, such as two layers that touch.

Elements are fixed with the mesh and make up the matrix; links come and go. So their part of the system is never
written into the matrix: with J the weights of all links and S the stiffness of each, the solver multiplies by J^T S J.

A link has up to five vertices with weights that sum to zero, r = sum w_k x_k, and a direction n. It wants n.r to be
at least `rest`, or to grow by `speed` times the step, whichever is less; where that is so anyway, it does nothing. But
while n.r is less than `rest` it holds on to what leaves no faster than it would fall back within the step: let go, a
layer that rests on another one would fall, be caught and be let go again, step by step.

Its stiffness is `strength` times its reduced mass over the step squared: how far it gets in one step against the
inertia of the cloth is then the same however long the step and however fine the mesh. Or it is `stiffness`, in N/m, where
that is more: what has to hold against the stretch of cloth. Across n it may rub: Coulomb
friction with the normal force that the spring is expected to give, as a drag that can stop a motion but not turn it
round.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.dynamics.implicit.block_rows import BlockRows
from weft.runtime import launch
from weft.runtime.buffers import Buffer

wp.set_module_options({"enable_backward": False})

# vertices of a link; those that are not needed have no weight
WIDTH = 5
CORNERS = wp.constant(WIDTH)
ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# sliding slower than this is held as if it were this fast, m/s
CREEP = wp.constant(wp.float64(1.0e-3))
# twice the acceleration with which things fall, m/s^2
FALL = wp.constant(wp.float64(20.0))
# the rest length of a pull is infinite
UNBOUNDED = wp.constant(wp.float64(1.0e12))


@wp.kernel
def strain_links(
    first: int,
    vertices: wp.array[int],
    weights: wp.array[wp.float64],
    normals: wp.array[wp.vec3d],
    rest: wp.array[wp.float64],
    speed: wp.array[wp.float64],
    strength: wp.array[wp.float64],
    stiffness: wp.array[wp.float64],
    friction: wp.array[wp.float64],
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    h: wp.float64,
    matrices: wp.array[wp.mat33d],
    along: wp.array[wp.vec3d],
):
    """What a link gives to a step h: w_i w_j times its matrix, and w_i along on the right-hand side."""
    i = first + wp.tid()
    n = normals[i]
    r = wp.vec3d()
    u = wp.vec3d()
    y = wp.vec3d()
    inverse = ZERO
    # differences from the first vertex: exact enough far from the origin
    origin = x[vertices[CORNERS * i]]
    for k in range(CORNERS):
        w = weights[CORNERS * i + k]
        j = vertices[CORNERS * i + k]
        r += w * (x[j] - origin)
        u += w * v[j]
        y += w * shift[j]
        inverse += w * w * inverse_mass[j]
    matrices[i] = wp.mat33d()
    along[i] = wp.vec3d()
    if inverse > ZERO:
        # k h^2
        stiff = wp.max(strength[i] / inverse, stiffness[i] * h * h)
        gap = wp.dot(n, r)
        leaving = wp.dot(n, u)
        lack = wp.min(rest[i] - gap, speed[i] * h) - wp.dot(n, h * u + y)
        # a pull without a rest length has no place to hold
        resting = gap < rest[i] and rest[i] < UNBOUNDED and leaving < FALL * h
        if lack <= ZERO and not resting:
            return
        across = u - leaving * n
        # h times the drag mu N / |u|, N being what is left of the force when the link has moved its own mass
        pressed = stiff * wp.max(lack, ZERO) / (h * (ONE + stiff * inverse))
        drag = friction[i] * pressed / wp.max(wp.length(across), CREEP)
        block = wp.outer(n, n)
        matrices[i] = stiff * block + drag * (wp.identity(n=3, dtype=wp.float64) - block)
        along[i] = (stiff * lack / h) * n - drag * across


@wp.kernel
def key_entries(
    first: int, vertices: wp.array[int], row_of: wp.array[int], keys: wp.array[int], entries: wp.array[int]
):
    """The row of each entry, to sort them by."""
    i = first + wp.tid()
    keys[i] = row_of[vertices[i]]
    entries[i] = i


@wp.kernel
def find_starts(first: int, keys: wp.array[int], count: int, offsets: wp.array[int]):
    """Where the entries of each row start among the sorted ones."""
    r = first + wp.tid()
    # Warp's search ends at the last entry, even if that comes before
    start = wp.lower_bound(keys, 0, count, r)
    if keys[count - 1] < r:
        start = count
    offsets[r] = start


@wp.kernel
def stretch_links(
    first: int,
    rows: wp.array[int],
    weights: wp.array[wp.float64],
    matrices: wp.array[wp.mat33d],
    x: wp.array[wp.vec3d],
    stretched: wp.array[wp.vec3d],
):
    """S J x: what each link answers to a displacement of the rows."""
    i = first + wp.tid()
    total = wp.vec3d()
    for k in range(CORNERS):
        total += weights[CORNERS * i + k] * x[rows[CORNERS * i + k]]
    stretched[i] = matrices[i] * total


@wp.func
def links_at(
    r: int,
    offsets: wp.array[int],
    entries: wp.array[int],
    weights: wp.array[wp.float64],
    values: wp.array[wp.vec3d],
) -> wp.vec3d:
    """The row r of J^T values."""
    total = wp.vec3d()
    for k in range(offsets[r], offsets[r + 1]):
        entry = entries[k]
        total += weights[entry] * values[entry // CORNERS]
    return total


@wp.func
def link_block(
    r: int,
    offsets: wp.array[int],
    entries: wp.array[int],
    weights: wp.array[wp.float64],
    matrices: wp.array[wp.mat33d],
) -> wp.mat33d:
    """The block of J^T S J on the diagonal of row r."""
    total = wp.mat33d()
    for k in range(offsets[r], offsets[r + 1]):
        entry = entries[k]
        total += (weights[entry] * weights[entry]) * matrices[entry // CORNERS]
    return total


@wp.kernel
def add_pull(
    first: int,
    offsets: wp.array[int],
    entries: wp.array[int],
    weights: wp.array[wp.float64],
    along: wp.array[wp.vec3d],
    b: wp.array[wp.vec3d],
):
    """The links' part of the right-hand side."""
    r = first + wp.tid()
    b[r] = b[r] + links_at(r, offsets, entries, weights, along)


class Links:
    """The links of a step (device arrays that grow); none until some are added and closed."""

    def __init__(self, matrix: BlockRows, inverse_mass: wp.array) -> None:
        device = self.device = wp.get_device(matrix.device)
        self.matrix = matrix
        self.inverse_mass = inverse_mass
        self.count = 0
        self._vertices, self._keys, self._entries = (Buffer(int, device) for _ in range(3))
        self._rows = Buffer(int, device)
        self._weights, self._rest, self._speed = (Buffer(wp.float64, device) for _ in range(3))
        self._strength, self._stiffness, self._friction = (Buffer(wp.float64, device) for _ in range(3))
        self._normals, self._along, self._stretched = (Buffer(wp.vec3d, device) for _ in range(3))
        self._matrices = Buffer(wp.mat33d, device)
        self.offsets = wp.zeros(matrix.count + 1, dtype=int, device=device)
        """where the entries of each row start"""

    @property
    def columns(self) -> list[wp.array]:
        """Vertices, weights (five of each a link), normals, rest, speed, strength, stiffness, friction."""
        buffers = [self._vertices, self._weights, self._normals, self._rest, self._speed]
        return [buffer.array for buffer in (*buffers, self._strength, self._stiffness, self._friction)]

    @property
    def lists(self) -> list[wp.array]:
        """Offsets, entries and weights of the rows, for `links_at` and `link_block`."""
        return [self.offsets, self._entries.array, self._weights.array]

    @property
    def matrices(self) -> wp.array:
        return self._matrices.array

    @property
    def stretched(self) -> wp.array:
        """What `stretch` found."""
        return self._stretched.array

    def clear(self) -> None:
        """No links."""
        if self.count:
            self.offsets.zero_()
        self.count = 0

    def grow(self, count: int) -> int:
        """Make room for so many more; gives the place of the first of them."""
        first = self.count
        self.count += count
        self._vertices.at_least(WIDTH * self.count, keep=WIDTH * first)
        self._weights.at_least(WIDTH * self.count, keep=WIDTH * first)
        for buffer in (self._normals, self._rest, self._speed, self._strength, self._stiffness, self._friction):
            buffer.at_least(self.count, keep=first)
        return first

    def add(
        self,
        vertices: npt.NDArray[np.integer],
        weights: npt.NDArray[np.float64],
        normals: npt.NDArray[np.float64],
        *,
        rest: npt.ArrayLike,
        speed: npt.ArrayLike,
        strength: npt.ArrayLike = 0.0,
        stiffness: npt.ArrayLike = 0.0,
        friction: npt.ArrayLike = 0.0,
    ) -> None:
        """Links from host arrays: (k, c) vertices and weights, c at most five, and (k, 3) directions."""
        count, corners = vertices.shape
        if count == 0:
            return
        five = np.repeat(vertices[:, :1], WIDTH, axis=1).astype(np.int32)
        five[:, :corners] = vertices
        heavy = np.zeros((count, WIDTH))
        heavy[:, :corners] = weights
        first = self.grow(count)
        numbers = [
            np.broadcast_to(np.asarray(a, np.float64), count) for a in (rest, speed, strength, stiffness, friction)
        ]
        values: list[np.ndarray] = [five.ravel(), heavy.ravel(), normals, *numbers]
        for column, value in zip(self.columns, values, strict=True):
            scale = len(value) // count
            column[scale * first : scale * self.count].assign(np.ascontiguousarray(value))

    def close(self) -> None:
        """All links of the step are there: list them by rows."""
        if self.count == 0:
            return
        entries = WIDTH * self.count
        keys, places = self._keys.at_least(2 * entries), self._entries.at_least(2 * entries)
        launch(key_entries, entries, [self._vertices.array, self.matrix.row_of, keys, places], device=self.device)
        rows = self._rows.at_least(entries)
        wp.copy(rows, keys, count=entries)
        wp.utils.radix_sort_pairs(keys, places, entries)
        launch(find_starts, len(self.offsets), [keys, entries, self.offsets], device=self.device)
        for buffer in (self._along, self._stretched, self._matrices):
            buffer.at_least(self.count)

    def strain(self, x: wp.array, v: wp.array, shift: wp.array, h: float) -> None:
        """What the links give to a step h from here."""
        inputs: list[Any] = [*self.columns, self.inverse_mass, x, v, shift, h]
        inputs += [self._matrices.array, self._along.array]
        launch(strain_links, self.count, inputs, device=self.device, grain=512)

    def pull(self, b: wp.array) -> None:
        """Add their part to the right-hand side."""
        if self.count:
            launch(add_pull, self.matrix.count, [*self.lists, self._along.array, b], device=self.device)

    def stretch(self, x: wp.array) -> None:
        """What each link answers to a displacement of the rows, into `stretched`."""
        inputs = [self._rows.array, self._weights.array, self._matrices.array, x, self._stretched.array]
        launch(stretch_links, self.count, inputs, device=self.device, grain=512)

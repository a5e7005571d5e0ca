"""Springs that act for one step between points of the cloth, such as two layers that touch.

The elements of the cloth are fixed with the mesh and make up the matrix; these springs come and go. So their part of the
system is never written into the matrix: with J the weights of all springs and S the stiffness of each, the solver
multiplies by J^T S J.

A spring has up to five vertices with weights that sum to zero, r = sum w_k x_k, and a direction n. It pushes n.r up to
`rest`, or by `speed` times the step, whichever is less, and does nothing where the motion does that anyway. What the motion
will be is known after a solve (`press`): further solves of the same step have the springs that turned out to be needed. But
while n.r is less than `rest` a spring also holds what separates no faster than it would fall back within the step: without
that, a layer that rests on another one would fall, be caught and be released again, step by step.

Its stiffness is `strength` times its reduced mass over the step squared: how far it gets in one step against the
inertia of the cloth is then the same however long the step and however fine the mesh. Or it is `stiffness`, in N/m, where
that is more, for springs that have to withstand the stretch of cloth. Across n there is Coulomb friction, as a drag that can
stop a motion but not reverse it. Its normal force is that of the last solve of the step; in the first one, what is left
when the spring has moved its own mass.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.dynamics.implicit.block_matrix import BlockRows
from weft.runtime import launch
from weft.runtime.buffers import Buffer, read

wp.set_module_options({"enable_backward": False})

# vertices of a spring; unused ones have weight 0
WIDTH = 5
CORNERS = wp.constant(WIDTH)
ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
# m/s: friction of slower sliding is linear in the speed, which bounds its drag. Lower: stiffer systems; higher: cloth
# creeps, each layer of a pile at up to this speed over the one below
CREEP = wp.constant(wp.float64(3.0e-5))
# m/s^2, twice gravity: layers that separate with less than this times the step are taken as resting on each other
FALL = wp.constant(wp.float64(20.0))
# m: a rest length beyond this means a pull without end, which has no place to hold
UNBOUNDED = wp.constant(wp.float64(1.0e12))


@wp.struct
class SpringArrays:
    """The springs of a step as kernels take them; vertices, rows and weights are five for each spring."""

    vertices: wp.array[int]
    rows: wp.array[int]
    """the matrix row of each vertex"""
    weights: wp.array[wp.float64]
    normals: wp.array[wp.vec3d]
    rest: wp.array[wp.float64]
    speed: wp.array[wp.float64]
    strength: wp.array[wp.float64]
    stiffness: wp.array[wp.float64]
    friction: wp.array[wp.float64]
    active: wp.array[wp.int8]
    """1: the spring acts"""
    pressed: wp.array[wp.float64]
    """its normal impulse"""
    lacks: wp.array[wp.float64]
    """m: by how much it would be too short at the end of the step"""
    matrices: wp.array[wp.mat33d]
    along: wp.array[wp.vec3d]


@wp.func
def change_of(i: int, springs: SpringArrays, x: wp.array[wp.vec3d]) -> wp.vec3d:
    """Row i of J x: the relative displacement of a spring's sides for a displacement x of the matrix rows."""
    total = wp.vec3d()
    for k in range(CORNERS):
        total += springs.weights[CORNERS * i + k] * x[springs.rows[CORNERS * i + k]]
    return total


@wp.func
def strain_spring(
    i: int,
    inverse: wp.float64,
    r: wp.vec3d,
    u: wp.vec3d,
    y: wp.vec3d,
    h: wp.float64,
    solved: int,
    springs: SpringArrays,
):
    """What a spring of inverse mass `inverse` adds to a step h, with its sides at distance r, moving by u, corrected by y."""
    n = springs.normals[i]
    # k h^2
    stiff = wp.max(springs.strength[i] / inverse, springs.stiffness[i] * h * h)
    rest = springs.rest[i]
    gap = wp.dot(n, r)
    leaving = wp.dot(n, u)
    lack = wp.min(rest - gap, springs.speed[i] * h) - wp.dot(n, h * u + y)
    springs.lacks[i] = lack
    if solved == 0:
        resting = gap < rest and rest < UNBOUNDED and leaving < FALL * h
        springs.active[i] = wp.int8(0)
        springs.pressed[i] = ZERO
        if resting or lack > ZERO:
            springs.active[i] = wp.int8(1)
    if springs.active[i] == wp.int8(0):
        return
    across = u - leaving * n
    if solved == 0:
        springs.pressed[i] = stiff * wp.max(lack, ZERO) / (h * (ONE + stiff * inverse))
    # h times the drag mu N / |u|
    drag = springs.friction[i] * springs.pressed[i] / wp.max(wp.length(across), CREEP)
    block = wp.outer(n, n)
    springs.matrices[i] = stiff * block + drag * (wp.identity(n=3, dtype=wp.float64) - block)
    springs.along[i] = (stiff * lack / h) * n - drag * across


@wp.kernel
def strain_springs(
    first: int,
    springs: SpringArrays,
    inverse_mass: wp.array[wp.float64],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    shift: wp.array[wp.vec3d],
    h: wp.float64,
    solved: int,
):
    """What each spring adds to a step h: w_i w_j times its matrix to blocks, w_i times `along` to the right-hand side.

    `active` and `pressed` are given where the step was solved before.
    """
    i = first + wp.tid()
    r = wp.vec3d()
    u = wp.vec3d()
    y = wp.vec3d()
    inverse = ZERO
    # differences from the first vertex keep their digits far from the origin
    origin = x[springs.vertices[CORNERS * i]]
    for k in range(CORNERS):
        w = springs.weights[CORNERS * i + k]
        j = springs.vertices[CORNERS * i + k]
        r += w * (x[j] - origin)
        u += w * v[j]
        y += w * shift[j]
        inverse += w * w * inverse_mass[j]
    springs.matrices[i] = wp.mat33d()
    springs.along[i] = wp.vec3d()
    springs.lacks[i] = ZERO
    if inverse > ZERO:
        strain_spring(i, inverse, r, u, y, h, solved, springs)


@wp.kernel
def key_entries(
    first: int, vertices: wp.array[int], row_of: wp.array[int], keys: wp.array[int], entries: wp.array[int]
):
    """The matrix row of each entry, as key to sort entries by."""
    i = first + wp.tid()
    keys[i] = row_of[vertices[i]]
    entries[i] = i


@wp.kernel
def find_starts(first: int, keys: wp.array[int], count: int, offsets: wp.array[int]):
    """Where the entries of each matrix row start among the sorted ones."""
    r = first + wp.tid()
    # wp.lower_bound returns the last entry at most, even if its key is lower
    start = wp.lower_bound(keys, 0, count, r)
    if keys[count - 1] < r:
        start = count
    offsets[r] = start


@wp.kernel
def stretch_springs(first: int, springs: SpringArrays, x: wp.array[wp.vec3d], stretched: wp.array[wp.vec3d]):
    """S J x: the response of each spring to a displacement x of the matrix rows."""
    i = first + wp.tid()
    stretched[i] = springs.matrices[i] * change_of(i, springs, x)


@wp.kernel
def press_springs(first: int, springs: SpringArrays, h: wp.float64, x: wp.array[wp.vec3d], changed: wp.array[int]):
    """What each spring gives along its direction when the matrix rows change their velocities by x, and whether it is needed.

    `changed` becomes 1 where a spring turns out to be needed.
    """
    i = first + wp.tid()
    total = change_of(i, springs, x)
    n = springs.normals[i]
    springs.pressed[i] = wp.max(wp.dot(n, springs.along[i] - springs.matrices[i] * total), ZERO)
    if springs.active[i] == wp.int8(0):
        if springs.lacks[i] - h * wp.dot(n, total) > ZERO:
            springs.active[i] = wp.int8(1)
            changed[0] = 1


@wp.func
def springs_at(
    r: int,
    offsets: wp.array[int],
    entries: wp.array[int],
    weights: wp.array[wp.float64],
    values: wp.array[wp.vec3d],
) -> wp.vec3d:
    """Row r of J^T values."""
    total = wp.vec3d()
    for k in range(offsets[r], offsets[r + 1]):
        entry = entries[k]
        total += weights[entry] * values[entry // CORNERS]
    return total


@wp.func
def spring_block(
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
    """Add J^T along to the right-hand side."""
    r = first + wp.tid()
    b[r] = b[r] + springs_at(r, offsets, entries, weights, along)


class StepSprings:
    """The springs of a step (device arrays that grow): `clear`, then `add` or `grow` as often as needed, then `close`."""

    def __init__(self, matrix: BlockRows, inverse_mass: wp.array) -> None:
        device = self.device = wp.get_device(matrix.device)
        self.matrix = matrix
        self.inverse_mass = inverse_mass
        self.count = 0
        self._vertices, self._keys, self._entries = (Buffer(int, device) for _ in range(3))
        self._rows = Buffer(int, device)
        self._weights, self._rest, self._speed = (Buffer(wp.float64, device) for _ in range(3))
        self._strength, self._stiffness, self._friction = (Buffer(wp.float64, device) for _ in range(3))
        self._pressed, self._lacks = Buffer(wp.float64, device), Buffer(wp.float64, device)
        self._active = Buffer(wp.int8, device)
        self._normals, self._along, self._stretched = (Buffer(wp.vec3d, device) for _ in range(3))
        self._matrices = Buffer(wp.mat33d, device)
        self._arrays: Any = SpringArrays()
        self._changed = wp.zeros(1, dtype=int, device=device)
        self.offsets = wp.zeros(matrix.count + 1, dtype=int, device=device)
        """where the entries of each matrix row start"""

    @property
    def columns(self) -> list[wp.array]:
        """Vertices, weights (five of each a spring), normals, rest, speed, strength, stiffness, friction."""
        buffers = [self._vertices, self._weights, self._normals, self._rest, self._speed]
        return [buffer.array for buffer in (*buffers, self._strength, self._stiffness, self._friction)]

    @property
    def lists(self) -> list[wp.array]:
        """Offsets and entries by matrix row, and weights by entry, for `springs_at` and `spring_block`."""
        return [self.offsets, self._entries.array, self._weights.array]

    @property
    def matrices(self) -> wp.array:
        return self._matrices.array

    @property
    def arrays(self) -> list[wp.array]:
        """All that `stretch` is given, on which a CUDA graph with it depends."""
        return [getattr(self, f"_{name}").array for name in SpringArrays.__annotations__]

    @property
    def stretched(self) -> wp.array:
        """The result of `stretch`."""
        return self._stretched.array

    def clear(self) -> None:
        """Remove all springs."""
        if self.count:
            self.offsets.zero_()
        self.count = 0

    def grow(self, count: int) -> int:
        """Make room for so many more springs in `columns`; returns the index of the first of them."""
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
        """StepSprings from host arrays: (k, c) vertices and weights, c at most five, and (k, 3) directions."""
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
        """Called when all springs of the step are there: sorts their entries by matrix row."""
        if self.count == 0:
            return
        entries = WIDTH * self.count
        keys, places = self._keys.at_least(2 * entries), self._entries.at_least(2 * entries)
        launch(key_entries, entries, [self._vertices.array, self.matrix.row_of, keys, places], device=self.device)
        rows = self._rows.at_least(entries)
        wp.copy(rows, keys, count=entries)
        wp.utils.radix_sort_pairs(keys, places, entries)
        launch(find_starts, len(self.offsets), [keys, entries, self.offsets], device=self.device)
        for buffer in (self._along, self._stretched, self._matrices, self._pressed, self._lacks, self._active):
            buffer.at_least(self.count)
        for name in SpringArrays.__annotations__:
            setattr(self._arrays, name, getattr(self, f"_{name}").array)

    def strain(self, x: wp.array, v: wp.array, shift: wp.array, h: float, *, solved: bool = False) -> None:
        """Compute what the springs add to a step h from positions x and velocities v, with position corrections `shift`.

        `solved`: which springs act, and the normal forces for friction, are those of the last `press`.
        """
        inputs = [self._arrays, self.inverse_mass, x, v, shift, h, int(solved)]
        launch(strain_springs, self.count, inputs, device=self.device, grain=512)

    def press(self, x: wp.array, h: float) -> bool:
        """Find the normal forces of the springs from a solution x of a step h, changes of velocity of the matrix rows.

        Returns whether springs turn out to be needed that did not act.
        """
        if self.count == 0:
            return False
        self._changed.zero_()
        launch(press_springs, self.count, [self._arrays, h, x, self._changed], device=self.device, grain=512)
        return bool(read((self._changed, 0, 1))[0][0])

    def pull(self, b: wp.array) -> None:
        """Add the springs' part to the right-hand side b."""
        if self.count:
            launch(add_pull, self.matrix.count, [*self.lists, self._along.array, b], device=self.device)

    def stretch(self, x: wp.array) -> None:
        """Write the response of each spring to a displacement x of the matrix rows into `stretched`."""
        launch(stretch_springs, self.count, [self._arrays, x, self._stretched.array], device=self.device, grain=512)

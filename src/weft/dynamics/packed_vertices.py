"""Packed vertices: x, y, z and the inverse mass in one vec4d, so that one load has all that a constraint needs of a vertex.

The functions on them are C++ (`native/packed_vertices.h`), where such a vector is one SIMD register. A function that
includes `PACKED_VERTEX` lets the CPU compiler fuse multiplications with additions: what must not be fused, such as exact
predicates, belongs into other functions and other Warp modules.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

# entries of a sparse row that a CUDA thread loads at once: rows of bending have 13 to 25
ENTRIES_AT_ONCE = 8

_native = NativeHeader(__file__, "packed_vertices.h")
PACKED_VERTEX = _native.body("packed_vertex")
"""C++ that defines `row4`; the first thing in a native function that uses it"""


@wp.func
def first_three(row: wp.vec4d) -> wp.vec3d:
    """The position in a packed vertex, or a difference of positions."""
    return wp.vec3d(row[0], row[1], row[2])


@wp.func
def length_at(lengths: wp.array[wp.float64], vertex: int) -> wp.float64:
    """The length of a substep at a vertex: `lengths` has one for all vertices, or one for each."""
    return lengths[wp.min(vertex, lengths.shape[0] - 1)]


@wp.func_native(_native.body("start_vertex"))
def start_vertex(
    i: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    h: wp.float64,
    ahead: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
):
    """Pack vertex i at the start of a step: in `p` where its velocity brings it in the fraction `ahead` of a substep h, in
    `before` where it was a substep before that."""
    ...


@wp.func_native(_native.body("bring_back"))
def bring_back(i: int, ahead: wp.float64, p: wp.array[wp.vec4d], before: wp.array[wp.vec4d]):
    """Undo that after the last substep: vertex i goes back by the fraction `ahead` of it, with the same velocity."""
    ...


@wp.func_native(_native.body("predict_vertices"))
def predict_vertices(
    first: int,
    last: int,
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    slowed: wp.float64,
    h: wp.float64,
    progress: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    start: wp.array[wp.vec4d],
):
    """Free motion over a substep h of the vertices from `first` to `last` (exclusive), in `p`.

    The velocity of a vertex is the difference of `p` and `before`, its position a substep ago; air damping leaves the
    fraction `slowed` of it. A vertex without inverse mass goes to the fraction `progress` of the way from x to its target.
    Afterwards `before` and `start` both hold the position at the start of the substep; contacts that separate what
    had intersected shift `before` along with `p`, so that the separation gives no velocity.
    """
    ...


@wp.func_native(_native.body("end_vertex"))
def end_vertex(
    i: int,
    per_h: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """Unpack position and velocity of vertex i after the last substep, of length 1 / `per_h`."""
    ...


@wp.func_native(_native.body("row_product", ENTRIES_AT_ONCE=ENTRIES_AT_ONCE))
def row_product(
    begin: int, end: int, step: int, columns: wp.array[int], values: wp.array[wp.float64], x: wp.array[wp.vec4d]
) -> wp.vec4d:
    """The sum of values[e] * x[columns[e]] from `begin` to `end` in steps: a row of a sparse matrix times packed vertices."""
    ...

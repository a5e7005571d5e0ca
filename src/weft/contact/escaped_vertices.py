"""Vertices that go elsewhere than expected in a step, what belongs to them, and what has turned since the first test."""

import warp as wp

from weft.contact import ccd_tests as impact
from weft.contact import contact_tests as approach

wp.set_module_options({"enable_backward": False})


@wp.kernel
def mark_escaped(
    first: int,
    x: wp.array[wp.vec3d],
    expected: wp.array[wp.vec3d],
    reached: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    frame: wp.array[wp.vec3d],
    slack: wp.float64,
    tested: wp.array[wp.vec3d],
    turned: wp.array[int],
    strayed: wp.array[int],
    fresh: wp.array[int],
):
    """Whether a vertex ends outside the box in which it was looked for by more than the slack, in the moving frame.

    Notes as well how far it ends from where it ended in the first test of the step.
    """
    i = first + wp.tid()
    turned[i] = impact.units_turned(wp.length(end[i] - tested[i]))
    a = x[i]
    b = expected[i] - frame[1]
    c = reached[i] - frame[1]
    d = end[i] - frame[1]
    far = wp.float64(0.0)
    for axis in range(3):
        low = wp.min(wp.min(a[axis], b[axis]), c[axis])
        high = wp.max(wp.max(a[axis], b[axis]), c[axis])
        far = wp.max(far, wp.max(low - d[axis], d[axis] - high))
    if far > slack:
        strayed[i] = 1
        # whoever writes writes the same
        fresh[0] = 1
    if strayed[i] == 1:
        reached[i] = end[i]


@wp.kernel
def mark_faces(first: int, faces: wp.array[wp.vec3i], strayed: wp.array[int], marked: wp.array[int]):
    """Whether a triangle has a stray among its corners."""
    i = first + wp.tid()
    f = faces[i]
    marked[i] = strayed[f[0]] + strayed[f[1]] + strayed[f[2]]


@wp.kernel
def mark_edges(first: int, edges: wp.array[wp.vec2i], strayed: wp.array[int], marked: wp.array[int]):
    """Whether an edge has a stray among its ends."""
    i = first + wp.tid()
    e = edges[i]
    marked[i] = strayed[e[0]] + strayed[e[1]]


@wp.kernel
def turn_faces(first: int, faces: wp.array[wp.vec3i], turned: wp.array[int], of_faces: wp.array[int]):
    """How far the corner of a triangle that has turned most has turned."""
    i = first + wp.tid()
    f = faces[i]
    of_faces[i] = wp.max(wp.max(turned[f[0]], turned[f[1]]), turned[f[2]])


@wp.kernel
def turn_edges(first: int, edges: wp.array[wp.vec2i], turned: wp.array[int], of_edges: wp.array[int]):
    """The same of an edge's ends."""
    i = first + wp.tid()
    e = edges[i]
    of_edges[i] = wp.max(turned[e[0]], turned[e[1]])


@wp.kernel
def forget(
    first: int,
    pairs: wp.array[wp.vec2i],
    marked: wp.array[int],
    marked_too: wp.array[int],
    near: wp.array[wp.float64],
):
    """Pairs with a stray are listed elsewhere."""
    i = first + wp.tid()
    pair = pairs[i]
    if marked[pair[0]] + marked_too[pair[1]] != 0:
        near[i] = approach.NEVER

"""Stretch and shear of position-based cloth as those of a membrane: springs whose rest lengths follow the triangles.

The tension of an edge of a triangle depends on the extensions of all three edges (see `springs._edge_tension`), T = K x; a
spring knows its own alone. So the springs have the stiffness of the diagonal of K, and in each step rest lengths at which
they pull with the tension that the triangles had in the step before. At rest cloth so has the stiffness of its material
exactly, whatever its triangles, and springs are solved in lines as before. Repeated from step to step this is a splitting of
K, which is stable where twice the springs are stiffer than K: where they are not, they are made so.

Beyond a limit of stretch along its threads a triangle is firmer: then its edges pull more, and their springs are stiffer in the
step. So each step is a Newton step on the law of the tension.

Springs alone cannot: the diagonals of a grid that carry its shear make it narrow when it is pulled. By calculation (it was
not simulated), with stretch and shear right along the threads, a strip cut at 45 degrees would be 18 % too stiff with a
shear of 0.4 of the stretch.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import length_at
from weft.dynamics.springs import SpringNetwork

wp.set_module_options({"enable_backward": False})

# twice the stiffness of the springs is at least so many times that of the membrane in every direction of strain; at 1 the
# strain of a step would come back reversed in the next, for ever
MARGIN = 1.15
HALF_MARGIN = wp.constant(wp.float64(0.5 * MARGIN))
# the most by which a rest length is shifted, as a fraction of it: in crushed or torn cloth tensions mean nothing
LARGEST_SHIFT = 0.5


@wp.kernel
def find_extensions(
    first: int,
    springs: wp.array[int],
    pairs: wp.array[wp.vec2i],
    rests: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    shifted: wp.array[wp.float64],
    extensions: wp.array[wp.float64],
):
    """How much longer than at rest each spring is by the force that it had in the last substep, whose length is in `lengths`.

    Springs that are not solved to the end are longer than that; their length itself would make the coupling unstable.
    """
    i = first + wp.tid()
    k = springs[i]
    if k >= 0:
        shift = shifted[i] - rests[i]
        h = length_at(lengths, pairs[i][0])
        extensions[k] = shift - compliance[i] * pushes[i] / (h * h)


@wp.func
def pull_of_threads(threads: wp.mat33d, edge: int, extension: wp.vec3d) -> wp.vec2d:
    """How much more an edge pulls because the threads of a triangle are beyond their limit, and how much stiffer its spring is.

    A thread beyond its limit has the energy k/2 (a.x - limit)^2 of the extensions x: the stiffness k a a^T, in which twice the
    diagonal has to exceed the whole (see `MARGIN`): the largest eigenvalue is k times the number of edges that a has.
    """
    result = wp.vec2d()
    for thread in range(2):
        a = threads[thread]
        beyond = wp.dot(a, extension) - threads[2, 2]
        if beyond > wp.float64(0.0):
            edges = wp.float64(0.0)
            for j in range(3):
                if a[j] != wp.float64(0.0):
                    edges += wp.float64(1.0)
            k = threads[2, thread] * a[edge]
            result += wp.vec2d(k * beyond, wp.max(wp.float64(1.0), HALF_MARGIN * edges) * k * a[edge])
    return result


@wp.kernel
def follow_triangles(
    first: int,
    springs: wp.array[int],
    rests: wp.array[wp.float64],
    given: wp.array[wp.float64],
    sides: wp.array[wp.vec2i],
    face_springs: wp.array[wp.vec3i],
    tension: wp.array[wp.mat33d],
    threads: wp.array[wp.mat33d],
    extensions: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    shifted: wp.array[wp.float64],
):
    """The rest length at which the spring of a slot pulls as its triangles do; `sides` are 3 * triangle + edge, or -1.

    `given` are compliances, of which `compliance` are those of the step; both are one array where no thread has a limit.
    """
    i = first + wp.tid()
    k = springs[i]
    if k < 0:
        return
    if sides[i][0] < 0:
        shifted[i] = rests[i]
        return
    pull = wp.float64(0.0)
    firm = wp.float64(0.0)
    for j in range(2):
        side = sides[i][j]
        if side >= 0:
            f = face_springs[side // 3]
            extension = wp.vec3d(extensions[f[0]], extensions[f[1]], extensions[f[2]])
            pull += wp.dot(tension[side // 3][side % 3], extension)
            if threads.shape[0] > 0:
                more = pull_of_threads(threads[side // 3], side % 3, extension)
                pull += more[0]
                firm += more[1]
    if threads.shape[0] > 0:
        compliance[i] = given[i] / (wp.float64(1.0) + given[i] * firm)
    most = wp.float64(LARGEST_SHIFT) * rests[i]
    shifted[i] = rests[i] + wp.clamp(extensions[k] - compliance[i] * pull, -most, most)


class Membrane(NamedTuple):
    """The triangles of a spring network, and what its springs have to be for them (host arrays)."""

    stiffness: np.ndarray
    """(s,) N/m, of all springs"""
    sides: np.ndarray
    """(s, 2) int32: 3 * triangle + edge of the triangles that have the spring for an edge, or -1"""

    @classmethod
    def of(cls, network: SpringNetwork) -> "Membrane":
        """The diagonals of all triangles, made stiffer where the splitting would not be stable."""
        k = network.face_tension
        diagonal = np.einsum("mii->mi", k)
        root = 1.0 / np.sqrt(np.maximum(diagonal, 1e-300))
        largest = np.linalg.eigvalsh(root[:, :, None] * k * root[:, None, :]).max(axis=1, initial=0.0)
        firm = diagonal * np.maximum(1.0, 0.5 * MARGIN * largest)[:, None]
        edges = network.face_springs.ravel()
        stiffness = network.stiffness.copy()
        stiffness[edges] = 0.0
        np.add.at(stiffness, edges, firm.ravel())
        sides = np.full((len(network.pairs), 2), -1, np.int32)
        order = np.argsort(edges, kind="stable")
        again = np.append(False, edges[order][1:] == edges[order][:-1]).astype(int)
        sides[edges[order], again] = order
        return cls(stiffness, sides)

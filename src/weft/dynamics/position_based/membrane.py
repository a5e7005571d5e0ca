"""Stretch and shear of position-based cloth as those of a membrane: springs whose rest lengths follow the triangles.

The tension of an edge of a triangle depends on the extensions of all three edges (see `springs._edge_tension`), T = K x; a
spring knows its own alone. So the springs have the stiffness of the diagonal of K, and in each step rest lengths at which
they pull with the tension that the triangles had in the step before. At rest cloth so has the stiffness of its material
exactly, whatever its triangles, and springs are solved in lines as before. Repeated from step to step this is a splitting of
K, which is stable where twice the springs are stiffer than K: where they are not, they are made so.

Springs alone cannot: the diagonals of a grid that carry its shear make it narrow when it is pulled. By calculation (it was
not simulated), with stretch and shear right along the threads, a strip cut at 45 degrees would be 18 % too stiff with a
shear of 0.4 of the stretch.
"""

from typing import NamedTuple

import numpy as np
import warp as wp

from weft.dynamics.springs import SpringNetwork

wp.set_module_options({"enable_backward": False})

# twice the stiffness of the springs is at least so many times that of the membrane in every direction of strain; at 1 the
# strain of a step would come back reversed in the next, for ever
MARGIN = 1.15
# the most by which a rest length is shifted, as a fraction of it: in crushed or torn cloth tensions mean nothing
LARGEST_SHIFT = 0.5


@wp.kernel
def find_extensions(
    first: int,
    springs: wp.array[int],
    rests: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    lengths: wp.array[wp.float64],
    pushes: wp.array[wp.float64],
    shifted: wp.array[wp.float64],
    extensions: wp.array[wp.float64],
):
    """How much longer than at rest each spring is by the force that it had in the last substep, of length lengths[0].

    Springs that are not solved to the end are longer than that; their length itself would make the coupling unstable.
    """
    i = first + wp.tid()
    k = springs[i]
    if k >= 0:
        shift = shifted[i] - rests[i]
        extensions[k] = shift - compliance[i] * pushes[i] / (lengths[0] * lengths[0])


@wp.kernel
def follow_triangles(
    first: int,
    springs: wp.array[int],
    rests: wp.array[wp.float64],
    compliance: wp.array[wp.float64],
    sides: wp.array[wp.vec2i],
    face_springs: wp.array[wp.vec3i],
    tension: wp.array[wp.mat33d],
    extensions: wp.array[wp.float64],
    shifted: wp.array[wp.float64],
):
    """The rest length at which the spring of a slot pulls as its triangles do; `sides` are 3 * triangle + edge, or -1."""
    i = first + wp.tid()
    k = springs[i]
    if k < 0:
        return
    if sides[i][0] < 0:
        shifted[i] = rests[i]
        return
    pull = wp.float64(0.0)
    for j in range(2):
        side = sides[i][j]
        if side >= 0:
            f = face_springs[side // 3]
            row = tension[side // 3][side % 3]
            pull += row[0] * extensions[f[0]] + row[1] * extensions[f[1]] + row[2] * extensions[f[2]]
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

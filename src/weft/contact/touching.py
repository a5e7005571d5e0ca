"""Cloth that touches something at the start is moved off by a thousandth of a millimetre.

A pair at distance zero has no sides: no test can tell on which side of a surface a vertex on it belongs. Cloth that is
placed exactly on a floor is meant to lie on it: so cloth is moved off colliders along their normals, and of two pieces of
cloth the later one is moved off the earlier.
"""

from collections.abc import Callable

import numpy as np
import warp as wp
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from weft.contact.step_search import length_scale
from weft.mesh.topology import area_vectors_at_vertices, unit_vectors
from weft.world import State, World

# pairs of cloth of 1 mm that are nearer than this touch, in m: more than rounding changes a placement
TOUCHING = 1e-9
# how far such cloth is moved off, in m: far less than its thickness, and enough to tell the sides apart
OFFSET = 1e-6
# rounds at most: of several sheets in one place each round frees one
ROUNDS = 20


def move_off(world: World, state: State, find: Callable[[wp.array], tuple[np.ndarray, np.ndarray]]) -> int:
    """Move cloth off what it touches; gives how many vertices moved.

    `find` gives the vertices and weights, (k, 4), of the stencils that touch at some positions; pairs of edges only
    where they touch between their ends.
    """
    start = x = state.positions()
    world.begin_step(state, 0.0)
    free = world.inverse_mass.numpy() > 0.0
    piece = pieces(world.faces, world.vertex_count, world.cloth_vertex_count)
    distance = OFFSET * length_scale(world.finest_length)
    for _ in range(ROUNDS):
        vertices, weights = find(state.x)
        if not len(vertices):
            break
        moved = moved_off(x, world.faces, piece, free, vertices, weights, distance)
        if moved is x:
            break
        x = moved
        state.x.assign(x)
    return int((x != start).any(axis=1).sum())


def pieces(faces: np.ndarray, vertex_count: int, cloth_vertex_count: int) -> np.ndarray:
    """The connected piece of each vertex, numbered in the order of the vertices; -1 for colliders."""
    ends = faces[:, [0, 1]], faces[:, [1, 2]]
    edges = np.concatenate(ends)
    links = coo_array((np.ones(len(edges)), edges.T), shape=(vertex_count, vertex_count))
    _, labels = connected_components(links, directed=False)
    _, first = np.unique(labels, return_index=True)
    return np.where(np.arange(vertex_count) < cloth_vertex_count, first[labels], -1)


def moved_off(
    x: np.ndarray,
    faces: np.ndarray,
    piece: np.ndarray,
    free: np.ndarray,
    vertices: np.ndarray,
    weights: np.ndarray,
    distance: float = OFFSET,
) -> np.ndarray:
    """Positions after touching pairs are moved apart by a distance (m); the same array if none can be.

    `vertices` and `weights` (k, 4) are the stencils that touch, `free` (n,) are the vertices that may move.
    """
    # corners 0 and 3 are on different sides in both kinds of stencils
    one, other = piece[vertices[:, 0]], piece[vertices[:, 3]]
    apart = one != other
    vertices, weights, later = vertices[apart], weights[apart], (one > other)[apart]
    below = np.where(later[:, None], weights < 0.0, weights > 0.0)
    corner_normals = unit_vectors(area_vectors_at_vertices(x, faces))[vertices]
    normals = (corner_normals * below[:, :, None]).sum(axis=1)
    # a vertex on a triangle, which has a normal of its own
    on_triangle = later & (weights[:, 1] <= 0.0)
    a, b, c = x[vertices[on_triangle, 1:]].swapaxes(0, 1)
    normals[on_triangle] = np.cross(b - a, c - a)
    normals /= np.maximum(np.linalg.norm(normals, axis=1), 1e-300)[:, None]

    move = np.zeros_like(x)
    row, corner = np.nonzero(~below & (weights != 0.0))
    np.add.at(move, vertices[row, corner], normals[row])
    length = np.linalg.norm(move, axis=1)
    moving = free & (length > 1e-3)
    if not moving.any():
        return x
    moved = x.copy()
    moved[moving] += distance * move[moving] / length[moving, None]
    return moved

"""What a vertex inside a region is pulled back to: the nearest triangle of the other region of its path."""

from typing import NamedTuple

import numpy as np
import warp as wp
from numpy.typing import NDArray

from weft.analysis.analyser import Analyser, Analysis
from weft.analysis.attraction import Moves, unit
from weft.analysis.colour import DIVIDES
from weft.analysis.crossing import query_tree, store_box
from weft.analysis.pair_tests import CrossingMesh
from weft.geometry.stencil import nearest_point_triangle
from weft.runtime import launch

wp.set_module_options({"enable_backward": False})

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# edge lengths within which the partner of a vertex is searched: deeper tangles are only shortened
PARTNER_REACH = 32.0


@wp.kernel
def box_members(
    first: int, mesh: CrossingMesh, members: wp.array[int], lowers: wp.array[wp.vec3], uppers: wp.array[wp.vec3]
):
    """The box of each of some triangles."""
    i = first + wp.tid()
    store_box(mesh, mesh.faces[members[i]], i, lowers, uppers)


@wp.kernel
def find_partner(
    first: int,
    mesh: CrossingMesh,
    tree: wp.uint64,
    members: wp.array[int],
    offsets: wp.array[int],
    vertices: wp.array[int],
    regions: wp.array[int],
    length: wp.float64,
    reach: wp.float64,
    found_face: wp.array[int],
    found_weights: wp.array[wp.vec3d],
):
    """For each vertex inside a region, the nearest triangle of the partner region within `reach`, and the nearest point on it.

    The tree has the boxes of the triangles of each region (`members`) in a subtree of its own. Boxes of growing size around
    the vertex are searched until no nearer triangle can be outside. `length`: the first size.
    """
    i = first + wp.tid()
    v = vertices[i]
    partner = regions[i] ^ 1
    p = mesh.x[v]
    best = int(-1)
    best_distance = reach
    best_weights = wp.vec3d()
    radius = wp.min(length, reach)
    searching = offsets[partner] < offsets[partner + 1]
    root = int(-1)
    if searching:
        root = wp.bvh_get_group_root(tree, partner)
    while searching:
        k = int(0)
        query = query_tree(mesh, tree, root, p, radius)
        while wp.bvh_query_next(query, k):
            f = members[k]
            face = mesh.faces[f]
            if face[0] != v and face[1] != v and face[2] != v:
                a = mesh.x[face[0]]
                b = mesh.x[face[1]]
                c = mesh.x[face[2]]
                w = nearest_point_triangle(p, a, b, c)
                distance = wp.length(w[0] * a + w[1] * b + w[2] * c - p)
                # equal distances: the triangle of lower index, so that the order of the tree does not matter
                if distance < best_distance or (distance == best_distance and f < best):
                    best = f
                    best_distance = distance
                    best_weights = w
        if best_distance <= radius or radius >= reach:
            searching = False
        radius = wp.min(wp.float64(2.0) * radius, reach)
    found_face[i] = best
    found_weights[i] = best_weights


def pulling_paths(analysis: Analysis) -> Bools:
    """(paths,) which paths have vertices to pull back: those that divide a sheet and have vertices inside on it.

    For a path with a red region, both halves must have vertices.
    """
    divides = analysis.status.reshape(-1, 2) == DIVIDES
    filled = np.diff(analysis.region_vertices.offsets).reshape(-1, 2) > 0
    two = (divides & filled).any(axis=1)
    return np.where(analysis.single, divides[:, 0] & filled.all(axis=1), two)


class Partners(NamedTuple):
    """Vertices inside a region, each with the nearest triangle of the other region of its path."""

    vertex: Ints
    region: Ints
    """(k,) the region that the vertex is in, as in `Analysis.region_vertices`"""
    face: Ints
    """(k,) the triangle; -1 if none is near enough"""
    weights: Floats
    """(k, 3) barycentric coordinates of the nearest point on it"""


def find_partners(analyser: Analyser, analysis: Analysis, paths: Bools, length: float) -> Partners:
    """For every vertex inside the chosen paths: the nearest triangle of the partner region within `PARTNER_REACH`.

    The analysis must come from this analyser; `length` is that of edges, in metres.
    """
    sizes = np.diff(analysis.region_vertices.offsets)
    region = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    kept = paths[region // 2]
    vertex, region = analysis.region_vertices.items[kept], region[kept]
    finder = analyser.finder
    finder.frame_boxes(analysis.positions)
    device = finder.device
    face = wp.full(len(vertex), -1, dtype=int, device=device)
    weights = wp.zeros(len(vertex), dtype=wp.vec3d, device=device)

    # a subtree for each region of the paths
    sizes = np.diff(analysis.region_faces.offsets)
    own = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    chosen = paths[own // 2]
    if len(vertex) and chosen.any():
        ends = np.cumsum(np.where(np.repeat(paths, 2), sizes, 0))
        given = analysis.region_faces.items[chosen], own[chosen], np.concatenate([[0], ends]), vertex, region
        members, groups, offsets, vertices, regions = (
            wp.array(np.asarray(values, np.int32), dtype=int, device=device) for values in given
        )
        lowers, uppers = (wp.empty(len(members), dtype=wp.vec3, device=device) for _ in "lu")
        launch(box_members, len(members), [finder.mesh, members, lowers, uppers], device=device)
        tree = wp.Bvh(lowers, uppers, constructor="sah" if finder.device.is_cpu else "lbvh", groups=groups)
        inputs = [finder.mesh, tree.id, members, offsets, vertices, regions]
        inputs += [wp.float64(analysis.length), wp.float64(PARTNER_REACH * length), face, weights]
        launch(find_partner, len(vertex), inputs, device=device, grain=64)
    return Partners(vertex, region, face.numpy(), weights.numpy())


def attraction_moves(analysis: Analysis, partners: Partners) -> tuple[Moves, Floats]:
    """Moves of each vertex towards the nearest point of its partner triangle, and the distances."""
    found = partners.face >= 0
    vertex, inner = partners.vertex[found], partners.weights[found]
    corners = analysis.topology.faces[partners.face[found]]
    x = analysis.positions
    offset = np.einsum("ij,ijk->ik", inner, x[corners]) - x[vertex]
    moves = Moves(np.column_stack([vertex, corners]), np.column_stack([np.ones(len(vertex)), -inner]), unit(offset))
    return moves, np.sqrt(np.einsum("ij,ij->i", offset, offset))

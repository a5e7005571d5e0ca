"""Vertices, triangles and edges of all cloth by rank, patch by patch, as the search on the CPU reads them.

Numbers lie in planes, all x of all first corners and so on, so that vector registers hold those of eight or sixteen features.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

from typing import Any

import numpy as np
import warp as wp

from weft.broad_phase.boxes import FRAME_SAMPLES, Box, load_box, store_box, swept_box, unite
from weft.broad_phase.patch_search import PatchSearch
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.contacts import ALIGNED, FIRST, SECOND, SHARP, SearchSurface
from weft.methods.predictive.state import fill
from weft.runtime.cooperative import grid_barrier
from weft.runtime.native import NativeHeader

wp.set_module_options({"enable_backward": False})

HALF = wp.constant(wp.float64(0.5))
# patches a block and blocks a group: what vector registers compare at a time
BLOCK = wp.constant(16)
# planes are padded by so many items, so that reading eight or sixteen at the end is harmless
PADDING = 16
# numbers of a triangle: first corner, both sides from it, mean displacement and the radius of a ball around those of its
# corners
FACE_PLANES = 13
# numbers of an edge: first end, vector to the other, mean displacement, radius, half the difference of its ends' displacements
EDGE_PLANES = 13
# a distance of two middles in single precision is off by less than a twentieth of this share of the extent
ROUNDING = wp.constant(wp.float32(2.0e-5))
# where it is reported that a vertex is not finite or far away, after three numbers of the search
NOWHERE = wp.constant(3)

_native = NativeHeader(__file__, "search_cpu.h")


@wp.struct
class Features:
    """Vertices, triangles and edges by rank, patch by patch; arrays from `frame` on are written anew in each search."""

    patches: int
    extent: wp.float32
    """largest distance of a vertex at rest from the middle of all"""
    vertex_ids: wp.array[int]
    face_ids: wp.array[int]
    edge_ids: wp.array[int]
    vertex_start: wp.array[int]
    face_start: wp.array[int]
    edge_start: wp.array[int]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    corners: wp.array2d[int]
    wings: wp.array[wp.vec2i]
    """the triangles at each edge, -1 for none"""
    firsts: wp.array[int]
    """the marks of each edge besides SHARP"""
    rests: wp.array2d[wp.float64]
    """middles of the edges at rest"""
    body: wp.array[int]
    """of each patch"""
    cloth: wp.array[int]
    table: wp.array2d[int]
    """which bodies collide"""
    frame: wp.array[wp.vec3d]
    places: wp.array[wp.vec4d]
    ways: wp.array[wp.vec4d]
    vertex_boxes: wp.array2d[wp.float32]
    """eight numbers a vertex: a box and two zeros"""
    face_boxes: wp.array2d[wp.float32]
    edge_boxes: wp.array2d[wp.float32]
    patch_boxes: wp.array2d[wp.float32]
    block_boxes: wp.array2d[wp.float32]
    group_boxes: wp.array2d[wp.float32]
    face_planes: wp.array2d[wp.float64]
    edge_planes: wp.array2d[wp.float64]
    normals: wp.array[wp.vec4d]
    """of the triangles, and their squared lengths"""
    marks: wp.array[int]
    face_middles: wp.array2d[wp.float32]
    """at the start, at the end and at rest"""
    edge_middles: wp.array2d[wp.float32]
    rest_places: wp.array2d[wp.float32]
    slack: wp.array[wp.float32]
    """upper bound of the square of the error of a distance of middles"""


@wp.func_native(_native.body("find_frame", SAMPLES=FRAME_SAMPLES))
def find_frame(surface: SearchSurface, features: Features):
    """The frame of reference of the boxes, as `weft.broad_phase.boxes` has it: a mean position and displacement."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("store_vertex"))
def store_vertex(
    i: int, vertex: int, box: Box, farthest: wp.float32, surface: SearchSurface, features: Features
) -> bool:
    """Position, displacement and box of a vertex of rank i; gives whether it is not finite or farther than the farthest."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("measure_faces"))
def measure_faces(first: int, last: int, features: Features):
    """Boxes and numbers of triangles, and their normals with the square of their lengths."""
    ...


@wp.func_native(PACKED_VERTEX + _native.body("measure_edges", ALIGNED=ALIGNED, SHARP=SHARP))
def measure_edges(first: int, last: int, surface: SearchSurface, features: Features):
    """Boxes, numbers and marks of edges."""
    ...


@wp.func
def unite_boxes(boxes: wp.array2d[wp.float32], begin: int, end: int) -> Box:
    """The box of boxes begin..end-1."""
    whole = load_box(boxes, begin)
    for i in range(begin + 1, end):
        whole = unite(whole, load_box(boxes, i))
    return whole


@wp.func
def measure_blocks(f: Features):
    """Boxes of blocks of patches, and of groups of blocks; and the error of distances of middles."""
    blocks = (f.patches + BLOCK - 1) / BLOCK
    for i in range(blocks):
        store_box(f.block_boxes, i, unite_boxes(f.patch_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, f.patches)))
    # rounding is a share of the extent at most, at rest too
    extent = f.extent
    for i in range((blocks + BLOCK - 1) / BLOCK):
        store_box(f.group_boxes, i, unite_boxes(f.block_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, blocks)))
        for k in range(6):
            extent = wp.max(extent, wp.abs(f.group_boxes[k, i]))
    off = ROUNDING * extent
    f.slack[0] = off * off


@wp.func
def measure_features(
    t: int,
    threads: int,
    arrivals: wp.array[int],
    margin: wp.float64,
    farthest: wp.float32,
    f: Features,
    surface: SearchSurface,
    reported: wp.array[int],
):
    """Boxes and numbers of all features and patches, by all threads; clears what is reported, but for NOWHERE."""
    if t == 0:
        for k in range(4):
            reported[k] = 0
        find_frame(surface, f)
    grid_barrier(arrivals)
    vertices = f.vertex_ids.shape[0]
    for i in range(vertices * t / threads, vertices * (t + 1) / threads):
        vertex = f.vertex_ids[i]
        box = swept_box(surface.x[vertex], surface.end[vertex], f.frame, HALF * margin)
        if store_vertex(i, vertex, box, farthest, surface, f):
            reported[NOWHERE] = 1
    grid_barrier(arrivals)
    begin = f.patches * t / threads
    end = f.patches * (t + 1) / threads
    for patch in range(begin, end):
        measure_faces(f.face_start[patch], f.face_start[patch + 1], f)
        store_box(f.patch_boxes, patch, unite_boxes(f.face_boxes, f.face_start[patch], f.face_start[patch + 1]))
    grid_barrier(arrivals)
    if t == 0:
        measure_blocks(f)
    measure_edges(f.edge_start[begin], f.edge_start[end], surface, f)
    grid_barrier(arrivals)


def make_features(broad_phase: PatchSearch, surface: Any) -> Any:
    """The features of a surface by rank."""
    patches = broad_phase.patches
    names = ("vertex_ids", "face_ids", "edge_ids", "vertex_start", "face_start", "edge_start")
    names += ("faces", "edges", "corners", "body")
    values = {name: getattr(patches, name) for name in names}
    vertex_ids, face_ids, edge_ids = (
        array.numpy() for array in (patches.vertex_ids, patches.face_ids, patches.edge_ids)
    )
    rank = np.full(len(face_ids) + 1, -1, np.int32)
    rank[face_ids] = np.arange(len(face_ids), dtype=np.int32)
    ends, corners = surface.edges.numpy()[edge_ids], surface.faces.numpy()[face_ids]
    is_first = surface.first_edge.numpy()[ends] == edge_ids[:, None]
    rest = surface.rest.numpy()[: broad_phase.surface.vertex_count]
    # at rest, from the middle of everything
    centre = 0.5 * (rest.min(axis=0) + rest.max(axis=0))

    def upload(values: np.ndarray, dtype: Any) -> wp.array:
        return wp.array(values, dtype=dtype, device="cpu")

    def zeros(shape: Any, dtype: Any) -> wp.array:
        return wp.zeros(shape, dtype=dtype, device="cpu")

    def boxes(size: int) -> wp.array:
        # what is no box overlaps none
        return wp.full((6, size + PADDING), float("inf"), dtype=wp.float32, device="cpu")

    def planes(at_rest: np.ndarray, numbers: int) -> wp.array:
        found = np.zeros((numbers, len(at_rest) + PADDING), np.float32)
        found[-3:, : len(at_rest)] = (at_rest - centre).T
        return wp.array(found, dtype=wp.float32, ndim=2, device="cpu")

    middles = rest[ends].mean(axis=1)
    first_corner = corners[patches.face_start.numpy()[:-1], 0]
    vertices, edges, faces = len(vertex_ids), len(edge_ids), len(face_ids)
    blocks = -(-patches.count // int(BLOCK))
    groups = -(-blocks // int(BLOCK))
    return fill(
        Features,
        patches=patches.count,
        extent=float(np.abs(rest - centre).max()),
        wings=upload(rank[surface.edge_faces.numpy()[edge_ids]], wp.vec2i),
        firsts=upload(is_first @ np.array([int(FIRST), int(SECOND)]), int),
        rests=wp.array(np.pad(middles.T, ((0, 0), (0, PADDING))), dtype=wp.float64, ndim=2, device="cpu"),
        cloth=upload(surface.vertex_cloth.numpy()[first_corner], int),
        table=broad_phase.searched_bodies,
        frame=zeros(2, wp.vec3d),
        places=zeros(vertices, wp.vec4d),
        ways=zeros(vertices, wp.vec4d),
        vertex_boxes=zeros((vertices, 8), wp.float32),
        face_boxes=boxes(faces),
        edge_boxes=boxes(edges),
        patch_boxes=boxes(int(BLOCK) * blocks),
        block_boxes=boxes(int(BLOCK) * groups),
        group_boxes=boxes(groups),
        face_planes=zeros((FACE_PLANES, faces + PADDING), wp.float64),
        edge_planes=zeros((EDGE_PLANES, edges + PADDING), wp.float64),
        normals=zeros(faces, wp.vec4d),
        marks=zeros(edges + PADDING, int),
        face_middles=planes(rest[corners].mean(axis=1), 9),
        edge_middles=planes(middles, 9),
        rest_places=planes(rest[vertex_ids], 3),
        slack=zeros(1, wp.float32),
        **values,
    )

"""Regions of cloth: which of them collide, and which lies over which (Lewin 2018, sections 4.6 and 5.1)."""

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from weft.scene import Predictive
from weft.scene.pins import selected_vertices
from weft.world import World


@dataclass(frozen=True)
class Regions:
    """Regions by number: first all cloths, then the regions of the scene (host arrays, cloth only)."""

    names: list[str]
    vertex_cloth: np.ndarray
    """(n,) int32"""
    vertex_region: np.ndarray
    """(n,) int32"""
    face_region: np.ndarray
    """(m,) int32: the region of most of the triangle's vertices"""
    collide: np.ndarray
    """(regions, regions) int32, symmetric: 1 where two regions collide"""
    above: np.ndarray
    """(regions, regions) int32: 1 where the first lies over the second, -1 where under it, 0 where neither"""


def compile_regions(world: World, options: Predictive) -> Regions:
    """The regions of a scene over the vertices and triangles of its cloths."""
    scene = world.scene
    names = [cloth.name for cloth in scene.cloths] + [region.name for region in options.regions]
    vertex_cloth = np.zeros(world.cloth_vertex_count, np.int32)
    for i, body in enumerate(world.bodies[: len(world.cloths)]):
        vertex_cloth[body.vertices] = i
    vertex_region = vertex_cloth.copy()
    for i, region in enumerate(options.regions):
        part = world.cloths[names.index(region.cloth)]
        vertices = selected_vertices(scene, region, part.mesh, ("method", "regions", i))
        vertex_region[part.first + vertices] = len(scene.cloths) + i

    # the region that two corners have, or the first corner's where all differ
    corners = vertex_region[world.cloth_faces]
    face_region = np.where(corners[:, 1] == corners[:, 2], corners[:, 1], corners[:, 0]).astype(np.int32)

    number = {name: i for i, name in enumerate(names)}
    collide = np.full((len(names),) * 2, int(options.collide is None), np.int32)
    for a, b in options.collide or ():
        collide[number[a], number[b]] = collide[number[b], number[a]] = 1
    above = np.zeros_like(collide)
    for layers in options.layers:
        for lower, upper in combinations(layers, 2):
            above[number[upper], number[lower]] = 1
            above[number[lower], number[upper]] = -1
    return Regions(names, vertex_cloth, vertex_region, face_region, collide, above)


def stack_thickness(regions: Regions, thickness: np.ndarray) -> np.ndarray:
    """How much room the layers under and over each vertex take, (n, 2) in m.

    What lies between a vertex and a body keeps it that much farther away, so that the body does not press all layers
    into one.
    """
    count = len(regions.names)
    of_region = np.zeros(count)
    np.maximum.at(of_region, regions.vertex_region, thickness[: len(regions.vertex_region)])
    under = (regions.above == 1) @ of_region
    over = (regions.above == -1) @ of_region
    return np.stack([under, over], axis=1)[regions.vertex_region]

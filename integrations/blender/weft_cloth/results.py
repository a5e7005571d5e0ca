# SPDX-License-Identifier: GPL-3.0-or-later
"""The result in Blender: a mesh cache on the object itself, also where weft has refined it.

weft cuts every triangle in four, with a vertex in the middle of each edge. Two triangles of a quad then have vertices
in the middle of its sides and of its diagonal: those that Blender's simple subdivision has. So on an object of quads a
refined result is a simple subdivision and a mesh cache, and polygons, UVs and materials stay as they are. Other meshes
get a finer object beside them.
"""

from itertools import pairwise

import bpy
import numpy as np
from mathutils.kdtree import KDTree

from . import scene_file
from .sampling import first_other

MODIFIER, REFINE = "weft", "weft subdivision"
# farther apart than this a vertex of Blender's and one of weft's are not the same; coordinates are random in a unit cube, so
# that neighbours are about 0.01 apart, and float32
MATCH = 1e-4


def take(thing, path, points, start, *, levels=0):
    """Play points, (frames, n, 3) in the object's own coordinates, on the object; with levels after a subdivision."""
    scene_file.write_point_cache(path, np.asarray(points))
    place = first_other(thing)
    if levels:
        subdivision = thing.modifiers.new(REFINE, "SUBSURF")
        subdivision.subdivision_type = "SIMPLE"
        subdivision.levels = subdivision.render_levels = levels
        thing.modifiers.move(len(thing.modifiers) - 1, place)
        place += 1
    add_cache(thing, path, start, place)


def take_finer(thing, path, points, faces, start, levels):
    """A finer object beside the coarse one, which is hidden; with the UVs and materials of the coarse triangles."""
    mesh = bpy.data.meshes.new(f"{thing.name} fine")
    mesh.from_pydata(points[0].tolist(), [], faces.tolist())
    coarse = thing.data
    coarse.calc_loop_triangles()
    count = len(coarse.loop_triangles)
    loops = np.empty(3 * count, np.int32)
    coarse.loop_triangles.foreach_get("loops", loops)
    materials = np.empty(count, np.int32)
    coarse.loop_triangles.foreach_get("material_index", materials)
    for material in coarse.materials:
        mesh.materials.append(material)
    mesh.polygons.foreach_set("material_index", np.repeat(materials, 4**levels))
    for layer in coarse.uv_layers:
        uv = np.empty(2 * len(coarse.loops), np.float32)
        layer.uv.foreach_get("vector", uv)
        corners = split_corners(uv.reshape(-1, 2)[loops].reshape(-1, 3, 2), levels)
        mesh.uv_layers.new(name=layer.name).uv.foreach_set("vector", corners.ravel())
    mesh.shade_smooth()
    finer = bpy.data.objects.new(f"{thing.name} fine", mesh)
    finer["weft_of"] = thing.name
    for collection in thing.users_collection:
        collection.objects.link(finer)
    scene_file.write_point_cache(path, np.asarray(points))
    add_cache(finer, path, start, 0)
    thing.hide_set(True)
    thing.hide_render = True


def split_corners(values, levels):
    """(4^levels m, 3, k) values at the corners of triangles that are cut in four again and again, for (m, 3, k)."""
    for _ in range(levels):
        a, b, c = values[:, 0], values[:, 1], values[:, 2]
        ab, bc, ca = 0.5 * (a + b), 0.5 * (b + c), 0.5 * (c + a)
        values = np.stack([a, ab, ca, ab, b, bc, ca, bc, c, ab, bc, ca], axis=1).reshape(-1, 3, values.shape[2])
    return values


def quad_order(thing, sheet, faces, levels):
    """For each vertex of the simply subdivided object the vertex of weft's refined mesh; None where they do not correspond."""
    mesh = thing.data
    sizes = np.empty(len(mesh.polygons), np.int32)
    mesh.polygons.foreach_get("loop_total", sizes)
    if (sizes != 4).any() or len(sheet.used) != sheet.count or len(sheet.stitches):
        return None
    quads = np.empty(4 * len(mesh.polygons), np.int32)
    mesh.polygons.foreach_get("vertices", quads)
    quads = quads.reshape(-1, 4)
    finest = int(faces.max()) + 1
    place = np.full((finest, 3), np.nan)
    place[: sheet.count] = np.random.default_rng(0).random((sheet.count, 3))
    start = place[: sheet.count].astype(np.float32)
    for coarse, finer in level_faces(faces, levels):
        middle = middles(coarse, finer)
        quads = split_quads(quads, middle, place)
        if quads is None:
            return None
    order = match(subdivided(thing, start, levels), place)
    return order if order is not None and len(order) == finest else None


def level_faces(faces, levels):
    """The triangles before and after each subdivision, coarsest first: corner k of a triangle is corner k of its child k."""
    all_levels = [faces]
    for _ in range(levels):
        f = all_levels[0]
        all_levels.insert(0, np.stack([f[0::4, 0], f[1::4, 1], f[2::4, 2]], axis=1))
    return list(pairwise(all_levels))


def middles(coarse, finer):
    """Edge (a, b), a < b -> the vertex in its middle."""
    middle = finer[3::4]
    found = {}
    for k, (i, j) in enumerate(((0, 1), (1, 2), (2, 0))):
        ends = np.sort(coarse[:, [i, j]], axis=1)
        found.update(zip(map(tuple, ends.tolist()), middle[:, k].tolist(), strict=True))
    return found


def split_quads(quads, middle, place):
    """Four quads for each, and the places of their new vertices by Blender's simple rule; None where a diagonal is missing."""
    children = []
    for quad in quads.tolist():
        sides = [middle.get(tuple(sorted((quad[k], quad[(k + 1) % 4])))) for k in range(4)]
        diagonals = [middle.get(tuple(sorted((quad[k], quad[k + 2])))) for k in range(2)]
        centre = next((d for d in diagonals if d is not None), None)
        if centre is None or None in sides:
            return None
        for k in range(4):
            place[sides[k]] = 0.5 * (place[quad[k]] + place[quad[(k + 1) % 4]])
        place[centre] = place[quad].mean(axis=0)
        children += [(quad[k], sides[k], centre, sides[k - 1]) for k in range(4)]
    return np.array(children)


def subdivided(thing, start, levels):
    """(n, 3) where Blender's simple subdivision puts the vertices of the object's mesh if its own are at `start`."""
    mesh = thing.data.copy()
    if mesh.shape_keys is not None:
        probe = bpy.data.objects.new("weft probe", mesh)
        probe.shape_key_clear()
    else:
        probe = bpy.data.objects.new("weft probe", mesh)
    try:
        mesh.vertices.foreach_set("co", start.ravel())
        bpy.context.scene.collection.objects.link(probe)
        modifier = probe.modifiers.new("s", "SUBSURF")
        modifier.subdivision_type = "SIMPLE"
        modifier.levels = levels
        shown = probe.evaluated_get(bpy.context.evaluated_depsgraph_get())
        evaluated = shown.to_mesh()
        points = np.empty(3 * len(evaluated.vertices), np.float32)
        evaluated.vertices.foreach_get("co", points)
        shown.to_mesh_clear()
    finally:
        bpy.data.objects.remove(probe)
        bpy.data.meshes.remove(mesh)
    return points.reshape(-1, 3)


def match(points, place):
    """For each point the number of the same place; None if one has none, or two have the same."""
    tree = KDTree(len(place))
    for number, own in enumerate(place):
        if np.isnan(own).any():
            return None
        tree.insert(own, number)
    tree.balance()
    found = [tree.find(point) for point in points]
    numbers = [number for _, number, _ in found]
    good = all(distance < MATCH for _, _, distance in found) and len(set(numbers)) == len(numbers)
    return np.array(numbers) if good else None


def add_cache(thing, path, start, place):
    """A mesh cache at this place among the modifiers."""
    modifier = thing.modifiers.new(MODIFIER, "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = str(path)
    modifier.frame_start = start
    modifier.interpolation = "LINEAR"
    thing.modifiers.move(len(thing.modifiers) - 1, place)


def remove_result(thing):
    """Take away the modifiers or the finer object of an earlier bake."""
    for name in (MODIFIER, REFINE):
        modifier = thing.modifiers.get(name)
        if modifier is not None:
            thing.modifiers.remove(modifier)
    for other in [o for o in bpy.data.objects if o.get("weft_of") == thing.name]:
        bpy.data.objects.remove(other)
        thing.hide_set(False)
        thing.hide_render = False

# SPDX-License-Identifier: GPL-3.0-or-later
"""What Blender's scene says to weft: meshes at every frame, pins, sewing edges, painted stiffness, wind."""

from contextlib import contextmanager

import numpy as np

from . import scene_file

# vertices of a group with more than this weight are pinned
PIN_WEIGHT = 0.5
# modifiers that move vertices and keep their number: cloth starts, and its pins move, as these say
DEFORMING = {
    "ARMATURE", "CAST", "CURVE", "DISPLACE", "HOOK", "LAPLACIANDEFORM", "LATTICE", "MESH_DEFORM", "SHRINKWRAP",
    "SIMPLE_DEFORM", "SMOOTH", "CORRECTIVE_SMOOTH", "LAPLACIANSMOOTH", "SURFACE_DEFORM", "WARP", "WAVE",
}  # fmt: skip


class BakeError(Exception):
    """Something the user can mend; the message says what."""


def marked(scene, role):
    """The meshes of a scene that have a role."""
    return [thing for thing in scene.objects if thing.type == "MESH" and thing.weft.role == role]


class Sheet:
    """A cloth object: which of its vertices are simulated, its triangles, and what its groups say."""

    def __init__(self, thing):
        mesh = thing.data
        self.thing = thing
        self.count = len(mesh.vertices)
        if not len(mesh.polygons):
            raise BakeError(f"{thing.name} has no faces: cloth is a surface")
        faces = triangles(mesh)
        # loose edges and vertices are no cloth
        self.used = np.unique(faces)
        number = np.full(self.count, -1)
        number[self.used] = np.arange(len(self.used))
        self.faces = number[faces]
        self.pins = number[np.flatnonzero(weights(thing, thing.weft.pins) > PIN_WEIGHT)]
        self.pins = self.pins[self.pins >= 0]
        self.stitches = self._stitches(mesh, number) if thing.weft.sew else np.zeros((0, 2), int)
        self.stiff = None
        if thing.weft.stiff:
            self.stiff = 1.0 + (thing.weft.stiff_factor - 1.0) * weights(thing, thing.weft.stiff)[self.used]

    def _stitches(self, mesh, number):
        edges = np.empty(2 * len(mesh.edges), np.int32)
        mesh.edges.foreach_get("vertices", edges)
        of_faces = np.zeros(len(mesh.edges), bool)
        loops = np.empty(len(mesh.loops), np.int32)
        mesh.loops.foreach_get("edge_index", loops)
        of_faces[loops] = True
        loose = number[edges.reshape(-1, 2)[~of_faces]]
        return loose[(loose >= 0).all(axis=1)]

    def material(self):
        """The numbers of the panel as weft's table."""
        own = self.thing.weft
        named = {"density": own.density, "stretch": own.stretch, "shear": own.shear, "bend": own.bend}
        return {"preset": own.material, **named, "friction": own.cloth_friction}


def collect(context, cloths, colliders, names, scale):
    """The tables of `scene_file.write_scene` for all frames, and the matrices of the cloths at each of them."""
    scene = context.scene
    before = scene.frame_current
    sheets = [Sheet(thing) for thing in cloths]
    cloth_samples = [[] for _ in cloths]
    matrices = [[] for _ in cloths]
    bodies = [
        {"name": name, "friction": thing.weft.friction, "samples": [], "faces": None}
        for thing, name in zip(colliders, names[len(cloths) :], strict=True)
    ]
    with deforming_only(cloths):
        for frame in range(scene.frame_start, scene.frame_end + 1):
            scene.frame_set(frame)
            graph = context.evaluated_depsgraph_get()
            for sheet, samples, own in zip(sheets, cloth_samples, matrices, strict=True):
                points, matrix = shown_points(sheet.thing, graph)
                if len(points) != sheet.count:
                    raise BakeError(f"a modifier of {sheet.thing.name} changes its vertices: move it below weft's")
                samples.append(scene_file.to_weft(points[sheet.used], scale))
                own.append(matrix)
            for thing, body in zip(colliders, bodies, strict=True):
                add_sample(thing, body, graph, scale, frame)
    scene.frame_set(before)
    garments = [
        {
            "name": name,
            "samples": samples,
            "faces": sheet.faces,
            "material": sheet.material(),
            "pins": sheet.pins,
            "stitches": sheet.stitches,
            "stiff": sheet.stiff,
        }
        for sheet, samples, name in zip(sheets, cloth_samples, names, strict=False)
    ]
    for body in bodies:
        if all(np.array_equal(points, body["samples"][0]) for points in body["samples"]):
            del body["samples"][1:]
    return sheets, garments, bodies, matrices


@contextmanager
def deforming_only(cloths):
    """While active, the modifiers of cloths from the first one on that changes their vertices, and weft's own, are off."""
    off = [m for c in cloths for m in list(c.modifiers)[first_other(c) :] if m.show_viewport]
    for modifier in off:
        modifier.show_viewport = False
    try:
        yield
    finally:
        for modifier in off:
            modifier.show_viewport = True


def first_other(thing):
    """The place in an object's modifiers after those that only move its vertices: where weft's result belongs."""
    kinds = [modifier.type in DEFORMING for modifier in thing.modifiers]
    return kinds.index(False) if False in kinds else len(kinds)


def add_sample(thing, body, graph, scale, frame):
    """The mesh of a collider as it is shown, grown by its thickness."""
    shown = thing.evaluated_get(graph)
    mesh = shown.to_mesh()
    points = world_points(mesh.vertices, shown.matrix_world)
    if thing.weft.outer:
        normals = np.empty(3 * len(mesh.vertices), np.float32)
        mesh.vertices.foreach_get("normal", normals)
        turn = np.linalg.inv(np.array(shown.matrix_world, dtype=np.float64)[:3, :3])
        directions = normals.reshape(-1, 3) @ turn
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        points = points + thing.weft.outer / scale * directions / np.where(lengths > 0.0, lengths, 1.0)
    points = scene_file.to_weft(points, scale)
    if body["samples"] and len(points) != len(body["samples"][0]):
        shown.to_mesh_clear()
        raise BakeError(f"the number of vertices of {thing.name} changes at frame {frame}")
    body["samples"].append(points)
    body["faces"] = triangles(mesh) if body["faces"] is None else body["faces"]
    shown.to_mesh_clear()
    if not len(body["faces"]):
        raise BakeError(f"{thing.name} has no faces: a collider is a surface")


def shown_points(thing, graph):
    """(n, 3) positions of an object in the world as it is shown, and its matrix."""
    shown = thing.evaluated_get(graph)
    mesh = shown.to_mesh()
    points = world_points(mesh.vertices, shown.matrix_world)
    shown.to_mesh_clear()
    return points, np.array(shown.matrix_world, dtype=np.float64)


def world_points(vertices, matrix):
    """(n, 3) positions in the world."""
    local = np.empty(3 * len(vertices), np.float32)
    vertices.foreach_get("co", local)
    m = np.array(matrix, dtype=np.float64)
    return local.reshape(-1, 3) @ m[:3, :3].T + m[:3, 3]


def triangles(mesh):
    """(m, 3) triangles of a mesh, polygons cut as Blender draws them."""
    mesh.calc_loop_triangles()
    found = np.empty(3 * len(mesh.loop_triangles), np.int32)
    mesh.loop_triangles.foreach_get("vertices", found)
    return found.reshape(-1, 3)


def weights(thing, name):
    """(n,) the weights of a vertex group, 0 outside of it; all 0 for no name."""
    found = np.zeros(len(thing.data.vertices))
    group = thing.vertex_groups.get(name)
    if group is None:
        if name:
            raise BakeError(f"{thing.name} has no vertex group {name!r}")
        return found
    for vertex in thing.data.vertices:
        for element in vertex.groups:
            if element.group == group.index:
                found[vertex.index] = element.weight
    return found


def air(scene, scale):
    """Wind (velocity and gust, or None), damping of the air, and what has to be said about other force fields.

    A wind field blows along the z axis of its object with its strength in m/s, and its noise is the gust; drag fields slow down
    everything. weft has no other fields.
    """
    velocity, gust, damping, said = np.zeros(3), 0.0, 0.0, []
    for thing in scene.objects:
        field = thing.field
        if field is None or field.type == "NONE" or thing.hide_viewport:
            continue
        if field.type == "WIND":
            z = np.array(thing.matrix_world, dtype=np.float64)[:3, 2]
            velocity += field.strength * z / max(float(np.linalg.norm(z)), 1e-12)
            gust = max(gust, min(float(field.noise) / 10.0, 1.0))
        elif field.type == "DRAG":
            damping += float(field.linear_drag)
        else:
            said.append(f"the force field {thing.name} ({field.type.lower()}) is left out: weft has wind and drag")
    wind = None if not velocity.any() else (scene_file.to_weft([velocity])[0], gust)
    return wind, damping, said


def inside_colliders(garments, bodies):
    """Sentences about cloth that starts inside a closed collider: nothing pushes it out again."""
    from mathutils import Vector
    from mathutils.bvhtree import BVHTree

    said = []
    for body in bodies:
        edges = np.sort(
            np.concatenate([np.asarray(body["faces"])[:, [a, b]] for a, b in ((0, 1), (1, 2), (2, 0))]), axis=1
        )
        if (np.unique(edges, axis=0, return_counts=True)[1] != 2).any():
            continue
        tree = BVHTree.FromPolygons(np.asarray(body["samples"][0]).tolist(), np.asarray(body["faces"]).tolist())
        for garment in garments:
            count = 0
            for point in np.asarray(garment["samples"][0]).tolist():
                place, normal, _, _ = tree.find_nearest(Vector(point))
                count += (Vector(point) - place).dot(normal) < 0.0
            if count:
                said.append(f"{count} vertices of {garment['name']} start inside {body['name']}: move them out")
    return said

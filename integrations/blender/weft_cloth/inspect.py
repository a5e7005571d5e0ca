# SPDX-License-Identifier: GPL-3.0-or-later
"""Check: select what crosses. Untangle: move a mesh, without time and gravity, until nothing crosses; also in edit mode."""

import json
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import bpy
import numpy as np

from . import scene_file
from .bake import find_weft, to_local
from .sampling import BakeError, marked, triangles, world_points

# times that a mesh is untangled again because its quads are cut differently
ROUNDS = 6


class OnActiveMesh:
    """An operator on the active mesh: `act` calls weft with files in a folder and gives the sentence that is shown."""

    @classmethod
    def poll(cls, context):
        return context.active_object is not None and context.active_object.type == "MESH"

    def execute(self, context):
        try:
            with object_mode(context), tempfile.TemporaryDirectory() as folder:
                text = self.act(context, Path(folder))
        except BakeError as error:
            context.scene.weft.status = str(error)
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        context.scene.weft.status = text
        self.report({"INFO"}, text)
        return {"FINISHED"}


class WEFT_OT_check(OnActiveMesh, bpy.types.Operator):
    """Count what crosses at this frame, and select it in the active object"""

    bl_idname = "weft.check"
    bl_label = "Check"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    def act(self, context, folder):
        active = context.active_object
        things = [active, *(t for role in ("CLOTH", "COLLIDER") for t in marked(context.scene, role) if t != active)]
        things = [t for t in things if t == active or t.visible_get()]
        scale = context.scene.unit_settings.scale_length or 1.0
        graph = context.evaluated_depsgraph_get()
        points, faces, tables, first, face = [], [], [], 0, 0
        for thing in things:
            shown = thing.evaluated_get(graph)
            mesh = shown.to_mesh()
            points.append(scene_file.to_weft(world_points(mesh.vertices, shown.matrix_world), scale))
            faces.append(triangles(mesh) + first)
            shown.to_mesh_clear()
            kind = "collider" if thing.weft.role == "COLLIDER" and thing != active else "cloth"
            last, end = first + len(points[-1]), face + len(faces[-1])
            tables.append((thing.name, kind, (first, last), (face, end)))
            first, face = last, end
        names, kinds, vertices, ranges = zip(*tables, strict=True)
        np.savez(
            folder / "now.npz",
            vertices=np.concatenate(points),
            faces=np.concatenate(faces).astype(np.int32),
            body_names=np.array(names),
            body_kinds=np.array(kinds),
            body_vertices=np.array(vertices),
            body_faces=np.array(ranges),
        )
        code, text = call_weft(context, folder, "check", "now.npz", "--json", "--crossings", "found.npz")
        if not (folder / "found.npz").exists():
            raise BakeError(f"weft check failed: {text.strip().splitlines()[-1] if text.strip() else code}")
        with np.load(folder / "found.npz") as found:
            crossing = np.unique(
                np.concatenate([found["edges"].ravel(), np.concatenate(faces)[found["triangles"]].ravel()])
            )
        own = crossing[crossing < len(points[0])]
        select(active, own if len(points[0]) == len(active.data.vertices) else np.zeros(0, int))
        worst = json.loads(text[text.index("{") :])["worst"]
        if not worst["intersections"]:
            return "nothing crosses"
        pairs = ", ".join(
            f"{a} with {'itself' if a == b else b} {p['intersections']}"
            for p in worst["pairs"]
            for a, b in [p["bodies"]]
        )
        return f"{worst['intersections']} edges cross: {pairs}; {len(own)} vertices of {active.name} are selected"


class WEFT_OT_untangle(OnActiveMesh, bpy.types.Operator):
    """Move the vertices of the active mesh, as little as possible, until it does not cross itself"""

    bl_idname = "weft.untangle"
    bl_label = "Untangle"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    def act(self, context, folder):
        thing = context.active_object
        mesh, scale = thing.data, context.scene.unit_settings.scale_length or 1.0
        if mesh.shape_keys is not None:
            raise BakeError(f"{thing.name} has shape keys: untangle a copy without them")
        remain = None
        for _ in range(ROUNDS):
            faces = triangles(mesh)
            remain = self._untangle_triangles(context, folder, thing, faces, scale)
            # a quad that has become concave is cut along its other diagonal, and what was free may cross again
            if remain or np.array_equal(triangles(mesh), faces):
                break
        return f"{thing.name}: {remain}" if remain else f"{thing.name} is free of intersections"

    def _untangle_triangles(self, context, folder, thing, faces, scale):
        """Move the vertices until these triangles are free; gives what remains, in words, or None."""
        mesh = thing.data
        used = np.unique(faces)
        number = np.full(len(mesh.vertices), -1)
        number[used] = np.arange(len(used))
        world = world_points(mesh.vertices, thing.matrix_world)
        points = scene_file.to_weft(world[used], scale)
        np.savez(folder / "in.npz", vertices=points, faces=number[faces].astype(np.int32))
        # a gap, since Blender keeps positions with 32 bits and rounding would close the smallest one
        gap = str(context.scene.weft.thickness)
        words = ("untangle", "in.npz", "-o", "out.npz", "--overwrite", "--thickness", gap)
        _, text = call_weft(context, folder, *words)
        if not (folder / "out.npz").exists():
            raise BakeError(f"weft untangle: {text.strip().splitlines()[-1].removeprefix('weft: ')}")
        with np.load(folder / "out.npz") as found:
            world[used] = scene_file.from_weft(found["vertices"], scale)
        matrix = np.array(thing.matrix_world, dtype=np.float64)
        mesh.vertices.foreach_set("co", to_local(world, matrix).astype(np.float32).ravel())
        mesh.update()
        line = next((line.strip() for line in text.splitlines() if "remain" in line), None)
        return line and line.partition(";")[0]


def call_weft(context, folder, *words):
    """Run a command of weft in a folder; gives its exit code and what it printed."""
    command, environment = find_weft(context)
    done = subprocess.run([*command, *words], cwd=folder, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout + ("" if done.stdout.strip() else done.stderr)


@contextmanager
def object_mode(context):
    """While active, the active object is in object mode, so that its mesh is what was edited."""
    editing = context.active_object.mode == "EDIT"
    if editing:
        bpy.ops.object.mode_set(mode="OBJECT")
    try:
        yield
    finally:
        if editing:
            bpy.ops.object.mode_set(mode="EDIT")


def select(thing, vertices):
    """Select these vertices of an object, and the edges and faces between them, and nothing else."""
    mesh = thing.data
    chosen = np.zeros(len(mesh.vertices), bool)
    chosen[vertices] = True
    mesh.vertices.foreach_set("select", chosen)
    edges = np.empty(2 * len(mesh.edges), np.int32)
    mesh.edges.foreach_get("vertices", edges)
    mesh.edges.foreach_set("select", chosen[edges.reshape(-1, 2)].all(axis=1))
    mesh.polygons.foreach_set("select", [bool(chosen[list(p.vertices)].all()) for p in mesh.polygons])
    mesh.update()


CLASSES = (WEFT_OT_check, WEFT_OT_untangle)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)


def unregister():
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

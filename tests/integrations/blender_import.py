"""Runs in Blender: import a USD file and a point cache, and print where the vertices are at some frames."""

import json
import os
import sys

import bpy
import numpy as np


def world_points(name):
    """(n, 3) positions of an object as it is shown now, in the world."""
    shown = bpy.data.objects[name].evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = shown.to_mesh()
    points = np.empty(3 * len(mesh.vertices), np.float32)
    mesh.vertices.foreach_get("co", points)
    matrix = np.array(shown.matrix_world, dtype=float)
    return points.reshape(-1, 3).astype(float) @ matrix[:3, :3].T + matrix[:3, 3]


def leave_with(told):
    """Print what came out and end at once: bpy 4.2 crashes when Python ends after an operator was registered."""
    print(json.dumps(told), flush=True)
    os._exit(0)


def at_frames(names, frames):
    found = {}
    for frame in frames:
        bpy.context.scene.frame_set(frame)
        found[str(frame)] = {name: world_points(name).tolist() for name in names}
    return found


def main(usd, folder, frames):
    frames = [int(f) for f in frames.split(",")]
    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.usd_import(filepath=usd, set_frame_range=True)
    scene = bpy.context.scene
    told_time = {"range": [scene.frame_start, scene.frame_end], "fps": scene.render.fps}
    told = {"usd": at_frames(["sheet", "a_box", "floor"], frames), **told_time}
    told["materials"] = sorted(m.name for m in bpy.data.materials)
    told["uv"] = bool(bpy.data.objects["sheet"].data.uv_layers)

    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.alembic_import(filepath=usd.replace(".usdc", ".abc"), as_background_job=False, set_frame_range=True)
    told["abc"] = at_frames(["sheet", "a_box", "floor"], frames)
    sheet = bpy.data.objects["sheet"]
    told["abc_uv"] = bool(sheet.data.uv_layers)
    # polygons face up, as in weft
    told["abc_up"] = float(np.mean([(sheet.matrix_world.to_3x3() @ p.normal).z for p in sheet.data.polygons]))

    bpy.ops.wm.read_factory_settings(use_empty=True)
    bpy.ops.wm.obj_import(filepath=f"{folder}/sheet.obj")
    sheet = bpy.context.selected_objects[0]
    modifier = sheet.modifiers.new("points", "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = f"{folder}/sheet.pc2"
    modifier.frame_start = 0
    told["pc2"] = at_frames([sheet.name], frames)
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Runs in Blender: install the add-on's zip, mark objects, bake, and print where the cloth is at some frames."""

import json
import os
import sys
import zipfile
from pathlib import Path

import bpy
import numpy as np
from blender_import import world_points


def fail_on(result, expected):
    assert result == {expected}, (result, bpy.context.scene.weft.status)


def main(archive, folder, levels):
    folder = Path(folder)
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder / "addons")
    sys.path.insert(0, str(folder / "addons"))
    import weft_cloth

    bpy.ops.wm.read_factory_settings(use_empty=True)
    weft_cloth.register()
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end, scene.render.fps = 3, 11, 30

    # no cloth yet: an error, in words
    told = {}
    scene.weft.folder = str(folder / "bake")
    try:
        bpy.ops.weft.bake("EXEC_DEFAULT")
    except RuntimeError as error:
        told["no_cloth"] = str(error)

    # a sheet that is turned, moved and scaled, of quads, over an animated ball
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=12, y_subdivisions=12, size=1.0, location=(0.1, 0.2, 0.45))
    sheet = bpy.context.active_object
    sheet.name = "my/sheet.001"
    sheet.rotation_euler = (0.0, 0.0, 0.4)
    sheet.scale = (1.0, 0.8, 1.0)
    group = sheet.vertex_groups.new(name="held")
    group.add([0, 12], 1.0, "REPLACE")
    sheet.weft.pins = "held"
    bpy.context.view_layer.update()
    bpy.ops.weft.mark(role="CLOTH")
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.25, location=(0.0, 0.0, 0.15))
    ball = bpy.context.active_object
    bpy.ops.weft.mark(role="COLLIDER")
    ball.keyframe_insert("location", frame=3)
    ball.location.z = 0.2
    ball.keyframe_insert("location", frame=11)
    scene.weft.method = "robust"
    scene.weft.levels = int(levels)
    scene.weft.thickness = 0.004

    start = np.array(world_points(sheet.name))
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT"), "FINISHED")
    told["status"] = scene.weft.status
    shown = sheet.name if int(levels) == 0 else f"{sheet.name} fine"
    told["frames"] = {}
    for frame in (3, 7, 11):
        scene.frame_set(frame)
        told["frames"][str(frame)] = {"sheet": world_points(shown).tolist(), "ball": world_points(ball.name).tolist()}
    told["start"] = start.tolist()
    told["modifiers"] = [m.type for m in bpy.data.objects[shown].modifiers]

    # baking again replaces the result; clearing takes it away
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT"), "FINISHED")
    told["objects"] = sorted(o.name for o in bpy.data.objects)
    fail_on(bpy.ops.weft.clear(), "FINISHED")
    told["cleared"] = sorted([o.name, len(o.modifiers), o.hide_get()] for o in bpy.data.objects)

    # mistakes are one line
    sheet.weft.pins = "nobody"
    for key in ("no_group", "no_weft"):
        try:
            bpy.ops.weft.bake("EXEC_DEFAULT")
        except RuntimeError as error:
            told[key] = str(error)
        sheet.weft.pins = "held"
        scene.weft.method = "plain"
        os.environ["WEFT_COMMAND"] = "/nowhere/weft"
    weft_cloth.unregister()
    print(json.dumps(told))


main(*sys.argv[1:])

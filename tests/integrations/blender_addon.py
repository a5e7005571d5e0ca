"""Runs in Blender: the add-on's zip, objects marked, baked, stopped, resumed, checked and untangled; prints what came out."""

import os
import signal
import sys
import time
import zipfile
from pathlib import Path

import bpy
import numpy as np
from blender_import import leave_with, world_points

TOLD = {}


def fail_on(result, expected):
    assert result == {expected}, (result, bpy.context.scene.weft.status)


def message_of(key, operator, *words, **options):
    """What an operator that fails says."""
    try:
        operator(*words, **options)
    except RuntimeError as error:
        TOLD[key] = str(error)


def add_sheet(cells=12):
    """A sheet that is turned, moved and scaled, of quads, held at two corners, with a UV layer and two materials."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=cells, y_subdivisions=cells, size=1.0, location=(0.1, 0.2, 0.45))
    sheet = bpy.context.active_object
    sheet.name = "my/sheet.001"
    sheet.rotation_euler = (0.0, 0.0, 0.4)
    sheet.scale = (1.0, 0.8, 1.0)
    group = sheet.vertex_groups.new(name="held")
    group.add([0, cells], 1.0, "REPLACE")
    sheet.weft.pins = "held"
    for name in ("red", "blue"):
        sheet.data.materials.append(bpy.data.materials.new(name))
    sheet.data.polygons.foreach_set("material_index", [k % 2 for k in range(len(sheet.data.polygons))])
    bpy.context.view_layer.update()
    bpy.ops.weft.mark(role="CLOTH")
    return sheet


def add_ball(scene):
    """An animated ball below it."""
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=0.25, location=(0.0, 0.0, 0.15))
    ball = bpy.context.active_object
    bpy.ops.weft.mark(role="COLLIDER")
    ball.keyframe_insert("location", frame=scene.frame_start)
    ball.location.z = 0.2
    ball.keyframe_insert("location", frame=scene.frame_end)
    return ball


def describe(name):
    """What is shown of an object: its polygons, UV layers and materials after all modifiers."""
    shown = bpy.data.objects[name].evaluated_get(bpy.context.evaluated_depsgraph_get())
    mesh = shown.to_mesh()
    uv = np.empty(2 * len(mesh.loops), np.float32)
    if mesh.uv_layers:
        mesh.uv_layers[0].uv.foreach_get("vector", uv)
    told = {
        "sizes": sorted({p.loop_total for p in mesh.polygons}),
        "polygons": len(mesh.polygons),
        "uv_layers": [layer.name for layer in mesh.uv_layers],
        "uv_area": uv_area(mesh, uv.reshape(-1, 2)),
        "materials": sorted({p.material_index for p in mesh.polygons}),
    }
    shown.to_mesh_clear()
    return told


def uv_area(mesh, uv):
    total = 0.0
    for polygon in mesh.polygons:
        points = uv[list(polygon.loop_indices)]
        x, y = points.T
        total += 0.5 * abs(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
    return float(total)


def bake(scene, folder, levels, triangulate):
    sheet = add_sheet()
    if triangulate:
        bpy.ops.object.mode_set(mode="EDIT")
        bpy.ops.mesh.select_all(action="SELECT")
        bpy.ops.mesh.quads_convert_to_tris()
        bpy.ops.object.mode_set(mode="OBJECT")
    ball = add_ball(scene)
    scene.weft.method = "robust"
    scene.weft.levels = levels
    scene.weft.thickness = 0.004
    TOLD["start"] = world_points(sheet.name).tolist()
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT"), "FINISHED")
    TOLD["status"], TOLD["warnings"] = scene.weft.status, scene.weft.warnings
    shown = f"{sheet.name} fine" if levels and triangulate else sheet.name
    TOLD["frames"] = {}
    for frame in (3, 7, 11):
        scene.frame_set(frame)
        TOLD["frames"][str(frame)] = {"sheet": world_points(shown).tolist(), "ball": world_points(ball.name).tolist()}
    TOLD["modifiers"] = [m.type for m in bpy.data.objects[shown].modifiers]
    TOLD["shown"] = describe(shown)
    # baking again replaces the result; clearing takes it away
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT"), "FINISHED")
    TOLD["objects"] = sorted(o.name for o in bpy.data.objects)
    fail_on(bpy.ops.weft.clear(), "FINISHED")
    TOLD["cleared"] = sorted([o.name, len(o.modifiers), o.hide_get()] for o in bpy.data.objects)
    mistakes(scene, sheet)


def mistakes(scene, sheet):
    """Each is one line."""
    sheet.weft.pins = "nobody"
    message_of("no_group", bpy.ops.weft.bake, "EXEC_DEFAULT")
    sheet.weft.pins = "held"
    scene.weft.method = "plain"
    before = os.environ["WEFT_COMMAND"]
    os.environ["WEFT_COMMAND"] = "/nowhere/weft"
    message_of("no_weft", bpy.ops.weft.bake, "EXEC_DEFAULT")
    os.environ["WEFT_COMMAND"] = before


def features(scene, folder):
    """Pins on an armature, sewing, paint, wind, a thick collider, a follower; stop, preview and resume."""
    sheet = add_sheet(8)
    sheet.rotation_euler, sheet.scale = (0, 0, 0), (1, 1, 1)
    ball = add_ball(scene)
    ball.weft.outer, ball.weft.friction = 0.02, 0.7
    # an armature carries the held corners upwards
    bones = bpy.data.armatures.new("bones")
    rig = bpy.data.objects.new("rig", bones)
    scene.collection.objects.link(rig)
    bpy.context.view_layer.objects.active = rig
    bpy.ops.object.mode_set(mode="EDIT")
    bone = bones.edit_bones.new("held")
    bone.head, bone.tail = (0, 0, 0), (0, 0, 1)
    bpy.ops.object.mode_set(mode="POSE")
    pose = rig.pose.bones["held"]
    pose.keyframe_insert("location", frame=3)
    pose.location = (0.0, 0.1, 0.0)
    pose.keyframe_insert("location", frame=11)
    bpy.ops.object.mode_set(mode="OBJECT")
    modifier = sheet.modifiers.new("rig", "ARMATURE")
    modifier.object = rig
    # a loose edge sews two vertices of the far side together
    sheet.data.edges.add(1)
    sheet.data.edges[-1].vertices = (72, 80)
    sheet.data.update()
    stiff = sheet.vertex_groups.new(name="stiff")
    stiff.add([40, 41], 1.0, "REPLACE")
    sheet.weft.stiff, sheet.weft.stiff_factor = "stiff", 5.0
    TOLD["painted"] = painted(sheet)
    sheet.weft.stiff = ""
    sheet.weft.material = "denim"
    sheet.weft.bend = 2e-5
    for kind in ("WIND", "VORTEX"):
        bpy.ops.object.effector_add(type=kind, location=(0, 0, 3))
        bpy.context.active_object.field.strength = 2.0
        bpy.context.active_object.name = kind.lower()
    # a follower: a small sheet a little above the cloth
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=3, y_subdivisions=3, size=0.3, location=(0.1, 0.2, 0.46))
    coat = bpy.context.active_object
    coat.name = "coat"
    coat.weft.role, coat.weft.follows = "FOLLOWER", sheet
    scene.weft.method, scene.weft.thickness = "robust", 0.004
    scene.weft.preview = 0.001
    # long enough that the stop comes before the end; Ctrl-C is ignored where Blender was started in the background
    scene.frame_end = 303
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    scene.frame_set(scene.frame_start)
    TOLD["start"] = world_points(sheet.name).tolist()
    from weft_cloth.bake import Job

    # stopped after some frames
    job = Job(bpy.context)
    seen = []
    end = time.monotonic() + 300.0
    while job.frames_done() < 4 and not job.poll() and time.monotonic() < end:
        seen.append((scene.weft.status, scene.weft.progress, [m.type for m in sheet.modifiers]))
        time.sleep(0.02)
    job.stop()
    while not job.ended():
        time.sleep(0.02)
    TOLD["stopped"] = [job.finish_stopped(), scene.weft.stopped, job.frames_done()]
    TOLD["seen"] = seen[-1]
    TOLD["warnings"] = scene.weft.warnings
    TOLD["preview"] = [m.type for m in sheet.modifiers]
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT", resume=True), "FINISHED")
    TOLD["log"] = (folder / "bake" / "weft.log").read_text()
    TOLD["status"], TOLD["resumable"] = scene.weft.status, scene.weft.stopped
    TOLD["toml"] = (folder / "bake" / "scene.toml").read_text()
    TOLD["modifiers"] = [m.type for m in sheet.modifiers]
    TOLD["frames"] = {}
    for frame in (3, 11):
        scene.frame_set(frame)
        TOLD["frames"][str(frame)] = {name: world_points(name).tolist() for name in (sheet.name, "coat")}


def painted(sheet):
    """What is written for a vertex group of stiffness: the lines of the scene, and the factors."""
    from weft_cloth.sampling import Sheet
    from weft_cloth.scene_file import cloth_lines

    own = Sheet(sheet)
    folder = Path(bpy.app.tempdir)
    table = {"name": "a", "samples": [np.zeros((len(own.used), 3))], "faces": own.faces, "material": own.material()}
    lines = cloth_lines(folder, "a.npz", {**table, "pins": [], "stiff": own.stiff}, 24.0)
    with np.load(folder / "a.npz") as arrays:
        factors = arrays["attribute.stiffness"]
    return [line for line in lines if "painted" in line] + [factors[[39, 40, 41, 42]].tolist()]


def tangle(scene, folder):
    """Check selects what crosses, in edit mode too; Untangle frees a mesh; cloth inside a collider is a warning."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=10, y_subdivisions=10, size=1.0)
    sheet = bpy.context.active_object
    x = np.empty(3 * len(sheet.data.vertices), np.float32)
    sheet.data.vertices.foreach_get("co", x)
    x = x.reshape(-1, 3)
    # bent so far that one end passes through the other: a curve that crosses itself
    s = 5.0 * x[:, 0]
    rolled = np.column_stack([0.4 * (s**3 / 3.0 - s), x[:, 1], 0.2 * s**2 + 0.01 * x[:, 1]]).astype(np.float32)
    sheet.data.vertices.foreach_set("co", rolled.ravel())
    sheet.data.update()
    bpy.ops.object.mode_set(mode="EDIT")
    fail_on(bpy.ops.weft.check(), "FINISHED")
    TOLD["check"], TOLD["mode"] = scene.weft.status, sheet.mode
    bpy.ops.object.mode_set(mode="OBJECT")
    TOLD["selected"] = sum(v.select for v in sheet.data.vertices)
    bpy.ops.object.mode_set(mode="EDIT")
    fail_on(bpy.ops.weft.untangle(), "FINISHED")
    TOLD["untangle"] = scene.weft.status
    bpy.ops.object.mode_set(mode="OBJECT")
    fail_on(bpy.ops.weft.check(), "FINISHED")
    TOLD["free"] = scene.weft.status
    # a ball around it all
    sheet.weft.role = "CLOTH"
    bpy.ops.mesh.primitive_uv_sphere_add(segments=16, ring_count=8, radius=2.0)
    bpy.context.active_object.weft.role = "COLLIDER"
    scene.weft.method = "plain"
    scene.frame_end = scene.frame_start + 1
    fail_on(bpy.ops.weft.bake("EXEC_DEFAULT"), "FINISHED")
    TOLD["warnings"] = scene.weft.warnings


def main(archive, folder, what):
    folder = Path(folder)
    with zipfile.ZipFile(archive) as file:
        file.extractall(folder / "addons")
    sys.path.insert(0, str(folder / "addons"))
    import weft_cloth

    bpy.ops.wm.read_factory_settings(use_empty=True)
    weft_cloth.register()
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end, scene.render.fps = 3, 11, 30
    scene.weft.folder = str(folder / "bake")
    message_of("no_cloth", bpy.ops.weft.bake, "EXEC_DEFAULT")
    if what == "features":
        features(scene, folder)
    elif what == "tangle":
        tangle(scene, folder)
    else:
        bake(scene, folder, int(what[0]), what.endswith("triangles"))
    weft_cloth.unregister()
    leave_with(TOLD)


main(*sys.argv[1:])

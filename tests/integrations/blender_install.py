"""Runs in Blender: install the add-on's zip as a person does from disk, and print what is there then."""

import importlib.util
import sys

import bpy
from blender_import import leave_with


def bake(folder):
    """A sheet over a ball by the weft that came with the extension."""
    bpy.ops.mesh.primitive_grid_add(x_subdivisions=10, y_subdivisions=10, size=1.0, location=(0, 0, 1))
    bpy.context.active_object.weft.role = "CLOTH"
    bpy.ops.mesh.primitive_uv_sphere_add(segments=12, ring_count=8, radius=0.3)
    bpy.context.active_object.weft.role = "COLLIDER"
    scene = bpy.context.scene
    scene.frame_start, scene.frame_end, scene.weft.folder = 1, 6, folder
    bpy.ops.weft.bake("EXEC_DEFAULT")
    return scene.weft.status


def main(archive, folder=None):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    done = bpy.ops.extensions.package_install_files(filepath=archive, repo="user_default", enable_on_install=True)
    told = {
        "done": sorted(done),
        "addons": [a.module for a in bpy.context.preferences.addons if "weft" in a.module],
        "operators": [name for name in dir(bpy.ops.weft) if not name.startswith("_")],
        "panel": hasattr(bpy.types, "WEFT_PT_panel"),
    }
    if folder is not None:
        told["weft"] = importlib.util.find_spec("weft").origin
        told["status"] = bake(folder)
    leave_with(told)


if __name__ == "__main__":
    main(*sys.argv[1:])

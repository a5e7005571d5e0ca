"""Runs in Blender: install the add-on's zip as a person does from disk, and print what is there then."""

import json
import sys

import bpy


def main(archive):
    bpy.ops.wm.read_factory_settings(use_empty=True)
    done = bpy.ops.extensions.package_install_files(filepath=archive, repo="user_default", enable_on_install=True)
    told = {
        "done": sorted(done),
        "addons": [a.module for a in bpy.context.preferences.addons if "weft" in a.module],
        "operators": [name for name in dir(bpy.ops.weft) if not name.startswith("_")],
        "panel": hasattr(bpy.types, "WEFT_PT_panel"),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    main(*sys.argv[1:])

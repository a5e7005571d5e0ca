"""Runs in Blender: import files of a garment of quads and print its polygons, UVs and materials."""

import json
import sys

import bpy
import numpy as np


def describe():
    (thing,) = (o for o in bpy.data.objects if o.type == "MESH")
    mesh = thing.data
    uv = np.empty(2 * len(mesh.loops), np.float32)
    mesh.uv_layers[0].uv.foreach_get("vector", uv)
    loops = np.array([loop.vertex_index for loop in mesh.loops])
    names = [slot.material.name if slot.material else "" for slot in thing.material_slots]
    return {
        "sizes": sorted({p.loop_total for p in mesh.polygons}),
        "corners": sorted([int(v), *np.round(c, 4).tolist()] for v, c in zip(loops, uv.reshape(-1, 2), strict=True)),
        "materials": [names[p.material_index].split(".")[0] if names else "" for p in mesh.polygons],
        "colours": [a.name for a in mesh.color_attributes],
    }


def main(*files):
    told = {}
    for file in files:
        bpy.ops.wm.read_factory_settings(use_empty=True)
        if file.endswith(".abc"):
            bpy.ops.wm.alembic_import(filepath=file, as_background_job=False)
        else:
            bpy.ops.wm.usd_import(filepath=file)
        told[file.rpartition(".")[2]] = describe()
    print(json.dumps(told))


main(*sys.argv[1:])

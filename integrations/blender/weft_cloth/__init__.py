"""weft in Blender: mark objects as cloth and colliders, bake, and the result plays as a mesh cache.

The simulation runs in a process of its own, in the Python that has weft installed; Blender needs nothing but this
add-on. Panel: 3D viewport, sidebar (N), tab "weft".
"""

from . import bake, panel, properties

bl_info = {
    "name": "weft cloth",
    "author": "weft",
    "version": (0, 1, 0),
    "blender": (4, 2, 0),
    "location": "View3D > Sidebar > weft",
    "description": "Cloth that does not pass through itself, baked by weft",
    "category": "Physics",
}

PARTS = (properties, bake, panel)


def register():
    for part in PARTS:
        part.register()


def unregister():
    for part in reversed(PARTS):
        part.unregister()

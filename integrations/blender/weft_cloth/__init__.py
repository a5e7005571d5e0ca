# SPDX-License-Identifier: GPL-3.0-or-later
"""weft in Blender: mark objects as cloth and colliders, bake, and the result plays on the objects themselves.

The simulation runs in a process of its own, by the weft that the extension brings along, or one that is installed. Panel: 3D
viewport, sidebar (N), tab "weft".
"""

from . import bake, inspect, panel, properties

PARTS = (properties, bake, inspect, panel)


def register():
    for part in PARTS:
        part.register()


def unregister():
    for part in reversed(PARTS):
        part.unregister()

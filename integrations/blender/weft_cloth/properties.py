# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user sets: for the scene, for each object, and where weft is installed."""

import bpy

METHODS = (
    (
        "guarded",
        "Guarded",
        "What is free stays free, what crosses comes free, and only what moving bodies force through is released",
    ),
    ("robust", "Robust", "Contacts, collisions and friction: what starts without intersections stays without"),
    ("untangle", "Untangle", "Finds its way back out of intersections"),
    ("predictive", "Predictive", "Contacts are predicted and solved with the cloth"),
    ("boxes", "Boxes", "Fast, for moving bodies"),
    ("push", "Push", "Draping on meshes, fast"),
    ("plain", "Plain", "The cloth alone: nothing is done about contact"),
)
# weft's own presets (a test compares them): density kg/m^2, stretch and shear N/m, bend N m, friction
PRESETS = {
    "cotton": (0.15, 500.0, 60.0, 1.6e-05, 0.5),
    "silk": (0.08, 400.0, 20.0, 2e-06, 0.3),
    "denim": (0.4, 10000.0, 150.0, 7e-05, 0.6),
    "wool": (0.25, 10000.0, 50.0, 1.5e-05, 0.5),
    "leather": (0.7, 4000.0, 1500.0, 5e-05, 0.6),
    "chiffon": (0.04, 250.0, 10.0, 6e-07, 0.35),
    "linen": (0.19, 10000.0, 80.0, 2e-05, 0.5),
}
NUMBERS = ("density", "stretch", "shear", "bend", "cloth_friction")
USUAL = dict(zip(NUMBERS, PRESETS["cotton"], strict=True))
MATERIALS = tuple((name, name.capitalize(), "") for name in PRESETS)
ROLES = (
    ("NONE", "None", "weft does not see this object"),
    ("CLOTH", "Cloth", "Simulated by weft"),
    ("COLLIDER", "Collider", "What the cloth meets; its animation and its modifiers are taken along"),
    ("FOLLOWER", "Follower", "A detailed mesh that follows a cloth: thickness, buttons, hems"),
)


def fill_in(self, _context):
    """Put the numbers of the chosen preset into the fields."""
    for name, value in zip(NUMBERS, PRESETS[self.material], strict=True):
        setattr(self, name, value)


def is_cloth(_self, thing):
    """What a follower can follow."""
    return thing.type == "MESH" and thing.weft.role == "CLOTH"


class WeftScene(bpy.types.PropertyGroup):
    """Settings of a bake."""

    method: bpy.props.EnumProperty(name="Method", items=METHODS, default="guarded")
    thickness: bpy.props.FloatProperty(
        name="Thickness", description="How near two layers may come, m", default=0.001, min=1e-5, max=0.1, precision=4
    )
    levels: bpy.props.IntProperty(
        name="Subdivide",
        description="Smooth and refine the result so often, without intersections",
        default=0,
        min=0,
        max=4,
    )
    preview: bpy.props.FloatProperty(
        name="Preview every",
        description="Seconds after which the frames that are done are shown; 0: only at the end",
        default=10.0,
        min=0.0,
        max=600.0,
    )
    folder: bpy.props.StringProperty(
        name="Folder", description="Where scene, cache and point caches are kept", subtype="DIR_PATH", default="//weft"
    )
    status: bpy.props.StringProperty(name="Status", default="")
    warnings: bpy.props.StringProperty(name="Warnings", description="One a line", default="")
    progress: bpy.props.FloatProperty(name="Progress", default=0.0, min=0.0, max=1.0, subtype="FACTOR")
    running: bpy.props.BoolProperty(default=False, options={"SKIP_SAVE"})
    stopped: bpy.props.BoolProperty(description="A bake was stopped and can go on", default=False)


class WeftObject(bpy.types.PropertyGroup):
    """What an object is to weft."""

    role: bpy.props.EnumProperty(name="Role", items=ROLES, default="NONE")
    material: bpy.props.EnumProperty(name="Preset", items=MATERIALS, default="cotton", update=fill_in)
    density: bpy.props.FloatProperty(
        name="Density", description="kg/m\u00b2", default=USUAL["density"], min=1e-3, max=100, precision=3
    )
    stretch: bpy.props.FloatProperty(
        name="Stretch", description="Stiffness, N/m", default=USUAL["stretch"], min=1e-3, max=1e6
    )
    shear: bpy.props.FloatProperty(name="Shear", description="Stiffness, N/m", default=USUAL["shear"], min=0.0, max=1e6)
    bend: bpy.props.FloatProperty(
        name="Bend", description="Stiffness, N m", default=USUAL["bend"], min=0.0, max=10.0, precision=7, step=0.0001
    )
    cloth_friction: bpy.props.FloatProperty(name="Friction", default=USUAL["cloth_friction"], min=0.0, max=2.0)
    pins: bpy.props.StringProperty(
        name="Pins",
        description="Vertex group (weights above one half) that is held where armature, shape keys and the object put it",
        default="",
    )
    stiff: bpy.props.StringProperty(
        name="Stiff", description="Vertex group: cloth is stiffer where its weight is larger", default=""
    )
    stiff_factor: bpy.props.FloatProperty(
        name="Times", description="How many times as stiff it is at a weight of 1", default=10.0, min=0.01, max=1000.0
    )
    sew: bpy.props.BoolProperty(
        name="Sew loose edges", description="Edges without faces draw their two ends together", default=True
    )
    friction: bpy.props.FloatProperty(name="Friction", default=0.3, min=0.0, max=2.0)
    outer: bpy.props.FloatProperty(
        name="Thickness", description="Cloth stays so far outside of this collider, m", default=0.0, min=0.0, max=1.0
    )
    follows: bpy.props.PointerProperty(name="Follows", type=bpy.types.Object, poll=is_cloth)


class WeftPreferences(bpy.types.AddonPreferences):
    """Where weft is."""

    bl_idname = __package__

    command: bpy.props.StringProperty(
        name="weft",
        description="The weft command, or the python that has weft installed; empty: the weft that came with this "
        "extension, else the one on the PATH",
        subtype="FILE_PATH",
        default="",
    )

    def draw(self, context):
        self.layout.prop(self, "command")
        self.layout.label(text="Install weft with: pip install weft-cloth")


CLASSES = (WeftScene, WeftObject, WeftPreferences)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)
    bpy.types.Scene.weft = bpy.props.PointerProperty(type=WeftScene)
    bpy.types.Object.weft = bpy.props.PointerProperty(type=WeftObject)


def unregister():
    del bpy.types.Object.weft
    del bpy.types.Scene.weft
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

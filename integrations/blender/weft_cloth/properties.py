"""What the user sets: for the scene, for each object, and where weft is installed."""

import bpy

METHODS = (
    ("robust", "Robust", "Contacts, collisions and friction: what starts without intersections stays without"),
    ("untangle", "Untangle", "Finds its way back out of intersections"),
    ("predictive", "Predictive", "Contacts are predicted and solved with the cloth"),
    ("boxes", "Boxes", "Fast, for moving bodies"),
    ("push", "Push", "Draping on meshes, fast"),
    ("plain", "Plain", "The cloth alone: nothing is done about contact"),
)
MATERIALS = tuple((name, name.capitalize(), "") for name in ("cotton", "silk", "denim", "wool", "leather", "chiffon"))
ROLES = (
    ("NONE", "None", "weft does not see this object"),
    ("CLOTH", "Cloth", "Simulated by weft"),
    ("COLLIDER", "Collider", "What the cloth meets; its animation and its modifiers are taken along"),
)


class WeftScene(bpy.types.PropertyGroup):
    """Settings of a bake."""

    method: bpy.props.EnumProperty(name="Method", items=METHODS, default="robust")
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
    folder: bpy.props.StringProperty(
        name="Folder", description="Where scene, cache and point caches are kept", subtype="DIR_PATH", default="//weft"
    )
    status: bpy.props.StringProperty(name="Status", default="")
    running: bpy.props.BoolProperty(default=False)


class WeftObject(bpy.types.PropertyGroup):
    """What an object is to weft."""

    role: bpy.props.EnumProperty(name="Role", items=ROLES, default="NONE")
    material: bpy.props.EnumProperty(name="Material", items=MATERIALS, default="cotton")
    pins: bpy.props.StringProperty(name="Pins", description="Vertex group that is held in place", default="")
    friction: bpy.props.FloatProperty(name="Friction", default=0.3, min=0.0, max=2.0)


class WeftPreferences(bpy.types.AddonPreferences):
    """Where weft is."""

    bl_idname = __package__

    command: bpy.props.StringProperty(
        name="weft",
        description="The weft command, or the python that has weft installed; empty: the weft that is on the PATH",
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

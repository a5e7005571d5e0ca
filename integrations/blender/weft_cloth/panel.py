"""The panel in the sidebar of the 3D viewport, and the operators that mark objects."""

import bpy


class WEFT_OT_mark(bpy.types.Operator):
    """Make the selected meshes cloth, colliders or nothing to weft"""

    bl_idname = "weft.mark"
    bl_label = "Mark for weft"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    role: bpy.props.EnumProperty(items=(("NONE", "None", ""), ("CLOTH", "Cloth", ""), ("COLLIDER", "Collider", "")))

    @classmethod
    def poll(cls, context):
        return any(o.type == "MESH" for o in context.selected_objects)

    def execute(self, context):
        for chosen in context.selected_objects:
            if chosen.type == "MESH":
                chosen.weft.role = self.role
        return {"FINISHED"}


class WEFT_PT_panel(bpy.types.Panel):
    """Everything in one place"""

    bl_idname = "WEFT_PT_panel"
    bl_label = "weft cloth"
    bl_space_type = "VIEW_3D"
    bl_region_type = "UI"
    bl_category = "weft"

    def draw(self, context):
        settings = context.scene.weft
        layout = self.layout
        layout.use_property_split = True
        row = layout.row(align=True)
        for role in ("CLOTH", "COLLIDER", "NONE"):
            row.operator("weft.mark", text=role.capitalize()).role = role
        chosen = context.active_object
        if chosen is not None and chosen.type == "MESH" and chosen.weft.role != "NONE":
            box = layout.box()
            box.label(text=f"{chosen.name}: {chosen.weft.role.lower()}")
            if chosen.weft.role == "CLOTH":
                box.prop(chosen.weft, "material")
                box.prop_search(chosen.weft, "pins", chosen, "vertex_groups")
            else:
                box.prop(chosen.weft, "friction")
        for name in ("method", "thickness", "levels", "folder"):
            layout.prop(settings, name)
        layout.prop(context.scene, "frame_start")
        layout.prop(context.scene, "frame_end")
        row = layout.row()
        if settings.running:
            row.label(text=settings.status or "baking", icon="TIME")
            layout.label(text="Esc stops it; what is done is kept")
        else:
            row.operator("weft.bake", icon="PHYSICS")
            row.operator("weft.clear", icon="X")
            for line in settings.status.splitlines():
                layout.label(text=line)


CLASSES = (WEFT_OT_mark, WEFT_PT_panel)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)


def unregister():
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

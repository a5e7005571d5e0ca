# SPDX-License-Identifier: GPL-3.0-or-later
"""The panel in the sidebar of the 3D viewport, and the operator that marks objects."""

import textwrap

import bpy

from .properties import NUMBERS


class WEFT_OT_mark(bpy.types.Operator):
    """Make the selected meshes cloth, colliders, followers or nothing to weft"""

    bl_idname = "weft.mark"
    bl_label = "Mark for weft"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    role: bpy.props.EnumProperty(
        items=(("NONE", "None", ""), ("CLOTH", "Cloth", ""), ("COLLIDER", "Collider", ""), ("FOLLOWER", "Follower", ""))
    )

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
        layout = self.layout
        layout.use_property_split = True
        row = layout.row(align=True)
        for role in ("CLOTH", "COLLIDER", "FOLLOWER", "NONE"):
            row.operator("weft.mark", text=role.capitalize()).role = role
        chosen = context.active_object
        if chosen is not None and chosen.type == "MESH":
            self._draw_object(layout, chosen)
            row = layout.row(align=True)
            row.operator("weft.check", icon="VIEWZOOM")
            row.operator("weft.untangle", icon="MOD_CLOTH")
        self._draw_bake(context, layout)

    def _draw_object(self, layout, chosen):
        own = chosen.weft
        if own.role == "NONE":
            return
        box = layout.box()
        box.label(text=f"{chosen.name}: {own.role.lower()}")
        if own.role == "CLOTH":
            for name in ("material", *NUMBERS):
                box.prop(own, name)
            box.prop_search(own, "pins", chosen, "vertex_groups")
            box.prop_search(own, "stiff", chosen, "vertex_groups")
            if own.stiff:
                box.prop(own, "stiff_factor")
            box.prop(own, "sew")
        elif own.role == "COLLIDER":
            box.prop(own, "friction")
            box.prop(own, "outer")
        else:
            box.prop(own, "follows")

    def _draw_bake(self, context, layout):
        settings = context.scene.weft
        for name in ("method", "thickness", "levels", "preview", "folder"):
            layout.prop(settings, name)
        layout.prop(context.scene, "frame_start")
        layout.prop(context.scene, "frame_end")
        row = layout.row(align=True)
        if settings.running:
            layout.prop(settings, "progress", slider=True, text=settings.status or "baking")
            row.operator("weft.stop", text="Stop (Esc)", icon="CANCEL")
        else:
            row.operator("weft.bake", icon="PHYSICS").resume = False
            if settings.stopped:
                row.operator("weft.bake", text="Resume", icon="PLAY").resume = True
            row.operator("weft.clear", icon="X")
            for line in wrapped(settings.status):
                layout.label(text=line)
        if settings.warnings:
            box = layout.box()
            for number, line in enumerate(wrapped(settings.warnings)):
                box.label(text=line, icon="NONE" if number else "ERROR")


def wrapped(text, width=50):
    """Lines that fit the sidebar."""
    return [line for part in text.splitlines() for line in textwrap.wrap(part, width)]


CLASSES = (WEFT_OT_mark, WEFT_PT_panel)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)


def unregister():
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

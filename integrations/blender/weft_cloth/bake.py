"""Bake: hand the marked objects to weft, let it run in a process of its own, and take the result as a mesh cache."""

import os
import shutil
import subprocess
from pathlib import Path

import bpy
import numpy as np

from . import scene_file

MODIFIER = "weft"
# vertices of the pin group with at least this weight are held
PIN_WEIGHT = 0.5


class BakeError(Exception):
    """Something the user can mend; the message says what."""


class WEFT_OT_bake(bpy.types.Operator):
    """Simulate the marked objects with weft"""

    bl_idname = "weft.bake"
    bl_label = "Bake"

    _timer = None
    _job = None

    def execute(self, context):
        """At once, for scripts and without a window: comes back when all is done."""
        try:
            job = Job(context)
            while not job.poll(wait=True):
                pass
            context.scene.weft.status = job.finish(context)
        except BakeError as error:
            context.scene.weft.status = str(error)
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        self.report({"INFO"}, context.scene.weft.status)
        return {"FINISHED"}

    def invoke(self, context, event):
        """From the panel: Blender stays usable while weft runs."""
        try:
            self._job = Job(context)
        except BakeError as error:
            context.scene.weft.status = str(error)
            self.report({"ERROR"}, str(error))
            return {"CANCELLED"}
        context.scene.weft.running = True
        self._timer = context.window_manager.event_timer_add(0.5, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context, event):
        settings = context.scene.weft
        if event.type == "ESC":
            self._job.stop()
            return self._end(context, "stopped", {"CANCELLED"})
        if event.type != "TIMER":
            return {"PASS_THROUGH"}
        try:
            if not self._job.poll():
                settings.status = self._job.said()
                return {"RUNNING_MODAL"}
            return self._end(context, self._job.finish(context), {"FINISHED"})
        except BakeError as error:
            self.report({"ERROR"}, str(error))
            return self._end(context, str(error), {"CANCELLED"})

    def _end(self, context, status, result):
        context.window_manager.event_timer_remove(self._timer)
        context.scene.weft.running = False
        context.scene.weft.status = status
        for area in context.screen.areas:
            area.tag_redraw()
        return result


class WEFT_OT_clear(bpy.types.Operator):
    """Take the results of weft away again; files are left alone"""

    bl_idname = "weft.clear"
    bl_label = "Clear"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    def execute(self, context):
        for thing in marked(context.scene, "CLOTH"):
            remove_result(thing)
        context.scene.weft.status = ""
        return {"FINISHED"}


class Job:
    """One bake: the commands of weft, one after the other, in a folder of their own."""

    def __init__(self, context):
        scene = context.scene
        self.folder = choose_folder(scene)
        self.weft = find_weft(context)
        self.log = self.folder / "weft.log"
        self.cloths = marked(scene, "CLOTH")
        self.scale = scene.unit_settings.scale_length or 1.0
        if not self.cloths:
            raise BakeError("no object is marked as cloth: select one and press Cloth")
        if scene.frame_end <= scene.frame_start:
            raise BakeError("the last frame must come after the first one")
        # what an earlier bake left on the cloth is not where it starts
        for thing in self.cloths:
            remove_result(thing)
        self.start = scene.frame_start
        colliders = marked(scene, "COLLIDER")
        names = scene_file.body_names([thing.name for thing in (*self.cloths, *colliders)])
        self.names = names[: len(self.cloths)]
        write(context, self.folder, self.cloths, colliders, names, self.scale)
        finished = "fine.zarr" if scene.weft.levels else "run.zarr"
        self.commands = [["run", "scene.toml", "-o", "run.zarr", "--overwrite"]]
        if scene.weft.levels:
            self.commands.append(
                ["subdivide", "run.zarr", "-o", finished, "--levels", str(scene.weft.levels), "--overwrite"]
            )
        bodies = [word for name in self.names for word in ("--body", name)]
        self.commands.append(["export", finished, "--format", "pc2", "-o", "points", "--overwrite", *bodies])
        self.process = None
        self.finer = scene.weft.levels > 0
        self.log.write_text("")

    def poll(self, wait=False):
        """Whether all commands are done; starts the next one when one has ended."""
        if self.process is None:
            with self.log.open("a") as log:
                self.process = subprocess.Popen(
                    [*self.weft, *self.commands.pop(0)], cwd=self.folder, stdout=log, stderr=subprocess.STDOUT
                )
        code = self.process.wait() if wait else self.process.poll()
        if code is None:
            return False
        if code:
            raise BakeError(f"weft stopped: {self.said() or f'exit code {code}'} (see {self.log})")
        self.process = None
        return not self.commands

    def said(self):
        """The last line that weft printed."""
        lines = [line.strip() for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1].removeprefix("weft: ") if lines else ""

    def stop(self):
        """Ask weft to stop at the next frame; its cache can be continued."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait()

    def finish(self, context):
        """Bring the result into the scene; gives a sentence about it."""
        frames = 0
        for thing, name in zip(self.cloths, scene_file.file_names(self.names), strict=True):
            samples = scene_file.read_point_cache(self.folder / "points" / f"{name}.pc2")
            frames = len(samples)
            if self.finer:
                take_finer(context, thing, self.folder / "points", name, samples, self.start, self.scale)
            else:
                take(thing, self.folder / "points" / f"{name}.local.pc2", samples, self.start, self.scale)
        text = self.log.read_text(errors="replace")
        quality = [line for line in text.splitlines() if "intersections" in line and "not counted" not in line]
        return f"{frames} frames; {quality[-1].strip() if quality else 'done'}"


def marked(scene, role):
    """The meshes of a scene that have a role."""
    return [thing for thing in scene.objects if thing.type == "MESH" and thing.weft.role == role]


def choose_folder(scene):
    """The folder of the bake, made if it is not there."""
    given = scene.weft.folder or "//weft"
    if given.startswith("//") and not bpy.data.filepath:
        raise BakeError("save the file first, or choose a folder that does not start with //")
    folder = Path(bpy.path.abspath(given))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BakeError(f"cannot write to {folder}: {error.strerror}") from None
    return folder


def find_weft(context):
    """The command that runs weft."""
    addon = context.preferences.addons.get(__package__)
    given = (addon.preferences.command if addon else "") or os.environ.get("WEFT_COMMAND", "") or shutil.which("weft")
    if not given:
        raise BakeError("weft is not found: install it with pip, and name it in the preferences of this add-on")
    path = Path(bpy.path.abspath(given))
    if not path.exists():
        raise BakeError(f"{path} does not exist: name weft in the preferences of this add-on")
    return [str(path), "-m", "weft"] if path.stem.startswith("python") else [str(path)]


def write(context, folder, cloths, colliders, names, scale):
    """Everything that weft needs, as files; `names` are those of the cloths and then of the colliders."""
    scene = context.scene
    frames = scene.frame_end - scene.frame_start
    before = scene.frame_current
    scene.frame_set(scene.frame_start)
    garments = [
        {
            "name": name,
            "vertices": scene_file.to_weft(world_points(thing.data.vertices, thing.matrix_world), scale),
            "faces": triangles(thing.data),
            "material": thing.weft.material,
            "pins": pinned(thing),
        }
        for thing, name in zip(cloths, names, strict=False)
    ]
    bodies = [
        {"name": name, "friction": thing.weft.friction, "samples": [], "faces": None}
        for thing, name in zip(colliders, names[len(cloths) :], strict=True)
    ]
    for frame in range(scene.frame_start, scene.frame_end + 1):
        scene.frame_set(frame)
        graph = context.evaluated_depsgraph_get()
        for thing, body in zip(colliders, bodies, strict=True):
            shown = thing.evaluated_get(graph)
            mesh = shown.to_mesh()
            points = scene_file.to_weft(world_points(mesh.vertices, shown.matrix_world), scale)
            if body["samples"] and len(points) != len(body["samples"][0]):
                raise BakeError(f"the number of vertices of {thing.name} changes at frame {frame}")
            body["samples"].append(points)
            body["faces"] = triangles(mesh) if body["faces"] is None else body["faces"]
            shown.to_mesh_clear()
    scene.frame_set(before)
    for body in bodies:
        if all(np.array_equal(points, body["samples"][0]) for points in body["samples"]):
            del body["samples"][1:]
    gravity = scene.gravity if scene.use_gravity else (0.0, 0.0, 0.0)
    try:
        scene_file.write_scene(
            folder,
            cloths=garments,
            colliders=bodies,
            method=scene.weft.method,
            thickness=scene.weft.thickness,
            frames=frames,
            fps=scene.render.fps / scene.render.fps_base,
            gravity=scene_file.to_weft([gravity])[0],
        )
    except OSError as error:
        raise BakeError(f"cannot write to {folder}: {error.strerror}") from None


def world_points(vertices, matrix):
    """(n, 3) positions in the world."""
    local = np.empty(3 * len(vertices), np.float32)
    vertices.foreach_get("co", local)
    m = np.array(matrix, dtype=np.float64)
    return local.reshape(-1, 3) @ m[:3, :3].T + m[:3, 3]


def triangles(mesh):
    """(m, 3) triangles of a mesh, polygons cut as Blender draws them."""
    mesh.calc_loop_triangles()
    found = np.empty(3 * len(mesh.loop_triangles), np.int32)
    mesh.loop_triangles.foreach_get("vertices", found)
    return found.reshape(-1, 3)


def pinned(thing):
    """The vertices that are held."""
    group = thing.vertex_groups.get(thing.weft.pins)
    if group is None:
        if thing.weft.pins:
            raise BakeError(f"{thing.name} has no vertex group {thing.weft.pins!r}")
        return []
    return [
        v.index for v in thing.data.vertices if any(g.group == group.index and g.weight >= PIN_WEIGHT for g in v.groups)
    ]


def take(thing, path, samples, start, scale):
    """Play the samples on the object itself."""
    inverse = np.linalg.inv(np.array(thing.matrix_world, dtype=np.float64))
    local = [scene_file.from_weft(s, scale) @ inverse[:3, :3].T + inverse[:3, 3] for s in samples]
    scene_file.write_point_cache(path, np.array(local))
    add_modifier(thing, path, start)


def take_finer(context, thing, folder, name, samples, start, scale):
    """A finer mesh needs an object of its own: it stands beside the coarse one, which is hidden."""
    faces = read_obj_faces(folder / f"{name}.obj")
    points = [scene_file.from_weft(s, scale) for s in samples]
    mesh = bpy.data.meshes.new(f"{thing.name} fine")
    mesh.from_pydata(points[0].tolist(), [], faces.tolist())
    mesh.shade_smooth()
    for material in thing.data.materials:
        mesh.materials.append(material)
    finer = bpy.data.objects.new(f"{thing.name} fine", mesh)
    finer["weft_of"] = thing.name
    for collection in thing.users_collection:
        collection.objects.link(finer)
    path = folder / f"{name}.local.pc2"
    scene_file.write_point_cache(path, np.array(points))
    add_modifier(finer, path, start)
    thing.hide_set(True)
    thing.hide_render = True


def add_modifier(thing, path, start):
    """A mesh cache, first of all modifiers."""
    modifier = thing.modifiers.new(MODIFIER, "MESH_CACHE")
    modifier.cache_format = "PC2"
    modifier.filepath = str(path)
    modifier.frame_start = start
    modifier.interpolation = "LINEAR"
    thing.modifiers.move(len(thing.modifiers) - 1, 0)


def remove_result(thing):
    """The modifier or the finer object of an earlier bake."""
    modifier = thing.modifiers.get(MODIFIER)
    if modifier is not None:
        thing.modifiers.remove(modifier)
    for other in [o for o in bpy.data.objects if o.get("weft_of") == thing.name]:
        bpy.data.objects.remove(other)
        thing.hide_set(False)
        thing.hide_render = False


def read_obj_faces(path):
    """(m, 3) triangles of an OBJ of weft's."""
    lines = [line.split()[1:] for line in path.read_text().splitlines() if line.startswith("f ")]
    return np.array([[int(word.split("/")[0]) - 1 for word in corners] for corners in lines])


CLASSES = (WEFT_OT_bake, WEFT_OT_clear)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)


def unregister():
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

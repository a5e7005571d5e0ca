# SPDX-License-Identifier: GPL-3.0-or-later
"""Bake: hand the marked objects to weft, which runs in its own process, show the result as it grows; stop, resume, clear."""

import os
import shutil
import signal
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import bpy
import numpy as np

from . import results, sampling, scene_file
from .sampling import BakeError, marked

# the job of the running bake, for the Stop button
_running = []


class WEFT_OT_bake(bpy.types.Operator):
    """Simulate the marked objects with weft"""

    bl_idname = "weft.bake"
    bl_label = "Bake"

    resume: bpy.props.BoolProperty(name="Resume", description="Go on with a bake that was stopped", default=False)

    _timer = None
    _job = None

    def execute(self, context):
        """At once, for scripts and without a window: comes back when all is done."""
        try:
            job = Job(context, resume=self.resume)
            while not job.poll(wait=True):
                pass
            context.scene.weft.status = job.finish()
        except BakeError as error:
            return self._fail(context, error)
        self.report({"INFO"}, context.scene.weft.status)
        return {"FINISHED"}

    def invoke(self, context, event):
        """From the panel: Blender stays usable while weft runs."""
        try:
            self._job = Job(context, resume=self.resume)
        except BakeError as error:
            return self._fail(context, error)
        context.scene.weft.running = True
        _running.append(self._job)
        self._timer = context.window_manager.event_timer_add(0.5, window=context.window)
        context.window_manager.modal_handler_add(self)
        return {"RUNNING_MODAL"}

    def modal(self, context, event):
        if event.type == "ESC":
            self._job.stop()
        elif event.type != "TIMER":
            return {"PASS_THROUGH"}
        try:
            if self._job.stopping and self._job.ended():
                return self._end(context, self._job.finish_stopped(), {"CANCELLED"})
            if not self._job.poll():
                return {"RUNNING_MODAL"}
            return self._end(context, self._job.finish(), {"FINISHED"})
        except BakeError as error:
            self.report({"ERROR"}, str(error))
            return self._end(context, str(error), {"CANCELLED"})
        finally:
            for area in context.screen.areas:
                area.tag_redraw()

    def _fail(self, context, error):
        context.scene.weft.status = str(error)
        self.report({"ERROR"}, str(error))
        return {"CANCELLED"}

    def _end(self, context, status, result):
        context.window_manager.event_timer_remove(self._timer)
        context.scene.weft.running = False
        context.scene.weft.status = status
        _running.clear()
        return result


class WEFT_OT_stop(bpy.types.Operator):
    """Stop the bake after the frame at hand; Resume goes on with it"""

    bl_idname = "weft.stop"
    bl_label = "Stop"

    def execute(self, context):
        for job in _running:
            job.stop()
        return {"FINISHED"}


class WEFT_OT_clear(bpy.types.Operator):
    """Take the results of weft away again; files are left alone"""

    bl_idname = "weft.clear"
    bl_label = "Clear"
    bl_options = {"REGISTER", "UNDO"}  # noqa: RUF012 (Blender reads it so)

    def execute(self, context):
        for thing in marked(context.scene, "CLOTH") + marked(context.scene, "FOLLOWER"):
            results.remove_result(thing)
        context.scene.weft.status = context.scene.weft.warnings = ""
        context.scene.weft.stopped = False
        return {"FINISHED"}


class Job:
    """One bake: the commands of weft, one after the other, in a folder of their own."""

    def __init__(self, context, *, resume=False):
        scene = self.scene = context.scene
        self.settings = scene.weft
        self.folder = choose_folder(scene)
        self.weft, self.environment = find_weft(context)
        self.log = self.folder / "weft.log"
        self.scale = scene.unit_settings.scale_length or 1.0
        self.start, self.levels = scene.frame_start, self.settings.levels
        self.planned = scene.frame_end - scene.frame_start + 1
        self.cloths = marked(scene, "CLOTH")
        self.followers = [thing for thing in marked(scene, "FOLLOWER") if thing.weft.follows in self.cloths]
        if not self.cloths:
            raise BakeError("no object is marked as cloth: select one and press Cloth")
        if self.planned < 2:
            raise BakeError("the last frame must come after the first one")
        if resume and not (self.folder / "run.zarr").exists():
            raise BakeError(f"there is nothing to resume in {self.folder}: bake first")
        # what an earlier bake left on the objects is not where they start
        for thing in self.cloths + self.followers:
            results.remove_result(thing)
        self._write(context)
        self.done_commands = []
        self.commands = self._commands(resume)
        self.process = self.previewer = None
        self.stopping, self.shown, self.looked = False, 0, time.monotonic()
        self.settings.stopped, self.settings.progress = False, 0.0
        if not resume:
            self.log.write_text("")

    def _write(self, context):
        """The scene and its meshes; a bake that goes on writes the same again."""
        scene, colliders = self.scene, marked(self.scene, "COLLIDER")
        things = (*self.cloths, *colliders)
        names = scene_file.body_names([thing.name for thing in things])
        self.names = names[: len(self.cloths)]
        self.sheets, garments, bodies, self.matrices = sampling.collect(
            context, self.cloths, colliders, names, self.scale
        )
        wind, damping, said = sampling.air(scene, self.scale)
        self.said = said + sampling.inside_colliders(garments, bodies)
        self.settings.warnings = "\n".join(self.said)
        gravity = scene.gravity if scene.use_gravity else (0.0, 0.0, 0.0)
        try:
            scene_file.write_scene(
                self.folder,
                cloths=garments,
                colliders=bodies,
                method=self.settings.method,
                thickness=self.settings.thickness,
                frames=self.planned - 1,
                fps=scene.render.fps / scene.render.fps_base,
                gravity=scene_file.to_weft([gravity])[0],
                wind=wind,
                air_damping=damping,
            )
            graph = context.evaluated_depsgraph_get()
            for number, thing in enumerate(self.followers):
                points, _ = sampling.shown_points(thing, graph)
                faces = sampling.triangles(thing.data)
                points = scene_file.to_weft(points, self.scale)
                np.savez(self.folder / f"follower_{number}.npz", vertices=points, faces=faces)
        except OSError as error:
            raise BakeError(f"cannot write to {self.folder}: {error.strerror}") from None

    def _commands(self, resume):
        finished = "fine.zarr" if self.levels else "run.zarr"
        commands = [["run", "scene.toml", "-o", "run.zarr", "--resume" if resume else "--overwrite"]]
        if self.levels:
            commands.append(["subdivide", "run.zarr", "-o", finished, "--levels", str(self.levels), "--overwrite"])
        commands.append(self._export(finished, "points"))
        for number, thing in enumerate(self.followers):
            body = self.names[self.cloths.index(thing.weft.follows)]
            mesh, out = f"follower_{number}.npz", f"bound_{number}"
            commands.append(
                ["bind", finished, mesh, "--body", body, "--format", "pc2", "-o", out, "--overwrite", "--no-check"]
            )
        return commands

    def _export(self, cache, out):
        bodies = [word for name in self.names for word in ("--body", name)]
        return ["export", cache, "--format", "pc2", "-o", out, "--overwrite", "--no-check", *bodies]

    def _run(self, words):
        with self.log.open("a") as log:
            return subprocess.Popen(
                [*self.weft, *words],
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self.environment,
                preexec_fn=None if os.name == "nt" else hear_interrupts,
            )

    def poll(self, wait=False):
        """Whether all commands are done; starts the next one when one has ended."""
        if self.process is None:
            self.done_commands.append(self.commands.pop(0))
            self.process = self._run(self.done_commands[-1])
        code = self.process.wait() if wait else self.process.poll()
        if code is None:
            self._look()
            return False
        self._warn()
        if code:
            self._end_preview()
            raise BakeError(f"weft stopped: {self.last_line() or f'exit code {code}'} (see {self.log})")
        self.process = None
        return not self.commands

    def frames_done(self):
        """How many frames of the run are complete."""
        return len(list((self.folder / "run.zarr" / "weft" / "frames").glob("*.json")))

    def _look(self):
        """Progress and warnings in the panel, and from time to time a preview of what is done."""
        done = self.frames_done() if self.done_commands[-1][0] == "run" else self.planned
        self.settings.progress = done / self.planned
        step = {"run": f"frame {max(done - 1, 0)} of {self.planned - 1}"}.get(self.done_commands[-1][0])
        self.settings.status = step or f"{self.done_commands[-1][0]} ..."
        self._warn()
        if self.previewer is not None and self.previewer.poll() is not None:
            if self.previewer.returncode == 0:
                self._show("preview", levels=0)
            self.previewer = None
        due = self.settings.preview and time.monotonic() - self.looked > self.settings.preview
        if due and self.previewer is None and done > max(self.shown, 1) and self.done_commands[-1][0] == "run":
            self.shown, self.looked = done, time.monotonic()
            self.previewer = self._run(self._export("run.zarr", "preview"))

    def _warn(self):
        """Warnings that weft printed, in the panel."""
        lines = [line.strip().removeprefix("weft: ") for line in self._text().splitlines() if "warning:" in line]
        found = dict.fromkeys([*self.said, *(line.partition("warning:")[2].strip() for line in lines)])
        self.settings.warnings = "\n".join(found)

    def _text(self):
        return self.log.read_text(errors="replace")

    def last_line(self):
        """The last line that weft printed."""
        lines = [line.strip() for line in self._text().splitlines() if line.strip()]
        return lines[-1].removeprefix("weft: ") if lines else ""

    def stop(self):
        """Ask weft to stop after the frame at hand; its cache can be continued."""
        self.stopping = True
        if self.process is not None:
            if os.name == "nt":
                self.process.terminate()
            else:
                self.process.send_signal(signal.SIGINT)

    def ended(self):
        """Whether the process has stopped."""
        return self.process is None or self.process.poll() is not None

    def _end_preview(self):
        if self.previewer is not None:
            self.previewer.wait()
            self.previewer = None

    def finish_stopped(self):
        """Show the frames that are there; gives a sentence about them."""
        self._end_preview()
        done = self.frames_done()
        self.settings.stopped = done > 0
        if done > 1:
            if self._run(self._export("run.zarr", "preview")).wait() == 0:
                self._show("preview", levels=0)
        if not done:
            return "stopped before the first frame"
        if done == self.planned:
            return "stopped when all frames were computed; Resume brings in the rest"
        return f"stopped after frame {done - 1} of {self.planned - 1}; Resume goes on"

    def finish(self):
        """Bring the result into the scene; gives a sentence about it."""
        self._end_preview()
        frames = self._show("points", levels=self.levels)
        for number, thing in enumerate(self.followers):
            (path,) = (self.folder / f"bound_{number}").glob("*.pc2")
            points = scene_file.read_point_cache(path)
            matrix = np.array(thing.matrix_world, dtype=np.float64)
            local = [to_local(scene_file.from_weft(p, self.scale), matrix) for p in points]
            results.remove_result(thing)
            results.take(thing, path.with_suffix(".local.pc2"), local, self.start)
        self.settings.progress, self.settings.stopped = 1.0, False
        found = [line for line in self._text().splitlines() if "intersections" in line and "not counted" not in line]
        return f"{frames} frames; {found[-1].strip() if found else 'done'}"

    def _show(self, folder, *, levels):
        """Play the exported points on the objects; gives how many frames there are."""
        frames = 0
        for sheet, matrices, name in zip(self.sheets, self.matrices, scene_file.file_names(self.names), strict=True):
            path = self.folder / folder / f"{name}.pc2"
            samples = scene_file.read_point_cache(path)
            frames = len(samples)
            world = [scene_file.from_weft(sample, self.scale) for sample in samples]
            results.remove_result(sheet.thing)
            self._show_one(sheet, matrices, world, path, levels)
        return frames

    def _show_one(self, sheet, matrices, world, path, levels):
        thing, local_path = sheet.thing, path.with_suffix(".local.pc2")
        if levels == 0:
            rest = np.empty(3 * sheet.count, np.float32)
            thing.data.vertices.foreach_get("co", rest)
            points = np.repeat(rest.reshape(1, -1, 3), len(world), axis=0).astype(np.float64)
            for own, there, matrix in zip(points, world, matrices, strict=False):
                own[sheet.used] = to_local(there, matrix)
            results.take(thing, local_path, points, self.start)
            return
        faces = scene_file.read_obj_faces(path.with_suffix(".obj"))
        order = results.quad_order(thing, sheet, faces, levels)
        if order is None:
            results.take_finer(thing, local_path, world, faces, self.start, levels)
        else:
            points = [to_local(there[order], matrix) for there, matrix in zip(world, matrices, strict=False)]
            results.take(thing, local_path, points, self.start, levels=levels)


def hear_interrupts():
    """Let a command be stopped: a Blender started in the background ignores Ctrl-C, and what it starts inherits that."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def to_local(points, matrix):
    """Points of the world in the coordinates of an object."""
    inverse = np.linalg.inv(matrix)
    return points @ inverse[:3, :3].T + inverse[:3, 3]


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
    """The command that runs weft, and its environment."""
    addon = context.preferences.addons.get(__package__)
    given = (addon.preferences.command if addon else "") or os.environ.get("WEFT_COMMAND", "")
    if not given:
        # the wheels of this extension, run by Blender's own Python
        own = find_spec("weft")
        if own is not None and own.origin and find_spec("weft.runtime") is not None:
            packages = str(Path(own.origin).parents[1])
            return [sys.executable, "-m", "weft"], {**os.environ, "PYTHONPATH": packages}
        given = shutil.which("weft")
    if not given:
        raise BakeError(
            "weft is not found: pip install weft-cloth, and name the command in the preferences of this add-on"
        )
    path = Path(bpy.path.abspath(given))
    if not path.exists():
        raise BakeError(f"{path} does not exist: name weft in the preferences of this add-on")
    words = [str(path), "-m", "weft"] if path.stem.startswith("python") else [str(path)]
    # Blender's own packages are not for another Python
    return words, {k: v for k, v in os.environ.items() if k != "PYTHONHOME"}


CLASSES = (WEFT_OT_bake, WEFT_OT_stop, WEFT_OT_clear)


def register():
    for kind in CLASSES:
        bpy.utils.register_class(kind)


def unregister():
    for kind in reversed(CLASSES):
        bpy.utils.unregister_class(kind)

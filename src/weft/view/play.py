"""`weft play`: a scene that is simulated while it is shown in the browser; cloth and colliders can be dragged.

The controls and the mouse only record what is wanted; the loop of the simulation acts on it.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from weft.errors import WeftError
from weft.mesh.topology import split_sharp
from weft.run.realtime import Realtime
from weft.scene import Path as KeyframePath
from weft.scene import Scene, Sequence, Spin, load_scene, rotation
from weft.scene.colours import body_colours
from weft.view.access import serve, start_server, stop_server
from weft.view.camera import choose_view, extent, fit_view, place_camera, subject_of
from weft.view.figures import to_rgb
from weft.view.ground import add_ground
from weft.view.keep import Recording, save_start
from weft.view.live_simulation import adjusted, direction_of_gravity, go_on, make_live
from weft.view.play_panel import PlayPanel, Settings

# pictures a second that the browser gets at most
RATE = 30.0
# s: a new simulation is made when no control has moved for as long
SETTLING = 0.3
# largest speed of a dragged body, m/s: the mouse jumps between two events
HAND_SPEED = 4.0
# width over height of the picture that the first camera is chosen for: most are wider, and show as much from top to bottom
ASPECT = 1.0
# how far below the lowest point the grid lies, in extents of the scene: a floor hides it
GRID_BELOW = 1e-3
# how far from the cloth's first place the mouse drags things, in extents of the scene
HAND_REACH = 10.0


class Hand:
    """What the mouse drags. Events arrive on threads of the server; the loop reads the state once a step."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._body: str | None = None
        self._from = np.zeros(3)
        self._to = np.zeros(3)

    def move(self, event: Any, body: str) -> None:
        """Handle an event of a drag: start, move or end."""
        with self._lock:
            if event.phase == "start":
                self._body, self._from = body, np.array(event.start_position, float)
            self._to = np.array(event.end_position, float)
            if event.phase == "end":
                self._body = None

    def holds(self) -> tuple[str | None, np.ndarray, np.ndarray]:
        """The dragged body (None: no drag), the point where the drag started, and where the mouse is now."""
        with self._lock:
            return self._body, self._from.copy(), self._to.copy()


class LiveView:
    """A server on this machine that simulates one scene. `run` serves until it is interrupted."""

    def __init__(self, scene: Scene | str | Path, *, host: str = "127.0.0.1", port: int = 8080) -> None:
        found = load_scene(scene) if isinstance(scene, str | Path) else scene
        self._given = found
        self.cloth: Any = make_live(found)
        self.scene = self.cloth.scene
        self.dt = 1.0 / self.scene.fps
        self._server, self.url, _ = start_server(host, port)
        self.hand = Hand()
        self._vertex: int | None = None
        self._offset = np.zeros(3)
        self._set_stage()
        wind = self.scene.forces.wind
        usual = (0.0, 0.0, 0.0) if wind is None else wind.velocity
        gravity = float(np.linalg.norm(self.scene.forces.gravity))
        self.panel = PlayPanel(self._server, wind=usual, gravity=gravity, method=self.scene.method.name)
        self.panel.grid.on_update(lambda _: self._show_helpers())
        self.panel.frame.on_click(lambda event: self._frame_all(event.client))
        self._built = self.panel.take().built
        self._rebuild_at = np.inf
        self._problem = ""
        self._kept = ""
        """what was written last, for the panel"""
        self._recording: Recording | None = None
        self._moved: set[str] = set()
        self._due = self._shown = -np.inf
        self._cost = 0.0

    def run(self) -> None:
        """Serve until interrupted."""
        while True:
            self.step(time.monotonic())
            time.sleep(max(self._due - time.monotonic(), 0.002))

    def close(self) -> None:
        """Stop serving, and complete a recording."""
        self._record(False)
        stop_server(self._server)

    def step(self, now: float) -> None:
        """One round of the loop: apply the controls, step if a step is due, and show the result."""
        settings = self.panel.take()
        if settings.reset:
            self._reset(settings)
        if settings.save:
            self._keep(lambda: save_start(self._adjusted(settings), self.cloth))
        if settings.recording != (self._recording is not None):
            self._record(settings.recording)
        if settings.changed:
            self._change(settings, now)
        if now >= self._rebuild_at:
            self._rebuild(settings)
        if settings.playing and now >= self._due:
            # when late, continue from now: simulated time falls behind, the time step stays the same
            self._due = max(self._due, now - 0.5 * self.dt) + self.dt
            self._take_step()
        elif not settings.playing:
            self._due = now + self.dt
            for _ in range(settings.steps):
                self._take_step()
        # 10 % early counts as due: timers are not exact
        if settings.reset or settings.steps or now - self._shown >= 0.9 / RATE:
            self._shown = now
            self._show(settings.playing)

    def _take_step(self) -> None:
        """One step of the simulation; one that fails pauses it, and the panel shows why."""
        self._follow_hand()
        begin = time.perf_counter()
        try:
            self.cloth.step(self.dt)
        except WeftError as error:
            self._problem = str(error)
            self.panel.record(playing=False)
            return
        self._cost += 0.1 * (time.perf_counter() - begin - self._cost)
        recording = self._recording
        if recording is not None:
            self._keep(lambda: recording.add(self.cloth))
            if recording.full:
                self.panel.record(recording=False)

    def _record(self, wanted: bool) -> None:
        """Begin or end a recording."""
        if wanted:

            def begin() -> str:
                self._recording = Recording(self.cloth, self.scene.name, self.dt)
                return f"recording to {self._recording.path}"

            self._keep(begin)
        elif self._recording is not None:
            recording, self._recording = self._recording, None
            self._keep(recording.stop)

    def _keep(self, act: Callable[[], object]) -> None:
        """Write something and say so; what cannot be written ends the recording."""
        try:
            sentence = act()
        except WeftError as error:
            self._recording, sentence = None, str(error)
            self.panel.record(recording=False)
        if isinstance(sentence, str):
            self._kept = sentence

    def _reset(self, settings: Settings) -> None:
        """Return to the start, with the pins of the scene."""
        if settings.cut:
            self.panel.record(cut=False)
            self._rebuild(replace(settings, cut=False))
        self.cloth.reset()
        self._vertex = None
        self._moved.clear()

    def _change(self, settings: Settings, now: float) -> None:
        """Apply changed settings: at once where the simulation can, else by a new one, when the sliders have come to rest."""
        if isinstance(self.cloth, Realtime) and settings.built == self._built:
            self.cloth.motions = settings.motions
            self.cloth.change(
                stretch=settings.stretch,
                bend=settings.bend,
                friction=settings.friction,
                wind=settings.wind,
                gravity=settings.gravity * direction_of_gravity(self._given),
            )
        else:
            self._rebuild_at = now + SETTLING

    def _rebuild(self, settings: Settings) -> None:
        """Go on with a new simulation of the changed scene, from the state of the old one."""
        self._rebuild_at, self._problem, old = np.inf, "", self.cloth
        try:
            fresh = make_live(self._adjusted(settings))
            go_on(fresh, old)
        except WeftError as error:
            self._problem = str(error)
            return
        fresh.motions = settings.motions
        for name in self._moved:
            fresh.move(name, old.poses[name][:3, 3])
        self.cloth, self.scene, self._built, self._vertex = fresh, fresh.scene, settings.built, None
        self.panel.motions.disabled = not isinstance(fresh, Realtime)

    def _adjusted(self, settings: Settings) -> Scene:
        """The scene as the controls have changed it."""
        return adjusted(
            self._given,
            method=settings.method,
            material=settings.material,
            factors=(settings.stretch, settings.bend, settings.friction),
            gravity=settings.gravity,
            wind=settings.wind,
            cut=settings.cut,
        )

    def _follow_hand(self) -> None:
        """Move the dragged vertex or collider towards the mouse."""
        body, start, end = self.hand.holds()
        end = np.clip(end, *self._reach)
        cloth = self.cloth
        if body is None:
            if self._vertex is not None:
                cloth.release([self._vertex])
                self._vertex = None
            self._offset = np.full(3, np.nan)
        elif body in self._cloths:
            if self._vertex is None:
                own = cloth.cloth(body)
                self._vertex = own.start + int(((cloth.positions[own] - start) ** 2).sum(axis=1).argmin())
                cloth.hold([self._vertex])
            cloth.targets[self._vertex] += self._limited(end - cloth.targets[self._vertex])
        else:
            pose = cloth.poses[body]
            if np.isnan(self._offset).any():
                # the collider keeps its offset from the mouse
                self._offset = pose[:3, 3] - start
            self._moved.add(body)
            cloth.move(body, pose[:3, 3] + self._limited(end + self._offset - pose[:3, 3]))

    def _limited(self, way: np.ndarray) -> np.ndarray:
        """A displacement limited to what `HAND_SPEED` allows in a step."""
        return way * min(1.0, HAND_SPEED * self.dt / max(float(np.linalg.norm(way)), 1e-12))

    def _show(self, playing: bool) -> None:
        cloth = self.cloth
        with self._server.atomic():
            for name, meshes in self._cloths.items():
                points = cloth.positions[cloth.cloth(name)].astype(np.float32)
                for mesh in meshes:
                    mesh.vertices = points
            for name, (mesh, corners) in self._colliders.items():
                if corners is None:
                    pose = cloth.poses[name]
                    mesh.position, mesh.wxyz = pose[:3, 3], rotation.quaternion_of(pose[:3, :3])
                else:
                    mesh.vertices = cloth.collider_mesh(name)[0][corners].astype(np.float32)
        self.panel.update(playing, self._recording is not None, self._describe())

    def _describe(self) -> str:
        report = self.cloth.report
        contacts = f"{report.get('contacts', 0)} contacts"
        if isinstance(self.cloth, Realtime):
            contacts += f": {report['generated']} generated, {report['cached']} cached"
        elif report.get("status", "ok") != "ok":
            contacts += f"; {report['status']}"
        cost = f"{self.cloth.time:.2f} s, {1e3 * self._cost:.2f} ms a step of {1e3 * self.dt:.0f}"
        return "  \n".join([f"{self.scene.method.name}: {cost}", contacts, *filter(None, [self._problem, self._kept])])

    def _set_stage(self) -> None:
        server, cloth = self._server, self.cloth
        points, everything = cloth.positions.copy(), self._subject()
        view = choose_view(self.cloth.world, aspect=ASPECT, camera=self.scene.camera, points=everything)
        size = extent(points)
        centre = points.mean(axis=0)
        self._reach = centre - HAND_REACH * size, centre + HAND_REACH * size
        place_camera(server, view, 1e-3 * size, 1e3 * extent(everything))
        self._helpers = add_ground(server.scene, size, self._lowest() - GRID_BELOW * size, shadow=False)
        self._cloths: dict[str, list[Any]] = {}
        self._colliders: dict[str, tuple[Any, np.ndarray | None]] = {}
        bodies = cloth.world.bodies
        for number, (body, sides) in enumerate(zip(bodies, body_colours(bodies, self.scene), strict=True)):
            path = f"/body{number}"
            if body.kind == "cloth":
                self._cloths[body.name] = [
                    self._add(
                        f"{path}/{side}", cloth.positions[body.vertices], cloth.cloth_faces(body.name), colour, side
                    )
                    for side, colour in zip(("front", "back"), sides, strict=True)
                ]
                for mesh in self._cloths[body.name]:
                    self._listen(mesh, body.name)
            else:
                self._add_collider(path, body.name, sides.front)

    def _show_helpers(self) -> None:
        for handle in self._helpers:
            handle.visible = self.panel.grid.value

    def _collider_points(self) -> list[np.ndarray]:
        """Where the vertices of each collider are now."""
        bodies = self.cloth.world.bodies
        return [self.cloth.collider_mesh(body.name)[0] for body in bodies if body.kind == "collider"]

    def _subject(self) -> np.ndarray:
        """Points of all bodies as they are now, which must be in the picture."""
        return subject_of(self.cloth.positions.copy(), [[points] for points in self._collider_points()])

    def _frame_all(self, client: Any) -> None:
        """Move the camera of a browser so that all bodies are in its picture."""
        camera = client.camera
        view = fit_view(self._subject(), aspect=camera.aspect, fov_deg=float(np.degrees(camera.fov)))
        with client.atomic():
            camera.position, camera.look_at = view.position, view.target

    def _lowest(self) -> float:
        """The height of the lowest point of all bodies."""
        return min(float(points[:, 1].min()) for points in (self.cloth.positions, *self._collider_points()))

    def _add_collider(self, path: str, name: str, colour: Any) -> None:
        """Add a collider: a rigid one in its own frame, whose pose is updated; one that deforms in world coordinates."""
        vertices, faces = self.cloth.collider_mesh(name)
        collider = next(c for c in self.scene.colliders if c.name == name)
        deforms = isinstance(collider.motion, Sequence)
        if not deforms:
            pose = self.cloth.poses[name]
            vertices = (vertices - pose[:3, 3]) @ pose[:3, :3]
        corners, faces = split_sharp(vertices, faces)
        mesh = self._add(path, vertices[corners], faces, colour, "double")
        self._colliders[name] = (mesh, corners if deforms else None)
        if not deforms and getattr(collider.shape, "kind", None) != "plane":
            self._listen(mesh, name, moves=isinstance(collider.motion, Spin | KeyframePath))

    def _add(self, path: str, vertices: np.ndarray, faces: np.ndarray, colour: Any, side: Any) -> Any:
        return self._server.scene.add_mesh_simple(
            path, vertices.astype(np.float32), faces.astype(np.uint32), color=to_rgb(colour), side=side
        )

    def _listen(self, mesh: Any, name: str, *, moves: bool = False) -> None:
        """Let the mouse drag a mesh; a body that follows a motion of the scene cannot be dragged while motions are on."""

        @mesh.on_drag("left")
        def _(event: Any) -> None:
            if not (moves and self.cloth.motions):
                self.hand.move(event, name)


def play_scene(
    scene: Scene | str | Path,
    *,
    method: str | None = None,
    host: str = "127.0.0.1",
    port: int = 8080,
    browser: bool = False,
) -> None:
    """Simulate a scene in the browser until interrupted; `method` replaces that of the scene."""
    found = load_scene(scene) if isinstance(scene, str | Path) else scene
    view = LiveView(found if method is None else found.replace(method=method), host=host, port=port)
    serve(view, view.scene.name, host=host, browser=browser)

"""`weft play`: a scene that is simulated while it is looked at; cloth and colliders follow the mouse."""

import contextlib
import io
import time
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from weft.errors import missing_extra
from weft.mesh.shading import split_sharp
from weft.run.realtime import Realtime
from weft.scene import Path as KeyframePath
from weft.scene import Scene, Sequence, Spin
from weft.scene.colours import body_colours
from weft.view.camera import choose_view
from weft.view.figures import to_rgb
from weft.view.play_panel import PlayPanel
from weft.view.subject import extent

# how often the browser gets a new picture at most
RATE = 30.0
# a hand pulls no faster than this, m/s: the mouse jumps between two of its messages
HAND_SPEED = 4.0


class Hand:
    """What the mouse holds. Its events come from the server's threads; the loop asks once a round."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._body: str | None = None
        self._from = np.zeros(3)
        self._to = np.zeros(3)

    def move(self, event: Any, body: str) -> None:
        """A drag began, went on or ended."""
        with self._lock:
            if event.phase == "start":
                self._body, self._from = body, np.array(event.start_position, float)
            self._to = np.array(event.end_position, float)
            if event.phase == "end":
                self._body = None

    def holds(self) -> tuple[str | None, np.ndarray, np.ndarray]:
        """The body it holds, where it took hold, and where it is now."""
        with self._lock:
            return self._body, self._from.copy(), self._to.copy()


class LiveView:
    """A server on this machine that simulates one scene. `run` serves until it is interrupted."""

    def __init__(self, scene: Scene | str | Path, *, host: str = "127.0.0.1", port: int = 8080) -> None:
        try:
            import viser
        except ImportError as error:
            raise missing_extra("view", "viser") from error
        self.cloth = Realtime(scene)
        self.scene = self.cloth.scene
        self.dt = 1.0 / self.scene.fps
        # the server prints a box of its own; one line from the command is enough
        with contextlib.redirect_stdout(io.StringIO()):
            self._server = viser.ViserServer(host=host, port=port, label="weft", verbose=False)
        self._host = host
        self.hand = Hand()
        self._vertex: int | None = None
        self._taken = np.zeros(3)
        self._set_stage()
        wind = self.scene.forces.wind
        self.panel = PlayPanel(self._server, wind=(0.0, 0.0, 0.0) if wind is None else wind.velocity)
        self._due = self._shown = -np.inf
        self._cost = 0.0

    @property
    def url(self) -> str:
        """Where the browser finds it."""
        return f"http://{self._host}:{self._server.get_port()}"

    def run(self) -> None:
        """Serve until interrupted."""
        while True:
            self.step(time.monotonic())
            time.sleep(max(self._due - time.monotonic(), 0.002))

    def close(self) -> None:
        """Stop serving."""
        with contextlib.redirect_stdout(io.StringIO()):
            self._server.stop()

    def step(self, now: float) -> None:
        """One round of the loop: do what the controls ask for, step if a step is due, and show it."""
        wishes = self.panel.take()
        if wishes.reset:
            self.cloth.reset()
            self._vertex = None
        if wishes.changed:
            self._change(wishes)
        if wishes.playing and now >= self._due:
            # who is late goes on from now: simulated time falls behind, steps stay as long as they are
            self._due = max(self._due, now - 0.5 * self.dt) + self.dt
            self._follow_hand()
            begin = time.perf_counter()
            self.cloth.step(self.dt)
            self._cost += 0.1 * (time.perf_counter() - begin - self._cost)
        elif not wishes.playing:
            self._due = now + self.dt
        # a little early is in time: clocks are not exact
        if wishes.reset or now - self._shown >= 0.9 / RATE:
            self._shown = now
            self._show(wishes.playing)

    def _change(self, wishes: Any) -> None:
        self.cloth.motions = wishes.motions
        self.cloth.change(stretch=wishes.stretch, bend=wishes.bend, friction=wishes.friction, wind=wishes.wind)

    def _follow_hand(self) -> None:
        """The vertex that the mouse holds, or the collider, goes where the mouse is."""
        body, start, end = self.hand.holds()
        cloth = self.cloth
        if body is None:
            if self._vertex is not None:
                cloth.release([self._vertex])
                self._vertex = None
            self._taken = np.full(3, np.nan)
        elif body in self._cloths:
            if self._vertex is None:
                part = cloth.cloth(body)
                self._vertex = part.start + int(((cloth.positions[part] - start) ** 2).sum(axis=1).argmin())
                cloth.hold([self._vertex])
            cloth.targets[self._vertex] += self._reached(end - cloth.targets[self._vertex])
        else:
            pose = cloth.poses[body]
            if np.isnan(self._taken).any():
                # what is taken hold of keeps its distance from the mouse
                self._taken = pose[:3, 3] - start
            pose[:3, 3] += self._reached(end + self._taken - pose[:3, 3])

    def _reached(self, way: np.ndarray) -> np.ndarray:
        """As much of a way as the hand goes in a step."""
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
                    mesh.position, mesh.wxyz = pose[:3, 3], _quaternion(pose[:3, :3])
                else:
                    mesh.vertices = cloth.collider_mesh(name)[0][corners].astype(np.float32)
        self.panel.tell(playing, self._describe())

    def _describe(self) -> str:
        report = self.cloth.report
        return "  \n".join(
            [
                f"{self.cloth.time:.2f} s, {1e3 * self._cost:.2f} ms a step of {1e3 * self.dt:.0f}",
                f"{report['contacts']} contacts: {report['generated']} generated, {report['cached']} cached",
            ]
        )

    def _set_stage(self) -> None:
        server, cloth = self._server, self.cloth
        server.scene.set_up_direction("+y")
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        server.gui.main_panel.dock_right()
        points = cloth.positions.copy()
        view = choose_view(self.cloth.world, aspect=4 / 3, camera=self.scene.camera, points=points)  # type: ignore[arg-type]
        camera, size = server.initial_camera, extent(points)
        camera.position, camera.look_at, camera.fov = view.position, view.target, np.radians(view.fov_deg)
        camera.near, camera.far = 1e-3 * size, 1e3 * size
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

    def _add_collider(self, path: str, name: str, colour: Any) -> None:
        """A collider in its own frame, which moves; one that changes its form is in the world."""
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
        """Let the mouse take hold; what follows a motion of the scene cannot be taken from it."""

        @mesh.on_drag("left")
        def _(event: Any) -> None:
            if not (moves and self.cloth.motions):
                self.hand.move(event, name)


def _quaternion(turn: np.ndarray) -> np.ndarray:
    """The unit quaternion (w, x, y, z) of a rotation matrix: the largest column of what four of them make."""
    (a, b, c), (d, e, f), (g, h, i) = turn
    table = np.array(
        [
            [1 + a + e + i, h - f, c - g, d - b],
            [h - f, 1 + a - e - i, b + d, c + g],
            [c - g, b + d, 1 - a + e - i, f + h],
            [d - b, c + g, f + h, 1 - a - e + i],
        ]
    )
    best = table[table.diagonal().argmax()]
    return np.asarray(best / np.linalg.norm(best))


def play_scene(scene: Scene | str | Path, *, host: str = "127.0.0.1", port: int = 8080, browser: bool = False) -> None:
    """Simulate a scene in the browser until interrupted."""
    view = LiveView(scene, host=host, port=port)
    print(f"{view.scene.name} is at {view.url}  (Ctrl-C ends it)", flush=True)
    if browser:
        import webbrowser

        webbrowser.open(view.url)
    try:
        view.run()
    except KeyboardInterrupt:
        pass
    finally:
        view.close()

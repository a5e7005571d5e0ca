"""`weft view`: a cache in the browser, also while it is being written."""

import html
import sys
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.cache import scene_of
from weft.errors import WeftError
from weft.view.access import serve, start_server, stop_server
from weft.view.camera import choose_view, extent, ground_of, subject_points
from weft.view.fields import Field
from weft.view.figures import legend_html, make_figures
from weft.view.timeline import Panel, Player

if TYPE_CHECKING:
    from weft.cache import Cache

# pictures a second that the browser gets at most, and seconds between two looks at a growing cache
RATE = 30.0
POLL = 0.5
RED = (220, 20, 25)


class Viewer:
    """A server on this machine that shows one cache. `run` serves until it is interrupted."""

    def __init__(self, cache: "Cache", *, host: str = "127.0.0.1", port: int = 8080) -> None:
        if cache.frames == 0:
            raise WeftError("the cache has no complete frame yet")
        self.cache = cache
        self._server, self.url = start_server(host, port)
        # an incomplete cache without a writer was interrupted: it will not grow
        live = not cache.complete and cache.writer is not None
        self.player = Player(frames=cache.frames, fps=cache.fps, follow=live)
        points = subject_points(cache)
        self._set_stage(points)
        names = [figure.body.name for figure in self._figures]
        self.panel = Panel(self._server, self.player, names, live=live, report=self._report())
        self._grown = False

        @self.panel.grid.on_update
        def _(_: Any) -> None:
            for handle in self._helpers:
                handle.visible = self.panel.grid.value

        self._fields: dict[str, Field] = {}
        self._marks: Any = None
        self._drawn: int | None = None
        self._polled = -POLL
        self._mark_error = ""
        self._caption = ""
        self.player.grow(cache.frames)

    def run(self) -> None:
        """Serve until interrupted."""
        while True:
            begin = time.monotonic()
            self.step(begin)
            time.sleep(max(1.0 / RATE - (time.monotonic() - begin), 0.002))

    def close(self) -> None:
        """Stop serving."""
        stop_server(self._server)

    def step(self, now: float) -> None:
        """One round of the loop: look for new frames, and show the frame that is due if it is not shown yet."""
        if now - self._polled >= POLL:
            self._polled = now
            self._poll()
        with self.panel.lock:
            frame = self.player.tick(now)
        for figure in self._figures:
            figure.swap(now)
        # a coloured mesh that is still loading would never be shown if the next were sent at once
        if any(figure.busy for figure in self._figures):
            return
        self.panel.update(self._caption, self._report() if self._grown else None)
        self._grown = False
        if self.panel.take() or frame != self._drawn:
            self._show(frame, now)

    def _poll(self) -> None:
        frames = self.cache.frames
        if frames and frames != self.player.frames:
            self._grown = True
            with self.panel.lock:
                self.player.grow(frames)
        if self.cache.complete and self.player.follow:
            with self.panel.lock:
                self.player.follow = False
            self.panel.follow.visible = False

    def _report(self) -> Any:
        """The report of the run; files of other programs have none."""
        return getattr(self.cache, "report", {})

    def _show(self, frame: int, now: float) -> None:
        panel = self.panel
        x = self.cache.positions(frame)
        field = self._field()
        colours = None if field is None else field.colours(frame)
        with self._server.atomic():
            for figure in self._figures:
                figure.shown = figure.body.name not in panel.hidden
                figure.show(x, colours, wireframe=panel.wireframe, now=now)
            self._show_marks(frame)
        panel.legend.visible = field is not None
        if field is not None:
            panel.legend.content = legend_html(field)
        self._drawn = frame
        self._caption = self._describe(frame)

    def _field(self) -> Field | None:
        colour = self.panel.colour
        if colour == "body":
            return None
        if colour not in self._fields:
            self._fields[colour] = Field(self.cache, colour)
        return self._fields[colour]

    def _show_marks(self, frame: int) -> None:
        if self._marks is not None:
            self._marks.remove()
            self._marks = None
        self._mark_error = ""
        if not self.panel.crossings:
            return
        try:
            from weft.check import crossing_marks

            marks = crossing_marks(self.cache, frame)
        except (ImportError, WeftError) as error:
            self._mark_error = f"crossings cannot be shown: {error}"
            return
        if len(marks):
            self._marks = self._server.scene.add_line_segments(
                "/crossings", marks.astype(np.float32), RED, thickness=3.0, thickness_units="screen"
            )

    def _describe(self, frame: int) -> str:
        lines = [f"{frame / self.cache.fps:.3f} s, frame {frame}"]
        row = self.cache.row(frame) if hasattr(self.cache, "row") else {}
        if row.get("intersections") is not None:
            lines.append(f"{row['intersections']} intersections")
        if row.get("status") not in (None, "", "ok"):
            lines.append(str(row["status"]))
        if self._mark_error:
            lines.append(self._mark_error)
        return "  \n".join(lines)

    def _set_stage(self, points: Any) -> None:
        server, cache = self._server, self.cache
        server.scene.set_up_direction("+y")
        server.gui.configure_theme(show_logo=False, show_share_button=False)
        # beside the picture instead of over it
        server.gui.main_panel.dock_right()
        view = choose_view(cache, aspect=4 / 3, points=points)
        camera = server.initial_camera
        camera.position = view.position
        camera.look_at = view.target
        camera.fov = np.radians(view.fov_deg)
        size = extent(points)
        camera.near = 1e-3 * size
        camera.far = 1e3 * size
        ground = ground_of(cache, size)
        height = float(points[:, 1].min())
        if ground is not None:
            shape = cache.positions(0)[ground.vertices]
            if np.ptp(shape[:, 1]) > 1e-6 * size:
                # a sloped plane is drawn as its mesh
                ground = None
            else:
                height = float(shape[0, 1])
        cell = 10.0 ** np.floor(np.log10(size / 2))
        grid = server.scene.add_grid(
            "/ground",
            plane="xz",
            infinite_grid=True,
            cell_size=cell / 2,
            section_size=cell * 2,
            fade_distance=12.0 * size,
            shadow_opacity=0.25 if ground is not None else 0.0,
            position=(0.0, height, 0.0),
        )
        axes = server.scene.add_frame("/axes", axes_length=cell / 2, axes_radius=cell / 120)
        self._helpers = (grid, axes)
        self._figures = make_figures(server, cache, ground)


def view_cache(
    cache: "Cache | str | Path", *, host: str = "127.0.0.1", port: int = 8080, browser: bool = False
) -> None:
    """Show a cache in the browser until interrupted; a run that is still writing it is followed."""
    if isinstance(cache, str | Path):
        from weft.cache import open_cache

        cache = open_cache(cache)
    if cache.frames == 0:
        print("waiting for the first frame", flush=True)
        while cache.frames == 0:
            time.sleep(POLL)
    viewer = Viewer(cache, host=host, port=port)
    name = getattr(scene_of(cache), "name", None) or "cache"
    serve(viewer, name, host=host, browser=browser)


class ViewerHandle:
    """A viewer that runs in the background. In a notebook it shows itself."""

    def __init__(self, viewer: Viewer) -> None:
        self.url = viewer.url
        """the address, with the token that lets a browser in"""
        self.cache = viewer.cache
        self._viewer = viewer
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="weft viewer", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            begin = time.monotonic()
            self._viewer.step(begin)
            self._stop.wait(max(1.0 / RATE - (time.monotonic() - begin), 0.002))

    @property
    def running(self) -> bool:
        """Whether the viewer still serves."""
        return self._thread.is_alive()

    def show(self, frame: int) -> None:
        """Show a frame; a negative one counts from the last."""
        count = self.cache.frames
        if not -count <= frame < count:
            raise WeftError(f"the cache has frames 0 to {count - 1}, and no frame {frame}")
        self._viewer.panel.step_to(frame % count)

    def wait(self) -> None:
        """Wait until the viewer is closed, or Ctrl-C."""
        while self.running:
            self._thread.join(0.2)

    def close(self) -> None:
        """Stop serving. Safe to call twice."""
        if not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            self._viewer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"ViewerHandle({self.url})" if self.running else "ViewerHandle(closed)"

    def _repr_html_(self) -> str:
        """How a notebook on the same machine shows it."""
        return f'<iframe src="{html.escape(self.url, quote=True)}" style="width:100%;height:480px;border:0"></iframe>'


def open_viewer(
    cache: "Cache | str | Path", *, host: str = "127.0.0.1", port: int = 8080, browser: bool = True
) -> ViewerHandle:
    """Show a cache in the background; `browser` opens it in one, where there is no notebook to show it in."""
    if isinstance(cache, str | Path):
        from weft.cache import open_cache

        cache = open_cache(cache)
    handle = ViewerHandle(Viewer(cache, host=host, port=port))
    if browser and "ipykernel" not in sys.modules:
        webbrowser.open(handle.url)
    return handle

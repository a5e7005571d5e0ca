"""`weft view`: a cache in the browser, also while it is being written."""

import html
import sys
import tempfile
import threading
import time
import webbrowser
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from weft.cache import scene_of
from weft.errors import WeftError
from weft.view.access import serve, start_server, stop_server
from weft.view.camera import View, extent, place_camera
from weft.view.tab import ASPECT, Shared, Tab

if TYPE_CHECKING:
    from weft.cache import Cache

# pictures a second that the browser gets at most, and seconds between two looks at a growing cache
RATE = 30.0
POLL = 0.5
# width of saved pictures and films, pixels; their height is that of the browser's picture beside it
SAVED_WIDTH = 1280


class Viewer:
    """A server on this machine that shows one cache. `run` serves until it is interrupted."""

    def __init__(self, cache: "Cache", *, host: str = "127.0.0.1", port: int = 8080) -> None:
        if cache.frames == 0:
            raise WeftError("the cache has no complete frame yet")
        self.cache = cache
        self._server, self.url, gate = start_server(host, port)
        self._shared = Shared.of(cache, gate)
        self._shared.order = lambda tab, kind: self._orders.append((tab, kind))
        self._orders: list[tuple[Tab, str]] = []
        self._drawing = False
        self._lock = threading.Lock()
        self.tabs: dict[int, Tab] = {}
        """the browsers, by their numbers"""
        self.first_frame = 0
        """the frame that a new tab shows first"""
        self._frames = cache.frames
        self._polled = -POLL
        self._set_stage()
        self._server.on_client_connect(self._meet)
        self._server.on_client_disconnect(lambda client: self._close_tab(client.client_id))

    def _meet(self, client: Any) -> None:
        self.open_tab(client.client_id, client)
        if client.client_id not in self._server.get_clients():
            # it went away while its tab was filled
            self._close_tab(client.client_id)

    def open_tab(self, number: int, scope: Any) -> Tab:
        """Show the cache in a browser that has come; `scope` is its client."""
        # an incomplete cache without a writer was interrupted: it will not grow
        live = not self.cache.complete and self.cache.writer is not None
        tab = Tab(self._shared, scope, live=live, frame=self.first_frame)
        with self._lock:
            self.tabs[number] = tab
        return tab

    def _close_tab(self, number: int) -> None:
        with self._lock:
            tab = self.tabs.pop(number, None)
        if tab is not None:
            tab.close()

    def run(self) -> None:
        """Serve until interrupted."""
        while True:
            begin = time.monotonic()
            self.step(begin)
            time.sleep(max(1.0 / RATE - (time.monotonic() - begin), 0.002))

    def close(self) -> None:
        """Stop serving."""
        stop_server(self._server)

    def show(self, frame: int) -> None:
        """Show a frame in all tabs, and first in those that are opened later."""
        self.first_frame = frame
        for tab in self._open_tabs():
            tab.panel.step_to(frame)

    def step(self, now: float) -> None:
        """One round of the loop: look for new frames, show in every tab what is due, and draw what was ordered."""
        report = None
        if now - self._polled >= POLL:
            self._polled = now
            report = self._poll()
        for tab in self._open_tabs():
            tab.step(now, report)
        # in this thread, since some systems draw in the main thread only
        if self._orders and not self._drawing:
            self._drawing = True
            try:
                self._fulfil(*self._orders.pop(0))
            finally:
                self._drawing = False

    def _open_tabs(self) -> list[Tab]:
        with self._lock:
            return list(self.tabs.values())

    def _poll(self) -> Any:
        """Look for new frames; the report if there are any."""
        frames = self.cache.frames
        grown = bool(frames) and frames != self._frames
        self._frames = frames or self._frames
        for tab in self._open_tabs():
            tab.grow(self._frames)
        return getattr(self.cache, "report", {}) if grown else None

    def _fulfil(self, tab: Tab, kind: str) -> None:
        """Draw a picture or a film as a tab has ordered it, and send it to the browser."""
        bar = tab.panel.progress
        bar.value, bar.visible = 0.0, True
        try:
            with tempfile.TemporaryDirectory() as folder:
                path = self._draw(tab, kind, Path(folder))
                tab.scope.send_file_download(path.name, path.read_bytes(), save_immediately=True)
        except (WeftError, OSError) as error:
            tab.scope.add_notification(f"The {kind} cannot be drawn", str(error))
        finally:
            bar.visible = False

    def _draw(self, tab: Tab, kind: str, folder: Path) -> Path:
        """Draw what a tab shows into a file, from its camera; marks other than crossings are left out."""
        from weft.check import crossing_marks
        from weft.view.pictures import Look, draw_film, draw_still

        camera, panel = tab.scope.camera, tab.panel
        view = View(np.array(camera.position), np.array(camera.look_at), float(np.degrees(camera.fov)))
        size = (SAVED_WIDTH, max(round(SAVED_WIDTH / camera.aspect), 16))
        name = getattr(scene_of(self.cache), "name", None) or "cache"
        marked = "crossings" in panel.marks
        look = Look(size, panel.colour, panel.wireframe, marked, hidden=panel.hidden)
        if kind == "picture":
            frame = tab.player.frame
            marks = crossing_marks(self.cache, frame) if marked else None
            path = folder / f"{name}-{frame:04d}.png"
            return draw_still(self.cache, frame, path, look, camera=view, marks=marks)

        def go_on(done: int, total: int) -> None:
            panel.progress.value = 100.0 * done / total
            self.step(time.monotonic())

        red = partial(crossing_marks, self.cache) if marked else None
        return draw_film(self.cache, folder / f"{name}.mp4", look, camera=view, marks=red, progress=go_on)

    def _set_stage(self) -> None:
        size = extent(self._shared.points)
        place_camera(self._server, self._shared.view(ASPECT), 1e-3 * size, 1e3 * size)


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
        self._viewer.show(frame % count)

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

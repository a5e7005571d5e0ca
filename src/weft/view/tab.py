"""What one browser shows of a cache in `weft view`: every tab has its own frame, colours, marks and camera."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.view.access import Gate
from weft.view.camera import choose_view, extent, ground_of, subject_points
from weft.view.curve import ReportCurve
from weft.view.fields import Field
from weft.view.figures import legend_html, make_figures
from weft.view.ground import add_ground
from weft.view.marks import MarkDrawer, MarkFinder
from weft.view.timeline import Panel, Player

if TYPE_CHECKING:
    from weft.cache import Body, Cache
    from weft.view.camera import View

# width over height of the camera's picture where a browser has not said its own
ASPECT = 4 / 3
# a camera has not been moved if it is this near to where it was put, in extents of the scene; the same for its aspect
UNMOVED = 1e-3


@dataclass
class Shared:
    """What all tabs of a viewer have in common."""

    cache: "Cache"
    gate: Gate
    points: np.ndarray
    """points that must be in the picture"""
    finder: MarkFinder
    fields: dict[str, Field] = field(default_factory=dict)
    order: Callable[["Tab", str], None] = lambda tab, kind: None
    """called with a tab and "picture" or "film" when its button is pressed"""

    @classmethod
    def of(cls, cache: "Cache", gate: Gate) -> "Shared":
        """What is shown of this cache."""
        return cls(cache, gate, subject_points(cache), MarkFinder(cache))

    def view(self, aspect: float) -> "View":
        """The camera that has everything in its picture."""
        return choose_view(self.cache, aspect=aspect, points=self.points)


class Tab:
    """One browser: its panel, and the bodies that it shows. `scope` is its client, or a server for all browsers."""

    def __init__(self, shared: Shared, scope: Any, *, live: bool, frame: int = 0) -> None:
        self.shared, self.scope, self.cache = shared, scope, shared.cache
        self.player = Player(frames=shared.cache.frames, fps=shared.cache.fps, follow=live)
        self._add_ground()
        names = [figure.body.name for figure in self.figures]
        self.key = f"tab{getattr(scope, 'client_id', 0)}"
        self.panel = Panel(
            scope.gui,
            self.player,
            names,
            live=live,
            make_curve=self._make_curve,
            actions={
                "frame": self.frame_all,
                "picture": lambda: shared.order(self, "picture"),
                "film": lambda: shared.order(self, "film"),
            },
        )
        shared.gate.actions[self.key] = self.panel.step_to

        @self.panel.grid.on_update
        def _(_: Any) -> None:
            for handle in self.helpers:
                handle.visible = self.panel.grid.value

        self.marks = MarkDrawer(scope.scene, shared.finder, extent(shared.points))
        self.caption = ""
        self._drawn: int | None = None
        self.player.grow(shared.cache.frames)
        if frame:
            self.player.seek(frame)
        self._framed = ASPECT, np.asarray(shared.view(ASPECT).position)
        if hasattr(scope, "camera"):
            scope.camera.on_update(self._keep_framed)
            self._keep_framed(scope.camera)

    def close(self) -> None:
        """Forget the browser."""
        self.shared.gate.actions.pop(self.key, None)

    def step(self, now: float, report: Mapping[str, Any] | None) -> None:
        """Show the frame that is due if it is not shown yet; `report` is that of a cache that has grown."""
        with self.panel.lock:
            frame = self.player.tick(now)
        for figure in self.figures:
            figure.swap(now)
        self.panel.update(self.caption, report)
        # a coloured mesh that is still loading would never be shown if the next were sent at once
        if any(figure.busy for figure in self.figures):
            return
        if self.panel.take() or frame != self._drawn:
            self._show(frame, now)

    def grow(self, frames: int) -> None:
        """Take note of new frames; where the run is over there is nothing to follow."""
        with self.panel.lock:
            self.player.grow(frames)
            done = self.cache.complete and self.player.follow
            if done:
                self.player.follow = False
        if done:
            self.panel.follow.visible = False

    def frame_all(self) -> None:
        """Move the camera so that all bodies of all frames are in the picture."""
        camera = getattr(self.scope, "camera", None)
        if camera is None:
            return
        view = self.shared.view(camera.aspect)
        self._framed = camera.aspect, np.asarray(view.position)
        with self.scope.atomic():
            camera.position, camera.look_at = view.position, view.target
            camera.fov = np.radians(view.fov_deg)

    def _keep_framed(self, camera: Any) -> None:
        """Frame everything again when the picture gets another shape, unless the user has moved the camera."""
        aspect, position = self._framed
        moved = np.linalg.norm(np.asarray(camera.position) - position) > UNMOVED * extent(self.shared.points)
        if not moved and abs(camera.aspect - aspect) > UNMOVED * aspect:
            self.frame_all()

    def _show(self, frame: int, now: float) -> None:
        panel, colour = self.panel, self.panel.colour
        x = self.cache.positions(frame)
        shown = None
        if colour != "body":
            shown = self.shared.fields.setdefault(colour, Field(self.cache, colour))
        colours = None if shown is None else shown.colours(frame)
        with self.scope.atomic():
            for figure in self.figures:
                figure.shown = figure.body.name not in panel.hidden
                figure.show(x, colours, wireframe=panel.wireframe, now=now)
            counts = self.marks.show(frame, panel.marks)
        panel.legend.visible = shown is not None
        if shown is not None:
            panel.legend.content = legend_html(shown)
        self._drawn = frame
        self.caption = self._describe(frame, counts)

    def _describe(self, frame: int, counts: Mapping[str, int]) -> str:
        lines = [f"{frame / self.cache.fps:.3f} s, frame {frame}"]
        row = self.cache.row(frame) if hasattr(self.cache, "row") else {}
        if row.get("intersections") is not None:
            lines.append(f"{row['intersections']} intersections")
        if row.get("status") not in (None, "", "ok"):
            lines.append(str(row["status"]))
        lines += [f"{name}: {count}" for name, count in counts.items()]
        if self.marks.error:
            lines.append(self.marks.error)
        return "  \n".join(lines)

    def _make_curve(self, gui: Any) -> ReportCurve:
        """The curve of the report; a file of another program has none, but its crossings can be counted."""
        report = getattr(self.cache, "report", {})
        finder = self.shared.finder
        more: dict[str, Callable[[], Any]] = {
            "energy": finder.energy,
            "kinetic energy": partial(finder.energy, "kinetic"),
            "elastic energy": partial(finder.energy, "elastic"),
        }
        return ReportCurve(gui, report, self.key, more if finder.has_scene else {})

    def _add_ground(self) -> None:
        """The ground grid, the axes in the origin, and the bodies; a flat floor is drawn as the grid."""
        scene, cache, points = self.scope.scene, self.cache, self.shared.points
        size = extent(points)
        ground: Body | None = ground_of(cache, size)
        height = float(points[:, 1].min())
        if ground is not None:
            shape = cache.positions(0)[ground.vertices]
            if np.ptp(shape[:, 1]) > 1e-6 * size:
                # a sloped plane is drawn as its mesh
                ground = None
            else:
                height = float(shape[0, 1])
        self.helpers = add_ground(scene, size, height, shadow=ground is not None)
        self.figures = make_figures(self.scope, cache, ground)

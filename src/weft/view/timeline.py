"""The timeline of `weft view`: which frame is due, and the controls beside the picture in the browser.

The controls only record what is wanted; the loop of the viewer acts on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from weft.view.fields import COLOURS, Colour


@dataclass
class Player:
    """Playback state (play, pause, seek, speed, loop, follow a growing cache); `tick` returns the frame that is due."""

    frames: int
    fps: float
    speed: float = 1.0
    loop: bool = True
    playing: bool = False
    follow: bool = False
    position: float = 0.0
    _last: float | None = None

    @property
    def frame(self) -> int:
        """The frame that is shown."""
        return min(int(self.position), max(self.frames - 1, 0))

    def play(self) -> None:
        """Start playing; at the end, from the beginning."""
        if self.frame >= self.frames - 1:
            self.position = 0.0
        self.playing = True
        self.follow = False
        self._last = None

    def pause(self) -> None:
        """Stay on this frame."""
        self.playing = False
        self.position = float(self.frame)

    def seek(self, frame: int) -> None:
        """Show a frame and stay there; going back stops following."""
        self.position = float(min(max(frame, 0), max(self.frames - 1, 0)))
        self.playing = False
        self.follow = self.follow and self.frame == self.frames - 1

    def grow(self, frames: int) -> None:
        """Set the number of frames that exist now."""
        self.frames = frames
        if self.follow and frames:
            self.position = float(frames - 1)
        self.position = min(self.position, float(max(frames - 1, 0)))

    def tick(self, now: float) -> int:
        """The frame to show at the time `now` (seconds of any steady clock)."""
        elapsed = 0.0 if self._last is None else now - self._last
        self._last = now
        if not self.playing or self.frames < 2:
            return self.frame
        self.position += elapsed * self.fps * self.speed
        if self.position >= self.frames:
            if self.loop:
                self.position %= self.frames
            else:
                self.position = float(self.frames - 1)
                self.playing = False
        return self.frame


# columns of the report that can be drawn as a curve, those that a run has, in the order of the choice
CURVES = (
    "contacts",
    "intersections",
    "crossing",
    "released",
    "stretch",
    "stretch_99",
    "collisions",
    "zones",
    "wall_time",
)
CURVE_COLOUR, CURSOR_COLOUR = "#3366cc", "#dc1419"


class ReportCurve:
    """A column of the report over the frames, below the timeline, with a mark at the frame that is shown."""

    def __init__(self, gui: Any, report: Mapping[str, Any]) -> None:
        self._report, self._drawn = report, (-1, -1, "")
        columns = [name for name in CURVES if name in report and np.ndim(report[name]) == 1]
        self._plot: Any = None
        if not columns:
            return
        self._column = columns[0]
        with gui.add_folder("Report"):
            self._choice = gui.add_dropdown("curve", tuple(columns), initial_value=columns[0])
            self._plot = gui.add_uplot(
                data=self._data(columns[0], 0),
                series=(
                    {"label": "frame"},
                    {"label": "value", "stroke": CURVE_COLOUR, "width": 1.5},
                    {"label": "now", "stroke": CURSOR_COLOUR, "points": {"show": True, "size": 9}},
                ),
                scales=self._scales(columns[0]),
                legend={"show": False},
                aspect=2.0,
            )

    def update(self, report: Mapping[str, Any] | None, frames: int, frame: int) -> None:
        """Draw the chosen column with a mark at a frame; `report` is given where it has grown."""
        if report is not None:
            self._report = report
        if self._plot is None:
            return
        wanted = (frames, frame, str(self._choice.value))
        if wanted != self._drawn:
            self._drawn = wanted
            if wanted[2] != self._column or report is not None:
                self._column = wanted[2]
                self._plot.scales = self._scales(self._column)
            self._plot.data = self._data(wanted[2], frame)

    def _scales(self, column: str) -> dict[str, Any]:
        """The ranges of both axes: left to itself the plot would take NaN, where there is no mark, for a value."""
        values = np.asarray(self._report[column], dtype=np.float64)
        values = values[np.isfinite(values)]
        low, high = min(values.min(initial=0.0), 0.0), values.max(initial=0.0)
        room = 0.05 * (high - low) or 1.0
        last = max(len(self._report[column]) - 1, 1)
        return {"x": {"time": False, "range": (0.0, float(last))}, "y": {"range": (low - room, high + room)}}

    def _data(self, column: str, frame: int) -> tuple[np.ndarray, ...]:
        """The frames, the values, and the values again at the shown frame alone."""
        values = np.asarray(self._report[column], dtype=np.float64)
        frames = np.arange(len(values), dtype=np.float64)
        return frames, values, np.where(frames == frame, values, np.nan)


SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}


class Panel:
    """Controls of timeline, colours and bodies. `changed` is set when the picture must be drawn again."""

    def __init__(
        self, server: Any, player: Player, bodies: list[str], *, live: bool, report: Mapping[str, Any] | None = None
    ) -> None:
        self.player = player
        self.lock = Lock()
        self._sent_frame = 0
        self.changed = True
        self.colour: Colour = "body"
        self.wireframe = False
        self.crossings = False
        self.hidden: set[str] = set()
        gui = server.gui
        self._add_timeline(gui, live=live)
        self.curve = ReportCurve(gui, report or {})
        self._add_look(gui)
        with gui.add_folder("Bodies", expand_by_default=len(bodies) <= 12):
            for name in bodies:
                self._add_body(gui, name)
        self._add_keys(gui)

    def _add_timeline(self, gui: Any, *, live: bool) -> None:
        with gui.add_folder("Timeline"):
            self.slider = gui.add_slider("frame", min=0, max=max(self.player.frames - 1, 1), step=1, initial_value=0)
            self.words = gui.add_markdown("")
            self.button = gui.add_button("Play", hint="or press space")
            steps = gui.add_button_group("step", ("first", "back", "on", "last"))
            speed = gui.add_dropdown("speed", tuple(SPEEDS), initial_value="1")
            loop = gui.add_checkbox("loop", self.player.loop)
            self.follow = gui.add_checkbox("follow the run", self.player.follow, visible=live)

        @self.slider.on_update
        def _(event: Any) -> None:
            # updates by the program itself arrive here without a client
            if event.client is not None:
                self._sent_frame = int(self.slider.value)
                self.step_to(self._sent_frame)

        @self.button.on_click
        def _(_: Any) -> None:
            self.toggle()

        @steps.on_click
        def _(_: Any) -> None:
            frame = self.player.frame
            self.step_to({"first": 0, "back": frame - 1, "on": frame + 1, "last": self.player.frames}[steps.value])

        @speed.on_update
        def _(_: Any) -> None:
            with self.lock:
                self.player.speed = SPEEDS[speed.value]

        @loop.on_update
        def _(_: Any) -> None:
            with self.lock:
                self.player.loop = loop.value

        @self.follow.on_update
        def _(event: Any) -> None:
            if event.client is not None:
                with self.lock:
                    self.player.follow = self.follow.value
                    self.player.playing = self.player.playing and not self.follow.value

    def _add_look(self, gui: Any) -> None:
        with gui.add_folder("Look"):
            colour = gui.add_dropdown("colour by", COLOURS, initial_value="body")
            self.legend = gui.add_html("", visible=False)
            wireframe = gui.add_checkbox("wireframe", False)
            crossings = gui.add_checkbox("crossings", False, hint="edges that pass through triangles, in red")
            self.grid = gui.add_checkbox("grid and axes", True, hint="axes in the origin: x red, y green, z blue")

        @colour.on_update
        def _(_: Any) -> None:
            self.record(colour=colour.value)

        @wireframe.on_update
        def _(_: Any) -> None:
            self.record(wireframe=wireframe.value)

        @crossings.on_update
        def _(_: Any) -> None:
            self.record(crossings=crossings.value)

    def _add_body(self, gui: Any, name: str) -> None:
        box = gui.add_checkbox(name, True)

        @box.on_update
        def _(_: Any) -> None:
            self.record(hidden=self.hidden - {name} if box.value else self.hidden | {name})

    def _add_keys(self, gui: Any) -> None:
        for label, key, act in (
            ("Play or pause", "space", self.toggle),
            ("Next frame", "arrowright", lambda: self.step_to(self.player.frame + 1)),
            ("Previous frame", "arrowleft", lambda: self.step_to(self.player.frame - 1)),
            ("First frame", "home", lambda: self.step_to(0)),
            ("Last frame", "end", lambda: self.step_to(self.player.frames - 1)),
        ):
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(lambda _, act=act: act())

    def record(self, **settings: Any) -> None:
        """Record changed settings and that the picture is out of date."""
        with self.lock:
            for name, value in settings.items():
                setattr(self, name, value)
            self.changed = True

    def toggle(self) -> None:
        """Play or pause."""
        with self.lock:
            self.player.pause() if self.player.playing else self.player.play()

    def step_to(self, frame: int) -> None:
        """Show a frame and stay there."""
        with self.lock:
            self.player.seek(frame)

    def take(self) -> bool:
        """Whether something has changed since the last call."""
        with self.lock:
            changed, self.changed = self.changed, False
            return changed

    def update(self, text: str, report: Mapping[str, Any] | None = None) -> None:
        """Update the controls to the state of the player and show a text; `report` is given where it has grown."""
        player = self.player
        self.curve.update(report, player.frames, player.frame)
        self.slider.max = max(player.frames - 1, 1)
        # the slider is only moved when the frame changed, so that a user can drag it
        if player.frame != self._sent_frame:
            self._sent_frame = player.frame
            self.slider.value = player.frame
        self.button.label = "Pause" if player.playing else "Play"
        self.follow.value = player.follow
        self.words.content = text

"""The timeline of `weft view`: which frame is due, and the controls beside the picture in the browser.

The controls only record what is wanted; the loop of the viewer acts on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from weft.view.curve import ReportCurve
from weft.view.fields import COLOURS, Colour
from weft.view.marks import KINDS


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


SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}


class Panel:
    """Controls of timeline, colours and bodies. `changed` is set when the picture must be drawn again."""

    def __init__(
        self,
        gui: Any,
        player: Player,
        bodies: list[str],
        *,
        live: bool,
        make_curve: Callable[[Any], ReportCurve],
        actions: Mapping[str, Callable[[], None]],
    ) -> None:
        """Fill the panel of one browser; `actions` are those of the buttons: frame, picture and film."""
        self.player = player
        self.lock = Lock()
        self._sent_frame = 0
        self.changed = True
        self.colour: Colour = "body"
        self.wireframe = False
        self.marks: set[str] = set()
        self.hidden: set[str] = set()
        self._add_timeline(gui, live=live)
        self.curve = make_curve(gui)
        self._add_look(gui)
        self._add_actions(gui, actions)
        with gui.add_folder("Bodies", expand_by_default=len(bodies) <= 12):
            for name in bodies:
                self._add_body(gui, name)
        self._add_keys(gui, actions)

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
            self.grid = gui.add_checkbox("grid and axes", True, hint="axes in the origin: x red, y green, z blue")

        @colour.on_update
        def _(_: Any) -> None:
            self.record(colour=colour.value)

        @wireframe.on_update
        def _(_: Any) -> None:
            self.record(wireframe=wireframe.value)

        with gui.add_folder("Marks"):
            for kind in KINDS:
                self._add_marks(gui, kind.name, kind.hint)

    def _add_marks(self, gui: Any, name: str, hint: str) -> None:
        box = gui.add_checkbox(name, False, hint=hint)

        @box.on_update
        def _(_: Any) -> None:
            self.record(marks=self.marks | {name} if box.value else self.marks - {name})

    def _add_actions(self, gui: Any, actions: Mapping[str, Callable[[], None]]) -> None:
        with gui.add_folder("Picture"):
            buttons = {
                "frame": gui.add_button("Frame all", hint="bring all bodies of all frames into view; or press F"),
                "picture": gui.add_button("Save a picture", hint="this frame from this camera, as a PNG file"),
                "film": gui.add_button("Save a film", hint="all frames from this camera, as an mp4 file"),
            }
            self.progress = gui.add_progress_bar(0.0, visible=False)
        for name, button in buttons.items():
            button.on_click(lambda _, act=actions[name]: act())

    def _add_body(self, gui: Any, name: str) -> None:
        box = gui.add_checkbox(name, True)

        @box.on_update
        def _(_: Any) -> None:
            self.record(hidden=self.hidden - {name} if box.value else self.hidden | {name})

    def _add_keys(self, gui: Any, actions: Mapping[str, Callable[[], None]]) -> None:
        for label, key, act in (
            ("Play or pause", "space", self.toggle),
            ("Next frame", "arrowright", lambda: self.step_to(self.player.frame + 1)),
            ("Previous frame", "arrowleft", lambda: self.step_to(self.player.frame - 1)),
            ("First frame", "home", lambda: self.step_to(0)),
            ("Last frame", "end", lambda: self.step_to(self.player.frames - 1)),
            ("Frame all", "f", actions["frame"]),
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

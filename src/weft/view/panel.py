"""The controls beside the picture in the browser. They only note what is wanted; the viewer's loop does it."""

from threading import Lock
from typing import Any

from weft.view.fields import COLOURS, Colour
from weft.view.player import Player

SPEEDS = {"1/10": 0.1, "1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0}


class Panel:
    """Timeline, colours and bodies. `changed` is set when the picture has to be made anew."""

    def __init__(self, server: Any, player: Player, bodies: list[str], *, live: bool) -> None:
        self.player = player
        self.lock = Lock()
        self._told = 0
        self.changed = True
        self.colour: Colour = "body"
        self.wireframe = False
        self.crossings = False
        self.hidden: set[str] = set()
        gui = server.gui
        self._add_timeline(gui, live=live)
        self._add_look(gui)
        with gui.add_folder("Bodies", expand_by_default=len(bodies) <= 12):
            for name in bodies:
                self._add_body(gui, name)
        self._add_keys(gui)

    def _add_timeline(self, gui: Any, *, live: bool) -> None:
        with gui.add_folder("Timeline"):
            self.slider = gui.add_slider("frame", min=0, max=max(self.player.frames - 1, 1), step=1, initial_value=0)
            self.words = gui.add_markdown("")
            self.button = gui.add_button("Play", hint="or press P")
            steps = gui.add_button_group("step", ("first", "back", "on", "last"))
            speed = gui.add_dropdown("speed", tuple(SPEEDS), initial_value="1")
            loop = gui.add_checkbox("loop", self.player.loop)
            self.follow = gui.add_checkbox("follow the run", self.player.follow, visible=live)

        @self.slider.on_update
        def _(event: Any) -> None:
            # our own updates come back here without a client
            if event.client is not None:
                self._told = int(self.slider.value)
                self.step_to(self._told)

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

        @colour.on_update
        def _(_: Any) -> None:
            self.note(colour=colour.value)

        @wireframe.on_update
        def _(_: Any) -> None:
            self.note(wireframe=wireframe.value)

        @crossings.on_update
        def _(_: Any) -> None:
            self.note(crossings=crossings.value)

    def _add_body(self, gui: Any, name: str) -> None:
        box = gui.add_checkbox(name, True)

        @box.on_update
        def _(_: Any) -> None:
            self.note(hidden=self.hidden - {name} if box.value else self.hidden | {name})

    def _add_keys(self, gui: Any) -> None:
        for label, key, act in (
            ("Play or pause", "P", self.toggle),
            ("Next frame", "N", lambda: self.step_to(self.player.frame + 1)),
            ("Previous frame", "B", lambda: self.step_to(self.player.frame - 1)),
        ):
            command = gui.add_command(label, hotkey=key)
            command.on_trigger(lambda _, act=act: act())

    def note(self, **wishes: Any) -> None:
        """Remember what is wanted and that the picture is out of date."""
        with self.lock:
            for name, value in wishes.items():
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

    def tell(self, words: str) -> None:
        """Bring the controls in line with the player."""
        player = self.player
        self.slider.max = max(player.frames - 1, 1)
        # a slider that a hand moves is not moved against it
        if player.frame != self._told:
            self._told = player.frame
            self.slider.value = player.frame
        self.button.label = "Pause" if player.playing else "Play"
        self.follow.value = player.follow
        self.words.content = words

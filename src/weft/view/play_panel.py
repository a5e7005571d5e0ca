"""The controls of `weft play`. They only record what is wanted; the loop of the simulation acts on it."""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

from weft.scene import MATERIALS, MethodOptions
from weft.scene.scene import GRAVITY

METHODS = tuple(MethodOptions.known)
RECORD = "Record to a cache"
HELP = "Drag the cloth or a collider with the mouse; drag beside them to turn the view."


@dataclass(frozen=True)
class Settings:
    """The state of the controls; `changed`, `reset`, `steps` and `save` are set until they are taken once."""

    playing: bool = True
    changed: bool = False
    reset: bool = False
    steps: int = 0
    """single steps to take while it pauses"""
    recording: bool = False
    save: bool = False
    """write this moment as the start of a scene"""
    motions: bool = True
    stretch: float = 1.0
    bend: float = 1.0
    friction: float = 1.0
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)
    gravity: float = GRAVITY
    method: str = ""
    material: str = ""
    cut: bool = False

    @property
    def built(self) -> tuple[str, str, bool]:
        """What only a new simulation can change."""
        return self.method, self.material, self.cut


OF_THE_SCENE = "of the scene"


class PlayPanel:
    """Pause, step, reset, record, save; method, material, stiffness, friction, pins, gravity and wind."""

    def __init__(self, server: Any, *, wind: tuple[float, float, float], gravity: float, method: str) -> None:
        self._lock = Lock()
        self._settings = Settings(wind=wind, gravity=gravity, method=method)
        gui = server.gui
        with gui.add_folder("Simulation"):
            self.words = gui.add_markdown("")
            self.pause = gui.add_button("Pause", hint="or press space, or P")
            step = gui.add_button("Step", hint="pause, and go on by one step; or press the right arrow")
            reset = gui.add_button("Reset", hint="or press R")
            self.frame = gui.add_button("Frame all", hint="move the camera so that all bodies are in the picture")
            self.grid = gui.add_checkbox("grid and axes", True, hint="axes in the origin: x red, y green, z blue")
            gui.add_markdown(HELP)
        with gui.add_folder("Keep"):
            self.recording = gui.add_button(RECORD, hint="every step as a frame of a cache in the current folder")
            save = gui.add_button(
                "Save as a scene", hint="a scene that starts with cloth and colliders as they are now"
            )
        self.pause.on_click(lambda _: self.toggle())
        step.on_click(lambda _: self.step_once())
        reset.on_click(lambda _: self.record(reset=True))
        self.recording.on_click(lambda _: self.record(recording=not self._settings.recording))
        save.on_click(lambda _: self.record(save=True))
        for label, key, act in (
            ("Pause or go on", "space", self.toggle),
            ("Pause or continue", "P", self.toggle),
            ("One step", "arrowright", self.step_once),
            ("Reset", "R", lambda: self.record(reset=True)),
        ):
            gui.add_command(label, hotkey=key).on_trigger(lambda _, act=act: act())
        self._add_adjustments(gui, wind, gravity, method)

    def _add_adjustments(self, gui: Any, wind: tuple[float, float, float], gravity: float, method: str) -> None:
        """Stiffness, friction, wind, method, material, pins, gravity and motions."""
        with gui.add_folder("Scene"):
            self.method = gui.add_dropdown("method", METHODS, initial_value=method)
            self.gravity = gui.add_slider(
                "gravity, m/s^2", min=0.0, max=max(20.0, gravity), step=0.01, initial_value=gravity
            )
            self.motions = gui.add_checkbox(
                "motions of the scene", True, hint="of predictive: without them every collider can be dragged"
            )
            self.motions.disabled = method != "predictive"
        with gui.add_folder("Cloth"):
            self.material = gui.add_dropdown("material", (OF_THE_SCENE, *MATERIALS), initial_value=OF_THE_SCENE)
            self.cut = gui.add_button("Cut all pins", hint="until Reset; or press C")
            # powers of ten: one slider spans four decades of stiffness
            self.stretch = gui.add_slider("stretch, times 10^", min=-2.0, max=2.0, step=0.1, initial_value=0.0)
            self.bend = gui.add_slider("bend, times 10^", min=-2.0, max=2.0, step=0.1, initial_value=0.0)
            self.friction = gui.add_slider("friction, times", min=0.0, max=4.0, step=0.1, initial_value=1.0)
        with gui.add_folder("Wind"):
            speed = float(np.linalg.norm(wind))
            angle = float(np.degrees(np.arctan2(-wind[2], wind[0]))) % 360.0
            self.wind = gui.add_slider("m/s", min=0.0, max=20.0, step=0.5, initial_value=round(2.0 * speed) / 2.0)
            self.angle = gui.add_slider("from x about y, degrees", min=0, max=360, step=5, initial_value=round(angle))

        self.method.on_update(lambda _: self.record(method=str(self.method.value), changed=True))
        self.material.on_update(
            lambda _: self.record(material=str(self.material.value).replace(OF_THE_SCENE, ""), changed=True)
        )
        self.cut.on_click(lambda _: self.record(cut=True, changed=True))
        gui.add_command("Cut all pins", hotkey="C").on_trigger(lambda _: self.record(cut=True, changed=True))
        self.gravity.on_update(lambda _: self.record(gravity=float(self.gravity.value), changed=True))
        self.motions.on_update(lambda _: self.record(motions=self.motions.value, changed=True))
        for slider, name in ((self.stretch, "stretch"), (self.bend, "bend")):
            slider.on_update(lambda _, s=slider, n=name: self.record(**{n: 10.0**s.value}, changed=True))
        self.friction.on_update(lambda _: self.record(friction=float(self.friction.value), changed=True))
        for slider in (self.wind, self.angle):
            slider.on_update(lambda _: self.record(wind=self._blowing(), changed=True))

    def record(self, **settings: Any) -> None:
        """Record changed settings."""
        with self._lock:
            self._settings = replace(self._settings, **settings)

    def toggle(self) -> None:
        """Pause or go on."""
        with self._lock:
            self._settings = replace(self._settings, playing=not self._settings.playing)

    def step_once(self) -> None:
        """Pause, and take one step."""
        with self._lock:
            self._settings = replace(self._settings, playing=False, steps=self._settings.steps + 1)

    def take(self) -> Settings:
        """The current settings; what is taken once is cleared."""
        with self._lock:
            settings = self._settings
            self._settings = replace(settings, changed=False, reset=False, steps=0, save=False)
            return settings

    def update(self, playing: bool, recording: bool, text: str) -> None:
        """Update the buttons that pause and record, and show a text."""
        self.pause.label = "Pause" if playing else "Go on"
        self.recording.label = "Stop recording" if recording else RECORD
        self.words.content = text

    def _blowing(self) -> tuple[float, float, float]:
        angle = np.radians(self.angle.value)
        return float(self.wind.value * np.cos(angle)), 0.0, float(-self.wind.value * np.sin(angle))

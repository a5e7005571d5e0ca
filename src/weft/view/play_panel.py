"""The controls of a live simulation. They only note what is wanted; the loop does it."""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np

HELP = "Drag the cloth or a collider with the mouse; drag beside them to turn the view."


@dataclass(frozen=True)
class Wishes:
    """What the controls say; `changed` and `reset` are true once."""

    playing: bool = True
    changed: bool = False
    reset: bool = False
    motions: bool = True
    stretch: float = 1.0
    bend: float = 1.0
    friction: float = 1.0
    wind: tuple[float, float, float] = (0.0, 0.0, 0.0)


class PlayPanel:
    """Pause, reset, stiffness, friction and wind."""

    def __init__(self, server: Any, *, wind: tuple[float, float, float]) -> None:
        self._lock = Lock()
        self._wishes = Wishes(wind=wind)
        gui = server.gui
        with gui.add_folder("Simulation"):
            self.words = gui.add_markdown("")
            self.pause = gui.add_button("Pause", hint="or press P")
            reset = gui.add_button("Reset", hint="or press R")
            motions = gui.add_checkbox("motions of the scene", True, hint="without them every collider can be dragged")
            gui.add_markdown(HELP)
        with gui.add_folder("Cloth"):
            # powers of ten, so that one slider reaches from rubber to tin
            self.stretch = gui.add_slider("stretch, times 10^", min=-2.0, max=2.0, step=0.1, initial_value=0.0)
            self.bend = gui.add_slider("bend, times 10^", min=-2.0, max=2.0, step=0.1, initial_value=0.0)
            self.friction = gui.add_slider("friction, times", min=0.0, max=4.0, step=0.1, initial_value=1.0)
        with gui.add_folder("Wind"):
            speed = float(np.linalg.norm(wind))
            angle = float(np.degrees(np.arctan2(-wind[2], wind[0]))) % 360.0
            self.wind = gui.add_slider("m/s", min=0.0, max=20.0, step=0.5, initial_value=round(2.0 * speed) / 2.0)
            self.angle = gui.add_slider("from x about y, degrees", min=0, max=360, step=5, initial_value=round(angle))

        self.pause.on_click(lambda _: self.toggle())
        reset.on_click(lambda _: self.note(reset=True))
        motions.on_update(lambda _: self.note(motions=motions.value, changed=True))
        for slider, name in ((self.stretch, "stretch"), (self.bend, "bend")):
            slider.on_update(lambda _, s=slider, n=name: self.note(**{n: 10.0**s.value}, changed=True))
        self.friction.on_update(lambda _: self.note(friction=float(self.friction.value), changed=True))
        for slider in (self.wind, self.angle):
            slider.on_update(lambda _: self.note(wind=self._blowing(), changed=True))
        for label, key, act in (
            ("Pause or go on", "P", self.toggle),
            ("Reset", "R", lambda: self.note(reset=True)),
        ):
            gui.add_command(label, hotkey=key).on_trigger(lambda _, act=act: act())

    def note(self, **wishes: Any) -> None:
        """Remember what is wanted."""
        with self._lock:
            self._wishes = replace(self._wishes, **wishes)

    def toggle(self) -> None:
        """Pause or go on."""
        with self._lock:
            self._wishes = replace(self._wishes, playing=not self._wishes.playing)

    def take(self) -> Wishes:
        """What is wanted; what is to be done once is told once."""
        with self._lock:
            wishes, self._wishes = self._wishes, replace(self._wishes, changed=False, reset=False)
            return wishes

    def tell(self, playing: bool, words: str) -> None:
        """Bring the controls in line with the simulation."""
        self.pause.label = "Pause" if playing else "Go on"
        self.words.content = words

    def _blowing(self) -> tuple[float, float, float]:
        angle = np.radians(self.angle.value)
        return float(self.wind.value * np.cos(angle)), 0.0, float(-self.wind.value * np.sin(angle))

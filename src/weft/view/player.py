"""Which frame is shown when: play, pause, scrub, speed, loop, and following a run that still grows."""

from dataclasses import dataclass


@dataclass
class Player:
    """A clock over frames. It knows nothing of a screen; `tick` says which frame is due."""

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
        """Start; from the beginning when at the end."""
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
        """Take notice of how many frames there are now."""
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

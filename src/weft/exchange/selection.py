"""What of a cache is written: which frames and bodies, with their triangles, colours and flat coordinates."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.exchange.sequence import choose_bodies

if TYPE_CHECKING:
    from weft.cache import Body, Cache

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int32]
Report = Callable[[int, int], None]


@dataclass(frozen=True)
class Exported:
    """What was written."""

    paths: list[Path]
    frames: list[int]
    rounding: dict[int, int] = field(default_factory=dict)
    """frame -> intersections that are in the file and not in the cache: made by rounding to 32 bits"""


class Selection:
    """Frames and bodies of a cache."""

    def __init__(
        self, cache: "Cache", frames: Sequence[int] | None = None, bodies: Iterable[str] | None = None
    ) -> None:
        self.cache = cache
        count = cache.frames
        self.frames = list(range(count)) if frames is None else [int(f) for f in frames]
        if not self.frames:
            raise WeftError("there are no frames to export: the cache has none yet, or the choice of frames is empty")
        wrong = [f for f in self.frames if not 0 <= f < count]
        if wrong:
            raise WeftError(f"there is no frame {wrong[0]}: the cache has frames 0 to {count - 1}")
        self.bodies: list[Body] = choose_bodies(cache, bodies)
        if not self.bodies:
            raise WeftError("there is nothing to export: the cache has no bodies, or the choice of bodies is empty")
        self.vertices: NDArray[np.intp] = np.concatenate(
            [np.arange(b.vertices.start, b.vertices.stop) for b in self.bodies]
        )
        """which of the cache's vertices are written, in order"""

    def faces(self, body: "Body") -> Ints:
        """A body's triangles, by its own vertices."""
        return self.cache.faces[body.faces] - np.int32(body.vertices.start)

    def uv(self, body: "Body") -> Floats | None:
        """A body's flat rest coordinates in metres, if all its vertices have some."""
        if self.cache.uv is None:
            return None
        own = np.asarray(self.cache.uv[body.vertices])
        return own if len(own) and np.isfinite(own).all() else None

    def colour(self, body: "Body") -> Floats:
        """A body's colour, sRGB in 0 to 1: the scene's, or one of the palette, as in pictures."""
        from weft.cache import scene_of
        from weft.scene.colours import body_colours

        pairs = body_colours(self.cache.bodies, scene_of(self.cache))
        return pairs[self.cache.bodies.index(body)].front

    def moving(self) -> list[bool]:
        """Which bodies move between the frames; reads all of them."""
        first = self.cache.positions(self.frames[0])
        moving = [False] * len(self.bodies)
        for frame in self.frames[1:]:
            if all(moving):
                break
            x = self.cache.positions(frame)
            moving = [
                known or not np.array_equal(x[b.vertices], first[b.vertices])
                for known, b in zip(moving, self.bodies, strict=True)
            ]
        return moving


def file_names(bodies: Sequence["Body"]) -> list[str]:
    """A name a body that every file system takes, all different."""
    names: list[str] = []
    for body in bodies:
        plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in body.name) or "body"
        number, name = 1, plain
        while name.lower() in {n.lower() for n in names}:
            number += 1
            name = f"{plain}_{number}"
        names.append(name)
    return names

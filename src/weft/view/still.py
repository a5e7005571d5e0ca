"""Stills: one frame as a picture file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import WeftError
from weft.scene.colours import Floats
from weft.view.fields import Colour
from weft.view.light import STILL

if TYPE_CHECKING:
    from weft.cache import Cache

FORMATS = (".png", ".jpg", ".jpeg")


def render_still(
    cache: "Cache",
    frame: int,
    path: str | Path,
    *,
    size: tuple[int, int] = (1280, 960),
    camera: Any = None,
    colour: Colour = "body",
    wireframe: bool = False,
    marks: Floats | None = None,
    draft: bool = False,
) -> Path:
    """Draw one frame of a cache into a PNG or JPEG file and return its path.

    A negative frame counts from the last. `camera` (position, target, fov_deg) stands before the scene's, and what
    neither gives is chosen so that the cloth fills the picture. `marks` are (k, 2, 3) segments, red, over everything.
    `draft` leaves the shadows out.
    """
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise WeftError(f"{path}: a still ends in {', '.join(FORMATS)}")
    frame = frame_number(cache, frame)

    from weft.view.files import save_picture
    from weft.view.stage import Stage

    with Stage(
        cache, size=size, quality=None if draft else STILL, camera=camera, colour=colour, wireframe=wireframe
    ) as stage:
        save_picture(stage.draw(frame, marks), path)
    return path


def frame_number(cache: "Cache", frame: int) -> int:
    """A frame counted from the first (0) or, if negative, from the last (-1), checked."""
    count = cache.frames
    if count == 0:
        raise WeftError("the cache has no complete frame yet: wait for the first one, or resume the run")
    if not -count <= frame < count:
        raise WeftError(f"frame {frame} is not there: the cache has {count} frames, 0 to {count - 1}")
    return frame % count

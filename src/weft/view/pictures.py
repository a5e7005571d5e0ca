"""Stills and films: frames of a cache as PNG or JPEG files, or as mp4 (H.264, yuv420p), WebP or GIF.

Files are written under a temporary name and renamed, so that they appear complete or not at all.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, missing_extra, writing
from weft.scene.colours import Floats
from weft.view.fields import Colour
from weft.view.light import FILM, STILL

if TYPE_CHECKING:
    from weft.cache import Cache


STILL_FORMATS = (".png", ".jpg", ".jpeg")
# how ffmpeg encodes each kind of film. A GIF has 256 colours, chosen for each film; GIF and WebP repeat
FILM_FORMATS: dict[str, dict[str, Any]] = {
    ".mp4": {
        "codec": "libx264",
        "pix_fmt_out": "yuv420p",
        "output_params": ["-crf", "18", "-preset", "medium", "-movflags", "+faststart"],
    },
    ".webp": {
        "codec": "libwebp_anim",
        "pix_fmt_out": "yuv420p",
        "output_params": ["-quality", "85", "-compression_level", "4", "-loop", "0"],
    },
    ".gif": {
        "codec": "gif",
        "pix_fmt_out": "pal8",
        "output_params": [
            "-vf",
            "split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer",
            "-loop",
            "0",
        ],
    },
}


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
    smooth: bool = True,
    hidden: Collection[str] = (),
) -> Path:
    """Draw one frame of a cache into a PNG or JPEG file and return its path.

    A negative frame counts from the last. `camera` (position, target, fov_deg) overrides the scene's, and what
    neither gives is chosen so that the cloth fills the picture. `marks` are (k, 2, 3) segments, red, over everything.
    `draft` leaves the shadows out. `smooth` rounds the cloth for the eye, unless its edges or marks are drawn.
    `hidden` names bodies to leave out.
    """
    path = Path(path)
    if path.suffix.lower() not in STILL_FORMATS:
        raise WeftError(f"{path}: a still ends in {', '.join(STILL_FORMATS)}")
    frame = frame_number(cache, frame)

    from weft.view.stage import Stage

    quality = None if draft else STILL
    look: dict[str, Any] = {"colour": colour, "wireframe": wireframe, "hidden": hidden}
    with Stage(cache, size=size, quality=quality, camera=camera, smooth=smooth and marks is None, **look) as stage:
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


def render_film(
    cache: "Cache",
    path: str | Path,
    *,
    frames: Sequence[int] | None = None,
    fps: float | None = None,
    size: tuple[int, int] = (1280, 960),
    camera: Any = None,
    colour: Colour = "body",
    wireframe: bool = False,
    marks: Callable[[int], Floats] | None = None,
    draft: bool = False,
    smooth: bool = True,
    hidden: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Draw the frames of a cache into an mp4, webp or gif file and return its path.

    All complete frames are drawn unless `frames` names some; `fps` is the cache's unless given. `marks(frame)` gives
    (k, 2, 3) segments to draw in red over everything; `draft` leaves the shadows out; `smooth` rounds the cloth for the
    eye, unless its edges or marks are drawn; `hidden` names bodies to leave out; `progress(done, total)` is called
    after each frame. The size is rounded down to even numbers, which H.264 needs.
    """
    chosen = list(range(cache.frames)) if frames is None else list(frames)
    even = (size[0] // 2 * 2, size[1] // 2 * 2)

    @contextmanager
    def pictures() -> Iterator[Iterator[NDArray[np.uint8]]]:
        from weft.view.stage import Stage

        quality = None if draft else FILM
        look: dict[str, Any] = {"colour": colour, "wireframe": wireframe, "hidden": hidden}
        with Stage(cache, size=even, quality=quality, camera=camera, smooth=smooth and marks is None, **look) as stage:
            yield (stage.draw(frame, None if marks is None else marks(frame)) for frame in chosen)

    return write_film(Path(path), pictures, count=len(chosen), size=even, fps=fps or cache.fps, progress=progress)


def write_film(
    path: Path,
    pictures: Callable[[], AbstractContextManager[Iterator[NDArray[np.uint8]]]],
    *,
    count: int,
    size: tuple[int, int],
    fps: float,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Encode `count` pictures, whose width and height are even, into a film and return its path."""
    if path.suffix.lower() not in FILM_FORMATS:
        raise WeftError(f"{path}: a film ends in {', '.join(FILM_FORMATS)}")
    if not count:
        raise WeftError("there are no frames to draw: the cache has none yet, or the choice of frames is empty")

    encoder = find_encoder()
    with replacing(path) as partial, pictures() as drawn:
        writer = encoder.write_frames(
            str(partial),
            size,
            fps=fps,
            macro_block_size=2,
            quality=None,
            ffmpeg_log_level="error",
            **FILM_FORMATS[path.suffix.lower()],
        )
        writer.send(None)
        try:
            for done, picture in enumerate(drawn, start=1):
                writer.send(np.ascontiguousarray(picture))
                if progress is not None:
                    progress(done, count)
        finally:
            # closing completes the file; if drawing failed, its own error is the one to report
            with suppress(StopIteration):
                writer.close()
    return path


def find_encoder() -> Any:
    """The module imageio_ffmpeg, if it finds an ffmpeg program; else an error that says what to install."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise missing_extra("render", "imageio-ffmpeg") from error
    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise WeftError("films need ffmpeg: install it with  apt-get install ffmpeg  (or your system's way)") from error
    return imageio_ffmpeg


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A temporary path to write to; it replaces `path` when the block succeeds and is removed when it fails."""
    partial = path.with_name(f".{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield partial
            partial.replace(path)
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def save_picture(picture: NDArray[np.uint8], path: Path) -> None:
    """Write (height, width, 3) bytes as PNG or JPEG, by the suffix."""
    from PIL import Image

    with replacing(path) as partial:
        Image.fromarray(picture).save(partial, quality=92)


@dataclass(frozen=True)
class Look:
    """The options of pictures, as plain data that can be sent to a worker; `samples` is for path tracing, else None."""

    size: tuple[int, int]
    colour: Colour = "body"
    wireframe: bool = False
    crossings: bool = False
    draft: bool = False
    smooth: bool = True
    samples: int | None = None
    motion_blur: bool = False

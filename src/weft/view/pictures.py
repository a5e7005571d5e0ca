"""Stills and films: frames of a cache as PNG or JPEG files, or as mp4 (H.264, yuv420p), WebP or GIF.

Files are written under a temporary name and renamed, so that they appear complete or not at all.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import open_result
from weft.cache.frames import Frames, choose_frames
from weft.errors import WeftError, missing_extra, writing
from weft.scene.colours import Floats
from weft.view.fields import Colour
from weft.view.light import FILM, STILL, Quality

if TYPE_CHECKING:
    from weft.cache import Cache

Picture = NDArray[np.uint8]
"""(height, width, 3)"""

# light paths a pixel of traced pictures
STILL_SAMPLES, FILM_SAMPLES = 128, 48
STILL_FORMATS = (".png", ".jpg", ".jpeg")
# how ffmpeg encodes each kind of film. A GIF has 256 colours, chosen for each film; GIF and WebP repeat
FILM_FORMATS: dict[str, str] = {
    ".mp4": "-vcodec libx264 -pix_fmt yuv420p -crf 18 -preset medium -movflags +faststart",
    ".webp": "-vcodec libwebp_anim -pix_fmt yuv420p -quality 85 -compression_level 4 -loop 0",
    ".gif": "-vcodec gif -vf split[a][b];[a]palettegen=stats_mode=diff[p];[b][p]paletteuse=dither=bayer -loop 0",
}


@dataclass(frozen=True)
class Look:
    """How frames are drawn, as plain data that can be sent to a worker."""

    size: tuple[int, int] = (1280, 960)
    colour: Colour = "body"
    wireframe: bool = False
    crossings: bool = False
    """crossings are marked, on cloth as it is"""
    draft: bool = False
    """without shadows"""
    smooth: bool = True
    """cloth is rounded for the eye, unless its edges or marks are drawn"""
    samples: int | None = None
    """light paths a pixel, where they are traced"""
    motion_blur: bool = False
    """of traced pictures"""
    hidden: Collection[str] = ()
    """bodies that are left out"""

    def __post_init__(self) -> None:
        size: Any = self.size
        if (
            not isinstance(size, tuple | list)
            or len(size) != 2
            or not all(isinstance(n, int | np.integer) for n in size)
        ):
            raise WeftError(
                f"size is the width and the height of the picture in pixels, such as (1280, 960), not {size!r}"
            )


def open_stage(cache: "Cache", look: Look, quality: Quality, camera: Any = None) -> Any:
    """What draws the frames of a cache, for a `with` block: a `Stage`, or a `Studio` that traces light."""
    if look.samples is not None:
        from weft.view.beauty import Studio

        return Studio(cache, size=look.size, camera=camera, samples=look.samples, motion_blur=look.motion_blur)
    from weft.view.stage import Stage

    return Stage(
        cache,
        size=look.size,
        quality=None if look.draft else quality,
        camera=camera,
        colour=look.colour,
        wireframe=look.wireframe,
        smooth=look.smooth and not look.crossings,
        hidden=look.hidden,
    )


def render_still(
    cache: "Cache | str | Path",
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
    """Draw one frame of a cache, or of a file that `weft check` reads, into a PNG or JPEG file and return its path.

    A negative frame counts from the last. `camera` (position, target, fov_deg) overrides the scene's, and what
    neither gives is chosen so that the cloth fills the picture. `marks` are (k, 2, 3) segments, red, over everything.
    `draft` leaves the shadows out. `smooth` rounds the cloth for the eye, unless its edges or marks are drawn.
    `hidden` names bodies to leave out.
    """
    look = Look(size, colour, wireframe, marks is not None, draft, smooth, hidden=hidden)
    return draw_still(cache, frame, path, look, camera=camera, marks=marks)


def draw_still(
    cache: "Cache | str | Path",
    frame: int,
    path: str | Path,
    look: Look,
    *,
    camera: Any = None,
    marks: Floats | None = None,
) -> Path:
    """Draw one frame into a PNG or JPEG file and return its path; see `render_still`."""
    path = Path(path)
    if path.suffix.lower() not in STILL_FORMATS:
        raise WeftError(f"{path}: a still ends in {', '.join(STILL_FORMATS)}")
    cache = _opened(cache)
    frame = frame_number(cache, frame)
    with open_stage(cache, look, STILL, camera) as stage:
        save_picture(stage.draw(frame, *([] if marks is None else [marks])), path)
    return path


def _opened(cache: "Cache | str | Path") -> "Cache":
    return open_result(cache) if isinstance(cache, str | Path) else cache


def frame_number(cache: "Cache", frame: int) -> int:
    """A frame counted from the first (0) or, if negative, from the last (-1), checked."""
    count = cache.frames
    if count == 0:
        raise WeftError("the cache has no complete frame yet: wait for the first one, or resume the run")
    if not -count <= frame < count:
        raise WeftError(f"frame {frame} is not there: the cache has {count} frames, 0 to {count - 1}")
    return frame % count


def render_film(
    cache: "Cache | str | Path",
    path: str | Path,
    *,
    frames: Frames = None,
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

    All complete frames are drawn unless `frames` names some: numbers, a slice, or text such as "10:20". `fps` is the
    cache's unless given. `marks(frame)` gives (k, 2, 3) segments to draw in red over everything; `draft` leaves the
    shadows out; `smooth` rounds the cloth for the eye, unless its edges or marks are drawn; `hidden` names bodies to leave
    out; `progress(done, total)` is called after each frame. The size is rounded down to even numbers, which H.264 needs.
    """
    look = Look(size, colour, wireframe, marks is not None, draft, smooth, hidden=hidden)
    return draw_film(cache, path, look, frames=frames, fps=fps, camera=camera, marks=marks, progress=progress)


def render_beauty_still(
    cache: "Cache | str | Path",
    frame: int,
    path: str | Path,
    *,
    size: tuple[int, int] = (1280, 960),
    camera: Any = None,
    samples: int = STILL_SAMPLES,
    motion_blur: bool = False,
) -> Path:
    """Trace one frame into a PNG or JPEG file and return its path. `samples` is how many light paths a pixel gets."""
    return draw_still(cache, frame, path, Look(size, samples=samples, motion_blur=motion_blur), camera=camera)


def render_beauty_film(
    cache: "Cache | str | Path",
    path: str | Path,
    *,
    frames: Frames = None,
    fps: float | None = None,
    size: tuple[int, int] = (1280, 960),
    camera: Any = None,
    samples: int = FILM_SAMPLES,
    motion_blur: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Trace frames of a cache into a film and return its path; see `render_film` for the rest."""
    look = Look(size, samples=samples, motion_blur=motion_blur)
    return draw_film(cache, path, look, frames=frames, fps=fps, camera=camera, progress=progress)


def draw_film(
    cache: "Cache | str | Path",
    path: str | Path,
    look: Look,
    *,
    camera: Any = None,
    marks: Callable[[int], Floats] | None = None,
    **options: Any,
) -> Path:
    """Draw frames into a film and return its path; see `render_film`, and `write_film` for more options."""
    cache = _opened(cache)

    @contextmanager
    def pictures(even: Look, frames: Sequence[int]) -> Iterator[Iterator[Picture]]:
        with open_stage(cache, even, FILM, camera) as stage:
            yield (stage.draw(frame, *([] if marks is None else [marks(frame)])) for frame in frames)

    return write_film(cache, path, look, pictures, **options)


def write_film(
    cache: "Cache",
    path: str | Path,
    look: Look,
    pictures: Callable[[Look, Sequence[int]], AbstractContextManager[Iterator[Picture]]],
    *,
    frames: Frames = None,
    fps: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Encode a film and return its path; `pictures` opens what draws frames with a look whose size is even."""
    path = Path(path)
    if path.suffix.lower() not in FILM_FORMATS:
        raise WeftError(f"{path}: a film ends in {', '.join(FILM_FORMATS)}")
    chosen = choose_frames(cache, frames)
    even = replace(look, size=(look.size[0] // 2 * 2, look.size[1] // 2 * 2))

    program = find_encoder()
    rate = fps or cache.fps
    with (
        replacing(path) as partial,
        pictures(even, chosen) as drawn,
        encoding(program, partial, path, even.size, rate) as send,
    ):
        for done, picture in enumerate(drawn, start=1):
            send(picture)
            if progress is not None:
                progress(done, len(chosen))
    return path


@contextmanager
def encoding(
    program: str, partial: Path, path: Path, size: tuple[int, int], fps: float
) -> Iterator[Callable[[Picture], object]]:
    """Give a function that adds a picture to the film `partial`; an encoder that fails is an error that names `path`."""
    given = f"-f rawvideo -pix_fmt rgb24 -s {size[0]}x{size[1]} -r {fps:.6g} -i -"
    words = [program, "-y", "-v", "error", *given.split(), *FILM_FORMATS[path.suffix.lower()].split(), str(partial)]
    with tempfile.TemporaryFile() as said:
        encoder = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        assert encoder.stdin is not None
        pipe = encoder.stdin
        try:
            # an encoder that has ended says why below
            with suppress(BrokenPipeError):
                yield lambda picture: pipe.write(np.ascontiguousarray(picture).data)
            with suppress(BrokenPipeError):
                pipe.close()
            if encoder.wait() != 0:
                said.seek(0)
                lines = said.read().decode(errors="replace").split("\n")
                reason = [line.strip() for line in lines if line.strip()] or ["no reason given"]
                full = [line for line in reason if "No space left" in line]
                raise WeftError(f"cannot write {path}: {'No space left on device' if full else reason[0]}")
        finally:
            if encoder.poll() is None:
                encoder.kill()
                encoder.wait()


def find_encoder() -> str:
    """The ffmpeg program that imageio_ffmpeg brings or finds; else an error that says what to install."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise missing_extra("render", "imageio-ffmpeg") from error
    try:
        return str(imageio_ffmpeg.get_ffmpeg_exe())
    except RuntimeError as error:
        raise WeftError("films need ffmpeg: install it with  apt-get install ffmpeg  (or your system's way)") from error


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


def save_picture(picture: Picture, path: Path) -> None:
    """Write (height, width, 3) bytes as PNG or JPEG, by the suffix."""
    from PIL import Image

    with replacing(path) as partial:
        Image.fromarray(picture).save(partial, quality=92)

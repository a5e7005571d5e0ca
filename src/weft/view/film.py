"""Films: the frames of a cache as an mp4 that every player and browser shows (H.264, yuv420p)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, missing_extra
from weft.scene.colours import Floats
from weft.view.fields import Colour
from weft.view.light import FILM

if TYPE_CHECKING:
    from weft.cache import Cache


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
    progress: Callable[[int, int], None] | None = None,
) -> Path:
    """Draw the frames of a cache into an mp4 file and return its path.

    All complete frames are drawn unless `frames` names some; `fps` is the cache's unless given. `marks(frame)` gives
    (k, 2, 3) segments to draw in red over everything; `draft` leaves the shadows out; `progress(done, total)` is
    called after each frame. The size is rounded down to even numbers, which H.264 needs. The file appears when it
    is whole.
    """
    chosen = list(range(cache.frames)) if frames is None else list(frames)
    even = (size[0] // 2 * 2, size[1] // 2 * 2)

    @contextmanager
    def pictures() -> Iterator[Iterator[NDArray[np.uint8]]]:
        from weft.view.stage import Stage

        quality = None if draft else FILM
        with Stage(cache, size=even, quality=quality, camera=camera, colour=colour, wireframe=wireframe) as stage:
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
    """Put `count` pictures of an even size together into an mp4 file, which appears when it is whole."""
    if path.suffix.lower() != ".mp4":
        raise WeftError(f"{path}: a film ends in .mp4")
    if not count:
        raise WeftError("there are no frames to draw: the cache has none yet, or the choice of frames is empty")

    from weft.view.files import replacing

    encoder = find_encoder()
    with replacing(path) as partial, pictures() as drawn:
        writer = encoder.write_frames(
            str(partial),
            size,
            fps=fps,
            codec="libx264",
            pix_fmt_out="yuv420p",
            macro_block_size=2,
            quality=None,
            output_params=["-crf", "18", "-preset", "medium", "-movflags", "+faststart"],
            ffmpeg_log_level="error",
        )
        writer.send(None)
        try:
            for done, picture in enumerate(drawn, start=1):
                writer.send(np.ascontiguousarray(picture))
                if progress is not None:
                    progress(done, count)
        finally:
            # closing is what finishes the file; if drawing failed, that failure is the one to tell
            with suppress(StopIteration):
                writer.close()
    return path


def find_encoder() -> Any:
    """The module that runs ffmpeg, with an ffmpeg to run."""
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise missing_extra("render", "imageio-ffmpeg") from error
    try:
        imageio_ffmpeg.get_ffmpeg_exe()
    except RuntimeError as error:
        raise WeftError("films need ffmpeg: install it with  apt-get install ffmpeg  (or your system's way)") from error
    return imageio_ffmpeg

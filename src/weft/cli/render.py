"""`weft render`: a cache as a film or a still."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.terminal import FRAMES_HELP
from weft.errors import WeftError

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.view.fields import Colour
    from weft.view.pictures import Look

STILLS = (".png", ".jpg", ".jpeg")


def render(
    cache: Annotated[Path, typer.Argument(help="The cache of a run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="film.mp4, .webp or .gif, or still.png or .jpg; default: the cache's name with .mp4",
            show_default=False,
        ),
    ] = None,
    frame: Annotated[
        int | None, typer.Option(help="The frame of a still; negative counts from the last.", show_default="last")
    ] = None,
    frames: Annotated[str | None, typer.Option(help=FRAMES_HELP, show_default="all")] = None,
    size: Annotated[str, typer.Option(help="Width and height in pixels.")] = "1280x960",
    colour: Annotated[str, typer.Option(help="Colour by body, strain, speed or tangles.")] = "body",
    wireframe: Annotated[bool, typer.Option("--wireframe", help="Show the edges of the triangles.")] = False,
    crossings: Annotated[bool, typer.Option("--crossings", help="Show edges that pass through triangles.")] = False,
    fps: Annotated[float | None, typer.Option(help="Frames a second of the film.", show_default="the cache's")] = None,
    smooth: Annotated[
        bool, typer.Option(help="Round the cloth for the eye; not where --wireframe or --crossings draw on it.")
    ] = True,
    draft: Annotated[bool, typer.Option("--draft", help="Faster: without shadows.")] = False,
    beauty: Annotated[bool, typer.Option("--beauty", help="Slower: path tracing. Needs the extra beauty.")] = False,
    samples: Annotated[
        int | None, typer.Option(help="Of --beauty: light paths a pixel.", show_default="128, films 48", min=1)
    ] = None,
    motion_blur: Annotated[bool, typer.Option("--motion-blur", help="Of --beauty: blur what moves.")] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Spread a film's frames over a Dask scheduler, tcp://..., or local.", show_default=False),
    ] = None,
) -> None:
    """Draw a cache as a film (mp4, webp, gif) or a still (png, jpg), without a screen."""
    from weft.cache import open_result
    from weft.cli.terminal import choose_size
    from weft.view.pictures import FILM_FORMATS, FILM_SAMPLES, STILL_SAMPLES, Look

    source = open_result(cache)
    path = out or Path(f"{cache.resolve().stem}.mp4")
    is_still = path.suffix.lower() in STILLS
    if fps is not None and not 0.0 < fps <= 1000.0:
        raise WeftError(f"--fps {fps:g}: must be more than 0 and at most 1000")
    if beauty and (draft or wireframe or crossings or colour != "body"):
        raise WeftError("--beauty draws cloth as it looks: leave out --draft, --wireframe, --crossings and --colour")
    if not beauty and (samples is not None or motion_blur):
        raise WeftError("--samples and --motion-blur are for --beauty: add it, or leave them out")
    traces = (samples or (STILL_SAMPLES if is_still else FILM_SAMPLES)) if beauty else None
    look = Look(choose_size(size), _choose_colour(colour), wireframe, crossings, draft, smooth, traces, motion_blur)

    if is_still:
        if frames is not None or fps is not None:
            raise WeftError(f"{path} is a still: choose one frame with --frame; --frames and --fps are for films")
        if scheduler is not None:
            raise WeftError(f"{path} is a still, one frame: --scheduler is for films")
        _draw_still(source, path, -1 if frame is None else frame, look)
    elif path.suffix.lower() in FILM_FORMATS:
        if frame is not None:
            raise WeftError(f"{path} is a film: choose frames with --frames first:last; --frame is for stills")
        _draw_film(source, path, frames, fps, look, scheduler)
    else:
        films = ", ".join(FILM_FORMATS)
        raise WeftError(f"{path}: the name must end in {films} for a film, or in .png, .jpg or .jpeg for a still")


def _choose_colour(name: str) -> "Colour":
    from weft.view.fields import COLOURS

    for colour in COLOURS:
        if colour == name:
            return colour
    raise WeftError(f"--colour {name}: use one of {', '.join(COLOURS)}")


def _draw_still(source: "Cache", path: Path, frame: int, look: "Look") -> None:
    """Draw one frame, path-traced or not."""
    from weft.check import crossing_marks
    from weft.view.pictures import draw_still, frame_number

    number = frame_number(source, frame)
    draw_still(source, number, path, look, marks=crossing_marks(source, number) if look.crossings else None)
    print(f"{path}: frame {number}")


def _draw_film(
    source: "Cache", path: Path, frames: str | None, fps: float | None, look: "Look", scheduler: str | None
) -> None:
    """Draw a film, path-traced or not, here or on the workers of a scheduler."""
    from weft.cache import choose_frames
    from weft.check import crossing_marks
    from weft.cli.terminal import progress_bar

    chosen = choose_frames(source, frames)
    with progress_bar("drawing") as progress:
        common: dict[str, Any] = {"frames": chosen, "fps": fps, "progress": progress}
        if scheduler is not None:
            from weft.farm.frames import film_on

            film_on(scheduler, source, path, look, **common)
        else:
            from weft.view.pictures import draw_film

            draw_film(source, path, look, marks=partial(crossing_marks, source) if look.crossings else None, **common)
    print(f"{path}: {len(chosen)} frames, {len(chosen) / (fps or source.fps):.1f} s")

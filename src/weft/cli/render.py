"""`weft render`: a cache as a film or a still."""

from pathlib import Path
from typing import Annotated, Any

import typer

from weft.errors import WeftError

STILLS = (".png", ".jpg", ".jpeg")


def render(
    cache: Annotated[Path, typer.Argument(help="The cache of a run.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="film.mp4, or still.png or .jpg; default: the cache's name with .mp4",
            show_default=False,
        ),
    ] = None,
    frame: Annotated[
        int | None, typer.Option(help="The frame of a still; negative counts from the last.", show_default="last")
    ] = None,
    frames: Annotated[
        str | None, typer.Option(help="The frames of a film, first:last or first:last:step.", show_default="all")
    ] = None,
    size: Annotated[str, typer.Option(help="Width and height in pixels.")] = "1280x960",
    colour: Annotated[str, typer.Option(help="Colour by body, strain, speed or tangles.")] = "body",
    wireframe: Annotated[bool, typer.Option("--wireframe", help="Show the edges of the triangles.")] = False,
    crossings: Annotated[bool, typer.Option("--crossings", help="Show edges that pass through triangles.")] = False,
    fps: Annotated[float | None, typer.Option(help="Frames a second of the film.", show_default="the cache's")] = None,
    draft: Annotated[bool, typer.Option("--draft", help="Faster: without shadows.")] = False,
    beauty: Annotated[
        bool, typer.Option("--beauty", help="Slower: traced light, for pictures to show. Needs weft[beauty].")
    ] = False,
    samples: Annotated[
        int | None, typer.Option(help="Of --beauty: light paths a pixel.", show_default="128, films 48", min=1)
    ] = None,
    motion_blur: Annotated[bool, typer.Option("--motion-blur", help="Of --beauty: blur what moves.")] = False,
    scheduler: Annotated[
        str | None,
        typer.Option(help="Spread a film's frames over a Dask scheduler, tcp://..., or local.", show_default=False),
    ] = None,
) -> None:
    """Draw a cache as a film (mp4) or a still (png, jpg), without a screen."""
    from weft.cache import open_cache
    from weft.check import crossing_marks
    from weft.cli.choices import choose_frames, choose_size, progress_bar
    from weft.view.fields import COLOURS, Colour
    from weft.view.film import render_film
    from weft.view.still import frame_number, render_still

    source = open_cache(cache)
    path = out or Path(f"{cache.resolve().stem}.mp4")
    pixels = choose_size(size)
    shade: Colour | None = next((c for c in COLOURS if c == colour), None)
    if shade is None:
        raise WeftError(f"--colour {colour}: use one of {', '.join(COLOURS)}")
    if fps is not None and not 0.0 < fps <= 1000.0:
        raise WeftError(f"--fps {fps:g}: must be more than 0 and at most 1000")

    if beauty and (draft or wireframe or crossings or shade != "body"):
        raise WeftError("--beauty draws cloth as it looks: leave out --draft, --wireframe, --crossings and --colour")
    if not beauty and (samples is not None or motion_blur):
        raise WeftError("--samples and --motion-blur are for --beauty: add it, or leave them out")
    traced: dict[str, Any] = (
        {"samples": samples, "motion_blur": motion_blur} if samples else {"motion_blur": motion_blur}
    )
    if path.suffix.lower() in STILLS:
        if frames is not None or fps is not None:
            raise WeftError(f"{path} is a still: choose one frame with --frame; --frames and --fps are for films")
        if scheduler is not None:
            raise WeftError(f"{path} is a still, one frame: --scheduler is for films")
        number = frame_number(source, -1 if frame is None else frame)
        if beauty:
            from weft.view.beauty import render_beauty_still

            render_beauty_still(source, number, path, size=pixels, **traced)
            print(f"{path}: frame {number}")
            return
        marks = crossing_marks(source, number) if crossings else None
        render_still(source, number, path, size=pixels, colour=shade, wireframe=wireframe, marks=marks, draft=draft)
        print(f"{path}: frame {number}")
        return
    if path.suffix.lower() != ".mp4":
        raise WeftError(f"{path}: the name must end in .mp4 for a film, or in .png, .jpg or .jpeg for a still")
    if frame is not None:
        raise WeftError(f"{path} is a film: choose frames with --frames first:last; --frame is for stills")
    chosen = choose_frames(frames, source.frames)
    with progress_bar("drawing") as progress:
        common: dict[str, Any] = {"frames": chosen, "fps": fps, "size": pixels, "progress": progress}
        if scheduler is not None:
            from weft.farm.frames import Look, film_on
            from weft.view.beauty import FILM_SAMPLES

            traces = (samples or FILM_SAMPLES) if beauty else None
            look = Look(pixels, shade, wireframe, crossings, draft, traces, motion_blur)
            film_on(scheduler, source, path, look, frames=chosen, fps=fps, progress=progress)
        elif beauty:
            from weft.view.beauty import render_beauty_film

            render_beauty_film(source, path, **common, **traced)
        else:
            marks_of = (lambda f: crossing_marks(source, f)) if crossings else None
            render_film(source, path, **common, colour=shade, wireframe=wireframe, marks=marks_of, draft=draft)
    print(f"{path}: {len(chosen)} frames, {len(chosen) / (fps or source.fps):.1f} s")

"""Make the gallery: run examples, finish a frame of each, take a still and a short film, and write `docs/gallery.md`.

    python examples/gallery.py                 all of them (`make gallery`)
    python examples/gallery.py robust_twist    some of them; the page keeps the others

Caches are kept in out/gallery and used again; remove one to have it simulated again.
"""

import argparse
import importlib
import json
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from common import CheckError, expect

import weft
from weft.check import check_cache
from weft.view import render_still

ROOT = Path(__file__).parent.parent
PICTURES = ROOT / "docs" / "images" / "gallery"
PAGE = ROOT / "docs" / "gallery.md"
STILL, FILM = (960, 720), (400, 300)
# the film shows every third frame at a third of the rate
STEP = 3
HEAD = """# Gallery

Every picture is a frame of an example, finished with `weft subdivide` and free of intersections; `make gallery` makes
them all from a clean checkout. The films show the simulation as it is.
"""


@dataclass(frozen=True)
class Entry:
    """An example and what is shown of it."""

    example: str
    title: str
    says: str
    frame: int = -1
    levels: int = 2


ENTRIES = (
    Entry("robust_rotating_sphere", "A sphere that turns", "Friction winds the cloth up.", frame=120),
    Entry("robust_curtain", "A curtain and a ball", "Falls on itself, and is pushed apart again."),
    Entry(
        "robust_table_legs", "A tablecloth without a table", "Sharp corners, and a ball that drags it down.", frame=130
    ),
    Entry("robust_stack", "A stack", "Layers that rest on each other.", levels=1),
    Entry("robust_ribbon", "A ribbon", "A long strip that piles up.", frame=150),
    Entry("robust_twist", "A twist", "Three whole turns.", frame=110),
    Entry("robust_bullet", "A bullet", "Fast through a hanging sheet.", frame=20),
    Entry("finish_stack", "Napkins", "Smoothed and refined twice, without an intersection."),
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="examples to show; all unless given")
    parser.add_argument("--caches", type=Path, default=ROOT / "out" / "gallery", help="where caches are kept")
    parser.add_argument("--samples", type=int, default=64, help="light paths a pixel of the stills")
    options = parser.parse_args()
    unknown = set(options.names) - {entry.example for entry in ENTRIES}
    if unknown:
        parser.error(f"not in the gallery: {', '.join(sorted(unknown))}")
    for entry in ENTRIES:
        if options.names and entry.example not in options.names:
            continue
        if find_spec(entry.example) is None:
            print(f"{entry.example}: there is no such example yet")
            continue
        show(entry, options.caches, options.samples)
    write_page()


def show(entry: Entry, caches: Path, samples: int) -> None:
    """Simulate, finish, draw, and keep what the page says about it."""
    made = importlib.import_module(entry.example)
    cache = weft.simulate(made.scene(), caches / f"{entry.example}.zarr", resume=True)
    frame = range(cache.frames)[entry.frame]
    place = caches / f"{entry.example}-fine.zarr"
    fine = weft.subdivide(cache, place, levels=entry.levels, frames=[frame], overwrite=True)
    expect(f"{entry.example}: the finished frame is free of intersections", check_cache(fine).clean)
    PICTURES.mkdir(parents=True, exist_ok=True)
    # the camera sees the whole run, not only one frame of it
    view = view_of(cache)
    still = PICTURES / f"{entry.example}.jpg"
    draw_still(fine, still, view, samples)
    expect(f"{entry.example}: the picture shows the cloth", shows_cloth(fine, still))
    draw_film(cache, PICTURES / f"{entry.example}.webp", view)
    cloths = [b.vertices.stop - b.vertices.start for b in fine.bodies if b.kind == "cloth"]
    told = {"frame": frame, "vertices": sum(cloths), "levels": entry.levels, "seconds": round(frame / cache.fps, 2)}
    (PICTURES / f"{entry.example}.json").write_text(json.dumps(told) + "\n")
    print(f"{entry.example}: {still.name}, frame {frame}, {sum(cloths):,} vertices of cloth")


def view_of(cache: weft.Cache) -> Any:
    from weft.view.camera import choose_view

    return choose_view(cache, aspect=STILL[0] / STILL[1])


def draw_still(fine: weft.Cache, path: Path, view: Any, samples: int) -> None:
    """Traced where Mitsuba is installed, else drawn."""
    if find_spec("mitsuba") is None:
        render_still(fine, 0, path, size=STILL, camera=view)
        return
    from weft.view.beauty import render_beauty_still

    render_beauty_still(fine, 0, path, size=STILL, camera=view, samples=samples)


def draw_film(cache: weft.Cache, path: Path, view: Any) -> None:
    """A small film that a page plays by itself."""
    from PIL import Image

    from weft.view.light import FILM as QUALITY
    from weft.view.stage import Stage

    with Stage(cache, size=FILM, quality=QUALITY, camera=view, colour="body", wireframe=False) as stage:
        pictures = [Image.fromarray(stage.draw(frame, None)) for frame in range(0, cache.frames, STEP)]
    lasts = round(1000 * STEP / cache.fps)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=lasts, loop=0, quality=80, method=4)


def shows_cloth(cache: weft.Cache, path: Path) -> bool:
    """Whether a fair part of the picture differs from its border, and it is neither black nor white throughout."""
    from PIL import Image

    picture = np.asarray(Image.open(path).convert("RGB"), dtype=float)
    border = np.median(np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]]), axis=0)
    other = np.abs(picture - border).max(axis=2) > 40.0
    return bool(0.03 < other.mean() < 0.95 and 20.0 < picture.mean() < 245.0)


def write_page() -> None:
    """The page, from the pictures that are there."""
    lines = [HEAD]
    for entry in ENTRIES:
        about = PICTURES / f"{entry.example}.json"
        if not about.exists():
            continue
        told = json.loads(about.read_text())
        lines += [
            f"## {entry.title}",
            "",
            f"{entry.says} `examples/{entry.example}.py`, {told['seconds']} s, {told['vertices']:,} vertices after "
            f"{told['levels']} {'level' if told['levels'] == 1 else 'levels'} of subdivision.",
            "",
            f"![{entry.title}](images/gallery/{entry.example}.jpg)",
            "",
            f"![{entry.title}, in motion](images/gallery/{entry.example}.webp)",
            "",
        ]
    PAGE.write_text("\n".join(lines))
    print(f"{PAGE.relative_to(ROOT)} is written")


if __name__ == "__main__":
    try:
        main()
    except CheckError as error:
        raise SystemExit(str(error)) from None

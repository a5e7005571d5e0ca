"""Make the gallery: run every example, finish a frame of it, take a still and a short film, write the pages.

    python examples/gallery.py                 all of them (`make gallery`)
    python examples/gallery.py robust_twist    some of them; the pages keep the others

An example is a file METHOD_NAME.py with `scene(size)`, and what it says at its top stands under its
pictures. Runs are kept in out/gallery and used again until their scene changes.
"""

import argparse
import importlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from common import CheckError, expect

import weft
from weft.errors import CacheError, WeftError
from weft.view import render_still

HERE = Path(__file__).parent
ROOT = HERE.parent
PICTURES = ROOT / "docs" / "images" / "gallery"
PAGE, README = ROOT / "docs" / "gallery.md", ROOT / "README.md"
STILL, FILM = (720, 540), (400, 300)
# pictures a second of a film, and how many at most
RATE, MOST_PICTURES = 15, 72
# vertices of cloth that a still should have at least, if so many levels of subdivision give them
FINE, MOST_LEVELS = 20_000, 3
# colliders are in a picture as far as this from the cloth, in parts of its extent
NEAR = 0.5
METHODS = {
    "guarded": "Guarded",
    "robust": "Robust",
    "untangle": "Untangle",
    "predictive": "Predictive",
    "boxes": "Boxes",
    "push": "Push",
    "finish": "Finishing",
}
HEAD = """# Gallery

Every picture is a frame of an example, refined with `weft subdivide`; the films show the unrefined simulation.
`make gallery` renders all of them from a clean checkout with path tracing, which takes long.
"""
# the part of the README between these two lines is written here
BEGIN, END = "<!-- gallery: written by make gallery -->", "<!-- end of gallery -->"


@dataclass(frozen=True)
class Shown:
    """What is shown of an example, where it is not the last frame of what `scene()` gives."""

    frame: int = -1
    arguments: tuple[Any, ...] = ()


SHOWN = {
    "guarded_jaw": Shown(frame=36, arguments=("full",)),
    "guarded_tube": Shown(arguments=("full",)),
    "guarded_arm": Shown(frame=60),
    "robust_rotating_sphere": Shown(frame=120),
    "robust_table_legs": Shown(frame=130),
    "robust_curtain": Shown(frame=235),
    "robust_ribbon": Shown(frame=150),
    "robust_twist": Shown(frame=110),
    "robust_bullet": Shown(frame=4),
    "untangle_dress": Shown(frame=84, arguments=("full",)),
    "predictive_flaps": Shown(frame=66, arguments=("full",)),
    "predictive_skirt": Shown(arguments=("full",)),
    "predictive_character": Shown(arguments=("full",)),
    "predictive_sphere": Shown(frame=12),
    "push_drapes": Shown(arguments=("sphere",)),
    "push_tablecloth": Shown(frame=18),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="examples to show; all unless given")
    parser.add_argument("--caches", type=Path, default=ROOT / "out" / "gallery", help="where runs are kept")
    parser.add_argument(
        "--samples", type=int, default=40, help="light paths a pixel of the stills; 0: drawn, not traced"
    )
    options = parser.parse_args()
    names = list(examples())
    unknown = set(options.names) - set(names)
    if unknown:
        parser.error(f"no such example: {', '.join(sorted(unknown))}")
    failed = []
    for name in options.names or names:
        try:
            show(name, options.caches, options.samples)
        except (CheckError, WeftError) as error:
            print(f"{name}: {error}")
            failed.append(name)
    write_page()
    write_readme()
    if failed:
        raise SystemExit(f"without a new picture: {', '.join(failed)}")


def examples() -> Iterator[str]:
    """The names of all examples, method by method."""
    for method in METHODS:
        yield from sorted(path.stem for path in HERE.glob(f"{method}_*.py"))


def show(name: str, caches: Path, samples: int) -> None:
    """Simulate, finish, draw, and keep what the pages say about it."""
    shown = SHOWN.get(name, Shown())
    cache = simulate(scene_of(importlib.import_module(name), shown), caches / f"{name}.zarr")
    frame = range(cache.frames)[shown.frame]
    levels = levels_for(cache)
    fine = weft.subdivide(cache, caches / f"{name}-fine.zarr", levels=levels, frames=[frame], overwrite=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    still = PICTURES / f"{name}.jpg"
    draw_still(fine, still, samples)
    expect("the picture does not show the cloth", shows_cloth(still))
    draw_film(cache, PICTURES / f"{name}.webp")
    told = {
        "frame": frame,
        "seconds": round(frame / cache.fps, 2),
        "levels": levels,
        "vertices": cloth_vertices(fine),
        "intersections": int(fine.report["intersections"][0]),
    }
    (PICTURES / f"{name}.json").write_text(json.dumps(told) + "\n")
    print(f"{name}: {still.name}, {about(told)}")


def scene_of(example: ModuleType, shown: Shown) -> weft.Scene:
    scene: weft.Scene = example.scene(*shown.arguments)
    return scene


def simulate(scene: weft.Scene, out: Path) -> weft.Cache:
    """The run of a scene: what is there of it, and the rest."""
    try:
        return weft.simulate(scene, out, resume=True)
    except CacheError as error:
        print(f"{error}: simulated again")
        return weft.simulate(scene, out, overwrite=True)


def cloth_vertices(cache: weft.Cache) -> int:
    return sum(body.vertices.stop - body.vertices.start for body in cache.bodies if body.kind == "cloth")


def levels_for(cache: weft.Cache) -> int:
    """How many levels of subdivision make the cloth fine enough for a picture."""
    count = cloth_vertices(cache)
    return next((n for n in range(1, MOST_LEVELS) if count * 4**n >= FINE), MOST_LEVELS)


def draw_still(fine: weft.Cache, path: Path, samples: int) -> None:
    """The frame seen from where the scene's camera stands, but near; traced if that is asked for and Mitsuba is there."""
    from weft.view.camera import choose_view, fit_view

    aspect = STILL[0] / STILL[1]
    far = choose_view(fine, aspect=aspect)
    near = fit_view(around_cloth(fine), aspect=aspect, forward=far.target - far.position, fov_deg=far.fov_deg)
    if not samples or find_spec("mitsuba") is None:
        render_still(fine, 0, path, size=STILL, camera=near)
        return
    from weft.view import render_beauty_still

    render_beauty_still(fine, 0, path, size=STILL, camera=near, samples=samples)


def around_cloth(cache: weft.Cache) -> np.ndarray:
    """The points of the first frame that belong in its picture: cloth, and what of the colliders is near it."""
    x = cache.positions(0)
    cloth = np.concatenate([x[body.vertices] for body in cache.bodies if body.kind == "cloth"])
    low, high = cloth.min(axis=0), cloth.max(axis=0)
    margin = NEAR * np.linalg.norm(high - low)
    points: np.ndarray = x[((x >= low - margin) & (x <= high + margin)).all(axis=1)]
    return points


def draw_film(cache: weft.Cache, path: Path) -> None:
    """A small film that a page plays by itself."""
    from PIL import Image

    from weft.view.light import Quality
    from weft.view.stage import Stage

    # less light than in films of their own, which shall be short and soon done
    quality = Quality(sky=12, lamp=4)
    step = max(1, round(cache.fps / RATE), -(-cache.frames // MOST_PICTURES))
    with Stage(cache, size=FILM, quality=quality, camera=None, colour="body", wireframe=False) as stage:
        pictures = [Image.fromarray(stage.draw(frame, None)) for frame in range(0, cache.frames, step)]
    lasts = round(1000 * step / cache.fps)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], duration=lasts, loop=0, quality=75, method=4)


def shows_cloth(path: Path) -> bool:
    """Whether a fair part of the picture differs from its border, and it is neither black nor white throughout."""
    from PIL import Image

    picture = np.asarray(Image.open(path).convert("RGB"), dtype=float)
    border = np.median(np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]]), axis=0)
    other = np.abs(picture - border).max(axis=2) > 40.0
    return bool(0.03 < other.mean() < 0.95 and 20.0 < picture.mean() < 245.0)


def about(told: dict[str, Any]) -> str:
    """What is in a picture, in a line."""
    levels = f"{told['levels']} {'level' if told['levels'] == 1 else 'levels'}"
    count = told["intersections"]
    return (
        f"after {told['seconds']} s, {told['vertices']:,} vertices after {levels} of subdivision, "
        f"{count or 'no'} {'intersection' if count == 1 else 'intersections'}"
    )


def made() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, name and what is known of all examples that have pictures."""
    for name in examples():
        known = PICTURES / f"{name}.json"
        if known.exists():
            yield name.split("_")[0], name, json.loads(known.read_text())


def title_of(name: str) -> str:
    return name.split("_", 1)[1].replace("_", " ").capitalize()


def words_of(name: str) -> str:
    """What an example says of itself, without lines to type."""
    said = importlib.import_module(name).__doc__ or ""
    paragraphs = said.strip().split("\n\n")
    return "\n\n".join(" ".join(p.split()) for p in paragraphs if not p.startswith("    "))


def write_page() -> None:
    """The page of the documentation, from the pictures that are there."""
    lines, method = [HEAD], ""
    for own, name, told in made():
        if own != method:
            method = own
            lines += [f"## {METHODS[method]}", ""]
        title = title_of(name)
        lines += [
            f"### {title}",
            "",
            f"![{title}](images/gallery/{name}.jpg)",
            "",
            f"![{title}, in motion](images/gallery/{name}.webp)",
            "",
            words_of(name),
            "",
            f"`examples/{name}.py`, {about(told)}.",
            "",
        ]
    PAGE.write_text("\n".join(lines))
    print(f"{PAGE.relative_to(ROOT)} is written")


def write_readme() -> None:
    """The pictures of the README, each a link to its film."""
    before, _, rest = README.read_text().partition(BEGIN)
    _, found, after = rest.partition(END)
    expect(f"README.md has no line {BEGIN} with a line {END} after it", found)
    lines = []
    for method in METHODS:
        pictures = [
            f'<a href="docs/images/gallery/{name}.webp"><img src="docs/images/gallery/{name}.jpg" width="24%" '
            f'alt="{method}: {title_of(name)}" title="{method}: {title_of(name)}"></a>'
            for own, name, _ in made()
            if own == method
        ]
        if pictures:
            lines += ["", f"{METHODS[method]}:", "", *pictures]
    README.write_text("\n".join([before + BEGIN, *lines, "", END + after]))
    print(f"{README.relative_to(ROOT)} is written")


if __name__ == "__main__":
    try:
        main()
    except CheckError as error:
        raise SystemExit(str(error)) from None

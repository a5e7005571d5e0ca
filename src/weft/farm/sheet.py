"""The contact sheet of a study: the last frame of every run, from the same camera."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cache import open_cache
from weft.errors import MissingExtraError, WeftError, missing_extra
from weft.farm.study import Study

if TYPE_CHECKING:
    from weft.farm.cluster import Farm

# pixels of a picture; the sheet has at most so many pictures, side by side as many as make it about as wide as tall
SIZE = (320, 240)
LABEL = 34
MOST = 400
# how many caches the camera looks at to find its place
LOOKED_AT = 40


@dataclass(frozen=True)
class Picture:
    """A picture to draw: of the last frame of a cache."""

    cache: str
    view: Any


def draw_sheet(study: Study, rows: Sequence[dict[str, Any]], farm: "Farm | None" = None) -> list[Path]:
    """Draw `sheet.png`, on the workers where there are some; runs that failed have an empty place with their name."""
    try:
        from PIL import Image  # noqa: F401
    except ImportError as error:
        raise missing_extra("render", "pillow") from error
    from weft.view.camera import common_view

    paths = {run.name: study.cache_path(run).absolute() for run in study.runs}
    # of very many runs, some from everywhere
    step = -(-len(rows) // MOST)
    shown = list(rows[::step])
    there = [row for row in shown if row["frames"] and paths[row["run"]].exists()]
    if not there:
        return []
    caches = [open_cache(paths[row["run"]]) for row in there[:: -(-len(there) // LOOKED_AT)]]
    view = common_view(caches, SIZE)
    jobs = [Picture(str(paths[row["run"]]), view) for row in there]
    results = farm.work_off(draw_last, jobs) if farm is not None else ((k, draw_last(j)) for k, j in enumerate(jobs))
    pictures: dict[str, Any] = {}
    for number, picture in results:
        if not isinstance(picture, WeftError):
            pictures[there[number]["run"]] = picture
        elif isinstance(picture, MissingExtraError) or len(there) == 1:
            raise picture
    return [_compose(shown, study.keys, pictures, study.path / "sheet.png")]


def draw_last(job: Picture) -> Any:
    """The last frame of a cache, (height, width, 3) bytes."""
    from weft.view.stage import Stage

    cache = open_cache(job.cache)
    with Stage(cache, size=SIZE, quality=None, camera=job.view) as stage:
        return stage.draw(cache.frames - 1)


def _compose(rows: Sequence[dict[str, Any]], keys: Sequence[str], pictures: dict[str, Any], path: Path) -> Path:
    """All pictures on one sheet, each with its values below it."""
    from PIL import Image, ImageDraw

    from weft.view.pictures import replacing

    width, height = SIZE[0], SIZE[1] + LABEL
    across = _across(rows, keys, width, height)
    down = -(-len(rows) // across)
    sheet = Image.new("RGB", (across * width, down * height), "white")
    pen = ImageDraw.Draw(sheet)
    font = _font(13)
    for number, row in enumerate(rows):
        x, y = number % across * width, number // across * height
        picture = pictures.get(row["run"])
        if picture is None:
            pen.text((x + 10, y + SIZE[1] // 2), row["status"], fill="#b02020", font=font)
        else:
            sheet.paste(Image.fromarray(picture), (x, y))
        bad = row["status"] != "ok" or bool(row["intersections"])
        counted = "" if row["intersections"] is None else f"  {row['intersections']} intersections"
        # the ends of keys are what differs
        said = "  ".join(f"{key.rsplit('.', 1)[-1]} {_short(row[key])}" for key in keys if row[key] is not None)
        pen.text((x + 6, y + SIZE[1] + 2), said[:52], fill="#202428", font=font)
        if row["status"] == "ok":
            pen.text((x + 6, y + SIZE[1] + 17), counted.strip(), fill="#b02020" if bad else "#5a6068", font=font)
    with replacing(path) as partial:
        sheet.save(partial)
    return path


def _across(rows: Sequence[dict[str, Any]], keys: Sequence[str], width: int, height: int) -> int:
    """How many pictures side by side: about as wide as tall, and in line by the values of the last key if they are few."""
    square = math.ceil((len(rows) * height / width) ** 0.5)
    last = len({str(row[keys[-1]]) for row in rows})
    return last * max(1, round(square / last)) if 1 < last <= 2 * square else square


def _short(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _font(size: int) -> Any:
    from PIL import ImageFont

    return ImageFont.load_default(size)

"""`weft.export`: every export format by its name."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from weft.errors import WeftError
from weft.exchange.selection import Exported, Job, Report, Selection

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.cache.frames import Frames


class Format(NamedTuple):
    """The function that writes a format, and the endings of its file."""

    place: str
    """module:function that writes it"""
    endings: tuple[str, ...] = ()
    """of the file, the first by default; none for a folder"""


# imported when they are needed
FORMATS = {
    "usd": Format("weft.exchange.usd:write_usd", (".usdc", ".usda", ".usd")),
    "glb": Format("weft.exchange.gltf:write_glb", (".glb",)),
    "abc": Format("weft.exchange.alembic:write_abc", (".abc",)),
    "pc2": Format("weft.exchange.sequence:write_points"),
    "mdd": Format("weft.exchange.sequence:write_points"),
    "obj": Format("weft.exchange.sequence:write_sequence"),
    "ply": Format("weft.exchange.sequence:write_sequence"),
    "npz": Format("weft.exchange.sequence:write_npz", (".npz",)),
    "npy": Format("weft.exchange.sequence:write_npy"),
}


def export(
    cache: "Cache | str | Path",
    out: str | Path | None = None,
    *,
    format: str | None = None,
    frames: "Frames" = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    check: bool = True,
    progress: Report | None = None,
    usd_schema: str | None = None,
) -> Exported:
    """Write frames of a cache, or of a file that `weft check` reads, for another program.

    frames: numbers, a slice, or text such as "10:20"; all complete ones by default.
    format: one of `FORMATS`; without it the ending of `out` decides, and obj where there is none. out: a file or a
    folder, as the format has it; by default the cache's name, here.
    check: where a format rounds positions to 32 bits, count the intersections that rounding made (`Exported.rounding`).
    usd_schema: of USD, "physics" or "omniphysics": describe the bodies to simulators too, by a proposed schema.
    """
    from weft.cache import open_result

    cache = open_result(cache) if isinstance(cache, str | Path) else cache
    name = choose_format(format, out)
    chosen = FORMATS[name]
    place = Path(out) if out is not None else Path(cache.path.resolve().stem + "".join(chosen.endings[:1]))
    if chosen.endings and place.suffix == "":
        place = place.with_suffix(chosen.endings[0])
    if chosen.endings and place.suffix.lower() not in chosen.endings:
        raise WeftError(f"{place}: the name of a file of the format {name} ends in {', '.join(chosen.endings)}")
    module, function = chosen.place.split(":")
    if usd_schema is not None and name != "usd":
        raise WeftError("a USD schema is for USD files: write one that ends in .usdc, .usda or .usd")
    job = Job(Selection(cache, frames, bodies), place, name, overwrite, check, progress)
    made: Exported = getattr(import_module(module), function)(job, *([] if usd_schema is None else [usd_schema]))
    return made


def choose_format(format: str | None, out: str | Path | None) -> str:
    """The name of the format: the given one, or by the ending of the output."""
    if format is not None:
        if format not in FORMATS:
            raise WeftError(f"format {format!r} is not known: use one of {', '.join(FORMATS)}")
        return format
    ending = "" if out is None else Path(out).suffix.lower()
    if ending == "":
        return "obj"
    for name, known in FORMATS.items():
        if ending in known.endings:
            return name
    endings = ", ".join(ending for known in FORMATS.values() for ending in known.endings)
    folders = ", ".join(name for name, known in FORMATS.items() if not known.endings)
    raise WeftError(
        f"{out}: no format has files that end in {ending}: use one of {endings}, or name a folder, and a format for it "
        f"({folders})"
    )

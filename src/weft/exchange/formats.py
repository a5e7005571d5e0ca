"""`weft.export`: every export format by its name."""

from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.errors import WeftError
from weft.exchange.selection import Exported, Report, Selection
from weft.exchange.sequence import export_sequence

if TYPE_CHECKING:
    from weft.cache import Cache


class Format(NamedTuple):
    """The function that writes a format, and the endings of its file."""

    place: str
    """module:function that writes it"""
    endings: tuple[str, ...] = ()
    """of the file, the first by default; none for a folder"""
    single: bool = False
    """positions are rounded to 32 bits, and it is checked whether that made intersections"""


# imported when they are needed
FORMATS = {
    "usd": Format("weft.exchange.usd:export_usd", (".usdc", ".usda", ".usd"), single=True),
    "glb": Format("weft.exchange.gltf:export_glb", (".glb",), single=True),
    "abc": Format("weft.exchange.alembic:export_abc", (".abc",), single=True),
    "pc2": Format("weft.exchange.sequence:export_pc2", single=True),
    "mdd": Format("weft.exchange.sequence:export_mdd", single=True),
    "obj": Format("weft.exchange.formats:export_obj"),
    "ply": Format("weft.exchange.formats:export_ply"),
    "npz": Format("weft.exchange.sequence:export_npz", (".npz",)),
    "npy": Format("weft.exchange.sequence:export_npy"),
}


def export(
    cache: "Cache | str | Path",
    out: str | Path | None = None,
    *,
    format: str | None = None,
    frames: Sequence[int] | None = None,
    bodies: Iterable[str] | None = None,
    overwrite: bool = False,
    check: bool = True,
    progress: Report | None = None,
    usd_schema: str | None = None,
) -> Exported:
    """Write frames of a cache for another program.

    format: one of `FORMATS`; without it the ending of `out` decides, and obj where there is none. out: a file or a
    folder, as the format has it; by default the cache's name, here.
    check: where a format rounds positions to 32 bits, count the intersections that rounding made (`Exported.rounding`).
    usd_schema: of USD, "physics" or "omniphysics": describe the bodies to simulators too, by a proposed schema.
    """
    from weft.cache import open_cache

    cache = open_cache(cache) if isinstance(cache, str | Path) else cache
    chosen = FORMATS[choose_format(format, out)]
    stem = cache.path.resolve().stem
    place = Path(out) if out is not None else Path(stem + (chosen.endings[0] if chosen.endings else ""))
    if chosen.endings and place.suffix == "":
        place = place.with_suffix(chosen.endings[0])
    module, function = chosen.place.split(":")
    more: dict[str, Any] = {"check": check} if chosen.single else {}
    if usd_schema is not None:
        if chosen is not FORMATS["usd"]:
            raise WeftError("a USD schema is for USD files: write one that ends in .usdc, .usda or .usd")
        more["schema"] = usd_schema
    made: Exported = getattr(import_module(module), function)(
        cache, place, frames=frames, bodies=bodies, overwrite=overwrite, progress=progress, **more
    )
    return made


def export_obj(cache: "Cache", folder: Path, **options: Any) -> Exported:
    """A sequence of OBJ files; see `export_sequence`."""
    return Exported(export_sequence(cache, folder, format="obj", **options), _frames(cache, options))


def export_ply(cache: "Cache", folder: Path, **options: Any) -> Exported:
    """A sequence of PLY files; see `export_sequence`."""
    return Exported(export_sequence(cache, folder, format="ply", **options), _frames(cache, options))


def _frames(cache: "Cache", options: dict[str, Any]) -> list[int]:
    return Selection(cache, options.get("frames"), options.get("bodies")).frames


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

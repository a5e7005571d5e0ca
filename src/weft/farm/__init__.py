"""Work on many processes with Dask: studies that vary keys of a scene, and work on a cache frame by frame.

Names are imported on first use: Dask is an optional package, and slow to import.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "Interval": "weft.farm.sweeps",
    "Outcome": "weft.farm.wedging",
    "Study": "weft.farm.study",
    "Wardrobe": "weft.farm.wardrobe",
    "dress_many": "weft.farm.wardrobe",
    "plot_study": "weft.farm.pictures",
    "wedge": "weft.farm.wedging",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.farm' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

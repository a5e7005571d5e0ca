"""Static untangling: a tangled mesh goes in, the nearest one without intersections that can be found comes out."""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "Round": "weft.untangling.untangler",
    "UntangleResult": "weft.untangling.untangler",
    "untangle": "weft.untangling.untangler",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.untangling' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""The eyes of every method: what is near, what will collide, what intersects.

Names are imported on first use, since most of them compile kernels.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "BROAD_PHASES": "weft.detection.broad_phase",
    "BroadPhase": "weft.detection.broad_phase",
    "Candidates": "weft.detection.broad_phase",
    "Collisions": "weft.detection.collision",
    "Contacts": "weft.detection.contact",
    "Stencils": "weft.detection.stencil",
    "collisions": "weft.detection.collision",
    "contacts": "weft.detection.contact",
    "find_contacts": "weft.detection.contact",
    "intersections": "weft.detection.intersection",
    "make_broad_phase": "weft.detection.broad_phase",
}

# modules that are used by their own names
_MODULES = ("ccd", "proximity")

__all__ = [*_PUBLIC, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _MODULES:
        return import_module(f"weft.detection.{name}")
    raise AttributeError(f"module 'weft.detection' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

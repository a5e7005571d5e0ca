"""Global intersection analysis: where a mesh passes through itself, and which regions of it lie on the wrong side.

Names are imported on first use, since they compile kernels.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "Analyser": "weft.analysis.analyser",
    "Analysis": "weft.analysis.analyser",
    "Path": "weft.analysis.analyser",
    "Region": "weft.analysis.analyser",
    "analyse": "weft.analysis.analyser",
    "vertex_classes": "weft.analysis.analyser",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.analysis' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

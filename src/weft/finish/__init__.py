"""Finishing: finer, smoother frames without new intersections.

Names are imported on first use, since they compile kernels.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "Finished": "weft.finish.finisher",
    "Finisher": "weft.finish.finisher",
    "Plan": "weft.finish.batch",
    "Result": "weft.finish.batch",
    "finish_frame": "weft.finish.batch",
    "subdivide": "weft.finish.batch",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.finish' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

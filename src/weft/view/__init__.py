"""Pictures of caches: stills, films, plots, and the viewer in the browser. Everything here only reads caches.

The names are imported on first use, because each needs an optional package.
"""

from importlib import import_module
from typing import Any

_PUBLIC = {
    "plot_report": "weft.view.plots",
    "render_beauty_film": "weft.view.beauty",
    "render_beauty_still": "weft.view.beauty",
    "render_film": "weft.view.pictures",
    "render_still": "weft.view.pictures",
    "view_cache": "weft.view.viewer",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.view' has no attribute {name!r}")

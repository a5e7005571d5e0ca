"""Pictures of caches: stills, films, plots, and the viewer in the browser. Everything here only reads caches.

The names are imported on first use, because each needs an optional package.
"""

import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from weft.lazy import lazy_names

if TYPE_CHECKING:
    from weft.cache import Cache
    from weft.view.viewer import ViewerHandle

_PUBLIC = {
    "plot_report": "weft.view.plots",
    "render_beauty_film": "weft.view.pictures",
    "render_beauty_still": "weft.view.pictures",
    "render_film": "weft.view.pictures",
    "render_still": "weft.view.pictures",
    "save_page": "weft.view.page",
    "view_cache": "weft.view.viewer",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)


class _CallableRoom(ModuleType):
    """The module, which can also be called: `weft.view(cache)`."""

    def __call__(
        self, cache: "Cache | str | Path", *, host: str = "127.0.0.1", port: int = 8080, browser: bool = True
    ) -> "ViewerHandle":
        """Show a cache in the browser and return at once; the handle's `close` ends it. A growing cache is followed."""
        from weft.view.viewer import open_viewer

        return open_viewer(cache, host=host, port=port, browser=browser)


sys.modules[__name__].__class__ = _CallableRoom

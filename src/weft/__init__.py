"""weft: cloth that does not pass through itself, and finds its way back when it was forced through.

Public names are imported on first use, so that `import weft` and `weft --help` answer at once.
"""

import sys
from importlib import import_module
from typing import Any

if sys.version_info < (3, 11):  # noqa: UP036 (run where pip was not asked)
    raise ImportError("weft needs Python 3.11 or later, and this is Python " + sys.version.split()[0])

from weft.lazy import lazy_names

__version__ = "0.1.0"

# public name -> the module that defines it
_PUBLIC = {
    "Box": "weft.scene",
    "Cache": "weft.cache",
    "Camera": "weft.scene",
    "Capsule": "weft.scene",
    "Cloth": "weft.scene",
    "Collider": "weft.scene",
    "Crease": "weft.scene",
    "Cylinder": "weft.scene",
    "Forces": "weft.scene",
    "Garment": "weft.scene",
    "Grid": "weft.scene",
    "Keyframe": "weft.scene",
    "MATERIALS": "weft.scene",
    "Material": "weft.scene",
    "Path": "weft.scene",
    "Pin": "weft.scene",
    "Placement": "weft.scene",
    "Plane": "weft.scene",
    "Predictive": "weft.scene",
    "Realtime": "weft.run.realtime",
    "Scene": "weft.scene",
    "Seam": "weft.scene",
    "Sequence": "weft.scene",
    "Simulation": "weft.run.simulation",
    "Sphere": "weft.scene",
    "Spin": "weft.scene",
    "Still": "weft.scene",
    "Strip": "weft.scene",
    "TriMesh": "weft.mesh",
    "WeftError": "weft.errors",
    "Wind": "weft.scene",
    "analyse": "weft.analysis",
    "contacts": "weft.contact",
    "dress": "weft.dressing",
    "export": "weft.exchange",
    "intersections": "weft.geometry.intersection",
    "load_mesh": "weft.mesh",
    "load_pattern": "weft.garment",
    "load_scene": "weft.scene",
    "open_cache": "weft.cache",
    "save_mesh": "weft.mesh",
    "save_scene": "weft.scene",
    "simulate": "weft.run",
    "subdivide": "weft.finish",
    "untangle": "weft.untangling",
    "wedge": "weft.farm",
}

# rooms that can be entered by name: `weft.contact.collisions(...)`
_ROOMS = (
    "analysis",
    "broad_phase",
    "cache",
    "check",
    "contact",
    "dressing",
    "errors",
    "exchange",
    "farm",
    "finish",
    "garment",
    "geometry",
    "mesh",
    "methods",
    "runtime",
    "scene",
    "validate",
    "view",
    "world",
)

# `__init__.pyi` says the same to type checkers and editors, who cannot see through `__getattr__`
__all__ = ["__version__", *_PUBLIC]
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC, _ROOMS)


def _show_in_notebooks() -> None:
    """Tell IPython how a notebook shows caches and simulations; what draws them is imported when one is shown."""
    shell = sys.modules["IPython"].get_ipython()
    formatter = getattr(shell, "display_formatter", None)
    if formatter is None:
        return

    def page(shown: Any) -> str:
        return str(import_module("weft.view.page").notebook_html(shown))

    for module, name in (("weft.cache.reader", "Cache"), ("weft.run.simulation", "Simulation")):
        formatter.formatters["text/html"].for_type_by_name(module, name, page)


if "IPython" in sys.modules:
    _show_in_notebooks()

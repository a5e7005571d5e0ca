"""Export of caches for other programs."""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "FORMATS": "weft.exchange.formats",
    "Exported": "weft.exchange.selection",
    "bind": "weft.exchange.bind",
    "export": "weft.exchange.formats",
    "read_pc2": "weft.mesh.formats.point_cache",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

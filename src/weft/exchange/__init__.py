"""Export of caches for other programs."""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "FORMATS": "weft.exchange.formats",
    "Exported": "weft.exchange.selection",
    "bind": "weft.exchange.bind",
    "export": "weft.exchange.formats",
    "export_glb": "weft.exchange.gltf",
    "export_npy": "weft.exchange.sequence",
    "export_npz": "weft.exchange.sequence",
    "export_abc": "weft.exchange.alembic",
    "export_mdd": "weft.exchange.sequence",
    "export_pc2": "weft.exchange.sequence",
    "export_sequence": "weft.exchange.sequence",
    "export_usd": "weft.exchange.usd",
    "read_pc2": "weft.mesh.formats.point_cache",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

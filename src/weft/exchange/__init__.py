"""Export of caches for other programs."""

from importlib import import_module
from typing import Any

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


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.exchange' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

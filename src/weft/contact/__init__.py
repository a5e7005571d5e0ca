"""Finding and answering contact: the search of a step, contact and CCD tests, impulses, repulsion, friction.

Names are imported on first use, since they compile kernels.
"""

from importlib import import_module
from typing import Any

# public name -> the module that defines it
_PUBLIC = {
    "Collisions": "weft.contact.collision",
    "Contacts": "weft.contact.contact",
    "collisions": "weft.contact.collision",
    "contacts": "weft.contact.contact",
    "find_contacts": "weft.contact.contact",
}

__all__ = list(_PUBLIC)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'weft.contact' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

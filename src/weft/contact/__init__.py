"""Finding and answering contact: the search of a step, contact and CCD tests, impulses, repulsion, friction.

Names are imported on first use, since they compile kernels.
"""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "Collisions": "weft.contact.contact",
    "Contacts": "weft.contact.contact",
    "collisions": "weft.contact.contact",
    "contacts": "weft.contact.contact",
    "find_contacts": "weft.contact.contact",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

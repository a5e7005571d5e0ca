"""Static untangling: a tangled mesh goes in, the nearest one without intersections that can be found comes out."""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "Round": "weft.untangling.untangler",
    "UntangleResult": "weft.untangling.untangler",
    "untangle": "weft.untangling.untangler",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

"""Work on many processes with Dask: studies that vary keys of a scene, and work on a cache frame by frame.

Names are imported on first use: Dask is an optional package, and slow to import.
"""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "Interval": "weft.farm.sweeps",
    "Outcome": "weft.farm.wedging",
    "Study": "weft.farm.study",
    "Wardrobe": "weft.farm.wardrobe",
    "dress_many": "weft.farm.wardrobe",
    "plot_study": "weft.farm.pictures",
    "wedge": "weft.farm.wedging",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

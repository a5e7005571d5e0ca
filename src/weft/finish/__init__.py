"""Finishing: finer, smoother frames without new intersections.

Names are imported on first use, since they compile kernels.
"""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "Finished": "weft.finish.finisher",
    "Finisher": "weft.finish.finisher",
    "Plan": "weft.finish.workers",
    "Result": "weft.finish.workers",
    "finish_frame": "weft.finish.workers",
    "subdivide": "weft.finish.batch",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

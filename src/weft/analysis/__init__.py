"""Global intersection analysis: where a mesh passes through itself, and which regions of it lie on the wrong side.

Names are imported on first use, since they compile kernels.
"""

from weft.lazy import lazy_names

# public name -> the module that defines it
_PUBLIC = {
    "Analyser": "weft.analysis.analyser",
    "Analysis": "weft.analysis.analyser",
    "Path": "weft.analysis.analyser",
    "Region": "weft.analysis.analyser",
    "analyse": "weft.analysis.analyser",
    "vertex_classes": "weft.analysis.analyser",
}

__all__ = list(_PUBLIC)
__getattr__, __dir__ = lazy_names(__name__, _PUBLIC)

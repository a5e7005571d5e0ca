"""The methods, one folder each, and the classes of their options: `weft.Scene(method=weft.methods.Robust(steps=8))`."""

from weft.methods.base import Method, make_method
from weft.scene import Boxes, Guarded, Plain, Predictive, Push, Robust, Untangle

__all__ = ["Boxes", "Guarded", "Method", "Plain", "Predictive", "Push", "Robust", "Untangle", "make_method"]

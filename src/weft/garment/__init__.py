"""Garments: sewing patterns, their triangles and seams, and drawings of them."""

from weft.garment.cut import CutGarment, cut_pattern
from weft.garment.pattern import Pattern, PatternError
from weft.garment.reading import load_pattern

__all__ = ["CutGarment", "Pattern", "PatternError", "cut_pattern", "load_pattern"]

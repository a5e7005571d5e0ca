"""Dressing a body: garments are sewn on it, settle, and are checked."""

from weft.dressing.dresser import Dressed, dress

__all__ = ["Dressed", "dress"]

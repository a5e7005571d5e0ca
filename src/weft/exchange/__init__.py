"""Handing caches on to other programs."""

from weft.exchange.sequence import export_sequence

__all__ = ["export_sequence"]

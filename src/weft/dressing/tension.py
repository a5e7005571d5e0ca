"""Rest tension: waistbands, collars and cuffs whose edges are shorter at rest than they are cut, as elastic that is sewn in."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError
from weft.garment import CutGarment
from weft.garment.pattern import EdgeName

Floats = NDArray[np.float64]

# m: a panel of which no point is farther from the edge than this is a band, a waistband or a cuff, and elastic as a whole
BAND = 0.08
# in other panels elastic fades over so many times what their ends move: beside it the flat shape is sheared by its inverse
FADE = 3.0
# of the length that was cut, how short elastic may be
SHORTEST = 0.3


def check_tension(tension: Mapping[str, float]) -> None:
    """Refuse elastic that is longer than the edge, or too short."""
    for label, fraction in tension.items():
        if not SHORTEST <= fraction <= 1.0:
            raise WeftError(
                f"tension {label!r}: the length at rest is between {SHORTEST:g} and 1 times what is cut, not {fraction:g}"
            )


def tightened(cut: CutGarment, tension: Mapping[str, float]) -> CutGarment:
    """The garment whose edges with these labels are so many times as long at rest, with the cloth beside them.

    Only the flat shape changes: points near a labelled edge move along its chord towards the middle of it.
    """
    uv = cut.uv.copy()
    for number, panel in enumerate(cut.pattern.panels):
        own = np.flatnonzero(cut.vertex_panel == number)
        for label, fraction in tension.items():
            names = [EdgeName(panel.name, i) for i, edge in enumerate(panel.edges) if edge.label == label]
            if names:
                along = [cut.edge_vertices[name] for name in names]
                uv[own] = _drawn_together(uv[own], [uv[edge] for edge in along], fraction)
    return replace(cut, uv=uv)


def _drawn_together(points: Floats, edges: list[Floats], fraction: float) -> Floats:
    """Points of a panel, drawn together along the edges that are to be shorter."""
    rim = np.concatenate(edges)
    # a row of edges has one chord: the direction in which it is longest
    middle = 0.5 * (rim.min(axis=0) + rim.max(axis=0))
    chord = np.linalg.svd(rim - rim.mean(axis=0))[2][0]
    across = (points - middle) @ chord
    away, reach = _distance(points, edges), FADE * (1.0 - fraction) * np.abs((rim - middle) @ chord).max()
    fade = np.ones(len(points)) if away.max() <= BAND else np.clip(1.0 - away / max(BAND, reach), 0.0, 1.0)
    return np.asarray(points - np.outer((1.0 - fraction) * fade * across, chord))


def _distance(points: Floats, edges: list[Floats]) -> Floats:
    """How far points are from the nearest of several polylines."""
    best = np.full(len(points), np.inf)
    for edge in edges:
        for a, b in pairwise(edge):
            d = b - a
            t = np.clip(((points - a) @ d) / (d @ d), 0.0, 1.0)
            best = np.minimum(best, np.linalg.norm(points - a - t[:, None] * d, axis=1))
    return best

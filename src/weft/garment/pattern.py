"""Sewing patterns: panels with their edges, folds and placements, and the seams between edges."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.garment.curves import Curve

Floats = NDArray[np.float64]

# chords by which edges are tested for crossings
CHORDS = 24


class PatternError(MeshError):
    """A sewing pattern that cannot be sewn as it is."""


@dataclass(frozen=True)
class PanelEdge:
    """One edge of a panel, from corner `start` to corner `end`."""

    start: int
    end: int
    curve: Curve
    label: str = ""
    """what the pattern calls it: `lower_interface` is a waistband"""

    @property
    def length(self) -> float:
        """In metres."""
        return self.curve.length


@dataclass(frozen=True)
class Fold:
    """A straight line across a panel, from corner to corner, along which the cloth is folded at rest: one edge of a pleat."""

    start: int
    end: int
    angle: float
    """degrees between the normals of its two sides, 0 is flat; positive: a ridge on the outside of the garment"""


@dataclass(frozen=True)
class Panel:
    """A flat piece of cloth and where it stands before it is sewn."""

    name: str
    corners: Floats
    """(k, 2) m"""
    edges: tuple[PanelEdge, ...]
    """a closed loop; seen from the outside of the garment it runs counter-clockwise"""
    rotation: Floats
    """(3, 3)"""
    translation: Floats
    """(3,) m"""
    label: str = ""
    """the part of the body that it covers, where the pattern says that"""
    folds: tuple[Fold, ...] = ()

    def placed(self, points: Floats) -> Floats:
        """(n, 3) where points of the flat panel stand in the world."""
        flat = np.column_stack([points, np.zeros(len(points))])
        return np.asarray(flat @ self.rotation.T + self.translation)

    @cached_property
    def outline(self) -> Floats:
        """(n, 2) a polygon along all edges, without a repeated point at the end."""
        return np.concatenate([edge.curve.divided(1 if edge.curve.straight else CHORDS)[:-1] for edge in self.edges])

    @property
    def size(self) -> float:
        """m: the diagonal of the box around its corners."""
        return float(np.linalg.norm(np.ptp(self.corners, axis=0)))

    @property
    def area(self) -> float:
        """m^2; negative where the loop of edges runs clockwise in the plane."""
        x, y = self.outline.T
        return 0.5 * float(np.sum(x * np.roll(y, -1) - np.roll(x, -1) * y))


@dataclass(frozen=True)
class EdgeName:
    """An edge of a pattern: the name of its panel and its number there."""

    panel: str
    edge: int

    def __str__(self) -> str:
        return f"edge {self.edge} of panel {self.panel!r}"


@dataclass(frozen=True)
class PatternSeam:
    """Two edges that are sewn together along their whole lengths, however different these are."""

    one: EdgeName
    other: EdgeName
    same_way: bool = False
    """the start of one meets the start of the other, instead of its end: right side on wrong side"""


@dataclass(frozen=True)
class Pattern:
    """A sewing pattern, in metres."""

    name: str
    panels: tuple[Panel, ...]
    seams: tuple[PatternSeam, ...]

    def panel(self, name: str) -> Panel:
        """The panel of that name."""
        return self._by_name[name]

    def edge(self, name: EdgeName) -> PanelEdge:
        """The edge of that name."""
        return self._by_name[name.panel].edges[name.edge]

    @property
    def labels(self) -> list[str]:
        """The labels of its edges, without repetition."""
        return sorted({edge.label for panel in self.panels for edge in panel.edges} - {""})

    @cached_property
    def _by_name(self) -> dict[str, Panel]:
        return {panel.name: panel for panel in self.panels}

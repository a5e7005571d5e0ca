"""The edges of a panel as plane curves: straight, Bezier of degree two and three, and arcs of a circle."""

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# chords by which the length of a curve is measured; an arc of half a circle is then short by one part in 60,000
CHORDS = 256


@dataclass(frozen=True)
class Curve:
    """A curve from its first to its last control point: Bezier, or an arc where `centre` and `sweep` are given."""

    control: Floats
    """(2 to 4, 2) m: the ends, and between them the control points of a Bezier curve"""
    centre: tuple[float, float] | None = None
    """m; of an arc"""
    sweep: float = 0.0
    """rad; the angle of an arc, positive counter-clockwise"""

    @property
    def straight(self) -> bool:
        """Whether it is a straight line."""
        return len(self.control) == 2 and self.centre is None

    def at(self, t: Floats) -> Floats:
        """(k, 2) points at the parameters t, from 0 to 1."""
        t = np.asarray(t, dtype=np.float64)[:, None]
        if self.centre is not None:
            centre = np.array(self.centre)
            x, y = self.control[0] - centre
            angle = self.sweep * t[:, 0]
            turned = np.stack([x * np.cos(angle) - y * np.sin(angle), x * np.sin(angle) + y * np.cos(angle)], axis=1)
            points = centre + turned
        else:
            # de Casteljau: repeated interpolation between neighbouring control points
            level = [np.broadcast_to(point, (len(t), 2)) for point in self.control]
            while len(level) > 1:
                level = [(1.0 - t) * a + t * b for a, b in pairwise(level)]
            points = np.array(level[0])
        points[t[:, 0] == 0.0], points[t[:, 0] == 1.0] = self.control[0], self.control[-1]
        return points

    @cached_property
    def _measured(self) -> tuple[Floats, Floats]:
        """Parameters, and the length of the curve up to them."""
        t = np.linspace(0.0, 1.0, CHORDS + 1)
        steps = np.linalg.norm(np.diff(self.at(t), axis=0), axis=1)
        return t, np.concatenate([[0.0], np.cumsum(steps)])

    @property
    def length(self) -> float:
        """In metres."""
        if self.straight:
            return float(np.linalg.norm(self.control[-1] - self.control[0]))
        return float(self._measured[1][-1])

    def divided(self, count: int) -> Floats:
        """(count + 1, 2) points that divide the curve into `count` pieces of equal length."""
        return self.at_lengths(np.linspace(0.0, 1.0, count + 1))

    def at_lengths(self, fractions: Floats) -> Floats:
        """(k, 2) points at fractions of the length."""
        if self.straight:
            return self.at(fractions)
        t, lengths = self._measured
        return self.at(np.interp(np.asarray(fractions) * lengths[-1], lengths, t))


def line(start: Floats, end: Floats) -> Curve:
    """The straight line between two points."""
    return Curve(np.array([start, end]))


def bezier(start: Floats, end: Floats, control: Floats) -> Curve:
    """A Bezier curve whose control points are relative to its chord: along it, and to its left, in parts of its length."""
    along = end - start
    left = np.array([-along[1], along[0]])
    return Curve(np.array([start, *(start + x * along + y * left for x, y in control), end]))


def arc(start: Floats, end: Floats, radius: float, large: bool, right: bool) -> Curve | None:
    """The arc of a circle between two points; None where the circle is too small to reach from one to the other.

    `large` takes the longer of the two arcs. `right` is the sweep flag of SVG in a plane whose y axis points up: an arc
    that runs counter-clockwise, and so bulges to the right of the way from start to end.
    """
    chord = end - start
    half = 0.5 * float(np.linalg.norm(chord))
    # a half circle, whose radius rounding may make a little too short
    if half > radius * (1.0 + 1e-6):
        return None
    height = math.sqrt(max(0.0, radius * radius - half * half))
    left = np.array([-chord[1], chord[0]]) / (2.0 * half)
    # the centre is on the left of a short arc that bulges to the right
    side = 1.0 if right != large else -1.0
    centre = 0.5 * (start + end) + side * height * left
    angle = 2.0 * math.asin(min(1.0, half / radius))
    sweep = (2.0 * math.pi - angle) if large else angle
    return Curve(np.array([start, end]), (float(centre[0]), float(centre[1])), sweep if right else -sweep)

"""Exact continuous collision detection in integers: the ground truth that `weft.geometry.ccd` is tested against.

Every finite double is a whole number times a power of two, so the coordinates of a query are first scaled to
integers; after that all is polynomial algebra over the integers, with no rounding anywhere. Vertices move on straight
lines over t in [0, 1]. The four vertices are coplanar at the roots of a cubic; a root is an isolating dyadic interval,
and the sign of another polynomial at it comes from refinement, with a greatest common divisor to recognise zero.
Where the cubic vanishes identically (coplanar all along), a first contact after the start puts a vertex on an edge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise
from math import gcd
from typing import Any, NamedTuple

import numpy as np

# a polynomial: integer coefficients, lowest power first, no trailing zeros; the empty tuple is zero
Poly = tuple[int, ...]
Vector = tuple[Poly, Poly, Poly]

# a reported time of contact is enclosed in an interval of 2^-TIME_BITS
TIME_BITS = 80


class Contact(NamedTuple):
    """The first contact of a query lies in [low, high]."""

    low: Fraction
    high: Fraction


def integers(values: Iterable[float]) -> tuple[list[int], int]:
    """Finite doubles times one power of two: whole numbers, and the exponent of that power."""
    ratios = [float(value).as_integer_ratio() for value in values]
    largest = max((denominator for _, denominator in ratios), default=1)
    return [numerator * (largest // denominator) for numerator, denominator in ratios], largest.bit_length() - 1


def point_triangle(start: Any, end: Any) -> Contact | None:
    """First contact of point p and triangle abc, rows of two (4, 3) arrays of doubles; None if they never touch."""
    p, a, b, c = _moving(start, end)
    e, f, r = _minus(b, a), _minus(c, a), _minus(p, a)
    n = _cross(e, f)
    sides = ((p, a, b), (p, b, c), (p, c, a))

    def touches(root: _Root) -> bool:
        # a triangle without area is the union of its sides
        if all(root.sign(component) == 0 for component in n):
            return any(_on_segment(root, *side) for side in sides)
        towards_b, towards_c = _dot(_cross(r, f), n), _dot(_cross(e, r), n)
        towards_a = _add(_dot(n, n), _times((-1,), _add(towards_b, towards_c)))
        return all(root.sign(weight) >= 0 for weight in (towards_b, towards_c, towards_a))

    return _first_contact(_dot(n, r), touches, sides)


def edge_edge(start: Any, end: Any) -> Contact | None:
    """First contact of the edges a0 a1 and b0 b1, rows of two (4, 3) arrays; None if they never touch."""
    a0, a1, b0, b1 = _moving(start, end)
    e, f, r = _minus(a1, a0), _minus(b1, b0), _minus(b0, a0)
    n = _cross(e, f)
    ends = ((a0, b0, b1), (a1, b0, b1), (b0, a0, a1), (b1, a0, a1))

    def touches(root: _Root) -> bool:
        # parallel or degenerate edges that touch have an end of one on the other
        if all(root.sign(component) == 0 for component in n):
            return any(_on_segment(root, *end) for end in ends)
        nn = _dot(n, n)
        along = (_dot(_cross(r, f), n), _dot(_cross(r, e), n))
        return all(root.sign(s) >= 0 and root.sign(_add(nn, _times((-1,), s))) >= 0 for s in along)

    return _first_contact(_dot(n, r), touches, ends)


def distance_squared(kind: str, start: Any, end: Any, time: float) -> Fraction:
    """Exact squared distance of a pair at one time; kind is "point_triangle" or "edge_edge"."""
    v, exponent = integers([*np.ravel(start), *np.ravel(end)])
    k, scale = float(time).as_integer_ratio()
    x = [v[i] * (scale - k) + v[12 + i] * k for i in range(12)]
    p, a, b, c = (x[0:3], x[3:6], x[6:9], x[9:12])
    if kind == "point_triangle":
        hull = [_sub(p, a), _sub(p, b), _sub(p, c)]
    else:
        hull = [_sub(p, b), _sub(a, b), _sub(a, c), _sub(p, c)]
    return _hull_distance_squared(hull) / (Fraction(scale) * (1 << exponent)) ** 2


# contact over time


def _first_contact(volume: Poly, touches: Any, slides: Sequence[tuple[Vector, Vector, Vector]]) -> Contact | None:
    if volume:
        return next((root.contact() for root in _roots(volume) if touches(root)), None)
    # coplanar all along: touching at the start, or else first where a vertex comes onto an edge
    if touches(_Root.at(0)):
        return _Root.at(0).contact()
    found = [root.contact() for root in (_slide(*slide) for slide in slides) if root is not None]
    return Contact(min(c.low for c in found), min(c.high for c in found)) if found else None


def _on_segment(root: _Root, p: Vector, a: Vector, b: Vector) -> bool:
    pa, pb = _minus(p, a), _minus(p, b)
    return all(root.sign(component) == 0 for component in _cross(pa, pb)) and root.sign(_dot(pa, pb)) <= 0


def _slide(p: Vector, a: Vector, b: Vector) -> _Root | None:
    """First time in [0, 1] at which p lies on the segment ab."""
    pa, pb = _minus(p, a), _minus(p, b)
    between = _dot(pa, pb)
    common: Poly = ()
    for component in _cross(pa, pb):
        common = _gcd(common, component)
    if common:
        return next((root for root in _roots(common) if root.sign(between) <= 0), None)
    # collinear all along: the first time at which p is not outside
    if _evaluate(between, 0, 0) <= 0:
        return _Root.at(0)
    return next(iter(_roots(between)), None)


# real roots in [0, 1]


class _Root:
    """A root of `poly` in the open interval (k, k + 1) / 2^m, the only one there, or exactly k / 2^m."""

    def __init__(self, poly: Poly, k: int, m: int, *, exact: bool = False) -> None:
        self.poly, self.k, self.m, self.exact = poly, k, m, exact
        while not self.exact and (_evaluate(poly, self.k, self.m) == 0 or _evaluate(poly, self.k + 1, self.m) == 0):
            self.refine()

    @classmethod
    def at(cls, k: int, m: int = 0) -> _Root:
        return cls((), k, m, exact=True)

    def refine(self) -> None:
        """Halve the interval."""
        if self.exact:
            return
        self.k, self.m = 2 * self.k, self.m + 1
        if _evaluate(self.poly, self.k + 1, self.m) == 0:
            self.k, self.exact = self.k + 1, True
        elif _variations(_bernstein(self.poly, self.k, self.m)) == 0:
            self.k += 1

    def sign(self, poly: Poly) -> int:
        """Sign of another polynomial at this root."""
        if not poly:
            return 0
        if self.exact:
            return _sign(_evaluate(poly, self.k, self.m))
        sign = _constant_sign(_bernstein(poly, self.k, self.m))
        if sign:
            return sign
        # a common divisor has the root exactly when it changes sign over the interval: the root is simple
        common = _gcd(self.poly, poly)
        if _sign(_evaluate(common, self.k, self.m)) * _sign(_evaluate(common, self.k + 1, self.m)) < 0:
            return 0
        while not (sign := _constant_sign(_bernstein(poly, self.k, self.m))):
            self.refine()
            if self.exact:
                return _sign(_evaluate(poly, self.k, self.m))
        return sign

    def contact(self) -> Contact:
        """The root, enclosed narrowly."""
        while not self.exact and self.m < TIME_BITS:
            self.refine()
        return Contact(Fraction(self.k, 1 << self.m), Fraction(self.k + (not self.exact), 1 << self.m))


def _roots(poly: Poly) -> list[_Root]:
    """The distinct roots in [0, 1] of a polynomial that is not zero, in order."""
    if _variations(_bernstein(poly, 0, 0)) > 1:
        poly = _square_free(poly)
    found = [_Root.at(0)] if _evaluate(poly, 0, 0) == 0 else []
    found += _inner_roots(poly)
    if _evaluate(poly, 1, 0) == 0:
        found.append(_Root.at(1))
    return found


def _inner_roots(poly: Poly) -> list[_Root]:
    """Those in the open interval, by bisection: roots may be as near to each other as 2^-1074."""
    found = []
    pending = [(0, 0)]
    while pending:
        k, m = pending.pop()
        # Descartes' rule in the Bernstein basis: no variation, no root; one variation, one root
        variations = _variations(_bernstein(poly, k, m))
        if variations == 1:
            found.append(_Root(poly, k, m))
        elif variations:
            if _evaluate(poly, 2 * k + 1, m + 1) == 0:
                found.append(_Root.at(2 * k + 1, m + 1))
            pending += [(2 * k, m + 1), (2 * k + 1, m + 1)]
    return sorted(found, key=lambda root: Fraction(2 * root.k + (not root.exact), 2 << root.m))


def _evaluate(poly: Poly, k: int, m: int) -> int:
    """A positive multiple of the value at k / 2^m."""
    value = 0
    shift = 0
    for coefficient in reversed(poly):
        value = value * k + (coefficient << shift)
        shift += m
    return value


# i! (d - i)!, which clears the denominators of the change of basis, and the binomial coefficients
_WEIGHTS = {0: (1,), 1: (1, 1), 2: (2, 1, 2), 3: (6, 2, 2, 6), 4: (24, 6, 4, 6, 24)}
_BINOMIALS = ((1,), (1, 1), (1, 2, 1), (1, 3, 3, 1), (1, 4, 6, 4, 1))


def _bernstein(poly: Poly, k: int, m: int) -> list[int]:
    """Positive multiples of the Bernstein coefficients on [k, k + 1] / 2^m."""
    degree = len(poly) - 1
    a = [coefficient << (m * (degree - i)) for i, coefficient in enumerate(poly)]
    if k:
        for i in range(degree):
            for j in range(degree - 1, i - 1, -1):
                a[j] += k * a[j + 1]
    weighted = [w * c for w, c in zip(_WEIGHTS[degree], a, strict=True)]
    return [sum(map(int.__mul__, _BINOMIALS[j], weighted)) for j in range(degree + 1)]


def _variations(coefficients: list[int]) -> int:
    signs = [c > 0 for c in coefficients if c]
    return sum(a != b for a, b in pairwise(signs))


def _constant_sign(coefficients: list[int]) -> int:
    if all(c > 0 for c in coefficients):
        return 1
    return -1 if all(c < 0 for c in coefficients) else 0


# polynomials over the integers


def _moving(start: Any, end: Any) -> list[Vector]:
    """Four vertices on their way, as vectors of linear polynomials with integer coefficients."""
    v, _ = integers([*np.ravel(start), *np.ravel(end)])
    lines = [_trim((v[i], v[12 + i] - v[i])) for i in range(12)]
    return [(lines[3 * k], lines[3 * k + 1], lines[3 * k + 2]) for k in range(4)]


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _trim(coefficients: Sequence[int]) -> Poly:
    size = len(coefficients)
    while size and coefficients[size - 1] == 0:
        size -= 1
    return tuple(coefficients[:size])


def _add(a: Poly, b: Poly) -> Poly:
    if len(a) < len(b):
        a, b = b, a
    return _trim([x + y for x, y in zip(a, b, strict=False)] + list(a[len(b) :]))


def _times(a: Poly, b: Poly) -> Poly:
    if not a or not b:
        return ()
    product = [0] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] += x * y
    return _trim(product)


def _difference(a: Poly, b: Poly) -> Poly:
    return _add(a, tuple(-x for x in b))


def _minus(a: Vector, b: Vector) -> Vector:
    return (_difference(a[0], b[0]), _difference(a[1], b[1]), _difference(a[2], b[2]))


def _dot(a: Vector, b: Vector) -> Poly:
    return _add(_add(_times(a[0], b[0]), _times(a[1], b[1])), _times(a[2], b[2]))


def _cross(a: Vector, b: Vector) -> Vector:
    return (
        _difference(_times(a[1], b[2]), _times(a[2], b[1])),
        _difference(_times(a[2], b[0]), _times(a[0], b[2])),
        _difference(_times(a[0], b[1]), _times(a[1], b[0])),
    )


def _primitive(poly: Poly) -> Poly:
    content = gcd(*poly) if poly else 0
    return tuple(c // content for c in poly) if content > 1 else poly


def _gcd(a: Poly, b: Poly) -> Poly:
    """Greatest common divisor up to a constant factor, by primitive pseudo-remainders."""
    a, b = _primitive(a), _primitive(b)
    while b:
        if len(a) < len(b):
            a, b = b, a
            continue
        remainder: Sequence[int] = a
        while len(remainder) >= len(b):
            lead, shift = remainder[-1], len(remainder) - len(b)
            scaled = [c * b[-1] for c in remainder]
            for i, c in enumerate(b):
                scaled[i + shift] -= lead * c
            remainder = _trim(scaled)
        a, b = b, _primitive(tuple(remainder))
    return a


def _square_free(poly: Poly) -> Poly:
    """The polynomial with every root made simple."""
    common = _gcd(poly, _trim([i * c for i, c in enumerate(poly)][1:]))
    if len(common) <= 1:
        return poly
    # the division leaves no rest, and over primitive polynomials its quotient is integral (Gauss)
    remainder, quotient = list(_primitive(poly)), []
    while len(remainder) >= len(common):
        factor = remainder[-1] // common[-1]
        quotient.append(factor)
        shift = len(remainder) - len(common)
        for i, c in enumerate(common):
            remainder[i + shift] -= factor * c
        remainder.pop()
    return _trim(quotient[::-1])


# exact distance at one time


def _hull_distance_squared(hull: list[list[int]]) -> Fraction:
    """Squared distance from the origin to a planar convex polygon, corners in order."""
    sides = list(zip(hull, hull[1:] + hull[:1], strict=True))
    best = min(_segment_distance_squared(a, b) for a, b in sides)
    n = _cross_ints(_sub(hull[1], hull[0]), _sub(hull[-1], hull[0]))
    nn = _dot_ints(n, n)
    if nn and all(_dot_ints(_cross_ints(a, b), n) >= 0 for a, b in sides):
        best = min(best, Fraction(_dot_ints(n, hull[0]) ** 2, nn))
    return best


def _segment_distance_squared(a: list[int], b: list[int]) -> Fraction:
    d = _sub(b, a)
    along, length = -_dot_ints(a, d), _dot_ints(d, d)
    if along <= 0:
        return Fraction(_dot_ints(a, a))
    if along >= length:
        return Fraction(_dot_ints(b, b))
    return Fraction(_dot_ints(a, a) * length - along * along, length)


def _sub(a: list[int], b: list[int]) -> list[int]:
    return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]


def _dot_ints(a: list[int], b: list[int]) -> int:
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def _cross_ints(a: list[int], b: list[int]) -> list[int]:
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

"""Exact orientation predicates: on which side of a plane or a line does a point with float64 coordinates lie?

The functions take arrays of points, one case an entry. Three stages, each for the cases that the one before left
undecided. A floating-point filter with a forward error bound decides almost all. The rest is written as an exact sum of
float64 numbers (differences or coordinates multiplied out without error by two-product: Dekker; Shewchuk 1997), whose
sign comes from error-free distillation by two-sum (Ogita, Rump and Oishi 2005). Cases with coordinates too small for
error-free products use Python's integers. No result is approximate, and no coordinate is perturbed.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Signs = NDArray[np.int8]

# unit roundoff of float64
_U = 2.0**-53
# forward error bounds, relative to the sum of magnitudes: at most 4 and 8 roundings a term, and room for those of the bound
_BOUND_2D = 5.0 * _U
_BOUND_3D = 10.0 * _U
# magnitudes between which products of three coordinates, and their error terms, neither overflow nor underflow
SMALLEST, LARGEST = 2.0**-270, 2.0**300
# cases computed at once: the terms of a chunk stay in the processor's cache
_CHUNK = 4096
# passes of distillation before the last cases go to integers; each pass gains 53 bits, so two or three nearly always do
_PASSES = 40


def orient2d(a: Floats, b: Floats, c: Floats) -> Signs:
    """(n,) sign of (b - a) x (c - a) for (n, 2) points: 1 where a, b, c turn left, 0 where they are collinear."""
    return _orient([a, b, c], _filter2d, _terms2d)


def orient3d(a: Floats, b: Floats, c: Floats, d: Floats) -> Signs:
    """(n,) sign of ((b - a) x (c - a)) . (d - a) for (n, 3) points.

    It is 1 where d lies on the side of triangle abc to which its normal points, 0 where the four are coplanar.
    """
    return _orient([a, b, c, d], _filter3d, _terms3d)


def _orient(
    points: list[Floats],
    settle: Callable[[Floats], tuple[Signs, NDArray[np.bool_]]],
    terms: Callable[[Floats], Floats],
) -> Signs:
    # axes (corner, coordinate, case): every coordinate is contiguous in memory
    x = np.ascontiguousarray(np.stack([np.asarray(p, dtype=np.float64) for p in points]).transpose(0, 2, 1))
    if x.size and not np.abs(x).max() <= LARGEST:
        raise ValueError(f"coordinates must be finite and at most {LARGEST:g} in magnitude")
    signs = np.zeros(x.shape[2], dtype=np.int8)
    for start in range(0, len(signs), 8 * _CHUNK):
        chunk = slice(start, start + 8 * _CHUNK)
        signs[chunk] = _orient_chunk(x[:, :, chunk], settle, terms)
    return signs


def _orient_chunk(
    x: Floats,
    settle: Callable[[Floats], tuple[Signs, NDArray[np.bool_]]],
    terms: Callable[[Floats], Floats],
) -> Signs:
    small = ((x != 0.0) & (np.abs(x) < SMALLEST)).any(axis=(0, 1))
    with np.errstate(under="ignore"):
        signs, settled = settle(x)
    settled &= ~small
    # the rest exactly: very small coordinates as integers, all others as error-free sums
    for case in np.flatnonzero(small):
        signs[case] = _integer_sign(x[:, :, case])
    undecided = np.flatnonzero(~settled & ~small)
    for start in range(0, len(undecided), _CHUNK):
        cases = undecided[start : start + _CHUNK]
        # where all differences to the first corner are exact, a determinant of differences has fewer terms
        moved, exact = _differences(x[:, :, cases])
        for some, values in ((exact, moved), (~exact, x[:, :, cases])):
            if some.any():
                signs[cases[some]] = sign_of_sum(terms(np.ascontiguousarray(values[:, :, some])))
    return signs


def _filter2d(x: Floats) -> tuple[Signs, NDArray[np.bool_]]:
    b, c = x[1] - x[0], x[2] - x[0]
    left, right = b[0] * c[1], b[1] * c[0]
    return _settle(left - right, _BOUND_2D * (np.abs(left) + np.abs(right)))


def _filter3d(x: Floats) -> tuple[Signs, NDArray[np.bool_]]:
    b, c, d = x[1] - x[0], x[2] - x[0], x[3] - x[0]
    value = np.zeros(x.shape[2])
    size = np.zeros(x.shape[2])
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        left, right = b[i] * c[j], b[j] * c[i]
        value += (left - right) * d[k]
        size += (np.abs(left) + np.abs(right)) * np.abs(d[k])
    return _settle(value, _BOUND_3D * size)


def _settle(value: Floats, bound: Floats) -> tuple[Signs, NDArray[np.bool_]]:
    # a bound of zero means that every product was zero, so the value is
    settled = (np.abs(value) > bound) | (bound == 0.0)
    return np.where(settled, np.sign(value), 0).astype(np.int8), settled


def _differences(x: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """The points relative to the first one, and the cases in which none of these differences was rounded."""
    moved, error = _two_sum(x, -x[:1])
    return moved, np.all(error == 0.0, axis=(0, 1))


def _terms2d(x: Floats) -> Floats:
    """(terms, n) numbers whose sum over the terms is exactly det(b - a, c - a)."""
    terms = []
    for p, q in ((0, 1), (1, 2), (2, 0)):
        for i, j in ((0, 1), (1, 0)):
            terms += [t if i == 0 else -t for t in _two_product(x[p, i], x[q, j])]
    return _nonzero_terms(terms, x.shape[2])


def _terms3d(x: Floats) -> Floats:
    """(terms, n) numbers whose sum over the terms is exactly det(b - a, c - a, d - a).

    They are those of the expanded 4 x 4 determinant with a column of ones.
    """
    terms: list[Floats] = []
    for p, q, r, sign in ((1, 2, 3, 1.0), (0, 2, 3, -1.0), (0, 1, 3, 1.0), (0, 1, 2, -1.0)):
        for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
            if not (x[p].any() and x[r, k].any()):
                continue
            left, left_error = _two_product(x[p, i], x[q, j])
            right, right_error = _two_product(x[p, j], x[q, i])
            factor = sign * x[r, k]
            for term in (left, left_error, -right, -right_error):
                terms += _two_product(term, factor)
    return _nonzero_terms(terms, x.shape[2])


def _nonzero_terms(terms: list[Floats], cases: int) -> Floats:
    kept = [t for t in terms if t.any()]
    return np.array(kept) if kept else np.zeros((1, cases))


def sign_of_sum(terms: Floats) -> Signs:
    """Exact sign of the sum of each column, by distillation: a pass of two-sums moves the sum into the last row and leaves
    the rounding errors in the others."""
    signs = np.zeros(terms.shape[1], dtype=np.int8)
    columns = np.arange(terms.shape[1])
    passes = 0
    while len(columns):
        for i in range(1, len(terms)):
            terms[i], terms[i - 1] = _two_sum(terms[i], terms[i - 1])
        # the other rows are rounding errors: their float sum is wrong by far less than a factor of 2
        rest = np.abs(terms[:-1]).sum(axis=0)
        settled = (np.abs(terms[-1]) > 2.0 * rest) | (rest == 0.0)
        signs[columns[settled]] = np.sign(terms[-1, settled])
        columns, terms = columns[~settled], terms[:, ~settled]
        terms = terms[terms.any(axis=1)]
        passes += 1
        if passes == _PASSES:
            for column, values in zip(columns, terms.T, strict=True):
                total = sum(_integers(values))
                signs[column] = (total > 0) - (total < 0)
            break
    return signs


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and its rounding error (Knuth)."""
    total = a + b
    other = total - a
    return total, (a - (total - other)) + (b - other)


def _two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded product and its rounding error (Dekker, with Veltkamp's split)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)


def _split(a: Floats) -> tuple[Floats, Floats]:
    scaled = 134217729.0 * a
    high = scaled - (scaled - a)
    return high, a - high


def _integers(values: Floats) -> list[int]:
    """The numbers times a common power of two, as integers."""
    fractions = [float(value).as_integer_ratio() for value in values]
    scale = max((denominator for _, denominator in fractions), default=1)
    return [numerator * (scale // denominator) for numerator, denominator in fractions]


def _integer_sign(x: Floats) -> int:
    """The sign of one case, in Python's integers."""
    flat = _integers(x.ravel())
    dimension = x.shape[1]
    points = [flat[i : i + dimension] for i in range(0, len(flat), dimension)]
    rows = [[value - origin for value, origin in zip(point, points[0], strict=True)] for point in points[1:]]
    if dimension == 2:
        (bx, by), (cx, cy) = rows
        value = bx * cy - by * cx
    else:
        (bx, by, bz), (cx, cy, cz), (dx, dy, dz) = rows
        value = (by * cz - bz * cy) * dx + (bz * cx - bx * cz) * dy + (bx * cy - by * cx) * dz
    return (value > 0) - (value < 0)

"""Families of moving pairs made to break continuous collision detection, each a pair of (n, 4, 3) arrays.

Most are built around a contact: four vertices that touch at a time t*, and straight paths through it. `dyadic`
rounds all ingredients to multiples of 2^-12, which makes the positions at both ends exact, and with them the grazing
contacts, double roots and alignments; without it they are off by rounding, to either side.
"""

from collections.abc import Callable

import numpy as np
from numpy.random import Generator

Pairs = tuple[np.ndarray, np.ndarray]
Family = Callable[[Generator, str, int], Pairs]

KINDS = ("point_triangle", "edge_edge")


def families() -> dict[str, Family]:
    """Every family by name."""
    plain: dict[str, Family] = {
        "random": _random,
        "lattice": _lattice,
        "coplanar": _coplanar,
        "collinear": _collinear,
        "sliding": _sliding,
        "still": _still,
        "degenerate": _degenerate,
        "sliver": _sliver,
        "double_root": _double_root,
        "triple_root": _triple_root,
        "hover": _hover,
        "flat_hover": _flat_hover,
        "windmill": _windmill,
        "parallel": _parallel,
        "far_and_small": _far_and_small,
    }
    for exact in (True, False):
        suffix = "_exact" if exact else ""
        plain[f"interior{suffix}"] = _touching(corner=False, exact=exact)
        plain[f"grazing{suffix}"] = _touching(corner=True, exact=exact)
    plain["near_miss"] = _near_miss
    wide = dict(plain)
    for name in ("random", "lattice", "coplanar", "sliding", "grazing", "double_root", "hover", "sliver"):
        wide[f"{name}_scaled"] = _scaled(plain[name])
        wide[f"{name}_offset"] = _offset(plain[name])
        wide[f"{name}_nudged"] = _nudged(plain[name])
        wide[f"{name}_turned"] = _turned(plain[name])
    return wide


def cloth(rng: Generator, kind: str, n: int) -> Pairs:
    """Pairs as a broad phase hands them over: 1 cm elements about 1 cm apart that move some millimetres."""
    centre = rng.normal(size=(n, 1, 3))
    start = centre + 0.006 * rng.normal(size=(n, 4, 3))
    drift = 0.004 * rng.normal(size=(n, 2, 3))
    sides = [0, 1, 1, 1] if kind == "point_triangle" else [0, 0, 1, 1]
    return start, start + drift[:, sides] + 0.001 * rng.normal(size=(n, 4, 3))


def dyadic(x: np.ndarray, bits: int = 12) -> np.ndarray:
    """Rounded to multiples of 2^-bits."""
    return np.ldexp(np.rint(np.ldexp(x, bits)), -bits)


def _random(rng: Generator, kind: str, n: int) -> Pairs:
    return rng.normal(size=(n, 4, 3)), rng.normal(size=(n, 4, 3))


def _lattice(rng: Generator, kind: str, n: int) -> Pairs:
    reach = rng.integers(1, 4, size=(n, 1, 1))
    return tuple(np.rint(rng.uniform(-1, 1, size=(n, 4, 3)) * reach) for _ in range(2))  # type: ignore[return-value]


def _coplanar(rng: Generator, kind: str, n: int) -> Pairs:
    """In one plane all along, which may move: the cubic vanishes identically."""
    start, end = _random(rng, kind, n)
    start, end = dyadic(start), dyadic(end)
    # the plane z = i x + j y with small integers is exact
    for x in (start, end):
        slope = rng.integers(-2, 3, size=(n, 1, 2)).astype(float)
        x[..., 2] = (slope * x[..., :2]).sum(-1) + dyadic(rng.normal(size=(n, 1)))
    return start, end


def _collinear(rng: Generator, kind: str, n: int) -> Pairs:
    """On one line all along."""
    pairs = []
    for _ in range(2):
        along = dyadic(rng.normal(size=(n, 4, 1)), bits=6)
        direction = rng.integers(-3, 4, size=(n, 1, 3)).astype(float)
        pairs.append(along * direction + dyadic(rng.normal(size=(n, 1, 3))))
    return pairs[0], pairs[1]


def _sliding(rng: Generator, kind: str, n: int) -> Pairs:
    """The contact point stays on an edge (or nearly) and moves along it, past its end or not."""
    a, b, c = (dyadic(rng.normal(size=(n, 3))) for _ in range(3))
    offset = dyadic(rng.normal(size=(n, 3))) * rng.integers(0, 2, size=(n, 1))
    s0, s1 = (np.rint(rng.uniform(-2, 6, size=(n, 1)) * 4) / 16 for _ in range(2))
    p0, p1 = a + s0 * (b - a), a + s1 * (b - a) + offset
    gap = np.ldexp(rng.choice([0.0, 0.0, 1.0], size=(n, 1)), rng.integers(-60, -10, size=(n, 1)))
    p0, p1 = p0 + gap * c, p1 + gap * c
    if kind == "point_triangle":
        return np.stack([p0, a, b, c], 1), np.stack([p1, a + offset, b + offset, c + offset], 1)
    far = dyadic(rng.normal(size=(n, 3))) + c
    along = rng.integers(0, 2, size=(n, 1))
    q0, q1 = (p + np.where(along, (b - a) / 2, far - a) for p in (p0, p1))
    return np.stack([p0, q0, a, b], 1), np.stack([p1, q1, a + offset, b + offset], 1)


def _still(rng: Generator, kind: str, n: int) -> Pairs:
    """No motion at all: touching, nearly touching or apart."""
    start, end = _touching(corner=True, exact=True)(rng, kind, n)
    half = (start + end) / 2
    shift = np.zeros((n, 4, 3))
    shift[:, 0] = rng.normal(size=(n, 3)) * 10.0 ** rng.uniform(-18, -3, size=(n, 1)) * rng.integers(0, 2, size=(n, 1))
    half = half + shift
    return half, half.copy()


def _degenerate(rng: Generator, kind: str, n: int) -> Pairs:
    """Elements without length or area, at the start, at the end or all along."""
    start, end = _touching(corner=bool(rng.integers(2)), exact=True)(rng, kind, n)
    start, end = start.copy(), end.copy()
    for x in (start, end):
        # some rows collapse one vertex onto another
        rows = np.flatnonzero(rng.integers(0, 3, size=n))
        i, j = rng.integers(0, 4, size=(2, len(rows)))
        x[rows, i] = x[rows, j]
    rows = np.flatnonzero(rng.integers(0, 2, size=n))
    i, j = rng.integers(0, 4, size=(2, len(rows)))
    for x in (start, end):
        x[rows, i] = x[rows, j]
    return start, end


def _sliver(rng: Generator, kind: str, n: int) -> Pairs:
    """Needles: one direction is squeezed by 1e-4 to 1e-15 in every vertex."""
    start, end = _touching(corner=bool(rng.integers(2)), exact=False)(rng, kind, n)
    squeeze = np.ones((n, 1, 3))
    squeeze[:, :, 1] = 10.0 ** rng.uniform(-15, -4, size=(n, 1))
    squeeze[:, :, 2] = np.where(rng.integers(0, 2, size=(n, 1)), squeeze[:, :, 1] * 1e-3, 1.0)
    turn = _rotation(rng, n)
    return (start * squeeze) @ turn, (end * squeeze) @ turn


def _double_root(rng: Generator, kind: str, n: int) -> Pairs:
    """The coplanarity cubic touches zero without crossing it: edge vectors e, f and offset r of determinant w^2."""
    return _many_roots(rng, kind, n, triple=False)


def _triple_root(rng: Generator, kind: str, n: int) -> Pairs:
    return _many_roots(rng, kind, n, triple=True)


def _many_roots(rng: Generator, kind: str, n: int, *, triple: bool) -> Pairs:
    t = rng.integers(0, 17, size=n) / 16
    ends = []
    # where the pair touches at w = 0, seen from the middle of the element
    bary = rng.integers(-4, 5, size=(n, 2)) / 8
    sign = np.where(rng.integers(0, 2, size=(n, 1)), 1.0, -1.0)
    matrix = rng.integers(-2, 3, size=(n, 3, 3)).astype(float)
    base = dyadic(rng.normal(size=(n, 3)))
    for w in (-t, 1 - t):
        one, nil = np.ones(n), np.zeros(n)
        if triple:
            e, f, r = (one, w, nil), (nil, one, w), (w, nil, nil)
        else:
            e, f, r = (2 * one, nil, nil), (nil, w, one), (nil, nil, w)
        e, f, r = (np.stack(v, 1) for v in (e, f, r))
        f = f * sign
        contact = r + bary[:, :1] * e + bary[:, 1:] * f
        if kind == "point_triangle":
            a = -(e + f) / 4
            x = np.stack([contact, a, a + e, a + f], 1)
        else:
            x = np.stack([-e / 2, e / 2, contact - f / 2, contact + f / 2], 1)
        ends.append(x @ matrix + base[:, None])
    return ends[0], ends[1]


def _hover(rng: Generator, kind: str, n: int) -> Pairs:
    """Never nearer than a gap of 1e-9 to 1e-2 while the element turns by up to half a turn below."""
    gap = 10.0 ** rng.uniform(-9, -2, size=n)
    ends = []
    angle = rng.uniform(0.1, 3.0, size=n)
    for k in (-0.5, 0.5):
        c, s = np.cos(k * angle), np.sin(k * angle)
        spin = np.zeros((n, 3, 3))
        spin[:, 0, 0], spin[:, 0, 1], spin[:, 1, 0], spin[:, 1, 1], spin[:, 2, 2] = c, s, -s, c, 1.0
        flat = np.array([[1.0, 0, 0], [-0.5, 0.8, 0], [-0.5, -0.8, 0]])
        if kind == "point_triangle":
            x = np.concatenate([np.zeros((n, 1, 3)), flat @ spin], 1)
            x[:, 0, 2] = gap
        else:
            x = np.zeros((n, 4, 3))
            x[:, :2] = np.array([[-1.0, 0, 0], [1.0, 0, 0]]) @ spin
            x[:, 2:] = np.array([[0, -1.0, 0], [0, 1.0, 0]])
            x[:, 2:, 2] = gap[:, None]
        ends.append(x)
    turn = _rotation(rng, n)
    return ends[0] @ turn, ends[1] @ turn


def _flat_hover(rng: Generator, kind: str, n: int) -> Pairs:
    """A vertex beside an edge that turns in their common plane: the cubic is zero and no fixed axis holds for long."""
    gap = 10.0 ** rng.uniform(-9, -1, size=n)
    reach = rng.uniform(0.2, 3.0, size=n)
    ends = []
    for k in (-1.0, 1.0):
        tilt = k * reach
        a = np.stack([-np.ones(n), -tilt - gap, np.zeros(n)], 1)
        b = np.stack([np.ones(n), tilt - gap, np.zeros(n)], 1)
        below = np.stack([tilt, -np.full(n, 4.0) - gap, np.zeros(n)], 1)
        above = np.stack([-tilt, np.full(n, 4.0), np.zeros(n)], 1)
        p = np.zeros((n, 3))
        x = np.stack([p, a, b, below] if kind == "point_triangle" else [p, above, a, b], 1)
        ends.append(x)
    turn = np.where(rng.integers(0, 2, size=(n, 1, 1)), _rotation(rng, n), np.eye(3))
    return ends[0] @ turn, ends[1] @ turn


def _windmill(rng: Generator, kind: str, n: int) -> Pairs:
    """Elements that turn half around and through themselves while the other passes."""
    start, end = _random(rng, kind, n)
    end = -start + 10.0 ** rng.uniform(-12, 0, size=(n, 1, 1)) * end
    return start, end


def _parallel(rng: Generator, kind: str, n: int) -> Pairs:
    """Edges (or a triangle's edges) that become parallel at some time, or nearly are all along."""
    start, end = _touching(corner=bool(rng.integers(2)), exact=True)(rng, kind, n)
    half = (start + end) / 2
    noise = 10.0 ** rng.uniform(-17, -3, size=(n, 1)) * rng.integers(0, 2, size=(n, 1))
    half[:, 3] = half[:, 2] + (half[:, 1] - half[:, 0]) / 2 + noise * rng.normal(size=(n, 3))
    rate = dyadic(rng.normal(size=(n, 4, 3)))
    rate[:, 3] = np.where(rng.integers(0, 2, size=(n, 1)), rate[:, 2] + rate[:, 1] - rate[:, 0], rate[:, 3])
    return half - rate / 2, half + rate / 2


def _far_and_small(rng: Generator, kind: str, n: int) -> Pairs:
    """Elements of very different size, speeds of very different size."""
    start, end = _touching(corner=bool(rng.integers(2)), exact=False)(rng, kind, n)
    size = 10.0 ** rng.uniform(-8, 3, size=(n, 4, 1))
    # sizes grow away from the contact, which stays at the first vertex half-way
    centre = ((start + end) / 2)[:, :1]
    return centre + (start - centre) * size, centre + (end - centre) * size


def _touching(*, corner: bool, exact: bool) -> Family:
    """Through a contact at t*: inside both elements, or at a vertex or on an edge when `corner`."""

    def family(rng: Generator, kind: str, n: int) -> Pairs:
        t = rng.integers(0, 17, size=(n, 1, 1)) / 16 if exact else rng.uniform(0, 1, size=(n, 1, 1))
        rate = rng.normal(size=(n, 4, 3)) * 10.0 ** rng.uniform(-3, 0.5, size=(n, 1, 1))
        x = rng.normal(size=(n, 4, 3))
        if exact:
            x, rate = dyadic(x), dyadic(rate)
        if kind == "point_triangle":
            w = np.sort(rng.integers(0, 17, size=(n, 2)) / 16, axis=1)
            if corner:
                w = np.where(rng.integers(0, 2, size=(n, 1)), rng.integers(0, 2, size=(n, 1)), w)
                side = rng.integers(0, 2, size=n)
                w[side == 0, 0] = 0.0
                w[side == 1, 1] = 1.0
                w.sort(axis=1)
            a, b, c = x[:, 1], x[:, 2], x[:, 3]
            x[:, 0] = a + w[:, :1] * (b - a) + (1 - w[:, 1:]) * (c - a)
        else:
            s = rng.integers(0, 17, size=(n, 2)) / 16
            if corner:
                s[:, 0] = rng.integers(0, 2, size=n)
                s[:, 1] = np.where(rng.integers(0, 2, size=n), s[:, 1], rng.integers(0, 2, size=n))
            point = x[:, 0] + s[:, :1] * (x[:, 1] - x[:, 0])
            direction = x[:, 3] - x[:, 2]
            x[:, 2] = point - s[:, 1:] * direction
            x[:, 3] = x[:, 2] + direction
        return x - t * rate, x + (1 - t) * rate

    return family


def _near_miss(rng: Generator, kind: str, n: int) -> Pairs:
    """Grazing, then one side is shifted by 1e-17 to 1e-3."""
    start, end = _touching(corner=True, exact=False)(rng, kind, n)
    shift = rng.normal(size=(n, 1, 3)) * 10.0 ** rng.uniform(-17, -3, size=(n, 1, 1))
    side = np.array([1.0, 0, 0, 0] if kind == "point_triangle" else [1.0, 1, 0, 0])[None, :, None]
    return start + side * shift, end + side * shift


def _scaled(family: Family) -> Family:
    def scaled(rng: Generator, kind: str, n: int) -> Pairs:
        start, end = family(rng, kind, n)
        size = 10.0 ** rng.uniform(-3, 3, size=(n, 1, 1))
        return start * size, end * size

    return scaled


def _offset(family: Family) -> Family:
    def offset(rng: Generator, kind: str, n: int) -> Pairs:
        start, end = family(rng, kind, n)
        by = rng.normal(size=(n, 1, 3)) * rng.choice([1.0, 1e3, 1e6], size=(n, 1, 1))
        return start + by, end + by

    return offset


def _nudged(family: Family) -> Family:
    """Every coordinate moved by a few units in the last place, zeros by as much as a small coordinate or the least."""

    def nudged(rng: Generator, kind: str, n: int) -> Pairs:
        floor = rng.choice([0.0, 1e-9, 1e-3, 1.0], size=(n, 1, 1), p=[0.1, 0.3, 0.3, 0.3])
        return tuple(  # type: ignore[return-value]
            x + np.spacing(np.maximum(np.abs(x), floor)) * rng.integers(-2, 3, size=x.shape)
            for x in family(rng, kind, n)
        )

    return nudged


def _turned(family: Family) -> Family:
    def turned(rng: Generator, kind: str, n: int) -> Pairs:
        start, end = family(rng, kind, n)
        turn = _rotation(rng, n)
        return start @ turn, end @ turn

    return turned


def _rotation(rng: Generator, n: int) -> np.ndarray:
    q, _ = np.linalg.qr(rng.normal(size=(n, 3, 3)))
    return q

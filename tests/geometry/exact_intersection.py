"""The slow truth for intersections: points and clipping in rational numbers, no signs of determinants."""

from fractions import Fraction
from itertools import combinations


def brute_rows(vertices, faces):
    """Every (edge vertex, edge vertex, face) without a common vertex that have a point in common, sorted."""
    x = [[Fraction(float(value)) for value in vertex] for vertex in vertices]
    edges = sorted({tuple(sorted(pair)) for face in faces for pair in combinations(map(int, face), 2)})
    return [
        (i, j, f)
        for i, j in edges
        for f, face in enumerate(faces)
        if i not in face and j not in face and segment_meets_triangle(x[i], x[j], *(x[k] for k in face))
    ]


def segment_meets_triangle(p, q, a, b, c):
    normal = cross(minus(b, a), minus(c, a))
    if not any(normal):
        # no area: the sides are all there is
        return any(segments_meet(p, q, s, t) for s, t in ((a, b), (b, c), (c, a)))
    height_p, height_q = dot(normal, minus(p, a)), dot(normal, minus(q, a))
    if height_p == height_q:
        return height_p == 0 and clipped(p, q, a, b, c, normal) is not None
    part = height_p / (height_p - height_q)
    return 0 <= part <= 1 and in_triangle(at(p, q, part), a, b, c)


def in_triangle(point, a, b, c):
    """Is a point of a triangle's plane in the triangle?"""
    normal = cross(minus(b, a), minus(c, a))
    return all(dot(cross(minus(t, s), minus(point, s)), normal) >= 0 for s, t in ((a, b), (b, c), (c, a)))


def clipped(p, q, a, b, c, normal):
    """The part of pq inside the triangle in whose plane it lies, as two parameters; None if there is none."""
    first, last = Fraction(0), Fraction(1)
    for s, t in ((a, b), (b, c), (c, a)):
        inward = cross(normal, minus(t, s))
        depth_p, depth_q = dot(inward, minus(p, s)), dot(inward, minus(q, s))
        if depth_p < 0 and depth_q < 0:
            return None
        if depth_p < 0:
            first = max(first, depth_p / (depth_p - depth_q))
        elif depth_q < 0:
            last = min(last, depth_p / (depth_p - depth_q))
    return (first, last) if first <= last else None


def segments_meet(p, q, s, t):
    u, v, w = minus(q, p), minus(t, s), minus(s, p)
    n = cross(u, v)
    if any(n):
        # lines that are not parallel: where they come nearest, are they at distance zero, inside both?
        if dot(w, n) != 0:
            return False
        size = dot(n, n)
        return 0 <= dot(cross(w, v), n) / size <= 1 and 0 <= dot(cross(w, u), n) / size <= 1
    # parallel, or one of them is a point: an end of one lies on the other
    return any(on_segment(*case) for case in ((p, s, t), (q, s, t), (s, p, q), (t, p, q)))


def on_segment(point, s, t):
    if any(cross(minus(t, s), minus(point, s))):
        return False
    if s == t:
        return point == s
    return 0 <= dot(minus(point, s), minus(t, s)) <= dot(minus(t, s), minus(t, s))


def at(p, q, part):
    return [start + part * (end - start) for start, end in zip(p, q, strict=True)]


def minus(a, b):
    return [a[0] - b[0], a[1] - b[1], a[2] - b[2]]


def dot(a, b):
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]

"""Continuous collision detection (CCD): do a point and a triangle, or two edges, collide during a step?

Vertices move on straight lines from `start` (t = 0) to `end` (t = 1). Two promises, which the tests hold against exact
rational arithmetic:

- No missed collision. A pair that comes within `tolerance` (0 is allowed) is reported, and the reported time is at or
  before the first moment at which it is that near. Until then the pair is farther apart than the tolerance.
- No distant false alarm. At the reported time the pair is within 1.25 tolerance plus rounding (at most 40 u Q, see below).

How it works: conservative advancement along separating axes. The pair touches where the convex hull of the corners q_i
contains the origin: p-a, p-b, p-c for point and triangle, a0-b0, a1-b0, a1-b1, a0-b1 for edges. A direction m with
m.q_i > 0 for every corner separates the pair; as the corners move linearly, one m separates for a span of time. So:
take m towards the point of the hull that is nearest to the origin, advance to the time at which the first m.q_i has
come down to the gap, and repeat. The nearest point only decides how far a round advances, never whether it is safe. Two
things speed this up. The four vertices are coplanar where the cubic (e x f).r vanishes (e, f the edges of the triangle,
or the two edges, and r = q_0), so time first advances to where the convex hull of its Bernstein control polygon comes
near zero. And where a pair slides past at a small distance, no fixed direction separates for long, so after a few
rounds m may turn: linearly, staying perpendicular to an edge, or with the normal e x f. Then m.q_i is a cubic at most,
and positive if its Bernstein coefficients are. A pair is reported as a collision if the rounds run out, or if a round
cannot advance.

Bounds. Let u = 2^-53, Q the largest |component| of the corners at both ends, tol the tolerance or 1e-100 if that is
more, and gap = tol + 24 u Q. All statements are first order in u; the constants leave room for the rest.

1. Corners. A computed difference is within u Q of the exact one; (1-t) q_i(0) + t q_i(1) adds 3 u Q, since weights and
   sum round once each. Together 4 u Q a component.
2. Fixed axes. For a vector m as it is in memory, a computed m.q_i adds 3 u sum |m_j q_ij|: the error is at most
   7 u Q |m|_1 <= 12.2 u Q |m|. So computed m.q_i > gap |m| means m.q_i > tol |m|, at a time and, at two times, in
   between. In the first cull |m|_1 takes the place of |m|.
3. Turning axes. With control vectors m_k as they are in memory, (2 m_1.q + m_0.q')/3 adds one sum, one product and the
   rounding of 1/3: 5.2 u Q |m|, together 17.4 u Q max|m_k|. The axis is never longer than its longest control vector.
4. Times. The fraction (g - gap)/(g - g') of the remaining time 1-t is wrong by 3 u of itself, its product by 5 u; times
   1 - 8 u it is not too large. Adding it to t and taking away u rounds twice by at most u/2: the result is not too late.
5. Coplanarity. Where the pair is within tol, |(e x f).r| <= tol |e x f| <= tol N, N the longest of the three control
   vectors n_k of e x f. Let E, F, R be the largest |component| of e, f, r and S = E F R. A component of n_k is wrong by
   at most 10 u E F, n_k.r by 52 u S, a control point by (2 52 + 46 + 18 + 36)/3 < 72 u S. De Casteljau works with
   numbers up to 6 S and adds 3 u 6 S a level: together 126 u S. N is wrong by 28 u E F. The band gap N + 160 u E F (R +
   gap) covers all of it. The entry into the band is taken 1e-12 of the remaining time, and 4 u, too early; its rounding is 6 u.

Underflow: the least tolerance 1e-100, and 1e-250 added to every product, keep products that underflow from deciding.
Coordinates may be as large as 1e50.
"""

from typing import Any

import numpy as np
import warp as wp
from numpy.typing import ArrayLike, NDArray

from weft.errors import WeftError
from weft.geometry.ccd_kernels import ccd_edge_edge, ccd_point_triangle
from weft.runtime import launch

__all__ = ["ccd_edge_edge", "ccd_point_triangle", "edge_edge", "point_triangle"]

wp.set_module_options({"enable_backward": False})

# metres; products of more than three coordinates must not overflow
LARGEST_COORDINATE = 1e50


def point_triangle(
    start: ArrayLike, end: ArrayLike, tolerance: float = 1e-6, *, device: str = "cpu"
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which points collide with their triangles during a step, and when: arrays `hit` and `time` of length n.

    `start` and `end` hold the positions of p, a, b, c at both ends of the step, shape (n, 4, 3). Every pair that comes
    within `tolerance` (metres) is a hit. `time`, from 0 to 1, is at or before that moment; it is 1 where there is none,
    so the least of all times is a fraction of the step that is safe to take.
    """
    return _detect(point_triangle_pairs, start, end, tolerance, device)


def edge_edge(
    start: ArrayLike, end: ArrayLike, tolerance: float = 1e-6, *, device: str = "cpu"
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which edges collide during a step, and when; as `point_triangle`, with the order a0, a1, b0, b1."""
    return _detect(edge_edge_pairs, start, end, tolerance, device)


@wp.kernel
def point_triangle_pairs(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
) -> None:
    """CCD of pair i: vertices 4 i to 4 i + 3 are a point and the corners of a triangle."""
    i = first + wp.tid()
    k = 4 * i
    collides, t = ccd_point_triangle(
        start[k], start[k + 1], start[k + 2], start[k + 3], end[k], end[k + 1], end[k + 2], end[k + 3], tolerance
    )
    hit[i] = collides
    time[i] = t


@wp.kernel
def edge_edge_pairs(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    tolerance: wp.float64,
    hit: wp.array[wp.bool],
    time: wp.array[wp.float64],
) -> None:
    """CCD of pair i: vertices 4 i to 4 i + 3 are the ends of two edges."""
    i = first + wp.tid()
    k = 4 * i
    collides, t = ccd_edge_edge(
        start[k], start[k + 1], start[k + 2], start[k + 3], end[k], end[k + 1], end[k + 2], end[k + 3], tolerance
    )
    hit[i] = collides
    time[i] = t


def _detect(
    kernel: wp.Kernel, start: ArrayLike, end: ArrayLike, tolerance: float, device: str
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    x0, x1 = _checked("start", start), _checked("end", end)
    if len(x0) != len(x1):
        raise WeftError(f"start holds {len(x0)} pairs and end holds {len(x1)}: give both ends of the same pairs")
    if not 0.0 <= tolerance <= LARGEST_COORDINATE:
        raise WeftError(f"tolerance is {tolerance}: give a distance in metres, 0 or more")
    n = len(x0)
    hit = wp.zeros(n, dtype=wp.bool, device=device)
    time = wp.zeros(n, dtype=wp.float64, device=device)
    ends = [wp.array(x.reshape(-1, 3), dtype=wp.vec3d, device=device, copy=False) for x in (x0, x1)]
    launch(kernel, n, [*ends, float(tolerance), hit, time], device=device)
    return hit.numpy(), time.numpy()


def _checked(name: str, positions: ArrayLike) -> NDArray[np.float64]:
    """The positions as contiguous doubles, or an error that says which pair cannot be used."""
    try:
        x: NDArray[Any] = np.ascontiguousarray(positions, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise WeftError(f"{name} is not an array of numbers of shape (n, 4, 3): {error}") from None
    if x.ndim != 3 or x.shape[1:] != (4, 3):
        raise WeftError(f"{name} has shape {x.shape}, expected (n, 4, 3): four vertices of three coordinates a pair")
    # a comparison with nan is false, so this catches nan, infinity and what is too large
    good = (np.abs(x) <= LARGEST_COORDINATE).all(axis=(1, 2))
    if not good.all():
        bad = np.flatnonzero(~good)
        pair = int(bad[0])
        others = f" (and {len(bad) - 1} more pairs)" if len(bad) > 1 else ""
        raise WeftError(
            f"{name}[{pair}] holds a coordinate that is not a finite number below {LARGEST_COORDINATE:g}:"
            f" {x[pair].tolist()}{others}"
        )
    return x

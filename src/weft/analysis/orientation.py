"""The orientation of four vertices as if no four vertices were ever coplanar.

Every vertex is moved by a tiny offset that depends on its index alone, and the sign of the determinant is computed in
double-double precision, always from the vertices in the order of their indices: so it is 1 or -1, and changes when two of
the four change places. Kernels that use it must be in a module that does not fuse operations (`fuse_fp`), which would spoil
the error terms.
"""

import numpy as np
import warp as wp
from numpy.typing import NDArray

ZERO = wp.constant(wp.float64(0.0))
# splits a float64 into two halves of 26 bits (Dekker 1971)
SPLIT = wp.constant(wp.float64(134217729.0))
Floats = NDArray[np.float64]

# size of the noise, as a fraction of the length of a usual edge: larger noise adds or removes real crossings, smaller noise
# is lost in the rounding of coordinates
NOISE = 1e-10


@wp.func
def two_sum(a: wp.float64, b: wp.float64) -> wp.vec2d:
    """a + b exactly, as the sum of two float64."""
    s = a + b
    t = s - a
    return wp.vec2d(s, (a - (s - t)) + (b - t))


@wp.func
def two_product(a: wp.float64, b: wp.float64) -> wp.vec2d:
    """a b exactly, as the sum of two float64."""
    p = a * b
    c = SPLIT * a
    a_high = c - (c - a)
    a_low = a - a_high
    d = SPLIT * b
    b_high = d - (d - b)
    b_low = b - b_high
    return wp.vec2d(p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low)


@wp.func
def add_double(a: wp.vec2d, b: wp.vec2d) -> wp.vec2d:
    """The sum of two numbers in double-double precision."""
    s = two_sum(a[0], b[0])
    t = two_sum(a[1], b[1])
    r = two_sum(s[0], s[1] + t[0])
    return two_sum(r[0], r[1] + t[1])


@wp.func
def multiply_double(a: wp.vec2d, b: wp.vec2d) -> wp.vec2d:
    """The product of two numbers in double-double precision."""
    p = two_product(a[0], b[0])
    return two_sum(p[0], p[1] + (a[0] * b[1] + a[1] * b[0]))


@wp.func
def offset_double(x: wp.array[wp.vec3d], noise: wp.array[wp.vec3d], origin: int, vertex: int, axis: int) -> wp.vec2d:
    """One coordinate of the difference of two vertices, both with their noise, in double-double precision."""
    difference = two_sum(x[vertex][axis], -x[origin][axis])
    return add_double(difference, two_sum(noise[vertex][axis], -noise[origin][axis]))


@wp.func
def minor_double(x: wp.array[wp.vec3d], noise: wp.array[wp.vec3d], o: int, a: int, b: int, i: int, j: int) -> wp.vec2d:
    """The 2 x 2 determinant of the differences of a and b to vertex o along two axes."""
    left = multiply_double(offset_double(x, noise, o, a, i), offset_double(x, noise, o, b, j))
    right = multiply_double(offset_double(x, noise, o, a, j), offset_double(x, noise, o, b, i))
    return add_double(left, -right)


@wp.func
def sign_double(x: wp.array[wp.vec3d], noise: wp.array[wp.vec3d], quad: wp.vec4i) -> int:
    """The orientation of four vertices in double-double precision, from their ascending order, so that it is antisymmetric."""
    parity = int(1)
    for last in range(3):
        for k in range(3 - last):
            if quad[k] > quad[k + 1]:
                swap = quad[k]
                quad[k] = quad[k + 1]
                quad[k + 1] = swap
                parity = -parity
    o = quad[0]
    a = quad[1]
    b = quad[2]
    c = quad[3]
    total = multiply_double(minor_double(x, noise, o, a, b, 1, 2), offset_double(x, noise, o, c, 0))
    total = add_double(total, multiply_double(minor_double(x, noise, o, a, b, 2, 0), offset_double(x, noise, o, c, 1)))
    total = add_double(total, multiply_double(minor_double(x, noise, o, a, b, 0, 1), offset_double(x, noise, o, c, 2)))
    if total[0] < ZERO:
        return -parity
    return parity


def unit_noise(count: int) -> Floats:
    """(count, 3) noise in -1..1 for vertices 0, 1, ...: a hash of the index (splitmix64), the same on every machine."""
    with np.errstate(over="ignore"):
        z = np.arange(1, 3 * count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return ((z >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0).reshape(-1, 3)

"""Which rows of a colour have something to do: up to 64 of them are asked before the first is solved.

Most rows have nothing to do, and rows of one colour share no vertex, so that all of them can be asked at once. Without a
branch a CPU is done with a row before it knows what came out for the one before. A thread of a card has one row at a time,
and finds out by solving it.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

MOST = 64
"""rows that are asked together on a CPU: a bit of a mask for each"""


def _asking_snippet(besides: str) -> str:
    """C++ that sets the bits of rows whose sides are nearer along the normal than their limit, or what is true `besides`."""
    return f"""
#if defined(__CUDA_ARCH__)
    return 1;
#else
    wp::uint64 mask = 0;
#if defined(__clang__)
    #pragma clang loop vectorize(disable)
#endif
    for (int k = 0; k < count; ++k) {{
        const int i = begin + k;
        const auto &q = vertices.data[i];
        const auto &w = weights.data[i];
        const auto &n = normals.data[i];
        const auto &a = values.data[q[0]], &b = values.data[q[1]], &c = values.data[q[2]], &d = values.data[q[3]];
        const double x = w[0] * a[0] + w[1] * b[0] + w[2] * c[0] + w[3] * d[0];
        const double y = w[0] * a[1] + w[1] * b[1] + w[2] * c[1] + w[3] * d[1];
        const double z = w[0] * a[2] + w[1] * b[2] + w[2] * c[2] + w[3] * d[2];
        const bool below = !(n[0] * x + n[1] * y + n[2] * z >= limits.data[i]) {besides};
        mask |= (wp::uint64)below << k;
    }}
    return mask;
#endif
    """


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return 1;
#else
    return {MOST};
#endif
    """
)
def rows_at_once() -> int:  # type: ignore[empty-body]
    """How many rows are asked together."""
    ...


@wp.func_native(_asking_snippet(""))
def rows_below(  # type: ignore[empty-body]
    begin: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    limits: wp.array[wp.float64],
    values: wp.array[wp.vec4d],
) -> wp.uint64:
    """The rows, bit k for each, whose positions (or velocities) differ by less along the normal than they should.

    Values are those of the vertices, each beside its inverse mass.
    """


@wp.func_native(_asking_snippet("| (given.data[i] != 0.0)"))
def rows_below_or_given(  # type: ignore[empty-body]
    begin: int,
    count: int,
    vertices: wp.array[wp.vec4i],
    weights: wp.array[wp.vec4d],
    normals: wp.array[wp.vec3d],
    limits: wp.array[wp.float64],
    values: wp.array[wp.vec4d],
    given: wp.array[wp.float64],
) -> wp.uint64:
    """The same, and those that have given something, which they may take back."""

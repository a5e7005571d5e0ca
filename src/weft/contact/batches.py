"""The distances of up to 64 candidates at once, and which of them are worth a closer look.

Few candidates are contacts. What tells that the others are none is written without branches over numbers that lie side
by side, so that the vector units of a CPU do eight candidates in one go. A thread of a card looks at one.
"""

import warp as wp

wp.set_module_options({"enable_backward": False})

MOST = 64
"""candidates that are looked at together on a CPU: a bit of a mask for each"""


@wp.func
def bit(k: int) -> wp.uint64:
    """The bit of a mask for candidate k of a batch."""
    return wp.uint64(1) << wp.uint64(k)


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    return __popcll(mask);
#else
    return __builtin_popcountll(mask);
#endif
    """
)
def count_bits(mask: wp.uint64) -> int:  # type: ignore[empty-body]
    """How many bits are set."""


@wp.func
def part_of_mask(mask: wp.uint64, part: int, parts: int):
    """The bits of a mask that belong to one of so many equal parts of it, and how many are set in those before."""
    width = MOST // parts
    own = mask
    before = int(0)
    if parts > 1:
        before = count_bits(mask & (bit(width * part) - wp.uint64(1)))
        own = mask & ((bit(width) - wp.uint64(1)) << wp.uint64(width * part))
    return own, before


@wp.func
def rank(order: wp.array[int], place: int) -> int:
    """The place of a chosen candidate in an order of its own, or where there is none the one that it has."""
    result = place
    if order.shape[0] > 0:
        result = order[place]
    return result


@wp.func
def candidates_in(begin: int, batch: int, pairs: wp.array[wp.vec2i]) -> int:
    """How many candidates a batch has: the last one may have fewer than the others."""
    return wp.min(batch, pairs.shape[0] - begin)


# candidates from which on a card first looks who is worth a closer look
LONG = 500_000


def batch_size(device: wp.Device, count: int) -> int:
    """How many of so many candidates are looked at together, or have their bits in one word."""
    return MOST if device.is_cpu or count >= LONG else 1


# the least distance that is kept as it is: from how far apart a pair is depends how near it may come
KEPT = 2.0e-4


def _apart_snippet(gather: str, between: str) -> str:
    """C++ for one candidate: how far apart it is at least, if that is farther than it can come within reach, else 0.

    Apart along the line m `between` the centres: that needs hardly a division, and will do for most.
    """
    return f"""
    {gather}
    double mx, my, mz, low;
    {between}
    const auto &u = moves.data[pair[0]], &v = moves_too.data[pair[1]];
    const double ux = u[0] - v[0], uy = u[1] - v[1], uz = u[2] - v[2];
    double far = reach + u[3] + v[3] + sqrt(ux * ux + uy * uy + uz * uz);
    far = far > {KEPT} ? far : {KEPT};
    const double along = sqrt(mx * mx + my * my + mz * mz);
    return low > far * along ? low / along : 0.0;
    """


@wp.func_native(
    _apart_snippet(
        """
    const auto f = faces.data[pair[1]];
    const auto &p = x.data[pair[0]], &a = x.data[f[0]], &b = x.data[f[1]], &c = x.data[f[2]];
    const double third = 1.0 / 3.0;
    """,
        """
    mx = p[0] - third * (a[0] + b[0] + c[0]), my = p[1] - third * (a[1] + b[1] + c[1]);
    mz = p[2] - third * (a[2] + b[2] + c[2]);
    const double ma = mx * (p[0] - a[0]) + my * (p[1] - a[1]) + mz * (p[2] - a[2]);
    const double mb = mx * (p[0] - b[0]) + my * (p[1] - b[1]) + mz * (p[2] - b[2]);
    const double mc = mx * (p[0] - c[0]) + my * (p[1] - c[1]) + mz * (p[2] - c[2]);
    low = ma < mb ? ma : mb;
    low = low < mc ? low : mc;
    """,
    )
)
def triangle_far_apart(  # type: ignore[empty-body]
    pair: wp.vec2i,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    moves: wp.array[wp.vec4d],
    moves_too: wp.array[wp.vec4d],
    reach: wp.float64,
) -> wp.float64:
    """How far a vertex and a triangle are apart at least where they surely stay out of reach, else 0."""


@wp.func_native(
    _apart_snippet(
        """
    const auto &moves_too = moves;
    const auto e = edges.data[pair[0]], f = edges.data[pair[1]];
    const auto &a = x.data[e[0]], &b = x.data[e[1]], &c = x.data[f[0]], &d = x.data[f[1]];
    """,
        """
    mx = 0.5 * (a[0] + b[0] - c[0] - d[0]), my = 0.5 * (a[1] + b[1] - c[1] - d[1]);
    mz = 0.5 * (a[2] + b[2] - c[2] - d[2]);
    const double ma = mx * (b[0] - a[0]) + my * (b[1] - a[1]) + mz * (b[2] - a[2]);
    const double mb = mx * (d[0] - c[0]) + my * (d[1] - c[1]) + mz * (d[2] - c[2]);
    low = mx * mx + my * my + mz * mz - 0.5 * (fabs(ma) + fabs(mb));
    """,
    )
)
def edges_far_apart(  # type: ignore[empty-body]
    pair: wp.vec2i,
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    moves: wp.array[wp.vec4d],
    reach: wp.float64,
) -> wp.float64:
    """The same for two edges."""


def _looking_snippet(numbers: str, gather: str, nearest: str) -> str:
    """C++ that gathers the `numbers` of all candidates, finds their distance d side by side, and looks who is `near`.

    Which are worth a closer look is told by `sure & apart`: not those that are surely apart.
    """
    names = [f"{name}[most]" for name in numbers.split()]
    return f"""
#if defined(__CUDA_ARCH__)
    constexpr int most = 1, lanes = 1;
#else
    constexpr int most = {MOST}, lanes = 8;
#endif
    double {", ".join(names)};
    double ux[most], uy[most], uz[most], way[most], distance[most];
    // the last candidate again and again, up to a whole number of lanes
    const int whole = (count + lanes - 1) / lanes * lanes;
    // where numbers come from far apart, loads one by one are faster than those of the vector units
#if defined(__clang__)
    #pragma clang loop vectorize(disable)
#endif
    for (int k = 0; k < whole; ++k) {{
        const int i = begin + (k < count ? k : count - 1);
        const auto pair = pairs.data[i];
        {gather}
        const auto &u = moves.data[pair[0]], &v = moves_too.data[pair[1]];
        ux[k] = u[0] - v[0], uy[k] = u[1] - v[1], uz[k] = u[2] - v[2], way[k] = u[3] + v[3];
    }}
    wp::uint64 look = 0;
    for (int base = 0; base < whole; base += lanes) {{
        wp::uint64 bits = 0;
        for (int k = base; k < base + lanes; ++k) {{
            const double far = reach + way[k] + sqrt(ux[k] * ux[k] + uy[k] * uy[k] + uz[k] * uz[k]);
            {nearest}
            distance[k] = d;
            bits |= (wp::uint64)!(sure & apart) << (k - base);
        }}
        look |= bits << base;
    }}
    for (int k = 0; k < count; ++k)
        near.data[begin + k] = distance[k];
    return count < 64 ? look & (((wp::uint64)1 << count) - 1) : look;
    """


@wp.func_native(
    _looking_snippet(
        numbers="ax ay az bx by bz px py pz",
        gather="""
        const auto f = faces.data[pair[1]];
        const auto &p = x.data[pair[0]], &a = x.data[f[0]], &b = x.data[f[1]], &c = x.data[f[2]];
        ax[k] = b[0] - a[0], ay[k] = b[1] - a[1], az[k] = b[2] - a[2];
        bx[k] = c[0] - a[0], by[k] = c[1] - a[1], bz[k] = c[2] - a[2];
        px[k] = p[0] - a[0], py[k] = p[1] - a[1], pz[k] = p[2] - a[2];
        """,
        nearest="""
            const double nx = ay[k] * bz[k] - az[k] * by[k], ny = az[k] * bx[k] - ax[k] * bz[k],
                         nz = ax[k] * by[k] - ay[k] * bx[k];
            const double area = nx * nx + ny * ny + nz * nz;
            const double aa = ax[k] * ax[k] + ay[k] * ay[k] + az[k] * az[k];
            const double bb = bx[k] * bx[k] + by[k] * by[k] + bz[k] * bz[k];
            const double pa = px[k] * ax[k] + py[k] * ay[k] + pz[k] * az[k];
            const double pb = px[k] * bx[k] + py[k] * by[k] + pz[k] * bz[k];
            const double pn = px[k] * nx + py[k] * ny + pz[k] * nz;
            const double u = (py[k] * bz[k] - pz[k] * by[k]) * nx + (pz[k] * bx[k] - px[k] * bz[k]) * ny
                + (px[k] * by[k] - py[k] * bx[k]) * nz;
            const double v = (ay[k] * pz[k] - az[k] * py[k]) * nx + (az[k] * px[k] - ax[k] * pz[k]) * ny
                + (ax[k] * py[k] - ay[k] * px[k]) * nz;
            // on the plane, on the two edges at the first corner, on the one opposite
            double s = pa / aa;
            s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
            double ex = px[k] - s * ax[k], ey = py[k] - s * ay[k], ez = pz[k] - s * az[k];
            double least = ex * ex + ey * ey + ez * ez;
            s = pb / bb;
            s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
            ex = px[k] - s * bx[k], ey = py[k] - s * by[k], ez = pz[k] - s * bz[k];
            double other = ex * ex + ey * ey + ez * ez;
            least = other < least ? other : least;
            const double cx = bx[k] - ax[k], cy = by[k] - ay[k], cz = bz[k] - az[k];
            const double qx = px[k] - ax[k], qy = py[k] - ay[k], qz = pz[k] - az[k];
            s = (qx * cx + qy * cy + qz * cz) / (cx * cx + cy * cy + cz * cz);
            s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
            ex = qx - s * cx, ey = qy - s * cy, ez = qz - s * cz;
            other = ex * ex + ey * ey + ez * ez;
            least = other < least ? other : least;
            const bool inside = (u >= 0.0) & (v >= 0.0) & (u + v <= area);
            const double d = sqrt(inside ? pn * pn / area : least);
            const bool sure = area > 1e-8 * aa * bb;
            const bool apart = d > far;
        """,
    )
)
def triangles_to_look_at(  # type: ignore[empty-body]
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    faces: wp.array[wp.vec3i],
    x: wp.array[wp.vec3d],
    moves: wp.array[wp.vec4d],
    moves_too: wp.array[wp.vec4d],
    reach: wp.float64,
    near: wp.array[wp.float64],
) -> wp.uint64:
    """Measure pairs of a vertex and a triangle; bit k of what comes back: it may come within reach, or is a needle."""


@wp.func_native(
    _looking_snippet(
        numbers="ax ay az bx by bz cx cy cz",
        gather="""
        const auto e = edges.data[pair[0]], f = edges.data[pair[1]];
        const auto &a = x.data[e[0]], &b = x.data[e[1]], &c = x.data[f[0]], &d = x.data[f[1]];
        ax[k] = b[0] - a[0], ay[k] = b[1] - a[1], az[k] = b[2] - a[2];
        bx[k] = d[0] - c[0], by[k] = d[1] - c[1], bz[k] = d[2] - c[2];
        cx[k] = c[0] - a[0], cy[k] = c[1] - a[1], cz[k] = c[2] - a[2];
        """,
        nearest="""
            const double nx = ay[k] * bz[k] - az[k] * by[k], ny = az[k] * bx[k] - ax[k] * bz[k],
                         nz = ax[k] * by[k] - ay[k] * bx[k];
            const double area = nx * nx + ny * ny + nz * nz;
            const double aa = ax[k] * ax[k] + ay[k] * ay[k] + az[k] * az[k];
            const double bb = bx[k] * bx[k] + by[k] * by[k] + bz[k] * bz[k];
            const double ab = ax[k] * bx[k] + ay[k] * by[k] + az[k] * bz[k];
            const double ca = cx[k] * ax[k] + cy[k] * ay[k] + cz[k] * az[k];
            const double cb = cx[k] * bx[k] + cy[k] * by[k] + cz[k] * bz[k];
            const double over = (cy[k] * bz[k] - cz[k] * by[k]) * nx + (cz[k] * bx[k] - cx[k] * bz[k]) * ny
                + (cx[k] * by[k] - cy[k] * bx[k]) * nz;
            // the best place on the first line, cut to its edge; for that the best on the second; for that the best on
            // the first, which is where it was unless the second was cut
            double s = over / area;
            s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
            double t = (s * ab - cb) / bb;
            t = t < 0.0 ? 0.0 : t > 1.0 ? 1.0 : t;
            s = (ca + t * ab) / aa;
            s = s < 0.0 ? 0.0 : s > 1.0 ? 1.0 : s;
            const double rx = s * ax[k] - cx[k] - t * bx[k], ry = s * ay[k] - cy[k] - t * by[k],
                         rz = s * az[k] - cz[k] - t * bz[k];
            const double d = sqrt(rx * rx + ry * ry + rz * rz);
            const bool sure = area > 1e-8 * aa * bb;
            // an end of an edge that is nearest makes a pair of a vertex and a triangle
            const bool apart = (d > far) | (s <= 0.0) | (s >= 1.0) | (t <= 0.0) | (t >= 1.0);
        """,
    )
)
def edges_to_look_at(  # type: ignore[empty-body]
    pairs: wp.array[wp.vec2i],
    begin: int,
    count: int,
    edges: wp.array[wp.vec2i],
    x: wp.array[wp.vec3d],
    moves: wp.array[wp.vec4d],
    moves_too: wp.array[wp.vec4d],
    reach: wp.float64,
    near: wp.array[wp.float64],
) -> wp.uint64:
    """Measure pairs of edges; bit k of what comes back: it may come within reach with inner points, or is parallel."""

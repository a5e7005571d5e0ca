"""Which vertices come near a collider, seen for sixteen at once in single precision: most do not."""

# mypy: disable-error-code="arg-type, empty-body"

import warp as wp

from weft.methods.predictive.collider_contacts import BOX, MESH, PLANE, Shape

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
# more than single precision loses on the way from two positions to their distance
ROUNDING = wp.constant(wp.float64(2e-6))
# vertices that are looked at together, and how far planes of them are padded
SPOTS = wp.constant(64)
PADDING = 16


@wp.func_native(
    """
    const float* p = spots.data + begin;
    const size_t stride = spots.strides[0] / sizeof(float);
    const float px = place[0], py = place[1], pz = place[2];
    const float ax = axis[0], ay = axis[1], az = axis[2];
    const float sx = shift[0], sy = shift[1], sz = shift[2];
    const float tx = spin[0], ty = spin[1], tz = spin[2];
    wp::uint64 mask = 0;
    for (int base = 0; base < count; base += 16, p += 16) {
        unsigned int bits = 0;
        for (int k = 0; k < 16; ++k) {
            const float x = p[k] - px, y = p[k + stride] - py, z = p[k + 2 * stride] - pz;
            // motion against the collider, as if that were at the spot
            const float a = p[k + 4 * stride] - sx - (ty * z - tz * y);
            const float b = p[k + 5 * stride] - sy - (tz * x - tx * z);
            const float c = p[k + 6 * stride] - sz - (tx * y - ty * x);
            const float limit = p[k + 3 * stride] + far;
            const float along = x * ax + y * ay + z * az;
            const float inner = along < -half ? -half : (along > half ? half : along);
            const float u = x - inner * ax, v = y - inner * ay, w = z - inner * az;
            const float squared = u * u + v * v + w * w, length = sqrtf(squared);
            // how much nearer it comes, times the distance
            float closer = u * a + v * b + w * c;
            if (loose)
                closer = -length * sqrtf(a * a + b * b + c * c);
            closer = closer < 0.0f ? closer : 0.0f;
            float direct = ax * a + ay * b + az * c;
            direct = direct < 0.0f ? direct : 0.0f;
            const unsigned int out = flat ? along + direct > limit : squared + closer > limit * length;
            bits |= (out ^ 1u) << k;
        }
        mask |= (wp::uint64)bits << base;
    }
    return count < 64 ? mask & (((wp::uint64)1 << count) - 1) : mask;
    """
)
def near_mask(
    spots: wp.array2d[wp.float32],
    begin: int,
    count: int,
    place: wp.vec3,
    axis: wp.vec3,
    shift: wp.vec3,
    spin: wp.vec3,
    half: wp.float32,
    far: wp.float32,
    flat: bool,
    loose: bool,
) -> wp.uint64:
    """Which of at most 64 spots from `begin` on get in reach of a capsule or of a plane: bit k for spot begin + k.

    Spots are planes of x, y, z, reach and way, padded to sixteens. Written without branches, for vector instructions.
    Turning moves the nearest point and a point at the spot equally along the direction between them, which is all that
    counts; where that is not known (`loose`) the whole motion counts.
    """


@wp.func_native(
    """
    float* s = spots.data + i;
    const size_t stride = spots.strides[0] / sizeof(float);
    double size = reach;
    for (int k = 0; k < 3; ++k) {
        s[k * stride] = (float)x[k];
        s[(4 + k) * stride] = (float)way[k];
        size += fabs(x[k]) + fabs(way[k]);
    }
    s[3 * stride] = (float)(reach + 2e-6 * size);
    """
)
def write_spot(i: int, x: wp.vec3d, way: wp.vec3d, reach: wp.float64, spots: wp.array2d[wp.float32]):
    """A vertex, its way and how far it looks for colliders, in single precision with what that may cost."""
    ...


@wp.func
def narrow(v: wp.vec3d) -> wp.vec3:
    """A point in float32."""
    return wp.vec3(wp.float32(v[0]), wp.float32(v[1]), wp.float32(v[2]))


@wp.func
def spots_in_reach(shape: Shape, spots: wp.array2d[wp.float32], begin: int, count: int) -> wp.uint64:
    """Of at most 64 spots those that `touch_shape` may find in reach of a collider; of boxes and meshes a few more."""
    half = shape.size[1]
    far = shape.size[0]
    spin = shape.spin
    loose = shape.kind == BOX or shape.kind == MESH
    if shape.kind == PLANE:
        half = ZERO
        far = ZERO
    elif loose:
        half = ZERO
        far = shape.bound + shape.rise + shape.change + wp.length(spin) * shape.bound
        spin = wp.vec3d()
    at = shape.place
    far += ROUNDING * (wp.abs(at[0]) + wp.abs(at[1]) + wp.abs(at[2]) + wp.length(shape.shift) + far)
    turn = shape.turn
    axis = wp.vec3d(turn[0, 1], turn[1, 1], turn[2, 1])
    return near_mask(
        spots, begin, count, narrow(at), narrow(axis), narrow(shape.shift), narrow(spin), wp.float32(half),
        wp.float32(far), shape.kind == PLANE, loose,
    )  # fmt: skip

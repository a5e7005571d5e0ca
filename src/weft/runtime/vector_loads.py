"""What a card does in fewer instructions than its compiler would: loads of rows, division of vectors.

A compiler that does not know how an array lies in memory loads a row number by number, and each load takes its turn. Arrays
begin where the widest loads may, and rows of 16 and 32 bytes stay there. On the CPU all of these are what they say.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const int4 row = *(const int4*)(rows.data + i);
    return wp::vec_t<4, int>(row.x, row.y, row.z, row.w);
#else
    return rows.data[i];
#endif
"""
)
def load_vec4i(rows: wp.array[wp.vec4i], i: int) -> wp.vec4i:
    """Row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    *(int4*)(rows.data + i) = make_int4(row[0], row[1], row[2], row[3]);
#else
    rows.data[i] = row;
#endif
"""
)
def store_vec4i(rows: wp.array[wp.vec4i], i: int, row: wp.vec4i):
    """Write row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const int2 row = *(const int2*)(rows.data + i);
    return wp::vec_t<2, int>(row.x, row.y);
#else
    return rows.data[i];
#endif
"""
)
def load_vec2i(rows: wp.array[wp.vec2i], i: int) -> wp.vec2i:
    """Row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const double2* row = (const double2*)(rows.data + i);
    const double2 a = row[0], b = row[1];
    return wp::vec_t<4, double>(a.x, a.y, b.x, b.y);
#else
    return rows.data[i];
#endif
"""
)
def load_vec4d(rows: wp.array[wp.vec4d], i: int) -> wp.vec4d:
    """Row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    double2* row = (double2*)(rows.data + i);
    row[0] = make_double2(v[0], v[1]);
    row[1] = make_double2(v[2], w);
#else
    rows.data[i] = wp::vec_t<4, double>(v[0], v[1], v[2], w);
#endif
"""
)
def store_row(rows: wp.array[wp.vec4d], i: int, v: wp.vec3d, w: wp.float64):
    """Write row i: three numbers and one."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    double2* row = (double2*)(rows.data + i);
    row[0] = make_double2(v[0], v[1]);
    ((double*)row)[2] = v[2];
#else
    for (int k = 0; k < 3; ++k)
        rows.data[i][k] = v[k];
#endif
"""
)
def store_place(rows: wp.array[wp.vec4d], i: int, v: wp.vec3d):
    """Write the first three numbers of row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    const double2 row = *(const double2*)(rows.data + i);
    return wp::vec_t<2, double>(row.x, row.y);
#else
    return rows.data[i];
#endif
"""
)
def load_vec2d(rows: wp.array[wp.vec2d], i: int) -> wp.vec2d:
    """Row i."""
    ...


@wp.func_native(
    """
#if defined(__CUDA_ARCH__)
    // three divisions would come one after another
    return (1.0 / by) * v;
#else
    return v / by;
#endif
"""
)
def divided(v: wp.vec3d, by: wp.float64) -> wp.vec3d:
    """v / by."""
    ...

"""Vertices as rows (x, y, z, inverse mass), and how they move over a substep.

One load brings all that a constraint needs of a vertex. What is done with rows is written in C++: there rows are vector
registers, and loops over many of them cost nothing besides.
"""

# mypy: disable-error-code="empty-body"

import warp as wp

wp.set_module_options({"enable_backward": False})

# rows of four as one vector register where the compiler has such; the plain type elsewhere
ROW = """
#if defined(__CUDACC__)
// rows begin where the widest loads may
struct __align__(32) row4 : public wp::vec_t<4, double> {
    CUDA_CALLABLE row4() {}
    CUDA_CALLABLE row4(double x, double y, double z, double w) : wp::vec_t<4, double>(x, y, z, w) {}
    CUDA_CALLABLE row4(const wp::vec_t<4, double>& v) : wp::vec_t<4, double>(v) {}
    CUDA_CALLABLE row4 operator+(const row4& v) const { return wp::add<4, double>(*this, v); }
    CUDA_CALLABLE row4 operator-(const row4& v) const { return wp::sub<4, double>(*this, v); }
};
#else
#pragma clang fp contract(fast)
typedef double row4 __attribute__((vector_size(32), aligned(8)));
// the first three numbers of four rows, each with its likes: what four items do at once
#define ACROSS(a, b, c, d, x, y, z)                                                                                \\
    const row4 x##_low = __builtin_shufflevector(a, b, 0, 4, 2, 6), y##_low = __builtin_shufflevector(c, d, 0, 4, 2, 6); \\
    const row4 x##_high = __builtin_shufflevector(a, b, 1, 5, 3, 7), y##_high = __builtin_shufflevector(c, d, 1, 5, 3, 7); \\
    const row4 x = __builtin_shufflevector(x##_low, y##_low, 0, 1, 4, 5);                                          \\
    const row4 y = __builtin_shufflevector(x##_high, y##_high, 0, 1, 4, 5);                                        \\
    const row4 z = __builtin_shufflevector(x##_low, y##_low, 2, 3, 6, 7);
#endif
"""
# rows in the memory that the threads of a block share, and where they were before: each number of all rows by itself, since
# threads that load rows at once would mostly ask the same banks for them. `rows[v]` is loaded and written as if they were rows;
# masses stay as they are, and those of rows before are 0
ROOM = 704
SHARED_ROWS = (
    ROW
    + f"""
#if defined(__CUDACC__)
struct shared_row {{
    double* x;
    CUDA_CALLABLE operator row4() const {{ return row4(x[0], x[{ROOM}], x[2 * {ROOM}], x[3 * {ROOM}]); }}
    CUDA_CALLABLE void operator=(const row4& v) {{
        x[0] = v[0];
        x[{ROOM}] = v[1];
        x[2 * {ROOM}] = v[2];
    }}
}};
struct shared_rows {{
    double* x;
    CUDA_CALLABLE shared_row operator[](int v) const {{ return shared_row{{x + v}}; }}
}};
struct shared_rows_before {{
    const double* x;
    CUDA_CALLABLE row4 operator[](int v) const {{
        return row4(x[v + 4 * {ROOM}], x[v + 5 * {ROOM}], x[v + 6 * {ROOM}], 0.0);
    }}
}};
#endif
"""
)


@wp.func
def first_three(row: wp.vec4d) -> wp.vec3d:
    """Where a vertex is, or how fast where rows are of velocities."""
    return wp.vec3d(row[0], row[1], row[2])


@wp.func_native(
    ROW
    + """
    const wp::vec_t<3, double> a = x.data[i];
    const wp::vec_t<3, double> u = v.data[i];
    const double m = inverse_mass.data[i];
    row4 row;
    row4 was;
    for (int k = 0; k < 3; ++k) {
        row[k] = a[k];
        was[k] = a[k] - h * u[k];
    }
    row[3] = was[3] = m;
    row4* rows = (row4*)p.data;
    const bool same = rows[i][3] == m;
    rows[i] = row;
    ((row4*)before.data)[i] = was;
    return same;
    """
)
def start_vertex(
    i: int,
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
    inverse_mass: wp.array[wp.float64],
    h: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
) -> bool:
    """The row of a vertex at the start of a step, and where it would have been a substep ago.

    Gives whether its mass is that of the step before.
    """
    ...


@wp.func_native(
    ROW
    + """
    row4* rows = (row4*)p.data;
    row4* was = (row4*)before.data;
    for (int i = first; i < last; ++i) {
        const row4 row = rows[i];
        ((row4*)start.data)[i] = row;
        const row4 way = row - was[i];
        was[i] = row;
        const double m = row[3];
        if (m == 0.0) {
            const wp::vec_t<3, double> a = x.data[i];
            const wp::vec_t<3, double> b = target.data[i];
            row4 place = row;
            for (int k = 0; k < 3; ++k)
                place[k] = a[k] + progress * (b[k] - a[k]);
            rows[i] = place;
        } else {
            const wp::vec_t<3, double> f = force.data[i];
            row4 pull;
            for (int k = 0; k < 3; ++k)
                pull[k] = (gravity[k] + m * f[k]) * h * h;
            pull[3] = 0.0;
            rows[i] = row + slowed * (way + pull);
        }
    }
    """
)
def predict_vertices(
    first: int,
    last: int,
    x: wp.array[wp.vec3d],
    target: wp.array[wp.vec3d],
    force: wp.array[wp.vec3d],
    gravity: wp.vec3d,
    slowed: wp.float64,
    h: wp.float64,
    progress: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    start: wp.array[wp.vec4d],
):
    """Free motion of some vertices over a substep; a held one is at `progress` of its way from x to its target afterwards.

    The velocity is that of the way from `before`, the row a substep ago. Afterwards `before` is where the vertex was,
    until contacts that part what was through shift it along, and `start` is that too. `slowed` is what the air leaves.
    """
    ...


@wp.func_native(
    ROW
    + """
    const row4 row = ((const row4*)p.data)[i];
    const row4 speed = per_h * (row - ((const row4*)before.data)[i]);
    x.data[i] = wp::vec_t<3, double>(row[0], row[1], row[2]);
    v.data[i] = wp::vec_t<3, double>(speed[0], speed[1], speed[2]);
    """
)
def end_vertex(
    i: int,
    per_h: wp.float64,
    p: wp.array[wp.vec4d],
    before: wp.array[wp.vec4d],
    x: wp.array[wp.vec3d],
    v: wp.array[wp.vec3d],
):
    """Position and velocity after the last substep: the velocity is what the substep made of the positions."""
    ...

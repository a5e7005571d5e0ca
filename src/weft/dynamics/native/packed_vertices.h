// Packed vertices: four doubles a vertex, x, y, z and the inverse mass, loaded and stored as one `row4`.

// [packed_vertex] the type row4, and on the CPU a transposition; must come first in a function, because of the pragma
#if defined(__CUDACC__)
// aligned to 32 bytes, so that a vertex is loaded with the widest instructions
struct __align__(32) row4 : public wp::vec_t<4, double> {
    CUDA_CALLABLE row4() {}
    CUDA_CALLABLE row4(double x, double y, double z, double w) : wp::vec_t<4, double>(x, y, z, w) {}
    CUDA_CALLABLE row4(const wp::vec_t<4, double>& v) : wp::vec_t<4, double>(v) {}
    CUDA_CALLABLE row4 operator+(const row4& v) const { return wp::add<4, double>(*this, v); }
    CUDA_CALLABLE row4 operator-(const row4& v) const { return wp::sub<4, double>(*this, v); }
};
#else
#pragma clang fp contract(fast)
// one SIMD register
typedef double row4 __attribute__((vector_size(32), aligned(8)));
// transpose the vertices a, b, c, d into registers x, y, z that hold one coordinate of all four
#define ACROSS(a, b, c, d, x, y, z)                                                                                        \
    const row4 x##_low = __builtin_shufflevector(a, b, 0, 4, 2, 6), y##_low = __builtin_shufflevector(c, d, 0, 4, 2, 6);   \
    const row4 x##_high = __builtin_shufflevector(a, b, 1, 5, 3, 7), y##_high = __builtin_shufflevector(c, d, 1, 5, 3, 7); \
    const row4 x = __builtin_shufflevector(x##_low, y##_low, 0, 1, 4, 5);                                                  \
    const row4 y = __builtin_shufflevector(x##_high, y##_high, 0, 1, 4, 5);                                                \
    const row4 z = __builtin_shufflevector(x##_low, y##_low, 2, 3, 6, 7);
#endif

// [start_vertex]
// [include packed_vertex]
const wp::vec_t<3, double> a = x.data[i];
const wp::vec_t<3, double> u = v.data[i];
row4 row, was;
for (int k = 0; k < 3; ++k) {
    row[k] = a[k] + ahead * h * u[k];
    was[k] = row[k] - h * u[k];
}
row[3] = was[3] = inverse_mass.data[i];
((row4*)p.data)[i] = row;
((row4*)before.data)[i] = was;

// [bring_back]
// [include packed_vertex]
row4* rows = (row4*)p.data;
row4* was = (row4*)before.data;
const row4 back = ahead * (was[i] - rows[i]);
rows[i] = rows[i] + back;
was[i] = was[i] + back;

// [predict_vertices]
// [include packed_vertex]
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
        rows[i] = row + slowed * way + pull;
    }
}

// [end_vertex]
// [include packed_vertex]
const row4 row = ((const row4*)p.data)[i];
const row4 speed = per_h * (row - ((const row4*)before.data)[i]);
x.data[i] = wp::vec_t<3, double>(row[0], row[1], row[2]);
v.data[i] = wp::vec_t<3, double>(speed[0], speed[1], speed[2]);

// [row_product]
// [include packed_vertex]
const row4* rows = (const row4*)x.data;
row4 sum;
for (int k = 0; k < 4; ++k)
    sum[k] = 0.0;
#if defined(__CUDA_ARCH__)
// the loads of several entries under way at a time: a loop of one after another waits for memory twice an entry
constexpr int many = $ENTRIES_AT_ONCE;
for (int e = begin; e < end; e += many * step) {
    int column[many];
    double value[many];
    row4 row[many];
    #pragma unroll
    for (int k = 0; k < many; ++k) {
        const int place = e + k * step;
        column[k] = columns.data[place < end ? place : begin];
        value[k] = place < end ? values.data[place] : 0.0;
    }
    #pragma unroll
    for (int k = 0; k < many; ++k)
        row[k] = rows[column[k]];
    #pragma unroll
    for (int k = 0; k < many; ++k)
        sum = sum + value[k] * row[k];
}
#else
for (int e = begin; e < end; e += step)
    sum = sum + values.data[e] * rows[columns.data[e]];
#endif
return wp::vec_t<4, double>(sum[0], sum[1], sum[2], sum[3]);

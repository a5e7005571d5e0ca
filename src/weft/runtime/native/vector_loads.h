// Loads and stores of whole vectors. The CUDA compiler does not know that arrays of vectors are aligned, and would load each
// component by itself; Warp's arrays begin at multiples of 256 bytes, so that elements of 8, 16 and 32 bytes are aligned.

// [load_vec4i] vec4i load_vec4i(array<vec4i> values, int i)
#if defined(__CUDA_ARCH__)
const int4 value = *(const int4*)(values.data + i);
return wp::vec_t<4, int>(value.x, value.y, value.z, value.w);
#else
return values.data[i];
#endif

// [store_vec4i] void store_vec4i(array<vec4i> values, int i, vec4i value)
#if defined(__CUDA_ARCH__)
*(int4*)(values.data + i) = make_int4(value[0], value[1], value[2], value[3]);
#else
values.data[i] = value;
#endif

// [load_vec2i] vec2i load_vec2i(array<vec2i> values, int i)
#if defined(__CUDA_ARCH__)
const int2 value = *(const int2*)(values.data + i);
return wp::vec_t<2, int>(value.x, value.y);
#else
return values.data[i];
#endif

// [load_vec4d] vec4d load_vec4d(array<vec4d> values, int i)
#if defined(__CUDA_ARCH__)
const double2* value = (const double2*)(values.data + i);
const double2 a = value[0], b = value[1];
return wp::vec_t<4, double>(a.x, a.y, b.x, b.y);
#else
return values.data[i];
#endif

// [store_vec4d] void store_vec4d(array<vec4d> values, int i, vec3d xyz, double w)
#if defined(__CUDA_ARCH__)
double2* value = (double2*)(values.data + i);
value[0] = make_double2(xyz[0], xyz[1]);
value[1] = make_double2(xyz[2], w);
#else
values.data[i] = wp::vec_t<4, double>(xyz[0], xyz[1], xyz[2], w);
#endif

// [load_vec2d] vec2d load_vec2d(array<vec2d> values, int i)
#if defined(__CUDA_ARCH__)
const double2 value = *(const double2*)(values.data + i);
return wp::vec_t<2, double>(value.x, value.y);
#else
return values.data[i];
#endif

// [divide] vec3d divide(vec3d v, double by)
#if defined(__CUDA_ARCH__)
// one division and three multiplications: divisions run one after another
return (1.0 / by) * v;
#else
return v / by;
#endif

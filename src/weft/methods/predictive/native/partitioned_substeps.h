// Vertices of a partition in the shared memory of its block: each number of all vertices by itself, since threads that load
// whole vertices would mostly ask the same memory banks for them.

// [shared_room] its address; 0 on a CPU, which has none
#if defined(__CUDA_ARCH__)
__shared__ double room[7 * $SHARED_CAPACITY];
return (unsigned long long)room;
#else
return 0;
#endif

// [load_vertex]
#if defined(__CUDA_ARCH__)
double* x = (double*)room + place;
const row4 row = ((const row4*)vertices.p.data)[i], was = ((const row4*)vertices.before.data)[i];
for (int k = 0; k < 4; ++k)
    x[k * $SHARED_CAPACITY] = row[k];
for (int k = 0; k < 3; ++k)
    x[(4 + k) * $SHARED_CAPACITY] = was[k];
#endif

// [store_vertex]
#if defined(__CUDA_ARCH__)
const double* x = (const double*)room + place;
double* row = (double*)(vertices.p.data + i);
*(double2*)row = make_double2(x[0], x[$SHARED_CAPACITY]);
row[2] = x[2 * $SHARED_CAPACITY];
#endif

// Rest lengths of springs that follow the triangles (see dynamics/position_based/membrane.py).

// [find_extensions] springs first, first + step, ... below last
for (int k = first; k < last; k += step) {
    const int i = fabric.places.data[k];
    const double by_force = fabric.compliances.data[k] * squared * fabric.slots.pushes.data[i];
    fabric.extensions.data[k] = fabric.slots.rests.data[i] - fabric.rests.data[k] - by_force;
}

// [follow_extensions] the same springs
const double* extensions = fabric.extensions.data;
for (int k = first; k < last; k += step) {
    const wp::vec_t<4, int>& e = fabric.others.data[k];
    const wp::vec_t<4, double>& c = fabric.shares.data[k];
    const double rest = fabric.rests.data[k], most = $LARGEST_SHIFT * rest;
    double shift = fabric.own.data[k] * extensions[k];
    for (int j = 0; j < 4; ++j)
        shift -= c[j] * extensions[e[j]];
    shift = shift < -most ? -most : (shift > most ? most : shift);
    fabric.slots.rests.data[fabric.places.data[k]] = rest + shift;
}

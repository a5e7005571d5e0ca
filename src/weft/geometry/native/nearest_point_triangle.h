// The point of a triangle, and of a segment, that is nearest to a point p; `weft.geometry.stencil` explains the method.
// The sections [segment] and [triangle] define lambdas, so that other native functions can include them in their own body.

// [segment] nearest_on_segment(p, a, b): where on ab the nearest point lies, from 0 to 1; 0 for a segment without length
const auto nearest_on_segment = [](wp::vec_t<3, double> p, wp::vec_t<3, double> a, wp::vec_t<3, double> b) {
    const wp::vec_t<3, double> ab = b - a;
    const double along = wp::dot(p - a, ab);
    const double length = wp::dot(ab, ab);
    // compared before dividing: the quotient cannot overflow, and a NaN still gives a place on the segment
    if (along >= length && along > 0.0)
        return 1.0;
    return along > 0.0 ? along / length : 0.0;
};

// [on_segment]
// [include segment]
return nearest_on_segment(p, a, b);

// [border] nearest_on_border(p, a, b, c): barycentric coordinates of the nearest point of the three edges
const auto nearest_on_border = [&](wp::vec_t<3, double> p, wp::vec_t<3, double> a, wp::vec_t<3, double> b,
                                   wp::vec_t<3, double> c) {
    double s = nearest_on_segment(p, a, b);
    wp::vec_t<3, double> best(1.0 - s, s, 0.0);
    double least = wp::length_sq(p - a - s * (b - a));
    s = nearest_on_segment(p, b, c);
    const double distance = wp::length_sq(p - b - s * (c - b));
    if (distance < least) {
        least = distance;
        best = wp::vec_t<3, double>(0.0, 1.0 - s, s);
    }
    s = nearest_on_segment(p, c, a);
    if (wp::length_sq(p - c - s * (a - c)) < least)
        best = wp::vec_t<3, double>(s, 0.0, 1.0 - s);
    return best;
};

// [triangle] nearest_on_triangle(p, a, b, c): barycentric coordinates of the nearest point of the triangle
// [include segment]
// [include border]
const auto nearest_on_triangle = [&](wp::vec_t<3, double> p, wp::vec_t<3, double> a, wp::vec_t<3, double> b,
                            wp::vec_t<3, double> c) {
    typedef wp::vec_t<3, double> vec3d;
    const vec3d ab = b - a, ac = c - a, q = p - a;
    const vec3d n = wp::cross(ab, ac);
    const double area = wp::dot(n, n);
    double u = wp::dot(wp::cross(q, ac), n);
    double v = wp::dot(wp::cross(ab, q), n);
    const bool above = u >= 0.0 && v >= 0.0 && u + v <= area;
    if (area <= $THIN * wp::dot(ab, ab) * wp::dot(ac, ac)) {
        // a needle, or no area: signs of u and v are in doubt, so take the better of inside and border
        const vec3d border = nearest_on_border(p, a, b, c);
        if (above && area > 0.0) {
            u = u / area;
            v = wp::min(v / area, 1.0 - u);
            const vec3d inside(1.0 - u - v, u, v);
            const auto separation = [&](vec3d w) {
                return wp::length_sq(w[0] * (p - a) + w[1] * (p - b) + w[2] * (p - c));
            };
            if (separation(inside) <= separation(border))
                return inside;
        }
        return border;
    }
    if (above) {
        u = u / area;
        v = wp::min(v / area, 1.0 - u);
        return vec3d(1.0 - u - v, u, v);
    }
    // the nearest point is on the border, on an edge that p lies beyond: one edge, or two
    vec3d best(1.0, 0.0, 0.0);
    double least = 1e300;
    if (v < 0.0) {
        const double s = nearest_on_segment(p, a, b);
        least = wp::length_sq(q - s * ab);
        best = vec3d(1.0 - s, s, 0.0);
    }
    if (u < 0.0) {
        const double s = nearest_on_segment(p, a, c);
        const double distance = wp::length_sq(q - s * ac);
        if (distance < least) {
            least = distance;
            best = vec3d(1.0 - s, 0.0, s);
        }
    }
    if (u + v > area) {
        const double s = nearest_on_segment(p, b, c);
        if (wp::length_sq(p - b - s * (c - b)) < least)
            best = vec3d(0.0, 1.0 - s, s);
    }
    return best;
};

// [nearest_point_triangle]
// [include triangle]
return nearest_on_triangle(p, a, b, c);

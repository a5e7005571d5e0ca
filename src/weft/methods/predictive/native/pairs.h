// Which pairs of features make a contact, and which contact; `weft.methods.predictive.contacts` states the rules.
// A contact `made`: whether it is one, its kind, four weights, the normal, the thickness.

// [common] what both kinds of pairs need
typedef wp::vec_t<3, double> vector;
const vector* x = surface.x.data;
const vector* end = surface.end.data;
const vector* rest = surface.rest.data;
const double aligned = $ALIGNED, tiny = $TINY, rest_share = $REST_SHARE, over = $OVER;
wp::vec_t<10, double> made;
made[0] = 0.0;
// the normal of a triangle, as long as twice its area
const auto normal_of = [&](int face) {
    const wp::vec_t<3, int> f = surface.faces.data[face];
    return wp::cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]]);
};
const auto unit = [](vector m) {
    const double length = wp::length(m);
    return length > 0.0 ? (1.0 / length) * m : vector(0.0, 0.0, 0.0);
};
// the mean normal of the triangles at an edge, of any length
const auto edge_normal = [&](int edge) {
    const wp::vec_t<2, int> wings = surface.edge_faces.data[edge];
    const vector n = unit(normal_of(wings[0]));
    return wings[1] < 0 ? n : n + unit(normal_of(wings[1]));
};
// whether the cloth between two places is straight: they are and stay about as far apart as at rest
const auto straight = [&](auto between) {
    const vector at_rest = between(rest), now = between(x), then = between(end);
    const double least = $STRAIGHT * $STRAIGHT * wp::dot(at_rest, at_rest);
    return wp::dot(now, now) >= least && wp::dot(then, then) >= least;
};
const auto is_sewn = [&](int first, int second) {
    return surface.sewn_to.data[first] == surface.sewn_to.data[second];
};
const auto above_of = [&](int first, int second) {
    return surface.above.data[first * (int)(surface.above.strides[0] / sizeof(int)) + second];
};

// [point_triangle] vertex pair[0] and triangle pair[1]
// [include common]
$NEAREST
const wp::vec_t<3, int> f = surface.faces.data[pair[1]];
const int i = pair[0];
if (surface.sewn && (is_sewn(i, f[0]) || is_sewn(i, f[1]) || is_sewn(i, f[2])))
    return made;
const vector p = x[i], a = x[f[0]], b = x[f[1]], c = x[f[2]];
const auto w = nearest_on_triangle(p, a, b, c);
const auto across = [&](const vector* at) {
    return at[i] - (w[0] * at[f[0]] + w[1] * at[f[1]] + w[2] * at[f[2]]);
};
const vector r = across(x);
const double distance = wp::length(r);
const vector move = across(end) - r;
double thick = 0.5 * (surface.thickness.data[i] + surface.thickness.data[f[0]]);
if (distance - wp::length(move) > surface.radius + thick)
    return made;
const vector m = wp::cross(b - a, c - a);
const double squared = wp::dot(m, m);
if (!(squared > 0.0))
    return made;
double height = wp::dot(m, r);
if (height * height < aligned * aligned * distance * distance * squared)
    return made;
// vertices of one cloth may stay as near as they are along the cloth at rest
if (surface.vertex_cloth.data[i] == surface.vertex_cloth.data[f[0]])
    thick = wp::min(thick, rest_share * wp::length(across(rest)));
double near = distance;
if (distance > tiny)
    near = distance + wp::min(wp::dot(r, move) / distance, 0.0);
else
    // on the triangle: it came from the side to which it does not go
    height = -wp::dot(m, move);
if (near > surface.radius + thick)
    return made;
const int own = height < 0.0 ? -1 : 1;
int side = above_of(surface.vertex_region.data[i], surface.face_region.data[pair[1]]);
if (side == 0) {
    const auto middle = [&](const vector* at) {
        return at[i] - (1.0 / 3.0) * (at[f[0]] + at[f[1]] + at[f[2]]);
    };
    if (surface.vertex_cloth.data[i] == surface.vertex_cloth.data[f[0]] && straight(middle))
        return made;
} else {
    const int edge = surface.first_edge.data[i];
    if (edge < 0 || wp::dot(edge_normal(edge), m) <= 0.0)
        side = 0;
    else if (side != own && height * height < over * over * distance * distance * squared)
        // through the layer, perhaps: certain only right over the triangle
        return made;
}
side = side == 0 ? own : side;
const vector n = (side / sqrt(squared)) * m;
made[0] = 1.0;
made[1] = side;
made[2] = 1.0;
for (int k = 0; k < 3; ++k) {
    made[3 + k] = -w[k];
    made[6 + k] = n[k];
}
made[9] = thick;
return made;

// [edge_edge] edges pair[0] and pair[1]
// [include common]
const double last = $END;
const wp::vec_t<2, int> e = surface.edges.data[pair[0]], f = surface.edges.data[pair[1]];
if (surface.sewn && (is_sewn(e[0], f[0]) || is_sewn(e[0], f[1]) || is_sewn(e[1], f[0]) || is_sewn(e[1], f[1])))
    return made;
const vector u = x[e[1]] - x[e[0]], v = x[f[1]] - x[f[0]];
// the nearest points (Ericson 2005, section 5.1.9); edges at an angle below about 1e-7 count as parallel
const vector gap = x[e[0]] - x[f[0]];
const double uu = wp::dot(u, u), vv = wp::dot(v, v), uv = wp::dot(u, v), ur = wp::dot(u, gap), vr = wp::dot(v, gap);
const double area = uu * vv - uv * uv;
const auto within = [](double part) { return part < 0.0 ? 0.0 : (part > 1.0 ? 1.0 : part); };
double s = 0.0, t = 0.0;
if (uu == 0.0) {
    t = vv == 0.0 ? 0.0 : within(vr / vv);
} else if (vv == 0.0) {
    s = within(-ur / uu);
} else {
    s = area > 1e-14 * uu * vv ? within((uv * vr - ur * vv) / area) : 0.0;
    t = (uv * s + vr) / vv;
    if (t < 0.0 || t > 1.0) {
        t = t < 0.0 ? 0.0 : 1.0;
        s = within((t * uv - ur) / uu);
    }
}
const auto across = [&](const vector* at) {
    return (1.0 - s) * at[e[0]] + s * at[e[1]] - (1.0 - t) * at[f[0]] - t * at[f[1]];
};
const vector r = across(x);
const double distance = wp::length(r);
const vector move = across(end) - r;
double thick = 0.5 * (surface.thickness.data[e[0]] + surface.thickness.data[f[0]]);
if (distance - wp::length(move) > surface.radius + thick)
    return made;
const bool inside_e = s > last && s < 1.0 - last, inside_f = t > last && t < 1.0 - last;
if (!inside_e && !inside_f)
    return made;
const bool same = surface.vertex_cloth.data[e[0]] == surface.vertex_cloth.data[f[0]];
const double along = same ? wp::length(across(rest)) : 0.0;
if (same)
    thick = wp::min(thick, rest_share * along);
vector n(0.0, 0.0, 0.0);
double near = distance;
if (distance > tiny) {
    n = (1.0 / distance) * r;
    near = distance + wp::min(wp::dot(n, move), 0.0);
}
if (near > surface.radius + thick)
    return made;

int above = above_of(surface.edge_region.data[pair[0]], surface.edge_region.data[pair[1]]);
const auto middle = [&](const vector* at) {
    return 0.5 * (at[e[0]] + at[e[1]] - at[f[0]] - at[f[1]]);
};
// neighbours in straight cloth: the cloth itself keeps them apart
if (same && above == 0 && straight(middle))
    return made;
if (above != 0 && wp::dot(edge_normal(pair[0]), edge_normal(pair[1])) <= 0.0)
    above = 0;
if (inside_e && inside_f) {
    if (above != 0) {
        const vector upward = (double)above * unit(edge_normal(above < 0 ? pair[0] : pair[1]));
        if (wp::dot(n, upward) < over)
            return made;
        n = upward;
    } else if (distance <= tiny) {
        // they cross: back the way they came
        n = unit(wp::cross(u, v));
        if (wp::dot(n, move) > 0.0)
            n = -1.0 * n;
    }
} else {
    if (above != 0 || distance <= tiny)
        return made;
    if (same && (along <= surface.radius + thick || straight(middle)))
        return made;
    const int vertex = inside_e ? f[t >= 1.0 - last ? 1 : 0] : e[s >= 1.0 - last ? 1 : 0];
    const int mine = inside_e ? pair[1] : pair[0], other = inside_e ? pair[0] : pair[1];
    if (surface.first_edge.data[vertex] != mine)
        return made;
    const bool fast = wp::length(move) > $DISPLACEMENT_RATIO * (surface.radius + surface.largest);
    if ((surface.marks.data[other] & $SHARP) == 0 && !fast)
        return made;
    // a triangle at the other edge makes the contact instead, where its normal is along the direction
    const wp::vec_t<2, int> wings = surface.edge_faces.data[other];
    for (int k = 0; k < 2; ++k) {
        if (wings[k] < 0)
            continue;
        const vector m = normal_of(wings[k]);
        const double height = wp::dot(n, m), squared = wp::dot(m, m);
        if (squared > 0.0 && height * height >= aligned * aligned * squared)
            return made;
    }
}
made[0] = 1.0;
made[1] = 0.0;
made[2] = 1.0 - s;
made[3] = s;
made[4] = t - 1.0;
made[5] = -t;
for (int k = 0; k < 3; ++k)
    made[6 + k] = n[k];
made[9] = thick;
return made;

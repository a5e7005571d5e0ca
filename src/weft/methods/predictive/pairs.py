"""Which pairs of features make a contact, and which contact (Lewin 2018, sections 4.1 to 4.3).

Nearest points and the direction between them are those at the start; the displacements of the step, projected on that
direction, tell how near the two will come. What comes nearer than the thickness 2r and the static collision radius gets
a contact. No contact is made twice: the broad phase lists each pair of features once (rep-tri), and where the nearest
points are on borders, one rule says which pair stands for the place:

- a vertex over a triangle, or over its border, is a contact of the two where the direction between them is within
  60 degrees of the triangle's normal; elsewhere the triangle's plane says nothing about what is between them;
- two edges are a contact where the nearest points are inside both; where one of them is an end, only if no triangle at
  the other edge makes the contact with that vertex, only for the first edge of that vertex, and only if the other edge
  is on the border or in a sharp fold, or the two move against each other.

Neighbours in a sheet make no contact where the cloth between them is straight: where their middles are and stay at least
0.95 times as far apart as at rest. The cloth itself keeps them apart, and a contact would ask for 0.7 of it. Features that are
sewn together make none either: it would open the seam.

Layers know which side is right, where they lie on each other: where both face the same way. The front of a sleeve and
the back of the sleeve under it do not, and keep the sides they are on.
"""

# mypy: disable-error-code="arg-type, assignment, empty-body"

import warp as wp

from weft.methods.predictive.contacts import NEAREST

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex
ALIGNED = wp.constant(wp.float64(0.5))
# two points of one cloth keep at most this part of their distance along the cloth
REST_PART = wp.constant(wp.float64(0.7))
# marks of an edge: it is the first at its first or at its second vertex; on the border, or its triangles fold sharply
FIRST = wp.constant(1)
SECOND = wp.constant(2)
SHARP = wp.constant(4)
# what moves against each other in a step by more than this part of the reach is in relative_displacement
DISPLACEMENT_RATIO = wp.constant(wp.float64(0.25))
# where two edges of a cloth are and stay no nearer than this part of their distance at rest, the cloth between them is
# straight
STRAIGHT = wp.constant(wp.float64(0.95))

NONE, POINT_TRIANGLE, EDGE_EDGE, POINT_POINT = (wp.constant(k) for k in range(4))


@wp.struct
class Sheet:
    """What the search reads of the cloths; positions are set before each search."""

    x: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    first_edge: wp.array[int]
    marks: wp.array[int]
    """of each edge: FIRST, SECOND and SHARP, found anew in each search"""
    owned: wp.array[int]
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    rest_rows: wp.array[wp.vec4d]
    """middles of the edges at rest, and the number of the cloth"""
    thickness: wp.array[wp.float64]
    sewn: int
    """whether anything is"""
    sewn_to: wp.array[int]
    """a number a vertex, the same for vertices that stitches join"""
    radius: wp.float64
    """static collision radius"""
    largest: wp.float64
    """largest thickness"""


Made = wp.types.vector(length=10, dtype=wp.float64)
"""A contact: whether it is one, its kind, four weights, a normal, the thickness."""

# what both kinds need, as C++: this is asked of ten thousands of pairs in a step
_GEOMETRY = """
    typedef wp::vec_t<3, double> vector;
    const vector* x = sheet.x.data;
    const vector* end = sheet.end.data;
    const vector* rest = sheet.rest.data;
    const double aligned = 0.5, tiny = 1e-12, rest_part = 0.7, over = 0.9;
    wp::vec_t<10, double> made;
    made[0] = 0.0;
    // the normal of a triangle, as long as the triangle is large
    const auto normal_of = [&](int face) {
        const wp::vec_t<3, int> f = sheet.faces.data[face];
        return wp::cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]]);
    };
    const auto unit = [](vector m) {
        const double length = wp::length(m);
        return length > 0.0 ? (1.0 / length) * m : vector(0.0, 0.0, 0.0);
    };
    // the mean normal of the triangles at an edge, of any length
    const auto edge_normal = [&](int edge) {
        const wp::vec_t<2, int> wings = sheet.edge_faces.data[edge];
        const vector n = unit(normal_of(wings[0]));
        return wings[1] < 0 ? n : n + unit(normal_of(wings[1]));
    };
    // whether the cloth between two places is straight: they are and stay about as far apart as at rest
    const auto straight = [&](auto between) {
        const vector at_rest = between(rest), now = between(x), then = between(end);
        const double least = 0.95 * 0.95 * wp::dot(at_rest, at_rest);
        return wp::dot(now, now) >= least && wp::dot(then, then) >= least;
    };
    const auto joined = [&](int first, int second) {
        return sheet.sewn_to.data[first] == sheet.sewn_to.data[second];
    };
    const auto above_of = [&](int first, int second) {
        return sheet.above.data[first * (int)(sheet.above.strides[0] / sizeof(int)) + second];
    };
"""


@wp.func_native(
    _GEOMETRY
    + NEAREST
    + """
    const wp::vec_t<3, int> f = sheet.faces.data[pair[1]];
    const int i = pair[0];
    if (sheet.sewn && (joined(i, f[0]) || joined(i, f[1]) || joined(i, f[2])))
        return made;
    const vector p = x[i], a = x[f[0]], b = x[f[1]], c = x[f[2]];
    const auto w = nearest_of(p, a, b, c);
    const auto across = [&](const vector* at) {
        return at[i] - (w[0] * at[f[0]] + w[1] * at[f[1]] + w[2] * at[f[2]]);
    };
    const vector r = across(x);
    const double distance = wp::length(r);
    const vector way = across(end) - r;
    double thick = 0.5 * (sheet.thickness.data[i] + sheet.thickness.data[f[0]]);
    if (distance - wp::length(way) > sheet.radius + thick)
        return made;
    const vector m = wp::cross(b - a, c - a);
    const double squared = wp::dot(m, m);
    if (!(squared > 0.0))
        return made;
    double height = wp::dot(m, r);
    if (height * height < aligned * aligned * distance * distance * squared)
        return made;
    // less where they are near each other along the cloth
    if (sheet.vertex_cloth.data[i] == sheet.vertex_cloth.data[f[0]])
        thick = wp::min(thick, rest_part * wp::length(across(rest)));
    double near = distance;
    if (distance > tiny)
        near = distance + wp::min(wp::dot(r, way) / distance, 0.0);
    else
        // on the triangle: it came from where it does not go
        height = -wp::dot(m, way);
    if (near > sheet.radius + thick)
        return made;
    const int own = height < 0.0 ? -1 : 1;
    int side = above_of(sheet.vertex_region.data[i], sheet.face_region.data[pair[1]]);
    if (side == 0) {
        const auto middle = [&](const vector* at) {
            return at[i] - (1.0 / 3.0) * (at[f[0]] + at[f[1]] + at[f[2]]);
        };
        if (sheet.vertex_cloth.data[i] == sheet.vertex_cloth.data[f[0]] && straight(middle))
            return made;
    } else {
        const int edge = sheet.first_edge.data[i];
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
    """
)
def make_point_triangle(pair: wp.vec2i, sheet: Sheet) -> Made:
    """A vertex and a triangle: the side is the vertex's own, or that of its layer."""
    ...


@wp.func_native(
    _GEOMETRY
    + """
    const double last = 1e-6, relative_displacement = 0.25;
    const wp::vec_t<2, int> e = sheet.edges.data[pair[0]], f = sheet.edges.data[pair[1]];
    if (sheet.sewn && (joined(e[0], f[0]) || joined(e[0], f[1]) || joined(e[1], f[0]) || joined(e[1], f[1])))
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
    const vector way = across(end) - r;
    double thick = 0.5 * (sheet.thickness.data[e[0]] + sheet.thickness.data[f[0]]);
    if (distance - wp::length(way) > sheet.radius + thick)
        return made;
    const bool inside_e = s > last && s < 1.0 - last, inside_f = t > last && t < 1.0 - last;
    if (!inside_e && !inside_f)
        return made;
    const bool same = sheet.vertex_cloth.data[e[0]] == sheet.vertex_cloth.data[f[0]];
    const double along = same ? wp::length(across(rest)) : 0.0;
    if (same)
        thick = wp::min(thick, rest_part * along);
    vector n(0.0, 0.0, 0.0);
    double near = distance;
    if (distance > tiny) {
        n = (1.0 / distance) * r;
        near = distance + wp::min(wp::dot(n, way), 0.0);
    }
    if (near > sheet.radius + thick)
        return made;

    int above = above_of(sheet.edge_region.data[pair[0]], sheet.edge_region.data[pair[1]]);
    const auto middle = [&](const vector* at) {
        return 0.5 * (at[e[0]] + at[e[1]] - at[f[0]] - at[f[1]]);
    };
    // neighbours in a sheet: the cloth itself keeps them apart
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
            // they cross: apart again the way they came
            n = unit(wp::cross(u, v));
            if (wp::dot(n, way) > 0.0)
                n = -1.0 * n;
        }
    } else {
        if (above != 0 || distance <= tiny)
            return made;
        if (same && (along <= sheet.radius + thick || straight(middle)))
            return made;
        const int vertex = inside_e ? f[t >= 1.0 - last ? 1 : 0] : e[s >= 1.0 - last ? 1 : 0];
        const int mine = inside_e ? pair[1] : pair[0], other = inside_e ? pair[0] : pair[1];
        if (sheet.first_edge.data[vertex] != mine)
            return made;
        if ((sheet.marks.data[other] & 4) == 0 && wp::length(way) <= relative_displacement * (sheet.radius + sheet.largest))
            return made;
        // whether a triangle at the other edge makes the contact
        const wp::vec_t<2, int> wings = sheet.edge_faces.data[other];
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
    """
)
def make_edge_edge(pair: wp.vec2i, sheet: Sheet) -> Made:
    """Two edges; between layers the normal is that of the lower one."""
    ...


@wp.func
def closest_approach(r: wp.vec3d, way: wp.vec3d) -> wp.float64:
    """The least distance of two points on straight paths, from their offset at the start and its change."""
    squared = wp.dot(way, way)
    t = ZERO
    if squared > ZERO:
        t = wp.clamp(-wp.dot(r, way) / squared, ZERO, ONE)
    return wp.length(r + t * way)


@wp.func
def make_point_point(a: int, b: int, sheet: Sheet) -> Made:
    """Two vertices: the closest approach of their paths is exact."""
    made = Made()
    if sheet.sewn != 0 and sheet.sewn_to[a] == sheet.sewn_to[b]:
        return made
    r = sheet.x[a] - sheet.x[b]
    way = (sheet.end[a] - sheet.x[a]) - (sheet.end[b] - sheet.x[b])
    thick = HALF * (sheet.thickness[a] + sheet.thickness[b])
    if sheet.vertex_cloth[a] == sheet.vertex_cloth[b]:
        thick = wp.min(thick, REST_PART * wp.length(sheet.rest[a] - sheet.rest[b]))
    distance = wp.length(r)
    if distance <= TINY or closest_approach(r, way) > sheet.radius + thick:
        return made
    n = r / distance
    return Made(ONE, ZERO, ONE, ZERO, -ONE, ZERO, n[0], n[1], n[2], thick)


@wp.func
def make_pair(kind: int, pair: wp.vec2i, sheet: Sheet) -> Made:
    """The contact of two features, if they make one."""
    if kind == POINT_TRIANGLE:
        return make_point_triangle(pair, sheet)
    if kind == EDGE_EDGE:
        return make_edge_edge(pair, sheet)
    return make_point_point(pair[0], pair[1], sheet)

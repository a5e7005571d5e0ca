"""What the search of a step reads of the cloths on a CPU: boxes and numbers of all features, patch by patch."""

# mypy: disable-error-code="arg-type, assignment, empty-body"

import warp as wp

from weft.broad_phase.boxes import FRAME_SAMPLES, Box, load_box, store_box, unite
from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.methods.predictive.patch_overlaps import BLOCK

wp.set_module_options({"enable_backward": False})

# a distance of two middles is off by less than a twentieth of this part of the extent
ROUNDING = wp.constant(wp.float32(2.0e-5))


@wp.struct
class Field:
    """Features by rank (see `weft.broad_phase.patches`); arrays of the second half are written anew in each search."""

    patches: int
    extent: wp.float32
    """how far from its middle the cloth reaches at rest"""
    vertex_ids: wp.array[int]
    face_ids: wp.array[int]
    edge_ids: wp.array[int]
    vertex_start: wp.array[int]
    face_start: wp.array[int]
    edge_start: wp.array[int]
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    corners: wp.array2d[int]
    ends: wp.array2d[int]
    wings: wp.array[wp.vec2i]
    """the triangles at each edge, -1 for none"""
    firsts: wp.array[int]
    """what the marks of each edge have besides SHARP"""
    rests: wp.array2d[wp.float64]
    """middles of the edges at rest"""
    body: wp.array[int]
    cloth: wp.array[int]
    """of each patch"""
    table: wp.array2d[int]
    frame: wp.array[wp.vec3d]
    places: wp.array[wp.vec4d]
    ways: wp.array[wp.vec4d]
    vertex_boxes: wp.array2d[wp.float32]
    """eight numbers a vertex: a box and two that mean nothing"""
    face_boxes: wp.array2d[wp.float32]
    edge_boxes: wp.array2d[wp.float32]
    patch_boxes: wp.array2d[wp.float32]
    block_boxes: wp.array2d[wp.float32]
    group_boxes: wp.array2d[wp.float32]
    face_planes: wp.array2d[wp.float64]
    normals: wp.array[wp.vec4d]
    edge_planes: wp.array2d[wp.float64]
    marks: wp.array[int]
    face_middles: wp.array2d[wp.float32]
    edge_middles: wp.array2d[wp.float32]
    rest_places: wp.array2d[wp.float32]
    """at the start, at the end and at rest, as far as a float32 has it"""
    slack: wp.array[wp.float32]
    """the square of how far these may be off, and more"""


@wp.func_native(
    f"""
    wp::vec_t<3, double> place(0.0, 0.0, 0.0), way(0.0, 0.0, 0.0);
    const wp::int64 samples = {int(FRAME_SAMPLES)}, count = vertex_ids.shape[0];
    for (wp::int64 i = 0; i < samples; ++i) {{
        wp::vec_t<3, double> some(0.0, 0.0, 0.0), ways(0.0, 0.0, 0.0);
        for (wp::int64 k = 0; k < samples; ++k) {{
            const int vertex = vertex_ids.data[(i * samples + k) * count / (samples * samples)];
            some = some + x.data[vertex];
            ways = ways + (end.data[vertex] - x.data[vertex]);
        }}
        place = place + some;
        way = way + ways;
    }}
    frame.data[0] = place / (double)(samples * samples);
    frame.data[1] = way * (1.0 / (double)(samples * samples));
    """
)
def find_frame(x: wp.array[wp.vec3d], end: wp.array[wp.vec3d], vertex_ids: wp.array[int], frame: wp.array[wp.vec3d]):
    """The frame of reference of the boxes, as `weft.broad_phase.boxes` has it: a mean place and displacement."""
    ...


@wp.func_native(
    PACKED_VERTEX
    + """
    const wp::vec_t<3, double> a = x.data[vertex], b = end.data[vertex];
    const row4 from = {a[0], a[1], a[2], 0.0}, to = {b[0], b[1], b[2], 0.0};
    ((row4*)places.data)[i] = from;
    ((row4*)ways.data)[i] = to - from;
    float* numbers = boxes.data + 8 * i;
    bool far = false;
    for (int k = 0; k < 6; ++k) {
        numbers[k] = box[k];
        // a NaN is in no range
        far |= !(box[k] < farthest && box[k] > -farthest);
    }
    numbers[6] = numbers[7] = 0.0f;
    return far;
    """
)
def store_vertex(
    i: int,
    vertex: int,
    x: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    box: Box,
    farthest: wp.float32,
    places: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
    boxes: wp.array2d[wp.float32],
) -> bool:
    """Place, way and box of a vertex; gives whether it is nowhere that could be used."""
    ...


# a box in a register, and one number of each box in a plane
_BOXES = (
    PACKED_VERTEX
    + """
#if !defined(__CUDACC__)
    typedef float box8 __attribute__((vector_size(32), aligned(4)));
    const box8* of = (const box8*)vertex_boxes.data;
    const row4* place = (const row4*)places.data;
    const row4* way = (const row4*)ways.data;
    const size_t stride = planes.strides[0] / sizeof(double), next = boxes.strides[0] / sizeof(float);
    const size_t turn = middles.strides[0] / sizeof(float);
    const wp::vec_t<3, double> origin = frame.data[0], drift = frame.data[1];
    // where a feature's middle is, in the frame of the boxes
    const auto store_middle = [&](int i, row4 now, row4 way) {
        for (int k = 0; k < 3; ++k) {
            middles.data[k * turn + i] = (float)(now[k] - origin[k]);
            middles.data[(3 + k) * turn + i] = (float)(now[k] - origin[k] + (way[k] - drift[k]));
        }
    };
    const auto smaller = [](box8 a, box8 b) { return a < b ? a : b; };
    const auto squared = [](row4 a) { return a[0] * a[0] + a[1] * a[1] + a[2] * a[2]; };
    for (int i = first; i < last; ++i) {
        double* numbers = planes.data + i;
    """
)


@wp.func_native(
    _BOXES
    + """
        const wp::vec_t<3, int> f = faces.data[i];
        const box8 box = smaller(smaller(of[f[0]], of[f[1]]), of[f[2]]);
        for (int k = 0; k < 6; ++k)
            boxes.data[k * next + i] = box[k];
        const row4 a = place[f[0]], u = place[f[1]] - a, v = place[f[2]] - a;
        const row4 w0 = way[f[0]], w1 = way[f[1]], w2 = way[f[2]], mean = (1.0 / 3.0) * (w0 + w1 + w2);
        store_middle(i, a + (1.0 / 3.0) * (u + v), mean);
        const double d0 = squared(w0 - mean), d1 = squared(w1 - mean), d2 = squared(w2 - mean);
        for (int k = 0; k < 3; ++k) {
            numbers[k * stride] = a[k];
            numbers[(3 + k) * stride] = u[k];
            numbers[(6 + k) * stride] = v[k];
            numbers[(9 + k) * stride] = mean[k];
        }
        const double d01 = d0 > d1 ? d0 : d1;
        // a little more: rounding
        numbers[12 * stride] = (1.0 + 1e-12) * sqrt(d01 > d2 ? d01 : d2);
        row4 m;
        m[0] = u[1] * v[2] - u[2] * v[1];
        m[1] = u[2] * v[0] - u[0] * v[2];
        m[2] = u[0] * v[1] - u[1] * v[0];
        m[3] = 0.0;
        m[3] = squared(m);
        ((row4*)normals.data)[i] = m;
    }
#endif
    """
)
def enclose_faces(
    first: int,
    last: int,
    faces: wp.array[wp.vec3i],
    places: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
    vertex_boxes: wp.array2d[wp.float32],
    boxes: wp.array2d[wp.float32],
    planes: wp.array2d[wp.float64],
    middles: wp.array2d[wp.float32],
    frame: wp.array[wp.vec3d],
    normals: wp.array[wp.vec4d],
):
    """Boxes and numbers of triangles, and their normals with the square of their lengths."""
    ...


@wp.func_native(
    _BOXES
    + """
        const wp::vec_t<2, int> e = edges.data[i];
        const box8 box = smaller(of[e[0]], of[e[1]]);
        for (int k = 0; k < 6; ++k)
            boxes.data[k * next + i] = box[k];
        const row4 a = place[e[0]], u = place[e[1]] - a;
        const row4 w0 = way[e[0]], w1 = way[e[1]], mean = 0.5 * (w0 + w1);
        store_middle(i, a + 0.5 * u, mean);
        for (int k = 0; k < 3; ++k) {
            numbers[k * stride] = a[k];
            numbers[(3 + k) * stride] = u[k];
            numbers[(6 + k) * stride] = mean[k];
            numbers[(10 + k) * stride] = 0.5 * (w1[k] - w0[k]);
        }
        numbers[9 * stride] = (0.5 + 1e-12) * sqrt(squared(w0 - w1));
        const wp::vec_t<2, int> pair = wings.data[i];
        bool sharp = true;
        if (pair[1] >= 0) {
            // an angle of more than 60 degrees between the triangles, or one without area
            const row4 n = ((const row4*)normals.data)[pair[0]], m = ((const row4*)normals.data)[pair[1]];
            const double dot = n[0] * m[0] + n[1] * m[1] + n[2] * m[2], both = n[3] * m[3];
            sharp = !(both > 0.0 && dot / sqrt(both) >= 0.5);
        }
        const int mark = firsts.data[i] + (sharp ? 4 : 0);
        marks.data[i] = mark;
        marks_by_id.data[ids.data[i]] = mark;
    }
#endif
    """
)
def enclose_edges(
    first: int,
    last: int,
    edges: wp.array[wp.vec2i],
    wings: wp.array[wp.vec2i],
    firsts: wp.array[int],
    ids: wp.array[int],
    places: wp.array[wp.vec4d],
    ways: wp.array[wp.vec4d],
    normals: wp.array[wp.vec4d],
    vertex_boxes: wp.array2d[wp.float32],
    boxes: wp.array2d[wp.float32],
    planes: wp.array2d[wp.float64],
    middles: wp.array2d[wp.float32],
    frame: wp.array[wp.vec3d],
    marks: wp.array[int],
    marks_by_id: wp.array[int],
):
    """Boxes, numbers and marks of edges."""
    ...


@wp.func
def unite_boxes(boxes: wp.array2d[wp.float32], begin: int, end: int) -> Box:
    """The box of boxes that stand side by side."""
    whole = load_box(boxes, begin)
    for i in range(begin + 1, end):
        whole = unite(whole, load_box(boxes, i))
    return whole


@wp.func
def enclose_blocks(
    patches: int,
    rest_extent: wp.float32,
    patch_boxes: wp.array2d[wp.float32],
    block_boxes: wp.array2d[wp.float32],
    group_boxes: wp.array2d[wp.float32],
    slack: wp.array[wp.float32],
):
    """Boxes of patches that follow each other, and of such blocks; and how far middles are off."""
    blocks = (patches + BLOCK - 1) / BLOCK
    for i in range(blocks):
        store_box(block_boxes, i, unite_boxes(patch_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, patches)))
    # they are rounded by a part of the extent at most, at rest too
    extent = rest_extent
    for i in range((blocks + BLOCK - 1) / BLOCK):
        store_box(group_boxes, i, unite_boxes(block_boxes, i * BLOCK, wp.min((i + 1) * BLOCK, blocks)))
        for k in range(6):
            extent = wp.max(extent, wp.abs(group_boxes[k, i]))
    off = ROUNDING * extent
    slack[0] = off * off

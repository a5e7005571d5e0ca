"""Boxes of everything that moves: vertices, edges, triangles and patches over a whole step.

A box is six float32 numbers: the lower corner and the negated upper corner, both rounded outwards. Two boxes overlap
when they have a point in common, their surfaces included. All broad phases use these boxes, and what they list is
defined by them: two features are candidates exactly when their boxes overlap.

Boxes are kept as planes, first all lower x, then all lower y, and so on, so that the vector units of a CPU compare one
box with sixteen others at once: most of the time of a broad phase goes there.
"""

import warp as wp

from weft.broad_phase.patches import PADDING, Patches
from weft.errors import WeftError
from weft.runtime import launch
from weft.runtime.graph_cache import GraphCache
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

Box = wp.spatial_vector

# the frame of reference comes from this many samples, squared
FRAME_SAMPLES = wp.constant(16)
# positions beyond this do not fit into float32 boxes
FARTHEST = 1e30
# one unit in the last place of a float32, relative, and the smallest normal float32
ULP = wp.constant(wp.float32(1.1920929e-7))
SMALLEST = wp.constant(wp.float32(1.1754944e-38))
# bounds the rounding of the change of frame in float64
FRAME_ROUNDING = wp.constant(wp.float64(2.0**-51))
# threads that an item has on CUDA where they share the boxes to be compared
SHARED = 8

# which of `count` boxes overlap: one after another, or a thread's own and those of its neighbours
_HIT = """(p[k] <= x) & (p[k + stride] <= y) & (p[k + 2 * stride] <= z)
            & (p[k + 3 * stride] <= u) & (p[k + 4 * stride] <= v) & (p[k + 5 * stride] <= w)"""
_ALONE = f"""
    for (int k = 0; k < count; ++k) {{
        const bool hit = {_HIT};
        if (hit && ({{condition}})) mask |= (wp::uint64)1 << k;
    }}
"""
_TOGETHER = f"""
    const int place = threadIdx.x & 31 & ~{SHARED - 1};
    const unsigned neighbours = {2**SHARED - 1}u << place;
    for (int first = 0; first < count; first += {SHARED}) {{
        const int k = first + (threadIdx.x & {SHARED - 1});
        bool hit = false;
        if (k < count) {{
            hit = {_HIT};
            if (hit) hit = {{condition}};
        }}
        mask |= (wp::uint64)(__ballot_sync(neighbours, hit) >> place & {2**SHARED - 1}u) << first;
    }}
"""


@wp.func
def load_box(planes: wp.array2d[wp.float32], i: int) -> Box:
    return Box(planes[0, i], planes[1, i], planes[2, i], planes[3, i], planes[4, i], planes[5, i])


@wp.func
def store_box(planes: wp.array2d[wp.float32], i: int, box: Box):
    for k in range(6):
        planes[k, i] = box[k]


@wp.func
def unite(a: Box, b: Box) -> Box:
    """The least box that holds both."""
    return wp.min(a, b)


@wp.func
def reach(box: Box) -> Box:
    """What the six numbers of another box are at most if it overlaps this one."""
    return -Box(box[3], box[4], box[5], box[0], box[1], box[2])


def mask_snippet(condition: str = "1", setup: str = "", *, shared: bool = False) -> str:
    """C++ that compares consecutive boxes with a limit, sixteen at once; `condition` is asked of box k besides.

    Written without branches, so that the compiler turns the inner loop into a handful of vector instructions. A thread of
    a card has no such instructions, and each box that it need not load is time won; or the threads of an item, which are
    `SHARED` neighbours, have it together, and compare neighbours at once.
    """
    return f"""
    const float* p = planes.data + begin;
    const size_t stride = planes.strides[0] / sizeof(float);
    const float x = limit[0], y = limit[1], z = limit[2], u = limit[3], v = limit[4], w = limit[5];
    {setup}
    wp::uint64 mask = 0;
#if defined(__CUDA_ARCH__)
    const int base = 0;
    {_TOGETHER if shared else _ALONE}
    return mask;
#else
    for (int base = 0; base < count; base += 16, p += 16) {{
        unsigned int bits = 0;
        for (int k = 0; k < 16; ++k) {{
            const unsigned int hit = (p[k] <= x) & (p[k + stride] <= y) & (p[k + 2 * stride] <= z)
                & (p[k + 3 * stride] <= u) & (p[k + 4 * stride] <= v) & (p[k + 5 * stride] <= w) & {condition};
            bits |= hit << k;
        }}
        mask |= (wp::uint64)bits << base;
    }}
    return count < 64 ? mask & (((wp::uint64)1 << count) - 1) : mask;
#endif
    """.replace("{condition}", condition)


@wp.func_native(mask_snippet())
def overlap_mask(planes: wp.array2d[wp.float32], begin: int, count: int, limit: Box) -> wp.uint64:  # type: ignore[empty-body]
    """Which of at most 64 consecutive boxes overlap the one whose `reach` is the limit: bit k for box begin + k."""


@wp.func_native(mask_snippet(shared=True))
def shared_mask(planes: wp.array2d[wp.float32], begin: int, count: int, limit: Box) -> wp.uint64:  # type: ignore[empty-body]
    """The same, for all threads of an item."""


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return thread / {SHARED};
#else
    return thread;
#endif
"""
)
def shared_item(thread: int) -> int:  # type: ignore[empty-body]
    """The item of a thread."""


@wp.func_native(
    f"""
#if defined(__CUDA_ARCH__)
    return thread % {SHARED} == 0;
#else
    return true;
#endif
"""
)
def writes(thread: int) -> bool:  # type: ignore[empty-body]
    """Whether a thread is the one of its item that writes."""


@wp.func_native(
    """
    #if defined(__CUDA_ARCH__)
    return __ffsll((long long)mask) - 1;
    #else
    return __builtin_ctzll(mask);
    #endif
    """
)
def lowest_bit(mask: wp.uint64) -> int:  # type: ignore[empty-body]
    """The number of the lowest bit that is set; one must be."""


@wp.func
def _round_down(value: wp.float64) -> wp.float32:
    # at least one unit in the last place lower, whichever way the conversion rounded
    nearest = wp.float32(value)  # type: ignore[arg-type]
    return nearest - wp.abs(nearest) * ULP - SMALLEST


@wp.kernel
def _sample(
    first: int,
    count: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    sums: wp.array2d[wp.vec3d],
):
    i = first + wp.tid()
    position = wp.vec3d()
    displacement = wp.vec3d()
    for k in range(FRAME_SAMPLES):
        place = wp.int64(i * FRAME_SAMPLES + k) * wp.int64(count) / wp.int64(FRAME_SAMPLES * FRAME_SAMPLES)
        vertex = vertex_ids[int(place)]
        position += start[vertex]
        displacement += end[vertex] - start[vertex]
    sums[i, 0] = position
    sums[i, 1] = displacement


@wp.kernel
def _find_frame(first: int, sums: wp.array2d[wp.vec3d], follow: int, frame: wp.array[wp.vec3d]):
    # mean position and mean displacement of the sample: any values will do, these make boxes small and precise
    i = first + wp.tid()
    position = wp.vec3d()
    displacement = wp.vec3d()
    for k in range(FRAME_SAMPLES):
        position += sums[k, 0]
        displacement += sums[k, 1]
    count = wp.float64(FRAME_SAMPLES * FRAME_SAMPLES)
    frame[i] = position / count
    frame[i + 1] = displacement * (wp.float64(follow) / count)


@wp.func
def swept_box(start: wp.vec3d, end: wp.vec3d, frame: wp.array[wp.vec3d], growth: wp.float64) -> Box:
    """The box of a point's straight motion in the frame of reference, grown on every side."""
    a = start - frame[0]
    b = end - frame[0]
    drift = frame[1]
    box = Box()
    for axis in range(3):
        slack = growth + FRAME_ROUNDING * (wp.abs(a[axis]) + wp.abs(b[axis]))
        last = b[axis] - drift[axis]
        box[axis] = _round_down(wp.min(a[axis], last) - slack)
        box[axis + 3] = _round_down(-wp.max(a[axis], last) - slack)
    return box


@wp.func
def leeway_of(vertex: int, adaptive_margin: wp.array[wp.float64]) -> wp.float64:
    """How much more room a vertex has than others, if there are some that have more."""
    more = wp.float64(0.0)
    if adaptive_margin.shape[0] > 0:
        more = adaptive_margin[vertex]
    return more


@wp.kernel
def _box_vertices(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    frame: wp.array[wp.vec3d],
    growth: wp.float64,
    adaptive_margin: wp.array[wp.float64],
    farthest: wp.float32,
    boxes: wp.array2d[wp.float32],
    too_far: wp.array[int],
):
    i = first + wp.tid()
    vertex = vertex_ids[i]
    box = swept_box(start[vertex], end[vertex], frame, growth + leeway_of(vertex, adaptive_margin))
    store_box(boxes, i, box)
    # a NaN is in no range; whoever writes writes the same
    for k in range(6):
        if not (wp.abs(box[k]) < farthest):
            too_far[0] = 1


@wp.kernel
def _box_patches(
    first: int,
    vertex_boxes: wp.array2d[wp.float32],
    faces: wp.array[wp.vec3i],
    face_start: wp.array[int],
    edges: wp.array[wp.vec2i],
    edge_start: wp.array[int],
    face_boxes: wp.array2d[wp.float32],
    edge_boxes: wp.array2d[wp.float32],
    patch_boxes: wp.array2d[wp.float32],
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
):
    patch = first + wp.tid()
    for e in range(edge_start[patch], edge_start[patch + 1]):
        edge = edges[e]
        store_box(edge_boxes, e, unite(load_box(vertex_boxes, edge[0]), load_box(vertex_boxes, edge[1])))
    whole = _face_box(vertex_boxes, faces[face_start[patch]])
    for f in range(face_start[patch], face_start[patch + 1]):
        box = _face_box(vertex_boxes, faces[f])
        store_box(face_boxes, f, box)
        whole = unite(whole, box)
    store_box(patch_boxes, patch, whole)
    lower[patch] = wp.vec3(whole[0], whole[1], whole[2])
    upper[patch] = -wp.vec3(whole[3], whole[4], whole[5])


@wp.func
def _face_box(vertex_boxes: wp.array2d[wp.float32], face: wp.vec3i) -> Box:
    pair = unite(load_box(vertex_boxes, face[0]), load_box(vertex_boxes, face[1]))
    return unite(pair, load_box(vertex_boxes, face[2]))


def new_planes(count: int, device: wp.Device) -> wp.array:
    """Room for so many boxes."""
    return wp.empty((6, count + PADDING), dtype=wp.float32, device=device)


class Boxes:
    """The boxes of a surface's features and patches, by rank; `update` moves them."""

    def __init__(self, surface: Surface, patches: Patches) -> None:
        device = surface.device
        self.surface = surface
        self.patches = patches
        self.vertices = new_planes(len(patches.vertex_ids), device)
        self.edges = new_planes(len(patches.edge_ids), device)
        self.faces = new_planes(len(patches.face_ids), device)
        self.patch = new_planes(patches.count, device)
        self.lower = wp.empty(patches.count, dtype=wp.vec3, device=device)
        """lower corners of the patches, as `wp.Bvh` wants them"""
        self.upper = wp.empty(patches.count, dtype=wp.vec3, device=device)
        self._sums = wp.empty((int(FRAME_SAMPLES), 2), dtype=wp.vec3d, device=device)
        self.frame = wp.empty(2, dtype=wp.vec3d, device=device)
        self._too_far = wp.zeros(1, dtype=int, device=device)
        self._ends: tuple[wp.array, ...] = ()
        self._graphs = GraphCache(device)
        self._no_leeway = wp.empty(0, dtype=wp.float64, device=device)
        self.adaptive_margin = self._no_leeway
        """by how much the box of each vertex is grown besides; empty where by nothing"""

    def update(
        self, start: wp.array, end: wp.array, margin: float, *, follow: bool, adaptive_margin: wp.array | None = None
    ) -> None:
        """Boxes of the straight motion from `start` to `end`, each grown by half the margin, and by the margin of its vertex.

        They stand in a frame of reference that begins near the middle of the surface and, with `follow`, moves along
        with its mean displacement: the same for all, so that it changes no distance, and boxes stay small and precise
        far from the origin and in fast common motion.
        """
        for positions, name in ((start, "start"), (end, "end")):
            if len(positions) != self.surface.vertex_count:
                raise WeftError(f"{name} has {len(positions)} positions, but the surface {self.surface.vertex_count}")
        if not 0.0 <= margin < float("inf"):
            raise WeftError(f"margin must be a length of at least 0, got {margin}")
        if self.patches.count == 0:
            return
        moving = int(follow and end is not start)
        self.adaptive_margin = self._no_leeway if adaptive_margin is None else adaptive_margin
        self._graphs.run(
            lambda: self._enclose(start, end, margin, moving), start, end, margin, moving, self.adaptive_margin
        )
        self._ends = start, end

    def _enclose(self, start: wp.array, end: wp.array, margin: float, moving: int) -> None:
        """Boxes of all features, and the frame that they stand in."""
        ids, device = self.patches.vertex_ids, self.surface.device
        launch(_sample, len(self._sums), [len(ids), start, end, ids, self._sums], device=device)
        launch(_find_frame, 1, [self._sums, moving, self.frame], device=device)
        inputs = [
            start,
            end,
            ids,
            self.frame,
            0.5 * margin,
            self.adaptive_margin,
            FARTHEST,
            self.vertices,
            self._too_far,
        ]
        launch(_box_vertices, len(ids), inputs, device=device)
        self.unite_features()

    @property
    def flag(self) -> tuple[wp.array, int, int]:
        """What says whether the last update found positions that cannot be used, for `read` and `check`."""
        return self._too_far, 0, 1

    def check(self, flag: int) -> None:
        """Complain where the flag was raised."""
        if flag:
            self._too_far.zero_()
            raise self._unusable(*self._ends)

    def unite_features(self) -> None:
        """Boxes of edges, triangles and patches from those of the vertices."""
        patches = self.patches
        inputs = [self.vertices, patches.faces, patches.face_start, patches.edges, patches.edge_start]
        inputs += [self.faces, self.edges, self.patch, self.lower, self.upper]
        launch(_box_patches, patches.count, inputs, device=self.surface.device, grain=128)

    def _unusable(self, start: wp.array, end: wp.array) -> WeftError:
        used = sorted(self.patches.vertex_ids.numpy().tolist())
        for positions, name in ((start, "start"), (end, "end")):
            values = positions.numpy()
            bad = [k for k in used if not (abs(values[k]) < FARTHEST).all()]
            if bad:
                return WeftError(
                    f"{len(bad)} vertices have no usable {name} position, vertex {bad[0]} first "
                    f"({values[bad[0]].tolist()}): the motion blew up, or the input holds NaN"
                )
        return WeftError("the surface is spread too far apart for detection: copy_to_host its parts within 1e30 m")

"""Axis-aligned boxes of vertices, edges, triangles and patches over a whole step.

A box is six float32 numbers: the lower corner and the negated upper corner, both rounded outwards. Two boxes overlap when
they have a point in common, surfaces included. Every exact broad phase lists two features exactly when these boxes overlap.

Boxes are stored as six planes (all lower x, then all lower y, ...), so that vector instructions of a CPU compare one box with
sixteen others at once: most of the time of a broad phase goes there. The C++ of these comparisons is in `native/box_masks.h`.
"""

# mypy: disable-error-code="empty-body"

from typing import Any

import warp as wp

from weft.broad_phase.patches import PADDING, Patches
from weft.errors import Unstable, WeftError
from weft.runtime import launch
from weft.runtime.graph_cache import GraphCache
from weft.runtime.native import NativeHeader
from weft.world import Surface

wp.set_module_options({"enable_backward": False})

Box = wp.spatial_vector

# the frame of reference is the mean of FRAME_SAMPLES squared vertices, a number of them for each of FRAME_SAMPLES threads. Any
# frame is correct; 256 samples are enough for a mean that makes boxes small, and cost nothing beside the boxes
FRAME_SAMPLES = wp.constant(16)
# m; positions beyond this are refused: far below the largest float32, so that growing and uniting boxes cannot overflow
FARTHEST = 1e30
# one unit in the last place of a float32, relative, and the smallest normal float32
ULP = wp.constant(wp.float32(1.1920929e-7))
SMALLEST = wp.constant(wp.float32(1.1754944e-38))
# relative; bounds the rounding of the change of frame in float64: two operations, each within half of 2^-52
FRAME_ROUNDING = wp.constant(wp.float64(2.0**-51))
# CUDA threads that share a query, a power of two up to 32. A patch has 4 triangles and at most 12 edges there, so that more
# threads would idle, and with fewer each would test more boxes in turn
LANES = 8

_native = NativeHeader(__file__, "box_masks.h")


@wp.struct
class BoxPlanes:
    """The boxes of all features of a surface, by rank, as planes (6, count + padding)."""

    vertices: wp.array2d[wp.float32]
    edges: wp.array2d[wp.float32]
    faces: wp.array2d[wp.float32]


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
def overlap_limit(box: Box) -> Box:
    """The largest values that the six numbers of another box may have if it overlaps this one."""
    return -Box(box[3], box[4], box[5], box[0], box[1], box[2])


@wp.func_native(_native.body("overlap_mask"))
def overlap_mask(planes: wp.array2d[wp.float32], begin: int, count: int, limit: Box) -> wp.uint64:
    """Bit k of the result says whether box begin + k overlaps the one with this limit; `count` is at most 64."""


@wp.func_native(_native.body("overlap_mask_by_lanes", LANES=LANES))
def overlap_mask_by_lanes(planes: wp.array2d[wp.float32], begin: int, count: int, limit: Box) -> wp.uint64:
    """As `overlap_mask`, where all threads of a query (see `query_of_thread`) call it with the same arguments."""


@wp.func_native(_native.body("query_of_thread", LANES=LANES))
def query_of_thread(thread: int) -> int:
    """The query that a thread works on: its own on the CPU, shared by `LANES` neighbouring threads on CUDA."""


@wp.func_native(_native.body("is_first_lane", LANES=LANES))
def is_first_lane(thread: int) -> bool:
    """Whether a thread is the one of its query that writes."""


@wp.func_native(_native.body("lowest_bit"))
def lowest_bit(mask: wp.uint64) -> int:
    """The number of the lowest bit that is set; the mask must not be 0."""


@wp.func
def round_down(value: wp.float64) -> wp.float32:
    """A float32 that is lower than the value by at least one unit in the last place, whichever way the conversion rounds."""
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
    # mean position and mean displacement of the samples
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
        box[axis] = round_down(wp.min(a[axis], last) - slack)
        box[axis + 3] = round_down(-wp.max(a[axis], last) - slack)
    return box


@wp.kernel
def _box_vertices(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    frame: wp.array[wp.vec3d],
    growth: wp.float64,
    farthest: wp.float32,
    boxes: wp.array2d[wp.float32],
    too_far: wp.array[int],
):
    i = first + wp.tid()
    vertex = vertex_ids[i]
    box = swept_box(start[vertex], end[vertex], frame, growth)
    store_box(boxes, i, box)
    # a NaN fails this comparison too; all threads that write write the same
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
    """An uninitialised array of planes for so many boxes."""
    return wp.empty((6, count + PADDING), dtype=wp.float32, device=device)


class Boxes:
    """The boxes of a surface's features and patches, by rank; `update` computes them from positions."""

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
        planes: Any = BoxPlanes()
        planes.vertices, planes.edges, planes.faces = self.vertices, self.edges, self.faces
        self.planes = planes

    def update(self, start: wp.array, end: wp.array, margin: float, *, follow: bool) -> None:
        """Compute the boxes of the straight motion from `start` to `end`, each grown by half the margin (m).

        Coordinates are relative to a frame of reference that begins near the middle of the surface and, with `follow`,
        moves with its mean displacement. The frame is the same for all boxes, so that it changes no distance; it keeps
        boxes precise far from the origin and small in fast common motion.
        """
        for positions, name in ((start, "start"), (end, "end")):
            if len(positions) != self.surface.vertex_count:
                raise WeftError(f"{name} has {len(positions)} positions, but the surface {self.surface.vertex_count}")
        if not 0.0 <= margin < float("inf"):
            raise WeftError(f"margin must be a length of at least 0, got {margin}")
        if self.patches.count == 0:
            return
        moving = int(follow and end is not start)
        self._graphs.run(lambda: self._enclose(start, end, margin, moving), start, end, margin, moving)
        self._ends = start, end

    def _enclose(self, start: wp.array, end: wp.array, margin: float, moving: int) -> None:
        """Launch the kernels of `update`."""
        ids, device = self.patches.vertex_ids, self.surface.device
        launch(_sample, len(self._sums), [len(ids), start, end, ids, self._sums], device=device)
        launch(_find_frame, 1, [self._sums, moving, self.frame], device=device)
        inputs = [start, end, ids, self.frame, 0.5 * margin, FARTHEST, self.vertices, self._too_far]
        launch(_box_vertices, len(ids), inputs, device=device)
        self.unite_features()

    @property
    def flag(self) -> tuple[wp.array, int, int]:
        """The piece of device memory, as `read` takes it, that the last update set to 1 where a position was unusable."""
        return self._too_far, 0, 1

    def check(self, flag: int) -> None:
        """Raise an error if the flag, read from the device, is set."""
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
                return Unstable(
                    f"{len(bad)} vertices have no usable {name} position, vertex {bad[0]} first "
                    f"({values[bad[0]].tolist()}): the motion blew up, or the input holds NaN"
                )
        return WeftError(
            "the surface is spread too far apart for detection: bring its pieces within 1e30 m of each other"
        )

"""Boxes of everything that moves: vertices, edges, triangles and patches over a whole step.

A box is six float32 numbers: the lower corner and the negated upper corner, both rounded outwards. Two boxes overlap
when they have a point in common, their surfaces included. All broad phases use these boxes, and what they list is
defined by them: two features are candidates exactly when their boxes overlap.

Most pairs are told apart by less: `Cells` are the corners of a box on a grid of 2^20 cells an axis, packed into two
64-bit words, so that one comparison takes two subtractions. The map from corners to cells is monotone, hence boxes
that overlap have cells that overlap; the boxes themselves decide about the few pairs that are left.
"""

import warp as wp

from weft.detection.patches import Patches
from weft.errors import WeftError
from weft.world import Surface, launch

wp.set_module_options({"enable_backward": False})

Box = wp.spatial_vector
Cells = wp.types.vector(length=2, dtype=wp.uint64)

# the frame of reference comes from this many samples, squared
FRAME_SAMPLES = wp.constant(32)
# positions beyond this do not fit into float32 boxes
FARTHEST = 1e30
# one unit in the last place of a float32, relative, and the smallest normal float32
ULP = wp.constant(wp.float32(1.1920929e-7))
SMALLEST = wp.constant(wp.float32(1.1754944e-38))
# bounds the rounding of the change of frame in float64
FRAME_ROUNDING = wp.constant(wp.float64(2.0**-51))
# one bit above each axis's 20: it stays where the subtraction does not borrow
GUARDS = wp.constant(wp.uint64(1 << 20 | 1 << 41 | 1 << 62))
LAST_CELL = wp.constant(wp.float32((1 << 20) - 1))


@wp.struct
class Frame:
    """Where boxes stand: positions are taken relative to `origin`, at the end of the step also to `drift`."""

    origin: wp.vec3d
    drift: wp.vec3d
    low: wp.vec3
    """lower corner of the grid of cells"""
    cells: wp.vec3
    """cells a metre"""


@wp.func
def overlap(a: Box, b: Box) -> bool:
    """Whether two boxes have a point in common."""
    return a[0] <= -b[3] and b[0] <= -a[3] and a[1] <= -b[4] and b[1] <= -a[4] and a[2] <= -b[5] and b[2] <= -a[5]


@wp.func
def may_overlap(a: Cells, b: Cells) -> bool:
    """Whether two boxes can have a point in common: false only if they do not."""
    return ((b[1] - a[0]) & (a[1] - b[0]) & GUARDS) == GUARDS


@wp.func
def unite(a: Box, b: Box) -> Box:
    """The least box that holds both."""
    return wp.min(a, b)


@wp.func
def _round_down(value: wp.float64) -> wp.float32:
    # at least one unit in the last place lower, whichever way the conversion rounded
    nearest = wp.float32(value)  # type: ignore[arg-type]
    return nearest - wp.abs(nearest) * ULP - SMALLEST


@wp.func
def _cell(value: wp.float32, low: wp.float32, cells: wp.float32) -> wp.uint64:
    return wp.uint64(wp.clamp((value - low) * cells, wp.float32(0.0), LAST_CELL))


@wp.func
def _to_cells(box: Box, frame: Frame) -> Cells:
    low = wp.uint64(0)
    high = GUARDS
    for axis in range(3):
        shift = wp.uint64(21 * axis)
        low |= _cell(box[axis], frame.low[axis], frame.cells[axis]) << shift
        high |= _cell(-box[axis + 3], frame.low[axis], frame.cells[axis]) << shift
    return Cells(low, high)


@wp.kernel
def _sample(
    first: int,
    count: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    samples: wp.array2d[wp.vec3d],
):
    # sums and bounds of a part of the sample
    i = first + wp.tid()
    one = start[vertex_ids[0]]
    position = wp.vec3d()
    displacement = wp.vec3d()
    low = one
    high = one
    for k in range(FRAME_SAMPLES):
        place = wp.int64(i * FRAME_SAMPLES + k) * wp.int64(count) / wp.int64(FRAME_SAMPLES * FRAME_SAMPLES)
        vertex = vertex_ids[int(place)]
        p = start[vertex]
        position += p
        displacement += end[vertex] - p
        low = wp.min(low, p)
        high = wp.max(high, p)
    samples[i, 0] = position
    samples[i, 1] = displacement
    samples[i, 2] = low
    samples[i, 3] = high


@wp.kernel
def _find_frame(first: int, samples: wp.array2d[wp.vec3d], follow: int, frame: wp.array[Frame]):
    # any frame will do: this one makes boxes small and precise, and its grid holds nearly everything
    i = first + wp.tid()
    position = samples[0, 0]
    displacement = samples[0, 1]
    low = samples[0, 2]
    high = samples[0, 3]
    for k in range(1, FRAME_SAMPLES):
        position += samples[k, 0]
        displacement += samples[k, 1]
        low = wp.min(low, samples[k, 2])
        high = wp.max(high, samples[k, 3])
    count = wp.float64(FRAME_SAMPLES * FRAME_SAMPLES)
    result = Frame()
    result.origin = position / count
    result.drift = displacement * (wp.float64(follow) / count)
    extent = high - low
    margin = wp.max(wp.max(extent[0], extent[1]), extent[2]) * wp.float64(0.125)
    for axis in range(3):
        result.low[axis] = wp.float32(low[axis] - result.origin[axis] - margin)
        span = wp.float32(extent[axis] + wp.float64(2.0) * margin) + SMALLEST
        result.cells[axis] = wp.min(LAST_CELL / span, wp.float32(1e30))
    frame[i] = result


@wp.kernel
def _box_vertices(
    first: int,
    start: wp.array[wp.vec3d],
    end: wp.array[wp.vec3d],
    vertex_ids: wp.array[int],
    frames: wp.array[Frame],
    growth: wp.float64,
    farthest: wp.float64,
    boxes: wp.array[Box],
    cells: wp.array[Cells],
    too_far: wp.array[int],
):
    i = first + wp.tid()
    vertex = vertex_ids[i]
    frame = frames[0]
    a = start[vertex] - frame.origin
    b = end[vertex] - frame.origin
    box = Box()
    usable = bool(True)
    for axis in range(3):
        slack = growth + FRAME_ROUNDING * (wp.abs(a[axis]) + wp.abs(b[axis]))
        last = b[axis] - frame.drift[axis]
        box[axis] = _round_down(wp.min(a[axis], last) - slack)
        box[axis + 3] = _round_down(-wp.max(a[axis], last) - slack)
        # a NaN is in no range
        usable = usable and wp.abs(a[axis]) < farthest and wp.abs(last) < farthest
    boxes[i] = box
    cells[i] = _to_cells(box, frame)
    if not usable:
        # whoever writes writes the same
        too_far[0] = 1


@wp.kernel
def _box_patches(
    first: int,
    frames: wp.array[Frame],
    vertex_boxes: wp.array[Box],
    faces: wp.array[wp.vec3i],
    face_start: wp.array[int],
    edges: wp.array[wp.vec2i],
    edge_start: wp.array[int],
    face_boxes: wp.array[Box],
    face_cells: wp.array[Cells],
    edge_boxes: wp.array[Box],
    edge_cells: wp.array[Cells],
    patch_cells: wp.array[Cells],
    lower: wp.array[wp.vec3],
    upper: wp.array[wp.vec3],
):
    patch = first + wp.tid()
    frame = frames[0]
    for e in range(edge_start[patch], edge_start[patch + 1]):
        edge = edges[e]
        box = unite(vertex_boxes[edge[0]], vertex_boxes[edge[1]])
        edge_boxes[e] = box
        edge_cells[e] = _to_cells(box, frame)
    whole = _face_box(vertex_boxes, faces[face_start[patch]])
    for f in range(face_start[patch], face_start[patch + 1]):
        box = _face_box(vertex_boxes, faces[f])
        face_boxes[f] = box
        face_cells[f] = _to_cells(box, frame)
        whole = unite(whole, box)
    patch_cells[patch] = _to_cells(whole, frame)
    lower[patch] = wp.vec3(whole[0], whole[1], whole[2])
    upper[patch] = -wp.vec3(whole[3], whole[4], whole[5])


@wp.func
def _face_box(vertex_boxes: wp.array[Box], face: wp.vec3i) -> Box:
    return unite(unite(vertex_boxes[face[0]], vertex_boxes[face[1]]), vertex_boxes[face[2]])


class Boxes:
    """The boxes and cells of a surface's features and patches, by rank; `update` moves them."""

    def __init__(self, surface: Surface, patches: Patches) -> None:
        self.surface = surface
        self.patches = patches
        self.vertices, self.vertex_cells = self._new(len(patches.vertex_ids))
        self.edges, self.edge_cells = self._new(len(patches.edge_ids))
        self.faces, self.face_cells = self._new(len(patches.face_ids))
        device = surface.device
        self.patch_cells = wp.empty(patches.count, dtype=Cells, device=device)
        self.lower = wp.empty(patches.count, dtype=wp.vec3, device=device)
        """lower corners of the patches, as `wp.Bvh` wants them"""
        self.upper = wp.empty(patches.count, dtype=wp.vec3, device=device)
        samples = int(FRAME_SAMPLES)
        self._samples = wp.empty((samples, 4), dtype=wp.vec3d, device=device)
        self._frame = wp.empty(1, dtype=Frame, device=device)
        self._too_far = wp.zeros(1, dtype=int, device=device)

    def _new(self, count: int) -> tuple[wp.array, wp.array]:
        device = self.surface.device
        return wp.empty(count, dtype=Box, device=device), wp.empty(count, dtype=Cells, device=device)

    def update(self, start: wp.array, end: wp.array, margin: float, *, follow: bool) -> None:
        """Boxes of the straight motion from `start` to `end`, each grown by half the margin.

        They stand in a frame of reference that begins near the middle of the surface and, with `follow`, moves along
        with its mean displacement: the same for all, so that it changes no distance, and boxes stay small and precise
        far from the origin and in fast common motion.
        """
        patches = self.patches
        device = self.surface.device
        for positions, name in ((start, "start"), (end, "end")):
            if len(positions) != self.surface.vertex_count:
                raise WeftError(f"{name} has {len(positions)} positions, but the surface {self.surface.vertex_count}")
        if not 0.0 <= margin < float("inf"):
            raise WeftError(f"margin must be a length of at least 0, got {margin}")
        if patches.count == 0:
            return
        used = len(patches.vertex_ids)
        inputs = [used, start, end, patches.vertex_ids, self._samples]
        launch(_sample, len(self._samples), inputs, device=device)
        moving = int(follow and end is not start)
        launch(_find_frame, 1, [self._samples, moving, self._frame], device=device)
        inputs = [start, end, patches.vertex_ids, self._frame, 0.5 * margin, FARTHEST]
        inputs += [self.vertices, self.vertex_cells, self._too_far]
        launch(_box_vertices, used, inputs, device=device)
        inputs = [self._frame, self.vertices, patches.faces, patches.face_start, patches.edges, patches.edge_start]
        inputs += [self.faces, self.face_cells, self.edges, self.edge_cells]
        inputs += [self.patch_cells, self.lower, self.upper]
        launch(_box_patches, patches.count, inputs, device=device, grain=256)
        if self._too_far.numpy()[0]:
            self._too_far.zero_()
            raise self._unusable(start, end)

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
        return WeftError("the surface is spread too far apart for detection: bring its parts within 1e30 m")

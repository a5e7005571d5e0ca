"""A detailed mesh for the screen that follows the cloth of a running simulation, with its normals."""

# mypy: disable-error-code="arg-type"

from typing import Any

import numpy as np
import numpy.typing as npt
import warp as wp

from weft.mesh import TriMesh
from weft.mesh.anchors import Anchors
from weft.runtime import launch
from weft.runtime.buffers import HostMirror, copy_all_to_host

wp.set_module_options({"enable_backward": False})

Floats = npt.NDArray[np.float64]
TINY = wp.constant(wp.float64(1e-30))
# below this length the sum of the normals of the corners says nothing: they point against each other on a sharp fold
CANCELLED = wp.constant(wp.float64(1e-9))
# vertices that are worth a thread of their own
GRAIN = 512


@wp.struct
class AnchorArrays:
    """Where each point of a detailed mesh is anchored, see `weft.mesh.anchors.Anchors`."""

    corners: wp.array[wp.vec3i]
    weights: wp.array[wp.vec3d]
    offsets: wp.array[wp.vec3d]
    """along the blended normal, and in lengths of the two edges"""
    leans: wp.array[wp.vec3d]
    """the rest of the offset, in the frame of the triangle"""


@wp.func
def unit(v: wp.vec3d) -> wp.vec3d:
    """v with the length 1."""
    return v / wp.max(wp.length(v), TINY)


@wp.kernel
def find_normals(
    first: int,
    x: wp.array[wp.vec3d],
    faces: wp.array[wp.vec3i],
    around: wp.array[int],
    begins: wp.array[int],
    normals: wp.array[wp.vec3d],
):
    """The normal of each vertex from its triangles, which lie in `around` from `begins` on, each counting by its area."""
    i = first + wp.tid()
    total = wp.vec3d()
    for k in range(begins[i], begins[i + 1]):
        f = faces[around[k]]
        total += wp.cross(x[f[1]] - x[f[0]], x[f[2]] - x[f[0]])
    normals[i] = unit(total)


@wp.kernel
def follow_anchors(
    first: int,
    sheet: wp.array[wp.vec3d],
    normals: wp.array[wp.vec3d],
    anchors: AnchorArrays,
    x: wp.array[wp.vec3d],
):
    """Where each point is, by the positions of the vertices of the sheet and their normals."""
    i = first + wp.tid()
    c = anchors.corners[i]
    w = anchors.weights[i]
    a = sheet[c[0]]
    e = sheet[c[1]] - a
    g = sheet[c[2]] - a
    own = unit(wp.cross(e, g))
    normal = w[0] * normals[c[0]] + w[1] * normals[c[1]] + w[2] * normals[c[2]]
    if wp.length(normal) > CANCELLED:
        normal = unit(normal)
    else:
        normal = own
    o = anchors.offsets[i]
    along = unit(e)
    lean = anchors.leans[i]
    turned = lean[0] * along + lean[1] * wp.cross(own, along) + lean[2] * own
    x[i] = a + (w[1] + o[1]) * e + (w[2] + o[2]) * g + o[0] * normal + turned


class RenderMesh:
    """Vertices and normals of a mesh that is bound to a cloth; both arrays are written again in each step."""

    def __init__(self, mesh: TriMesh, sheet: wp.array, faces: npt.NDArray[np.int32]) -> None:
        """`mesh`: as it lies on the cloth, whose vertices are `sheet` and whose triangles are `faces`."""
        device, count = wp.get_device(sheet.device), len(sheet)
        anchors = Anchors(mesh.vertices, sheet.numpy(), faces)

        def upload(values: Any, dtype: Any = wp.vec3d) -> wp.array:
            return wp.array(values, dtype=dtype, device=device)

        places: Any = AnchorArrays()
        places.corners = upload(anchors.corners, wp.vec3i)
        places.weights, places.leans = upload(anchors.weights), upload(anchors.leans)
        places.offsets = upload(np.column_stack([anchors.height, anchors.sideways]))
        x, sheet_normals = upload(mesh.vertices), wp.zeros(count, dtype=wp.vec3d, device=device)
        normals = wp.zeros(len(x), dtype=wp.vec3d, device=device)

        def lists(own: npt.NDArray[np.int32], vertices: int) -> tuple[wp.array, ...]:
            return upload(own, wp.vec3i), *(upload(v, int) for v in _triangles_around(own, vertices))

        # the same tuples in every step, which makes launches cheap
        self._launches: list[tuple[Any, int, tuple[Any, ...]]] = [
            (find_normals, count, (sheet, *lists(faces, count), sheet_normals)),
            (follow_anchors, len(x), (sheet, sheet_normals, places, x)),
            (find_normals, len(x), (x, *lists(mesh.faces, len(x)), normals)),
        ]
        self._device, self._seen = device, (HostMirror(x), HostMirror(normals))
        self.faces: npt.NDArray[np.int32] = mesh.faces
        self.positions: Floats = self._seen[0].values
        """(n, 3)"""
        self.normals: Floats = self._seen[1].values
        """(n, 3) of unit length"""
        self.follow()

    def follow(self) -> None:
        """Take the cloth as it is now."""
        for kernel, count, inputs in self._launches:
            launch(kernel, count, inputs, device=self._device, grain=GRAIN)
        if not self._device.is_cpu:
            copy_all_to_host(*self._seen)


def _triangles_around(faces: npt.NDArray[np.int32], count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The triangles of each vertex in one list, and where those of each vertex begin."""
    corners = faces.ravel()
    begins = np.concatenate([[0], np.cumsum(np.bincount(corners, minlength=count))])
    return np.argsort(corners, kind="stable") // 3, begins

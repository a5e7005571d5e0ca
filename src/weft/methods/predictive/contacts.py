"""Contacts of cloth with cloth (Lewin 2018, section 4): made once a step, or cached, and projected apart in every sweep.

Three kinds, all of them stencils (four vertices, four weights of sum zero, a unit normal n from the second side to the
first), with the constraint C = n . sum w_k x_k - 2r >= 0:

- vertex p and triangle abc: only the side is kept. n is the triangle's normal as it is now, on that side; the weights
  are those of the foot of p in the triangle's plane, wherever that is: C = n . (p - a) - 2r, and its gradient with
  respect to a corner is minus the foot's barycentric coordinate there times n, for tilting the triangle moves its plane
  at p by just that. So one multiplication with n serves for all.
- edge and edge, vertex and vertex: n and the weights are those of the nearest points at the start of the step.

Cached contacts (section 5.2) are of the first kind only. Layers slide, so at the start of each step such a contact walks to the
neighbouring triangle that is nearest to its vertex.
"""

# mypy: disable-error-code="arg-type, empty-body"

from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.errors import SceneError
from weft.geometry.proximity import NEAREST_ON_TRIANGLE
from weft.methods.predictive.regions import Regions
from weft.methods.predictive.state import VertexArrays, fill
from weft.runtime.buffers import Buffer
from weft.runtime.colouring import colour_items
from weft.runtime.native import NativeHeader
from weft.scene import Scene

wp.set_module_options({"enable_backward": False})

# kind of a contact: stored normal and weights; a triangle; a triangle that rests for this step. The sign is the side
FROZEN = wp.constant(0)
TRIANGLE = wp.constant(1)
ASLEEP = wp.constant(2)
# cosine of the largest angle between a normal and the direction across it at which one thing certainly lies over another:
# larger, and crossed layers are not told from neighbours; smaller, and they come apart the wrong way at borders
OVER = wp.constant(wp.float64(0.9))
# no corner moves more than this many times the depth of a contact; a free triangle under a held vertex takes 1.37
LEVER = 1.5
# barycentric coordinate by which the foot of a vertex may lie outside of its triangle before the plane of the start is taken
OUTSIDE = 0.2
# barycentric coordinate at which a cached contact goes on to the next triangle: a little outside, so that it does not go back
# and forth on an edge
BORDER = wp.constant(wp.float64(-0.02))
# triangles that a cached contact passes in a step at most
WALK = wp.constant(4)
# cached contacts that the CPU tests at a time
LANES = wp.constant(4)

_native = NativeHeader(__file__, "contacts.h")
_walk = NativeHeader(__file__, "contact_walk.h")
_ROWS = {"NEAREST": NEAREST_ON_TRIANGLE, "LEVER": LEVER, "OUTSIDE": OUTSIDE, "ASLEEP": ASLEEP}
CONTACT_CPP = {
    "ROWS": _native.body("rows", **_ROWS),
    **{name.upper(): _native.body(name) for name in ("contact", "look", "push", "write")},
}
"""pieces of the solve of one contact, for the solve by reservations"""


@wp.struct
class ContactArrays:
    """Contacts of cloth with cloth."""

    vertices: wp.array[wp.vec4i]
    kinds: wp.array[int]
    weights: wp.array[wp.vec4d]
    """of a triangle contact: 0 until the plane at the start of the step is needed"""
    normals: wp.array[wp.vec3d]
    thickness: wp.array[wp.float64]
    friction: wp.array[wp.vec2d]
    """static, kinetic"""
    triangles: wp.array[int]
    """the triangle of a contact of a vertex with one, else -1"""
    pushed: wp.array[int]
    """1 where the contact moved something in the last sweep"""


@wp.func_native(PACKED_VERTEX + _native.body("solve_contacts", **_ROWS))
def solve_contacts(
    first: int, last: int, rub: wp.float64, push: wp.float64, contacts: ContactArrays, vertices: VertexArrays
):
    """Project contacts apart one after another, with friction; `rub` is a factor of friction.

    Overlap from before the substep is undone by at most `push` metres and without velocity, as of half-spaces.
    """
    ...


@wp.func_native(PACKED_VERTEX + _walk.body("refresh_four", FOUR=_native.body("four"), BORDER=BORDER, AWAKE=TRIANGLE))
def refresh_four(i: int, contacts: ContactArrays, vertices: VertexArrays) -> int:
    """Four cached contacts from i on at the start of a step; gives a bit for each that `refresh_contact` must do."""
    ...


@wp.func_native(
    PACKED_VERTEX
    + _walk.body(
        "refresh_contact",
        NEAREST=NEAREST_ON_TRIANGLE,
        WALK=WALK,
        BORDER=BORDER,
        AWAKE=TRIANGLE,
        ASLEEP=ASLEEP,
        OVER=OVER,
    )
)
def refresh_contact(i: int, contacts: ContactArrays, vertices: VertexArrays):
    """A cached contact at the start of a step: walks to the triangle nearest to its vertex.

    It sleeps for the step where the vertex is on the wrong side and not certainly through the layer.
    """
    ...


@wp.func
def refresh_contacts(first: int, last: int, contacts: ContactArrays, vertices: VertexArrays):
    """Cached contacts first..last-1 on the CPU."""
    for c in range(first, last, LANES):
        left = int(-1)
        if c + LANES <= last:
            left = refresh_four(c, contacts, vertices)
        for i in range(c, wp.min(c + LANES, last)):
            if (left >> (i - c)) & 1 != 0:
                refresh_contact(i, contacts, vertices)


@wp.kernel
def refresh_each(first: int, contacts: ContactArrays, vertices: VertexArrays):
    """Cached contacts on CUDA, one an item."""
    refresh_contact(first + wp.tid(), contacts, vertices)


class Contacts:
    """The contacts of a step in the order of the search; arrays grow and are kept."""

    def __init__(self, device: wp.Device) -> None:
        self.count = 0
        dtypes: tuple[Any, ...] = (wp.vec4i, int, wp.vec4d, wp.vec3d, wp.float64, wp.vec2d, int, int)
        names = ContactArrays.vars  # type: ignore[attr-defined]
        self._buffers = {name: Buffer(dtype, device) for name, dtype in zip(names, dtypes, strict=True)}
        self._masks = Buffer(int, device)
        self.arrays: Any = None
        """as kernels take them; another object when it has grown"""
        self.grow(0)

    def grow(self, count: int) -> None:
        """Make room for so many contacts; those that were there are lost."""
        self.count = count
        arrays = {name: buffer.at_least(count) for name, buffer in self._buffers.items()}
        if self.arrays is None or arrays["vertices"] is not self.arrays.vertices:
            self.arrays = fill(ContactArrays, **arrays)
        self.room = min(len(array) for array in arrays.values())
        self.masks = self._masks.at_least(2 * (self.room // 32 + 1))
        """two bits for each contact"""


def keep_nearest(contacts: Contacts, x: np.ndarray, regions: Regions, fixed: np.ndarray) -> None:
    """Of the triangles that a vertex has on one side in one region keep only the nearest, for the cache.

    The others say the same in the pose, and something else once layers slide over each other.
    """
    count, arrays = contacts.count, contacts.arrays
    if count == 0:
        return
    vertices, kinds, weights, normals = (
        array.numpy()[:count] for array in (arrays.vertices, arrays.kinds, arrays.weights, arrays.normals)
    )
    r = np.einsum("kc,kcd->kd", weights, x[vertices])
    distance = np.linalg.norm(r, axis=1)
    tilt = 1.0 - np.abs((r * normals).sum(axis=1)) / np.maximum(distance, 1e-300)
    corners = regions.vertex_region[vertices[:, 1:]]
    region = np.where(corners[:, 1] == corners[:, 2], corners[:, 1], corners[:, 0])

    # of equally near ones the least tilted, then the first
    order = np.lexsort((np.arange(count), np.round(tilt, 9), np.round(distance, 12), kinds, region, vertices[:, 0]))
    key = np.stack([vertices[order, 0], region[order], kinds[order]], axis=1)
    nearest = np.append(True, (np.diff(key, axis=0) != 0).any(axis=1))
    kept = order[nearest]

    # neighbours in the list have no vertex in common, so that a processor can work on several at a time
    kept = kept[colour_items(np.where(fixed[vertices[kept]], -1, vertices[kept]), len(x)).order]
    values = {name: getattr(arrays, name).numpy()[kept].copy() for name in contacts._buffers}
    contacts.grow(len(kept))
    for name, some in values.items():
        getattr(contacts.arrays, name)[: len(kept)].assign(some)


def read_pose(scene: Scene, name: str, count: int) -> np.ndarray:
    """The vertices of all cloths in the pose of a file, in which contacts are cached."""

    def blame(text: str) -> SceneError:
        return SceneError(scene.problem(("method", "cache_pose"), f"{name} {text}"))

    path = Path(scene.base) / name
    try:
        with np.load(path) as file:
            positions = np.asarray(file["positions"], dtype=np.float64) if "positions" in file else None
    except (OSError, ValueError) as error:
        raise blame(f"cannot be read as an npz file: {error}") from None
    if positions is None:
        raise blame("has no array 'positions'")
    if positions.shape != (count, 3):
        raise blame(f"holds positions of shape {positions.shape}, and the cloths have {count} vertices")
    if not np.isfinite(positions).all():
        raise blame("holds positions that are not finite")
    return positions

"""Contacts of cloth with cloth (Lewin 2018, section 4): made once a step, or cached, and projected apart in every sweep.

Three kinds, all of them stencils (four vertices, four weights of sum zero, a unit normal n from the second side to the
first), with the constraint C = n . sum w_k x_k - 2r >= 0:

- vertex p and triangle abc: only the side is kept. n is the triangle's normal as it is now, on that side; the weights
  are those of the foot of p in the triangle's plane, wherever that is: C = n . (p - a) - 2r, and its gradient with
  respect to a corner is minus the foot's barycentric coordinate there times n, for tilting the triangle moves its plane
  at p by just that. So one multiplication with n serves for all.
- edge and edge, vertex and vertex: n and the weights are those of the nearest points at the start of the step.

Cached contacts (section 5.2) are of the first kind only. Layers slide, so at the start of each step such a contact walks
to the neighbouring triangle that is nearest to its vertex.

Which pairs make a contact (sections 4.1 to 4.3): nearest points and the direction between them are those at the start;
the displacements of the step, projected on that direction, tell how near the two will come. What comes nearer than the
thickness 2r and the static collision radius gets a contact. No contact is made twice: the broad phase lists each pair of
features once (rep-tri), and where the nearest points are on borders, one rule says which pair stands for the place:

- a vertex over a triangle, or over its border, is a contact of the two where the direction between them is within
  60 degrees of the triangle's normal; elsewhere the triangle's plane says nothing about what is between them;
- two edges are a contact where the nearest points are inside both; where one of them is an end, only if no triangle at
  the other edge makes the contact with that vertex, only for the first edge of that vertex, and only if the other edge
  is on the border or in a sharp fold, or the two move against each other.

Neighbours in a sheet make no contact where the cloth between them is straight: where their middles are and stay at least
0.95 times as far apart as at rest. The cloth itself keeps them apart, and a contact would only ask for 0.7 of that. Features
that are sewn together make none either: it would open the seam.

Layers know which side is right, where they lie on each other: where both face the same way. The front of a sleeve and
the back of the sleeve under it do not, and keep the sides they are on.
"""

# mypy: disable-error-code="arg-type, empty-body"

from pathlib import Path
from typing import Any

import numpy as np
import warp as wp

from weft.dynamics.packed_vertices import PACKED_VERTEX
from weft.errors import SceneError
from weft.geometry.stencil import NEAREST_ON_TRIANGLE
from weft.methods.predictive.state import Regions, VertexArrays, fill
from weft.runtime.buffers import Buffer
from weft.runtime.colouring import colour_items
from weft.runtime.native import NativeHeader
from weft.scene import Scene

wp.set_module_options({"enable_backward": False})

ZERO = wp.constant(wp.float64(0.0))
ONE = wp.constant(wp.float64(1.0))
HALF = wp.constant(wp.float64(0.5))
# kind of a contact: stored normal and weights; a triangle; a triangle that rests for this step. The sign is the side
FROZEN = wp.constant(0)
TRIANGLE = wp.constant(1)
ASLEEP = wp.constant(2)
# cosine of the largest angle between a normal and the direction across it at which one thing certainly lies over another:
# nearer to 1, crossed layers more often wait for another step; smaller, contacts at borders may push to the wrong side
OVER = wp.constant(wp.float64(0.9))
# no corner moves more than this many times the depth of a contact; a free triangle under a held vertex takes 1.37
LEVER = 1.5
# barycentric coordinate by which the foot of a vertex may lie outside of its triangle before the plane of the start is taken
OUTSIDE = 0.2
# sweeps over contacts and half-spaces alone after the last substep, at most. The next search takes the sides of features as
# they are at the end of the step: with none, two silks on a ball cross in 450 places, with ten in a tenth of that
LAST_SWEEPS = wp.constant(10)
# another sweep follows while a contact is nearer than its thickness by this share of it
DEEP = 0.5
# square of the cosine of the angle between the directions of two edges at the start and at the end of a step up to which the
# latter is taken, and square of the sine of the angle between the edges: nearly parallel edges have no certain direction
TURNED, PARALLEL = 0.04, 0.01
# barycentric coordinate at which a cached contact goes on to the next triangle: a little outside, so that it does not go back
# and forth on an edge
BORDER = wp.constant(wp.float64(-0.02))
# triangles that a cached contact passes in a step at most
WALK = wp.constant(4)
# distance in metres below which two features touch and have no direction between them
TINY = wp.constant(wp.float64(1e-12))
# cosine of the largest angle between a triangle's normal and the direction to a vertex: 60 degrees
ALIGNED = wp.constant(wp.float64(0.5))
# two points of one cloth keep at most this share of their distance along the cloth at rest: with more, contacts would stretch
# the cloth between them
REST_SHARE = wp.constant(wp.float64(0.7))
# where two features of a cloth are and stay no nearer than this share of their distance at rest, the cloth between them is
# straight; with more, flat cloth would be full of contacts with itself
STRAIGHT = wp.constant(wp.float64(0.95))
# features that move against each other by more than this share of the contact distance in a step are fast: an edge end then
# makes contacts with any edge, not only with sharp folds
DISPLACEMENT_RATIO = wp.constant(wp.float64(0.25))
# a nearest point within this share of an edge's end counts as the end
END = wp.constant(wp.float64(1e-6))
# bits of an edge: it is the first edge of its first or of its second vertex; it is on the border, or its triangles fold sharply
FIRST = wp.constant(1)
SECOND = wp.constant(2)
SHARP = wp.constant(4)
POINT_TRIANGLE, EDGE_EDGE, POINT_POINT = (wp.constant(k) for k in range(1, 4))

_native = NativeHeader(__file__, "contacts.h")
_pairs = NativeHeader(__file__, "pairs.h")
_MEASURE = {"TURNED": TURNED, "PARALLEL": PARALLEL, "DEEP": DEEP}
_ROWS = {"NEAREST": NEAREST_ON_TRIANGLE, "LEVER": LEVER, "OUTSIDE": OUTSIDE, "ASLEEP": ASLEEP}
_CONSTANTS = {"ALIGNED": ALIGNED, "TINY": TINY, "REST_SHARE": REST_SHARE, "OVER": OVER, "STRAIGHT": STRAIGHT}
CONTACT_CPP = {
    "ROWS": _native.body("rows", **_ROWS),
    "MEASURE": _native.body("measure", **_MEASURE),
    **{name.upper(): _native.body(name) for name in ("contact", "push", "write")},
}
"""pieces of the solve of one contact, for the solve by reservations"""


@wp.struct
class StepContactArrays:
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
    deep: wp.array[int]
    """1 for each sweep after the substeps in which a contact was much nearer than its thickness"""


@wp.func_native(PACKED_VERTEX + _native.body("solve_contacts", **_ROWS, **_MEASURE))
def solve_contacts(
    first: int,
    last: int,
    fresh: int,
    friction_factor: wp.float64,
    push: wp.float64,
    contacts: StepContactArrays,
    vertices: VertexArrays,
):
    """Project contacts apart one after another, with friction; `friction_factor` is a factor of friction.

    Overlap from before the substep is undone by at most `push` metres and without velocity, as of half-spaces. `fresh` is 0
    in the substeps, and the number of the sweep after them: then edges have the nearest points that they have now.
    """
    ...


@wp.func_native(
    PACKED_VERTEX
    + _native.body(
        "refresh_contact",
        NEAREST=NEAREST_ON_TRIANGLE,
        WALK=WALK,
        BORDER=BORDER,
        AWAKE=TRIANGLE,
        ASLEEP=ASLEEP,
        OVER=OVER,
    )
)
def refresh_contact(i: int, contacts: StepContactArrays, vertices: VertexArrays):
    """A cached contact at the start of a step: walks to the triangle nearest to its vertex.

    It sleeps for the step where the vertex is on the wrong side and not certainly through the layer.
    """
    ...


@wp.kernel
def refresh_each(first: int, contacts: StepContactArrays, vertices: VertexArrays):
    """CUDA: cached contacts at the start of a step, one an item."""
    refresh_contact(first + wp.tid(), contacts, vertices)


@wp.struct
class SearchSurface:
    """What the search reads of the cloths; positions are set before each search."""

    x: wp.array[wp.vec3d]
    end: wp.array[wp.vec3d]
    """predicted positions at the end of the step, without the rotation of all cloth together"""
    faces: wp.array[wp.vec3i]
    edges: wp.array[wp.vec2i]
    edge_faces: wp.array[wp.vec2i]
    """the triangles at an edge, -1 for none"""
    first_edge: wp.array[int]
    """the first edge of each vertex, -1 for none"""
    marks: wp.array[int]
    """of each edge: FIRST, SECOND and SHARP, found anew in each search"""
    owned: wp.array[int]
    """bit k of a triangle: it owns its corner k (rep-tri)"""
    vertex_cloth: wp.array[int]
    vertex_region: wp.array[int]
    edge_region: wp.array[int]
    face_region: wp.array[int]
    above: wp.array2d[int]
    """1 where the first region lies over the second, -1 where under it, 0 where neither"""
    rest: wp.array[wp.vec3d]
    rest_middles: wp.array[wp.vec4d]
    """middles of the edges at rest, and the number of the cloth"""
    thickness: wp.array[wp.float64]
    sewn: int
    """whether there are seams"""
    sewn_to: wp.array[int]
    """a number a vertex, the same for vertices that seams join"""
    sticking: wp.array2d[wp.float64]
    sliding: wp.array2d[wp.float64]
    """static and kinetic friction of two cloths"""
    radius: wp.float64
    """static collision radius"""
    largest: wp.float64
    """largest thickness"""


MadeContact = wp.types.vector(length=10, dtype=wp.float64)
"""A contact: whether it is one, its kind, four weights, a normal, the thickness."""


@wp.func_native(_pairs.body("point_triangle", NEAREST=NEAREST_ON_TRIANGLE, **_CONSTANTS))
def make_point_triangle(pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """A vertex and a triangle: the side is the one on which the vertex is, or that of its layer."""
    ...


@wp.func_native(_pairs.body("edge_edge", END=END, SHARP=SHARP, DISPLACEMENT_RATIO=DISPLACEMENT_RATIO, **_CONSTANTS))
def make_edge_edge(pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """Two edges; between layers the normal is that of the lower one."""
    ...


@wp.func
def closest_approach(r: wp.vec3d, move: wp.vec3d) -> wp.float64:
    """The least distance of two points on straight paths, from their offset at the start and its change over the step."""
    squared = wp.dot(move, move)
    t = ZERO
    if squared > ZERO:
        t = wp.clamp(-wp.dot(r, move) / squared, ZERO, ONE)
    return wp.length(r + t * move)


@wp.func
def make_point_point(a: int, b: int, surface: SearchSurface) -> MadeContact:
    """Two vertices: the closest approach of their paths is exact."""
    made = MadeContact()
    if surface.sewn != 0 and surface.sewn_to[a] == surface.sewn_to[b]:
        return made
    r = surface.x[a] - surface.x[b]
    move = (surface.end[a] - surface.x[a]) - (surface.end[b] - surface.x[b])
    thick = HALF * (surface.thickness[a] + surface.thickness[b])
    if surface.vertex_cloth[a] == surface.vertex_cloth[b]:
        thick = wp.min(thick, REST_SHARE * wp.length(surface.rest[a] - surface.rest[b]))
    distance = wp.length(r)
    if distance <= TINY or closest_approach(r, move) > surface.radius + thick:
        return made
    n = r / distance
    return MadeContact(ONE, ZERO, ONE, ZERO, -ONE, ZERO, n[0], n[1], n[2], thick)


@wp.func
def make_pair(kind: int, pair: wp.vec2i, surface: SearchSurface) -> MadeContact:
    """The contact of two features, if they make one."""
    if kind == POINT_TRIANGLE:
        return make_point_triangle(pair, surface)
    if kind == EDGE_EDGE:
        return make_edge_edge(pair, surface)
    return make_point_point(pair[0], pair[1], surface)


@wp.func
def corners_of(kind: int, pair: wp.vec2i, surface: SearchSurface) -> wp.vec4i:
    """The four vertices of a pair; a single vertex stands for two."""
    corners = wp.vec4i(pair[0], pair[0], pair[1], pair[1])
    if kind == POINT_TRIANGLE:
        f = surface.faces[pair[1]]
        corners = wp.vec4i(pair[0], f[0], f[1], f[2])
    elif kind == EDGE_EDGE:
        e = surface.edges[pair[0]]
        f2 = surface.edges[pair[1]]
        corners = wp.vec4i(e[0], e[1], f2[0], f2[1])
    return corners


@wp.func
def write_contact(
    i: int, kind: int, pair: wp.vec2i, made: MadeContact, surface: SearchSurface, contacts: StepContactArrays
):
    """Store the contact of a pair as contact i."""
    q = corners_of(kind, pair, surface)
    contacts.vertices[i] = q
    contacts.kinds[i] = int(made[1])
    contacts.weights[i] = wp.vec4d(made[2], made[3], made[4], made[5])
    contacts.normals[i] = wp.vec3d(made[6], made[7], made[8])
    contacts.thickness[i] = made[9]
    contacts.triangles[i] = wp.where(kind == POINT_TRIANGLE, pair[1], -1)
    # corners 0 and 3 are on different sides in all kinds of stencils
    a = surface.vertex_cloth[q[0]]
    b = surface.vertex_cloth[q[3]]
    contacts.friction[i] = wp.vec2d(surface.sticking[a, b], surface.sliding[a, b])


class StepContacts:
    """The contacts of a step in the order of the search; arrays grow and are kept."""

    def __init__(self, device: wp.Device) -> None:
        self.count = 0
        dtypes: tuple[Any, ...] = (wp.vec4i, int, wp.vec4d, wp.vec3d, wp.float64, wp.vec2d, int, int)
        names = list(StepContactArrays.vars)[: len(dtypes)]  # type: ignore[attr-defined]
        self._buffers = {name: Buffer(dtype, device) for name, dtype in zip(names, dtypes, strict=True)}
        self.deep = wp.zeros(LAST_SWEEPS + 1, dtype=int, device=device)
        self._masks = Buffer(int, device)
        self.arrays: Any = None
        """as kernels take them; another object when it has grown"""
        self.grow(0)

    def grow(self, count: int) -> None:
        """Make room for so many contacts; those that were there are lost."""
        self.count = count
        arrays = {name: buffer.at_least(count) for name, buffer in self._buffers.items()}
        if self.arrays is None or arrays["vertices"] is not self.arrays.vertices:
            self.arrays = fill(StepContactArrays, deep=self.deep, **arrays)
        self.room = min(len(array) for array in arrays.values())
        self.masks = self._masks.at_least(2 * (self.room // 32 + 1))
        """two bits for each contact"""


def keep_nearest(contacts: StepContacts, x: np.ndarray, regions: Regions, fixed: np.ndarray) -> None:
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

    # of equally near ones the least tilted, then by a hash: were it always the first, all vertices of a layer would lean on the
    # same side of what they touch, and at full size 10 to 12 frames of the skirt had crossings instead of 1 to 6
    turn = _hash(vertices)
    order = np.lexsort((turn, np.round(tilt, 9), np.round(distance, 12), kinds, region, vertices[:, 0]))
    key = np.stack([vertices[order, 0], region[order], kinds[order]], axis=1)
    nearest = np.append(True, (np.diff(key, axis=0) != 0).any(axis=1))
    kept = order[nearest]
    kept = kept[np.argsort(turn[kept], kind="stable")]

    # contacts that follow each other have no vertex in common: a processor need not wait for one before it begins the next
    kept = kept[colour_items(np.where(fixed[vertices[kept]], -1, vertices[kept]), len(x)).order]
    values = {name: getattr(arrays, name).numpy()[kept].copy() for name in contacts._buffers}
    contacts.grow(len(kept))
    for name, some in values.items():
        getattr(contacts.arrays, name)[: len(kept)].assign(some)


def _hash(vertices: np.ndarray) -> np.ndarray:
    """A number for each contact, which depends on its four vertices alone (multiplicative hashing)."""
    found = np.zeros(len(vertices), np.uint32)
    for column, factor in zip(vertices.T, (2654435761, 2246822507, 3266489909, 668265263), strict=True):
        found = (found ^ column.astype(np.uint32)) * np.uint32(factor)
        found ^= found >> np.uint32(15)
    return found


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

"""Which vertices of a cloth a pin, region or follow selects, and how pinned vertices move."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, SceneError
from weft.mesh import TriMesh, shapes
from weft.mesh.details import IN_GROUP
from weft.scene.bodies import Cloth, Pin
from weft.scene.messages import Key, listed
from weft.scene.methods import VertexSelection
from weft.scene.resolved_motion import FunctionMotion, ResolvedMotion, SampledMotion, SelectedMotion
from weft.scene.scene import Scene
from weft.scene.shape import Cylinder, Grid, Plane, Strip

# m; far below any edge and far above rounding
_TOUCH = 1e-9

Indices = NDArray[np.int32]


@dataclass(frozen=True)
class PinnedVertices:
    """The vertices of a cloth that one pin holds, and their motion."""

    vertices: Indices
    """vertex numbers in the cloth, ascending"""
    motion: ResolvedMotion
    """`motion.positions(mesh.vertices[vertices], time)` are their positions"""
    until: float
    """when they are released, s; infinite for never"""


def hold_vertices(scene: Scene, cloth: Cloth, mesh: TriMesh, key: Key) -> list[PinnedVertices]:
    """The vertices and motion of each pin of a cloth; the mistakes of all pins are listed together."""
    held: list[PinnedVertices] = []
    lines: list[str] = []
    for i, pin in enumerate(cloth.pins):
        here = (*key, "pins", i)
        try:
            vertices = pinned_vertices(pin, cloth, mesh)
            motion = _pin_motion(scene, pin, cloth, mesh, vertices)
        except MeshError as error:
            lines.append(scene.problem(here, str(error)))
            continue
        held.append(PinnedVertices(vertices, motion, np.inf if pin.until is None else pin.until))
    if lines:
        raise SceneError("\n".join(lines))
    return held


def pinned_vertices(pin: Pin, cloth: Cloth, mesh: TriMesh) -> Indices:
    """The numbers of the vertices that a pin holds, ascending."""
    count = len(mesh.vertices)
    if pin.indices is not None:
        outside = [i for i in pin.indices if i >= count]
        if outside:
            raise MeshError(f"indices {listed(outside, 5)}: the cloth has only the vertices 0 to {count - 1}")
        return np.unique(np.array(pin.indices, dtype=np.int32))
    if pin.box is not None:
        low, high = np.array(pin.box)
        # vertices exactly on a face of the box count as inside, whatever the rounding
        inside = np.all((mesh.vertices >= low - _TOUCH) & (mesh.vertices <= high + _TOUCH), axis=1)
        if not inside.any():
            raise MeshError(
                "box holds no vertex of the cloth, which reaches from "
                f"{_point(mesh.vertices.min(axis=0))} to {_point(mesh.vertices.max(axis=0))}"
            )
        return np.flatnonzero(inside).astype(np.int32)
    if pin.group is not None:
        vertices = mesh.vertices_of(pin.group)
        if len(vertices) == 0:
            raise MeshError(f"the group {pin.group!r} holds no vertex: no value is above {IN_GROUP}")
        return vertices
    assert pin.boundary is not None
    return _boundary(pin.boundary, cloth, mesh)


def _boundary(name: str, cloth: Cloth, mesh: TriMesh) -> Indices:
    """The vertices of a named boundary: sides and corners of rectangles, rims of cylinders, or all boundary vertices."""
    shape = cloth.shape
    if name == "all":
        if not mesh.boundary_loops:
            raise MeshError("boundary = 'all' holds nothing: the mesh is closed")
        return np.unique(np.concatenate(mesh.boundary_loops)).astype(np.int32)
    if isinstance(shape, Grid | Strip | Plane):
        corners = ("top_left", "top_right", "bottom_left", "bottom_right")
        if name in corners:
            return shapes.grid_boundary(shape.cells, "corners")[[corners.index(name)]]
        return np.sort(shapes.grid_boundary(shape.cells, name))
    if isinstance(shape, Cylinder) and name in ("top", "bottom"):
        # rows run from top to bottom
        first = 0 if name == "top" else len(mesh.vertices) - shape.segments
        return np.arange(first, first + shape.segments, dtype=np.int32)
    of = f"the shape {shape.kind}" if shape is not None else "a mesh file"
    raise MeshError(f"boundary = {name!r} is not known of {of}; use indices, a box or boundary = 'all'")


def _pin_motion(scene: Scene, pin: Pin, cloth: Cloth, mesh: TriMesh, vertices: Indices) -> ResolvedMotion:
    """The motion of the pinned vertices; the samples of a sequence hold all vertices of the cloth."""
    motion = pin.motion.resolve(base=scene.base, placement=cloth.placement, object=cloth.object)
    if isinstance(motion, FunctionMotion) and pin.indices is not None:
        # the function gives positions in the order in which the vertices were named
        order = np.unique(np.array(pin.indices), return_index=True)[1]
        motion = SelectedMotion(motion, order, len(pin.indices))
    if not isinstance(motion, SampledMotion):
        _check_start(motion, mesh.vertices[vertices])
        return motion
    if motion.sequence.vertex_count != len(mesh.vertices):
        raise MeshError(
            f"motion has {motion.sequence.vertex_count} vertices and the cloth has {len(mesh.vertices)}: a sequence "
            "for a pin holds the whole cloth"
        )
    return SelectedMotion(motion, vertices, len(mesh.vertices))


def _check_start(motion: ResolvedMotion, placed: np.ndarray) -> None:
    """Find a function that gives the wrong number of positions before the run begins."""
    if isinstance(motion, FunctionMotion | SelectedMotion):
        motion.positions(placed, 0.0)


def _point(p: np.ndarray) -> str:
    return "[" + ", ".join(f"{c:.4g}" for c in p) + "]"


def selected_vertices(scene: Scene, selection: VertexSelection, mesh: TriMesh, key: Key) -> Indices:
    """The vertices that a selection means, by their numbers in its cloth, ascending; mistakes name the key."""
    pin = selection.as_pin()
    if pin is None:
        return np.arange(len(mesh.vertices), dtype=np.int32)
    cloth = next(cloth for cloth in scene.cloths if cloth.name == selection.cloth)
    try:
        return pinned_vertices(pin, cloth, mesh)
    except MeshError as error:
        raise SceneError(scene.problem(key, str(error))) from None

"""A detailed mesh that follows a simulated sheet: thickness, hems and buttons ride on coarse cloth.

At the binding frame every vertex of the detailed mesh is anchored to the nearest point of the sheet (`weft.mesh.anchors`).
Pieces that are smaller than `rigid` (buttons, buckles) move as rigid bodies: by the rotation and translation that fit their
vertices best (Kabsch 1976).

Nothing keeps the detailed mesh from intersecting itself where the sheet folds more tightly than the mesh is thick;
`weft check` counts that.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import Body, Cache
from weft.cache.foreign import ForeignResult
from weft.errors import WeftError
from weft.mesh import as_mesh
from weft.mesh.anchors import Anchors, fit_rigidly, rigid_pieces
from weft.mesh.sequences import MeshSequence

Floats = NDArray[np.float64]

# pieces with an extent below this are rigid by default, m: larger than a button, smaller than a collar
RIGID = 0.02


def bind(
    cache: Cache, mesh: Any, *, body: str | None = None, frame: int = 0, rigid: float = RIGID, name: str = "bound"
) -> Cache:
    """The frames of a cache with the detailed mesh in place of its sheet; export or check it as any other cache.

    mesh: where it lies on the sheet at `frame`; a TriMesh, (vertices, faces), a trimesh or a pyvista mesh.
    body: the cloth that it follows; by default the only one.
    """
    mesh, sheet = as_mesh(mesh), _choose(cache, body)
    faces = cache.faces[sheet.faces] - np.int32(sheet.vertices.start)
    rest = cache.positions(frame)[sheet.vertices]
    anchors = Anchors(mesh.vertices, rest, faces)
    pieces = rigid_pieces(mesh, rigid)

    def positions(number: int) -> Floats:
        points = anchors.follow(cache.positions(number)[sheet.vertices])
        for piece in pieces:
            points[piece] = fit_rigidly(mesh.vertices[piece], points[piece])
        return points

    times = [number / cache.fps for number in range(cache.frames)]
    about = f"bound to {sheet.name} of {cache.path.name}"
    sequence = MeshSequence(times, len(mesh.vertices), mesh.faces, positions, about=about, details=mesh.details)
    whole = Body(name, "cloth", slice(0, len(mesh.vertices)), slice(0, len(mesh.faces)))
    return ForeignResult(Path(name), sequence, set(), [whole])


def _choose(cache: Cache, name: str | None) -> Body:
    cloths = [body for body in cache.bodies if body.kind == "cloth"]
    names = ", ".join(body.name for body in cloths)
    if name is None:
        if len(cloths) != 1:
            raise WeftError(
                f"{cache.path} has the cloths {names or 'none'}: say which one the mesh follows with --body"
            )
        return cloths[0]
    for body in cloths:
        if body.name == name:
            return body
    raise WeftError(f"{cache.path} has no cloth {name!r}; it has {names or 'none'}")

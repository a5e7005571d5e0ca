"""The stitches of seams: read from the scene or its files, and checked against the meshes of the cloths."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, SceneError
from weft.mesh import TriMesh
from weft.scene.bodies import is_pattern
from weft.scene.messages import listed
from weft.scene.scene import Scene, Seam


@dataclass(frozen=True)
class Stitches:
    """The stitches of one seam: each sews vertex a of one cloth to the point (1 - w) b + w c of another, or of the same."""

    cloth: int
    """the cloth of a: its number in the scene"""
    to: int
    """the cloth of b and c"""
    vertices: NDArray[np.int32]
    """(k, 3): a, b, c, each counted in its own cloth"""
    weights: NDArray[np.float64]
    """(k,): w"""
    kind: Literal["spring", "weld"]
    stiffness: float
    """N/m; of a spring"""
    closing: float = 0.0
    """s; how long the seam takes to close"""
    delay: float = 0.0
    """s; when it begins to close"""


def resolve_stitches(scene: Scene, number: int, cloth_meshes: Sequence[TriMesh]) -> Stitches:
    """The stitches of seam `number` of a scene, checked; `cloth_meshes` are the meshes of its cloths."""
    seam = scene.seams[number]
    names = [cloth.name for cloth in scene.cloths]
    cloth = names.index(seam.cloth)
    to = cloth if seam.to is None else names.index(seam.to)
    key = "vertices" if seam.file is None else "file"
    try:
        vertices, weights = _stitches(scene, seam)
        _check_stitches(vertices, len(cloth_meshes[cloth].vertices), len(cloth_meshes[to].vertices), cloth == to)
    except MeshError as error:
        raise SceneError(scene.problem(("seams", number, key), str(error))) from None
    stiffness = scene.cloths[cloth].material.mean("stretch") if seam.stiffness is None else seam.stiffness
    return Stitches(cloth, to, vertices, weights, seam.kind, stiffness, seam.closing, seam.delay)


def _stitches(scene: Scene, seam: Seam) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    if seam.file is None:
        vertices = np.array(seam.vertices, dtype=np.int64)
        weights = np.zeros(len(vertices)) if seam.weights is None else np.array(seam.weights)
    elif is_pattern(seam.file):
        vertices = _stitches_of_pattern(scene, seam)
        weights = np.zeros(len(vertices))
    else:
        from weft.mesh.files import read_arrays

        arrays = read_arrays(scene.base / seam.file, ("stitch_vertices", "stitch_weight"))
        vertices, weights = arrays["stitch_vertices"], arrays["stitch_weight"].astype(np.float64)
        if vertices.ndim != 2 or vertices.shape[1] != 3 or vertices.dtype.kind not in "iu":
            raise MeshError(f"stitch_vertices must be whole numbers (k, 3), not {vertices.dtype} {vertices.shape}")
        if weights.shape != (len(vertices),):
            raise MeshError(f"stitch_weight must have one number a stitch ({len(vertices)}), not {weights.shape}")
        if not np.all((weights >= 0.0) & (weights <= 1.0)):
            wrong = np.flatnonzero(~((weights >= 0.0) & (weights <= 1.0)))
            raise MeshError(f"stitch_weight must be between 0 and 1, which stitch {listed(wrong, 5)} is not")
    # numbers beyond 32 bits stay beyond every cloth
    return np.clip(vertices, -1, 2**31 - 1).astype(np.int32), weights


def _stitches_of_pattern(scene: Scene, seam: Seam) -> NDArray[np.int64]:
    """The stitches of a pattern, between the panels of the cloth that is cut from it."""
    from weft.garment.files import cut_file

    cloth = next(cloth for cloth in scene.cloths if cloth.name == seam.cloth)
    if cloth.mesh != seam.file or seam.to not in (None, seam.cloth):
        raise MeshError(f"{seam.file} is a pattern: it sews a cloth that is cut from it, and {seam.cloth!r} is not")
    return cut_file(scene.base / str(seam.file), cloth.edge).stitches[:, [0, 1, 1]].astype(np.int64)


def _check_stitches(vertices: NDArray[np.int32], count: int, count_to: int, same: bool) -> None:
    limits = np.array([count, count_to, count_to])
    outside = np.argwhere((vertices < 0) | (vertices >= limits))
    if len(outside):
        stitch, corner = (int(i) for i in outside[0])
        raise MeshError(
            f"stitch {stitch} names vertex {vertices[stitch, corner]} of a cloth that has only the vertices 0 to "
            f"{limits[corner] - 1}" + (f" ({len(outside)} such)" if len(outside) > 1 else "")
        )
    if same:
        own = np.flatnonzero((vertices[:, 0] == vertices[:, 1]) | (vertices[:, 0] == vertices[:, 2]))
        if len(own):
            raise MeshError(f"stitch {listed(own, 5)} sews a vertex to itself")

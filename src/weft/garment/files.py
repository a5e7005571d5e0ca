"""Files of cut garments: a mesh for other programs, or all arrays for learners and for scenes."""

import uuid
from functools import lru_cache
from pathlib import Path

import numpy as np

from weft.errors import WeftError, writing
from weft.garment.cut import CutGarment, cut_pattern
from weft.garment.pattern import PatternError
from weft.garment.reading import load_pattern
from weft.mesh import save_mesh

# m: of triangles whose edge length is not given
DEFAULT_EDGE = 0.01

GARMENT_FORMATS = (".obj", ".ply", ".npz")


def save_garment(cut: CutGarment, path: str | Path, *, welded: bool = False) -> None:
    """Write the panels of a garment where they are placed, or welded along their seams.

    An npz file has everything: `vertices`, `uv`, `faces`, `stitch_vertices` and `stitch_weight` as scenes read them,
    `vertex_panel`, `face_panel` and `panel_names`, `stitch_seam`, and for both forms which vertex of the welded garment
    each vertex becomes (`welded_vertex`), its triangles (`welded_faces`) and the flat shape of each (`corner_uv`).
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in GARMENT_FORMATS:
        raise WeftError(f"{path}: garments are written to {', '.join(GARMENT_FORMATS)} files")
    if suffix != ".npz":
        save_mesh(cut.welded_mesh() if welded else cut.mesh(), path)
        return
    arrays = garment_arrays(cut)
    if welded:
        arrays |= {"vertices": cut.welded_mean(cut.vertices), "faces": cut.welded_faces}
        for name in ("uv", "stitch_vertices", "stitch_weight", "stitch_seam", "vertex_panel"):
            del arrays[name]
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    with writing(path):
        try:
            with temporary.open("wb") as file:
                np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)


def cut_file(path: str | Path, edge: float | None = None) -> CutGarment:
    """The pattern of a file, cut into triangles; of the last ones the result is kept, since several readers need it."""
    path = Path(path)
    try:
        found = path.stat()
    except OSError:
        raise PatternError(f"{path}: no such file") from None
    return _cut(str(path), found.st_mtime_ns, found.st_size, DEFAULT_EDGE if edge is None else edge)


@lru_cache(maxsize=8)
def _cut(path: str, _changed: int, _size: int, edge: float) -> CutGarment:
    return cut_pattern(load_pattern(path), edge)


def garment_arrays(cut: CutGarment) -> dict[str, np.ndarray]:
    """All arrays of a cut garment by name."""
    one, other = cut.stitches.T
    return {
        "vertices": cut.vertices,
        "uv": cut.uv,
        "faces": cut.faces,
        "stitch_vertices": np.stack([one, other, other], axis=1),
        "stitch_weight": np.zeros(len(one)),
        "stitch_seam": cut.stitch_seam,
        "vertex_panel": cut.vertex_panel,
        "face_panel": cut.face_panel,
        "panel_names": np.array([panel.name for panel in cut.pattern.panels]),
        # the same as the mesh reader takes labels, from where they go on to exports
        "label.panel": cut.face_panel,
        "names.panel": np.array([panel.name for panel in cut.pattern.panels]),
        "welded_vertex": cut.welded_vertex,
        "welded_faces": cut.welded_faces,
        "corner_uv": cut.corner_uv,
    }

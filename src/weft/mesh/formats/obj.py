"""Wavefront OBJ; vertices keep their order and number, and are not split where uv or normals differ."""

import re
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.formats.raw import RawMesh, triangulate, uv_from_corners
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import Floats

# at most 18 digits: they fit 64 bits
_CORNER = re.compile(rb"-?\d{1,18}(/(-?\d{1,18})?(/[^/]*)?)?")


class _Lines:
    """The lines with one keyword, and their line numbers. They are split all at once later, which is faster."""

    def __init__(self) -> None:
        self.texts: list[bytes] = []
        self.lines: list[int] = []

    def __len__(self) -> int:
        return len(self.texts)

    def refuse(self, row: int, why: str) -> NoReturn:
        """Raise with the line of this row."""
        text = self.texts[row].decode("utf-8", "replace").strip()[:60]
        raise MeshError(f"line {self.lines[row]} ({text!r}): {why}")


def read_obj(data: bytes) -> RawMesh:
    """The polygons of all groups as one mesh: `v`, `vt` and `f` lines, all other lines are ignored."""
    points, coordinates, polygons = _Lines(), _Lines(), _Lines()
    kinds = {b"v": points, b"vt": coordinates, b"f": polygons}
    # negative indices count back from the vertices read so far
    points_seen: list[int] = []
    coordinates_seen: list[int] = []
    begun = b""
    for number, piece in enumerate(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), start=1):
        # a line that ends in a backslash goes on
        if piece.endswith(b"\\"):
            begun += piece[:-1] + b" "
            continue
        line, begun = begun + piece, b""
        if b"#" in line:
            line = line.partition(b"#")[0]
        keyword = line.split(None, 1)[:1]
        rows = kinds.get(keyword[0]) if keyword else None
        if rows is None:
            continue
        rows.texts.append(line)
        rows.lines.append(number)
        if rows is polygons:
            points_seen.append(len(points))
            coordinates_seen.append(len(coordinates))
    if not len(points):
        raise MeshError("it holds no vertices (no line that starts with v)")
    if not len(polygons):
        raise MeshError("it holds no triangles (no line that starts with f)")

    vertices = _numbers(points, 3)
    corners, texture = _corners(polygons)
    sizes = np.array([len(text.split()) - 1 for text in polygons.texts])
    if (sizes < 3).any():
        polygons.refuse(int((sizes < 3).argmax()), "a polygon needs three corners")
    corners = _resolve(corners, np.repeat(points_seen, sizes), len(vertices))
    if (corners < 0).any():
        row = np.repeat(np.arange(len(sizes)), sizes)[(corners < 0).argmax()]
        polygons.refuse(int(row), f"no such vertex; the file has {len(vertices)}, counted from 1")

    uv = None
    if texture is not None and len(coordinates):
        texture = _resolve(texture, np.repeat(coordinates_seen, sizes), len(coordinates))
        if (texture >= 0).all():
            uv = uv_from_corners(corners, _numbers(coordinates, 2)[texture], len(vertices))
    return RawMesh(vertices, corners[triangulate(sizes)], uv)


def write_obj(mesh: TriMesh) -> bytes:
    """The mesh as text, with enough digits to read the same numbers back."""
    lines = [f"# {len(mesh.vertices)} vertices, {len(mesh.faces)} triangles, metres, y up"]
    lines += map("v {!r} {!r} {!r}".format, *(column.tolist() for column in mesh.vertices.T))
    corners = [column.tolist() for column in (mesh.faces + 1).T]
    if mesh.uv is None:
        lines += map("f {} {} {}".format, *corners)
    else:
        lines += map("vt {!r} {!r}".format, *(column.tolist() for column in mesh.uv.T))
        lines += map("f {0}/{0} {1}/{1} {2}/{2}".format, *corners)
    return ("\n".join(lines) + "\n").encode()


def _numbers(rows: _Lines, columns: int) -> Floats:
    """The first numbers of each row, after its keyword."""
    words = b" ".join(rows.texts).split()
    try:
        # mostly the rows are equally long; else each is cut to the numbers that count
        width = len(rows.texts[0].split())
        if len(words) != width * len(rows) or not all(len(text.split()) == width for text in rows.texts):
            words = [word for text in rows.texts for word in (text.split() + [b"missing"] * columns)[: columns + 1]]
            width = columns + 1
        numbers = [np.array(list(map(float, words[k::width]))) for k in range(1, columns + 1)]
        return np.stack(numbers, axis=1)
    except ValueError:
        for row, text in enumerate(rows.texts):
            try:
                good = len([float(word) for word in text.split()[1 : columns + 1]]) == columns
            except ValueError:
                good = False
            if not good:
                rows.refuse(row, f"it needs {columns} numbers")
        raise


def _corners(polygons: _Lines) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
    """Vertex and texture indices of all corners as they are written (0 = none); texture None where there is none."""
    text = b" ".join(polygons.texts)
    corners = [word for word in text.split() if word != b"f"]
    try:
        if b"/" not in text:
            return np.array(list(map(int, corners)), dtype=np.int64), None
        vertices = np.array([int(word.partition(b"/")[0]) for word in corners], dtype=np.int64)
        texture = [int(word.partition(b"/")[2].partition(b"/")[0] or b"0") for word in corners]
        return vertices, np.array(texture, dtype=np.int64)
    except (ValueError, OverflowError):
        for row, line in enumerate(polygons.texts):
            if not all(map(_CORNER.fullmatch, line.split()[1:])):
                polygons.refuse(row, "its corners are not written as v, v/vt, v//vn or v/vt/vn")
        raise


def _resolve(written: NDArray[np.int64], seen: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Indices from 0; -1 where the item does not exist. `seen` is how many items came before each index."""
    index = np.where(written > 0, written - 1, np.where(written < 0, written + seen, -1))
    return np.where((index >= 0) & (index < count), index, -1)

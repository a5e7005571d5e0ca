"""Wavefront OBJ; vertices keep their order and number, and are not split where uv or normals differ."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.details import Details, Labels
from weft.mesh.formats.raw import RawMesh, cut_polygons
from weft.mesh.polygons import polygon_loops
from weft.mesh.trimesh import TriMesh
from weft.mesh.validate import Floats

# at most 18 digits: they fit 64 bits
_CORNER = re.compile(rb"-?\d{1,18}(/(-?\d{1,18})?(/(-?\d{1,18})?)?)?")


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


# the kinds of names that stand in lines of their own, and hold for the polygons after them
_NAMING = {b"o": "object", b"g": "group", b"usemtl": "material"}


class _Names:
    """The names of one kind, and from which polygon on each of them holds."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.starts: list[int] = [0]
        self.changes: list[int] = [-1]

    def call(self, line: bytes, polygon: int) -> None:
        """Take the name of a line for the polygons from this one on; a group without a name is called default."""
        words = line.split(None, 1)[1:]
        name = words[0].decode("utf-8", "replace").strip() if words else "default"
        self.starts.append(polygon)
        self.changes.append(self.numbers.setdefault(name, len(self.numbers)))

    def labels(self, rows: NDArray[np.int64]) -> Labels:
        """As labels of triangles, of which `rows` are the polygons."""
        found = np.searchsorted(self.starts, rows, side="right") - 1
        return Labels(tuple(self.numbers), np.array(self.changes, dtype=np.int32)[found])


class _Content:
    """The lines of a file by their keyword, in the order of the file."""

    def __init__(self, data: bytes) -> None:
        self.points, self.coordinates, self.normals, self.polygons = (_Lines() for _ in range(4))
        self.names = {kind: _Names() for kind in _NAMING.values()}
        # negative indices count back from the vertices, coordinates and normals read so far
        self.seen: list[tuple[int, int, int]] = []
        kinds = {b"v": self.points, b"vt": self.coordinates, b"vn": self.normals, b"f": self.polygons}
        points, coordinates, normals = self.points.texts, self.coordinates.texts, self.normals.texts
        begun = b""
        for number, piece in enumerate(data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"), start=1):
            # a line that ends in a backslash goes on
            if piece.endswith(b"\\"):
                begun += piece[:-1] + b" "
                continue
            line, begun = (begun + piece, b"") if begun else (piece, b"")
            if b"#" in line:
                line = line.partition(b"#")[0]
            keyword = line.split(None, 1)[:1]
            rows = kinds.get(keyword[0]) if keyword else None
            if rows is not None:
                rows.texts.append(line)
                rows.lines.append(number)
                if rows is self.polygons:
                    self.seen.append((len(points), len(coordinates), len(normals)))
            elif keyword and keyword[0] in _NAMING:
                self.names[_NAMING[keyword[0]]].call(line, len(self.polygons))


def read_obj(data: bytes) -> RawMesh:
    """The polygons of all objects and groups as one mesh, with their names, texture coordinates and normals."""
    content = _Content(data)
    points, polygons = content.points, content.polygons
    if not len(points):
        raise MeshError("it holds no vertices (no line that starts with v)")
    if not len(polygons):
        raise MeshError("it holds no triangles (no line that starts with f)")

    vertices = _numbers(points, 3)
    corners, *others = _corners(polygons)
    sizes = np.array([len(text.split()) - 1 for text in polygons.texts])
    if (sizes < 3).any():
        polygons.refuse(int((sizes < 3).argmax()), "a polygon needs three corners")
    seen = np.repeat(np.array(content.seen), sizes, axis=0).T
    corners = _resolve(corners, seen[0], len(vertices))
    if (corners < 0).any():
        row = np.repeat(np.arange(len(sizes)), sizes)[(corners < 0).argmax()]
        polygons.refuse(int(row), f"no such vertex; the file has {len(vertices)}, counted from 1")

    uv, normals = (
        _corner_values(index, before, rows, width)
        for index, before, rows, width in zip(
            others, seen[1:], (content.coordinates, content.normals), (2, 3), strict=True
        )
    )
    raw = cut_polygons(vertices, sizes, corners, uv, normals)
    owner = np.repeat(np.arange(len(sizes)), sizes - 2)
    labels = {kind: names.labels(owner) for kind, names in content.names.items() if names.numbers}
    colours = _colours(points)
    details = replace(raw.details, labels=labels, attributes={} if colours is None else {"colour": colours})
    return raw._replace(details=details)


def _corner_values(
    written: NDArray[np.int64] | None, seen: NDArray[np.int64], rows: _Lines, columns: int
) -> Floats | None:
    """(corners, columns) texture coordinates, 0 where a corner has none, or normals; None if there are not enough of them."""
    if written is None or not len(rows):
        return None
    index = _resolve(written, seen, len(rows))
    values = _numbers(rows, columns)
    if columns == 2:
        return np.where((written != 0)[:, None], values[index], 0.0) if ((index >= 0) | (written == 0)).all() else None
    return values[index] if (index >= 0).all() else None


def _colours(points: _Lines) -> Floats | None:
    """(n, 3) colours, which some programs write after the coordinates of each vertex; None unless all have one."""
    if len(points.texts[0].split()) != 7 or not all(len(text.split()) == 7 for text in points.texts):
        return None
    try:
        colours = np.array([list(map(float, text.split()[4:])) for text in points.texts])
    except ValueError:
        return None
    return colours if np.isfinite(colours).all() else None


def write_obj(mesh: TriMesh) -> bytes:
    """The mesh as text, with enough digits to read the same numbers back; polygons and names as they were read."""
    lines = [f"# {len(mesh.vertices)} vertices, {len(mesh.faces)} triangles, metres, y up"]
    colours = mesh.attributes.get("colour")
    if colours is not None and colours.shape == (len(mesh.vertices), 3):
        columns = (*mesh.vertices.T, *colours.T)
        lines += map("v {!r} {!r} {!r} {!r} {!r} {!r}".format, *(column.tolist() for column in columns))
    else:
        lines += map("v {!r} {!r} {!r}".format, *(column.tolist() for column in mesh.vertices.T))
    values, index = unique_corner_uv(mesh.faces, mesh.corner_uv, mesh.uv)
    normals, normal_index = unique_corner_normals(mesh.details.corner_normals)
    lines += obj_faces(mesh.faces, mesh.details, values, index, normals, normal_index)
    return ("\n".join(lines) + "\n").encode()


def unique_corner_uv(
    faces: NDArray[Any], corner_uv: Floats | None, uv: Floats | None
) -> tuple[Floats | None, NDArray[np.int64] | None]:
    """Texture coordinates without repetition, (k, 2), and the number of each corner's, (3 m,); None where there are none.

    Those of the corners, else the flat rest shape. A vertex with one coordinate gives one, in the order of the vertices.
    """
    if corner_uv is None:
        return (None, None) if uv is None else (uv, faces.ravel().astype(np.int64))
    return _without_repetition(faces.ravel(), corner_uv.reshape(-1, 2))


def unique_corner_normals(normals: Floats | None) -> tuple[Floats | None, NDArray[np.int64] | None]:
    """Normals without repetition, (k, 3), and the number of each corner's, (3 m,)."""
    if normals is None:
        return None, None
    return _without_repetition(np.zeros(3 * len(normals)), normals.reshape(-1, 3))


def _without_repetition(vertices: NDArray[Any], values: Floats) -> tuple[Floats, NDArray[np.int64]]:
    rows = np.column_stack([vertices, values + 0.0])
    _, first, index = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return values[first], index.reshape(-1).astype(np.int64)


def obj_faces(
    faces: NDArray[Any],
    details: Details,
    uv: Floats | None,
    uv_index: NDArray[np.int64] | None,
    normals: Floats | None = None,
    normal_index: NDArray[np.int64] | None = None,
    first: tuple[int, int, int] = (1, 1, 1),
    digits: str = "!r",
) -> list[str]:
    """The lines of texture coordinates, normals, names and polygons; `first` are the numbers of the first v, vt and vn."""
    lines: list[str] = []
    if uv is not None:
        lines += map(f"vt {{{digits}}} {{{digits}}}".format, *(column.tolist() for column in uv.T))
    if normals is not None:
        lines += map(f"vn {{{digits}}} {{{digits}}} {{{digits}}}".format, *(column.tolist() for column in normals.T))
    sizes, corners = polygon_loops(faces, details.polygons)
    words = list(map(str, (faces.ravel()[corners] + first[0]).tolist()))
    if uv_index is not None:
        words = [f"{v}/{t}" for v, t in zip(words, (uv_index[corners] + first[1]).tolist(), strict=True)]
    if normal_index is not None:
        gap = "/" if uv_index is not None else "//"
        words = [f"{v}{gap}{n}" for v, n in zip(words, (normal_index[corners] + first[2]).tolist(), strict=True)]
    rows = corners[np.cumsum(sizes) - sizes] // 3
    lines += _faces_with_names(words, sizes, {k: v for k, v in details.labels.items() if k in _NAMING.values()}, rows)
    return lines


def _faces_with_names(
    words: list[str], sizes: NDArray[np.int64], labels: Mapping[str, Labels], rows: NDArray[np.int64]
) -> Iterator[str]:
    """The f lines, with lines before them where the object, group or material changes."""
    keywords = {kind: keyword.decode() for keyword, kind in _NAMING.items()}
    now = dict.fromkeys(labels, -1)
    numbers = {kind: own.index[rows].tolist() for kind, own in labels.items()}
    at = 0
    for polygon, size in enumerate(sizes.tolist()):
        for kind, own in labels.items():
            if numbers[kind][polygon] != now[kind]:
                now[kind] = numbers[kind][polygon]
                yield f"{keywords[kind]} {own.names[now[kind]] if now[kind] >= 0 else 'default'}"
        yield "f " + " ".join(words[at : at + size])
        at += size


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


def _corners(polygons: _Lines) -> tuple[NDArray[np.int64], NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Vertex, texture and normal indices of all corners as they are written (0 = none); None where no corner has one."""
    text = b" ".join(polygons.texts)
    corners = [word for word in text.split() if word != b"f"]
    try:
        if b"/" not in text:
            return np.array(list(map(int, corners)), dtype=np.int64), None, None
        fields = [word.split(b"/") for word in corners]
        vertices = np.array([int(field[0]) for field in fields], dtype=np.int64)
        texture = np.array([int(f[1] or b"0") if len(f) > 1 else 0 for f in fields], dtype=np.int64)
        normals = np.array([int(f[2] or b"0") if len(f) > 2 else 0 for f in fields], dtype=np.int64)
        return vertices, texture if texture.any() else None, normals if normals.any() else None
    except (ValueError, OverflowError):
        for row, line in enumerate(polygons.texts):
            if not all(map(_CORNER.fullmatch, line.split()[1:])):
                polygons.refuse(row, "its corners are not written as v, v/vt, v//vn or v/vt/vn")
        raise


def _resolve(written: NDArray[np.int64], seen: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Indices from 0; -1 where the item does not exist. `seen` is how many items came before each index."""
    index = np.where(written > 0, written - 1, np.where(written < 0, written + seen, -1))
    return np.where((index >= 0) & (index < count), index, -1)

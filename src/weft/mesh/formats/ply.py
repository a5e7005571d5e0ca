"""PLY, text or binary, read without splitting vertices; written in binary with double precision."""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.formats.raw import RawMesh, cut_polygons, uv_from_corners
from weft.mesh.polygons import polygon_loops, triangulate
from weft.mesh.trimesh import TriMesh

_TYPES = {
    "char": "i1", "uchar": "u1", "short": "i2", "ushort": "u2", "int": "i4", "uint": "u4",
    "int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
    "float": "f4", "double": "f8", "float32": "f4", "float64": "f8",
}  # fmt: skip
_UV_NAMES = (("s", "t"), ("u", "v"), ("texture_u", "texture_v"))


class _Property(NamedTuple):
    name: str
    kind: str
    # the type of a list's length; None for a single value
    length: str | None


class _Element(NamedTuple):
    name: str
    rows: int
    properties: list[_Property]


# the values of a property: their numbers a row (all 1 unless it is a list), and all of them in a row
_Values = tuple[NDArray[np.int64], NDArray[np.float64]]


def read_ply(data: bytes) -> RawMesh:
    """Vertices and polygons, with texture coordinates, normals and colours under their usual names.

    Texture coordinates stand at the vertices, or, with seams, as a list at each face. All other numbers at the vertices
    become attributes.
    """
    source, elements = _read_header(data)
    columns: dict[str, NDArray[np.float64]] = {}
    polygons: _Values | None = None
    texture: _Values | None = None
    scale = 1.0
    for element in elements:
        table = _read_element(source, element)
        if element.name == "vertex":
            columns = {item.name: table[item.name][1] for item in element.properties if item.length is None}
            scale = 255.0 if any(item.name == "red" and item.kind == "u1" for item in element.properties) else 1.0
        elif element.name == "face":
            polygons = table.get("vertex_indices", table.get("vertex_index"))
            texture = table.get("texcoord")
    if not {"x", "y", "z"} <= columns.keys() or len(columns["x"]) == 0:
        raise MeshError("it holds no vertices with x, y and z")
    if polygons is None or len(polygons[0]) == 0:
        raise MeshError("it holds no faces")
    sizes, written = polygons
    if (sizes < 3).any():
        raise MeshError(f"face {int((sizes < 3).argmax())} has fewer than three corners")
    return _assemble(columns, sizes, written.astype(np.int64), texture, scale)


def _assemble(
    columns: dict[str, NDArray[np.float64]],
    sizes: NDArray[np.int64],
    corners: NDArray[np.int64],
    texture: _Values | None,
    colour_scale: float,
) -> RawMesh:
    """The mesh of the columns of its vertices and the corners of its polygons."""
    taken: set[str] = set()

    def together(names: tuple[str, ...]) -> NDArray[np.float64] | None:
        if not set(names) <= columns.keys():
            return None
        taken.update(names)
        return np.stack([columns[name] for name in names], axis=1)

    vertices = together(("x", "y", "z"))
    assert vertices is not None
    if ((corners < 0) | (corners >= len(vertices))).any():
        # a triangle of a vertex that does not exist is reported, or dropped, when the mesh is validated
        return RawMesh(vertices, corners[triangulate(sizes, np.zeros((len(corners), 3)))])
    uv = next((found for names in _UV_NAMES if (found := together(names)) is not None), None)
    normals, colours = together(("nx", "ny", "nz")), together(("red", "green", "blue"))
    at_corners = None if uv is None else uv[corners]
    if texture is not None and np.array_equal(texture[0], 2 * sizes):
        at_corners = texture[1].reshape(-1, 2)
    raw = cut_polygons(vertices, sizes, corners, at_corners, None if normals is None else normals[corners])
    attributes = {name: value for name, value in columns.items() if name not in taken}
    if colours is not None and np.isfinite(colours).all():
        attributes["colour"] = colours / colour_scale
    return raw._replace(uv=raw.uv if uv is None else uv, details=replace(raw.details, attributes=attributes))


def write_ply(mesh: TriMesh) -> bytes:
    """The mesh in little-endian binary, numbers as doubles; polygons as they were read.

    Texture coordinates are s, t at the vertices, or a list at each face where a vertex has several.
    """
    sizes, loops = polygon_loops(mesh.faces, mesh.details.polygons)
    uv, at_faces = mesh.uv, None
    if mesh.corner_uv is not None:
        corner_uv = mesh.corner_uv.reshape(-1, 2)
        uv = uv_from_corners(mesh.faces.ravel(), corner_uv, len(mesh.vertices))
        at_faces = corner_uv[loops] if uv is None else None
    columns: dict[str, NDArray[np.float64]] = dict(zip("xyz", mesh.vertices.T, strict=True))
    normals = mesh.details.corner_normals
    if normals is not None:
        smooth = np.zeros_like(mesh.vertices)
        smooth[mesh.faces.ravel()] = normals.reshape(-1, 3)
        columns |= dict(zip(("nx", "ny", "nz"), smooth.T, strict=True))
    columns |= {} if uv is None else dict(zip("st", uv.T, strict=True))
    for name, value in mesh.attributes.items():
        plain = re.sub(r"\W", "_", name)
        if plain == "colour" and value.ndim == 2 and value.shape[1] == 3:
            columns |= dict(zip(("red", "green", "blue"), value.T, strict=True))
        elif value.ndim == 1 and plain not in columns:
            columns[plain] = value
    header = ["ply", "format binary_little_endian 1.0", "comment metres, y up", f"element vertex {len(mesh.vertices)}"]
    header += [f"property double {name}" for name in columns]
    header += [f"element face {len(sizes)}", "property list uchar int vertex_indices"]
    header += [] if at_faces is None else ["property list uchar double texcoord"]
    points = np.stack(list(columns.values()), axis=1).astype("<f8").tobytes()
    faces = ply_faces(mesh.faces.ravel()[loops], sizes, at_faces)
    return "\n".join([*header, "end_header", ""]).encode() + points + faces


def ply_faces(corners: NDArray[Any], sizes: NDArray[np.int64], uv: NDArray[np.float64] | None = None) -> bytes:
    """The binary rows of polygons: a byte of their size and the numbers of their vertices; and of uv, if there are some."""
    if sizes.max(initial=0) > 127:
        raise MeshError(f"PLY holds polygons of up to 127 corners, not of {int(sizes.max())}")
    ends = np.cumsum(sizes)
    if (sizes == sizes[:1]).all() and uv is None:
        rows = np.empty(len(sizes), dtype=[("size", "u1"), ("corners", "<i4", int(sizes[0]))])
        rows["size"] = sizes
        rows["corners"] = corners.reshape(len(sizes), -1)
        return rows.tobytes()
    numbers = corners.astype("<i4")
    pieces = []
    for size, end in zip(sizes.tolist(), ends.tolist(), strict=True):
        pieces.append(bytes((size,)) + numbers[end - size : end].tobytes())
        if uv is not None:
            pieces.append(bytes((2 * size,)) + uv[end - size : end].astype("<f8").tobytes())
    return b"".join(pieces)


class _Text:
    """The numbers of a text file, taken one after the other."""

    def __init__(self, body: bytes) -> None:
        self.words = body.split()
        self.place = 0

    def take(self, kind: str, count: int) -> NDArray[np.float64]:
        """The next numbers, fewer at the end of the file."""
        block = self.words[self.place : self.place + count]
        self.place += len(block)
        return np.array(list(map(float, block)))

    def take_rows(self, fields: list[tuple[str, int]], rows: int) -> list[NDArray[np.float64]] | None:
        """Rows of fields with so many numbers each; None where the file has not enough."""
        widths = [count for _, count in fields]
        table = self.take("", rows * sum(widths))
        if len(table) < rows * sum(widths):
            return None
        return np.split(table.reshape(rows, -1), np.cumsum(widths)[:-1], axis=1)


class _Binary:
    """The numbers of a binary file, taken one after the other."""

    def __init__(self, body: bytes, order: str) -> None:
        self.body = body
        self.order = order
        self.place = 0

    def take(self, kind: str, count: int) -> NDArray[np.float64]:
        """The next numbers, fewer at the end of the file."""
        dtype = np.dtype(self.order + kind)
        count = min(count, (len(self.body) - self.place) // dtype.itemsize)
        values = np.frombuffer(self.body, dtype, count, self.place)
        self.place += values.nbytes
        return values.astype(np.float64)

    def take_rows(self, fields: list[tuple[str, int]], rows: int) -> list[NDArray[np.float64]] | None:
        """Rows of fields with so many numbers each; None where the file has not enough."""
        row = np.dtype([(str(k), self.order + kind, (count,)) for k, (kind, count) in enumerate(fields)])
        if self.place + rows * row.itemsize > len(self.body):
            return None
        table = np.frombuffer(self.body, row, rows, self.place)
        self.place += table.nbytes
        return [table[name].astype(np.float64) for name in row.names or ()]


def _read_element(source: _Text | _Binary, element: _Element) -> dict[str, _Values]:
    """All values of an element by the names of its properties."""
    if element.rows == 0 or not element.properties:
        return {item.name: (np.zeros(0, np.int64), np.zeros(0)) for item in element.properties}

    # suppose that all lists are as long as in the first row: then the rows make a table
    start = source.place
    first = _read_rows(source, element, 1)
    fields: list[tuple[str, int]] = []
    for item in element.properties:
        fields += [(item.length, 1)] if item.length else []
        fields += [(item.kind, int(first[item.name][0][0]))]
    source.place = start
    columns = iter(source.take_rows(fields, element.rows) or ())
    table = {}
    for item in element.properties:
        size = int(first[item.name][0][0])
        if item.length and not np.all(next(columns, np.array(np.nan)) == size):
            break
        values = next(columns, None)
        if values is None:
            break
        table[item.name] = np.full(element.rows, size), values.ravel()
    else:
        return table

    # they do not
    source.place = start
    return _read_rows(source, element, element.rows)


def _read_rows(source: _Text | _Binary, element: _Element, rows: int) -> dict[str, _Values]:
    """The next rows of an element, one by one."""
    sizes: dict[str, list[int]] = {item.name: [] for item in element.properties}
    values: dict[str, list[float]] = {item.name: [] for item in element.properties}
    for row in range(rows):
        for item in element.properties:
            size = 1
            if item.length:
                length = source.take(item.length, 1)
                size = int(length[0]) if len(length) else -1
            block = source.take(item.kind, max(size, 0))
            if len(block) != size:
                raise MeshError(f"it ends in {element.name} {row} of {element.rows}; the file is cut short or damaged")
            sizes[item.name].append(size)
            values[item.name].extend(block.tolist())
    return {name: (np.array(sizes[name], dtype=np.int64), np.array(values[name])) for name in sizes}


def _read_header(data: bytes) -> tuple[_Text | _Binary, list[_Element]]:
    """What follows the header, and the elements that are in it."""
    if not data.startswith(b"ply"):
        raise MeshError("it is no PLY file (it does not start with ply)")
    marker = data.find(b"end_header")
    end = data.find(b"\n", marker)
    if marker < 0 or end < 0:
        raise MeshError("its header has no end; the file is cut short or damaged")
    orders = {"ascii": "", "binary_little_endian": "<", "binary_big_endian": ">"}
    order = None
    elements: list[_Element] = []
    for line in data[:marker].decode("ascii", "replace").splitlines():
        match line.split():
            case ["format", name, _] if name in orders:
                order = orders[name]
            case ["element", name, count] if count.isdigit():
                elements.append(_Element(name, int(count), []))
            case ["property", "list", length, kind, name] if {length, kind} <= _TYPES.keys() and elements:
                elements[-1].properties.append(_Property(name, _TYPES[kind], _TYPES[length]))
            case ["property", kind, name] if kind in _TYPES and elements:
                elements[-1].properties.append(_Property(name, _TYPES[kind], None))
            case ["ply" | "comment" | "obj_info", *_] | []:
                pass
            case _:
                raise MeshError(f"its header has a line that makes no sense: {line.strip()[:60]!r}")
    if order is None:
        raise MeshError("its header has no format line")
    body = data[end + 1 :]
    return _Binary(body, order) if order else _Text(body), elements

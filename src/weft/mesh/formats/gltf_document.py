"""The data of a glTF 2 file: its JSON, its buffers, and the arrays that its accessors describe."""

import base64
import binascii
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.formats.raw import check_unpacked

_COMPONENTS = {5120: "i1", 5121: "u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4, "MAT4": 16}
_COMPRESSION = ("KHR_draco_mesh_compression", "EXT_meshopt_compression")


class GltfDocument:
    """The JSON of a .glb or .gltf file, and its arrays on demand."""

    def __init__(self, path: Path) -> None:
        self._folder = path.parent
        data = path.read_bytes()
        body: bytes | None = None
        if data[:4] == b"glTF":
            data, body = _chunks(data)
        try:
            self.json: dict[str, Any] = json.loads(data)
        except (UnicodeDecodeError, ValueError):
            raise MeshError("it is no glTF file, or a damaged one (its JSON cannot be read)") from None
        if not isinstance(self.json, dict) or not str(self.json.get("asset", {}).get("version", "")).startswith("2"):
            raise MeshError("it is no glTF 2 file")
        squeezed = [name for name in _COMPRESSION if name in self.json.get("extensionsRequired", ())]
        if squeezed:
            raise MeshError(
                f"it is compressed ({squeezed[0]}), which weft does not read; export it without compression"
            )
        self._body = body
        # bytes of the files read so far, and of the arrays made from them
        self._read = len(data) + len(body or b"")
        self._unpacked = 0
        self._buffers: dict[int, bytes] = {}

    def items(self, name: str) -> list[dict[str, Any]]:
        """A top-level list, empty where there is none."""
        found = self.json.get(name, [])
        return found if isinstance(found, list) else []

    def item(self, name: str, index: Any) -> dict[str, Any]:
        """One of a top-level list."""
        found = self.items(name)
        if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(found):
            raise MeshError(f"it refers to number {str(index)[:20]} of its {len(found)} {name}")
        return found[index]

    def roots(self) -> list[int]:
        """The nodes at the top of the scene that the file shows."""
        scenes = self.items("scenes")
        if scenes:
            return list(scenes[self.json.get("scene", 0)].get("nodes", []))
        below = {child for node in self.items("nodes") for child in node.get("children", [])}
        return [i for i in range(len(self.items("nodes"))) if i not in below]

    def walk(self) -> Iterator[tuple[int, int]]:
        """All nodes of the scene with their parents (-1: none), parents first."""
        todo = [(root, -1) for root in reversed(self.roots())]
        seen: set[int] = set()
        while todo:
            node, parent = todo.pop()
            if node in seen:
                raise MeshError(f"its node {node} is in two places of the scene")
            seen.add(node)
            yield node, parent
            todo += [(child, node) for child in reversed(self.items("nodes")[node].get("children", []))]

    def array(self, index: int) -> NDArray[Any]:
        """The array of an accessor, (n,) or (n, width); normalised integers as numbers between -1 and 1."""
        accessor = self.item("accessors", index)
        count, width = int(accessor["count"]), _WIDTHS[accessor["type"]]
        kind = np.dtype(_COMPONENTS[accessor["componentType"]])
        if count < 0:
            raise MeshError(f"it has an array of {count} elements")
        # an array may have no data (zeros) and may be read many times, so its size says nothing about that of the file
        self._unpacked += count * width * kind.itemsize
        check_unpacked(self._unpacked, self._read)
        if "bufferView" in accessor:
            values = self._view(accessor["bufferView"], accessor.get("byteOffset", 0), count, width, kind).copy()
        else:
            values = np.zeros((count, width), dtype=kind)
        sparse = accessor.get("sparse")
        if sparse is not None:
            where, what, changed = sparse["indices"], sparse["values"], int(sparse["count"])
            index_kind = np.dtype(_COMPONENTS[where["componentType"]])
            rows = self._view(where["bufferView"], where.get("byteOffset", 0), changed, 1, index_kind)[:, 0]
            if len(rows) and int(rows.max()) >= count:
                raise MeshError("it has an array that replaces elements which it does not have")
            values[rows] = self._view(what["bufferView"], what.get("byteOffset", 0), changed, width, kind)
        if accessor.get("normalized") and kind.kind in "iu":
            values = np.maximum(values.astype(np.float64) / np.iinfo(kind).max, -1.0)
        return values[:, 0] if width == 1 else values

    def _view(self, index: int, offset: int, count: int, width: int, kind: np.dtype[Any]) -> NDArray[Any]:
        view = self.item("bufferViews", index)
        start = int(view.get("byteOffset", 0)) + int(offset)
        row = width * kind.itemsize
        stride = int(view.get("byteStride", 0)) or row
        if stride < row:
            raise MeshError(f"it has an array of elements of {row} bytes that begin every {stride} bytes")
        data = self._buffer(int(view["buffer"]))
        end = start + (count - 1) * stride + row if count else start
        if min(start, count, int(offset)) < 0 or end > len(data):
            raise MeshError("it is cut short: an array reaches past the end of its buffer, or begins before it")
        return np.ndarray((count, width), kind, data, start, (stride, kind.itemsize))

    def _buffer(self, index: int) -> bytes:
        if index not in self._buffers:
            self._buffers[index] = self._load_buffer(index)
            self._read += len(self._buffers[index])
        return self._buffers[index]

    def _load_buffer(self, index: int) -> bytes:
        uri = self.item("buffers", index).get("uri")
        if uri is None:
            if self._body is None or index != 0:
                raise MeshError("it has a buffer without data")
            return self._body
        if uri.startswith("data:"):
            try:
                return base64.b64decode(uri.partition(",")[2], validate=True)
            except binascii.Error:
                raise MeshError("it has a buffer that is not base64") from None
        path = self._beside(uri)
        try:
            if not path.is_file() and path.exists():
                raise MeshError(f"its buffer {path.name!r} is no file")
            return path.read_bytes()
        except FileNotFoundError:
            raise MeshError(f"its buffer {path.name!r} is missing") from None

    def buffer_files(self) -> list[Path]:
        """The files beside the document that hold its buffers."""
        uris = [buffer.get("uri") for buffer in self.items("buffers")]
        return [self._beside(uri) for uri in uris if uri is not None and not uri.startswith("data:")]

    def _beside(self, uri: str) -> Path:
        """The path of a buffer; only those in the folder of the document and below it are opened."""
        name = unquote(uri)
        if "://" in name or Path(name).is_absolute() or ".." in Path(name).parts:
            raise MeshError(f"its buffer {name!r} does not lie in its folder")
        return self._folder / name


def _chunks(data: bytes) -> tuple[bytes, bytes | None]:
    """The JSON and the binary chunk of a .glb file."""
    text, body, place = None, None, 12
    while place + 8 <= len(data):
        length, kind = struct.unpack_from("<I4s", data, place)
        chunk = data[place + 8 : place + 8 + length]
        if len(chunk) < length:
            raise MeshError("it is cut short")
        if kind == b"JSON" and text is None:
            text = chunk
        elif kind == b"BIN\0" and body is None:
            body = chunk
        place += 8 + length
    if text is None:
        raise MeshError("it is cut short or damaged: it has no JSON chunk")
    return text, body

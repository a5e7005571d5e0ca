"""Animated glTF in one file (.glb), for the web: a morph target a frame, and weights that blend from one to the next.

Blending two targets moves every vertex linearly from one frame to the next. Positions and normals are float32; bodies
that do not move have no targets. three.js, Babylon.js, model-viewer and Blender play it.
"""

import json
import struct
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.errors import WeftError, WeftWarning
from weft.exchange.selection import Exported, Floats, Ints, Job, Report, Selection, Singles, staged_file
from weft.mesh.topology import vertex_normals

if TYPE_CHECKING:
    from weft.cache import Body

FLOAT, UINT32 = 5126, 5125
VERTICES, INDICES = 34962, 34963
# the length of a file and of its chunks are 32-bit numbers
LARGEST_FILE = 2**32 - 1
# a vertex shader has room for about a thousand weights
MANY_FRAMES = 900


def write_glb(job: Job) -> Exported:
    """Write an animated GLB file."""
    selection = job.selection
    if len(selection.frames) > MANY_FRAMES:
        warnings.warn(
            f"{len(selection.frames)} frames make as many morph targets, and browsers play about {MANY_FRAMES}: "
            "choose fewer, for example every second one with --frames ::2",
            WeftWarning,
            stacklevel=2,
        )
    figures = [
        _Figure(selection, body, moves) for body, moves in zip(selection.bodies, selection.moving(), strict=True)
    ]
    total = 2 * len(selection.frames)
    document, size = _document(selection, figures, _shifted(job.progress, 0, total))
    with staged_file(job) as staged:
        with staged.open("wb") as file:
            start = _write_head(file, document, size)
            for chunk in _chunks(selection, figures, _shifted(job.progress, len(selection.frames), total)):
                file.write(chunk)
        rounding = job.count_rounding(_reader(staged, start, selection, figures))
    return Exported([job.path], selection.frames, rounding)


@dataclass
class _Figure:
    """One body in glTF's terms: a point has one normal and one texture coordinate, so there are more points than vertices.

    Points are first those of different normals (colliders have sharp edges), then each of these once for every texture
    coordinate that it has at a corner.
    """

    selection: Selection
    body: "Body"
    moves: bool
    points: NDArray[np.intp] = field(init=False)
    """the vertex of the body that each point is"""
    faces: Ints = field(init=False)
    uv: Singles | None = field(init=False)
    """(points, 2) with v downwards, as in glTF"""
    parts: list[tuple[str, Ints]] = field(init=False)
    """the triangles by the names of their materials"""
    base: Singles = field(init=False)
    base_normals: Singles = field(init=False)
    place: int = field(init=False, default=0)
    """offset of its points in the binary chunk, bytes"""

    def __post_init__(self) -> None:
        start = self.selection.cache.positions(self.selection.frames[0])[self.body.vertices]
        self._shaded, self._shaded_faces = np.arange(len(start)), self.selection.faces(self.body)
        if self.body.kind != "cloth":
            from weft.mesh.topology import split_sharp

            self._shaded, self._shaded_faces = split_sharp(start, self._shaded_faces)
        corner_uv = self.selection.corner_uv(self.body)
        self.uv, self._split, self.faces = None, np.arange(len(self._shaded)), self._shaded_faces
        if corner_uv is not None:
            rows = np.column_stack([self._shaded_faces.ravel(), corner_uv.reshape(-1, 2) + 0.0])
            _, first, number = np.unique(rows, axis=0, return_index=True, return_inverse=True)
            self._split = self._shaded_faces.ravel()[first].astype(np.intp)
            self.faces = number.reshape(-1, 3).astype(np.int32)
            self.uv = (corner_uv.reshape(-1, 2)[first] * (1.0, -1.0) + (0.0, 1.0)).astype(np.float32)
        self.points = self._shaded[self._split]
        self.parts = self._by_material()
        self.base, self.base_normals = self._shape(start)

    def _by_material(self) -> list[tuple[str, Ints]]:
        labels = self.selection.details(self.body).labels.get("material")
        if labels is None:
            return [(self.body.name, self.faces)]
        numbers = [(name, labels.index == number) for number, name in enumerate(labels.names)]
        numbers.append((self.body.name, labels.index < 0))
        return [(name, self.faces[rows]) for name, rows in numbers if rows.any()]

    @property
    def count(self) -> int:
        return len(self.points)

    def target(self, x: Floats) -> tuple[Singles, Singles]:
        """Offsets of points and normals from the base, for the positions of all vertices of the cache."""
        points, normals = self._shape(x[self.body.vertices])
        return points - self.base, normals - self.base_normals

    def _shape(self, x: Floats) -> tuple[Singles, Singles]:
        shaded = x[self._shaded]
        normals = vertex_normals(shaded, self._shaded_faces)[self._split]
        return shaded[self._split].astype(np.float32), normals.astype(np.float32)


def _shifted(progress: Report | None, done: int, total: int) -> Report | None:
    return None if progress is None else lambda k, _: progress(done + k, total)


def _targets(
    selection: Selection, figures: list[_Figure], progress: Report | None
) -> Iterator[tuple[Singles, Singles]]:
    """For every frame from the second on and every moving figure: the offsets of its points and normals."""
    for done, frame in enumerate(selection.frames, start=1):
        if done > 1:
            x = selection.cache.positions(frame)
            yield from (figure.target(x) for figure in figures if figure.moves)
        if progress is not None:
            progress(done, len(selection.frames))


def _document(selection: Selection, figures: list[_Figure], progress: Report | None) -> tuple[dict[str, Any], int]:
    """The JSON that describes the file, and the length of the binary chunk."""
    writer = _Accessors()
    meshes: list[dict[str, Any]] = []
    nodes: list[dict[str, Any]] = []
    materials: list[dict[str, Any]] = []
    for figure in figures:
        figure.place = writer.size
        attributes = {
            "POSITION": writer.add(figure.base, bounds=True, target=VERTICES),
            "NORMAL": writer.add(figure.base_normals, target=VERTICES),
        }
        if figure.uv is not None:
            attributes["TEXCOORD_0"] = writer.add(figure.uv, target=VERTICES)
        primitives = []
        for name, faces in figure.parts:
            indices = writer.add(faces.ravel(), target=INDICES)
            primitives.append({"attributes": attributes, "indices": indices, "material": len(materials)})
            materials.append(_material(selection, figure.body, name))
        meshes.append({"name": figure.body.name, "primitives": primitives})
        nodes.append({"name": figure.body.name, "mesh": len(nodes)})

    count = len(selection.frames)
    moving = [number for number, figure in enumerate(figures) if figure.moves]
    animations = []
    if moving:
        times = writer.add(_times(selection), bounds=True)
        weights = writer.add(np.zeros(count * (count - 1), np.float32))
        samplers = [{"input": times, "output": weights, "interpolation": "LINEAR"}]
        channels = [{"sampler": 0, "target": {"node": number, "path": "weights"}} for number in moving]
        animations = [{"name": "frames", "samplers": samplers, "channels": channels}]
    # the primitives of a mesh share its points, and so their targets
    targets: list[list[dict[str, int]]] = [[] for _ in moving]
    for k, (points, normals) in enumerate(_targets(selection, figures, progress)):
        targets[k % len(moving)].append({"POSITION": writer.add(points, bounds=True), "NORMAL": writer.add(normals)})
    for number, own in zip(moving, targets, strict=True):
        meshes[number]["weights"] = [0.0] * (count - 1)
        for primitive in meshes[number]["primitives"]:
            primitive["targets"] = own

    document = {
        "asset": {"version": "2.0", "generator": "weft"},
        "scene": 0,
        "scenes": [{"nodes": list(range(len(nodes)))}],
        "nodes": nodes,
        "meshes": meshes,
        "materials": materials,
        "accessors": writer.accessors,
        "bufferViews": writer.views,
        "buffers": [{"byteLength": writer.size}],
        **({"animations": animations} if animations else {}),
    }
    return document, writer.size


def _chunks(selection: Selection, figures: list[_Figure], progress: Report | None) -> Iterator[bytes]:
    """The data of the binary chunk, in the order of the accessors of `_document`."""
    for figure in figures:
        yield figure.base.tobytes()
        yield figure.base_normals.tobytes()
        if figure.uv is not None:
            yield figure.uv.tobytes()
        for _, faces in figure.parts:
            yield faces.astype("<u4").tobytes()
    count = len(selection.frames)
    if any(figure.moves for figure in figures):
        yield _times(selection).tobytes()
        # the first frame is the base, and has no target of its own
        yield np.eye(count, dtype="<f4")[:, 1:].tobytes()
    for points, normals in _targets(selection, figures, progress):
        yield points.tobytes()
        yield normals.tobytes()


class _Accessors:
    """Accessors and buffer views of consecutive arrays; all numbers have four bytes, so that no padding is needed."""

    def __init__(self) -> None:
        self.accessors: list[dict[str, Any]] = []
        self.views: list[dict[str, Any]] = []
        self.size = 0

    def add(self, array: NDArray[Any], *, bounds: bool = False, target: int | None = None) -> int:
        """Describe the next array; returns the number of its accessor."""
        kind = {1: "SCALAR", 2: "VEC2", 3: "VEC3"}[1 if array.ndim == 1 else array.shape[1]]
        view = {"buffer": 0, "byteOffset": self.size, "byteLength": array.nbytes}
        self.views.append(view if target is None else {**view, "target": target})
        accessor: dict[str, Any] = {
            "bufferView": len(self.views) - 1,
            "componentType": FLOAT if array.dtype.kind == "f" else UINT32,
            "count": len(array),
            "type": kind,
        }
        if bounds:
            low, high = np.atleast_1d(array.min(axis=0)), np.atleast_1d(array.max(axis=0))
            accessor.update(min=[float(v) for v in low], max=[float(v) for v in high])
        self.accessors.append(accessor)
        self.size += array.nbytes
        return len(self.accessors) - 1


def _times(selection: Selection) -> Singles:
    """Seconds from the first frame."""
    frames = np.array(selection.frames)
    if np.any(np.diff(frames) <= 0):
        raise WeftError("the frames of an animation must follow each other: choose them in order, each once")
    return ((frames - frames[0]) / selection.cache.fps).astype("<f4")


def _material(selection: Selection, body: "Body", name: str) -> dict[str, Any]:
    from weft.scene.colours import to_linear

    colour = [round(float(c), 6) for c in to_linear(selection.colour(body))]
    surface = {"baseColorFactor": [*colour, 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.85}
    return {"name": name, "doubleSided": True, "pbrMetallicRoughness": surface}


def _write_head(file: IO[bytes], document: dict[str, Any], size: int) -> int:
    """Write everything before the binary data; returns the offset where that begins."""
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 4)
    total = 12 + 8 + len(text) + 8 + size
    if total > LARGEST_FILE:
        raise WeftError(
            f"the file would have {total / 1e9:.1f} GB, and a GLB has 4.3 at most: choose fewer frames or bodies"
        )
    file.write(struct.pack("<4sII", b"glTF", 2, total))
    file.write(struct.pack("<I4s", len(text), b"JSON") + text)
    file.write(struct.pack("<I4s", size, b"BIN\0"))
    return file.tell()


def _reader(path: Path, start: int, selection: Selection, figures: list[_Figure]) -> Any:
    """A function from k to the vertices that a player shows at the k-th frame: base plus target in single precision."""
    data = np.memmap(path, dtype="<f4", mode="r", offset=start)
    moving = [figure for figure in figures if figure.moves]
    stride = sum(6 * figure.count for figure in moving)
    first_target = len(data) - stride * (len(selection.frames) - 1)

    def read(k: int) -> Singles:
        read_vertices, place = [], first_target + stride * (k - 1)
        for figure in figures:
            points = data[figure.place // 4 : figure.place // 4 + 3 * figure.count].reshape(-1, 3)
            if figure.moves and k > 0:
                points = points + data[place : place + 3 * figure.count].reshape(-1, 3)
                place += 6 * figure.count
            vertices = np.empty((figure.body.vertices.stop - figure.body.vertices.start, 3), np.float32)
            vertices[figure.points] = points
            read_vertices.append(vertices)
        return np.concatenate(read_vertices)

    return read

"""glTF 2, in one file (.glb) or with its buffers beside it (.gltf): all meshes of the scene where it puts them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.formats.gltf_document import GltfDocument
from weft.mesh.formats.raw import RawMesh, uv_from_corners
from weft.mesh.topology import Ints
from weft.mesh.validate import Floats

# value of an animated property at a time
Channel = Callable[[float], Floats]
# the ways to list triangles, as glTF numbers them; what is below are points and lines
TRIANGLES, STRIP, FAN = 4, 5, 6


def read_gltf(path: Path) -> RawMesh:
    """The meshes of all nodes as they stand without animation, in the order of the scene."""
    scene = GltfScene(path)
    uvs = [part.uv for part in scene.parts if part.uv is not None]
    counts = np.cumsum([0, *(part.file_count for part in scene.parts)])
    source = [part.source + count for part, count in zip(scene.parts, counts[:-1], strict=True)]
    return RawMesh(
        scene.vertices(0.0),
        scene.faces,
        np.concatenate(uvs) if len(uvs) == len(scene.parts) else None,
        np.concatenate(source).astype(np.int32),
    )


class Part(NamedTuple):
    """The triangles of one node, in its own coordinates, and what bends them."""

    node: int
    points: Floats
    faces: Ints
    uv: Floats | None
    # (n,) which vertex of the file each one is, of the `file_count` of this node
    source: NDArray[np.int64]
    file_count: int
    # (targets, n, 3) offsets, and their weights where no animation changes them
    targets: Floats
    weights: Floats
    # (n, k) joints and how much each of them counts, for skinned parts
    joints: NDArray[np.int64] | None
    shares: Floats | None
    skin: int


class GltfScene:
    """The meshes of a glTF file: their triangles, and where their vertices are at a time."""

    def __init__(self, path: Path) -> None:
        try:
            self._open(GltfDocument(path))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise MeshError(f"it is damaged: {type(error).__name__} at {error}") from None

    def _open(self, document: GltfDocument) -> None:
        self.document = document
        self.order = list(document.walk())
        # what moves: (node, property) -> its value at a time
        self.channels: dict[tuple[int, str], Channel] = {}
        self.skins = [_read_skin(document, skin) for skin in document.items("skins")]
        nodes = document.items("nodes")
        parts = [_read_part(document, node) for node, _ in self.order if nodes[node].get("mesh") is not None]
        self.parts = [part for part in parts if part is not None and len(part.faces)]
        if not self.parts:
            raise MeshError("it holds no triangle mesh")
        for part in self.parts:
            known = 0 if part.joints is None else len(self.skins[part.skin][0])
            if part.joints is not None and int(part.joints.max()) >= known:
                raise MeshError(f"it has a vertex that follows the joint {part.joints.max()} of a skin with {known}")
        world = self._node_matrices(0.0)
        firsts = np.cumsum([0, *(len(part.points) for part in self.parts)])
        # a node that mirrors turns its triangles round (specification, 3.7.4)
        faces = [
            (part.faces[:, ::-1] if self._mirrors(part, world) else part.faces) + first
            for part, first in zip(self.parts, firsts[:-1], strict=True)
        ]
        self.faces = np.concatenate(faces).astype(np.int32)
        self.vertex_count = int(firsts[-1])

    def vertices(self, time: float) -> Floats:
        """(n, 3) positions in the world."""
        world = self._node_matrices(time)
        return np.concatenate([self._part_vertices(part, world, time) for part in self.parts])

    def _part_vertices(self, part: Part, world: dict[int, Floats], time: float) -> Floats:
        channel = self.channels.get((part.node, "weights"))
        weights = part.weights if channel is None else channel(time)
        points = part.points + np.einsum("t,tnc->nc", weights, part.targets) if len(part.targets) else part.points
        if part.joints is None or part.shares is None:
            matrix = world[part.node]
            return points @ matrix[:3, :3].T + matrix[:3, 3]
        # a skinned part goes where its joints take it, wherever its own node is
        carry = self._joint_matrices(part, world)
        blended = np.einsum("nk,nkij->nij", part.shares, carry[part.joints])
        return np.einsum("nij,nj->ni", blended[:, :3, :3], points) + blended[:, :3, 3]

    def _joint_matrices(self, part: Part, world: dict[int, Floats]) -> Floats:
        nodes, inverse_bind = self.skins[part.skin]
        return np.stack([world[node] for node in nodes]) @ inverse_bind

    def _mirrors(self, part: Part, world: dict[int, Floats]) -> bool:
        matrix = world[part.node] if part.joints is None else self._joint_matrices(part, world)[part.joints[0, 0]]
        return bool(np.linalg.det(matrix[:3, :3]) < 0.0)

    def _node_matrices(self, time: float) -> dict[int, Floats]:
        world: dict[int, Floats] = {-1: np.eye(4)}
        for node, parent in self.order:
            world[node] = world[parent] @ self._local_matrix(node, time)
        return world

    def _local_matrix(self, node: int, time: float) -> Floats:
        said = self.document.items("nodes")[node]
        moved = {
            name: self.channels[node, name](time)
            for name in ("translation", "rotation", "scale")
            if (node, name) in self.channels
        }
        if not moved and "matrix" in said:
            return np.array(said["matrix"], dtype=np.float64).reshape(4, 4).T
        matrix = np.eye(4)
        turn = moved.get("rotation", np.array(said.get("rotation", (0.0, 0.0, 0.0, 1.0)), dtype=np.float64))
        scale = moved.get("scale", np.array(said.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64))
        matrix[:3, :3] = _rotation(turn) * scale
        matrix[:3, 3] = moved.get("translation", said.get("translation", (0.0, 0.0, 0.0)))
        return matrix


def _rotation(quaternion: Floats) -> Floats:
    """The 3x3 matrix of a quaternion in glTF's order x, y, z, w."""
    length = np.linalg.norm(quaternion)
    if length == 0.0:
        raise MeshError("it has a rotation of zero length")
    x, y, z, w = quaternion / length
    return np.array(
        [
            [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)],
            [2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)],
            [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)],
        ]
    )


def _read_skin(document: GltfDocument, skin: dict[str, Any]) -> tuple[list[int], Floats]:
    """The joints of a skin and the matrices that take its mesh to each of them."""
    joints = list(skin["joints"])
    if "inverseBindMatrices" not in skin:
        return joints, np.tile(np.eye(4), (len(joints), 1, 1))
    matrices = document.array(skin["inverseBindMatrices"]).astype(np.float64)
    # glTF stores columns
    return joints, matrices[: len(joints)].reshape(-1, 4, 4).transpose(0, 2, 1)


def _read_part(document: GltfDocument, node: int) -> Part | None:
    """The mesh of a node, its primitives together, vertices that always move alike made one; None: no triangles."""
    said = document.items("nodes")[node]
    mesh = document.items("meshes")[said["mesh"]]
    name = mesh.get("name", said["mesh"])
    # points and lines have no triangles
    shown = [p for p in mesh["primitives"] if p.get("mode", TRIANGLES) in (TRIANGLES, STRIP, FAN)]
    if not shown:
        return None
    points = [document.array(p["attributes"]["POSITION"]).astype(np.float64) for p in shown]
    counts = [len(position) for position in points]
    firsts = np.cumsum(counts) - counts
    faces = [_read_faces(document, p, n) + first for p, n, first in zip(shown, counts, firsts, strict=True)]
    if any(len(own) and int(own.max()) >= first + n for own, first, n in zip(faces, firsts, counts, strict=True)):
        raise MeshError(f"its mesh {name} has triangles that do not fit its vertices")

    # what bends it
    targets = [
        np.array([_target(document, t, n) for t in p.get("targets", [])]).reshape(-1, n, 3)
        for p, n in zip(shown, counts, strict=True)
    ]
    influences = [_influences(document, p["attributes"]) for p in shown] if "skin" in said else []
    if len({len(t) for t in targets}) > 1 or len({joints.shape[1] for joints, _ in influences}) > 1:
        raise MeshError(f"the primitives of its mesh {name} do not bend alike")
    moved = np.concatenate(targets, axis=1)
    weights = np.array(said.get("weights", mesh.get("weights", np.zeros(len(moved)))), dtype=np.float64)

    uvs = [document.array(p["attributes"]["TEXCOORD_0"]) for p in shown if "TEXCOORD_0" in p["attributes"]]
    # v runs downwards in glTF
    uv = np.concatenate(uvs).astype(np.float64) * (1.0, -1.0) + (0.0, 1.0) if len(uvs) == len(shown) else None
    part = Part(
        node,
        np.concatenate(points),
        np.concatenate(faces).astype(np.int32),
        uv,
        np.arange(sum(counts)),
        sum(counts),
        moved,
        weights,
        np.concatenate([joints for joints, _ in influences]) if influences else None,
        np.concatenate([shares for _, shares in influences]) if influences else None,
        said.get("skin", -1),
    )
    return _merged(part)


def _read_faces(document: GltfDocument, primitive: dict[str, Any], vertex_count: int) -> NDArray[np.int64]:
    """(m, 3) triangles of a primitive, which lists them one by one, as a strip or as a fan."""
    corners = document.array(primitive["indices"]) if "indices" in primitive else np.arange(vertex_count)
    corners = corners.astype(np.int64)
    mode = primitive.get("mode", TRIANGLES)
    if mode == STRIP:
        triangles = np.stack([corners[:-2], corners[1:-1], corners[2:]], axis=1)
        # every other triangle of a strip runs the other way
        triangles[1::2] = triangles[1::2, [1, 0, 2]]
        return triangles
    if mode == FAN:
        return np.stack([corners[1:-1], corners[2:], np.full(max(len(corners) - 2, 0), corners[0])], axis=1)
    return corners.reshape(-1, 3)


def _target(document: GltfDocument, target: dict[str, int], count: int) -> Floats:
    """The offsets of a morph target; some change only normals."""
    return document.array(target["POSITION"]).astype(np.float64) if "POSITION" in target else np.zeros((count, 3))


def _influences(document: GltfDocument, attributes: dict[str, int]) -> tuple[NDArray[np.int64], Floats]:
    """The joints of each vertex and their shares, which sum to one."""
    sets = [k for k in range(len(attributes)) if f"JOINTS_{k}" in attributes]
    if not sets:
        raise MeshError("it has a skinned mesh without joints")
    joints = np.concatenate([document.array(attributes[f"JOINTS_{k}"]).astype(np.int64) for k in sets], axis=1)
    shares = np.concatenate([document.array(attributes[f"WEIGHTS_{k}"]).astype(np.float64) for k in sets], axis=1)
    total = shares.sum(axis=1, keepdims=True)
    if not np.all(total > 0.0):
        raise MeshError(
            f"it has skinned vertices that no joint moves, first vertex {int((total[:, 0] <= 0.0).argmax())}"
        )
    return joints, shares / total


def _merged(part: Part) -> Part:
    """glTF splits vertices where normals or uv differ: those that are the same in all that moves them become one."""
    columns = [part.points, *part.targets]
    if part.joints is not None and part.shares is not None:
        columns += [part.joints, part.shares]
    rows = np.concatenate(columns, axis=1) + 0.0
    _, first, merged = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    # in the order of the file
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    keep = first[order]
    faces = number[merged.reshape(-1)][part.faces].astype(np.int32)
    # triangles that were slivers between split vertices have no area
    a, b, c = faces.T
    faces = faces[(a != b) & (b != c) & (c != a)]
    return part._replace(
        points=part.points[keep],
        uv=None if part.uv is None else uv_from_corners(number[merged.reshape(-1)], part.uv, len(keep)),
        source=keep,
        faces=faces,
        targets=part.targets[:, keep],
        joints=None if part.joints is None else part.joints[keep],
        shares=None if part.shares is None else part.shares[keep],
    )

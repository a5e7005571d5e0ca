"""glTF 2 meshes, still or animated: node motions, morph targets and skins (.glb, or .gltf with buffers beside it)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.details import Details, Labels, join_details, join_uv
from weft.mesh.formats.gltf_document import GltfDocument
from weft.mesh.formats.raw import RawMesh, uv_from_corners
from weft.mesh.topology import Ints
from weft.mesh.validate import Floats

# value of an animated property at a time
Channel = Callable[[float], Floats]
# the modes of primitives with triangles; lower numbers are points and lines
TRIANGLES, STRIP, FAN = 4, 5, 6


def read_gltf(path: Path) -> RawMesh:
    """The meshes of all nodes without animation, as one, in the order of the scene."""
    scene = GltfScene(path)
    counts = np.cumsum([0, *(mesh.file_count for mesh in scene.meshes)])
    source = [mesh.source + count for mesh, count in zip(scene.meshes, counts[:-1], strict=True)]
    return RawMesh(
        scene.vertices(0.0),
        scene.faces,
        join_uv([mesh.uv for mesh in scene.meshes], [(len(mesh.points), 2) for mesh in scene.meshes]),
        np.concatenate(source).astype(np.int32),
        scene.details,
    )


class NodeMesh(NamedTuple):
    """The triangles of one node in its own coordinates, with its morph targets and skin."""

    node: int
    points: Floats
    faces: Ints
    uv: Floats | None
    # (n,) the vertex of the file that each vertex is, of the `file_count` vertices of this node
    source: NDArray[np.int64]
    file_count: int
    # (targets, n, 3) offsets, and their weights where no animation changes them
    targets: Floats
    weights: Floats
    # (n, k) joints and their weights, for skinned meshes
    joints: NDArray[np.int64] | None
    joint_weights: Floats | None
    skin: int
    details: Details


class GltfScene:
    """The meshes of a glTF file: their triangles, and the positions of their vertices at a time."""

    def __init__(self, path: Path) -> None:
        try:
            self._open(GltfDocument(path))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise MeshError(f"it is damaged: {type(error).__name__} at {error}") from None

    def _open(self, document: GltfDocument) -> None:
        self.document = document
        self.order = list(document.walk())
        # animated properties: (node, property) -> its value at a time
        self.channels: dict[tuple[int, str], Channel] = {}
        self.skins = [_read_skin(document, skin) for skin in document.items("skins")]
        nodes = document.items("nodes")
        meshes = [_read_node_mesh(document, node) for node, _ in self.order if nodes[node].get("mesh") is not None]
        self.meshes = [mesh for mesh in meshes if mesh is not None and len(mesh.faces)]
        if not self.meshes:
            raise MeshError("it holds no triangle mesh")
        for mesh in self.meshes:
            known = 0 if mesh.joints is None else len(self.skins[mesh.skin][0])
            used = [] if mesh.joints is None else [int(mesh.joints.min()), int(mesh.joints.max())]
            wrong = [joint for joint in used if not 0 <= joint < known]
            if wrong:
                raise MeshError(f"it has a vertex that follows the joint {wrong[0]} of a skin with {known}")
        world = self._node_matrices(0.0)
        firsts = np.cumsum([0, *(len(mesh.points) for mesh in self.meshes)])
        # in a node that mirrors, triangles are reversed (specification, 3.7.4)
        faces = [
            (mesh.faces[:, ::-1] if self._mirrors(mesh, world) else mesh.faces) + first
            for mesh, first in zip(self.meshes, firsts[:-1], strict=True)
        ]
        self.faces = np.concatenate(faces).astype(np.int32)
        self.vertex_count = int(firsts[-1])
        self.details = join_details(
            [self._placed_details(mesh, name, world) for mesh, name in zip(self.meshes, self._names(), strict=True)],
            [len(mesh.points) for mesh in self.meshes],
            [len(mesh.faces) for mesh in self.meshes],
        )

    def _names(self) -> list[str]:
        """A name for each mesh: that of its node, else of its mesh; a number is added where two are the same."""
        nodes, meshes = self.document.items("nodes"), self.document.items("meshes")
        # the names in order, and the last number of each
        names: dict[str, int] = {}
        for mesh in self.meshes:
            node = nodes[mesh.node]
            plain = name = str(node.get("name") or meshes[node["mesh"]].get("name") or f"mesh_{node['mesh']}")
            while name in names:
                names[plain] += 1
                name = f"{plain}_{names[plain]}"
            names[name] = 1
        return list(names)

    def _placed_details(self, mesh: NodeMesh, name: str, world: dict[int, Floats]) -> Details:
        details = mesh.details.named("object", name, len(mesh.faces))
        matrix = world[mesh.node] if mesh.joints is None else self._joint_matrices(mesh, world)[mesh.joints[0, 0]]
        if np.linalg.det(matrix[:3, :3]) != 0.0:
            details = details.rotated(matrix[:3, :3])
        return details.turned() if self._mirrors(mesh, world) else details

    def vertices(self, time: float) -> Floats:
        """(n, 3) positions in the world."""
        world = self._node_matrices(time)
        return np.concatenate([self._mesh_vertices(mesh, world, time) for mesh in self.meshes])

    def _mesh_vertices(self, mesh: NodeMesh, world: dict[int, Floats], time: float) -> Floats:
        channel = self.channels.get((mesh.node, "weights"))
        weights = mesh.weights if channel is None else channel(time)
        points = mesh.points + np.einsum("t,tnc->nc", weights, mesh.targets) if len(mesh.targets) else mesh.points
        if mesh.joints is None or mesh.joint_weights is None:
            matrix = world[mesh.node]
            return points @ matrix[:3, :3].T + matrix[:3, 3]
        # the position of a skinned mesh depends on its joints only, not on its own node
        carry = self._joint_matrices(mesh, world)
        blended = np.einsum("nk,nkij->nij", mesh.joint_weights, carry[mesh.joints])
        return np.einsum("nij,nj->ni", blended[:, :3, :3], points) + blended[:, :3, 3]

    def _joint_matrices(self, mesh: NodeMesh, world: dict[int, Floats]) -> Floats:
        nodes, inverse_bind = self.skins[mesh.skin]
        return np.stack([world[node] for node in nodes]) @ inverse_bind

    def _mirrors(self, mesh: NodeMesh, world: dict[int, Floats]) -> bool:
        matrix = world[mesh.node] if mesh.joints is None else self._joint_matrices(mesh, world)[mesh.joints[0, 0]]
        return bool(np.linalg.det(matrix[:3, :3]) < 0.0)

    def _node_matrices(self, time: float) -> dict[int, Floats]:
        world: dict[int, Floats] = {-1: np.eye(4)}
        for node, parent in self.order:
            world[node] = world[parent] @ self._local_matrix(node, time)
        return world

    def _local_matrix(self, node: int, time: float) -> Floats:
        fields = self.document.items("nodes")[node]
        moved = {
            name: self.channels[node, name](time)
            for name in ("translation", "rotation", "scale")
            if (node, name) in self.channels
        }
        if not moved and "matrix" in fields:
            return np.array(fields["matrix"], dtype=np.float64).reshape(4, 4).T
        matrix = np.eye(4)
        turn = moved.get("rotation", np.array(fields.get("rotation", (0.0, 0.0, 0.0, 1.0)), dtype=np.float64))
        scale = moved.get("scale", np.array(fields.get("scale", (1.0, 1.0, 1.0)), dtype=np.float64))
        matrix[:3, :3] = _rotation(turn) * scale
        matrix[:3, 3] = moved.get("translation", fields.get("translation", (0.0, 0.0, 0.0)))
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


def _read_node_mesh(document: GltfDocument, node: int) -> NodeMesh | None:
    """The mesh of a node: all primitives as one, with equal vertices merged; None if it has no triangles."""
    fields = document.items("nodes")[node]
    mesh = document.item("meshes", fields["mesh"])
    name = mesh.get("name", fields["mesh"])
    # points and lines have no triangles
    shown = [p for p in mesh["primitives"] if p.get("mode", TRIANGLES) in (TRIANGLES, STRIP, FAN)]
    if not shown:
        return None
    points = [document.array(p["attributes"]["POSITION"]).astype(np.float64) for p in shown]
    counts = [len(position) for position in points]
    firsts = np.cumsum(counts) - counts
    faces = [_read_faces(document, p, n) + first for p, n, first in zip(shown, counts, firsts, strict=True)]
    ranges = zip(faces, firsts, counts, strict=True)
    if any(len(own) and (int(own.min()) < first or int(own.max()) >= first + n) for own, first, n in ranges):
        raise MeshError(f"its mesh {name} has triangles that do not fit its vertices")

    # morph targets and joints
    targets = [
        np.array([_target(document, t, n) for t in p.get("targets", [])]).reshape(-1, n, 3)
        for p, n in zip(shown, counts, strict=True)
    ]
    influences = [_influences(document, p["attributes"]) for p in shown] if "skin" in fields else []
    if len({len(t) for t in targets}) > 1 or len({joints.shape[1] for joints, _ in influences}) > 1:
        raise MeshError(f"the primitives of its mesh {name} do not bend alike")
    moved = np.concatenate(targets, axis=1)
    weights = np.array(fields.get("weights", mesh.get("weights", np.zeros(len(moved)))), dtype=np.float64)

    # v runs downwards in glTF
    uvs = [
        document.array(p["attributes"]["TEXCOORD_0"]).astype(np.float64) * (1.0, -1.0) + (0.0, 1.0)
        if "TEXCOORD_0" in p["attributes"]
        else None
        for p in shown
    ]
    uv = join_uv(uvs, [(n, 2) for n in counts])
    rows = np.concatenate(faces).astype(np.int32)
    unmerged = NodeMesh(
        node,
        np.concatenate(points),
        rows,
        uv,
        np.arange(sum(counts)),
        sum(counts),
        moved,
        weights,
        np.concatenate([joints for joints, _ in influences]) if influences else None,
        np.concatenate([joint_weights for _, joint_weights in influences]) if influences else None,
        fields.get("skin", -1),
        _read_details(document, shown, rows, uv, [len(own) for own in faces]),
    )
    return _merged(unmerged)


def _read_details(
    document: GltfDocument,
    primitives: list[dict[str, Any]],
    faces: NDArray[Any],
    uv: Floats | None,
    face_counts: list[int],
) -> Details:
    """Texture coordinates and normals of corners, names of materials, colours, and attributes that begin with `_`."""
    normals = _read_attribute(document, primitives, "NORMAL")
    names = [_material_name(document, p.get("material")) for p in primitives]
    known = tuple(dict.fromkeys(name for name in names if name is not None))
    index = [-1 if name is None else known.index(name) for name in names]
    numbers = np.repeat(np.array(index, dtype=np.int32), face_counts)
    own = {key for p in primitives for key in p["attributes"] if key.startswith("_") and len(key) > 1}
    attributes = {key[1:].lower(): _read_attribute(document, primitives, key) for key in sorted(own)}
    attributes["colour"] = _read_attribute(document, primitives, "COLOR_0")
    return Details(
        None if uv is None else uv[faces],
        None if normals is None else normals[faces],
        labels={"material": Labels(known, numbers)} if known else {},
        attributes={key: value for key, value in attributes.items() if value is not None},
    )


def _read_attribute(document: GltfDocument, primitives: list[dict[str, Any]], name: str) -> Floats | None:
    """An attribute of all vertices of some primitives; None unless each has it and its numbers are finite."""
    if not all(name in p["attributes"] for p in primitives):
        return None
    arrays = [document.array(p["attributes"][name]).astype(np.float64) for p in primitives]
    counts = [len(document.array(p["attributes"]["POSITION"])) for p in primitives]
    same = len({array.shape[1:] for array in arrays}) == 1 and [len(array) for array in arrays] == counts
    values = np.concatenate(arrays) if same else None
    if values is not None and values.ndim == 2 and values.shape[1] == 1:
        values = values[:, 0]
    return values if values is not None and np.isfinite(values).all() else None


def _material_name(document: GltfDocument, number: int | None) -> str | None:
    return None if number is None else str(document.item("materials", number).get("name", f"material_{number}"))


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
    """The offsets of a morph target; zero for one that changes only normals."""
    return document.array(target["POSITION"]).astype(np.float64) if "POSITION" in target else np.zeros((count, 3))


def _influences(document: GltfDocument, attributes: dict[str, int]) -> tuple[NDArray[np.int64], Floats]:
    """The joints of each vertex and their weights, normalised to sum to one."""
    sets = [k for k in range(len(attributes)) if f"JOINTS_{k}" in attributes]
    if not sets:
        raise MeshError("it has a skinned mesh without joints")
    joints = np.concatenate([document.array(attributes[f"JOINTS_{k}"]).astype(np.int64) for k in sets], axis=1)
    joint_weights = np.concatenate(
        [document.array(attributes[f"WEIGHTS_{k}"]).astype(np.float64) for k in sets], axis=1
    )
    total = joint_weights.sum(axis=1, keepdims=True)
    if not np.all(total > 0.0):
        raise MeshError(
            f"it has skinned vertices that no joint moves, first vertex {int((total[:, 0] <= 0.0).argmax())}"
        )
    return joints, joint_weights / total


def _merged(mesh: NodeMesh) -> NodeMesh:
    """Merge vertices with equal position, morph targets and joints: glTF duplicates them where normals or uv differ."""
    columns = [mesh.points, *mesh.targets]
    if mesh.joints is not None and mesh.joint_weights is not None:
        columns += [mesh.joints, mesh.joint_weights]
    rows = np.concatenate(columns, axis=1) + 0.0
    _, first, merged = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    # in the order of the file
    order = np.argsort(first)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.arange(len(order))
    keep = first[order]
    faces = number[merged.reshape(-1)][mesh.faces].astype(np.int32)
    # triangles that were slivers between split vertices have no area
    a, b, c = faces.T
    good = (a != b) & (b != c) & (c != a)
    faces = faces[good]
    return mesh._replace(
        details=mesh.details.take(keep, np.arange(3 * len(good)).reshape(-1, 3)[good]),
        points=mesh.points[keep],
        uv=None if mesh.uv is None else uv_from_corners(number[merged.reshape(-1)], mesh.uv, len(keep)),
        source=keep,
        faces=faces,
        targets=mesh.targets[:, keep],
        joints=None if mesh.joints is None else mesh.joints[keep],
        joint_weights=None if mesh.joint_weights is None else mesh.joint_weights[keep],
    )

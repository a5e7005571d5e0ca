"""Animated glTF 2: nodes that move, morph targets and skins, sampled at a steady rate."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError
from weft.mesh.formats.gltf_document import GltfDocument
from weft.mesh.topology import Ints
from weft.mesh.validate import Floats

# value of an animated property at a time
Channel = Callable[[float], Floats]
TRIANGLES = 4


class Part(NamedTuple):
    """The triangles of one node, in its own coordinates, and what bends them."""

    node: int
    points: Floats
    faces: Ints
    # (targets, n, 3) offsets, and their weights where no animation changes them
    targets: Floats
    weights: Floats
    # (n, k) joints and how much each of them counts, for skinned parts
    joints: NDArray[np.int64] | None
    shares: Floats | None
    skin: int


class GltfAnimation:
    """One animation of a glTF file: where all vertices are at a time."""

    def __init__(self, path: Path, animation: str | None = None) -> None:
        try:
            self._open(GltfDocument(path), animation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
            raise MeshError(f"it is damaged: {type(error).__name__} at {error}") from None

    def _open(self, document: GltfDocument, name: str | None) -> None:
        self.document = document
        self.order = list(document.walk())
        self.channels, self.start, self.end = _read_channels(document, name)
        self.skins = [_read_skin(document, skin) for skin in document.items("skins")]
        self.parts = [
            _read_part(document, node)
            for node, _ in self.order
            if document.items("nodes")[node].get("mesh") is not None
        ]
        if not self.parts:
            raise MeshError("it holds no triangle mesh")
        firsts = np.cumsum([0, *(len(part.points) for part in self.parts)])
        faces = [part.faces + first for part, first in zip(self.parts, firsts[:-1], strict=True)]
        self.faces = np.concatenate(faces).astype(np.int32)
        self.vertex_count = int(firsts[-1])

    def vertices(self, time: float) -> Floats:
        """(n, 3) positions in the world at a time of the animation."""
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
        nodes, inverse_bind = self.skins[part.skin]
        carry = np.stack([world[node] for node in nodes]) @ inverse_bind
        blended = np.einsum("nk,nkij->nij", part.shares, carry[part.joints])
        return np.einsum("nij,nj->ni", blended[:, :3, :3], points) + blended[:, :3, 3]

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


def _read_channels(document: GltfDocument, name: str | None) -> tuple[dict[tuple[int, str], Channel], float, float]:
    """What an animation moves: (node, property) -> its value at a time; and when it starts and ends."""
    animations = document.items("animations")
    if not animations:
        raise MeshError("it holds no animation")
    names = [str(a.get("name", i)) for i, a in enumerate(animations)]
    if name is None and len(animations) > 1:
        raise MeshError(f"it holds {len(animations)} animations ({', '.join(names)}): name one of them with array")
    if name is not None and name not in names:
        raise MeshError(f"it holds no animation called {name!r}; it has {', '.join(names)}")
    animation = animations[0 if name is None else names.index(name)]
    channels: dict[tuple[int, str], Channel] = {}
    ends: list[float] = []
    for channel in animation.get("channels", []):
        target = channel["target"]
        if "node" not in target:
            continue
        if target["path"] not in ("translation", "rotation", "scale", "weights"):
            raise MeshError(f"its animation moves {target['path']!r}, which weft does not read")
        sampler = animation["samplers"][channel["sampler"]]
        times = document.array(sampler["input"]).astype(np.float64)
        if len(times) == 0 or np.any(np.diff(times) <= 0.0):
            raise MeshError("its animation has keyframes that are not in the order of their times")
        values = document.array(sampler["output"]).astype(np.float64)
        # morph weights are stored one after the other
        values = values.reshape(len(times) * (3 if sampler.get("interpolation") == "CUBICSPLINE" else 1), -1)
        channels[target["node"], target["path"]] = _channel(
            times, values, sampler.get("interpolation", "LINEAR"), turns=target["path"] == "rotation"
        )
        ends += [float(times[0]), float(times[-1])]
    if not channels:
        raise MeshError("its animation moves nothing")
    return channels, min(ends), max(ends)


def _channel(times: Floats, values: Floats, interpolation: str, *, turns: bool) -> Channel:
    """A property between its keyframes, as glTF defines it (specification, appendix C)."""
    if interpolation not in ("STEP", "LINEAR", "CUBICSPLINE"):
        raise MeshError(f"its animation uses the interpolation {interpolation!r}, which glTF does not know")
    cubic = interpolation == "CUBICSPLINE"
    keys = values[1::3] if cubic else values

    def at(time: float) -> Floats:
        i = int(np.searchsorted(times, time, side="right")) - 1
        if i < 0 or i >= len(times) - 1 or interpolation == "STEP":
            return keys[min(max(i, 0), len(times) - 1)]
        gap = times[i + 1] - times[i]
        u = (time - times[i]) / gap
        if cubic:
            leaving, arriving = gap * values[3 * i + 2], gap * values[3 * i + 3]
            blend = u * u * (3.0 - 2.0 * u)
            between = (1.0 - blend) * keys[i] + blend * keys[i + 1]
            between += u * (1.0 - u) * ((1.0 - u) * leaving - u * arriving)
            return between
        if turns:
            return _slerp(keys[i], keys[i + 1], u)
        return (1.0 - u) * keys[i] + u * keys[i + 1]

    return at


def _slerp(a: Floats, b: Floats, u: float) -> Floats:
    """Between two unit quaternions, the shorter way."""
    cosine = float(a @ b)
    if cosine < 0.0:
        b, cosine = -b, -cosine
    if cosine > 0.9995:
        return (1.0 - u) * a + u * b
    angle = np.arccos(cosine)
    blended: Floats = (np.sin((1.0 - u) * angle) * a + np.sin(u * angle) * b) / np.sin(angle)
    return blended


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


def _read_part(document: GltfDocument, node: int) -> Part:
    """The mesh of a node, its primitives together, vertices that always move alike made one."""
    said = document.items("nodes")[node]
    mesh = document.items("meshes")[said["mesh"]]
    skinned = "skin" in said
    points, faces, targets, joints, shares, count = [], [], [], [], [], 0
    for primitive in mesh["primitives"]:
        if primitive.get("mode", TRIANGLES) != TRIANGLES:
            raise MeshError(f"its mesh {mesh.get('name', said['mesh'])} is not made of single triangles")
        attributes = primitive["attributes"]
        position = document.array(attributes["POSITION"]).astype(np.float64)
        corners = document.array(primitive["indices"]) if "indices" in primitive else np.arange(len(position))
        if len(corners) % 3 or (len(corners) and int(corners.max()) >= len(position)):
            raise MeshError(f"its mesh {mesh.get('name', said['mesh'])} has triangles that do not fit its vertices")
        points.append(position)
        faces.append(corners.astype(np.int64).reshape(-1, 3) + count)
        targets.append([_target(document, t, len(position)) for t in primitive.get("targets", [])])
        if skinned:
            which, much = _influences(document, attributes)
            joints.append(which)
            shares.append(much)
        count += len(position)
    if len({len(t) for t in targets}) > 1 or len({j.shape[1] for j in joints}) > 1:
        raise MeshError(f"the primitives of its mesh {mesh.get('name', said['mesh'])} do not bend alike")
    moved = np.concatenate([np.reshape(t, (len(t), -1, 3)) for t in targets], axis=1)
    weights = np.array(said.get("weights", mesh.get("weights", np.zeros(len(moved)))), dtype=np.float64)
    part = Part(
        node,
        np.concatenate(points),
        np.concatenate(faces).astype(np.int32),
        moved,
        weights,
        np.concatenate(joints) if skinned else None,
        np.concatenate(shares) if skinned else None,
        said.get("skin", -1),
    )
    return _merged(part)


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
        faces=faces,
        targets=part.targets[:, keep],
        joints=None if part.joints is None else part.joints[keep],
        shares=None if part.shares is None else part.shares[keep],
    )

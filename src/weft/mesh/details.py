"""What a mesh carries besides its shape: texture coordinates, normals, polygons, names of its faces, values at its vertices.

None of it changes how cloth moves by itself. It comes from a file, chooses pins and materials by name, and goes to the files
that other programs read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from weft.errors import MeshError
from weft.mesh.topology import Floats, Ints, read_only

# the kinds of names that files give to triangles, in the order in which a name is looked up
OBJECT, GROUP, PANEL, MATERIAL = LABELS = ("object", "group", "panel", "material")
# the first of these that a mesh has is written to USD as subsets, whose family it names
GROUPS = (PANEL, GROUP)
# a vertex belongs to a group where the group's weight is above this: weights are 0 to 1, most of them 0 or 1
IN_GROUP = 0.5


@dataclass(frozen=True)
class Labels:
    """A name for each triangle: of its object, its panel or its material."""

    names: tuple[str, ...]
    index: Ints
    """(m,) the number of each triangle's name; -1 for none"""

    def faces(self, name: str) -> NDArray[np.bool_]:
        """(m,) which triangles have this name."""
        has: NDArray[np.bool_] = self.index == (self.names.index(name) if name in self.names else -2)
        return has


@dataclass(frozen=True)
class Details:
    """What a mesh of n vertices and m triangles carries besides its shape; arrays that are None are not there."""

    corner_uv: Floats | None = None
    """(m, 3, 2) texture coordinates, one a corner: at a seam of the texture a vertex has several"""
    corner_normals: Floats | None = None
    """(m, 3, 3) unit normals for shading, one a corner"""
    polygons: Ints | None = None
    """(m,) the polygon that each triangle was cut from; triangles of one polygon follow each other"""
    labels: Mapping[str, Labels] = field(default_factory=dict)
    """names of the triangles by their kind: "object", "group", "panel", "material" """
    attributes: Mapping[str, Floats] = field(default_factory=dict)
    """(n,) or (n, k) values at the vertices: weights of vertex groups, colours, painted values"""

    def __repr__(self) -> str:
        names = ("corner_uv", "corner_normals", "polygons")
        there = [name.replace("_", " ") for name in names if getattr(self, name) is not None]
        there += [f"{kind}s {', '.join(self.names(kind))}" for kind in self.labels]
        there += [f"attributes {', '.join(self.attributes)}"] if self.attributes else []
        return f"<Details: {'; '.join(there) or 'none'}>"

    @property
    def empty(self) -> bool:
        """Whether there is nothing at all."""
        arrays = self.corner_uv, self.corner_normals, self.polygons
        return all(array is None for array in arrays) and not self.labels and not self.attributes

    def take(self, vertices: ArrayLike | None, corners: NDArray[Any] | None) -> Self:
        """The details of a mesh whose vertices and corners are these of the given one; None leaves them as they are.

        `corners` is (m, 3), numbers in the list of all corners: 3 f + k is corner k of triangle f.
        """
        changes: dict[str, Any] = {}
        if vertices is not None:
            chosen = np.asarray(vertices)
            changes["attributes"] = {name: value[chosen] for name, value in self.attributes.items()}
        if corners is not None:
            for name in ("corner_uv", "corner_normals"):
                value = getattr(self, name)
                # a part may be without any where the whole mesh has some
                taken = None if value is None else value.reshape(-1, value.shape[2])[corners]
                changes[name] = taken if taken is not None and taken.any() else None
            rows = corners[:, 0] // 3
            changes["polygons"] = None if self.polygons is None else self.polygons[rows]
            changes["labels"] = {kind: Labels(own.names, own.index[rows]) for kind, own in self.labels.items()}
        return replace(self, **changes)

    def turned(self) -> Self:
        """The details of the same triangles with their corners in the opposite order."""
        return replace(
            self,
            corner_uv=None if self.corner_uv is None else self.corner_uv[:, ::-1],
            corner_normals=None if self.corner_normals is None else self.corner_normals[:, ::-1],
        )

    def rotated(self, matrix: Floats) -> Self:
        """The details under a 3x3 matrix: normals follow its inverse transpose."""
        if self.corner_normals is None:
            return self
        moved = self.corner_normals @ np.linalg.inv(matrix)
        lengths = np.linalg.norm(moved, axis=2, keepdims=True)
        return replace(self, corner_normals=np.divide(moved, lengths, out=np.zeros_like(moved), where=lengths > 0.0))

    def named(self, kind: str, name: str, count: int) -> Self:
        """All `count` triangles with one name of this kind."""
        return replace(self, labels={**self.labels, kind: Labels((name,), np.zeros(count, dtype=np.int32))})

    def names(self, kind: str) -> tuple[str, ...]:
        """The names of this kind that at least one triangle has."""
        if kind not in self.labels:
            return ()
        labels = self.labels[kind]
        used = set(np.unique(labels.index).tolist())
        return tuple(name for number, name in enumerate(labels.names) if number in used)

    def checked(self, vertex_count: int, face_count: int) -> Self:
        """Read-only copies in the right types, or a `MeshError` that names the array that does not fit the mesh."""
        expected = {"corner_uv": (face_count, 3, 2), "corner_normals": (face_count, 3, 3)}
        arrays = {name: _checked(name, getattr(self, name), shape) for name, shape in expected.items()}
        return replace(
            self,
            **arrays,
            polygons=None if self.polygons is None else _checked_index("polygons", self.polygons, face_count),
            labels=MappingProxyType({str(k): _checked_labels(str(k), v, face_count) for k, v in self.labels.items()}),
            attributes=MappingProxyType(
                {str(k): _checked_attribute(str(k), v, vertex_count) for k, v in self.attributes.items()}
            ),
        )


def join_details(pieces: Sequence[Details], vertex_counts: Sequence[int], face_counts: Sequence[int]) -> Details:
    """The details of several meshes as those of one: normals only if each has them, everything else if any has.

    Texture coordinates are 0 where a mesh has none.
    """
    normals = [piece.corner_normals for piece in pieces if piece.corner_normals is not None]

    polygons, next_polygon = [], 0
    for piece, count in zip(pieces, face_counts, strict=True):
        own = np.arange(count, dtype=np.int32) if piece.polygons is None else piece.polygons
        polygons.append(own + np.int32(next_polygon))
        next_polygon += int(own.max(initial=-1)) + 1
    labels: dict[str, Labels] = {}
    for kind in dict.fromkeys(kind for piece in pieces for kind in piece.labels):
        names: dict[str, int] = {}
        index = []
        for piece, count in zip(pieces, face_counts, strict=True):
            label = piece.labels.get(kind, Labels((), np.full(count, -1, dtype=np.int32)))
            numbers = np.array([names.setdefault(name, len(names)) for name in label.names] + [-1], dtype=np.int32)
            index.append(numbers[label.index])
        labels[kind] = Labels(tuple(names), np.concatenate(index))
    attributes = {}
    for name in dict.fromkeys(name for piece in pieces for name in piece.attributes):
        widths = {piece.attributes[name].shape[1:] for piece in pieces if name in piece.attributes}
        if len(widths) == 1:
            # outside of a vertex group the weight is 0
            missing = [np.zeros((count, *next(iter(widths)))) for count in vertex_counts]
            values = [piece.attributes.get(name, zero) for piece, zero in zip(pieces, missing, strict=True)]
            attributes[name] = np.concatenate(values)
    return Details(
        join_uv([piece.corner_uv for piece in pieces], [(count, 3, 2) for count in face_counts]),
        np.concatenate(normals) if pieces and len(normals) == len(pieces) else None,
        None if all(piece.polygons is None for piece in pieces) else np.concatenate(polygons),
        labels,
        attributes,
    )


def join_uv(pieces: Sequence[Floats | None], shapes: Sequence[tuple[int, ...]]) -> Floats | None:
    """Texture coordinates of several meshes one after the other, 0 where a mesh has none; None if no mesh has any."""
    if all(own is None for own in pieces):
        return None
    return np.concatenate([np.zeros(shape) if own is None else own for own, shape in zip(pieces, shapes, strict=True)])


def find_name(details: Details, name: str) -> tuple[str, str] | None:
    """The kind and the name of the label that a user means: an object, else a group, a panel or a material."""
    return next(((kind, name) for kind in LABELS if name in details.names(kind)), None)


def _checked(name: str, values: ArrayLike | None, shape: tuple[int, ...]) -> Floats | None:
    if values is None:
        return None
    array = np.array(values, dtype=np.float64)
    if array.shape != shape:
        raise MeshError(
            f"{name} must have the shape {shape}, one row for each corner of each triangle, not {array.shape}"
        )
    if not np.isfinite(array).all():
        face = int((~np.isfinite(array).all(axis=(1, 2))).argmax())
        raise MeshError(f"{name} has NaN or infinite numbers, first in triangle {face}")
    return read_only(array)


def _checked_index(name: str, values: ArrayLike, count: int) -> Ints:
    array = np.asarray(values)
    if array.shape != (count,) or array.dtype.kind not in "iu":
        raise MeshError(f"{name} must be one whole number for each of the {count} triangles, not {array.shape}")
    return read_only(array.astype(np.int32))


def _checked_labels(kind: str, labels: Any, count: int) -> Labels:
    """Labels as such, or as one text for each triangle."""
    if not isinstance(labels, Labels):
        texts = [str(text) for text in labels]
        number = {text: i for i, text in enumerate(dict.fromkeys(texts))}
        labels = Labels(tuple(number), np.array([number[text] for text in texts], dtype=np.int32))
    index = _checked_index(f"the label {kind!r}", labels.index, count)
    if len(index) and not -1 <= int(index.min()) <= int(index.max()) < len(labels.names):
        raise MeshError(f"the label {kind!r} has numbers for which there is no name")
    return Labels(tuple(str(name) for name in labels.names), index)


def _checked_attribute(name: str, values: ArrayLike, count: int) -> Floats:
    array = np.array(values, dtype=np.float64)
    if array.ndim not in (1, 2) or len(array) != count:
        raise MeshError(f"the attribute {name!r} must have one row for each of the {count} vertices, not {array.shape}")
    if not np.isfinite(array).all():
        vertex = int((~np.isfinite(array.reshape(count, -1)).all(axis=1)).argmax())
        raise MeshError(f"the attribute {name!r} is NaN or infinite, first at vertex {vertex}")
    return read_only(array)

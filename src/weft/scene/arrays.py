"""What a scene may hold in Python that its file cannot: meshes and motions as arrays.

In a file such values stand in npz files beside it; in the JSON of a cache, under their checksums.
"""

import hashlib
import os
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Annotated, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import PlainSerializer, PlainValidator, TypeAdapter

from weft.errors import MeshError
from weft.mesh import TriMesh, as_mesh
from weft.mesh.convert import on_host
from weft.scene.model import FileName

# how arrays are named in the JSON of a scene: this, and the checksum of their content
PREFIX = "arrays:"

_FILE: TypeAdapter[str] = TypeAdapter(FileName)


class Samples:
    """Positions of vertices at times, (samples, vertices, 3): an array that equals another one with the same content."""

    def __init__(self, positions: ArrayLike) -> None:
        array = np.array(on_host(positions), dtype=np.float64)
        if array.ndim != 3 or array.shape[2] != 3 or 0 in array.shape:
            raise MeshError(f"the positions of a sequence have the shape (samples, vertices, 3), not {array.shape}")
        bad = ~np.isfinite(array).all(axis=(1, 2))
        if bad.any():
            vertex = int((~np.isfinite(array[bad.argmax()]).all(axis=1)).argmax())
            raise MeshError(f"sample {int(bad.argmax())} has NaN or infinite coordinates, first at vertex {vertex}")
        array.setflags(write=False)
        self.positions: NDArray[np.float64] = array

    @cached_property
    def digest(self) -> str:
        """A checksum of the shape and the numbers."""
        return hashlib.sha256(str(self.positions.shape).encode() + self.positions.tobytes()).hexdigest()[:32]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Samples) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Samples{self.positions.shape}"


def _name_of(value: Any) -> Any:
    """Arrays by their checksum, everything else as it is."""
    return f"{PREFIX}{value.digest}" if isinstance(value, TriMesh | Samples) else value


def _read_mesh(value: Any) -> Any:
    """A file name, or a mesh of any kind that weft takes."""
    if value is None or isinstance(value, str | os.PathLike):
        return None if value is None else _FILE.validate_python(value)
    try:
        return as_mesh(value)
    except MeshError as error:
        raise ValueError(str(error)) from None


def _read_samples(value: Any) -> Any:
    if value is None or isinstance(value, Samples):
        return value
    if isinstance(value, str):
        raise ValueError("is an array in Python; a scene file names a file instead")
    try:
        return Samples(value)
    except (MeshError, ValueError, TypeError) as error:
        raise ValueError(str(error)) from None


MeshField = Annotated[str | TriMesh | None, PlainValidator(_read_mesh), PlainSerializer(_name_of)]
SamplesField = Annotated[Samples | None, PlainValidator(_read_samples), PlainSerializer(_name_of)]


def arrays_in(scene: Any) -> dict[str, TriMesh | Samples]:
    """All arrays of a scene, by their names in its JSON."""
    found: dict[str, TriMesh | Samples] = {}

    def visit(value: Any) -> None:
        if isinstance(value, TriMesh | Samples):
            found[_name_of(value)] = value
        elif isinstance(value, tuple):
            for item in value:
                visit(item)
        elif hasattr(type(value), "model_fields"):
            for name in type(value).model_fields:
                visit(getattr(value, name))

    visit(scene)
    return found


def put_back(table: Any, read: Callable[[str], Any]) -> Any:
    """The JSON of a scene with the arrays in it that their names mean; `read` gives them."""
    if isinstance(table, str) and table.startswith(PREFIX):
        return read(table)
    if isinstance(table, Mapping):
        return {key: put_back(value, read) for key, value in table.items()}
    return [put_back(value, read) for value in table] if isinstance(table, list) else table

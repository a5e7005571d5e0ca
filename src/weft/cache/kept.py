"""What a cache keeps besides its frames: the arrays of a scene that was made in Python, and the details of its meshes.

    weft/scene/<checksum>.npz    a mesh, or positions of a sequence, that the scene was given as arrays
    weft/details/3.npz           names, texture coordinates, polygons and attributes of body 3, for exports

Both are written once, when the cache is made. Its metadata have the checksums of the details.
"""

import json
import zipfile
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.cache import layout
from weft.errors import CacheError
from weft.mesh import Details, TriMesh
from weft.mesh.files import load_mesh, read_arrays
from weft.mesh.formats.raw import arrays_of_details, check_archive, details_from_arrays, pack_arrays, write_npz
from weft.scene.arrays import PREFIX, Samples, arrays_in, put_back

if TYPE_CHECKING:
    from weft.scene import Scene

# the array of a file with the positions of a sequence
_POSITIONS = "vertices"


def _scene_path(root: Path, name: str) -> Path:
    return root / "weft" / "scene" / f"{name.removeprefix(PREFIX)}.npz"


def _details_path(root: Path, body: int) -> Path:
    return root / "weft" / "details" / f"{body}.npz"


def write_scene_arrays(root: Path, scene: "Scene | None") -> None:
    """Write those arrays of a scene that the cache does not have yet."""
    for name, value in arrays_in(scene).items():
        path = _scene_path(root, name)
        if path.exists():
            continue
        path.parent.mkdir(exist_ok=True)
        data = write_npz(value) if isinstance(value, TriMesh) else pack_arrays({_POSITIONS: value.positions})
        layout.write_atomic(path, lambda file, data=data: file.write(data))  # type: ignore[misc]


def read_scene(root: Path, meta: dict[str, Any]) -> "Scene":
    """The scene that the frames of a cache with these metadata come from."""
    from weft.scene import Scene

    kept = meta["scene"]
    if kept is None:
        raise CacheError(f"{root} does not say which scene it comes from")
    try:
        table = put_back(json.loads(kept["text"]), partial(_read_scene_array, root))
        return Scene.model_validate(table).at(kept["base"], kept["source"])
    except (ValueError, RecursionError) as error:
        first = str(error).splitlines()[0]
        raise CacheError(f"the scene of {root} (weft {meta['version']}) cannot be read: {first}") from error


def _read_scene_array(root: Path, name: str) -> Any:
    """The mesh or the positions that the JSON of a scene names."""
    path = _scene_path(root, name)
    if not name.removeprefix(PREFIX).isalnum() or not path.is_file():
        raise CacheError(f"{root} is damaged: {path} is missing")
    try:
        with np.load(path, allow_pickle=False) as arrays:
            is_mesh = "faces" in arrays.files
        value = load_mesh(path) if is_mesh else Samples(read_arrays(path, (_POSITIONS,))[_POSITIONS])
    except Exception as error:
        # a damaged archive makes zipfile, zlib and numpy raise all kinds of errors
        raise CacheError(f"{path} is damaged and cannot be read ({layout.brief(error)})") from error
    if f"{PREFIX}{value.digest}" != name:
        raise CacheError(f"{path} is damaged: its content does not fit its checksum")
    return value


def write_details(root: Path, details: Sequence[Details]) -> dict[str, int]:
    """Write the details of each body that has some; returns the checksums of the files, by the numbers of the bodies."""
    checksums = {}
    for body, own in enumerate(details):
        if not own.empty:
            path = _details_path(root, body)
            path.parent.mkdir(exist_ok=True)
            data = pack_arrays(arrays_of_details(own))
            layout.write_atomic(path, lambda file, data=data: file.write(data))  # type: ignore[misc]
            checksums[str(body)] = zlib.crc32(data)
    return checksums


def read_details(root: Path, body: int, checksum: int | None, vertex_count: int, face_count: int) -> Details:
    """The details of a body, which has none where there is no checksum."""
    if checksum is None:
        return Details()
    path = _details_path(root, body)
    try:
        data = path.read_bytes()
        if zlib.crc32(data) != checksum:
            raise CacheError(f"{path} is damaged: its content does not fit its checksum")
        check_archive(path, [item.removesuffix(".npy") for item in zipfile.ZipFile(path).namelist()])
        with np.load(path, allow_pickle=False) as arrays:
            return details_from_arrays({name: arrays[name] for name in arrays.files}).checked(vertex_count, face_count)
    except FileNotFoundError:
        raise CacheError(f"{root} is damaged: {path} is missing") from None
    except CacheError:
        raise
    except Exception as error:
        # a file that was made by hand makes zipfile, zlib and numpy raise all kinds of errors
        raise CacheError(f"{path} is damaged and cannot be read ({layout.brief(error)})") from error

"""The Zarr arrays of a cache: how they are made, and opened with all that they state tested."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import zarr
from zarr.codecs import BloscCodec, Crc32cCodec

from weft.cache import layout
from weft.cache.layout import face_count, vertex_count
from weft.errors import CacheError
from weft.scene.size import machine_memory


def create_array(path: Path, values: npt.NDArray[Any]) -> None:
    """Create an array that is written once, in one chunk."""
    array = zarr.create_array(
        path,
        shape=values.shape,
        chunks=tuple(max(1, n) for n in values.shape),
        dtype=values.dtype,
        compressors=_compressors(values.dtype.itemsize),
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )
    array[:] = values
    layout.seal_array(path)


def create_frames(path: Path, frames: int, vertices: int) -> None:
    """Create an array of frames, one chunk a frame; other programs read missing frames as NaN."""
    zarr.create_array(
        path,
        shape=(frames, vertices, 3),
        chunks=(1, max(1, vertices), 3),
        dtype=np.float64,
        fill_value=np.nan,
        compressors=_compressors(8),
        chunk_key_encoding={"name": "default", "separator": "."},
        config={"write_empty_chunks": True},
    )
    layout.seal_array(path)


def _compressors(itemsize: int) -> list[Any]:
    """Lossless compression; the checksum covers the compressed bytes, so it is tested before decompression."""
    return [BloscCodec(cname="zstd", clevel=5, shuffle="shuffle", typesize=itemsize), Crc32cCodec()]


def open_array(root: Path, name: str, mode: Literal["r", "r+"], meta: Mapping[str, Any]) -> Any:
    """One of the cache's Zarr arrays; an error if it is not as the metadata of the cache say."""
    path = root / name / "zarr.json"
    if not path.is_file():
        raise CacheError(f"{root} is damaged: {path} is missing")
    # caches that were made before arrays were sealed have no checksum there
    if meta.get("sealed_arrays"):
        layout.check_array(root / name)
    try:
        array = zarr.open_array(root / name, mode=mode, zarr_format=3)
    except Exception as error:
        raise CacheError(f"{root} is damaged: {path} cannot be read ({layout.brief(error)})") from error
    vertices, dtype = vertex_count(dict(meta)), np.int32 if name == "faces" else np.float64
    least = {"faces": (face_count(dict(meta)), 3), "uv": (vertices, 2)}.get(name, (meta["frames"], vertices, 3))
    shape = array.shape
    if (
        array.dtype != dtype
        or len(shape) != len(least)
        or shape[-1] != least[-1]
        or any(have < need for have, need in zip(shape, least, strict=True))
    ):
        raise CacheError(f"{root} is damaged: {path} states {array.dtype} {shape}, which does not fit the cache")
    # a few bytes on disk can state an array of any size, which Zarr would fill
    read_at_once = shape if name in ("faces", "uv") else shape[1:]
    size = max(math.prod(read_at_once), math.prod(array.chunks)) * dtype().itemsize
    if size > machine_memory():
        raise CacheError(
            f"{root}: {path} states {size / 1e9:.2g} GB to read at once, more than the memory of this machine"
        )
    return array

"""Point caches: the positions of a mesh's vertices at every sample, without its triangles (PC2 and MDD).

PC2 (3ds Max, Blender) is 32 bytes of header and float32 numbers, little-endian. MDD (LightWave, Blender, modo) is two
counts, a time for each sample, and float32 numbers, big-endian.
"""

import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError

# signature, version, points, start, samples a frame, samples
PC2_HEADER = struct.Struct("<12siiffi")
PC2_SIGNATURE = b"POINTCACHE2\0"
# samples, points
MDD_HEADER = struct.Struct(">ii")

Singles = NDArray[np.float32]


def read_pc2(path: str | Path) -> Singles:
    """The samples of a PC2 file, (samples, points, 3), memory-mapped."""
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(PC2_HEADER.size)
    if len(head) < PC2_HEADER.size or not head.startswith(PC2_SIGNATURE):
        raise MeshError(f"{path} is no PC2 file")
    _, version, points, _, _, samples = PC2_HEADER.unpack(head)
    if version != 1 or points < 0 or samples < 0:
        raise MeshError(f"{path} is damaged, or a PC2 of another version ({version})")
    return _samples(path, "<f4", PC2_HEADER.size, samples, points)


def read_mdd(path: str | Path) -> tuple[Singles, NDArray[np.float64]]:
    """The samples of an MDD file, (samples, points, 3), memory-mapped, and their times, s."""
    path = Path(path)
    with path.open("rb") as file:
        head = file.read(MDD_HEADER.size)
        if len(head) < MDD_HEADER.size:
            raise MeshError(f"{path} is no MDD file")
        samples, points = MDD_HEADER.unpack(head)
        if samples < 0 or points < 0 or path.stat().st_size != MDD_HEADER.size + 4 * samples + 12 * samples * points:
            raise MeshError(f"{path} is no MDD file, or cut short: its size does not fit its header")
        times = np.frombuffer(file.read(4 * samples), ">f4").astype(np.float64)
    return _samples(path, ">f4", MDD_HEADER.size + 4 * samples, samples, points), times


def _samples(path: Path, kind: str, start: int, samples: int, points: int) -> Singles:
    if path.stat().st_size < start + 12 * points * samples:
        raise MeshError(f"{path} is cut short: it says {samples} samples of {points} points")
    if not points or not samples:
        return np.zeros((samples, points, 3), np.float32)
    return np.memmap(path, dtype=kind, mode="r", offset=start, shape=(samples, points, 3))

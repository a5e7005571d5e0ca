"""Reading animated meshes: files with samples, and folders of mesh files. Errors are a `MeshError` that names the file."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, WeftError
from weft.mesh.details import Details
from weft.mesh.files import USD_SUFFIXES, read_arrays
from weft.mesh.formats.raw import RawMesh, pick, short_reason
from weft.mesh.topology import Ints
from weft.mesh.validate import Floats, check_finite

POINT_CACHES = (".pc2", ".mdd")

# samples a second of formats that store motions instead of frames
DEFAULT_GLTF_FPS = 30.0
# keyframes a second from which on they are taken to be the frames of an animation; fewer are poses to blend between
LEAST_KEYFRAME_RATE = 12.0
# samples that a motion may have: nine hours at 30 a second. More come from damaged times, and their list alone fills memory
MOST_SAMPLES = 1_000_000


class MeshSequence:
    """An animated mesh: fixed triangles, and the positions of their vertices at a list of times."""

    def __init__(
        self,
        times: Sequence[float],
        vertex_count: int,
        faces: Ints | None,
        read: Callable[[int], Floats],
        *,
        about: str = "",
        details: Details | None = None,
    ) -> None:
        self.times = tuple(times)
        """of the samples, s, ascending from 0"""
        self.vertex_count = vertex_count
        self.faces = faces
        """(m, 3); None where the file has vertices only"""
        self.about = about
        """the format, and the units, up axis and rate that it states or that are assumed"""
        self.details = details or Details()
        """names, texture coordinates and polygons of the mesh"""
        self._read = read

    def part(self, name: str) -> "MeshSequence":
        """One object of the sequence."""
        if self.faces is None:
            raise MeshError(f"it has no object {name!r}: it has vertices only")
        chosen = pick(RawMesh(np.zeros((self.vertex_count, 3)), self.faces, details=self.details), name)
        rows, faces = chosen.source, chosen.faces.astype(np.int32)
        assert rows is not None

        def read(sample: int) -> Floats:
            return self._read(sample)[rows]

        return MeshSequence(self.times, len(rows), faces, read, about=self.about, details=chosen.details)

    def __len__(self) -> int:
        return len(self.times)

    def vertices(self, sample: int) -> Floats:
        """(n, 3) positions at one sample, read from the file where they are not in memory."""
        try:
            vertices = self._read(sample)
        except (OSError, WeftError):
            raise
        except Exception as error:
            raise MeshError(f"sample {sample} is damaged ({short_reason(error)})") from error
        check_finite(vertices)
        return vertices


def read_sequence(
    path: str | Path, *, fps: float | None = None, array: str | None = None, object: str | None = None
) -> MeshSequence:
    """Open an animated mesh: an npz file, a folder of OBJ or PLY files, an animated GLB, glTF, USD or Alembic file, or the
    vertices alone from a PC2 or MDD file.

    `fps` is how many samples a second there are: needed where the files have no times (npz, PC2, folders), the rate at
    which a GLB is sampled (by default that of its keyframes if they are frames, at least 12 a second, else 30), and
    what replaces the rate that a USD file states. `array` names the array of an npz file, or the animation of a GLB
    file that has several. `object` picks one object of a file that has several.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if not path.exists():
        raise MeshError(f"no such file: {path}")
    try:
        sequence = _open_sequence(path, ending, fps, array)
        if sequence is not None:
            return sequence if object is None else sequence.part(object)
    except OSError as error:
        raise MeshError(f"{path}: cannot be read: {error.strerror or error}") from None
    except MeshError as error:
        raise MeshError(f"{path.name}: {error}") from None
    except WeftError:
        raise
    except Exception as error:
        raise MeshError(f"{path.name}: it is no {ending} file, or a damaged one ({short_reason(error)})") from error
    raise MeshError(
        f"{path.name} is no mesh sequence that weft reads: those are npz, GLB, glTF, USD, Alembic, PC2 and MDD "
        "files and folders of OBJ or PLY files"
    )


def _open_sequence(path: Path, ending: str, fps: float | None, array: str | None) -> MeshSequence | None:
    if path.is_dir():
        return _read_folder(path, _needed(fps))
    if ending == ".npz":
        return _read_npz(path, _needed(fps), array or "vertices")
    if ending in (".glb", ".gltf"):
        return _read_gltf(path, fps, array)
    if ending in USD_SUFFIXES:
        return _read_usd(path, fps)
    if ending == ".abc":
        return _read_alembic(path)
    return _read_points(path, fps) if ending in POINT_CACHES else None


def natural(name: str) -> list[tuple[int, int, str]]:
    """A sort key that puts frame_2 before frame_10."""
    pieces = re.split(r"(\d+)", name)
    return [(0, int(piece), piece) if piece.isdecimal() else (1, 0, piece) for piece in pieces if piece]


def _needed(fps: float | None) -> float:
    if fps is None:
        raise MeshError("does not say how fast it goes: give fps, the number of samples a second")
    return fps


def _read_npz(path: Path, fps: float, array: str) -> MeshSequence:
    arrays = read_arrays(path, (array,), optional=("faces",))
    samples, faces = arrays[array], arrays.get("faces")
    if samples.ndim != 3 or samples.shape[2] != 3 or samples.dtype.kind not in "fiu":
        raise MeshError(f"{array} must be numbers (samples, vertices, 3), not {samples.dtype} {samples.shape}")
    if 0 in samples.shape:
        raise MeshError(f"{array} is empty: its shape is {samples.shape}")
    bad = ~np.isfinite(samples).all(axis=(1, 2))
    if bad.any():
        first = int(bad.argmax())
        vertex = int((~np.isfinite(samples[first]).all(axis=1)).argmax())
        raise MeshError(f"{array} has NaN or infinite coordinates, first in sample {first} at vertex {vertex}")
    if faces is not None:
        faces = _checked_faces(faces, samples.shape[1])
    return MeshSequence(
        [i / fps for i in range(len(samples))],
        samples.shape[1],
        faces,
        lambda sample: samples[sample].astype(np.float64),
        about=f"npz: without units and times, taken as metres, y up, {fps:g} a second",
    )


def _read_gltf(path: Path, fps: float | None, animation: str | None) -> MeshSequence:
    from weft.mesh.formats.gltf_animation import GltfAnimation

    moving = GltfAnimation(path, animation)
    own = moving.rate if moving.rate is not None and moving.rate >= LEAST_KEYFRAME_RATE else None
    fps = fps or own or DEFAULT_GLTF_FPS
    start, end = moving.start, moving.end
    if not (end - start) * fps < MOST_SAMPLES:
        raise MeshError(
            f"its animation lasts {end - start:.3g} s, which at {fps:g} samples a second is more than the "
            f"{MOST_SAMPLES:,} samples that weft reads: give a smaller fps"
        )
    # the last sample is at the end or just after it, where the last pose is held
    count = int(np.ceil((end - start) * fps - 1e-6)) + 1
    return MeshSequence(
        [i / fps for i in range(count)],
        moving.vertex_count,
        moving.faces,
        lambda sample: moving.vertices(start + sample / fps),
        about=f"glTF: metres, y up; sampled {fps:g} times a second",
        details=moving.details,
    )


def _read_usd(path: Path, fps: float | None) -> MeshSequence:
    from weft.mesh.formats.usd import UsdTimes, read_stage

    times = UsdTimes(path)
    first = read_stage(times.stage, times.codes[0])
    rate = fps or times.codes_per_second
    seconds = [(code - times.codes[0]) / rate for code in times.codes]
    return MeshSequence(
        seconds,
        len(first.vertices),
        first.faces.astype(np.int32),
        lambda i: read_stage(times.stage, times.codes[i]).vertices,
        about=f"USD: {times.units}, {rate:g} time codes a second",
        details=first.details,
    )


def _read_alembic(path: Path) -> MeshSequence:
    from weft.mesh.formats.alembic import AlembicScene

    scene = AlembicScene(path)
    if len(scene.times) < 2:
        raise MeshError("it holds no animation: no mesh in it has more than one sample")
    first = scene.read(0)
    return MeshSequence(
        [time - scene.times[0] for time in scene.times],
        len(first.vertices),
        first.faces.astype(np.int32),
        lambda i: scene.read(i).vertices,
        about="Alembic: without units, taken as metres, y up",
        details=first.details,
    )


def _read_points(path: Path, fps: float | None) -> MeshSequence:
    from weft.mesh.formats.point_cache import read_mdd, read_pc2

    if path.suffix.lower() == ".pc2":
        samples, rate = read_pc2(path), _needed(fps)
        times = [i / rate for i in range(len(samples))]
    else:
        samples, stated = read_mdd(path)
        times = [float(t - stated[0]) for t in stated] if fps is None else [i / fps for i in range(len(samples))]
    if 0 in samples.shape or not np.all(np.diff(times) > 0.0):
        raise MeshError("it is empty, or its times do not ascend")
    about = f"{path.suffix[1:].upper()}: without units, taken as metres, y up"
    return MeshSequence(times, samples.shape[1], None, lambda i: np.asarray(samples[i], dtype=np.float64), about=about)


def _checked_faces(faces: NDArray, vertex_count: int) -> Ints:
    if faces.ndim == 3:
        raise MeshError(f"faces has the shape {faces.shape}: triangles must not change from sample to sample")
    if faces.ndim != 2 or faces.shape[1] != 3 or faces.dtype.kind not in "iu":
        raise MeshError(f"faces must be whole numbers (triangles, 3), not {faces.dtype} {faces.shape}")
    if len(faces) and (faces.min() < 0 or faces.max() >= vertex_count):
        raise MeshError(f"faces names vertices that do not exist: there are {vertex_count}")
    return faces.astype(np.int32)


def _read_folder(folder: Path, fps: float) -> MeshSequence:
    return read_files([f for f in folder.iterdir() if f.suffix.lower() in (".obj", ".ply")], fps)


def read_files(files: Sequence[Path], fps: float) -> MeshSequence:
    """OBJ or PLY files, one a sample, in the natural order of their names (frame_2 before frame_10)."""
    files = sorted(files, key=lambda f: natural(f.name))
    if not files:
        raise MeshError("the folder holds no OBJ or PLY files")
    endings = {f.suffix.lower() for f in files}
    if len(endings) > 1:
        raise MeshError("the folder holds both OBJ and PLY files: keep those of one sequence in a folder of their own")
    first = _read_file(files[0])
    same = _face_text(files[0])
    for file in files[1:]:
        text = _face_text(file)
        # equal face lines mean equal triangles; the number of vertices is compared too
        if text is None or text != same:
            _check_same(first, _read_file(file), files[0], file)
    return MeshSequence(
        [i / fps for i in range(len(files))],
        len(first.vertices),
        first.faces.astype(np.int32),
        lambda sample: _checked_count(_read_file(files[sample]), first, files[0], files[sample]),
        about=f"{files[0].suffix[1:].upper()} files: without units and times, taken as metres, y up, {fps:g} a second",
        details=first.details,
    )


def _read_file(file: Path) -> RawMesh:
    from weft.mesh.formats.obj import read_obj
    from weft.mesh.formats.ply import read_ply

    try:
        return (read_obj if file.suffix.lower() == ".obj" else read_ply)(file.read_bytes())
    except MeshError as error:
        raise MeshError(f"{file.name}: {error}") from None


def _face_text(file: Path) -> tuple[int, bytes] | None:
    """The number of vertices and the face lines of an OBJ file, to compare files cheaply; None for other formats."""
    if file.suffix.lower() != ".obj":
        return None
    data = file.read_bytes()
    return len(re.findall(rb"^\s*v\s", data, re.MULTILINE)), b"\n".join(
        re.findall(rb"^\s*f\s[^\r\n]*", data, re.MULTILINE)
    )


def _check_same(first: RawMesh, other: RawMesh, first_file: Path, file: Path) -> None:
    _checked_count(other, first, first_file, file)
    # the triangles of a concave polygon depend on where its corners are: polygons are compared where there are some
    one, two = first.loops, other.loops
    if one is not None and two is not None and all(map(np.array_equal, one, two)):
        return
    if not np.array_equal(first.faces, other.faces):
        if len(first.faces) != len(other.faces):
            what = f"{file.name} has {len(other.faces)} triangles and {first_file.name} has {len(first.faces)}"
        else:
            triangle = int((first.faces != other.faces).any(axis=1).argmax())
            what = f"triangle {triangle} of {file.name} is another than in {first_file.name}"
        raise MeshError(f"the triangles change: {what}; a sequence keeps its triangles")


def _checked_count(other: RawMesh, first: RawMesh, first_file: Path, file: Path) -> Floats:
    if len(first.vertices) != len(other.vertices):
        raise MeshError(
            f"the mesh changes: {file.name} has {len(other.vertices)} vertices and {first_file.name} has "
            f"{len(first.vertices)}; a sequence keeps its vertices"
        )
    return other.vertices

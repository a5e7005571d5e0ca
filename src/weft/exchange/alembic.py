"""Alembic (.abc, Ogawa): one polygon mesh a body below a transform of its name, with a sample a frame.

Points and velocities (m/s) are float32, in metres, y up; texture coordinates, else flat rest coordinates, are the UVs, one a
corner; `Cd` is the body's colour. Samples are at the times of the frames, so that frame f of the cache is frame f of a program
with the same rate. Bodies that do not move have one sample. Blender, Houdini, Maya, Cinema 4D and Unreal read it.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.errors import WeftError, missing_extra
from weft.exchange.selection import (
    Exported,
    Floats,
    Ints,
    Job,
    Selection,
    Singles,
    check_room,
    file_names,
    staged_file,
)
from weft.mesh.details import Details
from weft.mesh.polygons import polygon_loops

if TYPE_CHECKING:
    from weft.cache import Body


def write_abc(job: Job) -> Exported:
    """Write an Alembic file; the frames must have equal distances."""
    try:
        from alembic3d.Abc import OArchive
        from alembic3d.AbcCoreAbstract import TimeSampling
    except ImportError:
        raise missing_extra("alembic", "alembic3d") from None
    selection, path = job.selection, job.path
    cache = selection.cache
    steps = set(np.diff(selection.frames).tolist()) or {1}
    if len(steps) > 1 or min(steps) < 1:
        raise WeftError("the frames of an Alembic file have equal distances: choose them as first:last:step")
    # Alembic's library ends the whole process where the disk is full: points and velocities of all frames, and their triangles
    triangles = sum(body.faces.stop - body.faces.start for body in selection.bodies)
    check_room(path, 24 * len(selection.vertices) * len(selection.frames) + 48 * triangles + 100_000)
    with staged_file(job) as staged:
        archive = OArchive(str(staged))
        rate = cache.fps
        sampling = archive.addTimeSampling(TimeSampling(steps.pop() / rate, selection.frames[0] / rate))
        meshes = [
            _Mesh(archive, selection, body, name, sampling if moves else 0)
            for body, name, moves in zip(
                selection.bodies, file_names(selection.bodies), selection.moving(), strict=True
            )
        ]
        for frame in job.frames():
            x, v = cache.positions(frame), cache.velocities(frame)
            for mesh in meshes:
                mesh.write(x, v)
        # the file is complete when its objects are gone
        del mesh
        meshes.clear()
        del archive
        rounding = job.count_rounding(_reader(staged))
    return Exported([path], selection.frames, rounding)


class _Mesh:
    """One body in the archive."""

    def __init__(self, archive: Any, selection: Selection, body: "Body", name: str, sampling: int) -> None:
        from alembic3d.AbcGeom import GeometryScope, OPolyMesh, OV2fGeomParamSample, OXform
        from imath import IntArrayFromBuffer, V2fArrayFromBuffer

        self.body = body
        self.moves = sampling != 0
        faces = selection.faces(body)
        sizes, corners = polygon_loops(faces, selection.details(body).polygons)
        # Alembic's polygons are wound clockwise; the first corner of a larger one stays, so that fans have the same triangles
        starts, each = np.repeat(np.cumsum(sizes) - sizes, sizes), np.repeat(sizes, sizes)
        place = np.arange(len(corners)) - starts
        corners = corners[starts + np.where(each == 3, 2 - place, (-place) % each)]
        self._faces = IntArrayFromBuffer(np.ascontiguousarray(faces.ravel()[corners], dtype=np.int32))
        self._counts = IntArrayFromBuffer(sizes.astype(np.int32))
        uv = selection.corner_uv(body)
        self._uvs = None
        if uv is not None:
            texture = np.ascontiguousarray(uv.reshape(-1, 2)[corners], dtype=np.float32)
            self._uvs = OV2fGeomParamSample(V2fArrayFromBuffer(texture), GeometryScope.kFacevaryingScope)
        self._mesh = OPolyMesh(OXform(archive.getTop(), name), f"{name}Shape")
        self._schema = self._mesh.getSchema()
        self._schema.setTimeSampling(sampling)
        self._colour(selection.colour(body), body.vertices.stop - body.vertices.start)
        self._sets = face_sets(selection.details(body), faces)
        self._first = True

    def _colour(self, colour: Floats, vertices: int) -> None:
        """One linear colour, named as in Houdini and Maya; at every vertex, since Blender reads none of the whole mesh."""
        from alembic3d.AbcGeom import GeometryScope, OC3fGeomParam, OC3fGeomParamSample
        from imath import C3fArray, Color3f

        from weft.scene.colours import to_linear

        values = C3fArray(Color3f(*to_linear(colour).tolist()), vertices)
        param = OC3fGeomParam(self._schema.getArbGeomParams(), "Cd", False, GeometryScope.kVertexScope, 1)
        param.set(OC3fGeomParamSample(values, GeometryScope.kVertexScope))

    def write(self, x: Floats, v: Floats) -> None:
        """The next sample: positions and velocities, and at first the triangles and UVs; a body at rest has only the first."""
        if not (self.moves or self._first):
            return
        from alembic3d.AbcGeom import OPolyMeshSchemaSample
        from imath import V3fArrayFromBuffer

        points = V3fArrayFromBuffer(np.ascontiguousarray(x[self.body.vertices], dtype=np.float32))
        if self._first:
            more = () if self._uvs is None else (self._uvs,)
            sample = OPolyMeshSchemaSample(points, self._faces, self._counts, *more)
        else:
            sample = OPolyMeshSchemaSample(points)
        if self.moves:
            sample.setVelocities(V3fArrayFromBuffer(np.ascontiguousarray(v[self.body.vertices], dtype=np.float32)))
        self._schema.set(sample)
        if self._first:
            self._write_sets()
        self._first = False

    def _write_sets(self) -> None:
        """The face sets by which programs assign materials; they come after the polygons."""
        from alembic3d.AbcGeom import OFaceSetSchemaSample
        from imath import IntArrayFromBuffer

        for name, chosen in self._sets.items():
            own = self._schema.createFaceSet(name)
            own.getSchema().set(OFaceSetSchemaSample(IntArrayFromBuffer(chosen)))


def face_sets(details: Details, faces: Ints) -> dict[str, Ints]:
    """The polygons of each material that the mesh had, by its name."""
    labels = details.labels.get("material")
    if labels is None:
        return {}
    sizes, corners = polygon_loops(faces, details.polygons)
    numbers = labels.index[corners[np.cumsum(sizes) - sizes] // 3]
    found: dict[str, Ints] = {}
    for number, name in enumerate(labels.names):
        chosen = np.flatnonzero(numbers == number).astype(np.int32)
        # a slash would be a path
        plain = name.replace("/", "_") or "material"
        if len(chosen) and plain not in found:
            found[plain] = chosen
    return found


def _reader(path: Path) -> Any:
    from weft.mesh.formats.alembic import AlembicScene

    scene = AlembicScene(path)

    def read(k: int) -> Singles:
        return scene.read(min(k, len(scene.times) - 1)).vertices.astype(np.float32)

    return read

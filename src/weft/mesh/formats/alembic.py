"""Alembic meshes (.abc), still or animated: polygon meshes and subdivision surfaces with their transforms.

Alembic has neither units nor an up axis; by convention y is up, and a unit is what the writing program says: metres
from Blender and weft, often centimetres from Maya. Polygons are wound clockwise. The library is alembic3d, Alembic's
own bindings as wheels.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import MeshError, missing_extra
from weft.mesh.details import Labels
from weft.mesh.formats.probe import answer, probe
from weft.mesh.formats.raw import RawMesh, concatenate, cut_polygons, place, short_reason, turned
from weft.mesh.validate import Floats

# so deep may objects lie in each other
DEEPEST = 200


def read_alembic(path: Path) -> RawMesh:
    """Every mesh at its first sample, in the order of the file, as one."""
    return AlembicScene(path).read(0)


class _Mesh(NamedTuple):
    name: str
    schema: Any
    transforms: tuple[Any, ...]


class AlembicScene:
    """The meshes of a file, and the times at which any of them or of their transforms has a sample."""

    def __init__(self, path: Path) -> None:
        try:
            import alembic3d
        except ImportError:
            raise missing_extra("alembic", "alembic3d") from None
        assert alembic3d
        probe(path, "weft.mesh.formats.alembic")
        self._open(path)

    def _open(self, path: Path) -> None:
        from alembic3d.Abc import IArchive

        try:
            self._archive = IArchive(str(path))
            self._meshes = list(_meshes(self._archive.getTop(), (), 0))
        except RuntimeError as error:
            raise MeshError(f"it is no Alembic file that can be opened ({short_reason(error)})") from None
        if not self._meshes:
            raise MeshError("it holds no polygon mesh")
        for mesh in self._meshes:
            _check_topology(mesh)
        times = {t for m in self._meshes for s in (m.schema, *m.transforms) for t in _times(s)}
        self.times: list[float] = sorted(times) or [0.0]

    def read(self, sample: int) -> RawMesh:
        """All meshes at one of the times, as one."""
        from alembic3d.Abc import ISampleSelector

        selector = ISampleSelector(float(self.times[sample]))
        return concatenate([_read_mesh(mesh, selector) for mesh in self._named()])

    def _named(self) -> list[_Mesh]:
        """The meshes with names of their own."""
        named: list[_Mesh] = []
        for mesh in self._meshes:
            taken = {other.name for other in named}
            number, name = 1, mesh.name
            while name in taken:
                number += 1
                name = f"{mesh.name}_{number}"
            named.append(mesh._replace(name=name))
        return named


def _times(schema: Any) -> list[float]:
    """The times of a schema's samples, s; none if it does not change."""
    count = schema.getNumSamples()
    if count < 2 or schema.isConstant():
        return []
    sampling = schema.getTimeSampling()
    return [float(sampling.getSampleTime(i)) for i in range(count)]


def _meshes(thing: Any, transforms: tuple[Any, ...], depth: int) -> Iterator[_Mesh]:
    """The meshes below an object, each with the transforms above it, from the root down."""
    from alembic3d.AbcGeom import IPolyMesh, ISubD, IXform

    if depth > DEEPEST:
        raise MeshError(f"its objects lie more than {DEEPEST} deep in each other")
    for number in range(thing.getNumChildren()):
        child = thing.getChild(number)
        below = transforms
        if IXform.matches(child.getMetaData()):
            below = (*transforms, IXform(thing, child.getName()).getSchema())
        for kind in (IPolyMesh, ISubD):
            if kind.matches(child.getMetaData()):
                # programs put a mesh below a transform that has the name of the object
                parent = thing.getName() if transforms else child.getName()
                alone = thing.getNumChildren() == 1
                name = parent if alone and transforms else child.getName()
                yield _Mesh(name, kind(thing, child.getName()).getSchema(), transforms)
        yield from _meshes(child, below, depth + 1)


def _check_topology(mesh: _Mesh) -> None:
    """Refuse polygons that change from sample to sample."""
    from alembic3d.AbcGeom import MeshTopologyVariance

    if mesh.schema.getTopologyVariance() == MeshTopologyVariance.kHeterogenousTopology:
        first = np.array(mesh.schema.getFaceIndicesProperty().getValue(_at(0.0)))
        for time in _times(mesh.schema)[1:]:
            if not np.array_equal(first, np.array(mesh.schema.getFaceIndicesProperty().getValue(_at(time)))):
                raise MeshError(
                    f"the polygons of its mesh {mesh.name} change at {time:g} s; a sequence keeps its polygons"
                )


def _at(time: float) -> Any:
    from alembic3d.Abc import ISampleSelector

    return ISampleSelector(float(time))


def _read_mesh(mesh: _Mesh, selector: Any) -> RawMesh:
    schema = mesh.schema
    points = np.array(schema.getPositionsProperty().getValue(selector), dtype=np.float64).reshape(-1, 3)
    sizes = np.array(schema.getFaceCountsProperty().getValue(selector), dtype=np.int64).reshape(-1)
    corners = np.array(schema.getFaceIndicesProperty().getValue(selector), dtype=np.int64).reshape(-1)
    if len(points) == 0 or len(sizes) == 0:
        raise MeshError(f"its mesh {mesh.name} is empty")
    if (sizes < 3).any() or sizes.sum() != len(corners) or corners.min() < 0 or corners.max() >= len(points):
        raise MeshError(f"its mesh {mesh.name} has polygons that do not fit its points")
    uv = _at_corners(schema.getUVsParam(), selector, corners, len(points))
    raw = cut_polygons(points, sizes, corners, uv)
    labels = {"object": Labels((mesh.name,), np.zeros(len(raw.faces), dtype=np.int32))}
    materials = _face_sets(schema, selector, len(sizes))
    if materials is not None:
        owner = np.repeat(np.arange(len(sizes)), sizes - 2)
        labels["material"] = Labels(materials.names, materials.index[owner])
    raw = turned(raw._replace(details=replace(raw.details, labels=labels)))
    return place(raw, _matrix(mesh.transforms, selector))


def _at_corners(param: Any, selector: Any, corners: NDArray[np.int64], vertex_count: int) -> Floats | None:
    """(corners, 2) texture coordinates, which a file has for each corner or for each vertex."""
    from alembic3d.AbcGeom import GeometryScope

    if not param.valid() or param.getNumSamples() == 0:
        return None
    values = np.array(param.getExpandedValue(selector).getVals(), dtype=np.float64).reshape(-1, 2)
    scope = param.getScope()
    if scope == GeometryScope.kFacevaryingScope and len(values) == len(corners):
        return values
    if scope in (GeometryScope.kVertexScope, GeometryScope.kVaryingScope) and len(values) == vertex_count:
        return np.asarray(values[corners])
    return None


def _face_sets(schema: Any, selector: Any, polygon_count: int) -> Labels | None:
    """The name of the face set of each polygon, by which programs keep materials apart; None where there is none."""
    names = [str(name) for name in schema.getFaceSetNames()]
    index = np.full(polygon_count, -1, dtype=np.int32)
    for number, name in enumerate(names):
        faces = np.array(schema.getFaceSet(name).getSchema().getValue(selector).getFaces(), dtype=np.int64)
        if len(faces) and 0 <= faces.min() <= faces.max() < polygon_count:
            index[faces] = number
    return Labels(tuple(names), index) if names else None


def _matrix(transforms: tuple[Any, ...], selector: Any) -> Floats:
    """The 4x4 matrix (column vectors) of transforms from the root down."""
    matrix = np.eye(4)
    for transform in transforms:
        if transform.getNumSamples() == 0:
            continue
        sample = transform.getValue(selector)
        # Alembic multiplies rows from the left
        own = np.array([[sample.getMatrix()[i][j] for j in range(4)] for i in range(4)]).T
        matrix = matrix @ own if sample.getInheritsXforms() else own
    return matrix


def _probe_main(path: Path) -> dict[str, Any]:
    """Read all of a file; in the process that `probe` starts."""
    scene = object.__new__(AlembicScene)
    try:
        scene._open(path)
        for sample in range(len(scene.times)):
            scene.read(sample)
    except MeshError:
        raise
    except Exception as error:
        return {"error": f"it is damaged ({short_reason(error)})"}
    return {"layers": [str(path)]}


if __name__ == "__main__":
    import alembic3d

    # imported before the limit on memory
    assert alembic3d
    answer(_probe_main)

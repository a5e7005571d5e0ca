"""Alembic: what is written comes back, and what other programs expect is there."""

import builtins

import numpy as np
import pytest
from exchange_caches import FPS, FRAMES, close_sheets, positions_at, write_cache

from weft.errors import MeshError, WeftError
from weft.exchange import export
from weft.mesh import load_mesh
from weft.mesh.sequences import read_sequence

pytest.importorskip("alembic3d")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("caches") / "run.zarr")


@pytest.fixture(scope="module")
def path(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("abc") / "run.abc"
    made = export(cache, path)
    assert made.paths == [path] and made.frames == list(range(FRAMES)) and made.rounding == {}
    return path


def schemas(path):
    """Name -> schema of every mesh, and the archive, which must live as long."""
    from alembic3d.Abc import IArchive
    from alembic3d.AbcGeom import IPolyMesh

    archive = IArchive(str(path))
    top = archive.getTop()
    parents = [top.getChild(i) for i in range(top.getNumChildren())]
    return archive, {p.getName(): IPolyMesh(p, p.getChild(0).getName()).getSchema() for p in parents}


def test_it_comes_back_with_all_vertices_and_times(cache, path):
    moving = read_sequence(path)
    assert len(moving) == FRAMES and moving.times == pytest.approx(np.arange(FRAMES) / FPS)
    np.testing.assert_array_equal(moving.faces, cache.faces)
    for frame in range(FRAMES):
        np.testing.assert_array_equal(moving.vertices(frame), positions_at(frame).astype(np.float32))
    assert moving.details.names("object") == ("sheet", "a_box", "floor")
    assert "metres" in moving.about and moving.about.startswith("Alembic")
    # a scene takes it as a still mesh too
    assert len(load_mesh(path, uv=False).vertices) == len(positions_at(0))


def test_texture_coordinates_velocities_and_colours(cache, path):
    from alembic3d.Abc import ISampleSelector

    _archive, meshes = schemas(path)
    assert [meshes[name].getNumSamples() for name in ("sheet", "a_box", "floor")] == [FRAMES, FRAMES, 1]
    sheet = cache.bodies[0]
    raw_faces = cache.faces[sheet.faces]
    uv = np.array(meshes["sheet"].getUVsParam().getExpandedValue().getVals())
    # clockwise
    np.testing.assert_array_equal(uv, cache.uv[raw_faces[:, ::-1].ravel()].astype(np.float32))
    v = np.array(meshes["sheet"].getVelocitiesProperty().getValue(ISampleSelector(2.0 / FPS)))
    np.testing.assert_array_equal(v, cache.velocities(2)[sheet.vertices].astype(np.float32))
    assert meshes["sheet"].getArbGeomParams().getNumProperties() == 1
    assert not meshes["floor"].getUVsParam().valid()


def test_a_choice_of_frames_keeps_its_times(cache, tmp_path):
    export(cache, tmp_path / "some.abc", frames=[1, 3, 5], bodies=["a box"])
    moving = read_sequence(tmp_path / "some.abc")
    assert moving.times == pytest.approx(np.array([0, 2, 4]) / FPS)
    box = cache.bodies[1].vertices
    np.testing.assert_array_equal(moving.vertices(1), positions_at(3)[box].astype(np.float32))
    with pytest.raises(WeftError, match="equal distances"):
        export(cache, tmp_path / "other.abc", frames=[0, 1, 3])
    with pytest.raises(WeftError, match=r"ends in \.abc"):
        export(cache, tmp_path / "other.txt", format="abc")


def test_the_same_cache_gives_the_same_bytes(cache, path, tmp_path):
    export(cache, tmp_path / "again.abc")
    assert (tmp_path / "again.abc").read_bytes() == path.read_bytes()


def test_rounding_is_found(tmp_path):
    cache = close_sheets(tmp_path / "close.zarr", 1e-9)
    assert export(cache, tmp_path / "close.abc").rounding.keys() == {0}


def test_transforms_quads_and_face_sets(tmp_path):
    """A file as Maya writes it: a quad below two transforms, one of which moves, with a face set."""
    from alembic3d.Abc import OArchive
    from alembic3d.AbcCoreAbstract import TimeSampling
    from alembic3d.AbcGeom import OFaceSetSchemaSample, OPolyMesh, OPolyMeshSchemaSample, OXform, XformSample
    from imath import IntArrayFromBuffer, M44d, V3d, V3fArrayFromBuffer

    archive = OArchive(str(tmp_path / "a.abc"))
    outer = OXform(archive.getTop(), "outer")
    outer.getSchema().setTimeSampling(archive.addTimeSampling(TimeSampling(0.5, 1.0)))
    for step in range(3):
        sample = XformSample()
        sample.setMatrix(M44d().translate(V3d(0.0, 0.25 * step, 0.0)))
        outer.getSchema().set(sample)
    inner = OXform(outer, "square")
    sample = XformSample()
    sample.setMatrix(M44d().scale(V3d(2.0, 2.0, 2.0)))
    inner.getSchema().set(sample)
    schema = OPolyMesh(inner, "squareShape").getSchema()
    points = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], dtype=np.float32)
    clockwise = np.array([3, 2, 1, 0], dtype=np.int32)
    schema.set(
        OPolyMeshSchemaSample(
            V3fArrayFromBuffer(points), IntArrayFromBuffer(clockwise), IntArrayFromBuffer(np.array([4], dtype=np.int32))
        )
    )
    chosen = schema.createFaceSet("linen").getSchema()
    chosen.set(OFaceSetSchemaSample(IntArrayFromBuffer(np.array([0], dtype=np.int32))))
    del chosen, schema, inner, outer, archive
    moving = read_sequence(tmp_path / "a.abc")
    assert moving.times == pytest.approx((0.0, 0.5, 1.0))
    np.testing.assert_allclose(moving.vertices(2), 2.0 * points + (0.0, 0.5, 0.0))
    mesh = load_mesh(tmp_path / "a.abc")
    assert mesh.names("object") == ("square",) and mesh.names("material") == ("linen",)
    np.testing.assert_allclose(mesh.face_normals, [(0, 0, 1)] * 2)
    assert mesh.details.polygons.tolist() == [0, 0]


def test_damaged_files_are_one_line(path, tmp_path):
    data = path.read_bytes()
    damaged = tmp_path / "bad.abc"
    changed = bytearray(data)
    changed[len(data) // 2 : len(data) // 2 + 400] = b"\xff" * 400
    for content in (b"nothing of the kind", data[: len(data) // 2], bytes(changed)):
        damaged.write_bytes(content)
        with pytest.raises(MeshError) as told:
            load_mesh(damaged)
        assert "bad.abc" in str(told.value) and "\n" not in str(told.value)


def test_without_the_package(cache, tmp_path, monkeypatch):
    real = builtins.__import__

    def missing(name, *rest, **more):
        if "alembic3d" in name:
            raise ImportError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(WeftError, match=r"pip install 'weft-cloth\[alembic\]'"):
        export(cache, tmp_path / "run.abc")

"""USD: units, up axis, transforms, polygons, uv and what is not shown."""

import contextlib
import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from weft.errors import MeshError, MissingExtraError, WeftWarning
from weft.mesh import load_mesh, shapes
from weft.mesh.files import mesh_files

pytest.importorskip("pxr", reason="needs usd-core")
from pxr import Sdf, Usd, UsdGeom

POINTS = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]


@pytest.fixture
def stage(tmp_path):
    stage = Usd.Stage.CreateNew(str(tmp_path / "a.usda"))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.y)
    UsdGeom.SetStageMetersPerUnit(stage, 1.0)
    return stage


def add_square(stage, path="/square", points=POINTS):
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr(points)
    mesh.CreateFaceVertexCountsAttr([4])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    return mesh


def load(stage):
    stage.Save()
    return load_mesh(stage.GetRootLayer().realPath)


def test_polygons_become_triangles(stage):
    add_square(stage)
    mesh = load(stage)
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]
    assert mesh.vertices.tolist() == [list(point) for point in POINTS]


def test_units_and_up_axis(stage):
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    add_square(stage, points=[(0, 0, 50), (100, 0, 50), (100, 100, 50), (0, 100, 50)])
    mesh = load(stage)
    assert mesh.vertices == pytest.approx(np.array([(0, 0.5, 0), (1, 0.5, 0), (1, 0.5, -1), (0, 0.5, -1)]))
    # what faced up still does
    assert mesh.face_normals[0] == pytest.approx((0, 1, 0))


def test_transforms_apply_from_the_root_down(stage):
    parent = UsdGeom.Xform.Define(stage, "/parent")
    parent.AddTranslateOp().Set((10, 0, 0))
    parent.AddRotateZOp().Set(90.0)
    add_square(stage, "/parent/square")
    mesh = load(stage)
    assert mesh.vertices == pytest.approx(np.array([(10, 0, 0), (10, 1, 0), (9, 1, 0), (9, 0, 0)]))


def test_several_meshes_become_one(stage):
    add_square(stage, "/a")
    UsdGeom.Xformable(add_square(stage, "/b")).AddTranslateOp().Set((5, 0, 0))
    mesh = load(stage)
    assert mesh.components.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]
    assert mesh.vertices[4].tolist() == [5, 0, 0]


def test_instances_are_found(stage):
    add_square(stage, "/model/square")
    for name, x in (("one", 3.0), ("two", 6.0)):
        prim = stage.DefinePrim(f"/{name}", "Xform")
        prim.GetReferences().AddInternalReference("/model")
        prim.SetInstanceable(True)
        UsdGeom.Xformable(prim).AddTranslateOp().Set((x, 0, 0))
    assert load(stage).components.max() == 2


def test_left_handed_and_mirrored_meshes_face_the_right_way(stage):
    add_square(stage, "/a").CreateOrientationAttr(UsdGeom.Tokens.leftHanded)
    mirrored = add_square(stage, "/b")
    UsdGeom.Xformable(mirrored).AddScaleOp().Set((-1, 1, 1))
    mesh = load(stage)
    assert mesh.face_normals[:2] == pytest.approx(np.array([(0, 0, -1)] * 2))
    assert mesh.face_normals[2:] == pytest.approx(np.array([(0, 0, 1)] * 2))


def test_what_is_not_shown_is_left_out(stage):
    add_square(stage, "/shown")
    UsdGeom.Imageable(add_square(stage, "/hidden")).MakeInvisible()
    UsdGeom.Imageable(add_square(stage, "/guide")).CreatePurposeAttr(UsdGeom.Tokens.guide)
    assert len(load(stage).faces) == 2


def test_shapes_that_are_no_meshes_are_named(stage):
    add_square(stage)
    UsdGeom.Sphere.Define(stage, "/ball")
    hidden = UsdGeom.Cube.Define(stage, "/box")
    hidden.MakeInvisible()
    with pytest.warns(WeftWarning, match=r"a\.usda: left out, since weft reads meshes only: Sphere /ball\. Make"):
        mesh = load(stage)
    assert len(mesh.faces) == 2


@pytest.mark.parametrize("interpolation", ["vertex", "faceVarying"])
def test_uv(stage, interpolation):
    mesh = add_square(stage)
    kind = Sdf.ValueTypeNames.TexCoord2fArray
    UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", kind, interpolation).Set([(0, 0), (2, 0), (2, 2), (0, 2)])
    assert load(stage).uv.tolist() == [[0, 0], [2, 0], [2, 2], [0, 2]]


def test_uv_seams_are_left_out(stage):
    mesh = add_square(stage)
    mesh.GetFaceVertexCountsAttr().Set([3, 3])
    mesh.GetFaceVertexIndicesAttr().Set([0, 1, 2, 0, 2, 3])
    kind = Sdf.ValueTypeNames.TexCoord2fArray
    corners = [(0, 0), (2, 0), (2, 2), (5, 5), (2, 2), (0, 2)]
    UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", kind, "faceVarying").Set(corners)
    assert load(stage).uv is None


def test_first_sample_of_an_animation(stage):
    mesh = add_square(stage)
    mesh.GetPointsAttr().Clear()
    for time in (5, 6):
        mesh.GetPointsAttr().Set([(x, y, float(time)) for x, y, _ in POINTS], time)
    assert load(stage).vertices[0].tolist() == [0, 0, 5]


@pytest.mark.parametrize(
    ("counts", "indices", "words"),
    [
        ([4], [0, 1, 2], "do not fit"),
        ([4], [0, 1, 2, 9], "do not fit"),
        ([2, 2], [0, 1, 2, 3], "do not fit"),
        ([], [], "empty"),
    ],
)
def test_bad_faces(stage, counts, indices, words):
    mesh = add_square(stage)
    mesh.GetFaceVertexCountsAttr().Set(counts)
    mesh.GetFaceVertexIndicesAttr().Set(indices)
    with pytest.raises(MeshError, match=rf"a\.usda: its mesh /square .*{words}"):
        load(stage)


def test_stage_without_meshes(stage):
    UsdGeom.Xform.Define(stage, "/nothing")
    with pytest.raises(MeshError, match="no triangle mesh"):
        load(stage)


def crate(stage, spoil):
    """A binary file with spoilt bytes."""
    add_square(stage, points=[*POINTS, *[(0, 0, 5)] * 60])
    path = stage.GetRootLayer().realPath.replace(".usda", ".usdc")
    stage.GetRootLayer().Export(path)
    data = bytearray(Path(path).read_bytes())
    spoil(data)
    Path(path).write_bytes(data)
    return path


def test_binary_files_that_crash_the_library_are_refused(tmp_path):
    stage = Usd.Stage.CreateNew(str(tmp_path / "a.usdc"))
    mesh, grid = UsdGeom.Mesh.Define(stage, "/m"), shapes.grid((1.0, 1.0), (8, 8))
    mesh.CreatePointsAttr(grid.vertices.tolist())
    mesh.CreateFaceVertexCountsAttr([3] * len(grid.faces))
    mesh.CreateFaceVertexIndicesAttr(grid.faces.ravel().tolist())
    for time in range(3):
        mesh.GetPointsAttr().Set((grid.vertices + time).tolist(), float(time))
    stage.Save()
    # the length of a list of tokens: usd-core 26.11 reads past the end of its tokens, and the process gets signal 11
    data = bytearray((tmp_path / "a.usdc").read_bytes())
    data[88] = 9
    (tmp_path / "b.usdc").write_bytes(data)
    with contextlib.suppress(MeshError):
        load_mesh(tmp_path / "b.usdc")


@pytest.mark.parametrize("count", [1 << 28, 1 << 40])
def test_binary_files_that_state_huge_arrays_take_no_memory(stage, count):
    def spoil(data):
        place = data.index((64).to_bytes(8, "little"))
        data[place : place + 8] = count.to_bytes(8, "little")

    before, children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    with pytest.raises(MeshError, match=r"a\.usdc: it is damaged"):
        load_mesh(crate(stage, spoil))
    # kilobytes on Linux
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 500_000
    # the largest child of all tests in this process so far
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss <= max(children, 2_000_000)


@pytest.mark.parametrize("arc", ["sublayer", "reference"])
def test_layers_lie_in_the_folder_of_the_file(stage, arc, tmp_path):
    def add(path):
        if arc == "sublayer":
            stage.GetRootLayer().subLayerPaths.append(path)
        else:
            stage.OverridePrim("/square").GetReferences().AddReference(path, "/square")

    (tmp_path / "below").mkdir()
    part = Usd.Stage.CreateNew(str(tmp_path / "below" / "part.usda"))
    UsdGeom.SetStageUpAxis(part, UsdGeom.Tokens.y)
    add_square(part)
    part.Save()
    add("below/part.usda")
    assert len(load(stage).faces) == 2
    assert [path.name for path in mesh_files(stage.GetRootLayer().realPath)] == ["a.usda", "part.usda"]
    # the same from a folder beside that of the layer
    (tmp_path / "beside").mkdir()
    moved = tmp_path / "beside" / "a.usda"
    moved.write_text(Path(stage.GetRootLayer().realPath).read_text().replace("@below", "@../below"))
    with pytest.raises(MeshError, match=r"its layer '.*part\.usda' does not lie in its folder"):
        load_mesh(moved)


def test_without_usd_core(stage, monkeypatch):
    add_square(stage)
    stage.Save()
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(MissingExtraError, match=r"weft-cloth\[usd\]"):
        load_mesh(stage.GetRootLayer().realPath)

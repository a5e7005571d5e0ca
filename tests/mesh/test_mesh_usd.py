"""USD: units, up axis, transforms, polygons, uv and what is not shown."""

import sys

import numpy as np
import pytest

from weft.errors import MeshError, MissingExtraError, WeftWarning
from weft.mesh import load_mesh

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


def test_without_usd_core(stage, monkeypatch):
    add_square(stage)
    stage.Save()
    monkeypatch.setitem(sys.modules, "pxr", None)
    with pytest.raises(MissingExtraError, match=r"weft\[usd\]"):
        load_mesh(stage.GetRootLayer().realPath)

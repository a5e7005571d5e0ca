"""USD: what other programs expect to find on the stage."""

import builtins

import numpy as np
import pytest
from exchange_caches import FPS, FRAMES, close_sheets, positions_at, write_cache

import weft
from weft.errors import WeftError
from weft.exchange import export
from weft.mesh import load_mesh
from weft.mesh.sequences import read_sequence

pxr = pytest.importorskip("pxr")
from pxr import Usd, UsdGeom, UsdShade  # noqa: E402


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("caches") / "run.zarr")


@pytest.fixture(scope="module")
def stage(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("usd") / "run.usdc"
    made = export(cache, path)
    assert made.paths == [path] and made.frames == list(range(FRAMES)) and made.rounding == {}
    return Usd.Stage.Open(str(path))


def mesh_of(stage, name):
    return UsdGeom.Mesh.Get(stage, f"/World/{name}")


def test_units_axis_and_time(stage):
    assert UsdGeom.GetStageMetersPerUnit(stage) == 1.0
    assert UsdGeom.GetStageUpAxis(stage) == "Y"
    assert stage.GetTimeCodesPerSecond() == FPS
    assert (stage.GetStartTimeCode(), stage.GetEndTimeCode()) == (0.0, FRAMES - 1)
    assert stage.GetDefaultPrim().GetPath() == "/World"


def test_one_mesh_a_body_with_a_sample_a_frame(stage, cache):
    meshes = [p for p in stage.Traverse() if p.IsA(UsdGeom.Mesh)]
    assert [(p.GetName(), p.GetDisplayName()) for p in meshes] == [
        ("sheet", "sheet"),
        ("a_box", "a box"),
        ("floor", "floor"),
    ]
    for body, prim in zip(cache.bodies, meshes, strict=True):
        mesh = UsdGeom.Mesh(prim)
        samples = mesh.GetPointsAttr().GetTimeSamples()
        assert samples == ([] if body.name == "floor" else [float(f) for f in range(FRAMES)])
        np.testing.assert_array_equal(mesh.GetFaceVertexCountsAttr().Get(), 3)
        faces = np.asarray(mesh.GetFaceVertexIndicesAttr().Get()).reshape(-1, 3)
        np.testing.assert_array_equal(faces, cache.faces[body.faces] - body.vertices.start)
        assert mesh.GetSubdivisionSchemeAttr().Get() == "none" and mesh.GetDoubleSidedAttr().Get()
        for frame in range(FRAMES):
            points = np.asarray(mesh.GetPointsAttr().Get(frame))
            np.testing.assert_array_equal(points, positions_at(frame)[body.vertices].astype(np.float32))
            low, high = np.asarray(mesh.GetExtentAttr().Get(frame))
            np.testing.assert_array_equal((low, high), (points.min(axis=0), points.max(axis=0)))


def test_velocities_are_for_motion_blur(stage, cache):
    """A step along the velocity leads to the next frame; what lies still has none."""
    mesh = mesh_of(stage, "a_box")
    points = np.asarray(mesh.GetPointsAttr().Get(2)) + np.asarray(mesh.GetVelocitiesAttr().Get(2)) / FPS
    np.testing.assert_allclose(points, positions_at(3)[cache.bodies[1].vertices], atol=1e-6)
    assert mesh_of(stage, "floor").GetVelocitiesAttr().Get() is None


def test_normals_uv_and_materials(stage, cache):
    mesh = mesh_of(stage, "sheet")
    normals = np.asarray(mesh.GetNormalsAttr().Get(1))
    np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-6)
    assert mesh.GetNormalsInterpolation() == "vertex"
    st = UsdGeom.PrimvarsAPI(mesh).GetPrimvar("st")
    assert st.GetInterpolation() == "vertex"
    np.testing.assert_array_equal(np.asarray(st.Get()), cache.uv[cache.bodies[0].vertices].astype(np.float32))
    assert not UsdGeom.PrimvarsAPI(mesh_of(stage, "a_box")).GetPrimvar("st")
    colours = []
    for name in ("sheet", "a_box", "floor"):
        material, _ = UsdShade.MaterialBindingAPI(mesh_of(stage, name).GetPrim()).ComputeBoundMaterial()
        shader, _, _ = material.ComputeSurfaceSource("")
        assert shader.GetIdAttr().Get() == "UsdPreviewSurface"
        colours.append(tuple(shader.GetInput("diffuseColor").Get()))
        assert tuple(mesh_of(stage, name).GetDisplayColorAttr().Get()[0]) == colours[-1]
    assert colours[0] != colours[1] == colours[2]


@pytest.mark.parametrize("ending", [".usda", ".usdc", ".usd"])
def test_weft_reads_it_back(cache, tmp_path, ending):
    path = tmp_path / f"run{ending}"
    export(cache, path, bodies=["sheet"], frames=[1, 3, 4])
    moving = read_sequence(path)
    np.testing.assert_allclose(moving.times, [0.0, 2 / FPS, 3 / FPS])
    for sample, frame in enumerate((1, 3, 4)):
        np.testing.assert_allclose(moving.vertices(sample), cache.positions(frame)[: moving.vertex_count], atol=1e-7)
    np.testing.assert_allclose(load_mesh(path).uv, cache.uv[: moving.vertex_count], atol=1e-7)


def test_names_that_usd_does_not_take(tmp_path):
    from weft.cache import Body, CacheWriter

    names = ["Materials", "a b", "a_b", "1st", "ä"]
    bodies = [Body(n, "cloth", slice(3 * i, 3 * i + 3), slice(i, i + 1)) for i, n in enumerate(names)]
    x = np.random.default_rng(0).normal(size=(15, 3))
    with CacheWriter.create(
        tmp_path / "n.zarr", frames=1, faces=np.arange(15).reshape(-1, 3), bodies=bodies, fps=1.0
    ) as writer:
        writer.append(x, x, {})
    export(writer.cache, tmp_path / "n.usda")
    stage = Usd.Stage.Open(str(tmp_path / "n.usda"))
    meshes = [p for p in stage.Traverse() if p.IsA(UsdGeom.Mesh)]
    assert [p.GetDisplayName() for p in meshes] == names
    assert len({p.GetName() for p in meshes}) == 5 and "Materials" not in {p.GetName() for p in meshes}
    for k, prim in enumerate(meshes):
        np.testing.assert_array_equal(UsdGeom.Mesh(prim).GetPointsAttr().Get(), x[3 * k : 3 * k + 3].astype("f4"))


def test_long_runs_go_to_the_file_in_parts(tmp_path, monkeypatch):
    cache = write_cache(tmp_path / "long.zarr", frames=9)
    export(cache, tmp_path / "whole.usdc")
    monkeypatch.setattr("weft.exchange.usd.SAVE_EVERY", 2)
    export(cache, tmp_path / "parts.usdc")
    stages = [Usd.Stage.Open(str(tmp_path / f"{n}.usdc")) for n in ("whole", "parts")]
    for frame in range(9):
        points = [np.asarray(mesh_of(s, "sheet").GetPointsAttr().Get(frame)) for s in stages]
        np.testing.assert_array_equal(points[0], points[1])


def test_rounding_that_makes_intersections_is_told(tmp_path):
    near = close_sheets(tmp_path / "near.zarr", 1e-9)
    made = export(near, tmp_path / "near.usdc")
    assert list(made.rounding) == [0] and made.rounding[0] > 0
    assert export(near, tmp_path / "blind.usdc", check=False).rounding == {}
    far = close_sheets(tmp_path / "far.zarr", 1e-3)
    assert export(far, tmp_path / "far.usdc").rounding == {}
    # what intersects already was not made by rounding
    touching = close_sheets(tmp_path / "touching.zarr", 0.0)
    assert export(touching, tmp_path / "touching.usdc").rounding == {}


def test_mistakes_are_sentences(cache, tmp_path):
    with pytest.raises(WeftError, match="a file of the format usd ends in"):
        export(cache, tmp_path / "run.abc", format="usd")
    with pytest.raises(WeftError, match="no frame 99: it has frames 0 to 5"):
        export(cache, tmp_path / "run.usd", frames=[99])
    with pytest.raises(WeftError, match="no frames left in this choice"):
        export(cache, tmp_path / "run.usd", frames=[])
    with pytest.raises(WeftError, match="no body 'hat'"):
        export(cache, tmp_path / "run.usd", bodies=["hat"])
    with pytest.raises(WeftError, match="choice of bodies is empty"):
        export(cache, tmp_path / "run.usd", bodies=[])
    (tmp_path / "there.usd").write_text("mine")
    with pytest.raises(WeftError, match="exists already: choose another name, or say --overwrite"):
        export(cache, tmp_path / "there.usd")
    assert (tmp_path / "there.usd").read_text() == "mine"
    export(cache, tmp_path / "there.usd", frames=[0], overwrite=True)
    assert [p.name for p in tmp_path.iterdir()] == ["there.usd"]


def test_without_usd_core(cache, tmp_path, monkeypatch):
    real = builtins.__import__

    def blocked(name, *more, **options):
        if name.startswith("pxr"):
            raise ImportError(name)
        return real(name, *more, **options)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(WeftError, match=r"pip install 'weft-cloth\[usd\]'"):
        export(cache, tmp_path / "run.usd")


@pytest.mark.parametrize(("schema", "prefix"), [("physics", "Physics"), ("omniphysics", "OmniPhysics")])
def test_the_schema_of_deformable_bodies(tmp_path, schema, prefix):
    """A proposal, behind an option: cloth with shape at rest, mass and material; colliders; gravity."""
    from pxr import UsdPhysics

    cloth = weft.Cloth(name="sheet", shape=weft.Grid(size=(1.0, 0.5), cells=(4, 2)), material="denim")
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.1), placement=weft.Placement(position=(0, -1, 0)))
    scene = weft.Scene(cloths=[cloth], colliders=[ball], frames=1, method="plain", thickness=0.002)
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    weft.export(cache, tmp_path / "run.usda", usd_schema=schema)
    stage = Usd.Stage.Open(str(tmp_path / "run.usda"))
    sheet, body = (stage.GetPrimAtPath(f"/World/{name}") for name in ("sheet", "ball"))
    applied = sheet.GetMetadata("apiSchemas").GetAddedOrExplicitItems()
    assert {f"{prefix}DeformableBodyAPI", f"{prefix}SurfaceDeformableSimAPI", "PhysicsCollisionAPI"} <= set(applied)
    assert body.HasAPI(UsdPhysics.CollisionAPI) and body.HasAPI(UsdPhysics.MeshCollisionAPI)
    assert sheet.GetAttribute(f"{schema}:mass").Get() == pytest.approx(0.4 * 0.5, rel=1e-5)
    faces = np.asarray(sheet.GetAttribute(f"{schema}:restTriVtxIndices").Get())
    np.testing.assert_array_equal(faces, cache.faces[cache.bodies[0].faces])
    assert set(UsdGeom.Mesh(sheet).GetFaceVertexCountsAttr().Get()) == {3}
    material = UsdShade.MaterialBindingAPI(sheet).ComputeBoundMaterial("physics")[0].GetPrim()
    surface = "surfaceBendStiffness" if schema == "omniphysics" else "bendStiffness"
    assert material.GetAttribute(f"{schema}:{surface}").Get() == pytest.approx(float(weft.MATERIALS["denim"].bend))
    assert material.GetAttribute(f"{schema}:density").Get() == pytest.approx(0.4 / 0.002)
    assert UsdPhysics.Scene.Get(stage, "/World/PhysicsScene").GetGravityMagnitudeAttr().Get() == pytest.approx(9.81)
    # what other programs show is the same
    moving = read_sequence(tmp_path / "run.usda")
    np.testing.assert_allclose(moving.vertices(1), cache.positions(1).astype(np.float32))


def test_schemas_that_do_not_exist(cache, tmp_path):
    with pytest.raises(WeftError, match="USD schema 'mine' is not known: use one of physics, omniphysics"):
        weft.export(cache, tmp_path / "a.usda", usd_schema="mine")
    with pytest.raises(WeftError, match="a USD schema is for USD files"):
        weft.export(cache, tmp_path / "a.glb", usd_schema="physics")

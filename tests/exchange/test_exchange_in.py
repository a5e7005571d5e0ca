"""Garments and characters that come from other programs, as cloth and colliders of a scene."""

import numpy as np
import pytest
from character import TIMES, rest_mesh, vertices_at, write_character, write_usd_character
from exchange_caches import write_cache

import weft
from weft.errors import WeftError
from weft.exchange import export
from weft.mesh import TriMesh, load_mesh, save_mesh, shapes
from weft.mesh.sequences import read_sequence

SCENE = """
fps = 60
frames = 30
method = "plain"
check = 0

[[cloth]]
name = "skirt"
mesh = "skirt.usda"
material = "cotton"
pins = [{ indices = [0, 1, 2, 3] }]

[[collider]]
name = "body"
mesh = "character.glb"
motion = { kind = "sequence", file = "character.glb", fps = 60 }
"""


def write_skirt(path):
    """A tube of quads in centimetres, z up, as garment tools write them."""
    pxr = pytest.importorskip("pxr")
    from pxr import Usd, UsdGeom

    assert pxr
    ring, rows = 16, 5
    angle = 2.0 * np.pi * np.arange(ring) / ring
    points = [(20 * np.cos(a), 20 * np.sin(a), 60.0 - 8.0 * row) for row in range(rows) for a in angle]
    quads = [
        (r * ring + i, (r + 1) * ring + i, (r + 1) * ring + (i + 1) % ring, r * ring + (i + 1) % ring)
        for r in range(rows - 1)
        for i in range(ring)
    ]
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, UsdGeom.Tokens.z)
    UsdGeom.SetStageMetersPerUnit(stage, 0.01)
    mesh = UsdGeom.Mesh.Define(stage, "/skirt")
    mesh.CreatePointsAttr(points)
    mesh.CreateFaceVertexCountsAttr([4] * len(quads))
    mesh.CreateFaceVertexIndicesAttr(np.ravel(quads).tolist())
    stage.GetRootLayer().Save()
    x, y, z = np.array(points).T / 100.0
    return np.column_stack([x, z, -y])


def test_a_garment_from_usd_and_a_skinned_character_from_glb(tmp_path):
    """Cloth in metres and y up, whatever its file is in; a collider that goes where its bones take it."""
    skirt = write_skirt(tmp_path / "skirt.usda")
    write_character(tmp_path / "character.glb")
    (tmp_path / "scene.toml").write_text(SCENE)
    cache = weft.simulate(tmp_path / "scene.toml", tmp_path / "run.zarr", progress=False)
    garment, body = cache.bodies
    np.testing.assert_allclose(cache.positions(0)[garment.vertices], skirt, atol=1e-6)
    assert body.vertices.stop - body.vertices.start == len(rest_mesh().vertices)
    # keyframes are at 0, 0.25 and 0.5 s, frames at 60 a second
    for frame, time in ((0, TIMES[0]), (15, TIMES[1]), (30, TIMES[2])):
        np.testing.assert_allclose(cache.positions(frame)[body.vertices], vertices_at(time), atol=1e-6)
    # the knee bends: it is not a rigid motion
    moved = cache.positions(15)[body.vertices] - cache.positions(0)[body.vertices]
    assert np.ptp(np.linalg.norm(moved, axis=1)) > 0.1


def test_skins_against_arithmetic_of_their_own(tmp_path):
    write_character(tmp_path / "character.glb")
    moving = read_sequence(tmp_path / "character.glb", fps=8.0)
    np.testing.assert_array_equal(moving.faces, rest_mesh().faces)
    for time in TIMES:
        np.testing.assert_allclose(moving.vertices(round(8.0 * time)), vertices_at(time), atol=1e-6)


def test_usd_skeletons_against_the_same_arithmetic(tmp_path):
    """The same character from USD, standing elsewhere; its file is left as it was."""
    pytest.importorskip("pxr")
    place = (1.0, -0.5, 2.0)
    write_usd_character(tmp_path / "character.usda", at=place)
    before = (tmp_path / "character.usda").read_bytes()
    moving = read_sequence(tmp_path / "character.usda")
    np.testing.assert_array_equal(moving.faces, rest_mesh().faces)
    assert list(moving.times) == pytest.approx(TIMES.tolist())
    for sample, time in enumerate(TIMES):
        np.testing.assert_allclose(moving.vertices(sample), vertices_at(time) + place, atol=1e-6)
    # as a mesh it stands in its first pose
    np.testing.assert_allclose(load_mesh(tmp_path / "character.usda").vertices, vertices_at(0.0) + place, atol=1e-6)
    assert (tmp_path / "character.usda").read_bytes() == before


@pytest.mark.parametrize("kind", ["usd", "glb", "npz"])
def test_what_weft_wrote_comes_back_as_a_collider(tmp_path, kind):
    """A sheet of one run is the moving collider of the next."""
    cache = write_cache(tmp_path / "run.zarr")
    name = {"usd": "sheet.usdc", "glb": "sheet.glb", "npz": "sheet.npz"}[kind]
    export(cache, tmp_path / name, bodies=["sheet"])
    own = cache.bodies[0]
    save_mesh(TriMesh(cache.positions(0)[own.vertices], cache.faces[own.faces]), tmp_path / "sheet.obj")
    scene = weft.Scene(
        name="again",
        fps=24,
        frames=3,
        cloths=[weft.Cloth(name="c", shape=weft.Grid(size=(0.2, 0.2), cells=(2, 2)))],
        colliders=[
            weft.Collider(
                name="sheet",
                mesh=str(tmp_path / "sheet.obj"),
                motion=weft.Sequence(file=str(tmp_path / name), fps=24.0),
            )
        ],
    )
    again = weft.simulate(scene, tmp_path / "again.zarr", progress=False)
    for frame in range(3):
        np.testing.assert_allclose(
            again.positions(frame)[again.bodies[1].vertices], cache.positions(frame)[own.vertices], atol=1e-6
        )


def test_a_character_that_does_not_fit_its_mesh_is_refused(tmp_path):
    write_character(tmp_path / "character.glb")
    save_mesh(shapes.capsule(0.1, 0.5, segments=5), tmp_path / "other.obj")
    scene = weft.Scene(
        name="wrong",
        cloths=[weft.Cloth(name="c", shape=weft.Grid(size=(0.2, 0.2), cells=(2, 2)))],
        colliders=[
            weft.Collider(
                name="body",
                mesh=str(tmp_path / "other.obj"),
                motion=weft.Sequence(file=str(tmp_path / "character.glb")),
            )
        ],
    )
    with pytest.raises(WeftError, match=r"character\.glb"):
        weft.simulate(scene, tmp_path / "run.zarr", progress=False)

"""Garments in scenes: a pattern becomes a cloth and a seam, in Python and in TOML."""

import numpy as np
import pytest
from patterns import pleated, save, tube

import weft
from weft.errors import SceneError
from weft.scene import parse_scene, write_scene
from weft.scene.resolve import resolve_scene


@pytest.fixture
def folder(tmp_path):
    save(tube(), tmp_path / "tube_specification.json")
    return tmp_path


TEXT = 'garment = {pattern = "tube_specification.json", edge = 0.04, material = "silk"}\n'


def test_a_garment_in_toml(folder):
    scene = parse_scene(TEXT, base=folder)
    assert [cloth.name for cloth in scene.cloths] == ["tube"] and scene.cloths[0].material.preset == "silk"
    resolved = resolve_scene(scene)
    cut = weft.garment.cut_pattern(weft.load_pattern(folder / "tube_specification.json"), 0.04)
    assert np.array_equal(resolved.cloth_meshes[0].vertices, cut.vertices)
    assert np.array_equal(resolved.cloth_meshes[0].uv, cut.uv)
    assert np.array_equal(resolved.seams[0].vertices[:, :2], cut.stitches)
    assert resolved.seams[0].closing == 1.0
    # written, it is the cloth and the seam that it stands for
    assert parse_scene(write_scene(scene), base=folder) == scene
    assert scene.replace(frames=3).cloths == scene.cloths


def test_garments_in_python(folder):
    both = [weft.Garment(pattern="tube_specification.json", edge=0.05, name=name) for name in ("one", "two")]
    scene = weft.Scene(garments=both).at(folder)
    assert scene == weft.Scene(cloths=scene.cloths, seams=scene.seams)
    assert [seam.cloth for seam in scene.seams] == ["one", "two"]


def test_its_seams_close(folder):
    scene = weft.Scene(
        method="plain",
        forces=weft.Forces(gravity=(0, 0, 0), air_damping=5.0),
        garments=weft.Garment(pattern="tube_specification.json", edge=0.06, closing=0.3),
    ).at(folder)
    sim = weft.Simulation(scene)
    stitches = sim.world.seams.vertices
    for _ in range(20):
        sim.advance()
    x = sim.state.positions()
    assert np.linalg.norm(x[stitches[:, 0]] - x[stitches[:, 1]], axis=1).max() < 0.005


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('garment = {pattern = "x.obj"}', "garment[0]: pattern must be a json file, not 'x.obj'"),
        ("garment = {edge = 0.01}", "garment[0].pattern: is missing"),
        ('garment = {pattern = "x.json", egde = 1}', "unknown key, did you mean 'edge'?"),
        ('[[cloth]]\nmesh = "a.obj"\nedge = 0.1', "edge is for a sewing pattern"),
        ('[[cloth]]\nmesh = "a.json"\nrest = "mesh"', "the panels of a pattern are flat at rest"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(SceneError) as caught:
        parse_scene(text)
    assert message in str(caught.value)


def test_a_pattern_that_cannot_be_sewn_names_the_key(folder):
    save({"pattern": {"panels": {}}}, folder / "empty.json")
    scene = parse_scene('garment = {pattern = "empty.json"}', base=folder, source="scene.toml")
    with pytest.raises(SceneError, match=r"scene\.toml: cloth\[0\]\.mesh: .*the pattern has no panels"):
        resolve_scene(scene)


def test_a_seam_of_another_pattern_is_refused(folder):
    save(tube(), folder / "other.json")
    scene = weft.Scene(
        cloths=[weft.Cloth(mesh="tube_specification.json", edge=0.05)],
        seams=[weft.Seam(cloth="cloth", file="other.json")],
    ).at(folder)
    with pytest.raises(SceneError, match=r"other\.json is a pattern: it sews a cloth that is cut from it"):
        resolve_scene(scene)


def test_folds_of_a_pattern_are_creases(folder):
    save(pleated(), folder / "pleat.json")
    resolved = resolve_scene(parse_scene('garment = {pattern = "pleat.json", edge = 0.04}\n', base=folder))
    angles = np.degrees(resolved.rest_angles[0])
    assert sorted(set(np.round(angles[np.isfinite(angles)], 9))) == [-150.0, 150.0]
    assert np.isfinite(angles).sum() == 20
    assert resolve_scene(parse_scene(TEXT, base=folder)).rest_angles == [None]

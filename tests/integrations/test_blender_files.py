"""The parts of the Blender add-on that need no Blender: its files, its names, its zip."""

import importlib.util
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.cache import Body
from weft.exchange.selection import file_names
from weft.exchange.sequence import read_pc2
from weft.mesh import shapes

ADDON = Path(__file__).parents[2] / "integrations" / "blender"


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scene_file = load(ADDON / "weft_cloth" / "scene_file.py")


def test_the_scene_is_one_that_weft_reads(tmp_path):
    sheet, ball = shapes.grid((1.0, 1.0), (3, 3)), shapes.icosphere(0.2, subdivisions=1)
    samples = [ball.vertices + (0.0, 0.1 * f, 0.0) for f in range(5)]
    path = scene_file.write_scene(
        tmp_path,
        cloths=[
            {"name": 'a "b" ü', "vertices": sheet.vertices, "faces": sheet.faces, "material": "silk", "pins": [0, 3]}
        ],
        colliders=[
            {"name": "moving", "samples": samples, "faces": ball.faces, "friction": 0.5},
            {"name": "still", "samples": samples[:1], "faces": ball.faces, "friction": 0.0},
        ],
        method="plain",
        thickness=0.002,
        frames=4,
        fps=24.0,
        gravity=(0.0, -3.5, 0.0),
    )
    scene = weft.load_scene(path)
    assert (scene.fps, scene.frames, scene.thickness, scene.method.name) == (24.0, 4, 0.002, "plain")
    assert scene.forces.gravity == (0.0, -3.5, 0.0)
    assert scene.cloths[0].name == 'a "b" ü' and scene.cloths[0].material.preset == "silk"
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    for frame in range(5):
        x = cache.positions(frame)
        np.testing.assert_allclose(x[cache.bodies[1].vertices], samples[frame], atol=1e-12)
        np.testing.assert_array_equal(x[cache.bodies[2].vertices], samples[0])
        np.testing.assert_array_equal(x[[0, 3]], sheet.vertices[[0, 3]])


@given(st.lists(st.tuples(*[st.floats(-1e3, 1e3)] * 3), min_size=1, max_size=5), st.sampled_from([1.0, 0.01]))
def test_coordinates_there_and_back(points, scale):
    x = np.array(points)
    np.testing.assert_allclose(scene_file.from_weft(scene_file.to_weft(x, scale), scale), x, rtol=1e-12, atol=1e-300)
    # up stays up, and the hand stays the same
    np.testing.assert_array_equal(scene_file.to_weft([(0.0, 0.0, 1.0)]), [(0.0, 1.0, 0.0)])
    assert np.linalg.det(scene_file.to_weft(np.eye(3))) == pytest.approx(1.0)


@given(st.lists(st.text(max_size=4), min_size=1, max_size=6))
def test_names_that_weft_takes(names):
    taken = scene_file.body_names(names)
    assert len(set(taken)) == len(names)
    for name in taken:
        assert weft.Cloth(name=name, shape=weft.Grid(size=(1.0, 1.0), cells=(1, 1))).name == name
    plain = ["sheet", "sheet.001", "Ärmel links"]
    assert scene_file.body_names(plain) == plain


@given(st.lists(st.text(alphabet="aAbB _-./é1", max_size=4), min_size=1, max_size=6))
def test_files_are_called_as_weft_calls_them(names):
    bodies = [Body(name, "cloth", slice(0, 0), slice(0, 0)) for name in names]
    assert scene_file.file_names(names) == file_names(bodies)


def test_point_caches_there_and_back(tmp_path):
    samples = np.random.default_rng(0).normal(size=(3, 5, 3)).astype(np.float32)
    scene_file.write_point_cache(tmp_path / "a.pc2", samples)
    np.testing.assert_array_equal(scene_file.read_point_cache(tmp_path / "a.pc2"), samples)
    np.testing.assert_array_equal(read_pc2(tmp_path / "a.pc2"), samples)


def test_the_zip_is_whole_and_always_the_same(tmp_path):
    make_zip = load(ADDON / "make_zip.py").make_zip
    first, second = make_zip(tmp_path / "a.zip"), make_zip(tmp_path / "deep" / "b.zip")
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as archive:
        names = archive.namelist()
        manifest = tomllib.loads(archive.read("weft_cloth/blender_manifest.toml").decode())
        for name in names:
            if name.endswith(".py"):
                compile(archive.read(name), name, "exec")
    modules = {"__init__", "bake", "panel", "properties", "scene_file"}
    assert set(names) == {f"weft_cloth/{m}.py" for m in modules} | {"weft_cloth/blender_manifest.toml"}
    assert manifest["id"] == "weft_cloth" and manifest["version"] == weft.__version__
    assert "bpy" not in sys.modules

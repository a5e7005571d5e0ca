"""The parts of the Blender add-on that need no Blender: its files, its names, its zip."""

import ast
import importlib.util
import re
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
from weft.scene.material import PRESETS

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
            {
                "name": 'a "b" ü',
                "samples": [sheet.vertices],
                "faces": sheet.faces,
                "material": {"preset": "silk", "bend": 1e-5},
                "pins": [0, 3],
                "stitches": [(12, 15)],
                "stiff": None,
            }
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
        wind=((1.0, 0.0, 2.0), 0.25),
        air_damping=0.5,
    )
    scene = weft.load_scene(path)
    assert (scene.fps, scene.frames, scene.thickness, scene.method.name) == (24.0, 4, 0.002, "plain")
    assert scene.forces.gravity == (0.0, -3.5, 0.0)
    assert scene.cloths[0].name == 'a "b" ü' and scene.cloths[0].material.preset == "silk"
    assert scene.cloths[0].material.bend == 1e-5 and scene.cloths[0].pins[0].motion.kind == "still"
    assert scene.forces.wind.velocity == (1.0, 0.0, 2.0) and scene.forces.wind.gust == 0.25
    assert scene.forces.air_damping == 0.5 and scene.seams[0].vertices == ((12, 15, 15),)
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    for frame in range(5):
        x = cache.positions(frame)
        np.testing.assert_allclose(x[cache.bodies[1].vertices], samples[frame], atol=1e-12)
        np.testing.assert_array_equal(x[cache.bodies[2].vertices], samples[0])
        np.testing.assert_array_equal(x[[0, 3]], sheet.vertices[[0, 3]])


def test_pins_follow_their_samples(tmp_path):
    """An armature or shape keys have moved the held vertices: weft holds them there, frame by frame."""
    sheet = shapes.grid((1.0, 1.0), (3, 3))
    samples = [sheet.vertices + (0.02 * f, 0.0, 0.0) for f in range(5)]
    cloth = {"name": "a", "samples": samples, "faces": sheet.faces, "material": {"preset": "wool"}, "pins": [0, 3]}
    path = scene_file.write_scene(
        tmp_path,
        cloths=[{**cloth, "stitches": [], "stiff": np.linspace(1.0, 3.0, 16)}],
        colliders=[],
        method="plain",
        thickness=0.001,
        frames=4,
        fps=24.0,
        gravity=(0.0, -9.81, 0.0),
    )
    # the factors are an attribute of the mesh file, by whose name the scene calls them; not every method has them
    text = path.read_text(encoding="utf-8")
    assert tomllib.loads(text)["cloth"][0]["painted"] == dict.fromkeys(("stretch", "shear", "bend"), "stiffness")
    mesh = weft.load_mesh(tmp_path / "cloth_0.npz")
    np.testing.assert_array_equal(mesh.attributes["stiffness"], np.linspace(1.0, 3.0, 16))
    path.write_text("\n".join(line for line in text.splitlines() if "painted" not in line))
    cache = weft.simulate(weft.load_scene(path), tmp_path / "run.zarr", progress=False)
    for frame in range(5):
        np.testing.assert_allclose(cache.positions(frame)[[0, 3]], samples[frame][[0, 3]], atol=1e-12)
    assert np.abs(cache.positions(4)[5] - samples[4][5]).max() > 1e-3


def test_the_presets_and_methods_of_the_panel_are_wefts():
    """Read as text: the module needs Blender."""
    text = (ADDON / "weft_cloth" / "properties.py").read_text(encoding="utf-8")
    tables = {n.targets[0].id: n.value for n in ast.parse(text).body if isinstance(n, ast.Assign)}
    table, methods = tables["PRESETS"], ast.literal_eval(tables["METHODS"])
    assert {name for name, *_ in methods} == set(weft.scene.MethodOptions.known)
    assert methods[0][0] == weft.Scene(cloths=weft.Cloth(shape=weft.Grid())).method.name
    assert f'items=METHODS, default="{methods[0][0]}"' in text
    names = ("density", "stretch", "shear", "bend", "friction")
    ours = {name: tuple(preset[n] for n in names) for name, preset in PRESETS.items()}
    assert ast.literal_eval(table) == ours
    # a cloth that nobody touched has the numbers of the preset that its panel names
    assert set(re.findall(r'default=USUAL\["(\w+)"\]', text)) == set(ast.literal_eval(tables["NUMBERS"]))
    assert 'items=MATERIALS, default="cotton"' in text


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
    modules = {path.name for path in (ADDON / "weft_cloth").glob("*.py")}
    assert set(names) == {f"weft_cloth/{m}" for m in modules | {"blender_manifest.toml", "LICENSE"}}
    assert manifest["id"] == "weft_cloth" and manifest["version"] == weft.__version__
    assert manifest["license"] == ["SPDX:GPL-3.0-or-later"]
    for path in ADDON.rglob("*.py"):
        assert "SPDX-License-Identifier: GPL-3.0-or-later" in path.read_text(encoding="utf-8").splitlines()[0]
    assert "bpy" not in sys.modules


@pytest.mark.parametrize(("python", "last"), [("3.11", "5.1.0"), ("3.13", None)])
def test_the_manifest_names_wheels_and_for_whom_they_are(tmp_path, python, last):
    wheel = tmp_path / "weft_cloth-1.0-py3-none-any.whl"
    wheel.write_bytes(b"wheel")
    module = load(ADDON / "make_zip.py")
    out = module.make_zip(tmp_path / "a.zip", [wheel], "win_amd64", python)
    with zipfile.ZipFile(out) as archive:
        manifest = tomllib.loads(archive.read("weft_cloth/blender_manifest.toml").decode())
        assert archive.read("weft_cloth/wheels/" + wheel.name) == b"wheel"
    assert manifest["wheels"] == ["./wheels/" + wheel.name] and manifest["platforms"] == ["windows-x64"]
    assert manifest.get("blender_version_max") == last and manifest["permissions"]

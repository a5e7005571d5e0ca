"""Scenes as TOML: both ways, with a clear message for every mistake."""

import json
import os
import stat
import tomllib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scene_strategies import all_parts, scenes

import weft
from weft.errors import SceneError
from weft.scene import parse_scene, write_scene
from weft.scene.files import _read_table

GRID = 'shape = {kind = "grid"}'
CLOTH = f"[[cloth]]\n{GRID}\n"
slow = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@slow
@given(scenes())
def test_a_scene_written_and_read_is_the_same_scene(scene):
    text = write_scene(scene)
    again = parse_scene(text)
    assert again == scene
    assert hash(again) == hash(scene)
    # and what is written does not depend on how the scene was made
    assert write_scene(again) == text


@slow
@given(scenes())
def test_a_scene_goes_through_json_as_caches_keep_it(scene):
    assert weft.Scene.model_validate(json.loads(json.dumps(scene.model_dump(mode="json")))) == scene


known = sorted({key for part in all_parts() for key in part.keys(toml=True)})
words = sorted({"kind", "grid", "sphere", "path", "spin", "sequence", "silk", "plain", "left", "a", ""})
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(words), st.dates()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(known), inner, max_size=4)),
    max_leaves=20,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.sampled_from(known), anything, max_size=5))
def test_any_table_is_a_scene_or_a_list_of_mistakes(table):
    try:
        scene = _read_table(table, "f.toml")
    except SceneError as error:
        assert all(line.startswith("f.toml: ") for line in str(error).splitlines())
        # no message of the library below shows through
        assert "pydantic" not in str(error)
        assert "Input should" not in str(error)
    else:
        assert parse_scene(write_scene(scene)) == scene


def test_defaults_are_left_out():
    scene = weft.Scene(name="s", cloths=[weft.Cloth(name="c", shape=weft.Grid(cells=(2, 3)))])
    assert tomllib.loads(write_scene(scene)) == {
        "name": "s",
        "fps": 60.0,
        "frames": 120,
        "cloth": [{"name": "c", "shape": {"kind": "grid", "cells": [2, 3]}}],
    }


def test_what_is_written_is_what_a_person_would_write():
    scene = weft.Scene(
        name="flag",
        forces=weft.Forces(wind=weft.Wind(velocity=(5, 0, 1))),
        cloths=[
            weft.Cloth(
                name="flag",
                shape=weft.Grid(),
                material=weft.Material(preset="silk", bend=1e-5),
                placement=weft.Placement(scale=2),
                pins=[
                    weft.Pin(boundary="left"),
                    weft.Pin(
                        indices=(0,),
                        motion=weft.Path(keyframes=[weft.Keyframe(time=i, position=(0, i, 0)) for i in range(3)]),
                    ),
                ],
            )
        ],
    )
    assert (
        write_scene(scene)
        == """\
name = "flag"
fps = 60.0
frames = 120

[forces]
wind = {velocity = [5.0, 0.0, 1.0]}

[[cloth]]
name = "flag"
shape = {kind = "grid"}
placement = {scale = 2.0}
material = {preset = "silk", bend = 1e-05}

[[cloth.pins]]
boundary = "left"

[[cloth.pins]]
indices = [0]

[cloth.pins.motion]
kind = "path"
keyframes = [
    {time = 0.0},
    {time = 1.0, position = [0.0, 1.0, 0.0]},
    {time = 2.0, position = [0.0, 2.0, 0.0]},
]
"""
    )


def test_method_as_a_name_and_as_a_table():
    assert parse_scene('method = "plain"') == parse_scene('[method]\nname = "plain"') == weft.Scene(method="plain")
    assert "method" not in write_scene(weft.Scene(method={"name": "guarded"}))
    assert 'method = "plain"' in write_scene(weft.Scene(method={"name": "plain"}))
    options = weft.Scene().method
    changed = options.replace(dynamics="mass_spring")
    text = write_scene(weft.Scene(method=changed))
    assert "[method]" in text
    assert parse_scene(text).method == changed


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"{CLOTH}materal = 'silk'", "f.toml: cloth[0].materal: unknown key, did you mean 'material'?"),
        ("fram = 3", "f.toml: fram: unknown key, did you mean 'frames'?"),
        ("cloths = []", "f.toml: cloths: unknown key, did you mean 'cloth'?"),
        ("[[clot]]", "f.toml: clot: unknown key, did you mean 'cloth'?"),
        ("gravity = -9.81", "f.toml: gravity: unknown key here, did you mean 'forces.gravity'?"),
        ("substeps = 9", "f.toml: substeps: unknown key here, did you mean 'method.substeps'?"),
        ("material = 'silk'", "f.toml: material: unknown key here, did you mean 'cloth.material'?"),
        (f"{CLOTH}friction = 0.2", "f.toml: cloth[0].friction: unknown key here, did you mean 'material.friction'?"),
        ("xyzzy = 1", "f.toml: xyzzy: unknown key, known are name, fps, frames, method,"),
        ("frames = 0", "f.toml: frames: must be at least 1, not 0"),
        ("frames = 1.5", "f.toml: frames: must be a whole number, not 1.5"),
        ("frames = true", "f.toml: frames: must be a whole number, not true"),
        ('fps = "60"', "f.toml: fps: must be a number, not '60'"),
        ("fps = nan", "f.toml: fps: must be a finite number, not nan"),
        ("fps = 1979-05-27", "f.toml: fps: must be a number, not a date"),
        ("thickness = -0.001", "f.toml: thickness: must be greater than 0, not -0.001"),
        ("name = 3", "f.toml: name: must be text, not 3"),
        ('name = " "', "f.toml: name: must not be empty"),
        ('name = "a/b"', "f.toml: name: must not hold slashes or control characters, not 'a/b'"),
        ('device = "gpu"', "f.toml: device: must be 'cpu', 'cuda' or 'cuda:' with a number, not 'gpu'"),
        ('method = "plane"', "f.toml: method: no method is called 'plane', did you mean 'plain'?"),
        ("method = 3", "f.toml: method: must be the name of a method or a table with the key 'name', not 3"),
        ("[method]\nsteps = 1", "f.toml: method: needs the key 'name', one of plain"),
        ("[forces]\ngravity = [0, -9.81]", "f.toml: forces.gravity: must have 3 values, not [0, -9.81]"),
        ("[forces]\ngravity = [0, 1, 2, 3]", "f.toml: forces.gravity: must have 3 values, not [0, 1, 2, 3]"),
        ("[forces]\ngravity = -9.81", "f.toml: forces.gravity: must be a list, not -9.81"),
        ("[forces]\ngravity = [0, 'x', 0]", "f.toml: forces.gravity[1]: must be a number, not 'x'"),
        ("forces = 3", "f.toml: forces: must be a table, not 3"),
        ("[forces.wind]\nvelocity = [1, 0, 0]\ngust = 2", "f.toml: forces.wind.gust: must be at most 1, not 2"),
        ("[forces.wind]\ngust = 0.1", "f.toml: forces.wind.velocity: is missing"),
        ("cloth = 3", "f.toml: cloth: must be a list, not 3"),
        (
            "[cloth]\nname = 'x'",
            "f.toml: cloth: must be a list, not a table; square brackets around it make it one",
        ),
        ("[[cloth]]\nname = 'x'", "f.toml: cloth[0]: needs either a mesh or a shape, and has neither"),
        (f"{CLOTH}mesh = 'x.obj'", "f.toml: cloth[0]: needs either a mesh or a shape, and has both"),
        (f"{CLOTH}array = 'x'", "f.toml: cloth[0]: array is for a mesh file, and this cloth has a shape"),
        (f"{CLOTH}rest = 'mesh'", "f.toml: cloth[0]: rest = 'mesh' needs a mesh; for a shape leave rest out"),
        ("[[cloth]]\nshape = 'grid'", "f.toml: cloth[0].shape: must be a table with the key 'kind', not 'grid'"),
        ("[[cloth]]\nshape = {size = [1, 1]}", "f.toml: cloth[0].shape: needs the key 'kind', one of grid, strip,"),
        (
            "[[cloth]]\nshape = {kind = 'gird'}",
            "f.toml: cloth[0].shape: kind = 'gird' is unknown, did you mean 'grid'?",
        ),
        (
            "[[cloth]]\nshape = {kind = 'grid', sise = 1}",
            "f.toml: cloth[0].shape.sise: unknown key, did you mean 'size'?",
        ),
        (
            "[[cloth]]\nshape = {kind = 'grid', cells = [0, 1]}",
            "f.toml: cloth[0].shape.cells[0]: must be at least 1, not 0",
        ),
        (f"{CLOTH}material = 'slik'", "f.toml: cloth[0].material: no material is called 'slik', did you mean 'silk'?"),
        (f"{CLOTH}material = 3", "f.toml: cloth[0].material: must be the name of a material or a table, not 3"),
        (f"{CLOTH}material = {{density = 0}}", "f.toml: cloth[0].material.density: must be at least 1e-07, not 0"),
        (f"{CLOTH}material = {{friction = -1}}", "f.toml: cloth[0].material.friction: must be at least 0, not -1"),
        (
            f"{CLOTH}material = {{friction = 0.1, friction_kinetic = 0.2}}",
            "f.toml: cloth[0].material: friction_kinetic = 0.2 is more than friction = 0.1: sliding friction cannot "
            "exceed static friction",
        ),
        (f"{CLOTH}placement = {{scale = 0}}", "f.toml: cloth[0].placement.scale: must be greater than 0, not 0"),
        (f"{CLOTH}colour = 'red'", "f.toml: cloth[0].colour: must be a colour like '#3366cc', not 'red'"),
        (
            f"{CLOTH}pins = [{{boundary = 'lef'}}]",
            "f.toml: cloth[0].pins[0].boundary: must be one of left, right, top, bottom, corners, top_left, top_right, "
            "bottom_left, bottom_right, all, not 'lef'; did you mean 'left'?",
        ),
        (
            f"{CLOTH}pins = [{{}}]",
            "f.toml: cloth[0].pins[0]: needs exactly one of indices, box, boundary and group, and has none of them",
        ),
        (
            f"{CLOTH}pins = [{{indices = [1], boundary = 'all'}}]",
            "f.toml: cloth[0].pins[0]: needs exactly one of indices, box, boundary and group, and has indices and boundary",
        ),
        (f"{CLOTH}pins = [{{indices = []}}]", "f.toml: cloth[0].pins[0].indices: must not be empty"),
        (f"{CLOTH}pins = [{{indices = [-1]}}]", "f.toml: cloth[0].pins[0].indices[0]: must be at least 0, not -1"),
        (
            f"{CLOTH}pins = [{{box = [[0, 0, 0], [1, -1, 1]]}}]",
            "f.toml: cloth[0].pins[0]: box is empty along y: 0 is not below -1",
        ),
        (
            f"{CLOTH}pins = [{{box = [[0, nan, 0], [1, 1, 1]]}}]",
            "f.toml: cloth[0].pins[0]: box is empty along y: nan is not below 1",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nmotion = {kind = 'path', keyframes = [{time = 1}, {time = 0.5}]}",
            "f.toml: collider[0].motion.keyframes: must be in the order of their times: [1].time = 0.5 is not after "
            "[0].time = 1",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nmotion = {kind = 'path', keyframes = []}",
            "f.toml: collider[0].motion.keyframes: must not be empty",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nmotion = {kind = 'spin', axis = [0, 0, 0]}",
            "f.toml: collider[0].motion.axis: must not be zero: it is a direction",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nmotion = {kind = 'spin', start = 2, stop = 1}",
            "f.toml: collider[0].motion.stop: must not be before start (2 s), not 1",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nmotion = {kind = 'sequence', file = 'x.npz'}",
            "f.toml: collider[0]: a shape cannot follow a sequence; leave the shape out, the sequence has the mesh",
        ),
        ("[[collider]]", "f.toml: collider[0]: needs a mesh, a shape or a motion that is a sequence, and has none"),
        (
            "[[collider]]\nshape = {kind = 'cylinder'}\nanalytic = true",
            "f.toml: collider[0]: analytic = true is for the shapes plane, sphere, capsule and box",
        ),
        (
            "[[collider]]\nshape = {kind = 'sphere'}\nanalytic = true\nplacement = {scale = [1, 2, 1]}",
            "f.toml: collider[0]: an analytic sphere or capsule can only be scaled the same along all axes",
        ),
        (
            "[[collider]]\nshape = {kind = 'box'}\nfriction = nan",
            "f.toml: collider[0].friction: must be a finite number",
        ),
        (
            f"[[cloth]]\nname = 'a'\n{GRID}\n[[cloth]]\nname = 'a'\n{GRID}",
            "f.toml: cloth[1].name: 'a' is already the name of cloth 0; each body needs its own",
        ),
        (
            f"[[cloth]]\nname = 'cloth'\n{GRID}\n[[collider]]\nname = 'cloth'\nshape = {{kind = 'box'}}",
            "f.toml: collider[0].name: 'cloth' is already the name of cloth 0; each body needs its own",
        ),
        (
            f"{CLOTH}[[seam]]\ncloth = 'clot'\nvertices = [[1, 2, 3]]",
            "f.toml: seam[0].cloth: no cloth is called 'clot', did you mean 'cloth'?",
        ),
        (
            f"{CLOTH}[[seam]]\ncloth = 'cloth'\nvertices = [[1, 2]]",
            "f.toml: seam[0].vertices[0]: must have 3 values, not [1, 2]",
        ),
        (f"{CLOTH}[[seam]]\ncloth = 'cloth'", "f.toml: seam[0]: needs either vertices or a file, and has neither"),
        (
            f"{CLOTH}[[seam]]\ncloth = 'cloth'\nvertices = [[1, 2, 3]]\nweights = [0.1, 0.2]",
            "f.toml: seam[0]: needs one weight a stitch: stitches 1, weights 2",
        ),
        (
            f"method = {{name = 'untangle', flypaper = [{{collider = 'arm'}}]}}\n{CLOTH}",
            "f.toml: method.flypaper[0].collider: no collider is called 'arm', there is none",
        ),
        (
            f"method = {{name = 'untangle', flypaper = [{{collider = 'arm'}}]}}\n{CLOTH}"
            "[[collider]]\nname = 'arms'\nshape = {kind = 'box'}",
            "f.toml: method.flypaper[0].collider: no collider is called 'arm', did you mean 'arms'?",
        ),
        ("[[cloth]\n", "f.toml:1: this is not TOML: "),
        ('name = "x"\nfps = \n', "f.toml:2: this is not TOML: "),
        ("name = [1,\n2,\n", "f.toml:2: this is not TOML: "),
        ("fps = 1\nfps = 2", "f.toml:2: this is not TOML: cannot overwrite a value"),
    ],
)
def test_each_mistake_has_its_message(text, message):
    with pytest.raises(SceneError) as caught:
        parse_scene(text, source="f.toml")
    assert str(caught.value).startswith(message)
    assert len(str(caught.value).splitlines()) == 1


def test_all_mistakes_are_listed_one_line_each():
    text = "frames = 0\ncloths = []\nfoo = 1\n[[cloth]]\nshape = {kind = 'gird'}\nmateral = 1\n[forces]\ngravity = 1"
    with pytest.raises(SceneError) as caught:
        parse_scene(text, source="f.toml")
    lines = str(caught.value).splitlines()
    assert sorted(line.split(": ")[1] for line in lines) == [
        "cloth[0].materal",
        "cloth[0].shape",
        "cloths",
        "foo",
        "forces.gravity",
        "frames",
    ]


def test_endless_nesting_is_refused():
    with pytest.raises(SceneError, match="nested too deep"):
        parse_scene("a = " + "[" * 20_000, source="f.toml")


def test_a_mark_in_front_of_the_text_is_read_over(tmp_path):
    path = tmp_path / "marked.toml"
    path.write_text(CLOTH, encoding="utf-8-sig")
    assert len(weft.load_scene(path).cloths) == 1


def test_loading_says_what_is_wrong_with_the_file(tmp_path):
    with pytest.raises(SceneError, match=r"none\.toml: no such file"):
        weft.load_scene(tmp_path / "none.toml")
    with pytest.raises(SceneError, match=r"cannot be read: Is a directory"):
        weft.load_scene(tmp_path)
    latin = tmp_path / "latin.toml"
    latin.write_bytes('name = "café"'.encode("latin-1"))
    with pytest.raises(SceneError, match=r"latin\.toml: is not UTF-8 text \(byte 11\)"):
        weft.load_scene(latin)


def test_loading_names_files_that_are_missing(tmp_path):
    path = tmp_path / "s.toml"
    path.write_text(
        "[[cloth]]\nmesh = 'shirt.obj'\npins = [{boundary = 'all', motion = {kind = 'sequence', file = 'hand.npz'}}]\n"
        "[[collider]]\nmotion = {kind = 'sequence', file = 'body'}\n[[seam]]\ncloth = 'cloth'\nfile = 'seams.npz'\n"
    )
    with pytest.raises(SceneError) as caught:
        weft.load_scene(path)
    assert str(caught.value).splitlines() == [
        f"{path}: {key}: no such file: {name} (looked in {tmp_path})"
        for key, name in (
            ("cloth[0].mesh", "shirt.obj"),
            ("cloth[0].pins[0].motion.file", "hand.npz"),
            ("collider[0].motion.file", "body"),
            ("seam[0].file", "seams.npz"),
        )
    ]


def test_files_are_relative_to_the_scene_file(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "a" / "shirt.obj").write_text("x")
    path = tmp_path / "a" / "s.toml"
    path.write_text("[[cloth]]\nmesh = 'shirt.obj'\n")
    scene = weft.load_scene(path)
    assert scene.base == tmp_path / "a"
    # a scene that goes to another folder still finds its files
    weft.save_scene(scene, tmp_path / "b" / "s.toml")
    moved = weft.load_scene(tmp_path / "b" / "s.toml")
    assert moved.cloths[0].mesh == "../a/shirt.obj"
    # in the same folder nothing changes, and absolute names never do
    weft.save_scene(scene, tmp_path / "a" / "t.toml")
    assert weft.load_scene(tmp_path / "a" / "t.toml") == scene
    absolute = weft.Scene(cloths=[weft.Cloth(mesh=tmp_path / "a" / "shirt.obj")])
    weft.save_scene(absolute, tmp_path / "b" / "t.toml")
    assert weft.load_scene(tmp_path / "b" / "t.toml") == absolute


def test_saving_is_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "s.toml"
    weft.save_scene(weft.Scene(frames=1), path)
    path.chmod(0o640)
    before = path.read_bytes()

    def full_disk(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full_disk)
        with pytest.raises(SceneError, match=r"s\.toml: cannot be written: No space left on device"):
            weft.save_scene(weft.Scene(frames=2), path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]
    weft.save_scene(weft.Scene(frames=2), path)
    assert weft.load_scene(path).frames == 2
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_saving_into_no_folder_is_refused(tmp_path):
    with pytest.raises(SceneError, match="cannot be written: No such file or directory"):
        weft.save_scene(weft.Scene(), tmp_path / "none" / "s.toml")

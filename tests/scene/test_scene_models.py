"""Scenes made in Python: frozen, exact, tolerant of numpy, and clear about mistakes."""

import subprocess
import sys
from typing import get_args

import numpy as np
import pytest
from pydantic import ValidationError

import weft
from weft.errors import SceneError
from weft.scene import MATERIALS, MethodOptions
from weft.scene.bodies import analytic_shape
from weft.scene.files import parse_scene, write_scene
from weft.scene.scene import BroadPhase, Scene


def test_mistakes_in_python_name_the_class_and_the_key():
    with pytest.raises(SceneError, match=r"^Cloth: materal: unknown key, did you mean 'material'\?$"):
        weft.Cloth(shape=weft.Grid(), materal="silk")
    with pytest.raises(SceneError, match=r"^Scene: cloths\[0\]\.shape\.size\[1\]: must be greater than 0, not -1$"):
        weft.Scene(cloths=[{"shape": {"kind": "grid", "size": (1, -1)}}])
    with pytest.raises(SceneError, match=r"^Scene: cloths\[1\]\.name: 'shirt' is already the name of cloth 0"):
        weft.Scene(cloths=[weft.Cloth(name="shirt", shape=weft.Grid())] * 2)
    with pytest.raises(SceneError, match=r"^Collider: shape: must be one of Grid, Strip, .*, not a Pin$"):
        weft.Collider(shape=weft.Pin(boundary="all"))


def test_bodies_without_a_name_are_numbered():
    cloth, box = weft.Cloth(shape=weft.Grid()), weft.Collider(shape=weft.Box())
    scene = weft.Scene(cloths=[cloth, cloth.replace(name="cloth2"), cloth], colliders=[box, box])
    assert [body.name for body in scene.cloths] == ["cloth", "cloth2", "cloth3"]
    assert [body.name for body in scene.colliders] == ["collider", "collider2"]
    assert (cloth.name, box.name) == ("cloth", "collider")
    assert parse_scene(write_scene(scene)) == scene == scene.replace(cloths=scene.cloths)
    # a name that somebody gave stays with the body that has it
    scene = weft.Scene(cloths=[cloth, cloth.replace(name="cloth")])
    assert [body.name for body in scene.cloths] == ["cloth2", "cloth"]


def test_mistakes_are_weft_errors_without_pydantic_in_sight():
    with pytest.raises(weft.WeftError) as caught:
        weft.Grid(size=1)
    assert not isinstance(caught.value, ValidationError)
    assert caught.value.__suppress_context__
    assert str(caught.value) == "Grid: size: must be a list, not 1"
    with pytest.raises(weft.WeftError, match=r"^Cloth: needs either a mesh or a shape, and has neither$"):
        weft.Cloth()


def test_scenes_cannot_be_changed_but_replaced():
    scene = weft.Scene(frames=10).at("/somewhere", "s.toml")
    with pytest.raises(SceneError, match="cannot be changed"):
        scene.frames = 3
    other = scene.replace(frames=20, method="plain")
    assert (scene.frames, other.frames, other.fps) == (10, 20, 60.0)
    assert (str(other.base), other.source) == ("/somewhere", "s.toml")
    assert isinstance(other.method, MethodOptions)
    with pytest.raises(SceneError, match="frames: must be at least 1"):
        scene.replace(frames=0)


def test_where_a_scene_comes_from_is_no_part_of_it():
    scene = weft.Scene(frames=3)
    assert scene.at("/elsewhere", "s.toml") == scene
    assert hash(scene.at("/elsewhere")) == hash(scene)
    assert scene != weft.Scene(frames=4)
    assert str(scene.base) == "."
    assert "base" not in scene.model_dump()


def test_numpy_values_are_taken_as_numbers():
    scene = weft.Scene(fps=np.float32(30), frames=np.int64(5))
    assert (scene.fps, scene.frames) == (30.0, 5)
    assert type(scene.fps) is float
    assert type(scene.frames) is int
    placement = weft.Placement(position=np.arange(3), scale=np.float64(2.0))
    assert placement == weft.Placement(position=(0, 1, 2), scale=2)
    pin = weft.Pin(indices=np.array([3, 1]))
    assert pin.indices == (3, 1)
    seam = weft.Seam(cloth="a", vertices=np.array([[0, 1, 2]]), weights=np.array([0.5]))
    assert seam == weft.Seam(cloth="a", vertices=[(0, 1, 2)], weights=[0.5])


def test_texts_and_truth_values_are_not_numbers():
    for wrong in ("3", True, None, 1.5):
        with pytest.raises(SceneError, match="frames: must be a whole number"):
            weft.Scene(frames=wrong)
    with pytest.raises(SceneError, match="repair: must be true or false, not 1"):
        weft.Cloth(mesh="a.obj", repair=1)


def test_presets_fill_in_what_is_not_given():
    silk = weft.Material(preset="silk", bend=1e-3)
    assert silk.bend == 1e-3
    assert silk.density == MATERIALS["silk"].density
    assert weft.Material() == MATERIALS["cotton"]
    assert weft.Cloth(shape=weft.Grid(), material="silk").material is MATERIALS["silk"]
    # another preset brings its own numbers, but not where one was given
    wool = silk.replace(preset="wool")
    assert (wool.bend, wool.density) == (1e-3, MATERIALS["wool"].density)


def test_sliding_friction_is_static_friction_unless_given():
    assert weft.Material(preset="silk").friction_kinetic == 0.25
    assert weft.Material(preset="silk", friction=0.1).friction_kinetic == 0.1
    assert weft.Material(friction=0.5, friction_kinetic=0.1).friction_kinetic == 0.1
    ball = weft.Collider(shape=weft.Sphere(), friction=0.7)
    assert ball.friction_kinetic == 0.7
    assert ball.replace(friction=0.2).friction_kinetic == 0.2
    rough = weft.Collider(shape=weft.Sphere(), friction=0.7, friction_kinetic=0.3)
    assert rough.replace(friction=0.6).friction_kinetic == 0.3


def test_every_preset_hangs_without_stretching_visibly():
    for name, material in MATERIALS.items():
        # strain at the top of one metre of cloth under its own weight
        assert material.density * 9.81 / material.stretch < 0.005, name
        assert material.bend < 1e-3
        assert material.friction_kinetic <= material.friction


def test_a_method_is_one_class():
    try:

        class Knit(MethodOptions):
            """For this test."""

            name: str = "knit"
            needles: int = 2

        scene = weft.Scene(method="knit")
        assert scene.method == Knit()
        assert weft.Scene(method={"name": "knit", "needles": 4}).method.needles == 4
        dumped = scene.replace(method={"name": "knit", "needles": 4}).model_dump(mode="json")
        assert Scene.model_validate(dumped).method == Knit(needles=4)
        with pytest.raises(SceneError, match=r"Scene: method\.needle: unknown key, did you mean 'needles'\?"):
            weft.Scene(method={"name": "knit", "needle": 4})
    finally:
        MethodOptions.known.pop("knit", None)
    with pytest.raises(SceneError, match="no method is called 'knit'"):
        weft.Scene(method="knit")


def test_broad_phases_are_those_that_exist():
    from weft.broad_phase.interface import BROAD_PHASES
    from weft.methods.push.centroid_trees import KINDS

    assert set(get_args(BroadPhase)) == {*BROAD_PHASES, *KINDS}


def test_analytic_shapes_carry_placement_and_scale():
    place = weft.Placement(position=(1, 2, 3), rotation_deg=(0, 0, 90), scale=2)
    capsule = analytic_shape(weft.Collider(shape=weft.Capsule(radius=0.1, length=0.6), placement=place, analytic=True))
    assert (capsule.kind, capsule.radius, capsule.half_length) == ("capsule", 0.2, 0.6)
    # its axis, y, has been turned to -x
    np.testing.assert_allclose(capsule.frame @ (0, 1, 0, 1), (0, 2, 3, 1), atol=1e-15)
    box = analytic_shape(
        weft.Collider(shape=weft.Box(size=(1, 2, 3)), placement=weft.Placement(scale=(1, 2, 3)), analytic=True)
    )
    assert box.half_size == (0.5, 2.0, 4.5)
    assert analytic_shape(weft.Collider(shape=weft.Box())) is None


def test_scenes_import_nothing_heavy():
    code = (
        "import sys, weft, weft.scene, weft.scene.files; "
        "print([m for m in ('warp', 'scipy', 'trimesh', 'zarr', 'pxr', 'pyvista') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

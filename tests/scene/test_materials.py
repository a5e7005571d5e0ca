"""Materials: one number or three, tensors, painted factors, and what is refused."""

import math

import numpy as np
import pytest
from describe_scene import describe_features

import weft
from weft.errors import SceneError
from weft.mesh import shapes
from weft.scene import Directions, Material, Scene
from weft.scene.material import FEATURES
from weft.scene.methods import MethodOptions
from weft.scene.resolve import resolve_scene


def modulus_along(tensor, direction):
    """Stiffness of a strip that is pulled in a direction (c, s) and free across it."""
    c, s = direction
    stress = np.array([c * c, s * s, c * s])
    return 1.0 / (stress @ np.linalg.inv(tensor) @ stress)


def test_one_number_is_the_stiffness_along_both_threads():
    material = Material(stretch=2000.0, shear=800.0)
    tensor = material.membrane()
    assert modulus_along(tensor, (1.0, 0.0)) == pytest.approx(2000.0)
    assert modulus_along(tensor, (0.0, 1.0)) == pytest.approx(2000.0)
    bias = modulus_along(tensor, (math.sqrt(0.5), math.sqrt(0.5)))
    assert bias == pytest.approx(4.0 / (1.0 / 2000.0 + 1.0 / 2000.0 + 1.0 / 800.0))


def test_three_numbers_are_the_moduli_of_strips():
    tensor = Material(stretch=[1000.0, 500.0, 200.0], shear=60.0).membrane()
    for angle, expected in ((0.0, 1000.0), (90.0, 500.0), (45.0, 200.0), (-45.0, 200.0)):
        a = math.radians(angle)
        assert modulus_along(tensor, (math.cos(a), math.sin(a))) == pytest.approx(expected)
    assert np.linalg.eigvalsh(tensor).min() > 0.0


def test_shear_along_the_bias_is_that_of_the_tensor():
    tensor = Material(stretch=500.0, shear={"warp": 50.0, "weft": 70.0, "bias": 200.0}).membrane()
    assert tensor[2, 2] == pytest.approx(60.0)
    # pure shear in axes at 45 degrees is stretch along the warp and the opposite along the weft
    stress = np.array([1.0, -1.0, 0.0])
    assert 1.0 / (stress @ np.linalg.inv(tensor) @ stress) == pytest.approx(200.0)


def test_rigidities_of_a_plate():
    assert Material(bend=2e-5).rigidities() == pytest.approx((2e-5, 2e-5, 1e-5))
    warp, weft, twist = Material(bend=(1e-5, 2e-5, 3e-5)).rigidities()
    assert (warp, weft) == (1e-5, 2e-5)
    # bent along the bias by the curvature 1: k_uu = k_vv = k_uv = 1/2
    assert 0.25 * (warp + weft + 4.0 * twist) == pytest.approx(3e-5)


@pytest.mark.parametrize(
    ("given", "part"),
    [
        ({"stretch": 0.0}, "stretch: must be greater than 0"),
        ({"stretch": 1e9}, "stretch: must be at most 1e+07"),
        ({"stretch": math.nan}, "not nan"),
        ({"stretch": {"weft": 300.0}}, "stretch: has weft and no warp"),
        ({"stretch": {"warp": 300.0}}, "stretch: has warp and no weft"),
        ({"stretch": {"warp": 0.0, "weft": 1.0}}, "warp must be more than 0"),
        ({"stretch": {"warp": 1.0, "weft": 1.0, "wept": 1.0}}, "stretch.wept: unknown key, did you mean 'weft'?"),
        ({"stretch": [1.0, 2.0]}, "must be one number or three (warp, weft, bias)"),
        ({"stretch": "soft"}, "stretch: must be a number"),
        ({"stretch": [1000.0, 500.0, 2.0]}, "stretch.bias = 2 must be between"),
        ({"stretch": [1000.0, 500.0, 200.0], "shear": 0.0}, "impossible without shear stiffness"),
        ({"stretch": [1000.0, 500.0, 200.0], "shear": [9.0, 9.0, 9.0]}, "give one"),
        ({"shear": [60.0, 60.0, 1.0]}, "shear.bias = 1 must be more than"),
        ({"bend": [1e-5, 1e-5, 1e-6]}, "bend.bias = 1e-06 must be at least"),
        ({"bend": -1e-5}, "bend: must be at least 0"),
        ({"stretch_limit": 0.0}, "stretch_limit: must be greater than 0"),
        ({"stretch_limit": -0.01}, "stretch_limit: must be greater than 0"),
        ({"stretch_limit": math.nan}, "stretch_limit"),
        ({"stretch_limit": "little"}, "stretch_limit: must be a number"),
        ({"yield_curvature": 0.0}, "yield_curvature: must be greater than 0"),
        ({"yield_curvature": math.nan}, "yield_curvature"),
        ({"bend_hysteresis": math.inf}, "bend_hysteresis"),
        ({"bend_hysteresis": [1.0, 2.0]}, "bend_hysteresis: must be a number"),
        ({"bend_hysteresis": -1.0}, "bend_hysteresis: must be at least 0"),
    ],
)
def test_numbers_that_no_material_has_are_refused_in_one_line(given, part):
    with pytest.raises(SceneError) as caught:
        Material(**given)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_no_bend_and_no_shear_are_materials():
    material = Material(bend=0.0, shear=0.0)
    assert material.rigidities() == (0.0, 0.0, 0.0)
    assert material.membrane()[2, 2] == 0.0


def test_three_numbers_go_through_a_scene_file(tmp_path):
    cloth = weft.Cloth(
        shape=weft.Grid(size=(1.0, 1.0), cells=(1, 1)),
        material={"stretch": [900.0, 600.0, 190.0], "stretch_limit": 0.03},
        painted={"bend": np.array([1.0, 2.0, 3.0, 4.0])},
    )
    options = "push"
    with pytest.raises(SceneError, match="is not modelled by"):
        Scene(cloths=[cloth], method=options)
    material = cloth.material
    assert Material(**material.plain()) == material
    assert material.stretch == Directions(warp=900.0, weft=600.0, bias=190.0)
    assert material.mean("stretch") == 750.0 and material.mean("bend") == material.bend
    assert cloth.unusual() == {
        ("material", "stretch"): "directions",
        ("material", "stretch_limit"): "stretch_limit",
        ("painted", "bend"): "painted",
    }


def test_presets_may_have_what_a_method_leaves_out():
    linen = Material(preset="linen")
    assert (linen.stretch_limit, linen.yield_curvature, linen.bend_hysteresis) == (0.04, 100.0, 10.0)
    cloth = weft.Cloth(shape=weft.Grid(), material="linen")
    assert cloth.unusual() == {} and linen.plain() == "linen"
    for method in MethodOptions.known:
        Scene(cloths=[cloth], method=method)
    # what differs from the preset is said explicitly
    stiffer = weft.Cloth(shape=weft.Grid(), material={"preset": "linen", "yield_curvature": 50.0})
    with pytest.raises(SceneError, match="a crease that stays is not modelled by 'push'"):
        Scene(cloths=[stiffer], method="push")


def test_every_feature_is_in_the_table_of_the_page():
    table = describe_features()
    assert all(text in table for text in FEATURES.values())
    assert all(f"`{name}`" in table for name in MethodOptions.known)


def painted_scene(monkeypatch, cloth):
    """A scene with a painted cloth, whatever its method models."""
    monkeypatch.setattr(MethodOptions, "models", frozenset(FEATURES))
    return Scene(cloths=[cloth], method="push")


def test_an_attribute_of_a_mesh_file_is_read(tmp_path, monkeypatch):
    mesh = shapes.grid((1.0, 1.0), (1, 1))
    np.savez(tmp_path / "sheet.npz", vertices=mesh.vertices, faces=mesh.faces, collar=np.array([1, 2, 3, 4.5]))
    cloth = weft.Cloth(mesh=tmp_path / "sheet.npz", painted={"bend": "collar"})
    assert resolve_scene(painted_scene(monkeypatch, cloth)).painted[0]["bend"].tolist() == [1.0, 2.0, 3.0, 4.5]

    rows = "\n".join(f"{x} {y} {z} {k}" for k, (x, y, z) in enumerate(mesh.vertices))
    faces = "\n".join(f"3 {a} {b} {c}" for a, b, c in mesh.faces)
    names = "\n".join(f"property float {name}" for name in ("x", "y", "z", "paint"))
    header = f"ply\nformat ascii 1.0\nelement vertex 4\n{names}\nelement face 2\nproperty list uchar int vertex_indices"
    (tmp_path / "sheet.ply").write_text(f"{header}\nend_header\n{rows}\n{faces}\n")
    cloth = weft.Cloth(mesh=tmp_path / "sheet.ply", painted={"stretch": "paint"})
    assert resolve_scene(painted_scene(monkeypatch, cloth)).painted[0]["stretch"].tolist() == [0.0, 1.0, 2.0, 3.0]
    cloth = weft.Cloth(mesh=tmp_path / "sheet.ply", painted={"stretch": "pint"})
    with pytest.raises(SceneError, match="no vertex attribute 'pint'; it has paint"):
        resolve_scene(painted_scene(monkeypatch, cloth))


@pytest.mark.parametrize(
    ("painted", "part"),
    [
        ({"bend": [1.0, 2.0]}, "there are 2 values, and 'cloth' has 4 vertices"),
        ({"bend": []}, "must not be empty"),
        ({"bend": [1.0, -2.0, 1.0, 1.0]}, "must be at least 0"),
        ({"bend": 3.0}, "must be one number a vertex or the name of a vertex attribute"),
        ({"bend": "collar"}, "names a vertex attribute of a mesh file, and this cloth has a shape"),
        ({"bent": [1.0]}, "unknown key, did you mean 'bend'?"),
    ],
)
def test_bad_paint_is_refused(painted, part, monkeypatch):
    with pytest.raises(SceneError) as caught:
        cloth = weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(1, 1)), painted=painted)
        resolve_scene(painted_scene(monkeypatch, cloth))
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("cloth", "part"),
    [
        ({"material": {"bend": 0.0}, "creases": [{"edges": [[0, 1]]}]}, "creases has no effect where bend is 0"),
        ({"material": {"bend": 0.0, "yield_curvature": 9.0}}, "material.yield_curvature has no effect where bend is 0"),
        ({"material": {"bend": 0.0, "bend_hysteresis": 9.0}}, "material.bend_hysteresis has no effect where bend is 0"),
        ({"painted": {"stretch_limit": [1.0] * 4}}, "painted.stretch_limit scales nothing"),
        ({"painted": {"yield_curvature": [1.0] * 4}}, "painted.yield_curvature scales nothing"),
        ({"painted": {"bend_hysteresis": [1.0] * 4}}, "painted.bend_hysteresis scales nothing"),
    ],
)
def test_what_would_have_no_effect_is_refused_in_one_line(cloth, part):
    with pytest.raises(SceneError) as caught:
        weft.Cloth(shape=weft.Grid(size=(1.0, 1.0), cells=(1, 1)), **cloth)
    assert part in str(caught.value) and "\n" not in str(caught.value)


def test_soft_linen_needs_no_message():
    assert weft.Cloth(shape=weft.Grid(), material={"preset": "linen", "bend": 0.0}).material.bend == 0.0

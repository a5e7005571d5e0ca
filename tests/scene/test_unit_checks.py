"""Slips of units give a warning that says what to write; good numbers give none."""

import warnings

import pytest

import weft
from weft.errors import WeftWarning
from weft.mesh import TriMesh, save_mesh, shapes
from weft.scene import MATERIALS
from weft.scene.resolve import resolve_scene
from weft.scene.unit_checks import suspicious_needle, suspicious_numbers, suspicious_size


def cloth(**fields):
    return weft.Scene(cloths=[weft.Cloth(shape=weft.Grid(cells=(1, 1)), **fields)])


@pytest.mark.parametrize(
    ("scene", "key", "text"),
    [
        (weft.Scene(thickness=1), "thickness", "1 m is thicker than any cloth: is it in millimetres? then write 0.001"),
        (cloth(material={"thickness": 0.5}), "cloths.0.material.thickness", "then write 0.0005"),
        (
            cloth(material={"density": 150}),
            "cloths.0.material.density",
            "150 kg/m^2 is heavier than any cloth: is it in g/m^2? then write 0.15",
        ),
        (cloth(material={"density": 0.0001}), "cloths.0.material.density", "lighter than any cloth"),
        (cloth(material={"bend": 5}), "cloths.0.material.bend", "stiffer than any cloth"),
        (cloth(material={"damping": 1}), "cloths.0.material.damping", "1 s stops cloth"),
        (cloth(velocity=(0, 500, 0)), "cloths.0.velocity", "500 m/s is very fast"),
        (
            weft.Scene(forces={"gravity": (0, 9.81, 0)}),
            "forces.gravity",
            "points up (9.81 along y, and y is up): write -9.81",
        ),
        (weft.Scene(forces={"gravity": (0, 0, -9.81)}), "forces.gravity", "points along z, and y is up"),
        (weft.Scene(forces={"gravity": (0, -981, 0)}), "forces.gravity", "is it in cm/s^2?"),
        (weft.Scene(forces={"wind": {"velocity": (0, 0, 120)}}), "forces.wind.velocity", "is it in km/h?"),
        (
            weft.Scene(
                colliders=[
                    weft.Collider(
                        shape=weft.Box(),
                        motion=weft.Path(
                            keyframes=[weft.Keyframe(time=0), weft.Keyframe(time=1, rotation_deg=(0, 360, 0))]
                        ),
                    )
                ]
            ),
            "colliders.0.motion.keyframes.1.rotation_deg",
            "turns by 360 degrees from the keyframe before, and goes the shorter way instead",
        ),
    ],
)
def test_slips_are_found(scene, key, text):
    found = list(suspicious_numbers(scene))
    assert len(found) == 1
    assert ".".join(map(str, found[0][0])) == key
    assert text in found[0][1]


def test_good_numbers_are_no_slips():
    for name in MATERIALS:
        assert list(suspicious_numbers(cloth(material=name))) == []
    weightless = weft.Scene(forces={"gravity": (0, 0, 0), "wind": {"velocity": (20, 0, 0)}})
    assert list(suspicious_numbers(weightless)) == []


def test_sizes():
    body = shapes.capsule(0.3, 1.1).vertices
    assert suspicious_size(body) is None
    assert "is 170 m large: is the mesh in centimetres? then write placement.scale = 0.01" in suspicious_size(
        body * 100
    )
    assert "is the mesh in millimetres? then write placement.scale = 0.001" in suspicious_size(body * 1000)
    assert "is only 1.7 mm large" in suspicious_size(body / 1000)


def test_needles():
    points = [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.0, 0.5], [0.5, 0.0, 0.501], [0.4, 0.0, -0.005]]
    assert suspicious_needle(TriMesh(points[:4], [[0, 2, 1], [0, 3, 2]])).startswith(
        "triangle 1 is 1e+03 times as long as high:"
    )
    assert "(and 1 more are needles)" in suspicious_needle(TriMesh(points, [[0, 2, 1], [0, 3, 2], [0, 1, 4]]))
    assert suspicious_needle(TriMesh(points[:3], [[0, 2, 1]])) is None
    with pytest.warns(WeftWarning, match=r"cloths\[0\]: triangle 1 is 1e\+03 times"):
        resolve_scene(weft.Scene(cloths=[weft.Cloth(mesh=TriMesh(points[:4], [[0, 2, 1], [0, 3, 2]]))]))


def test_warnings_name_the_file_and_the_key(tmp_path):
    path = tmp_path / "s.toml"
    save_mesh(TriMesh(shapes.box().vertices * 170, shapes.box().faces), tmp_path / "body.obj")
    path.write_text(
        "thickness = 1\n[[cloth]]\nshape = {kind = 'grid', cells = [1, 1]}\nmaterial = {density = 150}\n"
        "[[collider]]\nmesh = 'body.obj'\n"
    )
    with pytest.warns(WeftWarning) as caught:
        scene = weft.load_scene(path)
    texts = [str(w.message) for w in caught]
    assert [t.split(": ")[:2] for t in texts] == [[str(path), "thickness"], [str(path), "cloth[0].material.density"]]
    # what was said once is not said again, only what the files tell
    with pytest.warns(WeftWarning) as caught:
        resolve_scene(scene)
    assert [str(w.message) for w in caught] == [
        f"{path}: collider[0]: is 170 m large: is the mesh in centimetres? then write placement.scale = 0.01"
    ]


def test_scenes_made_in_python_are_checked_when_they_are_resolved():
    with pytest.warns(WeftWarning, match=r"^thickness: 1 m is thicker"):
        resolve_scene(cloth().replace(thickness=1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # a floor may be as large as it likes
        resolve_scene(cloth().replace(colliders=[weft.Collider(shape=weft.Plane(size=(500, 500)))]))

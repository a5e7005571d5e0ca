"""Scenes beyond reason: one clear message each, at once."""

import time

import pytest

import weft
from weft.errors import SceneError
from weft.farm.sweeps import parse_axis
from weft.scene.files import parse_scene
from weft.scene.resolve import resolve_scene, shape_mesh
from weft.scene.size import shape_vertices

CLOTH = '[[cloth]]\nname = "a"\nshape = {kind = "grid", cells = [2, 2]}\n'


def refused(text: str) -> str:
    began = time.monotonic()
    with pytest.raises(SceneError) as error:
        resolve_scene(parse_scene(text))
    assert time.monotonic() - began < 10.0
    assert len(str(error.value)) < 20_000
    return str(error.value)


@pytest.mark.parametrize(
    "shape",
    [
        'kind = "grid", cells = [100000, 100000]',
        'kind = "strip", cells = [1000000000000000000, 2]',
        'kind = "sphere", triangles = "uv", rings = 4000000000',
        'kind = "capsule", segments = 100000000, rings = 1000',
        'kind = "box", cells = [100000, 100000, 100000]',
        'kind = "cylinder", rings = 10000000000',
        'kind = "plane", cells = [1000000, 1000000]',
    ],
)
def test_shapes_that_do_not_fit_the_memory(shape):
    message = refused(CLOTH + f'[[collider]]\nname = "b"\nshape = {{{shape}}}\n')
    assert "colliders[0].shape: this " in message and "GB of memory" in message


@pytest.mark.parametrize(
    "shape",
    [
        weft.Grid(cells=(7, 3)), weft.Strip(), weft.Sphere(subdivisions=2), weft.Sphere(triangles="uv"), weft.Capsule(),
        weft.Box(cells=(3, 4, 5)), weft.Cylinder(), weft.Plane(cells=(2, 5)),
    ],
)  # fmt: skip
def test_sizes_are_known_before_a_mesh_is_made(shape):
    assert shape_vertices(shape) == pytest.approx(len(shape_mesh(shape).vertices), rel=0.1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"frames = {'9' * 5000}\n" + CLOTH, "a number in it cannot be read"),
        (
            f"frames = {'9' * 400}\n" + CLOTH,
            "a number of more than 300 digits",
        ),
        ("frames = 1000000000000000000\n" + CLOTH, "frames: must be less than 1e+08"),
        ("method = {name = 'robust', steps = 1000000000}\n" + CLOTH, "method.steps: must be less than 1e+06"),
        ("method = {name = 'predictive', substeps = 1000000}\n" + CLOTH, "method.substeps: must be less than 1e+06"),
        (CLOTH + f'[[seam]]\ncloth = "a"\nvertices = [[0, 1, 1{"0" * 40}]]\n', "must fit 64 bits"),
        (CLOTH + '[[seam]]\ncloth = "a"\nvertices = [[0, 1, 9000000000000000000]]\n', "only the vertices 0 to 8"),
        ("fps = 1e-12\n" + CLOTH, "fps: must be at least 0.001, not 1e-12"),
        ("fps = 1e308\n" + CLOTH, "fps: must be at most 1e+07, not 1e+308"),
        (CLOTH + "material = {density = 1e-30}\n", "material.density: must be at least 1e-07, not 1e-30"),
        (
            CLOTH + 'pins = [{boundary = "left", motion = {kind = "spin", axis = [1e-200, 0, 0]}}]\n',
            "axis: must not be zero",
        ),
        ("fps = " + "[" * 400 + "]" * 400 + "\n" + CLOTH, "fps: must be a number, not [[...]]"),
        ("fps = " + "[" * 90000 + "]" * 90000 + "\n" + CLOTH, "nested too deep"),
        ("\n".join(f"key{i} = 1" for i in range(4000)) + "\n" + CLOTH, "and more than 3,949 other mistakes"),
    ],
)
def test_numbers_nesting_and_mistakes_without_end(text, words):
    assert words in refused(text)


def test_many_keyframes_with_mistakes():
    frames = ",".join(f"{{time = {i}, position = [0, 0]}}" for i in range(20_000))
    text = (
        f'[[collider]]\nname = "b"\nshape = {{kind = "sphere"}}\nmotion = {{kind = "path", keyframes = [{frames}]}}\n'
    )
    message = refused(CLOTH + text)
    assert (
        "keyframes[0].position: must have 3 values, not [0, 0]" in message
        and "and more than 19,949 other mistakes" in message
    )


def test_many_keyframes_are_read_at_once():
    keyframes = [weft.Keyframe(time=i, position=(i, 0, 0), rotation_deg=(0, i, 0)) for i in range(50_000)]
    began = time.process_time()
    motion = weft.Path(keyframes=keyframes).resolve()
    assert time.process_time() - began < 2.0
    assert motion.matrix(40_000.5)[:3, 3].tolist() == pytest.approx([40_000.5, 0.0, 0.0])


@pytest.mark.parametrize("values", ["1..1e999999..1", "1..1e300..1", f"1..{'9' * 5000}", "1..1e30..1"])
def test_ranges_without_end(values):
    with pytest.raises(SceneError, match=r"too large|at most"):
        parse_axis(f"seed={values}")

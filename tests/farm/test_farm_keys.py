"""Keys, values and which runs they make: plain functions, no cluster."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.errors import WeftError
from weft.farm.keys import change_scene, find_key, split_key
from weft.farm.study import make_runs
from weft.farm.sweeps import (
    Axis,
    Interval,
    combine,
    name_run,
    parse_axis,
    parse_sample,
    parse_values,
    read_list,
    sample_latin,
)
from weft.farm.wedging import plan

ONE = weft.Scene(
    cloths=[weft.Cloth(name="sheet", shape=weft.Grid(cells=(4, 4)), material="silk", pins=[weft.Pin(boundary="top")])],
    colliders=[
        weft.Collider(name="ball", shape=weft.Sphere(), motion=weft.Path(keyframes=[weft.Keyframe(time=0.0)])),
        weft.Collider(name="a.b", shape=weft.Box()),
    ],
)
TWO = ONE.replace(cloths=[*ONE.cloths, weft.Cloth(name="skirt", shape=weft.Strip())])


@pytest.mark.parametrize(
    ("scene", "key", "path"),
    [
        (ONE, "seed", ("seed",)),
        (ONE, "cloth.material.friction", ("cloth", 0, "material", "friction")),
        (ONE, "cloth.sheet.material.friction", ("cloth", 0, "material", "friction")),
        (ONE, "cloth[0].material", ("cloth", 0, "material")),
        (TWO, "cloth.skirt.shape.length", ("cloth", 1, "shape", "length")),
        (TWO, "cloth[1].shape.length", ("cloth", 1, "shape", "length")),
        (ONE, "cloth.pins.until", ("cloth", 0, "pins", 0, "until")),
        (ONE, "collider.ball.placement.position[1]", ("collider", 0, "placement", "position", 1)),
        (ONE, "collider.ball.motion.keyframes[0].time", ("collider", 0, "motion", "keyframes", 0, "time")),
        (ONE, 'collider."a.b".friction', ("collider", 1, "friction")),
        (ONE, "method.steps", ("method", "steps")),
        (ONE, "forces.gravity[1]", ("forces", "gravity", 1)),
    ],
)
def test_keys(scene, key, path):
    assert find_key(scene, key) == path


@pytest.mark.parametrize(
    ("scene", "key", "words"),
    [
        (ONE, "cloth.material.frction", "cloth[0].material has no key 'frction', did you mean 'friction'?"),
        (ONE, "sed", "the scene has no key 'sed', did you mean 'seed'?"),
        (ONE, "cloths.material", "did you mean 'cloth'?"),
        (TWO, "cloth.material.friction", "called sheet, skirt"),
        (TWO, "cloth.shirt.material", "called sheet, skirt"),
        (ONE, "cloth[3].material", "cloth has 1 items, counted from 0"),
        (ONE, "cloth", "is a list of tables; choose a key in one of them, such as cloth.material.friction"),
        (ONE, "forces.wind.velocity", "forces.wind is not set in the scene"),
        (ONE, "seed.x", "seed is 0, which has no keys"),
        (ONE, "seam.kind", "seam is empty in this scene"),
        (ONE, "cloth.material.", "write a key as in a scene file"),
        (ONE, "", "write a key as in a scene file"),
        (ONE, "forces.gravity.y", "choose one by its number"),
        (ONE, "cloth.pins[5].until", "cloth[0].pins has 1 items"),
    ],
)
def test_keys_that_are_not_there(scene, key, words):
    with pytest.raises(WeftError) as caught:
        find_key(scene, key)
    assert words in str(caught.value) and str(caught.value).startswith(key) and "\n" not in str(caught.value)


@given(st.text(max_size=30))
def test_any_text_is_a_key_or_refused(text):
    try:
        find_key(TWO, text)
    except WeftError as error:
        assert str(error)


def test_changes_are_what_the_file_would_say():
    changed = change_scene(
        ONE,
        {
            ("seed",): 7,
            ("cloth", 0, "material", "friction"): 0.1,
            ("collider", 0, "placement", "position", 1): -2.0,
            ("forces", "air_damping"): 0.25,
            ("method", "steps"): 4,
        },
    )
    assert changed.seed == 7 and changed.method.steps == 4 and changed.forces.air_damping == 0.25
    # silk is still silk, and slides no worse than it sticks
    material = changed.cloths[0].material
    assert material.friction == 0.1 and material.friction_kinetic == 0.1 and material.density == 0.08
    assert changed.colliders[0].placement.position == (0.0, -2.0, 0.0)
    # all else is as it was
    assert changed.cloths[0].pins == ONE.cloths[0].pins and changed.colliders[1] == ONE.colliders[1]
    assert change_scene(ONE, {}) == ONE
    silk, denim = (change_scene(ONE, {("cloth", 0, "material"): name}) for name in ("silk", "denim"))
    assert silk == ONE and denim.cloths[0].material.density == 0.4
    # a table and a key in it, in whatever order
    pair = [(("cloth", 0, "material", "friction"), 0.2), (("cloth", 0, "material"), "denim")]
    for changes in (dict(pair), dict(reversed(pair))):
        material = change_scene(ONE, changes).cloths[0].material
        assert material.density == 0.4 and material.friction == 0.2


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.1,0.3,0.5", (0.1, 0.3, 0.5)),
        ("1..5", (1, 2, 3, 4, 5)),
        ("1..3,10", (1, 2, 3, 10)),
        ("0..1..0.25", (0.0, 0.25, 0.5, 0.75, 1.0)),
        ("0.1..0.3..0.1", (0.1, 0.2, 0.3)),
        ("-2..1", (-2, -1, 0, 1)),
        ("silk, denim", ("silk", "denim")),
        ("true,false", (True, False)),
        ("[0, 1, 0],[0, 2, 0]", ([0, 1, 0], [0, 2, 0])),
        ('{name = "robust", steps = 4}', ({"name": "robust", "steps": 4},)),
        ('"1","a,b"', ("1", "a,b")),
        ("1e-6", (1e-6,)),
        ("2020-01-01", ("2020-01-01",)),
        ("0.1:0.5", Interval(0.1, 0.5)),
        ("1:20", Interval(1, 20)),
        ("1e-7:1e-4:log", Interval(1e-7, 1e-4, log=True)),
    ],
)
def test_values(text, values):
    assert parse_values("key", text) == values


def test_a_whole_number_of_thousands_of_digits_is_no_number():
    assert parse_values("key", "7" * 6000) == ("7" * 6000,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("seed", "write a key and its values"),
        ("=1", "write a key and its values"),
        ("seed=", "a value is missing"),
        ("seed=1,,2", "a value is missing"),
        ("seed=5..1", "a range goes upwards"),
        ("fps=0.1..0.5", "say the step"),
        ("seed=1..5..0", "a range goes upwards"),
        ("seed=0..999999999", "at most 100000"),
        ("fps=0.5:0.1", "an interval goes upwards"),
        ("fps=1:2,3", "must stand alone"),
        ("fps=0:1:log", "must be more than 0"),
    ],
)
def test_bad_values(text, words):
    with pytest.raises(WeftError, match=words):
        parse_axis(text)


@given(st.text(max_size=40))
def test_any_text_is_values_or_refused(text):
    try:
        parse_axis(f"seed={text}")
    except WeftError as error:
        assert "seed" in str(error)


def test_all_combinations_in_order():
    axes = [Axis("a", (1, 2)), Axis("b", ("x", "y"))]
    assert combine(axes) == [{"a": 1, "b": "x"}, {"a": 1, "b": "y"}, {"a": 2, "b": "x"}, {"a": 2, "b": "y"}]
    with pytest.raises(WeftError, match=r"a=1:2: an interval is for --sample"):
        combine([Axis("a", Interval(1, 2))])
    with pytest.raises(WeftError, match="1000000 combinations"):
        combine([Axis("a", tuple(range(1000))), Axis("b", tuple(range(1000)))])


@given(st.integers(1, 60), st.integers(0, 999))
def test_latin_hypercube(count, seed):
    axes = [Axis("a", Interval(-1.0, 3.0)), Axis("b", Interval(1e-6, 1e-2, log=True)), Axis("c", ("x", "y"))]
    runs = sample_latin(axes, count, seed)
    assert runs == sample_latin(axes, count, seed) and len(runs) == count
    # every part of every interval has one run in it (six digits move a number by less than 1e-5 of a part)
    parts = np.sort([(run["a"] + 1.0) / 4.0 * count for run in runs])
    assert np.all(np.abs(parts - np.arange(count) - 0.5) <= 0.5 + 1e-3)
    logs = np.sort([np.log(run["b"] / 1e-6) / np.log(1e4) * count for run in runs])
    assert np.all(np.abs(logs - np.arange(count) - 0.5) <= 0.5 + 1e-3)
    assert abs(sum(run["c"] == "x" for run in runs) - count / 2) <= 0.5


def test_latin_hypercube_of_whole_numbers():
    runs = sample_latin([Axis("seed", Interval(1, 4))], 40)
    # what would be the same run is one
    assert sorted(run["seed"] for run in runs) == [1, 2, 3, 4]
    assert parse_sample("latin:50") == (50, 0) and parse_sample("latin:50:7") == (50, 7)
    for text in ("latin", "latin:0", "sobol:5", "latin:x", "latin:5:5:5"):
        with pytest.raises(WeftError, match="write latin:"):
            parse_sample(text)


def test_intervals_of_whole_numbers_are_whole_where_the_key_is():
    seeds = plan(ONE, {"seed": Interval(0, 1)}, (9, 0))
    assert sorted(run["seed"] for run in seeds) == [0, 1]
    dampings = plan(ONE, {"forces.air_damping": Interval(0, 1)}, (9, 0))
    assert len(dampings) == 9 and all(0.0 <= run["forces.air_damping"] <= 1.0 for run in dampings)
    thick = plan(ONE, {"cloth.material.thickness": Interval(1, 2)}, (9, 0))
    assert len(thick) == 9


def test_lists(tmp_path):
    (tmp_path / "a.csv").write_text('seed,cloth.material,forces.gravity\n1,silk,"[0, -1, 0]"\n2,,\n')
    assert read_list(tmp_path / "a.csv") == [
        {"seed": 1, "cloth.material": "silk", "forces.gravity": [0, -1, 0]},
        {"seed": 2},
    ]
    (tmp_path / "a.toml").write_text("[[run]]\nseed = 1\ncloth.material.friction = 0.2\n\n[[run]]\nseed = 2\n")
    assert read_list(tmp_path / "a.toml") == [{"seed": 1, "cloth.material.friction": 0.2}, {"seed": 2}]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "", "lists no run"),
        ("a.csv", "seed\n", "lists no run"),
        ("a.csv", "seed,seed\n1,2\n", "each once"),
        ("a.csv", "seed,\n1,2\n", "name a key in every column"),
        ("a.csv", "seed,fps\n1\n", "run 1 has 1 values for 2 keys"),
        ("a.csv", 'seed\n"1', "is not CSV"),
        ("a.toml", "seed = 1", "each run is a table"),
        ("a.toml", "[[run]", "is not TOML"),
        ("a.txt", "seed", "ends in .csv or .toml"),
    ],
)
def test_bad_lists(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(WeftError, match=words) as caught:
        read_list(tmp_path / name)
    assert str(tmp_path / name) in str(caught.value)


def test_a_list_that_is_not_there(tmp_path):
    with pytest.raises(WeftError, match="cannot be read: no such file"):
        read_list(tmp_path / "a.csv")
    (tmp_path / "b.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(WeftError, match="not UTF-8"):
        read_list(tmp_path / "b.csv")


values = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(max_size=30), st.booleans(), st.lists(st.integers())
)


@given(st.lists(st.dictionaries(st.text(min_size=1, max_size=20), values, max_size=3), max_size=6))
def test_names_are_safe_and_tell_runs_apart(combinations):
    exact = {json.dumps(run, sort_keys=True): name_run(run) for run in combinations}
    assert len(set(exact.values())) == len(exact)
    for run in combinations:
        name = name_run(run)
        assert name == name_run(dict(reversed(run.items())))
        assert name and len(name) <= 160 and name.isascii() and not set(name) & set('/\\\0:*?"<>|')
        # with .zarr after it, it is never a name for another folder
        assert f"{name}.zarr" not in (".", "..")


def test_names_say_what_is_varied():
    assert name_run({"seed": 3, "cloth.material.friction": 0.1}) == "cloth.material.friction=0.1,seed=3"
    assert name_run({"method": "push"}) == "method=push"
    assert name_run({"a": 1}) != name_run({"a": "1"}) != name_run({"a": '"1"'})
    assert name_run({"a": float("inf")}) != name_run({"a": "Infinity"})
    assert name_run({"a": True}) != name_run({"a": "true"})


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        ({"cloth.material.friction": [-0.1]}, r"^cloth.material.friction = -0.1: must be at least 0"),
        ({"frames": [1.5]}, r"^frames = 1.5: must be a whole number"),
        (
            {"cloth.material": ["silc"]},
            r"^cloth.material = \"silc\": no material is called 'silc', did you mean 'silk'",
        ),
        ({"method": ["robust", "robst"]}, r"^method = \"robst\": no method is called"),
        ({"seed": [1], "method.steps": [4, 0]}, r"^method.steps = 0: must be at least 1"),
        ({"cloth.mesh": ["nowhere.obj"]}, 'cloth.mesh = "nowhere.obj": '),
        (
            {"cloth.material.friction": [0.1], "cloth.material.friction_kinetic": [0.5]},
            "sliding friction cannot exceed",
        ),
        ({"seed": [1], "cloth[0].name": ["a", "ball"]}, "is already the name"),
        ({"cloth.material": ["silk"], "cloth[0].material": ["denim"]}, "given twice"),
        ({"seed": [1, 1]}, "seed: a value is given twice"),
        ({"seed": []}, "seed: there is no value"),
        ({"seed": [{"a": 1}]}, "seed = .*: must be a whole number"),
        ({"seed": [None]}, "seed: a value must be something that a scene file can say, not nothing"),
        ({"seed": 5}, "seed: give a list of values, not 5"),
        ({"cloth.material": "silk"}, "cloth.material: give a list of values, not 'silk'"),
        ({}, "needs keys to vary"),
    ],
)
def test_bad_studies_are_one_sentence_before_anything_runs(vary, words):
    with pytest.raises(WeftError, match=words) as caught:
        make_runs(ONE, plan(ONE, vary))
    assert "\n" not in str(caught.value)


def test_values_that_only_together_make_sense():
    # sliding friction of silk is 0.25: each of these is wrong alone, and right with the other
    runs = make_runs(ONE, [{"cloth.material.friction": 0.1, "cloth.material.friction_kinetic": 0.05}])
    assert runs[0].scene.cloths[0].material.friction_kinetic == 0.05
    runs = make_runs(ONE, [{"cloth.material.friction_kinetic": 0.5, "cloth.material.friction": 0.6}])
    assert runs[0].scene.cloths[0].material.friction == 0.6


def test_values_of_numpy():
    runs = plan(ONE, {"seed": np.arange(2), "forces.gravity": np.zeros((1, 3)), "fps": np.linspace(30.0, 60.0, 2)})
    assert [name_run(run) for run in runs] == [
        name_run({"seed": seed, "forces.gravity": [0.0, 0.0, 0.0], "fps": fps})
        for seed in (0, 1)
        for fps in (30.0, 60.0)
    ]
    assert make_runs(ONE, runs)[0].scene.forces.gravity == (0.0, 0.0, 0.0)


def test_split_key():
    assert split_key('a."b.c"[0].d') == ["a", "b.c", 0, "d"]
    for bad in ("a..b", ".a", "a.", "a[b]", "a[0", 'a."b', "[", "a.[0]"):
        with pytest.raises(WeftError):
            split_key(bad)

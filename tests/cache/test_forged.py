"""Damaged and forged caches: whatever their files state, reading them gives the frames or a CacheError in one line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import weft
from weft.cache import Body, CacheWriter, layout, open_cache
from weft.cli.info import describe_cache
from weft.errors import CacheError
from weft.run.origin import differences

FRAMES = 3


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("forged") / "a.zarr"
    scene = weft.Scene(cloths=[weft.Cloth(name="sheet", shape=weft.Grid(cells=(1, 1)))])
    faces = np.array([[0, 1, 2], [2, 1, 3]])
    body = Body("sheet", "cloth", slice(0, 4), slice(0, 2))
    origin = {"physics": "{}", "geometry": "x", "files": {}, "device": "cpu"}
    uv = np.arange(8.0).reshape(4, 2)
    with CacheWriter.create(
        path, frames=FRAMES, faces=faces, bodies=[body], fps=30, uv=uv, scene=scene, origin=origin
    ) as writer:
        for frame in range(FRAMES):
            row = {"frame": frame, "time": frame / 30, "wall_time": 0.1, "steps": 2, "contacts": 1, "collisions": 0}
            row |= {"zones": 0, "stretch": 0.1, "intersections": 0, "status": "ok", "extra": 1.5}
            x = np.full((4, 3), 1.0 + frame)
            writer.append(x, -x, row, {"counter": np.array([frame]), "other": np.arange(9.0)})
    return path


def use(path: Path) -> None:
    """Read all that a cache has, as commands do."""
    cache = open_cache(path)
    list(describe_cache(cache))
    problems = cache.verify()
    assert all(problem and "\n" not in problem for problem in problems)
    cache.report.to_csv()
    for frame in range(cache.frames):
        assert np.isfinite(cache.positions(frame)).all() and np.isfinite(cache.velocities(frame)).all()
        cache.row(frame)
    for body in cache.bodies:
        assert cache.positions(-1)[body.vertices].shape[0] == body.vertices.stop - body.vertices.start
        assert len(cache.faces[body.faces]) == body.faces.stop - body.faces.start
    json.dumps(cache.origin)
    with CacheWriter.resume(path) as writer:
        writer.checkpoint()


def honest(path: Path) -> None:
    """A cache is read, or refused with one line."""
    try:
        use(path)
    except CacheError as error:
        assert str(error).strip() and "\n" not in str(error)


# any value that JSON can hold
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.integers(-3, 5),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["", "[" * 5000, "{}", "nan", "1e999"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=5), inner, max_size=3)),
    max_leaves=6,
)


def places(tree):
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from places(value)


def change(tree, changes):
    """Replace, remove or add values at some places of a tree."""
    for where, kind, value in changes:
        found = list(places(tree))
        if not found:
            return
        holder, key = found[where % len(found)]
        if kind == "remove":
            del holder[key]
        elif kind == "add" and isinstance(holder, list):
            holder.insert(key, value)
        else:
            holder[key] = value


changes = st.lists(
    st.tuples(st.integers(0, 10**6), st.sampled_from(["replace", "replace", "remove", "add"]), values),
    min_size=1,
    max_size=3,
)
FILES = (
    "zarr.json",
    "weft/frames/00000001.json",
    "weft/frames/00000002.json",
    "positions/zarr.json",
    "faces/zarr.json",
)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(FILES), changes)
def test_forged_and_sealed_content_is_read_or_refused(made, tmp_path_factory, name, edits):
    path = tmp_path_factory.mktemp("f") / "a.zarr"
    shutil.copytree(made, path)
    document = json.loads((path / name).read_text())
    if name == "zarr.json":
        content = document["attributes"]["weft"]["content"]
        change(content, edits)
        document["attributes"]["weft"] = layout.seal(content)
        (path / name).write_text(json.dumps(document))
    elif name.startswith("weft"):
        change(document["content"], edits)
        (path / name).write_text(json.dumps(layout.seal(document["content"])))
    else:
        change(document, edits)
        (path / name).write_text(json.dumps(document))
        if isinstance(document.get("attributes", {}), dict):
            layout.seal_array((path / name).parent)
    honest(path)
    shutil.rmtree(path)


@pytest.mark.parametrize("array", ["positions", "velocities", "faces", "uv"])
def test_every_flipped_bit_of_the_metadata_of_an_array_is_found(made, tmp_path, array):
    path = tmp_path / "a.zarr"
    shutil.copytree(made, path)
    file = path / array / "zarr.json"
    good = file.read_bytes()
    before = json.loads(good)
    for place in range(len(good)):
        for bit in range(8):
            file.write_bytes(good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :])
            try:
                layout.check_array(path / array)
            except CacheError:
                continue
            # such as a blank that became another blank
            assert json.loads(file.read_bytes()) == before
    file.write_bytes(good.replace(b'"chunk_shape"', b'"chunk_shap_"'))
    problems = open_cache(path).verify()
    assert problems and all("zarr.json is damaged" in problem for problem in problems)


def test_every_damaged_byte_of_saved_arrays_is_found_or_harmless(made, tmp_path):
    path = tmp_path / "a.zarr"
    shutil.copytree(made, path)
    file = layout.saved_path(path, FRAMES - 1)
    good, expected = file.read_bytes(), open_cache(path).saved(FRAMES - 1)
    for place in range(len(good)):
        for bit in (0, 3, 7):
            file.write_bytes(good[:place] + bytes([good[place] ^ 1 << bit]) + good[place + 1 :])
            try:
                found = open_cache(path).saved(FRAMES - 1)
            except CacheError as error:
                assert "\n" not in str(error)
                continue
            assert {k: v.tolist() for k, v in found.items()} == {k: v.tolist() for k, v in expected.items()}


def test_verify_reads_saved_arrays_too(made, tmp_path):
    path = tmp_path / "a.zarr"
    shutil.copytree(made, path)
    layout.saved_path(path, FRAMES - 1).write_bytes(b"PK")
    assert ["npz cannot be read" in problem for problem in open_cache(path).verify()] == [True]


def test_a_grown_cache_stays_sealed(made, tmp_path):
    path = tmp_path / "a.zarr"
    shutil.copytree(made, path)
    with CacheWriter.resume(path, frames=9) as writer:
        x = np.ones((4, 3))
        writer.checkpoint()
        writer.append(x, x, {"frame": 3, "time": 0.1}, {})
    assert open_cache(path).verify() == [] and open_cache(path).planned == 9
    layout.check_array(path / "positions")


@pytest.mark.parametrize("old", [{}, {"physics": "[", "geometry": 1, "files": {}, "device": "cpu"}, {"physics": 3}])
def test_an_origin_that_says_nothing_is_another_scene(old):
    new = {"physics": "{}", "geometry": "x", "files": {}, "device": "cpu"}
    assert differences(old, new) == ["it does not say what its frames were computed from"]


@pytest.mark.parametrize(("array", "place"), [("positions", 1), ("velocities", 1), ("faces", 0)])
@pytest.mark.parametrize("small_pieces", [True, False])
def test_a_few_bytes_that_state_an_array_of_terabytes(made, tmp_path, array, place, small_pieces):
    path = tmp_path / "a.zarr"
    shutil.copytree(made, path)
    file = path / array / "zarr.json"
    document = json.loads(file.read_text())
    document["shape"][place] = 10**12
    if not small_pieces:
        document["chunk_grid"]["configuration"]["chunk_shape"][place] = 10**12
    file.write_text(json.dumps(document))
    layout.seal_array(path / array)
    problems = open_cache(path).verify()
    assert any("more than the memory of this machine" in problem for problem in problems), problems

"""Animated GLB: a valid file, and our positions when its targets are blended."""

import json
import struct
import warnings

import numpy as np
import pytest
from exchange_caches import FPS, FRAMES, close_sheets, positions_at, write_cache

from weft.errors import WeftError, WeftWarning
from weft.exchange import export
from weft.mesh import load_mesh
from weft.mesh.sequences import read_sequence


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("caches") / "run.zarr")


class Glb:
    """A GLB file taken apart, without a library."""

    def __init__(self, path):
        data = path.read_bytes()
        magic, version, length = struct.unpack_from("<4sII", data)
        assert (magic, version, length) == (b"glTF", 2, len(data))
        size, kind = struct.unpack_from("<I4s", data, 12)
        assert kind == b"JSON" and size % 4 == 0
        self.document = json.loads(data[20 : 20 + size])
        binary, kind = struct.unpack_from("<I4s", data, 20 + size)
        assert kind == b"BIN\0" and 28 + size + binary == len(data)
        assert self.document["buffers"] == [{"byteLength": binary}]
        self.binary = data[28 + size :]

    def array(self, number):
        accessor = self.document["accessors"][number]
        view = self.document["bufferViews"][accessor["bufferView"]]
        width = {"SCALAR": 1, "VEC2": 2, "VEC3": 3}[accessor["type"]]
        kind = {5126: "<f4", 5125: "<u4"}[accessor["componentType"]]
        assert view["byteLength"] == accessor["count"] * width * 4 and view["byteOffset"] % 4 == 0
        values = np.frombuffer(self.binary, kind, accessor["count"] * width, view["byteOffset"])
        values = values if width == 1 else values.reshape(-1, width)
        if "min" in accessor:
            np.testing.assert_array_equal(np.atleast_1d(values.min(axis=0)), np.float32(accessor["min"]))
            np.testing.assert_array_equal(np.atleast_1d(values.max(axis=0)), np.float32(accessor["max"]))
        return values

    def primitive(self, name):
        node = next(n for n in self.document["nodes"] if n["name"] == name)
        return self.document["meshes"][node["mesh"]]["primitives"][0]


@pytest.fixture(scope="module")
def glb(cache, tmp_path_factory):
    path = tmp_path_factory.mktemp("glb") / "run.glb"
    made = export(cache, path)
    assert made.paths == [path] and made.rounding == {}
    return Glb(path)


def test_every_array_is_where_it_is_said_to_be(glb):
    used = 0
    for number, accessor in enumerate(glb.document["accessors"]):
        glb.array(number)
        used += glb.document["bufferViews"][accessor["bufferView"]]["byteLength"]
    assert used == len(glb.binary)
    for mesh in glb.document["meshes"]:
        for primitive in mesh["primitives"]:
            # the specification asks for bounds of positions, of targets too
            for place in (primitive["attributes"], *primitive.get("targets", [])):
                assert "min" in glb.document["accessors"][place["POSITION"]]


def test_blended_targets_are_the_frames(glb, cache):
    sheet = glb.primitive("sheet")
    base = glb.array(sheet["attributes"]["POSITION"])
    assert len(sheet["targets"]) == FRAMES - 1
    (animation,) = glb.document["animations"]
    weights = glb.array(animation["samplers"][0]["output"]).reshape(FRAMES, FRAMES - 1)
    times = glb.array(animation["samplers"][0]["input"])
    np.testing.assert_allclose(times, np.arange(FRAMES) / FPS, rtol=1e-6)
    for frame in range(FRAMES):
        blended = base + sum(
            w * glb.array(t["POSITION"]) for w, t in zip(weights[frame], sheet["targets"], strict=True)
        )
        np.testing.assert_allclose(blended, positions_at(frame)[cache.bodies[0].vertices], atol=1e-7)
        normals = glb.array(sheet["attributes"]["NORMAL"]) + sum(
            w * glb.array(t["NORMAL"]) for w, t in zip(weights[frame], sheet["targets"], strict=True)
        )
        np.testing.assert_allclose(np.linalg.norm(normals, axis=1), 1.0, atol=1e-5)


def test_what_lies_still_has_no_targets_and_what_is_sharp_stays_sharp(glb, cache):
    assert "targets" not in glb.primitive("floor")
    moved = {c["target"]["node"] for c in glb.document["animations"][0]["channels"]}
    assert {glb.document["nodes"][n]["name"] for n in moved} == {"sheet", "a box"}
    box = glb.primitive("a box")
    normals = glb.array(box["attributes"]["NORMAL"])
    # a box of 8 corners has 24 points, so that each side has its own normals
    assert len(normals) == 24
    assert (np.abs(normals).max(axis=1) > 0.999).all()


def test_materials_and_uv(glb, cache):
    uv = glb.array(glb.primitive("sheet")["attributes"]["TEXCOORD_0"])
    own = cache.uv[cache.bodies[0].vertices]
    np.testing.assert_allclose(uv, np.column_stack([own[:, 0], 1.0 - own[:, 1]]), atol=1e-6)
    assert "TEXCOORD_0" not in glb.primitive("a box")["attributes"]
    assert all(m["doubleSided"] for m in glb.document["materials"])


def test_weft_reads_it_back(cache, tmp_path):
    path = tmp_path / "run.glb"
    export(cache, path, bodies=["sheet"], frames=[0, 2, 3])
    moving = read_sequence(path, fps=FPS)
    assert len(moving) == 4
    for sample, expected in ((0, positions_at(0)), (2, positions_at(2)), (3, positions_at(3))):
        np.testing.assert_allclose(moving.vertices(sample), expected[: moving.vertex_count], atol=1e-6)
    # between two frames every vertex is on the straight way
    middle = 0.5 * (positions_at(0) + positions_at(2))[: moving.vertex_count]
    np.testing.assert_allclose(moving.vertices(1), middle, atol=1e-6)
    np.testing.assert_allclose(load_mesh(path).uv, cache.uv[: moving.vertex_count], atol=1e-6)


def test_one_frame_is_a_still(cache, tmp_path):
    export(cache, tmp_path / "still.glb", frames=[3])
    still = Glb(tmp_path / "still.glb")
    assert "animations" not in still.document
    np.testing.assert_allclose(load_mesh(tmp_path / "still.glb").vertices[:42], positions_at(3)[:42], atol=1e-6)


def test_rounding_that_makes_intersections_is_told(tmp_path):
    near = close_sheets(tmp_path / "near.zarr", 1e-9)
    assert list(export(near, tmp_path / "near.glb").rounding) == [0]
    far = close_sheets(tmp_path / "far.zarr", 1e-3)
    assert export(far, tmp_path / "far.glb").rounding == {}


def test_mistakes_are_sentences(cache, tmp_path, monkeypatch):
    with pytest.raises(WeftError, match=r"ends in \.glb"):
        export(cache, tmp_path / "run.gltf", format="glb")
    with pytest.raises(WeftError, match="must follow each other"):
        export(cache, tmp_path / "run.glb", frames=[2, 1])
    with pytest.raises(WeftError, match="must follow each other"):
        export(cache, tmp_path / "run.glb", frames=[1, 1, 2])
    monkeypatch.setattr("weft.exchange.gltf.LARGEST_FILE", 10_000)
    with pytest.raises(WeftError, match="choose fewer frames or bodies"):
        export(cache, tmp_path / "run.glb")
    assert list(tmp_path.iterdir()) == []


def test_many_frames_are_warned_of(cache, tmp_path, monkeypatch):
    monkeypatch.setattr("weft.exchange.gltf.MANY_FRAMES", 4)
    with pytest.warns(WeftWarning, match="every second one with --frames ::2"):
        export(cache, tmp_path / "run.glb")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(cache, tmp_path / "few.glb", frames=[0, 2, 4])

"""What is fuzzed: damaged scenes and meshes, and the readers that must take them or refuse them with one sentence.

Each target is a strategy of file contents and a reader. A reader may return or raise `WeftError`; anything else is a
find. Contents are good files with damage in them, since pure noise gets no farther than the first bytes.
"""

import io
import json
import re
import struct
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

import weft
from weft.mesh import shapes
from weft.mesh.sequences import read_sequence

# numbers that readers stumble over
NUMBERS = ["0", "-1", "1", "2", "3", "7", "255", "65536", "2147483647", "2147483648", "-2147483649", "4294967295",
           "9223372036854775807", "9223372036854775808", "1e9", "1e-9", "1e38", "1e308", "-1e308", "1e999", "nan", "inf",
           "-inf", "0.0", "-0.0", "1_0", "0x10", ".", "-", "1e", "99999999999999999999999"]  # fmt: skip
NUMBER = re.compile(rb"-?\d+(\.\d+)?([eE][-+]?\d+)?")


class Target(NamedTuple):
    """A kind of file: how it ends, what it may hold, and what reads it."""

    ending: str
    contents: st.SearchStrategy[bytes]
    read: Callable[[Path], object]


edits = st.lists(
    st.tuples(
        st.sampled_from(["number", "flip", "cut", "drop", "copy", "insert", "line", "swap"]),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.one_of(
            st.sampled_from(NUMBERS).map(str.encode),
            st.binary(max_size=6),
            st.text(max_size=4).map(lambda text: text.encode("utf-8", "surrogatepass")),
        ),
    ),
    min_size=1,
    max_size=6,
)


def damaged(data: bytes, changes: list[tuple[str, int, int, bytes]]) -> bytes:
    """The content after some accidents."""
    for kind, one, other, piece in changes:
        at = one % (len(data) + 1)
        if kind == "number":
            found = list(NUMBER.finditer(data))
            if found:
                hit = found[one % len(found)]
                data = data[: hit.start()] + piece + data[hit.end() :]
        elif kind == "flip" and data:
            at %= len(data)
            data = data[:at] + bytes([data[at] ^ (1 << other % 8)]) + data[at + 1 :]
        elif kind == "cut":
            data = data[:at]
        elif kind == "drop":
            data = data[:at] + data[at + other % 40 :]
        elif kind == "copy":
            data = data[:at] + data[at : at + other % 200] * (1 + other % 3) + data[at:]
        elif kind == "insert":
            data = data[:at] + piece + data[at:]
        elif kind in ("line", "swap"):
            lines = data.split(b"\n")
            a, b = one % len(lines), other % len(lines)
            if kind == "swap":
                lines[a], lines[b] = lines[b], lines[a]
            else:
                lines.insert(a, lines[b])
            data = b"\n".join(lines)
    return data


def around(samples: list[bytes]) -> st.SearchStrategy[bytes]:
    """Damaged versions of good files, and now and then noise."""
    spoilt = st.builds(damaged, st.sampled_from(samples), edits)
    return st.one_of(spoilt, spoilt, spoilt, st.binary(max_size=300))


# any value that JSON or TOML can hold
leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**65), 2**65),
    st.integers(-3, 3),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["", "..", "../../x", "/etc/passwd", "\x00", "a/b", "cpu", "robust", "silk", "grid"]),
)
values = st.recursive(
    leaves,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


def changed(tree: Any, changes: list[tuple[int, int, Any]]) -> Any:
    """A tree of tables and lists with some of its places changed, left out or doubled."""
    tree = json.loads(json.dumps(tree))
    for where, what, value in changes:
        places = list(_places(tree))
        if not places:
            break
        holder, key = places[where % len(places)]
        if what % 4 == 0:
            del holder[key]
        elif what % 4 == 1 and isinstance(holder, list):
            holder.insert(key, value)
        elif what % 4 == 2 and isinstance(holder, dict):
            holder[f"{key}x"] = value
        else:
            holder[key] = value
    return tree


def _places(tree: Any) -> Any:
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in list(items):
        yield tree, key
        yield from _places(value)


tree_changes = st.lists(st.tuples(st.integers(0, 2**32), st.integers(0, 3), values), min_size=1, max_size=4)


# scenes

SCENE = {
    "name": "a",
    "fps": 60,
    "frames": 3,
    "seed": 1,
    "check": 1,
    "device": "cpu",
    "thickness": 0.001,
    "broad_phase": "bvh",
    "method": {"name": "robust", "steps": 4, "dynamics": "position_based"},
    "forces": {"gravity": [0, -9.81, 0], "air_damping": 0.1, "wind": {"velocity": [1, 0, 0], "gust": 0.5}},
    "camera": {"position": [0, 1, 3], "target": [0, 0, 0], "fov_deg": 40},
    "cloth": [
        {
            "name": "sheet",
            "shape": {"kind": "grid", "size": [1.0, 1.0], "cells": [4, 4], "diagonals": "same"},
            "material": {"preset": "silk", "friction": 0.3, "bend": 1e-6},
            "placement": {"position": [0, 1, 0], "rotation_deg": [90, 0, 0], "scale": 2.0},
            "pins": [
                {"boundary": "top", "until": 1.0},
                {"indices": [1, 2], "motion": {"kind": "spin", "axis": [0, 1, 0], "rate_deg": 90}},
                {"box": [[-1, -1, -1], [1, 1, 1]]},
            ],
            "colour": "#336699",
        },
        {"name": "other", "shape": {"kind": "strip", "length": 1.0, "width": 0.1}, "material": "denim"},
    ],
    "collider": [
        {
            "name": "ball",
            "shape": {"kind": "sphere", "radius": 0.2, "subdivisions": 2},
            "friction": 0.5,
            "motion": {
                "kind": "path",
                "interpolation": "smooth",
                "keyframes": [{"time": 0, "position": [0, 0, 0]}, {"time": 1.5, "rotation_deg": [0, 90, 0]}],
            },
        },
        {"name": "floor", "shape": {"kind": "plane"}, "analytic": True},
    ],
    "seam": [{"cloth": "sheet", "to": "other", "vertices": [[0, 1, 2]], "kind": "weld"}],
}


def to_toml(tree: dict[str, Any]) -> bytes:
    """The tree as TOML text, also where TOML cannot say it (None is left out, other keys are quoted)."""
    text = "\n".join(f"{json.dumps(key)} = {_inline(value)}" for key, value in tree.items() if value is not None)
    return text.encode("utf-8", "surrogatepass")


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {_inline(v)}" for k, v in value.items() if v is not None) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(v) for v in value if v is not None) + "]"
    return repr(value) if isinstance(value, float) else json.dumps(value)


def read_scene(path: Path) -> object:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scene = weft.load_scene(path)
    # what is read can be written and read again
    from weft.scene.files import parse_scene, write_scene

    assert parse_scene(write_scene(scene)) == scene
    return scene


@cache
def scene_target() -> Target:
    text = st.builds(damaged, st.just(to_toml(SCENE)), edits)
    trees = st.builds(changed, st.just(SCENE), tree_changes)
    return Target(".toml", st.one_of(trees.filter(lambda t: isinstance(t, dict)).map(to_toml), text), read_scene)


# meshes


def small_meshes() -> list[weft.TriMesh]:
    return [shapes.grid((1.0, 1.0), (2, 2)), shapes.icosphere(0.5, subdivisions=0), shapes.box()]


def read_any_mesh(path: Path) -> object:
    import logging

    logging.disable(logging.CRITICAL)
    results: list[object] = []
    for repair in (False, True):
        try:
            results.append(weft.load_mesh(path, repair=repair))
        except weft.WeftError as error:
            check_message(error)
    return results


def read_any_sequence(path: Path) -> object:
    try:
        sequence = read_sequence(path, fps=24.0)
        return sequence.vertices(0), sequence.vertices(len(sequence) - 1)
    except weft.WeftError as error:
        return check_message(error)


def check_message(error: Exception) -> None:
    """A sentence: not empty, not a traceback, not endless."""
    text = str(error)
    assert text.strip() and "Traceback" not in text and len(text) < 2000, text


def obj_samples() -> list[bytes]:
    from weft.mesh.formats.obj import write_obj

    extra = b"mtllib a.mtl\no thing\nv 0 0 0\nv 1 0 0 1 0 0\nv 0 1 0\nv 0 0 1\nvn 0 1 0\nvt 0 0\nf 1//1 2//1 -1//1\n"
    return [write_obj(mesh) for mesh in small_meshes()] + [extra + b"f 1/1 2/1 3/1 4/1 # quad\nf 1 2 \\\n 3\n"]


def ply_samples() -> list[bytes]:
    from weft.mesh.formats.ply import write_ply

    text = (
        b"ply\nformat ascii 1.0\ncomment x\nelement vertex 4\nproperty float x\nproperty float y\nproperty float z\n"
        b"property uchar red\nelement face 2\nproperty list uchar int vertex_indices\nproperty float quality\n"
        b"end_header\n0 0 0 1\n1 0 0 2\n0 1 0 3\n0 0 1 4\n3 0 1 2 0.5\n4 0 1 2 3 0.1\n"
    )
    return [write_ply(mesh) for mesh in small_meshes()] + [text]


def stl_samples() -> list[bytes]:
    mesh = small_meshes()[1]
    corners = mesh.vertices[mesh.faces].astype("<f4")
    binary = bytes(80) + struct.pack("<I", len(corners))
    binary += b"".join(bytes(12) + triangle.tobytes() + bytes(2) for triangle in corners)
    text = "solid a\n"
    for triangle in corners[:4]:
        lines = "".join(f"vertex {x} {y} {z}\n" for x, y, z in triangle.tolist())
        text += f"facet normal 0 0 1\nouter loop\n{lines}endloop\nendfacet\n"
    return [binary, (text + "endsolid a\n").encode()]


GLTF: dict[str, Any] = {
    "asset": {"version": "2.0"},
    "scene": 0,
    "scenes": [{"nodes": [0, 2]}],
    "nodes": [
        {"mesh": 0, "translation": [0, 1, 0], "rotation": [0, 0, 0, 1], "scale": [1, -1, 1], "children": [1]},
        {"matrix": [1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1]},
        {"mesh": 1, "skin": 0, "weights": [0.5]},
    ],
    "meshes": [
        {"primitives": [{"attributes": {"POSITION": 0, "TEXCOORD_0": 2}, "indices": 1}]},
        {
            "primitives": [
                {"attributes": {"POSITION": 0, "JOINTS_0": 3, "WEIGHTS_0": 4}, "targets": [{"POSITION": 0}], "mode": 5}
            ]
        },
    ],
    "skins": [{"joints": [0, 1], "inverseBindMatrices": 7}],
    "animations": [
        {
            "samplers": [{"input": 5, "output": 6, "interpolation": "LINEAR"}],
            "channels": [{"sampler": 0, "target": {"node": 0, "path": "translation"}}],
        }
    ],
    "accessors": [
        {"bufferView": 0, "componentType": 5126, "count": 4, "type": "VEC3"},
        {"bufferView": 1, "componentType": 5123, "count": 6, "type": "SCALAR"},
        {"bufferView": 2, "componentType": 5126, "count": 4, "type": "VEC2"},
        {"bufferView": 3, "componentType": 5121, "count": 4, "type": "VEC4"},
        {"bufferView": 4, "componentType": 5126, "count": 4, "type": "VEC4"},
        {"bufferView": 5, "componentType": 5126, "count": 2, "type": "SCALAR"},
        {"bufferView": 0, "componentType": 5126, "count": 2, "type": "VEC3"},
        {"bufferView": 6, "componentType": 5126, "count": 2, "type": "MAT4"},
    ],
    "bufferViews": [
        {"buffer": 0, "byteOffset": 0, "byteLength": 48},
        {"buffer": 0, "byteOffset": 48, "byteLength": 12},
        {"buffer": 0, "byteOffset": 60, "byteLength": 32, "byteStride": 8},
        {"buffer": 0, "byteOffset": 92, "byteLength": 16},
        {"buffer": 0, "byteOffset": 108, "byteLength": 64},
        {"buffer": 0, "byteOffset": 172, "byteLength": 8},
        {"buffer": 0, "byteOffset": 180, "byteLength": 128},
    ],
    "buffers": [{"byteLength": 308}],
}


def gltf_body() -> bytes:
    points = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], "<f4").tobytes()
    corners = np.array([0, 1, 2, 0, 2, 3], "<u2").tobytes()
    flat = np.array([[0, 0], [1, 0], [0, 1], [1, 1]], "<f4").tobytes()
    joints = np.tile(np.array([0, 1, 0, 0], "u1"), 4).tobytes()
    shares = np.tile(np.array([0.5, 0.5, 0, 0], "<f4"), 4).tobytes()
    times = np.array([0.0, 0.5], "<f4").tobytes()
    return points + corners + flat + joints + shares + times + np.tile(np.eye(4, dtype="<f4"), (2, 1, 1)).tobytes()


def to_glb(document: Any, body: bytes | None = None) -> bytes:
    text = json.dumps(document).encode("utf-8", "surrogatepass")
    text += b" " * (-len(text) % 4)
    body = gltf_body() if body is None else body
    chunks = struct.pack("<I4s", len(text), b"JSON") + text + struct.pack("<I4s", len(body), b"BIN\0") + body
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks


def gltf_contents() -> st.SearchStrategy[bytes]:
    return st.one_of(st.builds(changed, st.just(GLTF), tree_changes).map(to_glb), around([to_glb(GLTF)]))


def npz_contents() -> st.SearchStrategy[bytes]:
    """Archives of arrays of any type and shape under the names that count, and damaged archives."""
    mesh = small_meshes()[0]
    kinds = st.sampled_from(["f8", "f4", "f2", "i4", "i8", "u1", "u8", "c16", "?", "U3", "S2", "M8[s]", "i2", ">f8"])
    shape = st.lists(st.integers(0, 5), max_size=4).map(tuple)

    def array(kind: str, size: tuple[int, ...], seed: int) -> Any:
        numbers = np.random.default_rng(seed).integers(-2, 9, size)
        with np.errstate(all="ignore"):
            return numbers.astype(kind) if kind != "M8[s]" else numbers.astype("i8").astype(kind)

    arrays = st.builds(array, kinds, shape, st.integers(0, 99))
    good = {"vertices": mesh.vertices, "faces": mesh.faces, "uv": mesh.uv}
    some = st.dictionaries(st.sampled_from(["vertices", "faces", "uv", "x"]), arrays, max_size=4)
    archives = st.builds(lambda base, more: archive({**(good if base else {}), **more}), st.booleans(), some)
    samples = [archive(good), archive({**good, "vertices": np.stack([mesh.vertices] * 3)})]
    return st.one_of(archives, around(samples))


def archive(arrays: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


USDA = b"""#usda 1.0
( metersPerUnit = 1
  upAxis = "Y"
  startTimeCode = 0
  endTimeCode = 2 )
def Xform "top" {
  double3 xformOp:translate = (0, 1, 0)
  uniform token[] xformOpOrder = ["xformOp:translate"]
  def Mesh "sheet" {
    int[] faceVertexCounts = [3, 4]
    int[] faceVertexIndices = [0, 1, 2, 0, 1, 2, 3]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]
    point3f[] points.timeSamples = { 0: [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], 2: [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 2)] }
    texCoord2f[] primvars:st = [(0, 0), (1, 0), (0, 1), (1, 1)] ( interpolation = "vertex" )
    uniform token orientation = "rightHanded"
  }
}
"""  # noqa: E501


def usd_samples(folder: Path) -> list[bytes]:
    """The same stage as text and in binary."""
    from pxr import Usd

    (folder / "seed.usda").write_bytes(USDA)
    stage = Usd.Stage.Open(str(folder / "seed.usda"))
    stage.Export(str(folder / "seed.usdc"))
    return [(folder / "seed.usdc").read_bytes()]


def make_targets(folder: Path) -> dict[str, Target]:
    """All targets by name; `folder` is for files that are needed while they are made."""
    usdc = usd_samples(folder)
    return {
        "scene": scene_target(),
        "obj": Target(".obj", around(obj_samples()), read_any_mesh),
        "ply": Target(".ply", around(ply_samples()), read_any_mesh),
        "stl": Target(".stl", around(stl_samples()), read_any_mesh),
        "glb": Target(".glb", gltf_contents(), read_any_mesh),
        "gltf": Target(".gltf", st.builds(changed, st.just(GLTF), tree_changes).map(_json), read_any_mesh),
        "npz": Target(".npz", npz_contents(), read_any_mesh),
        "usda": Target(".usda", around([USDA]), read_any_mesh),
        "usdc": Target(".usdc", around(usdc), read_any_mesh),
        "moving glb": Target(".glb", gltf_contents(), read_any_sequence),
        "moving npz": Target(".npz", npz_contents(), read_any_sequence),
        "moving usda": Target(".usda", around([USDA]), read_any_sequence),
    }


def _json(tree: Any) -> bytes:
    import base64

    if isinstance(tree, dict) and isinstance(tree.get("buffers"), list):
        for buffer in tree["buffers"]:
            if isinstance(buffer, dict) and "uri" not in buffer:
                buffer["uri"] = "data:," + base64.b64encode(gltf_body()).decode()
    return json.dumps(tree).encode("utf-8", "surrogatepass")

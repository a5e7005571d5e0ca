"""The glTF that carries colours to the browser, read back by another reader."""

import io
import json
import struct

import numpy as np
import trimesh

from weft.mesh import shapes
from weft.mesh.topology import unique_edges
from weft.scene.colours import to_linear
from weft.view.figures import encode_glb


def tree_of(content):
    length = struct.unpack("<I", content[12:16])[0]
    return json.loads(content[20 : 20 + length])


def test_triangles_come_back_with_their_colours():
    mesh = shapes.grid((1.0, 2.0), (3, 2))
    colours = np.random.default_rng(0).uniform(size=(len(mesh.vertices), 3))
    content = encode_glb(mesh.vertices, mesh.faces, colours)
    read = trimesh.load(io.BytesIO(content), file_type="glb", force="mesh", process=False)
    np.testing.assert_allclose(read.vertices, mesh.vertices, atol=1e-6)
    np.testing.assert_array_equal(read.faces, mesh.faces)
    # colours are linear light in sixteen bits, behind the indices and the positions
    start = 20 + struct.unpack("<I", content[12:16])[0] + 8 + tree_of(content)["bufferViews"][2]["byteOffset"]
    found = np.frombuffer(content, "<u2", 4 * len(colours), start).reshape(-1, 4)
    np.testing.assert_allclose(found[:, :3] / 65535.0, to_linear(colours), atol=1e-5)
    assert (found[:, 3] == 65535).all()
    assert tree_of(content)["materials"][0]["doubleSided"]


def test_sizes_and_alignment_are_as_the_format_wants():
    for cells in range(1, 5):
        mesh = shapes.grid((1.0, 1.0), (cells, 1))
        content = encode_glb(mesh.vertices, mesh.faces, np.zeros((len(mesh.vertices), 3)))
        magic, version, total = struct.unpack("<4sII", content[:12])
        assert (magic, version, total) == (b"glTF", 2, len(content))
        assert len(content) % 4 == 0
        tree = tree_of(content)
        assert all(view["byteOffset"] % 4 == 0 for view in tree["bufferViews"])


def test_edges_are_lines():
    mesh = shapes.grid((1.0, 1.0), (2, 2))
    edges = unique_edges(mesh.faces)
    tree = tree_of(encode_glb(mesh.vertices, edges, np.ones((len(mesh.vertices), 3))))
    primitive = tree["meshes"][0]["primitives"][0]
    assert primitive["mode"] == 1
    assert tree["accessors"][primitive["indices"]]["count"] == edges.size

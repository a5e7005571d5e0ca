"""glTF as it can be, from documents made here: all primitives, nodes, skins and morph targets."""

import base64
import json
import time

import numpy as np
import pytest

from weft.errors import MeshError
from weft.mesh import load_mesh, read_mesh
from weft.mesh.sequences import read_sequence

SQUARE = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)], dtype="<f4")
QUAD = [0, 1, 2, 0, 2, 3]


class Document:
    """A .gltf file in the making, with its buffer inside."""

    def __init__(self):
        self.data = b""
        self.json = {
            "asset": {"version": "2.0"},
            "accessors": [],
            "bufferViews": [],
            "meshes": [],
            "nodes": [],
            "scene": 0,
            "scenes": [{"nodes": [0]}],
        }

    def add(self, name, **item):
        self.json.setdefault(name, []).append(item)
        return len(self.json[name]) - 1

    def array(self, values):
        values = np.asarray(values)
        values = values.astype({"f": "<f4", "i": "<u2", "u": "u1"}[values.dtype.kind])
        kinds = {"f": 5126, "u": 5123 if values.dtype.itemsize == 2 else 5121}
        shapes = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4", 16: "MAT4"}
        width = 1 if values.ndim == 1 else values.shape[1]
        view = self.add("bufferViews", buffer=0, byteOffset=len(self.data), byteLength=values.nbytes)
        self.data += values.tobytes() + b"\0" * (-values.nbytes % 4)
        kind = kinds[values.dtype.kind]
        return self.add("accessors", bufferView=view, componentType=kind, count=len(values), type=shapes[width])

    def primitive(self, points=SQUARE, corners=QUAD, mode=None, targets=(), **attributes):
        made = {"attributes": {"POSITION": self.array(points)}}
        made["attributes"] |= {name: self.array(values) for name, values in attributes.items()}
        if corners is not None:
            made["indices"] = self.array(np.array(corners))
        if mode is not None:
            made["mode"] = mode
        if targets:
            made["targets"] = [{"POSITION": self.array(target)} for target in targets]
        return made

    def mesh(self, *primitives, **more):
        return self.add("meshes", primitives=list(primitives), **more)

    def save(self, folder):
        uri = "data:application/octet-stream;base64," + base64.b64encode(self.data).decode()
        self.json["buffers"] = [{"byteLength": len(self.data), "uri": uri}]
        path = folder / "a.gltf"
        path.write_text(json.dumps(self.json))
        return path


@pytest.mark.parametrize(
    ("corners", "mode", "expected"),
    [
        (QUAD, None, [[0, 1, 2], [0, 2, 3]]),
        (QUAD, 4, [[0, 1, 2], [0, 2, 3]]),
        ([0, 1, 3, 2], 5, [[0, 1, 3], [3, 1, 2]]),
        ([0, 1, 2, 3], 6, [[1, 2, 0], [2, 3, 0]]),
    ],
)
def test_triangles_strips_and_fans(tmp_path, corners, mode, expected):
    document = Document()
    document.add("nodes", mesh=document.mesh(document.primitive(corners=corners, mode=mode)))
    mesh = load_mesh(document.save(tmp_path))
    assert mesh.faces.tolist() == expected
    assert mesh.face_normals == pytest.approx(np.array([(0, 0, 1)] * 2))


def test_triangles_without_indices(tmp_path):
    document = Document()
    document.add("nodes", mesh=document.mesh(document.primitive(points=SQUARE[QUAD], corners=None)))
    mesh = load_mesh(document.save(tmp_path))
    assert mesh.vertices.tolist() == SQUARE.tolist()
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3]]


def test_primitives_of_a_mesh_are_sewn_where_they_touch(tmp_path):
    document = Document()
    lines = document.primitive(corners=[0, 1], mode=1)
    parts = document.primitive(), document.primitive(points=SQUARE + np.float32([1, 0, 0]))
    document.add("nodes", mesh=document.mesh(parts[0], lines, parts[1]))
    path = document.save(tmp_path)
    mesh = load_mesh(path)
    assert len(mesh.vertices) == 6
    assert mesh.components.max() == 0
    assert read_mesh(path).source.tolist() == [0, 1, 2, 3, 5, 6]


def test_nodes_apply_from_the_root_down(tmp_path):
    document = Document()
    half = 0.5**0.5
    document.add("nodes", children=[1], translation=[10, 0, 0], rotation=[0, 0, half, half])
    matrix = np.diag([2.0, 2.0, 2.0, 1.0])
    document.add("nodes", mesh=document.mesh(document.primitive()), matrix=matrix.ravel().tolist())
    # a node that no scene shows
    document.add("nodes", mesh=0)
    mesh = load_mesh(document.save(tmp_path))
    assert mesh.vertices == pytest.approx(np.array([(10, 0, 0), (10, 2, 0), (8, 2, 0), (8, 0, 0)]), abs=1e-6)


def test_mirrored_nodes_face_the_same_way(tmp_path):
    document = Document()
    document.add("nodes", mesh=document.mesh(document.primitive()), scale=[-1, 1, 1])
    assert load_mesh(document.save(tmp_path)).face_normals == pytest.approx(np.array([(0, 0, 1)] * 2))


def test_uv_of_split_vertices(tmp_path):
    document = Document()
    uv = np.array([(0, 1), (1, 1), (1, 0), (0, 0)], dtype=float)
    document.add("nodes", mesh=document.mesh(document.primitive(SQUARE[QUAD], None, TEXCOORD_0=uv[QUAD])))
    # v runs upwards here
    assert load_mesh(document.save(tmp_path)).uv.tolist() == [[0, 0], [1, 0], [1, 1], [0, 1]]
    seam = uv[QUAD]
    seam[3] = (5.0, 5.0)
    document = Document()
    document.add("nodes", mesh=document.mesh(document.primitive(SQUARE[QUAD], None, TEXCOORD_0=seam)))
    mesh = load_mesh(document.save(tmp_path))
    assert mesh.uv is None
    assert len(mesh.vertices) == 4


def moving_document():
    """A square that a morph target lifts, with half the weight at rest."""
    document = Document()
    lift = np.tile(np.float32([0, 0, 2]), (4, 1))
    document.add("nodes", mesh=document.mesh(document.primitive(targets=[lift]), weights=[0.5]))
    times, weights = document.array(np.array([0.0, 1.0])), document.array(np.array([0.0, 1.0]))
    channel = {"sampler": 0, "target": {"node": 0, "path": "weights"}}
    document.add("animations", samplers=[{"input": times, "output": weights}], channels=[channel])
    return document


def test_morph_targets_at_rest_and_in_motion_have_the_same_vertices(tmp_path):
    path = moving_document().save(tmp_path)
    mesh = load_mesh(path)
    assert mesh.vertices[:, 2].tolist() == [1, 1, 1, 1]
    sequence = read_sequence(path, fps=10)
    assert sequence.vertex_count == len(mesh.vertices)
    assert np.array_equal(sequence.faces, mesh.faces)
    assert sequence.vertices(len(sequence) - 1)[:, 2] == pytest.approx(np.full(4, 2.0))


def test_skins_stand_where_their_joints_are(tmp_path):
    document = Document()
    joints = np.zeros((4, 4), dtype=np.uint8)
    joints[2:, 0] = 1
    weights = np.tile((1.0, 0.0, 0.0, 0.0), (4, 1))
    # the node of a skinned mesh is passed over
    document.add("nodes", mesh=0, skin=0, translation=[100, 0, 0])
    document.mesh(document.primitive(JOINTS_0=joints, WEIGHTS_0=weights))
    document.add("nodes", children=[2])
    document.add("nodes", translation=[0, 0, 3])
    document.add("skins", joints=[1, 2])
    document.json["scenes"][0]["nodes"] = [0, 1]
    mesh = load_mesh(document.save(tmp_path))
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 3], [0, 1, 3]]


def _reach_too_far(json_):
    json_["accessors"][0]["count"] = 999


def _name_no_vertex(json_):
    json_["accessors"][0]["count"] = 2


def _lose_mesh(json_):
    json_["nodes"][0]["mesh"] = 7


def _count_from_the_end(json_):
    json_["accessors"][0]["bufferView"] = -1


def _loop(json_):
    json_["nodes"][0]["children"] = [0]


def _compress(json_):
    json_["extensionsRequired"] = ["KHR_draco_mesh_compression"]


def _age(json_):
    json_["asset"]["version"] = "1.0"


def _empty(json_):
    json_["nodes"] = [{}]


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_reach_too_far, "past the end of its buffer"),
        (_name_no_vertex, "do not fit"),
        (_lose_mesh, "number 7 of its 1 meshes"),
        (_count_from_the_end, "number -1 of its 2 bufferViews"),
        (_loop, "two places"),
        (_compress, "export it without compression"),
        (_age, "no glTF 2 file"),
        (_empty, "no triangle mesh"),
    ],
)
def test_bad_documents(tmp_path, spoil, words):
    document = Document()
    document.add("nodes", mesh=document.mesh(document.primitive()))
    spoil(document.json)
    with pytest.raises(MeshError, match=rf"a\.gltf: .*{words}"):
        load_mesh(document.save(tmp_path))


def test_thousands_of_nodes_of_one_mesh(tmp_path):
    document = Document()
    mesh, count = document.mesh(document.primitive()), 3000
    for i in range(count):
        document.add("nodes", mesh=mesh, translation=[2.0 * i, 0, 0])
    document.json["scenes"][0]["nodes"] = list(range(count))
    began = time.process_time()
    found = load_mesh(document.save(tmp_path))
    assert time.process_time() - began < 10.0
    names = found.details.labels["object"].names
    assert len(found.vertices) == 4 * count and names[1:3] == ("mesh_0_2", "mesh_0_3") and len(names) == count

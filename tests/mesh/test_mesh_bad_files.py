"""Bad files of every kind give one clear error that names the file, never anything else."""

import numpy as np
import pytest
import trimesh

from weft.errors import MeshError
from weft.mesh import load_mesh, save_mesh, shapes

SUFFIXES = [".obj", ".ply", ".stl", ".glb", ".gltf", ".usda", ".usdc", ".usdz", ".npz"]


def refused(path, *words, **options):
    with pytest.raises(MeshError) as error:
        load_mesh(path, **options)
    message = str(error.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    for word in words:
        assert word in message


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_missing_empty_folder_and_garbage(tmp_path, suffix):
    if suffix.startswith(".usd"):
        pytest.importorskip("pxr")
    path = tmp_path / f"a{suffix}"
    refused(path, "no such file")
    path.mkdir()
    refused(path, "folder")
    path.rmdir()
    path.write_bytes(b"")
    refused(path, "empty")
    for seed in range(5):
        path.write_bytes(np.random.default_rng(seed).bytes(997))
        refused(path)
    path.write_bytes(b"\x00" * 500)
    refused(path)
    path.write_text("This is a shopping list.\nmilk\nflour\nvanilla\nfigs\n")
    refused(path)


@pytest.mark.parametrize("name", ["a.txt", "a", "a.fbx", ".obj"])
def test_unknown_endings(tmp_path, name):
    (tmp_path / name).write_text("v 0 0 0\n")
    refused(tmp_path / name, "weft reads meshes from .obj, .ply")


def test_unreadable(tmp_path, monkeypatch):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\n")

    def forbidden(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr("pathlib.Path.read_bytes", forbidden)
    refused(path, "cannot be read (Permission denied)")


def files(folder):
    """One good file of each kind, by name."""
    ball = shapes.icosphere(subdivisions=1)
    other = trimesh.Trimesh(ball.vertices, ball.faces, process=False)
    save_mesh(ball, folder / "a.obj")
    save_mesh(ball, folder / "a.ply")
    other.export(folder / "text.ply", encoding="ascii")
    other.export(folder / "a.stl")
    other.export(folder / "text.stl", file_type="stl_ascii")
    other.export(folder / "a.glb")
    np.savez(folder / "a.npz", vertices=ball.vertices, faces=ball.faces)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_truncated_at_any_place(tmp_path):
    (tmp_path / "good").mkdir()
    random = np.random.default_rng(0)
    for name, data in files(tmp_path / "good").items():
        path = tmp_path / name
        for size in random.integers(1, len(data) - 20, size=25):
            path.write_bytes(data[:size])
            try:
                mesh = load_mesh(path)
            except MeshError as error:
                assert str(error).startswith(f"{path}: ")
            else:
                # text cut between two lines of triangles is a good file with fewer of them
                assert name == "a.obj"
                assert len(mesh.faces) < 80


def test_damaged_bytes_never_crash(tmp_path):
    (tmp_path / "good").mkdir()
    random = np.random.default_rng(1)
    for name, data in files(tmp_path / "good").items():
        path = tmp_path / name
        for _ in range(25):
            spoilt = bytearray(data)
            for place in random.integers(len(data), size=10):
                spoilt[place] = random.integers(256)
            path.write_bytes(bytes(spoilt))
            try:
                load_mesh(path)
            except MeshError as error:
                assert str(error).startswith(f"{path}: ")
                assert "\n" not in str(error)


def test_content_of_another_kind(tmp_path):
    """A file with a wrong ending."""
    (tmp_path / "good").mkdir()
    good = files(tmp_path / "good")
    for name, data in good.items():
        for suffix in SUFFIXES:
            # both endings of glTF are told apart by what is in the file
            if suffix == f".{name.split('.')[1]}" or suffix.startswith(".usd") or (name, suffix) == ("a.glb", ".gltf"):
                continue
            path = tmp_path / f"b{suffix}"
            path.write_bytes(data)
            refused(path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\n", "no triangles"),
        ("f 1 2 3\n", "no vertices"),
        ("v 0 0 0\nv 1 0\nv 1 1 0\nf 1 2 3\n", "line 2 ('v 1 0'): it needs 3 numbers"),
        ("v 0 0 0\n\nv 1 zero 0\nv 1 1 0\nf 1 2 3\n", "line 3 ('v 1 zero 0')"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 3\nf 1 2\n", "line 5 ('f 1 2'): a polygon needs three corners"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 4\n", "line 4 ('f 1 2 4'): no such vertex; the file has 3"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 0 1 2\n", "line 4 ('f 0 1 2'): no such vertex"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf -1 -2 -4\n", "no such vertex"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 x\n", "line 4 ('f 1 2 x'): its corners are not written as"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1/x 2 3\n", "line 4"),
        (f"v 0 0 0\nv 1 0 0\nv 1 1 0\nf 1 2 {10**30}\n", "line 4"),
        ("v 0 0 0\nv 1 0 0\nv 1 1 0\nvt a b\nf 1/1 2/1 3/1\n", "line 4 ('vt a b'): it needs 2 numbers"),
        ("v 0 0 0\nv 1 0 0\nv nan 1 0\nf 1 2 3\n", "NaN or infinite coordinate (2)"),
    ],
)
def test_bad_obj(tmp_path, text, words):
    path = tmp_path / "a.obj"
    path.write_text(text)
    refused(path, words)


PLY = """ply
format ascii 1.0
element vertex 3
property float x
property float y
property float z
element face 1
property list uchar int vertex_indices
end_header
0 0 0
1 0 0
1 1 0
3 0 1 2
"""


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("3 0 1 2\n", "", "it ends in face 0 of 1"),
        ("3 0 1 2\n", "3 0 1\n", "it ends in face 0 of 1"),
        ("3 0 1 2\n", "2 0 1\n", "face 0 has fewer than three corners"),
        ("3 0 1 2\n", "-3 0 1 2\n", "it ends in face 0 of 1"),
        ("3 0 1 2\n", "3 0 1 7\n", "outside 0..2"),
        ("1 1 0\n", "1 one 0\n", "one"),
        ("element face 1", "element face 0", "no faces"),
        ("element face 1", "element face 999999999999", "it ends in face 1 of"),
        ("element vertex 3", "element vertex -3", "makes no sense: 'element vertex -3'"),
        ("element vertex 3\n", "", "makes no sense: 'property float x'"),
        ("property float z\n", "", "no vertices with x, y and z"),
        ("property float z", "property quadruple z", "makes no sense"),
        ("format ascii 1.0\n", "", "no format line"),
        ("format ascii 1.0\n", "format morse 1.0\n", "makes no sense"),
        ("end_header\n", "", "its header has no end"),
        ("vertex_indices", "something", "no faces"),
    ],
)
def test_bad_ply(tmp_path, old, new, words):
    path = tmp_path / "a.ply"
    path.write_text(PLY)
    assert len(load_mesh(path).faces) == 1
    assert old in PLY
    path.write_text(PLY.replace(old, new))
    refused(path, words)


@pytest.mark.parametrize(
    ("arrays", "array", "words"),
    [
        ({"vertices": np.eye(3)}, None, "no array 'faces'; it has vertices"),
        (
            {"faces": np.array([(0, 1, 2)]), "draped": np.eye(3)},
            None,
            "no array 'vertices'; it has faces, draped; name",
        ),
        ({"faces": np.array([(0, 1, 2)]), "vertices": np.eye(3)}, "draped", "no array 'draped'"),
        ({"faces": np.array([(0, 1, 2)]), "vertices": np.eye(2)}, None, "shape (n, 3)"),
        ({"faces": np.array([(0.0, 1, 2)]), "vertices": np.eye(3)}, None, "integers"),
        ({"faces": np.array([(0, 1, 2)]), "vertices": np.zeros((0, 3, 3))}, None, "shape (n, 3)"),
        ({"faces": np.array([(0, 1, 2)]), "vertices": np.array([None] * 3, dtype=object)}, None, "allow_pickle"),
        ({"faces": np.array([(0, 1, 2)]), "vertices": np.eye(3), "uv": np.eye(3)}, None, "uv must have shape"),
        ({}, None, "it has none"),
    ],
)
def test_bad_npz(tmp_path, arrays, array, words):
    path = tmp_path / "a.npz"
    np.savez(path, **arrays)
    refused(path, words, array=array)


def test_array_is_for_npz_only(tmp_path):
    path = tmp_path / "a.obj"
    save_mesh(shapes.plane(), path)
    refused(path, "array names the positions in an .npz file", array="draped")


def test_glb_without_triangles(tmp_path):
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.PointCloud(np.eye(3)))
    scene.export(tmp_path / "a.glb")
    refused(tmp_path / "a.glb", "no triangle mesh")


def test_a_file_beyond_repair(tmp_path):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n")
    refused(path, "no triangle of the mesh can be used", repair=True)

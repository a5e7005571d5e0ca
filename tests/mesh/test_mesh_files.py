"""Mesh files: what is written comes back, and what others write is understood."""

import logging

import numpy as np
import pytest
import trimesh
from hypothesis import given, settings
from hypothesis import strategies as st
from mesh_oracles import good_meshes, signed_volume

import weft
from weft.errors import MeshError
from weft.mesh import TriMesh, load_mesh, read_mesh, save_mesh, shapes


def same(first, second):
    assert np.array_equal(first.vertices, second.vertices)
    assert np.array_equal(first.faces, second.faces)
    assert (first.uv is None) == (second.uv is None)
    assert first.uv is None or np.array_equal(first.uv, second.uv)


def test_public_names():
    assert (weft.load_mesh, weft.save_mesh) == (load_mesh, save_mesh)


@settings(max_examples=30, deadline=None)
@given(good_meshes(), st.sampled_from(["obj", "ply"]))
def test_round_trip(tmp_path_factory, mesh, suffix):
    path = tmp_path_factory.mktemp("round") / f"mesh.{suffix}"
    save_mesh(mesh, path)
    same(load_mesh(path), mesh)


@pytest.mark.parametrize("suffix", ["obj", "ply", "OBJ"])
def test_round_trip_with_uv_to_the_last_bit(tmp_path, suffix):
    grid = shapes.grid((1.0, 1.0 / 3.0), (3, 7))
    mesh = TriMesh(grid.vertices + np.array([1e-17, np.pi, 1e6]), grid.faces, grid.uv / 7.0)
    save_mesh(mesh, str(tmp_path / f"mesh.{suffix}"))
    same(load_mesh(str(tmp_path / f"mesh.{suffix}")), mesh)


@pytest.mark.parametrize("suffix", ["obj", "ply"])
def test_others_read_what_is_written(tmp_path, suffix):
    mesh = shapes.grid((1.0, 2.0), (3, 2))
    save_mesh(mesh, tmp_path / f"mesh.{suffix}")
    other = trimesh.load_mesh(tmp_path / f"mesh.{suffix}", process=False)
    assert other.vertices[other.faces] == pytest.approx(mesh.vertices[mesh.faces])
    assert np.asarray(other.visual.uv)[other.faces] == pytest.approx(mesh.uv[mesh.faces])


def test_saving_replaces_whole_files_only(tmp_path, monkeypatch):
    path = tmp_path / "mesh.obj"
    save_mesh(shapes.plane(), path)
    before = path.read_bytes()

    def full(self, data):
        with self.open("wb") as file:
            file.write(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.write_bytes", full)
    with pytest.raises(MeshError, match=r"mesh\.obj: cannot be written \(No space left on device\)"):
        save_mesh(shapes.box(), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["mesh.obj"]


def test_saving_refuses(tmp_path):
    with pytest.raises(MeshError, match=r"a\.stl: weft writes meshes to \.obj, \.ply, \.npz files"):
        save_mesh(shapes.plane(), tmp_path / "a.stl")
    with pytest.raises(MeshError, match=r"cannot be written \(No such file"):
        save_mesh(shapes.plane(), tmp_path / "nowhere" / "a.obj")


def write(path, text):
    path.write_text(text)
    return path


SQUARE = "v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\n"


@pytest.mark.parametrize(
    ("faces", "expected"),
    [
        ("f 1 2 3 4", [[0, 1, 2], [0, 2, 3]]),
        ("f -4 -3 -2 -1", [[0, 1, 2], [0, 2, 3]]),
        ("f 1 2 3\nf 1 3 4", [[0, 1, 2], [0, 2, 3]]),
        ("f 1//1 2//1 3//1 4//1", [[0, 1, 2], [0, 2, 3]]),
        ("f 2 3 4 1 # a quad", [[1, 2, 3], [1, 3, 0]]),
        ("f 1 2 \\\n 3 4", [[0, 1, 2], [0, 2, 3]]),
        ("\tf  1\t2 3\r\nf 1 3 4\r\n", [[0, 1, 2], [0, 2, 3]]),
        ("g group\nusemtl cloth\ns off\nvn 0 0 1\nl 1 2\nf 1 2 3\no other\nf 1 3 4", [[0, 1, 2], [0, 2, 3]]),
    ],
)
def test_obj_faces(tmp_path, faces, expected):
    mesh = load_mesh(write(tmp_path / "a.obj", f"# comment\nmtllib x.mtl\n{SQUARE}{faces}"))
    assert mesh.faces.tolist() == expected
    assert mesh.vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]


def test_obj_pentagon_and_negative_indices_between_vertices(tmp_path):
    text = "v 0 0 0\nv 1 0 0\nv 0 1 0\nf -3 -2 -1\nv 5 0 0\nv 6 0 0\nv 6 1 0\nv 5.5 2 0\nv 5 1 0\nf -5 -4 -3 -2 -1\n"
    mesh = load_mesh(write(tmp_path / "a.obj", text))
    assert mesh.faces.tolist() == [[0, 1, 2], [3, 4, 5], [3, 5, 6], [3, 6, 7]]


def test_obj_vertices_with_colours_and_weights(tmp_path):
    text = "v 0 0 0 1\nv 1 0 0 0.5 0.5 0.5\nv 1e0 1. 0\nf 1 2 3\n"
    assert load_mesh(write(tmp_path / "a.obj", text)).vertices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]


def test_obj_keeps_one_uv_a_vertex(tmp_path):
    text = SQUARE + "vt 0 0\nvt 2 0\nvt 2 2\nvt 0 2\nvt 2 2 0\nf 1/1 2/2 3/3\nf 1/1 3/5 4/-2\n"
    assert load_mesh(write(tmp_path / "a.obj", text)).uv.tolist() == [[0, 0], [2, 0], [2, 2], [0, 2]]


@pytest.mark.parametrize(
    "faces",
    [
        "f 1/1 2/2 3/3\nf 1/4 3/3 4/2",  # vertex 1 lies on a seam
        "f 1/1 2/2 3/3\nf 1 3 4",  # not all corners have one
        "f 1/1 2/2 3/3\nf 1/1 3/9 4/4",  # one that does not exist
        "f 1/1 2/1 3/1\nf 1/1 3/1 4/1",  # no area
    ],
)
def test_obj_leaves_out_uv_but_never_splits_vertices(tmp_path, faces):
    text = SQUARE + "vt 0 0\nvt 2 0\nvt 2 2\nvt 0 2\n" + faces
    mesh = load_mesh(write(tmp_path / "a.obj", text))
    assert mesh.uv is None
    assert len(mesh.vertices) == 4


def test_ply_text_with_mixed_polygons_and_more(tmp_path):
    text = """ply
format ascii 1.0
comment made by hand
obj_info nothing
element vertex 5
property float x
property float y
property float z
property uchar red
element face 2
property list uchar int vertex_indices
property float quality
element edge 1
property int vertex1
property int vertex2
end_header
0 0 0 255
1 0 0 255
1 1 0 255
0 1 0 255
0.5 2 0 255
4 0 1 2 3 0.5
3 3 2 4 0.25
0 1
"""
    mesh = load_mesh(write(tmp_path / "a.ply", text))
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [3, 2, 4]]
    assert mesh.vertices[4].tolist() == [0.5, 2, 0]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("mixed", [False, True])
def test_ply_binary_in_both_byte_orders(tmp_path, order, mixed):
    name = "little" if order == "<" else "big"
    points = np.array([(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (0.5, 2, 0)], dtype=order + "f4")
    faces = [(0, 1, 2, 3), (3, 2, 4)] if mixed else [(0, 1, 2), (0, 2, 3), (3, 2, 4)]
    header = (
        f"ply\nformat binary_{name}_endian 1.0\nelement material 1\nproperty short id\nelement vertex 5\n"
        "property float x\nproperty float y\nproperty float z\nelement face "
        f"{len(faces)}\nproperty list ushort uint vertex_index\nend_header\n"
    )
    body = np.array([7], dtype=order + "i2").tobytes() + points.tobytes()
    for face in faces:
        body += np.array([len(face)], dtype=order + "u2").tobytes() + np.array(face, dtype=order + "u4").tobytes()
    (tmp_path / "a.ply").write_bytes(header.encode() + body)
    mesh = load_mesh(tmp_path / "a.ply")
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 2, 3], [3, 2, 4]]
    assert np.array_equal(mesh.vertices, points)


@pytest.mark.parametrize("encoding", ["ascii", "binary"])
def test_ply_of_others(tmp_path, encoding):
    box = shapes.box(cells=2)
    trimesh.Trimesh(box.vertices, box.faces, process=False).export(tmp_path / "a.ply", encoding=encoding)
    mesh = load_mesh(tmp_path / "a.ply")
    assert np.array_equal(mesh.faces, box.faces)
    assert mesh.vertices == pytest.approx(box.vertices)


@pytest.mark.parametrize("kind", ["stl", "stl_ascii"])
def test_stl_merges_equal_corners(tmp_path, kind):
    ball = shapes.icosphere(subdivisions=1)
    trimesh.Trimesh(ball.vertices, ball.faces, process=False).export(tmp_path / "a.stl", file_type=kind)
    mesh = load_mesh(tmp_path / "a.stl")
    assert len(mesh.vertices) == len(ball.vertices)
    assert mesh.closed
    assert mesh.vertices[mesh.faces] == pytest.approx(ball.vertices[ball.faces], abs=1e-6)
    source = read_mesh(tmp_path / "a.stl").source
    assert ball.vertices[ball.faces].reshape(-1, 3)[source] == pytest.approx(mesh.vertices, abs=1e-6)


def test_stl_zero_and_minus_zero_are_the_same_place(tmp_path):
    corners = [["0 0 0", "1 0 0", "1 1 0"], ["-0.0 0 -0.0", "1 1 0", "0 1 0"]]
    facets = "".join(
        "facet normal 0 0 1\nouter loop\n" + "".join(f"vertex {c}\n" for c in facet) + "endloop\nendfacet\n"
        for facet in corners
    )
    mesh = load_mesh(write(tmp_path / "a.stl", f"solid a\n{facets}endsolid a\n"))
    assert len(mesh.vertices) == 4


def scene_of_boxes():
    """A box, and the same one mirrored, scaled and moved."""
    box = shapes.box()
    scene = trimesh.Scene()
    ready = trimesh.Trimesh(box.vertices, box.faces, process=False)
    scene.add_geometry(ready, node_name="first", geom_name="box")
    matrix = np.diag([-2.0, 1.0, 1.0, 1.0])
    matrix[:3, 3] = (5.0, 0.0, 0.0)
    scene.graph.update(frame_from=scene.graph.base_frame, frame_to="second", matrix=matrix, geometry="box")
    return scene


def check_scene_of_boxes(mesh):
    assert mesh.components.max() == 1
    assert mesh.bounds == pytest.approx(np.array([(-0.5, -0.5, -0.5), (6.0, 0.5, 0.5)]))
    # mirrored too, it faces outwards
    assert signed_volume(mesh) == pytest.approx(3.0)


def test_glb_applies_the_scene_graph(tmp_path):
    scene_of_boxes().export(tmp_path / "a.glb")
    check_scene_of_boxes(load_mesh(tmp_path / "a.glb"))


def test_gltf_with_its_buffers_beside_it(tmp_path):
    for name, data in trimesh.exchange.gltf.export_gltf(scene_of_boxes()).items():
        (tmp_path / name).write_bytes(data)
    (gltf,) = tmp_path.glob("*.gltf")
    check_scene_of_boxes(load_mesh(gltf))
    for file in tmp_path.glob("*.bin"):
        file.unlink()
    with pytest.raises(MeshError, match=r"\.gltf: its buffer '.*\.bin' is missing"):
        load_mesh(gltf)


def test_glb_vertices_split_for_normals_are_one_again(tmp_path):
    box = shapes.box(cells=2)
    apart = trimesh.Trimesh(box.vertices[box.faces].reshape(-1, 3), np.arange(3 * len(box.faces)).reshape(-1, 3),
                            process=False)  # fmt: skip
    scene = trimesh.Scene()
    scene.add_geometry(apart, geom_name="a")
    scene.add_geometry(apart, geom_name="b")
    scene.export(tmp_path / "a.glb")
    mesh = load_mesh(tmp_path / "a.glb")
    # but two bodies in the same place stay two
    assert len(mesh.vertices) == 2 * len(box.vertices)
    assert mesh.closed
    source = read_mesh(tmp_path / "a.glb").source
    assert np.array_equal(np.tile(apart.vertices, (2, 1))[source], mesh.vertices)


def test_glb_uv(tmp_path):
    grid = shapes.grid((1.0, 1.0), (2, 2))
    other = trimesh.Trimesh(grid.vertices, grid.faces, process=False)
    other.visual = trimesh.visual.TextureVisuals(uv=grid.uv)
    other.export(tmp_path / "a.glb")
    assert load_mesh(tmp_path / "a.glb").uv == pytest.approx(grid.uv)


def test_npz(tmp_path):
    grid = shapes.grid((1.0, 1.0), (2, 2))
    frames = np.stack([grid.vertices, grid.vertices + 1.0]).astype(np.float32)
    np.savez(tmp_path / "a.npz", faces=grid.faces, vertices=grid.vertices, draped=grid.vertices * 2, frames=frames)
    same(load_mesh(tmp_path / "a.npz"), TriMesh(grid.vertices, grid.faces))
    same(load_mesh(tmp_path / "a.npz", array="draped"), TriMesh(grid.vertices * 2, grid.faces))
    same(load_mesh(tmp_path / "a.npz", array="frames"), TriMesh(grid.vertices, grid.faces))
    np.savez(tmp_path / "b.npz", faces=grid.faces, vertices=grid.vertices, uv=grid.uv)
    same(load_mesh(tmp_path / "b.npz"), grid)


def test_repair_on_loading(tmp_path, caplog):
    path = write(tmp_path / "a.obj", SQUARE + "v 9 9 9\nf 1 2 3\nf 1 4 3\nf 1 1 2\n")
    with pytest.raises(MeshError, match=r"a\.obj: the mesh has .* Load it with repair"):
        load_mesh(path)
    with caplog.at_level(logging.WARNING):
        mesh = load_mesh(path, repair=True)
    assert len(mesh.faces) == 2
    assert len(mesh.vertices) == 4
    assert [record.getMessage().split(": ")[1].split()[0] for record in caplog.records] == [
        "Dropped",
        "Turned",
        "Dropped",
    ]

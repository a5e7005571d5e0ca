"""Meshes in motion, from every kind of file, against formulas; and what is refused."""

import zipfile

import numpy as np
import pytest
from glb_writer import GlbWriter
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation, Slerp

from weft.errors import MeshError
from weft.mesh import TriMesh, read_mesh, save_mesh, shapes
from weft.mesh.sequences import natural, read_sequence

BOX = shapes.box()
QUAD = shapes.grid((1, 1), (1, 1))


def test_npz(tmp_path):
    samples = np.random.default_rng(0).normal(size=(3, 8, 3)).astype(np.float32)
    np.savez(tmp_path / "s.npz", vertices=samples, faces=BOX.faces, other=samples * 2)
    sequence = read_sequence(tmp_path / "s.npz", fps=24)
    assert len(sequence) == 3
    assert sequence.vertex_count == 8
    np.testing.assert_allclose(sequence.times, [0, 1 / 24, 2 / 24])
    np.testing.assert_array_equal(sequence.faces, BOX.faces)
    assert sequence.vertices(1).dtype == np.float64
    np.testing.assert_array_equal(sequence.vertices(1), samples[1])
    np.testing.assert_array_equal(read_sequence(tmp_path / "s.npz", fps=24, array="other").vertices(2), samples[2] * 2)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros(3)}, "s.npz has no array 'vertices'; it has x"),
        ({"vertices": np.zeros((4, 3))}, r"vertices must be numbers \(samples, vertices, 3\), not float64 \(4, 3\)"),
        ({"vertices": np.zeros((2, 0, 3))}, r"vertices is empty: its shape is \(2, 0, 3\)"),
        (
            {"vertices": np.where(np.arange(24).reshape(2, 4, 3) == 19, np.nan, 0)},
            "vertices has NaN or infinite coordinates, first in sample 1 at vertex 2",
        ),
        (
            {"vertices": np.zeros((2, 4, 3)), "faces": np.zeros((2, 1, 3), int)},
            "triangles must not change from sample to sample",
        ),
        ({"vertices": np.zeros((2, 4, 3)), "faces": np.array([[0, 1, 4]])}, "faces names vertices that do not exist"),
        ({"vertices": np.zeros((2, 4, 3)), "faces": np.zeros((1, 3))}, "faces must be whole numbers"),
        ({"vertices": np.array([[["a"] * 3]])}, "vertices must be numbers"),
        ({"vertices": np.array([{}], dtype=object)}, "cannot be read as an npz file: Object arrays"),
    ],
)
def test_npz_that_makes_no_sense_is_refused(tmp_path, arrays, message):
    np.savez(tmp_path / "s.npz", **arrays)
    with pytest.raises(MeshError, match=message):
        read_sequence(tmp_path / "s.npz", fps=1)


def test_folders_are_sorted_by_number(tmp_path):
    for ending in ("obj", "ply"):
        folder = tmp_path / ending
        folder.mkdir()
        for i in (10, 2, 1):
            save_mesh(BOX.with_vertices(BOX.vertices * i), folder / f"frame_{i}.{ending}")
        (folder / "notes.txt").write_text("not a mesh")
        sequence = read_sequence(folder, fps=2)
        np.testing.assert_allclose(sequence.times, [0, 0.5, 1])
        for sample, i in enumerate((1, 2, 10)):
            np.testing.assert_allclose(sequence.vertices(sample), BOX.vertices * i)
        np.testing.assert_array_equal(sequence.faces, BOX.faces)


@given(st.lists(st.integers(0, 10**6), max_size=8))
def test_numbers_in_names_sort_as_numbers(values):
    assert sorted((f"f{v}.obj" for v in values), key=natural) == [f"f{v}.obj" for v in sorted(values)]


@pytest.mark.parametrize("ending", ["obj", "ply"])
def test_folders_whose_mesh_changes_are_refused(tmp_path, ending):
    save_mesh(BOX, tmp_path / f"a1.{ending}")
    save_mesh(BOX, tmp_path / f"a2.{ending}")
    bad = tmp_path / f"a3.{ending}"
    save_mesh(shapes.box(cells=2), bad)
    with pytest.raises(MeshError, match=rf"the mesh changes: a3\.{ending} has 26 vertices and a1\.{ending} has 8"):
        read_sequence(tmp_path, fps=1)
    save_mesh(TriMesh(BOX.vertices, BOX.faces[:-1]), bad)
    with pytest.raises(
        MeshError, match=rf"the triangles change: a3\.{ending} has 11 triangles and a1\.{ending} has 12"
    ):
        read_sequence(tmp_path, fps=1)
    save_mesh(TriMesh(BOX.vertices, np.roll(BOX.faces, 1, axis=0)), bad)
    with pytest.raises(MeshError, match=rf"triangle 0 of a3\.{ending} is another than in a1\.{ending}"):
        read_sequence(tmp_path, fps=1)
    bad.write_text("v 0 0\nf 1 1 1\n")
    with pytest.raises(MeshError, match=rf"a3\.{ending}: "):
        read_sequence(tmp_path, fps=1)


def test_a_vertex_more_is_noticed_even_with_the_same_triangles(tmp_path):
    save_mesh(BOX, tmp_path / "1.obj")
    text = (tmp_path / "1.obj").read_text()
    (tmp_path / "2.obj").write_text(text.replace("f ", "v 9 9 9\nf ", 1))
    with pytest.raises(MeshError, match=r"2\.obj has 9 vertices and 1.obj has 8"):
        read_sequence(tmp_path, fps=1)


def test_other_things_are_refused(tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "both").mkdir()
    save_mesh(BOX, tmp_path / "both" / "1.obj")
    save_mesh(BOX, tmp_path / "both" / "2.ply")
    (tmp_path / "film.mp4").write_text("x")
    (tmp_path / "text.npz").write_text("x")
    for name, message in (
        ("none", "no such file"),
        ("empty", "empty: the folder holds no OBJ or PLY files"),
        ("both", "both: the folder holds both OBJ and PLY files"),
        ("film.mp4", "film.mp4 is no mesh sequence that weft reads"),
        ("text.npz", "text.npz cannot be read as an npz file"),
    ):
        with pytest.raises(MeshError, match=message):
            read_sequence(tmp_path / name, fps=1)
    with pytest.raises(MeshError, match="both: does not say how fast it goes: give fps"):
        read_sequence(tmp_path / "both")


TIMES = [0.5, 1.5, 2.5]


def read_glb(tmp_path, glb, **options):
    glb.save(tmp_path / "a.glb")
    return read_sequence(tmp_path / "a.glb", **options)


def test_glb_nodes_that_move(tmp_path):
    glb = GlbWriter()
    child = glb.node(root=False, mesh=glb.mesh(BOX.vertices, BOX.faces), translation=[1, 0, 0])
    parent = glb.node(children=[child], scale=[2, 2, 2])
    shifts = np.array([(0, 0, 0), (0, 1, 0), (0, 1, 2)], float)
    turns = Rotation.from_euler("xyz", [(0, 0, 0), (0, 90, 0), (0, 90, 60)], degrees=True)
    glb.animate(parent, "translation", TIMES, shifts)
    # q and -q are the same rotation: the shorter way is taken all the same
    glb.animate(child, "rotation", TIMES, turns.as_quat() * [[1], [-1], [1]])
    sequence = read_glb(tmp_path, glb, fps=4)
    np.testing.assert_allclose(sequence.times, np.arange(9) / 4)
    np.testing.assert_array_equal(sequence.faces, BOX.faces)
    slerp = Slerp(TIMES, turns)
    for sample, time in enumerate(sequence.times):
        t = 0.5 + time
        shift = [np.interp(t, TIMES, column) for column in shifts.T]
        expected = 2 * (slerp(t).apply(BOX.vertices.copy()) + (1, 0, 0)) + shift
        np.testing.assert_allclose(sequence.vertices(sample), expected, atol=2e-6)


def test_glb_is_sampled_to_its_end(tmp_path):
    glb = GlbWriter()
    node = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    glb.animate(node, "translation", [0, 0.95], [(0, 0, 0), (1, 0, 0)])
    sequence = read_glb(tmp_path, glb, fps=10)
    assert len(sequence) == 11
    np.testing.assert_allclose(sequence.vertices(10), BOX.vertices + (1, 0, 0), atol=1e-6)
    assert len(read_sequence(tmp_path / "a.glb")) == 30


def test_glb_steps_and_cubics(tmp_path):
    glb = GlbWriter()
    stepped = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    cubic = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    glb.animate(stepped, "translation", TIMES, [(0, 0, 0), (1, 0, 0), (2, 0, 0)], "STEP")
    # x = t^3 + 1 is its own cubic: value and slope at each keyframe
    keys = [[(3 * t * t, 0, 0), (t**3 + 1, 0, 0), (3 * t * t, 0, 0)] for t in TIMES]
    glb.animate(cubic, "translation", TIMES, np.reshape(keys, (-1, 3)), "CUBICSPLINE")
    sequence = read_glb(tmp_path, glb, fps=10)
    for sample, time in enumerate(sequence.times):
        t = time + 0.5
        first, second = np.split(sequence.vertices(sample), 2)
        np.testing.assert_allclose(first - BOX.vertices, np.tile([np.floor(t - 0.5 + 1e-9), 0, 0], (8, 1)), atol=1e-6)
        np.testing.assert_allclose(second - BOX.vertices, np.tile([t**3 + 1, 0, 0], (8, 1)), atol=1e-5)


def test_glb_morph_targets(tmp_path):
    glb = GlbWriter()
    offsets = np.random.default_rng(0).normal(size=(2, 8, 3)).astype(np.float32)
    offsets[1, 2:] = 0
    targets = [{"POSITION": glb.array(offsets[0])}, {"POSITION": glb.sparse(8, [0, 1], offsets[1, :2])}]
    node = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces, targets=targets))
    weights = np.array([(0, 0), (1, 0.5), (0.25, 1)])
    glb.animate(node, "weights", TIMES, weights.ravel())
    sequence = read_glb(tmp_path, glb, fps=2)
    for sample, time in enumerate(sequence.times):
        w = [np.interp(time + 0.5, TIMES, column) for column in weights.T]
        np.testing.assert_allclose(
            sequence.vertices(sample), BOX.vertices + w[0] * offsets[0] + w[1] * offsets[1], atol=2e-6
        )


def skinned(glb, joints=(0, 1), weights=None):
    """A strip whose ends follow two joints, the second of them turning; gives its mesh and the shares."""
    strip = shapes.strip(2.0, 1.0, 4)
    x = strip.vertices[:, 0]
    share = np.clip((x + 1) / 2, 0, 1)
    shares = np.stack([1 - share, share, 0 * share, 0 * share], axis=1) if weights is None else weights
    places = np.tile([*joints, 0, 0], (len(x), 1))
    attributes = {"JOINTS_0": glb.array(places, "u1", stride=8), "WEIGHTS_0": glb.array(shares)}
    mesh = glb.mesh(strip.vertices, strip.faces, attributes=attributes)
    elbow = glb.node(root=False, translation=[0.5, 0, 0])
    shoulder = glb.node(children=[elbow], translation=[-0.5, 0, 0])
    inverse = np.stack([np.eye(4), np.eye(4)])
    inverse[0, 0, 3], inverse[1, 0, 3] = 0.5, 0.0
    columns = inverse.transpose(0, 2, 1).reshape(2, 16)
    glb.document["skins"] = [{"joints": [shoulder, elbow], "inverseBindMatrices": glb.array(columns)}]
    # a skinned mesh does not follow its own node
    glb.node(mesh=mesh, skin=0, translation=[7, 7, 7])
    turns = Rotation.from_euler("z", [[0], [90]], degrees=True)
    glb.animate(elbow, "rotation", [0, 1], turns.as_quat())
    return strip, share


def test_glb_skins(tmp_path):
    glb = GlbWriter()
    strip, share = skinned(glb)
    sequence = read_glb(tmp_path, glb, fps=2)
    assert sequence.vertex_count == len(strip.vertices)
    for sample, degrees in enumerate((0, 45, 90)):
        turned = Rotation.from_euler("z", degrees, degrees=True).apply(strip.vertices.copy())
        expected = (1 - share)[:, None] * strip.vertices + share[:, None] * turned
        np.testing.assert_allclose(sequence.vertices(sample), expected, atol=2e-6)


def test_glb_vertices_that_move_alike_are_one(tmp_path):
    # each triangle with vertices of its own, as exporters write flat shading
    split, faces = BOX.vertices[BOX.faces].reshape(-1, 3), np.arange(36).reshape(-1, 3)
    glb = GlbWriter()
    node = glb.node(mesh=glb.mesh(split, faces))
    glb.animate(node, "translation", [0, 1], [(0, 0, 0), (1, 0, 0)])
    sequence = read_glb(tmp_path, glb, fps=1)
    assert sequence.vertex_count == 8
    mesh = TriMesh(sequence.vertices(0), sequence.faces)
    assert not mesh.boundary_loops
    np.testing.assert_allclose(mesh.vertices[mesh.faces], split.reshape(-1, 3, 3), atol=1e-7)
    # but not those that a morph target pulls apart
    glb = GlbWriter()
    offsets = np.zeros((36, 3))
    offsets[0] = 1
    node = glb.node(mesh=glb.mesh(split, faces, targets=[{"POSITION": glb.array(offsets)}]))
    glb.animate(node, "weights", [0, 1], [0, 1])
    assert read_glb(tmp_path, glb, fps=1).vertex_count == 9


def test_gltf_with_its_buffer_beside_it(tmp_path):
    glb = GlbWriter()
    node = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    glb.animate(node, "translation", [0, 1], [(0, 0, 0), (1, 0, 0)])
    glb.save_text(tmp_path / "a.gltf")
    np.testing.assert_allclose(
        read_sequence(tmp_path / "a.gltf", fps=1).vertices(1), BOX.vertices + (1, 0, 0), atol=1e-6
    )
    (tmp_path / "the buffer.bin").unlink()
    with pytest.raises(MeshError, match=r"a\.gltf: its buffer 'the buffer.bin' is missing"):
        read_sequence(tmp_path / "a.gltf", fps=1)
    text = (tmp_path / "a.gltf").read_text()
    for outside in ("../x.bin", "/etc/passwd", "http://x/y", "%2e%2e/x.bin"):
        (tmp_path / "a.gltf").write_text(text.replace("the%20buffer.bin", outside))
        with pytest.raises(MeshError, match="does not lie in its folder"):
            read_sequence(tmp_path / "a.gltf", fps=1)


def moving_box():
    glb = GlbWriter()
    node = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    glb.animate(node, "translation", [0, 1], [(0, 0, 0), (1, 0, 0)])
    return glb


def test_glb_with_several_animations_needs_a_name(tmp_path):
    glb = moving_box()
    glb.animate(0, "translation", [0, 1], [(0, 0, 0), (0, 5, 0)], name="jump")
    with pytest.raises(MeshError, match=r"it holds 2 animations \(move, jump\): name one of them with array"):
        read_glb(tmp_path, glb, fps=1)
    np.testing.assert_allclose(
        read_sequence(tmp_path / "a.glb", fps=1, array="jump").vertices(1), BOX.vertices + (0, 5, 0), atol=1e-6
    )
    with pytest.raises(MeshError, match="it holds no animation called 'run'; it has move, jump"):
        read_sequence(tmp_path / "a.glb", fps=1, array="run")


def spoil(change):
    """A document with something wrong in it."""
    glb = moving_box()
    change(glb.document)
    return glb


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.pop("animations"), "it holds no animation"),
        (lambda d: d["animations"][0].update(channels=[]), "its animation moves nothing"),
        (lambda d: d["asset"].update(version="1.0"), "it is no glTF 2 file"),
        (lambda d: d.update(extensionsRequired=["KHR_draco_mesh_compression"]), "it is compressed"),
        (lambda d: d["meshes"][0]["primitives"][0].update(mode=1), "it holds no triangle mesh"),
        (lambda d: d["nodes"][0].pop("mesh"), "it holds no triangle mesh"),
        (lambda d: d["nodes"][0].update(children=[0]), "its node 0 is in two places"),
        (lambda d: d["nodes"][0].update(children=[5]), "it is damaged"),
        (lambda d: d["accessors"][0].update(count=10**6), "it is cut short"),
        (lambda d: d["accessors"][0].update(componentType=1), "it is damaged"),
        (lambda d: d["animations"][0]["samplers"][0].update(interpolation="SPLINE"), "uses the interpolation 'SPLINE'"),
        (lambda d: d["animations"][0]["channels"][0]["target"].update(path="pointer"), "moves 'pointer'"),
        (lambda d: d["animations"][0]["samplers"][0].update(output=0), "it is damaged"),
        (lambda d: d["nodes"][0].update(skin=0), "without joints"),
        # the crash of an array whose elements lie before its buffer
        (lambda d: d["bufferViews"][0].update(byteStride=-(10**6)), "12 bytes that begin every -1000000 bytes"),
        (lambda d: d["bufferViews"][0].update(byteStride=4), "12 bytes that begin every 4 bytes"),
        (lambda d: d["bufferViews"][0].update(byteOffset=-64), "begins before it"),
        (lambda d: d["accessors"][0].update(byteOffset=-4), "begins before it"),
        (lambda d: d["accessors"][0].update(count=-3), "an array of -3 elements"),
        (lambda d: d["accessors"][0].update(byteOffset=10**30), "past the end"),
        (lambda d: (d["accessors"][0].pop("bufferView"), d["accessors"][0].update(count=10**10)), "take 120 GB"),
    ],
)
def test_glb_that_makes_no_sense_is_refused(tmp_path, change, message):
    with pytest.raises(MeshError, match=r"^a\.glb: .*" + message):
        read_glb(tmp_path, spoil(change), fps=1)


def test_glb_whose_arrays_repeat_is_refused_before_they_fill_memory(tmp_path):
    glb = moving_box()
    zeros = {"componentType": 5126, "count": 10**6, "type": "VEC3"}
    glb.document["accessors"].append(zeros)
    target = {"POSITION": len(glb.document["accessors"]) - 1}
    glb.document["meshes"][0]["primitives"][0]["targets"] = [target] * 1000
    with pytest.raises(MeshError, match=r"its arrays take 0\.54 GB, too much for a file of 0\.0\d+ MB"):
        read_glb(tmp_path, glb, fps=1)


@pytest.mark.parametrize(("end", "message"), [(1e9, "lasts 1e+09 s.*give a smaller fps"), (np.inf, "in the order of")])
def test_glb_without_end_is_refused(tmp_path, end, message):
    glb = GlbWriter()
    node = glb.node(mesh=glb.mesh(BOX.vertices, BOX.faces))
    glb.animate(node, "translation", [0.0, end], np.zeros((2, 3)))
    with pytest.raises(MeshError, match=message.replace("+", r"\+")):
        read_glb(tmp_path, glb)


def test_npz_that_unpacks_to_gigabytes_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "s.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for name, shape in (("vertices", (600_000, 100, 3)), ("faces", (1, 3))):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                header = {"descr": "<f4", "fortran_order": False, "shape": shape}
                np.lib.format.write_array_header_2_0(file, header)
                for _ in range(shape[0] // 10_000 or 1):
                    file.write(bytes(int(np.prod(shape[1:])) * 4 * min(shape[0], 10_000)))
    with pytest.raises(MeshError, match=r"s\.npz: its arrays take 0\.72 GB"):
        read_sequence(tmp_path / "s.npz", fps=1)
    with pytest.raises(MeshError, match=r"s\.npz: its arrays take 0\.72 GB"):
        read_mesh(tmp_path / "s.npz")


def test_glb_that_is_cut_short_is_refused(tmp_path):
    moving_box().save(tmp_path / "a.glb")
    whole = (tmp_path / "a.glb").read_bytes()
    for end in range(0, len(whole) - 4, 97):
        (tmp_path / "a.glb").write_bytes(whole[:end])
        with pytest.raises(MeshError, match=r"^a\.glb: "):
            read_sequence(tmp_path / "a.glb", fps=1)


def test_glb_skins_without_weight_are_refused(tmp_path):
    glb = GlbWriter()
    skinned(glb, weights=np.zeros((10, 4)))
    with pytest.raises(MeshError, match="skinned vertices that no joint moves, first vertex 0"):
        read_glb(tmp_path, glb, fps=1)
    glb = GlbWriter()
    skinned(glb, joints=(0, 9))
    with pytest.raises(MeshError, match="it has a vertex that follows the joint 9 of a skin with 2"):
        read_glb(tmp_path, glb, fps=1)


def usd_stage(path, *, up="Y", metres=1.0, rate=24.0):
    pxr = pytest.importorskip("pxr")
    from pxr import Usd, UsdGeom

    assert pxr
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    stage.SetTimeCodesPerSecond(rate)
    return stage, UsdGeom.Mesh.Define(stage, "/root/box")


def define(mesh, faces=BOX.faces):
    mesh.GetFaceVertexCountsAttr().Set([3] * len(faces))
    mesh.GetFaceVertexIndicesAttr().Set(np.ravel(faces).tolist())


def test_usd_points(tmp_path):
    stage, mesh = usd_stage(tmp_path / "a.usda", metres=0.01)
    define(mesh)
    for code, scale in ((101, 1.0), (103, 2.0), (104, 3.0)):
        mesh.GetPointsAttr().Set((BOX.vertices * scale * 100).tolist(), code)
    stage.Save()
    sequence = read_sequence(tmp_path / "a.usda")
    np.testing.assert_allclose(sequence.times, [0, 2 / 24, 3 / 24])
    for sample, scale in enumerate((1.0, 2.0, 3.0)):
        np.testing.assert_allclose(sequence.vertices(sample), BOX.vertices * scale, atol=1e-6)
    np.testing.assert_array_equal(sequence.faces, BOX.faces)
    np.testing.assert_allclose(read_sequence(tmp_path / "a.usda", fps=10).times, [0, 0.2, 0.3])


def test_usd_places_that_move(tmp_path):
    stage, mesh = usd_stage(tmp_path / "a.usda", up="Z")
    from pxr import UsdGeom

    define(mesh)
    mesh.GetPointsAttr().Set(BOX.vertices.tolist())
    shift = UsdGeom.Xform.Define(stage, "/root").AddTranslateOp()
    shift.Set((0, 0, 0), 0)
    shift.Set((0, 0, 3), 12)
    stage.Save()
    sequence = read_sequence(tmp_path / "a.usda")
    np.testing.assert_allclose(sequence.times, [0, 0.5])
    # z is up in the file: it moves up
    moved = sequence.vertices(1) - sequence.vertices(0)
    np.testing.assert_allclose(moved, np.tile([0, 3, 0], (8, 1)), atol=1e-6)


def test_usd_that_cannot_be_a_sequence_is_refused(tmp_path):
    stage, mesh = usd_stage(tmp_path / "still.usda")
    define(mesh)
    mesh.GetPointsAttr().Set(BOX.vertices.tolist())
    stage.Save()
    with pytest.raises(MeshError, match=r"still\.usda: it holds no animation"):
        read_sequence(tmp_path / "still.usda")

    stage, mesh = usd_stage(tmp_path / "changes.usda")
    for code, faces in ((0, BOX.faces), (5, BOX.faces[::-1])):
        mesh.GetFaceVertexCountsAttr().Set([3] * 12, code)
        mesh.GetFaceVertexIndicesAttr().Set(np.ravel(faces).tolist(), code)
        mesh.GetPointsAttr().Set(BOX.vertices.tolist(), code)
    stage.Save()
    with pytest.raises(MeshError, match=r"the triangles of its mesh /root/box change at the time code 5"):
        read_sequence(tmp_path / "changes.usda")

    stage, mesh = usd_stage(tmp_path / "grows.usda")
    define(mesh)
    mesh.GetPointsAttr().Set(BOX.vertices.tolist(), 0)
    mesh.GetPointsAttr().Set([*BOX.vertices.tolist(), (0, 0, 0)], 1)
    stage.Save()
    with pytest.raises(MeshError, match="its mesh /root/box has 8 points at first and 9 at the time code 1;"):
        read_sequence(tmp_path / "grows.usda")

    (tmp_path / "no.usda").write_text("not usd")
    with pytest.raises(MeshError, match=r"no\.usda: it is no USD file"):
        read_sequence(tmp_path / "no.usda")


def test_usd_skins_without_a_skeleton_do_not_move(tmp_path):
    stage, mesh = usd_stage(tmp_path / "skel.usda")
    from pxr import UsdSkel

    define(mesh)
    mesh.GetPointsAttr().Set(BOX.vertices.tolist())
    UsdSkel.BindingAPI.Apply(mesh.GetPrim())
    stage.Save()
    with pytest.raises(MeshError, match="it holds no animation"):
        read_sequence(tmp_path / "skel.usda")

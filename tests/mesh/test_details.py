"""What a mesh carries besides its shape: from a file, through every change of the mesh, to a file."""

import json

import numpy as np
import pytest
from glb_writer import GlbWriter

from weft.errors import MeshError
from weft.mesh import Details, Labels, TriMesh, load_mesh, read_mesh, repair_mesh, save_mesh, shapes, subdivide

# two squares side by side that share an edge; the texture has a seam along it
SEAM = """o left
usemtl red
v 0 0 0
v 1 0 0
v 1 1 0
v 0 1 0
v 2 0 0
v 2 1 0
vt 0 0
vt 0.4 0
vt 0.4 1
vt 0 1
vt 0.6 0
vt 1 0
vt 1 1
vt 0.6 1
vn 0 0 1
f 1/1/1 2/2/1 3/3/1 4/4/1
o right
usemtl blue
f 2/5/1 5/6/1 6/7/1 3/8/1
"""


def seam_mesh(tmp_path):
    path = tmp_path / "seam.obj"
    path.write_text(SEAM)
    return load_mesh(path)


def corner_values(mesh):
    """For each triangle its corners' positions and texture coordinates, whatever their order."""
    rows = np.concatenate([mesh.vertices[mesh.faces], mesh.corner_uv], axis=2)
    return sorted(tuple(sorted(map(tuple, row.round(6).tolist()))) for row in rows)


def test_a_seam_of_the_texture_keeps_its_coordinates(tmp_path):
    mesh = seam_mesh(tmp_path)
    assert len(mesh.vertices) == 6
    assert mesh.uv is None
    assert mesh.corner_uv.shape == (4, 3, 2)
    # vertex 1 has 0.4 in the left square and 0.6 in the right one
    assert set(mesh.corner_uv[mesh.faces == 1][:, 0].tolist()) == {0.4, 0.6}
    assert mesh.names("object") == ("left", "right")
    assert mesh.names("material") == ("red", "blue")
    assert mesh.details.corner_normals.tolist() == [[[0.0, 0.0, 1.0]] * 3] * 4


@pytest.mark.parametrize("ending", ["obj", "ply", "npz"])
def test_files_give_back_what_they_were_given(tmp_path, ending):
    mesh = seam_mesh(tmp_path)
    save_mesh(mesh, tmp_path / f"out.{ending}")
    again = load_mesh(tmp_path / f"out.{ending}")
    assert np.array_equal(again.corner_uv, mesh.corner_uv)
    assert np.array_equal(again.details.polygons, mesh.details.polygons)
    assert np.allclose(again.details.corner_normals, mesh.details.corner_normals)
    if ending != "ply":
        for kind in ("object", "material"):
            assert again.names(kind) == mesh.names(kind)
            assert np.array_equal(again.labels[kind].index, mesh.labels[kind].index)


@pytest.mark.parametrize("ending", ["ply", "npz"])
def test_attributes_go_through_files(tmp_path, ending):
    grid = shapes.grid((1.0, 1.0), (2, 2))
    weights = np.linspace(0.0, 1.0, 9)
    colours = np.stack([weights, weights**2, 1.0 - weights], axis=1)
    mesh = TriMesh(grid.vertices, grid.faces, attributes={"pin_left": weights, "colour": colours})
    save_mesh(mesh, tmp_path / f"out.{ending}")
    again = load_mesh(tmp_path / f"out.{ending}")
    assert np.array_equal(again.attributes["pin_left"], weights)
    assert np.array_equal(again.attributes["colour"], colours)


def test_objects_are_picked_by_name(tmp_path):
    mesh = seam_mesh(tmp_path)
    right = mesh.part("right")
    assert len(right.vertices) == 4
    assert right.vertices[:, 0].min() == 1.0
    assert right.names("material") == ("blue",)
    loaded = load_mesh(tmp_path / "seam.obj", object="right")
    assert np.array_equal(loaded.vertices, right.vertices)
    assert np.array_equal(loaded.corner_uv, right.corner_uv)
    assert read_mesh(tmp_path / "seam.obj", object="right").source.tolist() == [1, 2, 4, 5]
    # without the seam each vertex has one coordinate
    assert right.uv is None
    assert set(mesh.parts()) == {"left", "right"}
    assert load_mesh(tmp_path / "seam.obj", object="blue").face_areas.sum() == pytest.approx(1.0)
    with pytest.raises(
        MeshError, match=r"seam\.obj: it has no object 'middle'; it has objects left, right; materials red"
    ):
        load_mesh(tmp_path / "seam.obj", object="middle")
    with pytest.raises(MeshError, match="no object 'middle'"):
        mesh.part("middle")


def test_vertices_are_picked_by_name(tmp_path):
    mesh = seam_mesh(tmp_path)
    assert mesh.vertices_of("left").tolist() == [0, 1, 2, 3]
    painted = TriMesh(mesh.vertices, mesh.faces, attributes={"top": mesh.vertices[:, 1], "colour": np.zeros((6, 3))})
    assert painted.vertices_of("top").tolist() == [2, 3, 5]
    with pytest.raises(MeshError, match="no group 'hem'; it has attributes top, colour"):
        painted.vertices_of("hem")
    with pytest.raises(MeshError, match="has 3 numbers a vertex"):
        painted.vertices_of("colour")


def test_a_mirror_turns_corners_and_normals_with_the_triangles(tmp_path):
    mesh = seam_mesh(tmp_path)
    mirrored = mesh.transformed(np.diag([-1.0, 1.0, 1.0, 1.0]))
    back = mirrored.transformed(np.diag([-1.0, 1.0, 1.0, 1.0]))
    assert corner_values(back) == corner_values(mesh)
    assert np.allclose(mirrored.details.corner_normals, (0.0, 0.0, 1.0))
    assert mirrored.face_normals[:, 2].min() > 0.0
    turned = mesh.transformed(np.array([[0, 0, 1, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1.0]]))
    assert np.allclose(turned.details.corner_normals, (1.0, 0.0, 0.0))
    assert mesh.with_vertices(mesh.vertices[:, ::-1]).details.corner_normals is None


def test_repair_keeps_what_belongs_to_the_triangles_that_stay(tmp_path):
    mesh = seam_mesh(tmp_path)
    faces = mesh.faces.copy()
    faces[3] = faces[3][::-1]
    details = Details(
        corner_uv=np.concatenate([mesh.corner_uv[:3], mesh.corner_uv[3:, ::-1], np.zeros((1, 3, 2))]),
        labels={"object": Labels(("a", "b"), np.array([0, 0, 1, 1, 0], dtype=np.int32))},
        attributes={"weight": np.arange(7.0)},
    )
    vertices = np.concatenate([mesh.vertices, [[9.0, 9.0, 9.0]]])
    repaired = repair_mesh(vertices, np.concatenate([faces, [[0, 0, 1]]]), details=details).mesh
    assert corner_values(repaired) == corner_values(mesh)
    assert repaired.labels["object"].index.tolist() == [0, 0, 1, 1]
    assert repaired.attributes["weight"].tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("rule", [subdivide.midpoint, subdivide.loop])
def test_subdivision_keeps_the_texture_in_its_place(tmp_path, rule):
    mesh = seam_mesh(tmp_path)
    fine = rule(TriMesh(mesh.vertices, mesh.faces, details=mesh.details, attributes={"x": mesh.vertices[:, 0]}))
    assert len(fine.faces) == 16
    assert fine.names("object") == ("left", "right")
    # left of the seam u is 0.4 x, right of it 0.2 + 0.4 x, at all middles too
    x = subdivide.midpoint_points(mesh, mesh.vertices)[:, 0][fine.faces]
    left = (np.repeat(mesh.labels["object"].index, 4) == 0)[:, None]
    assert np.allclose(fine.corner_uv[:, :, 0], np.where(left, 0.4 * x, 0.2 + 0.4 * x))
    if rule is subdivide.midpoint:
        assert np.allclose(fine.attributes["x"], fine.vertices[:, 0])


def test_glb_keeps_seams_names_materials_and_attributes(tmp_path):
    writer = GlbWriter()
    # two squares of one node, of two materials, with vertices split at the seam of the texture
    left = {
        "POSITION": [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]],
        "TEXCOORD_0": [[0, 1], [0.4, 1], [0.4, 0], [0, 0]],
    }
    right = {
        "POSITION": [[1, 0, 0], [2, 0, 0], [2, 1, 0], [1, 1, 0]],
        "TEXCOORD_0": [[0.6, 1], [1, 1], [1, 0], [0.6, 0]],
    }
    primitives = []
    for number, part in enumerate((left, right)):
        attributes = {name: writer.array(values) for name, values in part.items()}
        attributes["NORMAL"] = writer.array([[0, 0, 1]] * 4)
        attributes["_PIN"] = writer.array([float(p[0] > 1.5) for p in part["POSITION"]])
        indices = writer.array([0, 1, 2, 0, 2, 3], "u2")
        primitives.append({"attributes": attributes, "indices": indices, "material": number})
    writer.document["materials"] = [{"name": "red"}, {"name": "blue"}]
    writer.document["meshes"] = [{"primitives": primitives}, {"name": "other", "primitives": primitives[:1]}]
    writer.document["nodes"] = [{"name": "shirt", "mesh": 0}, {"mesh": 1, "translation": [0, 5, 0]}]
    writer.document["scenes"][0]["nodes"] = [0, 1]
    path = tmp_path / "shirt.glb"
    writer.save(path)
    mesh = load_mesh(path, object="shirt")
    assert len(mesh.vertices) == 6
    assert mesh.names("material") == ("red", "blue")
    assert set(np.round(mesh.corner_uv[np.all(mesh.vertices[mesh.faces] == (1, 0, 0), axis=2)][:, 0], 6)) == {0.4, 0.6}
    assert mesh.vertices_of("pin").tolist() == np.flatnonzero(mesh.vertices[:, 0] > 1.5).tolist()
    assert load_mesh(path).names() == ("shirt", "other")
    assert load_mesh(path, object="other").bounds[0, 1] == 5.0


def test_usd_keeps_seams_names_materials_and_attributes(tmp_path):
    pytest.importorskip("pxr")
    path = tmp_path / "two.usda"
    points = "[(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0), (2, 0, 0), (2, 1, 0)]"
    st = [(0, 0), (0.4, 0), (0.4, 1), (0, 1), (0.6, 0), (1, 0), (1, 1), (0.6, 1)]
    mesh = f"""
        int[] faceVertexCounts = [4, 4]
        int[] faceVertexIndices = [0, 1, 2, 3, 1, 4, 5, 2]
        point3f[] points = {points}
        float[] primvars:pin = [0, 0, 0, 0, 1, 1] (\ninterpolation = "vertex"\n)
        texCoord2f[] primvars:st = {st} (\ninterpolation = "faceVarying"\n)
        rel material:binding = </Looks/red>
        def GeomSubset "sleeve" ( prepend apiSchemas = ["MaterialBindingAPI"] )
        {{
            uniform token elementType = "face"
            uniform token familyName = "materialBind"
            int[] indices = [1]
            rel material:binding = </Looks/blue>
        }}"""
    path.write_text(
        '#usda 1.0\n(\nmetersPerUnit = 1\nupAxis = "Y"\n)\n'
        f'def Mesh "shirt" ( prepend apiSchemas = ["MaterialBindingAPI"] )\n{{{mesh}\n}}\n'
        f'def Xform "copy"\n{{\ndef Mesh "shirt" ( prepend apiSchemas = ["MaterialBindingAPI"] )\n{{{mesh}\n}}\n}}\n'
        'def Scope "Looks"\n{\ndef Material "red"\n{\n}\ndef Material "blue"\n{\n}\n}\n'
    )
    two = load_mesh(path)
    assert two.names() == ("/shirt", "/copy/shirt")
    mesh = two.part("/shirt")
    assert set(np.round(mesh.corner_uv[mesh.faces == 1][:, 0], 6)) == {0.4, 0.6}
    assert mesh.details.polygons.tolist() == [0, 0, 1, 1]
    assert mesh.vertices_of("pin").tolist() == [4, 5]
    assert mesh.names("material") == ("red", "blue")
    assert mesh.labels["material"].index.tolist() == [0, 0, 1, 1]


def test_groups_without_a_name_and_names_with_spaces(tmp_path):
    path = tmp_path / "a.obj"
    path.write_text("v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\ng\nf 1 2 3\ng left sleeve\nf 1 3 4\n")
    mesh = load_mesh(path)
    assert mesh.names("group") == ("default", "left sleeve")
    assert len(mesh.part("left sleeve").faces) == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"corner_uv": np.zeros((2, 2))}, r"corner_uv must have the shape \(2, 3, 2\)"),
        ({"corner_uv": np.full((2, 3, 2), np.nan)}, "corner_uv has NaN or infinite numbers, first in triangle 0"),
        ({"attributes": {"w": np.zeros(3)}}, "attribute 'w' must have one row for each of the 4 vertices"),
        ({"attributes": {"w": [0, 0, np.inf, 0]}}, "attribute 'w' is NaN or infinite, first at vertex 2"),
        ({"labels": {"panel": ["front"]}}, "the label 'panel' must be one whole number for each of the 2 triangles"),
        ({"labels": {"panel": Labels(("a",), np.array([0, 1]))}}, "numbers for which there is no name"),
        ({"details": Details(polygons=np.zeros(3, int))}, "polygons must be one whole number"),
    ],
)
def test_details_that_do_not_fit_are_refused(given, message):
    square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    with pytest.raises(MeshError, match=message):
        TriMesh(square, [[0, 1, 2], [0, 2, 3]], **given)


def test_labels_are_given_as_texts():
    square = [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]
    mesh = TriMesh(square, [[0, 1, 2], [0, 2, 3]], labels={"panel": ["front", "back"]})
    assert mesh.names("panel") == ("front", "back")
    assert len(mesh.part("back").vertices) == 3


def test_an_npz_of_a_mesh_is_plain_arrays(tmp_path):
    mesh = seam_mesh(tmp_path)
    save_mesh(mesh, tmp_path / "a.npz")
    save_mesh(mesh, tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with np.load(tmp_path / "a.npz", allow_pickle=False) as arrays:
        assert json.loads(json.dumps(arrays["names.object"].tolist())) == ["left", "right"]


def test_one_object_without_texture_coordinates_leaves_those_of_the_others(tmp_path):
    (tmp_path / "two.obj").write_text(SEAM + "o plain\nv 0 0 1\nv 1 0 1\nv 1 1 1\nf 7 8 9\n")
    document = GlbWriter()
    points = [(0, 0, 0), (1, 0, 0), (1, 1, 0)]
    for name, attributes in (("left", {"TEXCOORD_0": document.array([(0, 1), (1, 1), (1, 0)])}), ("plain", {})):
        document.node(name=name, mesh=document.mesh(points, [(0, 1, 2)], attributes=attributes))
    document.save(tmp_path / "two.glb")
    for path in (tmp_path / "two.obj", tmp_path / "two.glb"):
        mesh = load_mesh(path)
        assert np.array_equal(mesh.corner_uv[0], mesh.part("left").corner_uv[0])
        assert not mesh.corner_uv[-1].any()
        assert load_mesh(path, object="left").corner_uv.any()
        # the part that has none is without any again
        assert mesh.part("plain").corner_uv is None
        assert load_mesh(path, object="plain").corner_uv is None
        assert "corner uv" in repr(mesh.details) and "objects left" in repr(mesh.details)

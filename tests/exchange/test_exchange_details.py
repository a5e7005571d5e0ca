"""Texture coordinates, polygons, names and attributes go from a mesh file through a run to every export."""

import json

import numpy as np
import pytest

import weft
from weft.cache import open_result
from weft.cli.info import describe_foreign, facts
from weft.exchange import export
from weft.mesh import TriMesh, load_mesh, save_mesh

# a sheet of quads, whose texture has a seam along x = 0 and whose halves have different materials
CELLS = 4


def sheet_file(path):
    points = [(x / CELLS - 0.5, 0.0, z / CELLS) for z in range(CELLS + 1) for x in range(CELLS + 1)]
    lines = ["o shirt", *(f"v {x} {y} {z}" for x, y, z in points)]
    # the left half lies in the left half of the texture, the right one in the right half, with a gap between
    texture = [(0.4 * (x / 2), z / CELLS) for z in range(CELLS + 1) for x in range(3)]
    texture += [(0.6 + 0.4 * (x / 2), z / CELLS) for z in range(CELLS + 1) for x in range(3)]
    lines += [f"vt {u} {v}" for u, v in texture]
    for half, material in enumerate(("red", "blue")):
        lines.append(f"usemtl {material}")
        for z in range(CELLS):
            for x in range(2):
                corners = []
                for dx, dz in ((0, 0), (0, 1), (1, 1), (1, 0)):
                    vertex = (z + dz) * (CELLS + 1) + 2 * half + x + dx
                    corners.append(f"{vertex + 1}/{15 * half + (z + dz) * 3 + x + dx + 1}")
                lines.append("f " + " ".join(corners))
    path.write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    folder = tmp_path_factory.mktemp("details")
    sheet_file(folder / "sheet.obj")
    mesh = load_mesh(folder / "sheet.obj")
    hem = (mesh.vertices[:, 2] > 0.9).astype(float)
    painted = TriMesh(mesh.vertices, mesh.faces, details=mesh.details, attributes={"hem": hem})
    cloth = weft.Cloth(name="shirt", mesh=painted, pins=weft.Pin(group="hem"))
    scene = weft.Scene(cloths=[cloth], frames=2, method="plain", check=0)
    return weft.simulate(scene, folder / "run.zarr", progress=False)


def corners(mesh, positions):
    """For each triangle its corners' vertices (by position) and texture coordinates, in whatever order."""
    nearest = np.linalg.norm(mesh.vertices[:, None] - positions[None], axis=2).argmin(axis=1)
    rows = np.concatenate([nearest[mesh.faces][:, :, None], mesh.corner_uv.round(5)], axis=2)
    return sorted(tuple(sorted(map(tuple, row.tolist()))) for row in rows)


def test_the_cache_keeps_the_details(cache):
    body = cache["shirt"]
    assert body.details.names("material") == ("red", "blue")
    assert body.details.polygons.max() + 1 == CELLS * CELLS
    assert body.mesh(-1).vertices_of("hem").tolist() == list(range(20, 25))
    # the pinned hem did not move, the rest fell
    moved = np.linalg.norm(body.positions(-1) - body.positions(0), axis=1)
    assert moved[20:].max() == 0.0 and moved[:20].min() > 0.0


@pytest.mark.parametrize("place", ["obj", "ply", "run.glb", "run.usda", "run.abc", "run.npz"])
def test_every_format_has_the_texture_with_its_seam(cache, tmp_path, place):
    if "usd" in place:
        pytest.importorskip("pxr")
    if "abc" in place:
        pytest.importorskip("alembic3d")
    format = place if "." not in place else None
    made = export(cache, tmp_path / place, format=format, frames=[2])
    mesh = load_mesh(made.paths[0])
    expected = cache["shirt"].mesh(2)
    assert corners(mesh, expected.vertices) == corners(expected, expected.vertices)
    assert len(mesh.vertices) == (CELLS + 1) ** 2
    if place in ("obj", "ply", "run.usda", "run.abc"):
        assert np.unique(mesh.details.polygons, return_counts=True)[1].tolist() == [2] * CELLS * CELLS
    if place in ("obj", "run.glb", "run.usda"):
        assert mesh.names("material") == ("red", "blue")
    if place == "run.usda":
        assert mesh.vertices_of("hem").tolist() == list(range(20, 25))


@pytest.mark.parametrize("place", ["obj", "run.glb", "run.usda", "run.abc"])
def test_an_object_keeps_its_texture_beside_objects_without_any(tmp_path, place):
    """Often the shirt alone has a texture: picking the shirt from the file and converting the file keep it."""
    if "usd" in place:
        pytest.importorskip("pxr")
    if "abc" in place:
        pytest.importorskip("alembic3d")
    sheet_file(tmp_path / "sheet.obj")
    cloth = weft.Cloth(name="shirt", mesh=load_mesh(tmp_path / "sheet.obj"))
    ball = weft.Collider(
        name="ball", shape=weft.Sphere(radius=0.1), placement=weft.Placement(position=(0.0, -0.5, 0.0))
    )
    scene = weft.Scene(cloths=[cloth], colliders=[ball], frames=2, method="plain", check=0)
    cache = weft.simulate(scene, tmp_path / "run.zarr", progress=False)
    made = export(cache, tmp_path / place, format=place if "." not in place else None, frames=[0, 1])
    expected = cache["shirt"].mesh(0)
    picked = load_mesh(made.paths[0], object="shirt")
    assert corners(picked, expected.vertices) == corners(expected, expected.vertices)
    assert load_mesh(made.paths[0], object="ball").corner_uv is None
    # the same through another program's file into another format
    result = open_result(made.paths[0] if "." in place else made.paths[0].parent)
    has = {body.name: result.details(body).corner_uv is not None for body in result.bodies}
    assert has == {"shirt": True, "ball": False}
    assert dict(describe_foreign(result))["uv"] == "yes: shirt"
    told = json.loads(json.dumps(facts(result)))
    shirt = told["bodies"][0]
    assert (shirt["name"], shirt["uv"], shirt["polygons"]) == ("shirt", True, 32 if "glb" in place else 16)
    assert set(shirt["materials"]) == {"red", "blue"}
    assert told["frames"] == 2 and told["format"] == result.about and len(told["extent"]["low"]) == 3
    again = load_mesh(export(result, tmp_path / "again.abc").paths[0], object="shirt") if "abc" in place else None
    assert again is None or corners(again, expected.vertices) == corners(expected, expected.vertices)


def test_materials_of_the_same_name_have_names_of_their_own_in_usd(tmp_path):
    usd_shade = pytest.importorskip("pxr.UsdShade")
    from pxr import Usd

    sheet_file(tmp_path / "sheet.obj")
    mesh = load_mesh(tmp_path / "sheet.obj")
    cloths = [
        weft.Cloth(name=name, mesh=mesh, colour=colour) for name, colour in (("a", "#ff0000"), ("red", "#0000ff"))
    ]
    cache = weft.simulate(
        weft.Scene(cloths=cloths, frames=1, method="plain", check=0), tmp_path / "run.zarr", progress=False
    )
    stage = Usd.Stage.Open(str(export(cache, tmp_path / "run.usda").paths[0]))
    bound = {}
    for path in ("/World/a", "/World/a/red", "/World/a/blue", "/World/red", "/World/red/red", "/World/red/blue"):
        material = usd_shade.MaterialBindingAPI(stage.GetPrimAtPath(path)).ComputeBoundMaterial()[0]
        surface = usd_shade.Shader(stage.GetPrimAtPath(f"{material.GetPath()}/Surface"))
        bound[path] = material.GetPrim().GetName(), tuple(surface.GetInput("diffuseColor").Get())
    assert len({name for name, _ in bound.values()}) == 6
    assert [colour for _, colour in bound.values()] == 3 * [(1.0, 0.0, 0.0)] + 3 * [(0.0, 0.0, 1.0)]


def test_usd_with_another_name_of_its_uv_map_is_read(tmp_path):
    """Programs that keep the names of UV maps write `UVMap` or `map1` instead of `st`."""
    pytest.importorskip("pxr")
    (tmp_path / "quad.usda").write_text("""#usda 1.0
def Mesh "quad" {
    int[] faceVertexCounts = [4]
    int[] faceVertexIndices = [0, 1, 2, 3]
    point3f[] points = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    texCoord2f[] primvars:map1 = [(0, 0), (0.5, 0), (0.5, 0.25), (0, 0.25)] (interpolation = "faceVarying")
}
""")
    mesh = load_mesh(tmp_path / "quad.usda")
    assert mesh.corner_uv.reshape(-1, 2).max(axis=0).tolist() == [0.5, 0.25]


def test_obj_has_quads(cache, tmp_path):
    made = export(cache, tmp_path / "seq", format="obj", frames=[0])
    faces = [line.split()[1:] for line in made.paths[0].read_text().splitlines() if line.startswith("f ")]
    assert [len(face) for face in faces] == [4] * CELLS * CELLS


def test_glb_shades_smoothly_across_the_seam_of_the_texture(cache, tmp_path):
    import trimesh

    made = export(cache, tmp_path / "run.glb", frames=[2])
    parts = trimesh.load(made.paths[0]).geometry.values()
    normals = {}
    for part in parts:
        for point, normal in zip(part.vertices.round(6).tolist(), part.vertex_normals.round(4).tolist(), strict=True):
            normals.setdefault(tuple(point), set()).add(tuple(normal))
    assert len(normals) == (CELLS + 1) ** 2
    assert all(len(found) == 1 for found in normals.values())


def test_subdivision_keeps_texture_and_names(cache, tmp_path):
    fine = weft.subdivide(cache, tmp_path / "fine.zarr", levels=1)
    mesh = fine["shirt"].mesh(0)
    coarse = cache["shirt"].mesh(0)
    assert len(mesh.faces) == 4 * len(coarse.faces)
    assert mesh.names("material") == ("red", "blue")
    # left of the seam u is 0.4 + 0.4 x in metres, right of it 0.6 + 0.4 x; the rule of the surface moves no middle here
    x = mesh.vertices[mesh.faces][:, :, 0]
    left = (mesh.labels["material"].index == 0)[:, None]
    inner = np.abs(x) < 0.3
    assert np.allclose(mesh.corner_uv[:, :, 0][inner], np.where(left, 0.4 + 0.8 * x, 0.6 + 0.8 * x)[inner])


def test_a_damaged_file_of_details_is_named(cache, tmp_path):
    import shutil

    shutil.copytree(cache.path, tmp_path / "broken.zarr")
    path = tmp_path / "broken.zarr" / "weft" / "details" / "0.npz"
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 0xFF
    path.write_bytes(bytes(data))
    broken = weft.open_cache(tmp_path / "broken.zarr")
    assert any("details" in line and "damaged" in line for line in broken.verify())
    with pytest.raises(weft.WeftError, match=r"0\.npz is damaged"):
        export(broken, tmp_path / "out", format="obj")


def test_a_mesh_file_of_its_own_keeps_details_too(cache, tmp_path):
    save_mesh(cache["shirt"].mesh(1), tmp_path / "one.npz")
    again = load_mesh(tmp_path / "one.npz")
    assert again == cache["shirt"].mesh(1)

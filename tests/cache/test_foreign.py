"""Results of other programs as caches: the same exact counts, whatever the format."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from weft.cache import Body, Cache, CacheWriter, ForeignResult, open_result
from weft.check import check_cache
from weft.cli.main import app
from weft.errors import CacheError, WeftError
from weft.exchange import export
from weft.mesh import save_mesh, shapes

FRAMES = 4


def write_crossing(path) -> Cache:
    """Two sheets, and a ball that one of them sinks into; from frame 2 on the sheets cross."""
    lower, upper = shapes.grid((1.0, 1.0), (4, 4)), shapes.grid((0.9, 0.9), (3, 3))
    ball = shapes.icosphere(0.2, subdivisions=1)
    meshes = (("lower", "cloth", lower), ("upper", "cloth", upper), ("ball", "collider", ball))
    bodies, faces, v, f = [], [], 0, 0
    for name, kind, mesh in meshes:
        bodies.append(Body(name, kind, slice(v, v + len(mesh.vertices)), slice(f, f + len(mesh.faces))))
        faces.append(mesh.faces + v)
        v, f = v + len(mesh.vertices), f + len(mesh.faces)
    with CacheWriter.create(path, frames=FRAMES, faces=np.concatenate(faces), bodies=bodies, fps=25.0) as writer:
        for frame in range(FRAMES):
            y = upper.vertices + (0.013, 0.5 - 0.25 * frame, 0.007)
            if frame >= 2:
                # slanted, so that it passes through the lower one
                y[:, 1] = 0.31 * y[:, 0] + 0.011
            x = np.concatenate([lower.vertices, y, ball.vertices - (0.0, 1.0, 0.0)])
            writer.append(x, np.zeros_like(x), {"frame": frame, "status": "ok"})
    return Cache(path)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_crossing(tmp_path_factory.mktemp("foreign") / "run.zarr")


@pytest.fixture(scope="module")
def counts(cache):
    found = [frame.intersections for frame in check_cache(cache).frames]
    assert found[:2] == [0, 0] and min(found[2:]) > 0
    return found


FORMATS = {
    "run.abc": "Alembic",
    "run.usdc": "USD: 1 m a unit, y up, 25 time codes a second",
    "run.glb": "glTF: metres, y up; sampled 25 times a second",
    "run.npz": "npz",
    "arrays": "npy: arrays that weft exported, metres, y up, 25 frames a second",
    "objs": "OBJ files",
    "plys": "PLY files",
}


def exported(cache, folder, name):
    for package, ending in (("alembic3d", ".abc"), ("pxr", ".usdc")):
        if name.endswith(ending):
            pytest.importorskip(package)
    export(cache, folder / name, format={"objs": "obj", "plys": "ply", "arrays": "npy"}.get(name))
    return folder / name


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_counts(cache, counts, tmp_path, name):
    result = open_result(exported(cache, tmp_path, name))
    assert isinstance(result, ForeignResult) and result.about.startswith(FORMATS[name])
    checked = check_cache(result)
    assert [frame.intersections for frame in checked.frames] == counts
    if name != "plys":
        assert [body.name for body in result.bodies] == ["lower", "upper", "ball"]
        assert checked.frames[2].bodies == check_cache(cache).frames[2].bodies
    assert result.fps == pytest.approx(24.0 if name in ("objs", "plys") else 25.0)


def test_point_caches_take_the_mesh_beside_them(cache, tmp_path):
    for kind in ("pc2", "mdd"):
        export(cache, tmp_path / kind, format=kind)
        result = open_result(tmp_path / kind / f"upper.{kind}", fps=25.0)
        x = result.positions(-1)
        np.testing.assert_array_equal(x, cache.positions(-1)[cache.bodies[1].vertices].astype(np.float32))
        assert check_cache(result).clean and result.frames == FRAMES
    (tmp_path / "mdd" / "upper.obj").unlink()
    with pytest.raises(WeftError, match=r"put the mesh that it moves beside it, as upper\.obj"):
        open_result(tmp_path / "mdd" / "upper.mdd")


def test_a_folder_with_one_result_is_that_result(cache, counts, tmp_path):
    """Not the still mesh beside a point cache, which has no intersections in any frame."""
    export(cache, tmp_path / "one", format="pc2", bodies=["upper"])
    assert open_result(tmp_path / "one", fps=25.0).frames == FRAMES
    export(cache, tmp_path / "all", format="mdd")
    with pytest.raises(WeftError, match=r"several point caches, one for each body: name one of ball\.mdd, lower\.mdd"):
        open_result(tmp_path / "all")
    arrays = exported(cache, tmp_path, "arrays")
    assert [f.intersections for f in check_cache(open_result(arrays / "vertices.npy")).frames] == counts
    (arrays / "faces.npy").write_bytes(b"none")
    with pytest.raises(WeftError, match="cannot be read as arrays that weft exported"):
        open_result(arrays)
    (arrays / "cache.json").write_text("{}")
    export(cache, tmp_path / "again", format="npy")
    (arrays / "faces.npy").write_bytes((tmp_path / "again" / "faces.npy").read_bytes())
    with pytest.raises(WeftError, match=r"cache\.json: it does not say which bodies there are"):
        open_result(arrays)


def test_arrays_of_other_names(cache, counts, tmp_path):
    x = np.stack([cache.positions(f) for f in range(FRAMES)])
    np.savez(tmp_path / "a.npz", positions=x, triangles=cache.faces)
    result = open_result(tmp_path / "a.npz")
    # without names it is one cloth: its own intersections are all there are
    assert [frame.intersections for frame in check_cache(result).frames] == counts
    np.savez(tmp_path / "b.npz", q=x)
    with pytest.raises(WeftError, match=r"it needs positions \(vertices, .*its arrays are q$"):
        open_result(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", positions=x[..., :2], triangles=cache.faces)
    with pytest.raises(WeftError, match="must be numbers"):
        open_result(tmp_path / "c.npz")
    np.savez(tmp_path / "d.npz", positions=x, triangles=cache.faces + 1000)
    with pytest.raises(WeftError, match="vertices that do not exist"):
        open_result(tmp_path / "d.npz")


def test_a_collider_is_not_checked_against_itself(cache, tmp_path):
    path = exported(cache, tmp_path, "objs")
    both = open_result(path, colliders=["lower", "upper"])
    assert check_cache(both).clean
    with pytest.raises(WeftError, match="has no object 'shirt'; it has lower, upper, ball"):
        open_result(path, colliders=["shirt"])


def test_the_commands(cache, counts, tmp_path):
    path = exported(cache, tmp_path, "objs")
    files = sorted(str(p) for p in path.iterdir())
    call = lambda *words: CliRunner().invoke(app, [*words])  # noqa: E731
    for words in (files, [str(path)], [f"{path}/*.obj"]):
        done = call("check", *words, "--json")
        assert done.exit_code == 1
        told = json.loads(done.output)
        assert told["format"].startswith("OBJ files: without units")
        assert [frame["intersections"] for frame in told["frames"]] == counts
    done = call("check", str(path))
    assert "taken as metres" in done.output and "4 frames of lower, upper, ball" in done.output
    done = call("check", files[0])
    assert done.exit_code == 0 and "a still mesh: without units, taken as metres, y up" in done.output
    done = call("info", str(path))
    assert done.exit_code == 0 and "OBJ files" in done.output and "upper: 16 vertices" in done.output
    # from one format to another
    done = call("export", str(path), "-o", str(tmp_path / "again.npz"))
    assert done.exit_code == 0, done.output
    again = open_result(tmp_path / "again.npz")
    np.testing.assert_allclose(again.positions(3), cache.positions(3), atol=1e-8)
    done = call("check", files[0], "--repair")
    assert done.exit_code == 1 and "--repair is for caches" in done.output


def test_what_cannot_be_opened_is_one_line(tmp_path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.npz").write_bytes(b"no zip")
    cases = {
        "a.npz": r"cannot be read as an npz file \(it is no zip archive\)",
        "nowhere.abc": "does not exist",
        "*.obj": "there is no such file",
        "a.txt": "weft reads caches",
    }
    for name, message in cases.items():
        with pytest.raises(WeftError, match=message) as told:
            open_result(tmp_path / name)
        assert "\n" not in str(told.value)
    with pytest.raises(CacheError, match="several files are a sequence of OBJ or PLY"):
        open_result([tmp_path / "a.txt", tmp_path / "a.txt"])


def test_a_still_file_says_its_unit_and_axis(tmp_path):
    (tmp_path / "z.usda").write_text(
        """#usda 1.0
(
    metersPerUnit = 0.01
    upAxis = "Z"
)
def Mesh "sheet"
{
    int[] faceVertexCounts = [3]
    int[] faceVertexIndices = [0, 1, 2]
    point3f[] points = [(0, 0, 0), (100, 0, 0), (0, 100, 0)]
}
"""
    )
    found = open_result(tmp_path / "z.usda")
    assert found.about == "USDA, a still mesh: 0.01 m a unit, z up"
    assert np.allclose(found.positions(0)[2], [0.0, 0.0, -1.0])
    save_mesh(shapes.grid((1.0, 1.0), (1, 1)), tmp_path / "sheet.ply")
    assert open_result(tmp_path / "sheet.ply").about == "PLY, a still mesh: without units, taken as metres, y up"
    (tmp_path / "cape.toml").write_text("frames = 1")
    with pytest.raises(WeftError, match=r"a scene, which has no frames yet: simulate it with  weft run .*cape\.toml"):
        open_result(tmp_path / "cape.toml")

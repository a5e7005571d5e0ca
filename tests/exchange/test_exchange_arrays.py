"""Point caches and NumPy: the same numbers back, and one sentence for what is not right."""

import json

import numpy as np
import pytest
from exchange_caches import FPS, FRAMES, close_sheets, positions_at, write_cache
from typer.testing import CliRunner

from weft.cli.main import app
from weft.errors import WeftError
from weft.exchange import export, read_pc2
from weft.mesh import load_mesh
from weft.mesh.sequences import read_sequence


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_cache(tmp_path_factory.mktemp("caches") / "run.zarr")


def test_pc2(cache, tmp_path):
    made = export(cache, tmp_path / "pc2", format="pc2")
    assert [p.name for p in made.paths] == [
        "sheet.obj",
        "sheet.pc2",
        "a_box.obj",
        "a_box.pc2",
        "floor.obj",
        "floor.pc2",
    ]
    for body, name in zip(cache.bodies, ("sheet", "a_box", "floor"), strict=True):
        samples = read_pc2(tmp_path / "pc2" / f"{name}.pc2")
        assert samples.shape == (FRAMES, body.vertices.stop - body.vertices.start, 3)
        for frame in range(FRAMES):
            np.testing.assert_array_equal(samples[frame], positions_at(frame)[body.vertices].astype(np.float32))
        mesh = load_mesh(tmp_path / "pc2" / f"{name}.obj")
        np.testing.assert_array_equal(mesh.faces, cache.faces[body.faces] - body.vertices.start)
    head = (tmp_path / "pc2" / "sheet.pc2").read_bytes()[:32]
    assert head[:12] == b"POINTCACHE2\0"
    assert np.frombuffer(head, "<i4", 2, 12).tolist() == [1, 42]
    assert np.frombuffer(head, "<f4", 2, 20).tolist() == [0.0, 1.0]
    assert np.frombuffer(head, "<i4", 1, 28).tolist() == [FRAMES]


def test_pc2_rounding_is_told(tmp_path):
    assert list(export(close_sheets(tmp_path / "n.zarr", 1e-9), tmp_path / "near", format="pc2").rounding) == [0]
    assert export(close_sheets(tmp_path / "f.zarr", 1e-3), tmp_path / "far", format="pc2").rounding == {}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is no PC2 file"),
        (b"POINTCACHE1\0" + bytes(20), "is no PC2 file"),
        (b"POINTCACHE2\0" + bytes(20), "of another version"),
        (b"POINTCACHE2\0" + np.array([1, 3], "<i4").tobytes() + bytes(8) + np.array([2], "<i4").tobytes(), "cut short"),
        (b"POINTCACHE2\0" + np.array([1, -3], "<i4").tobytes() + bytes(12), "is damaged"),
    ],
)
def test_bad_pc2(tmp_path, content, words):
    (tmp_path / "bad.pc2").write_bytes(content)
    with pytest.raises(WeftError, match=words):
        read_pc2(tmp_path / "bad.pc2")


def test_npz_keeps_every_bit_and_weft_reads_it(cache, tmp_path):
    export(cache, tmp_path / "run.npz", frames=[1, 4])
    with np.load(tmp_path / "run.npz", allow_pickle=False) as arrays:
        np.testing.assert_array_equal(arrays["vertices"], [cache.positions(1), cache.positions(4)])
        np.testing.assert_array_equal(arrays["velocities"], [cache.velocities(1), cache.velocities(4)])
        np.testing.assert_array_equal(arrays["faces"], cache.faces)
        np.testing.assert_array_equal(arrays["uv"], cache.uv)
        assert arrays["frames"].tolist() == [1, 4] and float(arrays["fps"]) == FPS
        assert arrays["body_names"].tolist() == ["sheet", "a box", "floor"]
        assert arrays["body_kinds"].tolist() == ["cloth", "collider", "collider"]
        assert arrays["body_vertices"].tolist() == [[b.vertices.start, b.vertices.stop] for b in cache.bodies]
        assert arrays["body_faces"].tolist() == [[b.faces.start, b.faces.stop] for b in cache.bodies]
    moving = read_sequence(tmp_path / "run.npz", fps=FPS)
    np.testing.assert_array_equal(moving.vertices(1), cache.positions(4))


def test_npy_can_be_mapped(cache, tmp_path):
    export(cache, tmp_path / "run", bodies=["a box", "floor"], format="npy")
    vertices = np.load(tmp_path / "run" / "vertices.npy", mmap_mode="r")
    assert isinstance(vertices, np.memmap) and vertices.shape == (FRAMES, 12, 3)
    first = cache.bodies[1].vertices.start
    np.testing.assert_array_equal(vertices[3], cache.positions(3)[first:])
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "faces.npy"), cache.faces[60:] - first)
    told = json.loads((tmp_path / "run" / "cache.json").read_text())
    assert told["body_names"] == ["a box", "floor"] and told["body_vertices"] == [[0, 8], [8, 12]]
    assert told["fps"] == FPS and told["frames"] == list(range(FRAMES))
    assert not (tmp_path / "run" / "uv.npy").exists()


@pytest.mark.parametrize(
    ("format", "place"), [("pc2", "folder"), ("npy", "folder"), ("npz", "a.npz"), ("obj", "folder")]
)
def test_nothing_half_written_is_seen_and_nothing_is_lost(cache, tmp_path, format, place):
    class Broken:
        bodies, faces, uv, frames, fps = cache.bodies, cache.faces, cache.uv, FRAMES, FPS
        velocities = staticmethod(cache.velocities)

        def __getitem__(self, name):
            return cache[name]

        def positions(self, frame):
            if frame == 2:
                raise WeftError("frame 2 is damaged")
            return cache.positions(frame)

    with pytest.raises(WeftError, match="frame 2 is damaged"):
        export(Broken(), tmp_path / place, format=format)
    assert list(tmp_path.iterdir()) == []
    export(cache, tmp_path / place, format=format)
    with pytest.raises(WeftError, match=r"--overwrite"):
        export(cache, tmp_path / place, format=format)
    export(cache, tmp_path / place, overwrite=True, format=format)
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match=r"cannot write|is a file"):
        export(cache, tmp_path / "file" / place, format=format)


def test_bodies_whose_names_are_alike_get_files_of_their_own(tmp_path):
    from weft.cache import Body, CacheWriter

    names = ["a/b", "a b", "A_B", "..", ""]
    bodies = [Body(n, "cloth", slice(3 * i, 3 * i + 3), slice(i, i + 1)) for i, n in enumerate(names)]
    x = np.random.default_rng(0).normal(size=(15, 3))
    with CacheWriter.create(
        tmp_path / "n.zarr", frames=1, faces=np.arange(15).reshape(-1, 3), bodies=bodies, fps=1.0
    ) as writer:
        writer.append(x, x, {})
    made = export(writer.cache, tmp_path / "out", format="pc2")
    assert len({p.name.lower() for p in made.paths}) == 10
    assert all(p.parent == tmp_path / "out" and p.exists() for p in made.paths)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--format", "glb"], "run.glb"),
        (["--format", "usd"], "run.usdc"),
        (["-o", "deep/x.usda"], "deep/x.usda"),
        (["-o", "x.npz"], "x.npz"),
        (["--format", "npz", "-o", "x"], "x.npz"),
        (["--format", "pc2"], "run/sheet.pc2"),
        (["--format", "npy", "-o", "arrays"], "arrays/vertices.npy"),
        ([], "run/run_0000.obj"),
        (["--format", "ply", "-o", "seq.v2"], "seq.v2/seq.v2_0000.ply"),
    ],
)
def test_the_command(cache, tmp_path, monkeypatch, options, expected):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(app, ["export", str(cache.path), *options])
    assert result.exit_code == 0, result.output
    assert (tmp_path / expected).is_file()
    assert expected.split("/")[0] in result.output


def test_the_command_tells_of_rounding(tmp_path):
    close_sheets(tmp_path / "near.zarr", 1e-9)
    result = CliRunner().invoke(app, ["export", str(tmp_path / "near.zarr"), "-o", str(tmp_path / "near.glb")])
    assert result.exit_code == 0
    assert "weft: warning:" in result.stderr and "first frame 0; npz and ply keep 64 bits" in result.stderr
    options = ["-o", str(tmp_path / "blind.glb"), "--no-check"]
    assert "warning" not in CliRunner().invoke(app, ["export", str(tmp_path / "near.zarr"), *options]).stderr


def test_unknown_formats(cache, tmp_path):
    with pytest.raises(WeftError, match="format 'fbx' is not known: use one of usd, glb, abc, pc2, mdd"):
        export(cache, tmp_path / "a.fbx", format="fbx")

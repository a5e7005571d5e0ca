"""Mesh sequences: the same numbers back, whole or not at all."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from weft.cache import Body, CacheWriter
from weft.errors import CacheError, WeftError
from weft.exchange import export
from weft.exchange.formats import choose_format
from weft.exchange.sequence import FileBody, to_obj, to_ply
from weft.mesh import load_mesh, shapes


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A sheet with flat coordinates and a ball without, three frames."""
    sheet, ball = shapes.grid((1.0, 1.0), (4, 3)), shapes.icosphere(0.2, subdivisions=1)
    count = len(sheet.vertices)
    bodies = [
        Body("sheet", "cloth", slice(0, count), slice(0, len(sheet.faces))),
        Body(
            "big ball",
            "collider",
            slice(count, count + len(ball.vertices)),
            slice(len(sheet.faces), len(sheet.faces) + len(ball.faces)),
        ),
    ]
    faces = np.concatenate([sheet.faces, ball.faces + count])
    uv = np.concatenate([sheet.uv, np.full((len(ball.vertices), 2), np.nan)])
    x = np.concatenate([sheet.vertices, ball.vertices])
    path = tmp_path_factory.mktemp("caches") / "run.zarr"
    with CacheWriter.create(path, frames=3, faces=faces, bodies=bodies, fps=24.0, uv=uv) as writer:
        for frame in range(3):
            moved = x + np.random.default_rng(frame).normal(scale=0.05, size=x.shape)
            writer.append(moved, np.zeros_like(x), {"status": "ok"})
    from weft.cache import open_cache

    return open_cache(path)


@pytest.mark.parametrize("kind", ["obj", "ply"])
@pytest.mark.parametrize("name", ["sheet", "big ball"])
def test_one_body_comes_back(cache, tmp_path, kind, name):
    paths = export(cache, tmp_path / "seq", format=kind, bodies=[name]).paths
    assert [p.name for p in paths] == [f"seq_{f:04d}.{kind}" for f in range(3)]
    body = next(b for b in cache.bodies if b.name == name)
    for frame, path in enumerate(paths):
        mesh = load_mesh(path)
        exact = cache.positions(frame)[body.vertices]
        np.testing.assert_allclose(mesh.vertices, exact, rtol=0.0 if kind == "ply" else 1e-8, atol=0.0)
        np.testing.assert_array_equal(mesh.faces, cache.faces[body.faces] - body.vertices.start)
    if name == "sheet":
        np.testing.assert_allclose(mesh.uv, cache.uv[body.vertices], atol=1e-6)


@pytest.mark.parametrize("kind", ["obj", "ply"])
def test_all_bodies_come_back_together(cache, tmp_path, kind):
    paths = export(cache, tmp_path / "seq", format=kind, frames=[2]).paths
    assert [p.name for p in paths] == [f"seq_0002.{kind}"]
    mesh = load_mesh(paths[0])
    np.testing.assert_allclose(mesh.vertices, cache.positions(2), rtol=1e-8)
    np.testing.assert_array_equal(mesh.faces, cache.faces)


def test_obj_keeps_the_bodies_apart(cache, tmp_path):
    (path,) = export(cache, tmp_path / "seq", frames=[0]).paths
    lines = path.read_text().splitlines()
    assert [line for line in lines if line.startswith("o ")] == ["o sheet", "o big_ball"]
    # the sheet has texture coordinates, the ball has none
    faces = [line for line in lines if line.startswith("f ")]
    assert ["/" in line for line in faces] == [True] * 24 + [False] * (len(faces) - 24)


def test_texture_coordinates_are_counted_apart_from_vertices():
    triangle = np.array([[0, 1, 2]], np.int32)
    x = np.arange(18.0).reshape(6, 3)
    uv = np.array([[0, 0], [1, 0], [0, 1]])
    text = to_obj(x, [FileBody("a", slice(0, 3), triangle), FileBody("b", slice(3, 6), triangle, flat=uv)]).decode()
    assert "f 1 2 3\n" in text
    assert "f 4/1 5/2 6/3\n" in text


def test_texture_coordinates_of_all_bodies_before_count():
    uv = np.arange(24.0).reshape(4, 3, 2)
    bodies = [
        FileBody(name, slice(3 * k, 3 * k + 3), np.arange(3)[None], flat=None if name == "b" else uv[k])
        for k, name in enumerate("abcd")
    ]
    lines = to_obj(np.zeros((12, 3)), bodies).decode().splitlines()
    faces = [line for line in lines if line.startswith("f ")]
    assert faces == ["f 1/1 2/2 3/3", "f 4 5 6", "f 7/4 8/5 9/6", "f 10/7 11/8 12/9"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(*[st.floats(-1e6, 1e6)] * 3), min_size=3, max_size=9))
def test_ply_keeps_every_bit(points):
    x = np.array(points)
    content = to_ply(x, [FileBody("a", slice(0, len(x)), np.array([[0, 1, 2]], np.int32))])
    body = content.split(b"end_header\n", 1)[1]
    np.testing.assert_array_equal(np.frombuffer(body, "<f8", x.size).reshape(-1, 3), x)


def test_many_frames_have_names_that_sort(cache, tmp_path):
    class Long:
        bodies, faces, uv, frames = cache.bodies, cache.faces, cache.uv, 20_000

        def __getitem__(self, name):
            return cache[name]

        def positions(self, frame):
            return cache.positions(frame % 3)

    paths = export(Long(), tmp_path / "seq", frames=[7, 12_345]).paths
    assert [p.name for p in paths] == ["seq_00007.obj", "seq_12345.obj"]


def test_a_failure_leaves_nothing_behind(cache, tmp_path):
    class Broken:
        bodies, faces, uv, frames = cache.bodies, cache.faces, cache.uv, 3

        def __getitem__(self, name):
            return cache[name]

        def positions(self, frame):
            if frame == 2:
                raise CacheError("frame 2 is damaged")
            return cache.positions(frame)

    with pytest.raises(CacheError, match="frame 2 is damaged"):
        export(Broken(), tmp_path / "seq")
    assert list(tmp_path.iterdir()) == []


def test_a_full_folder_is_refused_and_overwriting_spares_other_files(cache, tmp_path):
    folder = tmp_path / "seq"
    export(cache, folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "seq_extra.obj").write_text("mine too")
    with pytest.raises(WeftError, match="is not empty: choose another folder, or say --overwrite"):
        export(cache, folder)
    export(cache, folder, frames=[1], overwrite=True)
    assert sorted(p.name for p in folder.iterdir()) == ["notes.txt", "seq_0001.obj", "seq_extra.obj"]
    assert [p.name for p in tmp_path.iterdir()] == ["seq"]


def test_an_empty_folder_is_used(cache, tmp_path):
    (tmp_path / "seq").mkdir()
    assert len(export(cache, tmp_path / "seq").paths) == 3


def test_mistakes_are_sentences(cache, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(WeftError, match="file is a file: give a folder"):
        export(cache, tmp_path / "file")
    with pytest.raises(WeftError, match="cannot write"):
        export(cache, tmp_path / "file" / "seq")
    with pytest.raises(WeftError, match="format 'fbx' is not known: use one of usd"):
        export(cache, tmp_path / "seq", format="fbx")
    with pytest.raises(WeftError, match="no body 'hat': the cache has sheet, big ball"):
        export(cache, tmp_path / "seq", bodies=["sheet", "hat"])
    with pytest.raises(WeftError, match="no frames left in this choice"):
        export(cache, tmp_path / "seq", frames=[])
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_progress_is_told(cache, tmp_path):
    seen = []
    export(cache, tmp_path / "seq", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_relative_folders_work(cache, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    paths = export(cache, "deep/er/seq", frames=[0]).paths
    assert paths == [Path("deep/er/seq/seq_0000.obj")]
    assert paths[0].exists()


def test_the_ending_says_the_format():
    assert choose_format(None, "a/run.USDC") == "usd"
    assert choose_format(None, "run.glb") == "glb"
    assert choose_format(None, "frames") == choose_format(None, None) == "obj"
    assert choose_format("ply", "frames.v2") == "ply"
    with pytest.raises(
        WeftError, match=r"^run\.fbx: no format has files that end in \.fbx: use one of \.usdc, .*npy\)$"
    ):
        choose_format(None, "run.fbx")


def test_a_cache_can_be_named_by_its_path(cache, tmp_path):
    made = weft.export(str(cache.path), tmp_path / "frames", format="ply", frames=[2])
    assert [path.name for path in made.paths] == [path.name for path in (tmp_path / "frames").iterdir()]

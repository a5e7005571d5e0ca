"""`weft untangle` as a user calls it."""

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft.cache import Body, CacheWriter
from weft.cli.main import app
from weft.mesh import TriMesh, load_mesh, save_mesh, shapes


def call(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(a) for a in arguments])
    assert result.exit_code == code, result.output
    return result


def hill_through_sheet() -> tuple[TriMesh, np.ndarray]:
    """A hilly sheet through a flat one, and both apart."""
    grid = shapes.grid((1.0, 1.0), (14, 14))
    hilly = np.array(grid.vertices) + [0.0031, -0.05, 0.0017]
    hilly[:, 1] += 0.1 * np.exp(-(hilly[:, 0] ** 2 + hilly[:, 2] ** 2) / 0.03)
    vertices = np.concatenate([grid.vertices, hilly])
    flat = np.concatenate([grid.uv, grid.uv + [2.0, 0.0]])
    mesh = TriMesh(vertices, np.concatenate([grid.faces, grid.faces + len(grid.vertices)]), flat)
    return mesh, np.concatenate([grid.vertices, grid.vertices + [0.0, 1.0, 0.0]])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mesh, rest = hill_through_sheet()
    save_mesh(mesh, "tangled.obj")
    save_mesh(mesh.with_vertices(rest), "flat.ply")
    assert len(weft.intersections(mesh.vertices, mesh.faces)) > 10
    return mesh


def test_a_mesh_file(folder):
    result = call("untangle", "tangled.obj", "-o", "free.obj")
    free = load_mesh("free.obj")
    assert len(weft.intersections(free.vertices, free.faces)) == 0
    assert np.array_equal(free.faces, folder.faces) and np.allclose(free.uv, folder.uv)
    expected = weft.untangle(folder.vertices, folder.faces)
    assert np.array_equal(free.vertices, expected.vertices)
    # a line a round, then what it came to
    lines = result.stdout.splitlines()
    assert lines[1].replace("┃", " ").split() == [
        "round", "intersections", "paths", "closed", "open", "loop",
    ]  # fmt: skip
    for now in expected.rounds:
        assert any(line.split("│")[1:3] and f" {now.intersections} " in line for line in lines)
    assert expected.describe() in result.stdout
    assert lines[-1] == "free: free.obj"


@pytest.mark.parametrize("options", [("--rest", "flat.ply"), ("--uv",)])
def test_with_a_shape_at_rest(folder, options):
    call("untangle", "tangled.obj", "-o", "free.ply", *options)
    free = load_mesh("free.ply")
    assert np.allclose(free.vertices, weft.untangle(folder.vertices, folder.faces, uv=folder.uv).vertices, atol=1e-9)


def test_what_remains_is_said_and_the_best_is_written(folder):
    result = call("untangle", "tangled.obj", "-o", "free.obj", "--rounds", "0", code=1)
    left = len(weft.intersections(folder.vertices, folder.faces))
    assert f"{left} intersections remain; best: free.obj" in result.stdout
    assert np.array_equal(load_mesh("free.obj").vertices, folder.vertices)


def test_a_frame_of_a_cache(folder):
    ball = shapes.icosphere(0.3, subdivisions=1)
    half = len(folder.vertices) // 2
    count = len(folder.vertices)
    bodies = [
        Body("ball", "collider", slice(0, len(ball.vertices)), slice(0, len(ball.faces))),
        Body(
            "two sheets", "cloth", slice(len(ball.vertices), len(ball.vertices) + count), slice(len(ball.faces), None)
        ),
    ]
    bodies[1] = Body(
        "two sheets", "cloth", bodies[1].vertices, slice(len(ball.faces), len(ball.faces) + len(folder.faces))
    )
    faces = np.concatenate([ball.faces, folder.faces + len(ball.vertices)])
    apart = np.array(folder.vertices)
    apart[half:, 1] -= 1.0
    frames = [np.concatenate([ball.vertices, x]) for x in (apart, folder.vertices)]
    with CacheWriter.create("run.zarr", frames=2, faces=faces, bodies=bodies, fps=30.0) as writer:
        for x in frames:
            writer.append(x, np.zeros_like(x), {}, {})
    # the last frame; the ball is left out
    call("untangle", "run.zarr", "-o", "free.obj")
    free = load_mesh("free.obj")
    assert np.array_equal(free.faces, folder.faces)
    assert len(weft.intersections(free.vertices, free.faces)) == 0
    assert np.abs(free.vertices - folder.vertices).max() < 0.2
    # a frame that was free already
    result = call("untangle", "run.zarr", "-o", "first.obj", "--frame", "0")
    assert "nothing was tangled" in result.stdout
    assert np.array_equal(load_mesh("first.obj").vertices, apart)
    assert "has 2 complete frames" in call("untangle", "run.zarr", "-o", "x.obj", "--frame", "2", code=1).stderr
    assert "not every cloth" in call("untangle", "run.zarr", "-o", "x.obj", "--uv", code=1).stderr
    assert "is a cache" in call("untangle", "run.zarr", "-o", "x.obj", "--repair", code=1).stderr


def test_seams_from_a_file(folder):
    # sew everything that crosses: then nothing is tangled
    rows = weft.intersections(folder.vertices, folder.faces)
    pairs = {(int(a), int(b)) for p, q, f in rows for a in (p, q) for b in folder.faces[f]}
    np.savez("seams.npz", stitch_vertices=np.array([(a, b, b) for a, b in sorted(pairs)]))
    result = call("untangle", "tangled.obj", "-o", "free.obj", "--seams", "seams.npz")
    assert "nothing was tangled" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("missing.obj", "-o", "free.obj"), "missing.obj: no such file"),
        (("tangled.obj", "-o", "free.stl"), "--out free.stl: weft writes meshes to .obj, .ply, .npz files"),
        (("tangled.obj", "-o", "tangled.obj"), "tangled.obj exists already: choose another name, or replace it with"),
        (("tangled.obj", "-o", "free.obj", "--frame", "1"), "--frame 1: tangled.obj is no cache"),
        (("tangled.obj", "-o", "free.obj", "--rest", "small.obj"), "--rest small.obj has 9 vertices"),
        (("tangled.obj", "-o", "free.obj", "--rest", "flat.ply", "--uv"), "give --rest or --uv, not both"),
        (("plain.ply", "-o", "free.obj", "--uv"), "--uv: plain.ply has no uv"),
        (("tangled.obj", "-o", "free.obj", "--seams", "none.npz"), "none.npz"),
    ],
)
def test_mistakes_are_one_line(folder, arguments, message):
    save_mesh(shapes.grid((1.0, 1.0), (2, 2)), "small.obj")
    ball = shapes.icosphere(0.3, subdivisions=1)
    save_mesh(TriMesh(ball.vertices, ball.faces), "plain.ply")
    result = call("untangle", *arguments, code=1)
    assert message in result.stderr and len(result.stderr.strip().splitlines()) == 1
    assert not Path("free.obj").exists()


def test_a_mesh_can_be_replaced_by_the_free_one(folder):
    call("untangle", "tangled.obj", "-o", "tangled.obj", "--overwrite")
    free = load_mesh("tangled.obj")
    assert len(weft.intersections(free.vertices, free.faces)) == 0


def test_rest_of_a_broken_mesh_is_no_trouble(folder):
    """Only the positions of the rest mesh are read: it need not be a good mesh."""
    Path("points.obj").write_text(
        "".join(f"v {a} {b} {c}\n" for a, b, c in load_mesh("flat.ply").vertices.tolist())
        + "f 1 2 3\nf 1 2 4\nf 1 2 5\n"
    )
    call("untangle", "tangled.obj", "-o", "free.obj", "--rest", "points.obj")

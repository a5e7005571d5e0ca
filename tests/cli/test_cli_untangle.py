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
    assert np.array_equal(free.faces, folder.faces) and free.names() == ("two sheets",)
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


def named(mesh: TriMesh) -> TriMesh:
    """The flat sheet and the hilly one as objects."""
    half = len(mesh.faces) // 2
    weight = np.linspace(0.0, 1.0, len(mesh.vertices))
    labels = {"object": ["flat"] * half + ["hilly"] * half}
    return TriMesh(mesh.vertices, mesh.faces, mesh.uv, labels=labels, attributes={"weight": weight})


def test_a_collider(folder):
    ball = shapes.icosphere(0.3, subdivisions=2)
    save_mesh(ball, "ball.obj")
    grid = shapes.grid((1.0, 1.0), (14, 14))
    save_mesh(grid.with_vertices(grid.vertices + [0.0031, 0.2, 0.0017]), "sheet.obj")
    result = call("untangle", "sheet.obj", "-o", "free.obj", "--collider", "ball.obj")
    assert result.stdout.splitlines()[-1] == "free: free.obj"
    free = load_mesh("free.obj")
    faces = np.concatenate([free.faces, ball.faces + len(free.vertices)])
    assert len(weft.intersections(np.concatenate([free.vertices, ball.vertices]), faces)) == 0
    # several, and what is left is said for each
    arguments = ("--collider", "far.obj", "--collider", "ball.obj", "--rounds", "0")
    save_mesh(ball.with_vertices(ball.vertices + 9.0), "far.obj")
    result = call("untangle", "sheet.obj", "-o", "stuck.obj", *arguments, code=1)
    start = load_mesh("sheet.obj")
    left = weft.intersections(np.concatenate([start.vertices, ball.vertices]), faces)
    assert f"  {len(left)} with ball.obj, the first near (" in result.stdout and "far.obj" not in result.stdout


@pytest.mark.parametrize(("layers", "above"), [("flat,hilly", "hilly"), ("hilly,flat", "flat")])
def test_layers_by_name(folder, layers, above):
    save_mesh(named(folder), "named.obj")
    call("untangle", "named.obj", "-o", "free.obj", "--layers", layers)
    free = load_mesh("free.obj")
    heights = {name: part.vertices[:, 1] for name, part in free.parts().items()}
    below = next(name for name in heights if name != above)
    middle = np.hypot(*folder.vertices[: len(folder.vertices) // 2, [0, 2]].T) < 0.3
    assert (heights[above][middle] > heights[below][middle]).all()


def test_names_uv_attributes_and_quads_are_kept(folder):
    mesh = named(folder)
    for ending in (".obj", ".npz", ".ply"):
        save_mesh(mesh, f"named{ending}")
        read = load_mesh(f"named{ending}")
        call("untangle", f"named{ending}", "-o", f"kept{ending}")
        kept = load_mesh(f"kept{ending}")
        assert not np.array_equal(kept.vertices, read.vertices)
        assert kept.with_vertices(read.vertices) == read.with_vertices(read.vertices)
    assert "weight" in kept.attributes and load_mesh("kept.obj").names() == ("flat", "hilly")
    # a quad with texture coordinates of its own, and a triangle through it
    Path("quad.obj").write_text(
        "o quad\nv 0 0 0\nv 1 0 0\nv 1 0 1\nv 0 0 1\nvt 0 0\nvt 1 0\nvt 1 1\nvt 0 1\nf 1/1 4/4 3/3 2/2\n"
        "o patch\nv 0.7 -0.1 0.2\nv 0.7 0.3 0.2\nv 0.8 0.3 0.25\nf 5/1 6/2 7/3\n"
    )
    call("untangle", "quad.obj", "-o", "quads.obj")
    text = Path("quads.obj").read_text()
    assert [len(line.split()) - 1 for line in text.splitlines() if line.startswith("f ")] == [4, 3]
    assert np.array_equal(load_mesh("quads.obj").corner_uv, load_mesh("quad.obj").corner_uv)


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
        (("tangled.obj", "-o", "free.obj", "--collider", "body.obj"), "body.obj: no such file"),
        (("named.obj", "-o", "free.obj", "--layers", "flat,coat"), "--layers flat,coat: the mesh has no group 'coat'"),
        (("named.obj", "-o", "free.obj", "--layers", "flat"), "one layer has no order"),
    ],
)
def test_mistakes_are_one_line(folder, arguments, message):
    save_mesh(shapes.grid((1.0, 1.0), (2, 2)), "small.obj")
    save_mesh(named(folder), "named.obj")
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

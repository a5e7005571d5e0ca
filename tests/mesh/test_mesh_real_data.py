"""The real dress and the real dancing body pass, whole and shell by shell."""

from pathlib import Path

import numpy as np
import pytest

from weft.mesh import TriMesh, load_mesh, repair_mesh, save_mesh, subdivide

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def data(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def test_dress():
    mesh = load_mesh(data("dress.npz"), array="draped")
    assert (len(mesh.vertices), len(mesh.faces)) == (15656, 29456)
    # 14 panels, each a disc
    assert mesh.components.max() + 1 == len(mesh.boundary_loops) == 14
    assert len(mesh.vertices) - len(mesh.edges) + len(mesh.faces) == 14
    # draped, the cloth is not stretched far from its pattern
    strain = mesh.edge_lengths / mesh.rest_lengths - 1.0
    assert np.percentile(np.abs(strain), 90) < 0.15


def test_dress_survives_files_and_subdivision(tmp_path):
    mesh = load_mesh(data("dress.npz"), array="draped")
    for suffix in ("obj", "ply"):
        save_mesh(mesh, tmp_path / f"dress.{suffix}")
        again = load_mesh(tmp_path / f"dress.{suffix}")
        assert np.array_equal(again.vertices, mesh.vertices)
        assert np.array_equal(again.uv, mesh.uv)
        assert np.array_equal(again.faces, mesh.faces)
    finer = subdivide.loop(mesh)
    assert len(finer.faces) == 4 * len(mesh.faces)
    assert len(finer.boundary_loops) == 14


def test_body():
    mesh = load_mesh(data("rumba_body.npz"))
    assert (len(mesh.vertices), len(mesh.faces)) == (12811, 25472)
    assert mesh.components.max() + 1 == 8
    assert len(mesh.boundary_loops) == 3
    # all holes are in the main shell
    assert {int(mesh.components[loop[0]]) for loop in mesh.boundary_loops} == {0}


def test_each_shell_of_the_body_and_each_frame():
    with np.load(data("rumba_body.npz")) as arrays:
        frames, faces = arrays["vertices"], arrays["faces"]
    whole = TriMesh(frames[0], faces)
    for shell in range(8):
        members = np.flatnonzero(whole.components == shell)
        number = np.full(len(whole.vertices), -1)
        number[members] = np.arange(len(members))
        own = faces[whole.components[faces[:, 0]] == shell]
        mesh = TriMesh(frames[0][members], number[own])
        assert mesh.closed == (shell != 0)
    for frame in frames[::40]:
        assert repair_mesh(frame, faces).sentences == []

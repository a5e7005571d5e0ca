"""Cloth that starts somewhere else than where it rests: `start`, in Python, in files, with pins, and with every method."""

import numpy as np
import pytest

import weft
from weft.errors import SceneError
from weft.world import World

GRID = weft.mesh.shapes.grid((0.4, 0.4), (8, 8))
# rolled to a quarter of a tube: the same lengths along it
ANGLE = np.pi / 2 * (GRID.vertices[:, 0] / 0.4 + 0.5)
RADIUS = 0.4 / (np.pi / 2)
ROLLED = np.column_stack([RADIUS * np.sin(ANGLE), 0.5 + RADIUS * np.cos(ANGLE), GRID.vertices[:, 2]])


def scene(method="robust", start=(ROLLED, GRID.faces), **changes):
    cloth = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.4, 0.4), cells=(8, 8)),
        start=start,
        pins=[weft.Pin(boundary="top_left"), weft.Pin(indices=[80], motion=weft.Spin(axis=(0, 1, 0), rate_deg=180.0))],
        **changes,
    )
    return weft.Scene(name="rolled", cloths=[cloth], frames=3, fps=60, method=method)


@pytest.mark.parametrize("method", ["robust", "guarded", "untangle", "predictive", "boxes", "push", "plain"])
def test_it_starts_there_and_rests_where_it_would(method):
    sim = weft.Simulation(scene(method))
    assert np.array_equal(sim.positions, ROLLED)
    # lengths at rest are those of the flat sheet: no edge is pulled apart by starting somewhere else
    sim.advance()
    assert sim.report["stretch"] < 0.05
    # pins hold from where the cloth starts, and their motions begin there
    corner = int(np.flatnonzero(World(scene(method)).kinematics.fixed(81, 0.0))[0])
    assert np.allclose(sim.positions[corner], ROLLED[corner], atol=1e-9)
    assert np.linalg.norm(sim.positions[80] - ROLLED[80]) < 0.03 and sim.positions[80, 1] == pytest.approx(
        ROLLED[80, 1]
    )


def test_it_is_saved_beside_the_scene_and_a_run_of_it_resumes(tmp_path):
    weft.save_scene(scene(), tmp_path / "rolled.toml")
    assert 'start = "rolled.sheet.start.npz"' in (tmp_path / "rolled.toml").read_text()
    read = weft.load_scene(tmp_path / "rolled.toml")
    assert np.array_equal(World(read).start_positions, ROLLED)
    whole = weft.simulate(read, tmp_path / "a.zarr", progress=False)
    weft.simulate(scene(), tmp_path / "b.zarr", frames=1, progress=False)
    resumed = weft.simulate(scene(), tmp_path / "b.zarr", resume=True, progress=False)
    assert np.array_equal(whole.positions(-1), resumed.positions(-1))
    # the arrays of a scene are kept in its cache
    assert np.array_equal(World(resumed.scene).start_positions, ROLLED)


def test_mistakes_name_the_key(tmp_path):
    small = weft.mesh.shapes.grid((0.4, 0.4), (2, 2))
    cases = [
        (small, r"cloths\[0\]\.start: has 9 vertices, and 'sheet' has 81"),
        ("nowhere.obj", r"cloths\[0\]\.start: no such file: nowhere\.obj"),
        (3, "Cloth: start: a mesh is a TriMesh"),
    ]
    for start, message in cases:
        with pytest.raises(SceneError, match=message):
            World(scene(start=start))

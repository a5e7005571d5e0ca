"""Options of `predictive` that few scenes use: contacts that are cached in a pose, and the reach of attachments."""

import numpy as np
import pytest

import weft
from weft.methods.base import make_method
from weft.world import World


def sheets(folder, **options):
    """Two sheets, one 20 cm over the other, without gravity."""
    cloths = [
        weft.Cloth(name=name, shape=weft.Grid(size=(0.1, 0.1), cells=(4, 4)), placement={"position": (0.0, y, 0.0)})
        for name, y in (("lower", 0.0), ("upper", 0.2))
    ]
    method = weft.Predictive(cache=True, **options)
    return weft.Scene(cloths=cloths, forces=weft.Forces(gravity=(0.0, 0.0, 0.0)), fps=30, method=method).at(folder)


def cached(scene):
    """How many cached contacts the first frame solves."""
    world = World(scene, "cpu")
    return make_method(world, scene.method).advance_frame(world.initial_state())["cached"]


def test_contacts_are_those_of_the_pose(tmp_path):
    """In the pose the sheets lie on each other; where they start nothing is near."""
    x = World(sheets(tmp_path), "cpu").initial_state().positions()
    x[x[:, 1] > 0.1, 1] = 0.002
    np.savez(tmp_path / "pose.npz", positions=x)
    assert cached(sheets(tmp_path)) == 0
    assert cached(sheets(tmp_path, cache_pose="pose.npz")) > 20


@pytest.mark.parametrize(
    ("arrays", "said"),
    [
        ({"points": np.zeros((50, 3))}, "pose.npz has no array 'positions'"),
        ({"positions": np.zeros((7, 3))}, "positions of shape (7, 3), and the cloths have 50 vertices"),
        ({"positions": np.full((50, 3), np.nan)}, "pose.npz holds positions that are not finite"),
    ],
)
def test_a_pose_that_does_not_fit_is_refused(tmp_path, arrays, said):
    np.savez(tmp_path / "pose.npz", **arrays)
    with pytest.raises(weft.WeftError) as error:
        cached(sheets(tmp_path, cache_pose="pose.npz"))
    assert said in str(error.value) and "\n" not in str(error.value)


def test_a_pose_that_is_no_npz_file_is_refused(tmp_path):
    (tmp_path / "pose.npz").write_text("positions")
    with pytest.raises(weft.WeftError, match=r"pose\.npz cannot be read as an npz file"):
        cached(sheets(tmp_path, cache_pose="pose.npz"))


@pytest.mark.parametrize(("reach", "least", "most"), [(1.02, 1.0, 1.03), (1.5, 1.1, 1.5)])
def test_attachments_let_cloth_go_as_far_as_the_scene_says(reach, least, most):
    """A strip so soft that it hangs far below where it ends at rest."""
    strip = weft.Cloth(
        shape=weft.Grid(size=(0.05, 0.5), cells=(1, 10)),
        placement={"rotation_deg": (90, 0, 0)},
        material=weft.Material(density=0.2, stretch=4.0, shear=2.0, bend=1e-6),
        pins=[weft.Pin(boundary="top")],
    )
    scene = weft.Scene(cloths=[strip], fps=30, method=weft.Predictive(attachment_reach=reach))
    world = World(scene, "cpu")
    method, state = make_method(world, scene.method), world.initial_state()
    for _ in range(30):
        method.advance_frame(state)
    x = state.positions()
    assert least < np.ptp(x[:, 1]) / 0.5 < most

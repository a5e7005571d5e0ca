"""Steps that are divided: what moves through them, and what they are for."""

import numpy as np
import pytest

import weft
from weft.methods.predictive.plan import refined_substeps
from weft.methods.predictive.solver import MOST_FRACTIONS, MOST_SHARES, fractions_for, poses_between
from weft.scene import Predictive


def pose(axis, angle, place):
    k = np.cross(np.eye(3), np.asarray(axis) / np.linalg.norm(axis))
    found = np.eye(4)
    found[:3, :3] = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k
    found[:3, 3] = place
    return found


def test_poses_go_steadily_from_start_to_end():
    rng = np.random.default_rng(0)
    start = np.array([pose(rng.normal(size=3), rng.uniform(-3, 3), rng.normal(size=3)) for _ in range(5)])
    turns = np.array([pose(rng.normal(size=3), angle, rng.normal(size=3)) for angle in (0.0, 0.1, -1.0, 2.0, 3.0)])
    end = turns @ start
    centres = rng.normal(size=(5, 3))

    def poses_at(share):
        return poses_between(start, end, centres, share)

    np.testing.assert_allclose(poses_at(0.0), start, atol=1e-12)
    np.testing.assert_allclose(poses_at(1.0), end, atol=1e-12)
    thirds = [poses_at(k / 3) for k in range(4)]
    first, second = (b[:, :3, :3] @ np.swapaxes(a[:, :3, :3], 1, 2) for a, b in (thirds[:2], thirds[1:3]))
    np.testing.assert_allclose(first, second, atol=1e-12)
    places = [np.einsum("kij,kj->ki", p[:, :3, :3], centres) + p[:, :3, 3] for p in thirds]
    np.testing.assert_allclose(places[2] - places[1], places[1] - places[0], atol=1e-12)


def test_few_steps_need_many_parts():
    assert [fractions_for(distance) for distance in (0.0, 0.9, 1.5, 2.5, 1000.0)] == [
        1,
        1,
        2,
        3,
        MOST_FRACTIONS,
    ]


def towel(speed, **options):
    """A towel held along one side, next to a ball that turns; the rest of it flies off."""
    return weft.Realtime(
        weft.Scene(
            fps=30,
            cloths=[
                weft.Cloth(
                    name="towel",
                    shape=weft.Grid(size=(0.4, 0.4), cells=(10, 10)),
                    pins=[weft.Pin(boundary="left", motion=weft.Spin(axis=(0, 0, 1), rate_deg=90.0))],
                    velocity=(0.0, speed, 0.0),
                )
            ],
            colliders=[
                weft.Collider(
                    name="ball",
                    shape=weft.Sphere(radius=0.1),
                    analytic=True,
                    placement=weft.Placement(position=(0.0, -0.3, 0.0)),
                    motion=weft.Spin(axis=(0, 1, 0), rate_deg=180.0),
                )
            ],
            method=Predictive(**options),
        )
    )


def test_long_steps_and_fast_bodies_need_parts():
    solver = towel(0.0).solver
    assert [solver._least_fractions(dt) for dt in (1.0 / 60.0, 1.0 / 24.0, 1.0 / 20.0, 1.0 / 8.0)] == [1, 1, 2, 3]
    assert solver._least_fractions(10.0) == MOST_SHARES


@pytest.mark.parametrize("speed", [0.0, 30.0])
def test_pins_and_colliders_end_where_they_would(speed):
    cloth = towel(speed)
    parts = []
    inner = cloth.solver.division.advance
    cloth.solver.division.advance = lambda number, *rest: (parts.append(number), inner(number, *rest))
    substeps = int(cloth.solver.settings["substeps"][0])
    for _ in range(3):
        cloth.step(1 / 30)
        np.testing.assert_allclose(cloth.positions[cloth.held], cloth.targets[cloth.held], atol=1e-12)
        expected = cloth.solver.colliders.poses_at(cloth.time)
        np.testing.assert_allclose(cloth.solver.colliders.start.numpy(), expected, atol=1e-12)
        np.testing.assert_allclose(cloth.poses["ball"], expected[0], atol=1e-12)
        assert cloth.solver.settings["substeps"][0] == substeps
    assert bool(parts) == (speed > 0.0)
    assert np.isfinite(cloth.positions).all()


def test_more_substeps_where_cloth_is_stretched():
    assert [refined_substeps(3, 9, stretch) for stretch in (-0.1, 0.4, 0.8, 1.6, 50.0)] == [3, 3, 6, 9, 9]
    assert refined_substeps(3, None, 5.0) == 3
    assert refined_substeps(20, 9, 5.0) == 20
    # a towel that is pulled to twice its length swings less: its most stretched edge is much shorter after a step
    longest = []
    for most in (None, 12):
        cloth = towel(0.0, substeps=2, most_substeps=most)
        mesh = cloth.world.cloths[0].mesh
        cloth.positions[:, 0] = cloth.positions[0, 0] + 2.0 * (cloth.positions[:, 0] - cloth.positions[0, 0])
        cloth.velocities[:] = 0.0
        cloth.step(1 / 30)
        a, b = cloth.positions[mesh.edges].transpose(1, 0, 2)
        longest.append((np.linalg.norm(a - b, axis=1) / mesh.rest_lengths).max())
        assert cloth.solver.settings["substeps"][0] == 2
    assert longest[1] < 0.7 * longest[0]

"""Wind: forces on triangles, gusts that repeat, nothing from still air."""

import numpy as np
import pytest
import warp as wp

from weft.dynamics.air import AIR_DENSITY, Air
from weft.scene import Forces, Wind

TRIANGLE = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 2.0], [1.0, 0.0, 0.0]])  # area 1, normal +y
FACES = np.array([[0, 1, 2]], np.int32)


def force(wind, x=TRIANGLE, v=None, time=0.0, seed=0):
    air = Air(Forces(wind=wind), FACES, 3, seed=seed)
    v = np.zeros((3, 3)) if v is None else v
    air.blow(*(wp.array(a, dtype=wp.vec3d, device="cpu") for a in (x, v)), time)
    return 3.0 * air.force.numpy()[0]


def test_square_on_wind_drags_along_the_wind():
    up = Wind(velocity=(0.0, 4.0, 0.0), drag=1.2, lift=0.5)
    assert np.allclose(force(up), [0.0, 0.5 * AIR_DENSITY * 1.2 * 16.0, 0.0])
    down = Wind(velocity=(0.0, -4.0, 0.0), drag=1.2, lift=0.5)
    assert np.allclose(force(down), -force(up))


def test_wind_along_the_cloth_does_nothing():
    assert np.allclose(force(Wind(velocity=(3.0, 0.0, 1.0))), 0.0)


def test_lift_is_at_right_angles_to_the_wind():
    slanted = (3.0, 1.0, 0.0)
    with_lift = force(Wind(velocity=slanted, drag=0.0, lift=1.0))
    assert abs(np.dot(with_lift, slanted)) < 1e-12
    assert with_lift[1] > 0.0


def test_only_the_relative_velocity_counts():
    moving = np.tile([1.0, 2.0, 0.5], (3, 1))
    still = force(Wind(velocity=(1.0, 1.0, 0.0)))
    shifted = force(Wind(velocity=(2.0, 3.0, 0.5)), v=moving)
    assert np.allclose(still, shifted)


def test_gusts_repeat_with_the_seed_and_change_with_it():
    wind = Wind(velocity=(1.0, 3.0, 0.0), gust=0.8)
    times = np.linspace(0.0, 10.0, 60)
    first, again, other = ([force(wind, time=t, seed=s) for t in times] for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.allclose(first, other)
    strength = np.linalg.norm(first, axis=1)
    steady = np.linalg.norm(force(Wind(velocity=(1.0, 3.0, 0.0))))
    assert strength.min() < 0.8 * steady and strength.max() > 1.3 * steady


@pytest.mark.parametrize("dt", [1e-3, 0.05, 1.0, 100.0])
def test_any_step_only_brings_light_cloth_nearer_to_the_wind(dt):
    """Held for a step, the force never makes the cloth overtake the wind."""
    mass = 0.02
    air = Air(Forces(wind=Wind(velocity=(0.0, 14.0, 0.0))), FACES, 3, face_mass=np.array([mass]))
    air.blow(*(wp.array(a, dtype=wp.vec3d, device="cpu") for a in (TRIANGLE, np.zeros((3, 3)))), 0.0, dt)
    gained = 3.0 * air.force.numpy()[0, 1] * dt / mass
    assert 0.0 < gained < 14.0
    small = 0.5 * AIR_DENSITY * 14.0**2 * dt / mass
    assert gained <= small and (dt > 1e-3 or gained > 0.4 * small)


@pytest.mark.parametrize("velocity", [(0.0, 0.0, 0.0), (0.0, 2.0, 0.0)])
def test_degenerate_triangles_and_no_wind_give_finite_forces(velocity):
    flat = np.zeros((3, 3))
    assert np.allclose(force(Wind(velocity=velocity, gust=0.5), x=flat), 0.0)

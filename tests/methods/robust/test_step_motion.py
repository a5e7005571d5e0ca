"""Positions and velocities within a step: free flight, average velocity, and what contacts change of it."""

import numpy as np

import weft
from weft.methods.robust.step_motion import StepMotion
from weft.world import World

DT = 0.01


def test_the_end_velocity_changes_by_as_much_as_contacts_change_the_average_velocity():
    cloth = weft.Cloth(shape=weft.Grid(cells=(3, 3)), pins=[weft.Pin(boundary="top_left")])
    world = World(weft.Scene(cloths=[cloth]))
    motion, state = StepMotion(world), world.initial_state()
    random = np.random.default_rng(0)
    start, v, proposed, v_end, change = random.normal(size=(5, world.vertex_count, 3))
    state.x.assign(start)
    state.v.assign(v)
    world.begin_step(state, DT)

    motion.fly_freely(state, DT)
    free = world.inverse_mass.numpy() > 0.0
    gravity = np.array(world.scene.forces.gravity)
    assert np.allclose(motion.expected.numpy()[free], (start + DT * (v + DT * gravity))[free])
    assert np.allclose(motion.expected.numpy()[~free], world.target.numpy()[~free]) and (~free).sum() == 1

    motion.proposed.assign(proposed)
    motion.v_end.assign(v_end)
    motion.average(state, DT)
    average = motion.v.numpy().copy()
    assert np.allclose(average, (proposed - start) / DT)
    motion.note_free_velocity()
    motion.v.assign(average + change)
    motion.carry_velocity(state, DT)
    assert np.allclose(state.positions(), proposed + DT * change)
    assert np.allclose(state.velocities(), v_end + change)

"""Candidates that are measured before it is known how many they are, as a card does: the same contacts, with one wait."""

import numpy as np
import pytest

import weft
from weft.methods import make_method
from weft.world import World


def drape(*, ahead, capacity=512, broad_phase="bvh"):
    """Positions of two sheets that fall onto a ball, contacts and collisions on the way, and how often looking ahead did."""
    sheets = [
        weft.Cloth(
            name=f"sheet {k}",
            shape=weft.Grid(size=(0.6, 0.6), cells=(19, 19)),
            placement={"position": (0.0, 0.22 + 0.01 * k, 0.0), "rotation_deg": (0.0, 20.0 * k, 0.0)},
        )
        for k in range(2)
    ]
    ball = weft.Collider(name="ball", shape=weft.Sphere(radius=0.2))
    scene = weft.Scene(name="drape", cloths=sheets, colliders=[ball], method="robust", broad_phase=broad_phase)
    world = World(scene, "cpu")
    method, state = make_method(world, scene.method), world.initial_state()
    search = method.search
    search.ahead = ahead
    lists = search.broad_phase
    for one in (lists._rows, lists._vertex_triangle, lists._edge_edge, lists._triangle_vertex):
        one.capacity = capacity
    look, left = search._look_ahead, []
    search._look_ahead = lambda x, end: left.append(look(x, end)) or left[-1]
    reports = [method.advance_frame(state) for _ in range(15)]
    found = [(report["contacts"], report["collisions"]) for report in reports]
    return state.positions(), found, sum(one is None for one in left), len(left)


@pytest.mark.parametrize("broad_phase", ["bvh", "topology_tree"])
def test_looking_ahead_changes_nothing(broad_phase):
    plain, found, *_ = drape(ahead=False, broad_phase=broad_phase)
    ahead, found_too, did, steps = drape(ahead=True, broad_phase=broad_phase)
    assert found == found_too and sum(contacts for contacts, _ in found) > 1000
    np.testing.assert_array_equal(plain, ahead)
    # lists grow in some steps, and have room in others
    assert 0.25 * steps < did < steps


def test_lists_without_room_are_searched_again():
    plain, found, *_ = drape(ahead=False, capacity=4)
    ahead, found_too, did, _ = drape(ahead=True, capacity=4)
    assert did == 0 and found == found_too
    np.testing.assert_array_equal(plain, ahead)

"""Contacts and their forces: who touches whom, grippers that hold cloth, and the weight that they carry."""

import numpy as np
import pytest

import weft
from weft.errors import WeftError
from weft.run.simulation import compile_scene

GRAVITY = 9.81
BOX = (0.12, 0.05, 0.02)


def gripper(friction=0.5, method="robust"):
    """A sheet of 20 x 20 cm that hangs upright between two boxes at its upper edge."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.2, 0.2), cells=(10, 10)),
        placement=weft.Placement(rotation_deg=(90, 0, 0)),
        material=weft.Material(friction=friction, friction_kinetic=friction, density=0.2),
    )
    boxes = [
        weft.Collider(
            name=name,
            shape=weft.Box(size=BOX),
            friction=friction,
            friction_kinetic=friction,
            placement=weft.Placement(position=(0.0, 0.07, side * 0.0125)),
        )
        for name, side in (("front", 1.0), ("back", -1.0))
    ]
    return weft.Scene(fps=60, method=method, thickness=0.002, cloths=[sheet], colliders=boxes)


def close(sim, gap):
    """Move the boxes to this distance of each other, in one frame, before the sheet has fallen far."""
    for name, side in (("front", 1.0), ("back", -1.0)):
        pose = sim.bodies[name].pose.copy()
        pose[2, 3] = side * (0.5 * BOX[2] + 0.5 * gap)
        sim.bodies[name].pose = pose
    sim.advance()


def lift(sim, frames, height):
    """Raise the boxes by this height in so many frames."""
    for name in ("front", "back"):
        pose = sim.bodies[name].pose.copy()
        pose[1, 3] += height
        sim.bodies[name].pose = pose
    sim.advance(frames)


def weight_of(sim):
    return GRAVITY * sim.world.mass[: sim.world.cloth_vertex_count].sum()


def test_a_gripper_lifts_cloth_without_slip_and_its_forces_sum_to_the_weight():
    sim = weft.Simulation(gripper())
    close(sim, 0.0038)
    sim.advance(4)
    held = np.argmin(np.abs(sim.positions - [0.0, 0.07, 0.0]).sum(axis=1))
    offset = sim.positions[held, 1] - sim.bodies["front"].pose_now()[1, 3]
    lift(sim, 30, 0.05)
    sim.advance(30)
    found = []
    sim.on_step(lambda s: found.append([s.contact_forces(name).force for name in ("front", "back", "sheet")]))
    sim.advance(10)
    front, back, sheet = np.mean(found, axis=0)
    weight = weight_of(sim)
    assert sheet[1] == pytest.approx(weight, rel=0.02)
    assert np.allclose(front + back, [0.0, -weight, 0.0], atol=0.02 * weight)
    # each step's forces, not only their mean
    assert np.abs(np.array(found)[:, 2, 1] - weight).max() < 0.02 * weight
    # by Coulomb the two boxes can hold 2 mu N, which is more than the weight: nothing slips
    assert front[2] == pytest.approx(-back[2], abs=0.02 * weight) and 2 * 0.5 * front[2] > weight
    assert sim.positions[held, 1] - sim.bodies["front"].pose_now()[1, 3] == pytest.approx(offset, abs=5e-4)
    assert sim.report["status"] == "ok"


def test_without_friction_it_slips():
    sim = weft.Simulation(gripper(friction=0.0))
    close(sim, 0.0038)
    sim.advance(4)
    before = sim.positions[:, 1].mean()
    lift(sim, 20, 0.02)
    assert sim.positions[:, 1].mean() < before - 0.1


@pytest.mark.parametrize(("pressing", "holds"), [(1.4, True), (0.6, False)])
def test_fingers_that_press_with_a_force_hold_as_much_as_coulomb_says(pressing, holds):
    friction = 0.5
    sim = weft.Simulation(gripper(friction))
    weight, gap = weight_of(sim), 0.0038
    close(sim, gap)
    height = []
    for _ in range(130):
        # a finger that is pressed too hard gives way, by at most 20 micrometres a frame
        forces = [abs(sim.contact_forces(name).force[2]) for name in ("front", "back")]
        gap += np.clip(5e-6 * (np.mean(forces) / weight - pressing), -2e-5, 2e-5)
        close(sim, gap)
        height.append(sim.positions[:, 1].mean())
    # two fingers hold up to 2 mu N
    assert (2 * friction * pressing > 1.0) == holds
    if holds:
        assert np.mean(forces) == pytest.approx(pressing * weight, rel=0.1)
        assert height[60] - height[-1] < 5e-4
    else:
        assert height[0] - height[-1] > 0.2


def test_contacts_say_who_touches_whom_and_where():
    sim = weft.Simulation(gripper())
    close(sim, 0.0038)
    sim.advance(10)
    contacts = sim.contacts
    assert {*contacts.first, *contacts.second} == {"sheet", "front", "back"}
    fronts = contacts.between("front", "sheet")
    assert 0 < len(fronts) < len(contacts)
    assert np.allclose(np.abs(fronts.normals[:, 2]), 1.0, atol=1e-2) and (fronts.gaps < 0.0023).all()
    assert (fronts.points[:, 1] > 0.04).all() and (np.abs(fronts.points[:, 0]) < 0.07).all()
    # a row, rows, and all of them in a few words
    one = fronts[0]
    assert {one.first, one.second} == {"sheet", "front"} and one.gap == fronts.gaps[0] and len(fronts[:3]) == 3
    assert len(contacts[contacts.gaps < 0.0021]) == (contacts.gaps < 0.0021).sum() and len(list(fronts)) == len(fronts)
    assert f"{len(fronts)} of front with sheet" in repr(contacts) and "forces known" in repr(contacts)
    assert repr(contacts[:0]) == "<Contacts: none; forces known>"
    # repulsion: on the sheet, away from the box
    on_sheet = np.where(fronts.first == "sheet", 1.0, -1.0)[:, None] * fronts.forces
    assert (on_sheet[:, 2] <= 1e-12).all() and on_sheet[:, 2].sum() < 0.0


def test_the_torque_is_that_of_the_forces_about_the_pose():
    sim = weft.Simulation(gripper())
    close(sim, 0.0038)
    sim.advance(20)
    found = sim.contact_forces("back")
    assert np.array_equal(found.about, sim.bodies["back"].pose_now()[:3, 3])
    assert np.allclose(found.torque, np.cross(found.points - found.about, found.forces).sum(axis=0))
    assert f"N m, of {len(found.forces)} contacts>" in repr(found) and len(repr(found)) < 120
    with pytest.raises(WeftError, match="about a point, three finite numbers"):
        sim.contact_forces("back", about=(0.0, 1.0))
    moved = sim.contact_forces("back", about=found.about + [0.0, 1.0, 0.0])
    assert np.allclose(moved.torque, found.torque - np.cross([0.0, 1.0, 0.0], found.force))
    assert set(found.others) == {"sheet"} and found.normal_force >= np.linalg.norm(found.force)
    # the cloth hangs on the side of the boxes that face each other
    assert np.allclose(found.points[:, 2], -0.0019, atol=2e-4)


@pytest.mark.parametrize("dynamics", ["position_based", "mass_spring", "implicit"])
def test_cloth_that_lies_presses_with_its_weight(dynamics):
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.1, 0.1), cells=(4, 4)),
        material=weft.Material(stretch=20.0, damping=0.02),
        placement=weft.Placement(position=(0.0, 0.002, 0.0)),
    )
    table = weft.Collider(
        name="table", shape=weft.Box(size=(0.3, 0.1, 0.3)), placement=weft.Placement(position=(0, -0.05, 0))
    )
    method = weft.methods.Robust(dynamics=dynamics)
    sim = weft.Simulation(weft.Scene(method=method, thickness=0.002, cloths=[sheet], colliders=[table]))
    sim.advance(30)
    forces = []
    sim.on_step(lambda s: forces.append(s.contact_forces("table").force))
    sim.advance(10)
    assert np.allclose(np.mean(forces, axis=0), [0.0, -weight_of(sim), 0.0], atol=0.02 * weight_of(sim))


def test_noting_forces_changes_no_bytes():
    one, other = weft.Simulation(gripper()), weft.Simulation.compiled(gripper(), *compile_scene(gripper()))
    for sim in (one, other):
        close(sim, 0.0037)
        sim.advance(5)
    assert np.array_equal(one.state.positions(), other.state.positions())


def test_a_method_that_knows_no_forces_says_so_and_still_finds_contacts():
    sim = weft.Simulation(gripper(method="untangle"))
    close(sim, 0.0038)
    sim.advance(3)
    assert len(sim.contacts) > 0 and sim.contacts.forces is None
    with pytest.raises(
        WeftError, match=r"untangle does not know the forces of its contacts.*robust and guarded know them"
    ):
        sim.contact_forces("front")


def test_forces_need_a_step():
    sim = weft.Simulation(gripper())
    with pytest.raises(WeftError, match="take a step first"):
        sim.contact_forces("front")
    with pytest.raises(WeftError, match="did you mean 'front'"):
        sim.contact_forces("frnt")


@pytest.mark.parametrize("method", ["plain", "robust", "guarded", "untangle", "predictive", "boxes", "push"])
@pytest.mark.parametrize("shape", [weft.Sphere(radius=0.15), weft.Box(size=(0.5, 0.3, 0.5))])
def test_cloth_that_lies_touches_with_every_method(method, shape):
    """By the distance that the method keeps: push has one of its own, predictive keeps farther from what is round."""
    sheet = weft.Cloth(
        name="sheet",
        shape=weft.Grid(size=(0.3, 0.3), cells=(10, 10)),
        placement=weft.Placement(position=(0.0, 0.006, 0.0)),
    )
    body = weft.Collider(name="body", shape=shape, placement=weft.Placement(position=(0.0, -0.15, 0.0)))
    sim = weft.Simulation(weft.Scene(method=method, thickness=0.002, cloths=[sheet], colliders=[body]))
    sim.advance(1 if method == "plain" else 25)
    contacts = sim.contacts.between("sheet", "body")
    if method == "plain":
        # nothing stops it, it has just begun to fall
        assert len(contacts) == 0
        return
    assert len(contacts) > 20 and (np.abs(contacts.normals[:, 1]) > 0.5).any()
    height = contacts.points[:, 1]
    assert height.max() < 0.02 and (contacts.gaps > 0.0).all()

"""Which vertices are pinched: between two colliders, between portions of one, and where nothing pinches."""

import numpy as np
import pytest

import weft
from weft.methods.untangle.pinching import PinchFinder
from weft.methods.untangle.solid_surfaces import SolidSurfaces
from weft.world import World

FRAME = 1.0 / 60.0
THICKNESS = 0.002


def find(world, points, time=0.0, depth=0.05):
    """The pinched ones of some points, which stand in for the first vertices of the cloth; the others are far away."""
    state = world.initial_state()
    x = state.positions()
    cloth = world.cloth_vertex_count
    world.kinematics.place(x, time, time)
    x[:cloth] = [5.0, 5.0, 5.0] + 0.01 * np.arange(cloth)[:, None]
    x[: len(points)] = points
    state.x.assign(x)
    world.begin_step(state, FRAME)
    surfaces = SolidSurfaces(world)
    finder = PinchFinder(world, surfaces, depth=depth)
    surfaces.find(state.x, state.v, reach=depth)
    return finder.find(state.x), x


def world_of(*colliders):
    cloth = weft.Cloth(shape=weft.Grid(size=(0.1, 0.1), cells=(4, 4)))
    return World(weft.Scene(cloths=[cloth], colliders=colliders, thickness=THICKNESS))


def box(name, position, size=(0.2, 0.1, 0.2), **more):
    return weft.Collider(name=name, shape=weft.Box(size=size), placement=weft.Placement(position=position), **more)


@pytest.mark.parametrize("gap", [-0.02, 0.0, 0.0015])
def test_between_two_colliders_that_face_each_other(gap):
    """Boxes one over the other, apart by less than the thickness, touching or overlapping."""
    world = world_of(box("lower", (0.0, -0.05, 0.0)), box("upper", (0.0, 0.05 + gap, 0.0)))
    middle = 0.5 * gap
    points, x = find(world, [(0.0, middle, 0.0), (0.05, middle, 0.05), (0.0, 0.1 + gap + 0.5 * THICKNESS, 0.0)])
    assert points.vertices.tolist() == [0, 1]
    assert np.diff(points.offsets).tolist() == [2, 2]
    # one point on each box, the nearest one
    for k in range(4):
        corners = x[world.faces[points.faces[k]]]
        place = points.weights[k] @ corners
        assert np.abs(place[1] - (0.0, gap)[k % 2]) < 1e-12
        assert place[[0, 2]] == pytest.approx(x[points.vertices[k // 2]][[0, 2]], abs=1e-12)


def test_touching_one_collider_is_no_pinch():
    world = world_of(box("lower", (0.0, -0.05, 0.0)), box("upper", (0.0, 0.06, 0.0)))
    points, _ = find(world, [(0.0, 0.5 * THICKNESS, 0.0), (0.0, 0.01 - 0.5 * THICKNESS, 0.0), (0.0, -0.01, 0.0)])
    assert len(points.vertices) == 0


def test_two_colliders_side_by_side_are_no_pinch():
    """A floor of two boxes, and a step of two: their normals do not face each other."""
    world = world_of(box("left", (-0.1, -0.05, 0.0)), box("right", (0.1, -0.05, 0.0)), box("wall", (0.0, 0.05, 0.2)))
    points, _ = find(world, [(0.0, 0.5 * THICKNESS, 0.0), (0.0, 0.5 * THICKNESS, 0.1 - 0.5 * THICKNESS)])
    assert len(points.vertices) == 0


def test_a_thin_feature_is_no_pinch():
    """Inside a thin plate both sides are near, and face away from each other."""
    world = world_of(box("plate", (0.0, 0.0, 0.0), size=(0.2, 0.004, 0.2)))
    points, _ = find(world, [(0.0, 0.0, 0.0), (0.03, 0.0015, 0.02)])
    assert len(points.vertices) == 0


def bent_bar(angle, cells=48):
    """A bar of 0.6 m along x, 4 cm thick, bent into an arc of this many radians; its faces point outwards."""
    mesh = weft.mesh.shapes.box((0.6, 0.04, 0.04), cells=(cells, 3, 3))
    x = mesh.vertices.copy()
    if angle > 0.0:
        radius = 0.6 / angle
        turn = x[:, 0] / radius
        away = radius + x[:, 1]
        # the ends pass one another by a little to the side
        x = np.column_stack([away * np.sin(turn), away * np.cos(turn) - radius, x[:, 2] + 0.02 * turn / angle])
    return x, mesh.faces


def bending(tmp_path, start, end):
    """A collider that bends from one angle to another within a second."""
    frames = [bent_bar(a)[0] for a in np.linspace(start, end, 5)]
    file = tmp_path / "bar.npz"
    np.savez(file, vertices=np.array(frames), faces=bent_bar(0.0)[1])
    return weft.Collider(name="bar", motion=weft.Sequence(file=str(file), fps=4.0))


def test_a_collider_that_passes_through_itself_pinches(tmp_path):
    """The bar becomes a ring whose ends sink into each other: a point in both is pinched, one in the bar alone not."""
    full = 2.0 * np.pi * 1.08
    world = world_of(bending(tmp_path, 0.0, full))
    radius = 0.6 / full
    # opposite the middle of the bar both ends overlap
    overlap = (0.0, -2.0 * radius, 0.0)
    alone = (0.0, 0.0, 0.0)
    points, _ = find(world, [overlap, alone], time=1.0)
    assert points.vertices.tolist() == [0]
    assert np.diff(points.offsets).tolist() == [2]
    # while it is straight nothing is pinched anywhere
    points, _ = find(world, [(0.2, 0.0, 0.0), (0.0, 0.019, 0.0)], time=0.0)
    assert len(points.vertices) == 0


@pytest.mark.parametrize("moving", [True, False])
def test_overlaps_from_the_first_frame_on_pinch_too(tmp_path, moving):
    """There is no history: the same positions pinch the same vertices, whether the collider bent before or never bends."""
    full = 2.0 * np.pi * 1.08
    bar = bending(tmp_path, full, 1.001 * full)
    if not moving:
        mesh = tmp_path / "ring.npz"
        vertices, faces = bent_bar(full)
        np.savez(mesh, vertices=vertices, faces=faces)
        bar = weft.Collider(name="bar", mesh=str(mesh))
    points, _ = find(world_of(bar), [(0.0, -2.0 * 0.6 / full, 0.0), (0.0, 0.0, 0.0)], time=0.5)
    assert points.vertices.tolist() == [0]

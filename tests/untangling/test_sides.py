"""Untangling from colliders that stay, and of layers whose order is known."""

import numpy as np
import pytest
import tangled_shapes as tangled

import weft
from weft.errors import WeftError
from weft.mesh import TriMesh, shapes
from weft.mesh.topology import Topology
from weft.untangling.sides import Sides

GRID = shapes.grid((1.0, 1.0), (20, 20))
COUNT = len(GRID.vertices)
BALL = shapes.icosphere(0.3, subdivisions=3)
# so that nothing lies exactly on something
ASIDE = np.array([0.0031, 0.0, 0.0017])


def together(vertices: np.ndarray, faces: np.ndarray, *colliders: TriMesh) -> np.ndarray:
    """All intersections of the mesh with itself and the colliders."""
    bodies = [np.full(len(own), min(k, 1)) for k, own in enumerate([faces, *(mesh.faces for mesh in colliders)])]
    x, f = tangled.join((vertices, faces), *((mesh.vertices, mesh.faces) for mesh in colliders))
    return weft.intersections(x, f, face_body=np.concatenate(bodies), body_pairs=[[1, 1], [1, 0]])


@pytest.mark.parametrize("height", [0.2, 0.02, -0.1])
def test_a_sheet_through_a_ball(height: float) -> None:
    start = GRID.vertices + ASIDE + [0.0, height, 0.0]
    assert len(together(start, GRID.faces, BALL)) > 80
    result = weft.untangle(start, GRID.faces, colliders=[BALL])
    assert result.free and len(together(result.vertices, GRID.faces, BALL)) == 0
    # outside of the ball and on the nearer side of it, and where it did not cross and need not follow, as it was
    assert np.linalg.norm(result.vertices, axis=1).min() > 0.29
    middle = result.vertices[np.hypot(start[:, 0], start[:, 2]).argmin(), 1]
    assert abs(middle) > 0.29 and np.sign(middle) == np.sign(height)
    assert result.vertices.shape == start.shape and max(map(abs, result.strain)) < 0.4


def test_a_sleeve_with_a_few_vertices_in_an_arm() -> None:
    arm = shapes.capsule(0.05, 0.5, segments=24, bands=16)
    tube = shapes.cylinder(0.06, 0.3, segments=28, rings=20)
    start = np.array(tube.vertices)
    dent = np.linalg.norm(start - [0.06, 0.02, 0.0], axis=1) < 0.02
    start[dent] *= [0.6, 1.0, 0.6]
    result = weft.untangle(start, tube.faces, rest=tube.vertices, colliders=[arm])
    assert result.rounds[0].intersections > 10
    assert result.free and len(together(result.vertices, tube.faces, arm)) == 0
    assert (np.hypot(result.vertices[:, 0], result.vertices[:, 2]) > 0.049).all()
    assert result.moved[np.abs(start[:, 1]) > 0.12].max() < 1e-3


def test_a_sleeve_of_which_a_side_is_in_the_arm() -> None:
    """The paths run from cuff to cuff and enclose nothing: only the solid says where to go."""
    arm = shapes.capsule(0.05, 0.5, segments=24, bands=16)
    tube = shapes.cylinder(0.06, 0.3, segments=28, rings=20)
    start = tube.vertices + [0.025, 0.003, 0.001]
    result = weft.untangle(start, tube.faces, colliders=[arm])
    assert result.rounds[0].intersections > 50 and result.free
    assert (np.hypot(result.vertices[:, 0], result.vertices[:, 2]) > 0.049).all()


def test_colliders_may_cross_each_other_and_need_not_be_closed() -> None:
    other = BALL.with_vertices(BALL.vertices + [0.2, 0.0, 0.0])
    floor = shapes.grid((2.0, 2.0), (8, 8))
    floor = floor.with_vertices(floor.vertices + [0.0, 0.24, 0.0])
    hill = np.array(GRID.vertices) + ASIDE
    hill[:, 1] += 0.31 - 0.09 * np.exp(-(hill[:, 0] ** 2 + hill[:, 2] ** 2) / 0.02)
    result = weft.untangle(hill, GRID.faces, colliders=[BALL, other, floor])
    assert result.rounds[0].intersections > 20
    assert result.free and len(together(result.vertices, GRID.faces, BALL, other, floor)) == 0
    # without anything in its way nothing moves
    away = weft.untangle(hill + [0.0, 1.0, 0.0], GRID.faces, colliders=[BALL, other, floor])
    assert away.free and away.moved.max() == 0.0


def test_what_is_left_names_colliders_after_the_mesh() -> None:
    start = GRID.vertices + ASIDE
    result = weft.untangle(start, GRID.faces, colliders=[BALL], max_rounds=0)
    assert np.array_equal(result.intersections, together(start, GRID.faces, BALL))
    assert np.array_equal(result.vertices, start) and not result.free


def test_cloth_in_a_closed_room_stays_in_it() -> None:
    room = shapes.box((4.0, 4.0, 4.0))
    vertices, faces = crossed(0.25)
    result = weft.untangle(vertices, faces, colliders=[room])
    assert result.free and result.moved.max() < 0.2


def crossed(where: float) -> tuple[np.ndarray, np.ndarray]:
    """A flat sheet, and a slanted one through it along a line at x = where."""
    slanted = GRID.vertices + ASIDE
    slanted[:, 1] += 0.2 * (slanted[:, 0] - where)
    return tangled.join((GRID.vertices, GRID.faces), (slanted, GRID.faces))


@pytest.mark.parametrize("where", [0.25, -0.25])
@pytest.mark.parametrize("flat_inside", [True, False])
def test_two_crossed_layers_end_in_their_order(where: float, flat_inside: bool) -> None:
    vertices, faces = crossed(where)
    flat, slanted = np.arange(COUNT), COUNT + np.arange(COUNT)
    layers = [flat, slanted] if flat_inside else [slanted, flat]
    result = weft.untangle(vertices, faces, layers=layers)
    assert result.free
    # y is the outside; away from the rims the outer sheet is above the inner one
    inner, outer = (result.vertices[layer] for layer in layers)
    inside = np.abs(GRID.vertices[:, [0, 2]]).max(axis=1) < 0.4
    assert (outer[inside, 1] > inner[inside, 1]).all()


@pytest.mark.parametrize("first_inside", [True, False])
def test_two_skirts_end_in_their_order(first_inside: bool) -> None:
    tube = shapes.cylinder(0.15, 0.4, segments=32, rings=16)
    vertices, faces = tangled.join((tube.vertices, tube.faces), (tube.vertices + [0.012, 0.004, 0.0023], tube.faces))
    count = len(tube.vertices)
    layers = [np.arange(count), count + np.arange(count)]
    layers = layers if first_inside else layers[::-1]
    result = weft.untangle(vertices, faces, layers=layers)
    inner, outer = (np.hypot(*result.vertices[layer][:, [0, 2]].T).mean() for layer in layers)
    assert result.free and outer > inner + 0.002


def test_three_bumpy_layers_on_a_body_do_not_push_each_other_through() -> None:
    """They are nearer to each other than the edges are long: what is parted would go through the next layer."""
    rng = np.random.default_rng(1)
    body = shapes.capsule(0.15, 0.7, segments=32, rings=6)
    parts = []
    for number in range(3):
        tube = shapes.cylinder(0.16 + 0.006 * number, 0.4, segments=40, rings=25)
        x = tube.vertices + [0.0, 0.003 * number, 0.0]
        angle, height = np.arctan2(x[:, 2], x[:, 0])[:, None], x[:, 1:2]
        waves = rng.uniform(-40.0, 40.0, 12) * height + rng.integers(1, 9, 12) * angle
        bumps = np.cos(waves + rng.uniform(0.0, 2.0 * np.pi, 12)).sum(axis=1)
        radius = 1.0 + 0.004 * bumps / np.hypot(x[:, 0], x[:, 2])
        parts.append((x * np.column_stack([radius, np.ones(len(x)), radius]), tube.faces))
    vertices, faces = tangled.join(*parts)
    count = len(parts[0][0])
    layers = [np.arange(count) + number * count for number in range(3)]
    result = weft.untangle(vertices, faces, colliders=[body], layers=layers, max_rounds=60)
    assert result.rounds[0].intersections > 2000
    assert result.free and len(together(result.vertices, faces, body)) == 0
    radii = [np.hypot(*result.vertices[layer][:, [0, 2]].T).mean() for layer in layers]
    assert radii[0] < radii[1] < radii[2] and max(map(abs, result.strain)) < 0.5


def test_areas_of_what_is_on_the_wrong_side_do_not_count() -> None:
    sheet = GRID.vertices + ASIDE
    vertices, faces = tangled.join((sheet, GRID.faces), (BALL.vertices, BALL.faces))
    still = np.arange(len(vertices)) >= COUNT
    sides = Sides(Topology(faces, len(vertices)), vertices, np.ones(len(vertices)), still, [])
    sides.update(vertices)
    distance = np.linalg.norm(sheet, axis=1)
    # the ball has flat triangles, and is a little smaller than its radius
    assert (sides.areas[:COUNT][distance < 0.29] < 1e-3).all()
    assert (sides.areas[:COUNT][distance > 0.3] == 1.0).all() and (sides.areas[COUNT:] == 1.0).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"layers": [[0, 1]]}, "at least two"),
        ({"layers": [[0, 1], [1, 2]]}, "vertex 1 is in layers 0 and 1"),
        ({"layers": [[0, 1], [COUNT]]}, "layer 1 must name vertices"),
        ({"layers": [[0, 1], []]}, "layer 1 must name vertices"),
        ({"colliders": ["body.obj"]}, "collider 0 is a str: give a weft.TriMesh, as weft.load_mesh reads it"),
    ],
)
def test_mistakes_are_named(given: dict, message: str) -> None:
    with pytest.raises(WeftError, match=message):
        weft.untangle(GRID.vertices, GRID.faces, **given)

"""A step with more pairs than are worth listing is made shorter; strain limits in cloth that lashes."""

from pathlib import Path

import weft
from weft.methods import make_method
from weft.world import World


def test_too_many_pairs_halve_the_step():
    scene = weft.Scene(
        method={"name": "robust", "steps": 1},
        cloths=[
            weft.Cloth(
                shape=weft.Grid(size=(0.5, 0.5), cells=(20, 20)),
                placement={"position": (0, 0.5, 0)},
                velocity=(0, -6.0, 0),
            )
        ],
        colliders=[weft.Collider(name="ball", shape=weft.Sphere(radius=0.2))],
    )
    world = World(scene, "cpu")
    steps = []
    for most in (None, 9_000):
        method, state = make_method(world, scene.method), world.initial_state()
        if most is not None:
            method.many_pairs = most
        rows = [method.advance_frame(state) for _ in range(5)]
        assert all(row["status"] == "ok" for row in rows)
        steps.append(sum(row["steps"] for row in rows))
    assert steps[1] > steps[0]


def test_the_corner_of_a_flag_that_lashes_keeps_its_lengths():
    """Its edges turn by a radian in a step. A limit that took this for shortening made them half as long again."""
    scene = weft.load_scene(Path(weft.__file__).parent / "cli" / "scenes" / "flag.toml")
    world = World(scene, "cpu")
    method, state = make_method(world, scene.method), world.initial_state()
    assert max(method.advance_frame(state)["stretch"] for _ in range(27)) < 0.2


def test_the_option_sets_how_far_soft_cloth_gives():
    """A panel that would stretch by a quarter as it falls into its pins, with three limits."""
    cloth = weft.Cloth(
        shape=weft.Grid(size=(0.2, 0.4), cells=(4, 8)),
        placement={"rotation_deg": (90, 0, 0)},
        material=weft.Material(density=0.2, stretch=5.0, shear=2.0, bend=1e-6),
        pins=[weft.Pin(boundary="top")],
    )
    largest = []
    for limit in (0.02, 0.1, 0.4):
        scene = weft.Scene(cloths=[cloth], fps=30, method={"name": "robust", "strain_limit": limit})
        world = World(scene, "cpu")
        method, state = make_method(world, scene.method), world.initial_state()
        largest.append(max(method.advance_frame(state)["stretch"] for _ in range(6)))
    assert largest[0] < 0.75 * largest[1] < 0.6 * largest[2]

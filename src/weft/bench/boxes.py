"""Tables 1 and 2 of Liu, Ko and Chang 1998: cloth that falls on a table and to the ground, avoided in three ways."""

from typing import Any

from weft.scene import Box, Boxes, Camera, Cloth, Collider, Grid, Placement, Plane, Scene

# 1000 steps of 2 ms
FRAMES = 100


def table_scene(points: int, **options: Any) -> Scene:
    """A square metre of cotton with that many points a side, a little above a square table."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(points - 1, points - 1)),
        placement=Placement(position=(0.0, 0.53, 0.0)),
        material="cotton",
    )
    table = Collider(
        name="table", shape=Box(size=(0.5, 0.04, 0.5)), placement=Placement(position=(0.0, 0.48, 0.0)), friction=0.4
    )
    return Scene(
        name=f"cloth on a table, {points} x {points}",
        fps=50,
        frames=FRAMES,
        method=Boxes(**options),
        camera=Camera(position=(1.5, 1.1, 1.9), target=(0.0, 0.4, 0.0), fov_deg=30.0),
        cloths=[cloth],
        colliders=[table],
    )


def ground_scene(points: int, **options: Any) -> Scene:
    """A square metre of cotton that falls to the floor almost upright and folds."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(points - 1, points - 1)),
        placement=Placement(position=(0.0, 0.68, 0.0), rotation_deg=(80.0, 25.0, 8.0)),
        material="cotton",
    )
    floor = Collider(name="floor", shape=Plane(size=(6.0, 6.0)))
    return Scene(
        name=f"cloth to the ground, {points} x {points}",
        fps=50,
        frames=FRAMES,
        method=Boxes(**options),
        camera=Camera(position=(1.3, 1.1, 1.9), target=(0.0, 0.25, 0.0), fov_deg=32.0),
        cloths=[cloth],
        colliders=[floor],
    )

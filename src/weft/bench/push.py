"""Tables 1 to 6 of Draping on meshes: six scenes, four integrators, three ways to find near triangles."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from weft.scene import Box, Camera, Cloth, Collider, Forces, Grid, Material, Pin, Placement, Push, Scene, Sphere

INTEGRATORS = ("euler", "midpoint", "runge_kutta", "trapezoid")
SEARCHES = ("brute", "octree", "kdtree")
CLOSE = 0.04
# cotton that settles sooner
MATERIAL = Material(damping=1e-3)
# two seconds
FRAMES = 120


def _scene(name: str, position: tuple[float, float, float], colliders: list[Collider], **options: Any) -> Scene:
    """A square metre of cotton of 200 triangles above something."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.0, 1.0), cells=(10, 10)),
        placement=Placement(position=position),
        material=MATERIAL,
    )
    return Scene(
        name=name,
        fps=60,
        frames=FRAMES,
        method=Push(**{"close": CLOSE, "against": "mesh", **options}),
        forces=Forces(air_damping=2.0),
        camera=Camera(position=(1.6, 1.0, 2.2), target=(0.0, 0.1, 0.0), fov_deg=32.0),
        cloths=[cloth],
        colliders=colliders,
    )


def _cube(cells: int, *, on_edge: bool) -> Collider:
    """A cube of 0.5 m, flat or on one of its edges."""
    turn = (0.0, 0.0, 45.0) if on_edge else (0.0, 0.0, 0.0)
    shape = Box(size=(0.5, 0.5, 0.5), cells=(cells, cells, cells))
    return Collider(name="cube", shape=shape, placement=Placement(rotation_deg=turn), friction=0.5)


def cube_edge(folder: Path, **options: Any) -> Scene:
    """Cloth over the edge of a cube."""
    return _scene("cube edge", (0.0, 0.42, 0.0), [_cube(16, on_edge=True)], **options)


def finer_cube_edge(folder: Path, **options: Any) -> Scene:
    """The same over a cube of sixteen times as many triangles."""
    return _scene("finer cube edge", (0.0, 0.42, 0.0), [_cube(64, on_edge=True)], **options)


def bunny(folder: Path, **options: Any) -> Scene:
    """Cloth over a rabbit, whose mesh is written to the folder."""
    from weft.bench.bunny import bunny as make_bunny
    from weft.mesh import save_mesh

    folder.mkdir(parents=True, exist_ok=True)
    save_mesh(make_bunny(1.0), folder / "bunny.obj")
    # vertices of the cloth come down on the tips of the ears
    rabbit = Collider(name="bunny", mesh="bunny.obj", placement=Placement(position=(0.0, -0.65, -0.13)), friction=0.5)
    return _scene("bunny", (0.0, 0.40, 0.0), [rabbit], **options).at(folder)


def cube(folder: Path, **options: Any) -> Scene:
    """Cloth on the flat side of a cube."""
    return _scene("cube", (0.0, 0.30, 0.0), [_cube(8, on_edge=False)], **options)


def sphere(folder: Path, **options: Any) -> Scene:
    """Cloth over a ball."""
    shape = Sphere(radius=0.3, triangles="uv", segments=24, rings=14)
    return _scene("sphere", (0.0, 0.35, 0.0), [Collider(name="ball", shape=shape, friction=0.5)], **options)


def tablecloth(folder: Path, **options: Any) -> Scene:
    """Cloth that is held where a table would be, and whose corners fall against one another."""
    cloth = Cloth(
        name="cloth",
        shape=Grid(size=(1.4, 1.4), cells=(14, 14)),
        placement=Placement(position=(0.0, 0.4, 0.0)),
        material=MATERIAL,
        pins=[Pin(box=((-0.41, 0.0, -0.41), (0.41, 1.0, 0.41)))],
    )
    return _scene("tablecloth", (0.0, 0.0, 0.0), [], **{"against": "cloth", **options}).replace(cloths=[cloth])


SCENES: dict[str, Callable[..., Scene]] = {
    "cube_edge": cube_edge,
    "finer_cube_edge": finer_cube_edge,
    "bunny": bunny,
    "cube": cube,
    "sphere": sphere,
    "tablecloth": tablecloth,
}

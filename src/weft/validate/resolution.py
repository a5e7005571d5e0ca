"""The same cloth, divided more finely: a sheet hung from two corners, and cloth on a sphere.

No theory: a measurement is how much the result differs from that of half the resolution, which is the number of cells
along a side.
"""

from functools import lru_cache

import numpy as np

from weft.scene import Cloth, Collider, Forces, Grid, Keyframe, Path, Pin, Placement, Scene, Sphere
from weft.validate.suite import CLASSICAL, Case, Expected, Floats, Simulation

LEVELS = 24
"""heights at which the width of a silhouette is read"""
APART = 0.6
"""distance of the two corners from which a sheet of 1 m hangs"""
SPHERE_RADIUS = 0.08
SHEET = 0.3


def silhouette(x: Floats, edges: np.ndarray, low: float, high: float) -> Floats:
    """(levels, 2) the least and the greatest x of the cloth, seen along z, in equal bands of height; NaN where none is."""
    t = np.linspace(0.0, 1.0, 9)[:, None, None]
    points = ((1.0 - t) * x[edges[:, 0]] + t * x[edges[:, 1]]).reshape(-1, 3)
    band = np.floor((points[:, 1] - low) / (high - low) * LEVELS).astype(int)
    inside = (band >= 0) & (band < LEVELS)
    found = np.tile(np.array([np.inf, -np.inf]), (LEVELS, 1))
    np.minimum.at(found[:, 0], band[inside], points[inside, 0])
    np.maximum.at(found[:, 1], band[inside], points[inside, 0])
    return np.where(np.isfinite(found), found, np.nan)


def silhouette_change(a: tuple[Floats, np.ndarray], b: tuple[Floats, np.ndarray]) -> float:
    """The mean distance of two silhouettes over all heights that both have, in per cent of the height of the cloth."""
    heights = np.concatenate([a[0][:, 1], b[0][:, 1]])
    low, high = float(heights.min()), float(heights.max())
    first, second = (silhouette(x, edges, low, high) for x, edges in (a, b))
    return float(100.0 * np.nanmean(np.abs(first - second)) / (high - low))


@lru_cache
def hung(method: str, cells: int) -> tuple[Floats, np.ndarray]:
    """Positions and edges of a sheet of 1 m^2 whose upper corners go from 1 m to 0.6 m of each other."""
    move = 0.5 * (1.0 - APART)

    def to(side: float) -> Path:
        return Path(keyframes=(Keyframe(time=0.0), Keyframe(time=0.5, position=(side * move, 0.0, 0.0))))

    cloth = Cloth(
        shape=Grid(cells=(cells, cells)),
        masses="area",
        placement=Placement(rotation_deg=(88.0, 0.0, 0.0)),
        pins=(Pin(boundary="top_left", motion=to(1.0)), Pin(boundary="top_right", motion=to(-1.0))),
    )
    simulation = Simulation(method, Scene(cloths=(cloth,), forces=Forces(air_damping=2.0)))
    return simulation.settle(5.0, speed=0.02), simulation.world.cloths[0].mesh.edges


def sag_change(method: str, cells: int) -> float:
    """How much the sag of the upper edge changes from half the cells to these, in per cent."""
    sags = []
    for n in (cells // 2, cells):
        x = hung(method, n)[0]
        # an odd number of cells has no vertex in the middle
        sags.append(x[0, 1] - 0.5 * (x[n // 2, 1] + x[(n + 1) // 2, 1]))
    return float(100.0 * abs(sags[1] - sags[0]) / abs(sags[1]))


@lru_cache
def on_sphere(method: str, cells: int) -> tuple[Floats, np.ndarray]:
    """Positions and edges of a sheet of 30 cm that fell on a sphere."""
    cloth = Cloth(
        shape=Grid(size=(SHEET, SHEET), cells=(cells, cells)),
        masses="area",
        placement=Placement(position=(0.0, SPHERE_RADIUS + 0.005, 0.0), rotation_deg=(0.0, 20.0, 0.0)),
    )
    ball = Collider(name="ball", shape=Sphere(radius=SPHERE_RADIUS), analytic=True, friction=0.5)
    scene = Scene(cloths=(cloth,), colliders=(ball,), forces=Forces(air_damping=2.0))
    simulation = Simulation(method, scene)
    return simulation.settle(2.0, speed=0.02), simulation.world.cloths[0].mesh.edges


def _second_order(cells: int) -> Expected:
    """2 % from 50 to 100 cells a side, and four times that from 25 to 50."""
    return Expected.at_most(2.0 * (100.0 / cells) ** 2)


_LARGE = "shrinks with the cells, but is larger than this"
_LIMP = "the shear of springs depends on the mesh"

CASES = (
    Case(
        "hung_sag",
        "change of the sag of a sheet hung from two corners",
        _second_order,
        sag_change,
        (50, 100),
        unit="%",
        note="resolution: cells a side, compared with half of them",
        misses={**CLASSICAL, "robust": _LIMP, "plain": _LIMP, "untangle": _LARGE, "predictive": _LARGE},
    ),
    Case(
        "hung_outline",
        "change of its outline, seen from the front",
        _second_order,
        lambda method, cells: silhouette_change(hung(method, cells // 2), hung(method, cells)),
        (50, 100),
        unit="%",
        misses=CLASSICAL,
    ),
    Case(
        "sphere_outline",
        "change of the outline of cloth on a sphere: 10 to 5 mm, 5 to 2.5 mm",
        Expected.at_most(5.0),
        lambda method, cells: silhouette_change(on_sphere(method, cells // 2), on_sphere(method, cells)),
        (60, 120),
        unit="%",
        contact=True,
        misses={**CLASSICAL, "robust": _LIMP},
    ),
)

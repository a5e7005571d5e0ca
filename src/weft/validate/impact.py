"""Impact: momentum of sheets that meet in free space, energy of sheets that drop, and free fall.

The resolution is the number of cells along a side.
"""

from functools import lru_cache

import numpy as np

from weft.scene import Cloth, Collider, Forces, Grid, Material, Placement, Plane, Scene
from weft.validate import theory
from weft.validate.suite import BOXES, CLASSICAL, PUSH, Case, Expected, Floats, Simulation

Vector = tuple[float, float, float]
STILL: Vector = (0.0, 0.0, 0.0)
CLOTH = Material(density=0.2, bend=2e-5, stretch=500.0, shear=60.0)

FALL = 0.5
"""how long a sheet falls, s"""


def _sheet(name: str, cells: int, position: Vector, *, rotation_deg: Vector = STILL, velocity: Vector = STILL) -> Cloth:
    return Cloth(
        name=name,
        shape=Grid(size=(0.2, 0.2), cells=(cells, cells)),
        material=CLOTH,
        placement=Placement(position=position, rotation_deg=rotation_deg),
        velocity=velocity,
    )


def momentum_drift(method: str, cells: int, angular: bool) -> float:
    """How much of the momentum changes while two sheets fly into each other, off centre, in per cent.

    Of the linear momentum relative to the sum of its sizes, of the angular one to what it is at the start.
    """
    near = _sheet("near", cells, (0.0, 0.0, 0.0), velocity=(0.0, 1.0, 0.0))
    turned = (10.0, 20.0, 15.0)
    far = _sheet("far", cells, (0.08, 0.05, 0.03), rotation_deg=turned, velocity=(0.0, -1.0, 0.0))
    free = Forces(gravity=(0.0, 0.0, 0.0))
    simulation = Simulation(method, Scene(cloths=(near, far), forces=free))
    mass = simulation.mass[:, None]

    def measure() -> tuple[Floats, Floats]:
        x, p = simulation.x, mass * simulation.v
        return p.sum(axis=0), np.cross(x, p).sum(axis=0)

    linear, turning = measure()
    size = float(np.linalg.norm(mass * simulation.v, axis=1).sum())
    simulation.frames(0.25)
    linear_end, turning_end = measure()
    if angular:
        return float(100.0 * np.linalg.norm(turning_end - turning) / np.linalg.norm(turning))
    return float(100.0 * np.linalg.norm(linear_end - linear) / size)


def energy_rise(method: str, cells: int) -> float:
    """The largest energy of two sheets that drop 2 and 8 mm onto a floor, above the one at the start, in per cent of it."""
    cloths = (_sheet("low", cells, (0.0, 0.003, 0.0)), _sheet("high", cells, (0.01, 0.009, 0.02)))
    floor = Collider(name="floor", shape=Plane(size=(2.0, 2.0)), analytic=True)
    simulation = Simulation(method, Scene(cloths=cloths, colliders=(floor,)))
    mass = simulation.mass

    def energy() -> float:
        # above the floor; that of the springs cannot be negative
        height, speed2 = simulation.x[:, 1], (simulation.v**2).sum(axis=1)
        return float((mass * (theory.GRAVITY * height + 0.5 * speed2)).sum())

    start = energy()
    most = -np.inf
    for _ in range(60):
        simulation.frames(1.0 / 60.0)
        most = max(most, energy())
    return float(100.0 * (most / start - 1.0))


@lru_cache
def fall_errors(method: str, cells: int) -> tuple[float, float]:
    """The relative errors of the speed and of the way of a sheet, placed askew, that falls for half a second."""
    cloth = _sheet("sheet", cells, (0.0, 0.0, 0.0), rotation_deg=(30.0, 20.0, 10.0))
    simulation = Simulation(method, Scene(cloths=(cloth,)))
    weights = simulation.mass / simulation.mass.sum()
    start = weights @ simulation.x
    way = weights @ simulation.frames(FALL)[-1] - start
    down = np.array([0.0, -theory.GRAVITY, 0.0])
    errors = (weights @ simulation.v - down * FALL) / FALL, (way - 0.5 * down * FALL**2) / (0.5 * FALL**2)
    speed, length = (float(np.linalg.norm(error)) / theory.GRAVITY for error in errors)
    return speed, length


_EULER = "first order in time: the way of a step is its end velocity times its length"

CASES = (
    *(
        Case(
            name,
            f"relative error of the {what} of a falling sheet",
            Expected.at_most(1e-6),
            lambda method, cells, k=k: fall_errors(method, cells)[k],  # type: ignore[misc]
            (10,),
            (10,),
            misses={**BOXES, **(dict.fromkeys(("robust", "untangle", "predictive", "plain"), _EULER) if k else {})},
        )
        for k, (name, what) in enumerate((("fall_speed", "speed"), ("fall_way", "way")))
    ),
    Case(
        "momentum",
        "change of linear momentum of two sheets that meet",
        Expected.at_most(1e-6),
        lambda method, cells: momentum_drift(method, cells, False),
        (20,),
        (12,),
        unit="%",
        contact=True,
        misses=CLASSICAL,
    ),
    Case(
        "angular_momentum",
        "change of angular momentum of two sheets that meet",
        Expected.at_most(0.1),
        lambda method, cells: momentum_drift(method, cells, True),
        (20,),
        unit="%",
        contact=True,
        misses={
            **CLASSICAL,
            "robust": "drifts by about 1 %",
            "untangle": "most of it is lost",
            "predictive": "drifts by about 4 %",
        },
    ),
    Case(
        "energy",
        "rise of the energy of two sheets that drop 2 and 8 mm",
        Expected.at_most(1.0),
        energy_rise,
        (10, 20),
        (10,),
        unit="%",
        contact=True,
        misses={**PUSH, "untangle": "throws cloth that falls a few millimetres"},
    ),
)

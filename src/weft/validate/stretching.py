"""Stretching and shearing: strips that hang by one end, along the threads and across them, and a panel that shears.

The resolution is the number of cells along the strip, or across the panel.
"""

from math import cos, pi, sin

import numpy as np

from weft.mesh import TriMesh
from weft.mesh.shapes import grid
from weft.scene import Cloth, Forces, Grid, Material, Pin, Placement, Scene
from weft.validate import theory
from weft.validate.suite import BOXES, PUSH, Case, Expected, Simulation

# soft enough for half a per cent of strain
CLOTH = Material(density=0.2, bend=2e-5, stretch=200.0, shear=80.0)
PANEL = CLOTH.replace(shear=20.0)
LENGTH = 0.5
PANEL_WIDTH = 0.2
# stops swings along the threads, 16 Hz, within a second
FORCES = Forces(air_damping=10.0)


def hanging_strain(method: str, cells: int, angle: float) -> float:
    """The mean strain, in per cent, of a strip that hangs by one end, its threads at an angle to it in radians."""
    across = max(2, cells // 5)
    flat = grid((LENGTH, LENGTH * across / cells), (cells, across))
    assert flat.uv is not None
    turn = np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]])
    mesh = TriMesh(flat.vertices, flat.faces, uv=flat.uv @ turn.T)
    top = flat.vertices[:, 0] < 1e-9 - 0.5 * LENGTH
    cloth = Cloth(
        mesh="strip.npz",
        rest="uv",
        masses="area",
        material=CLOTH,
        placement=Placement(rotation_deg=(0.0, 0.0, -90.0)),
        pins=(Pin(indices=tuple(np.flatnonzero(top).tolist())),),
    )
    simulation = Simulation(method, Scene(cloths=(cloth,), forces=FORCES), {"strip.npz": mesh})
    x = simulation.settle(3.0, speed=2e-4)
    end = flat.vertices[:, 0] > 0.5 * LENGTH - 1e-9
    return float(100.0 * ((x[top, 1].mean() - x[end, 1].mean()) / LENGTH - 1.0))


def sheared_sag(method: str, cells: int) -> float:
    """The sag, in mm, in the middle of a tall panel that is held along its upright sides."""
    shape = Grid(size=(PANEL_WIDTH, 4.0 * PANEL_WIDTH), cells=(cells, 4 * cells))
    cloth = Cloth(
        shape=shape,
        masses="area",
        material=PANEL,
        placement=Placement(rotation_deg=(90.0, 0.0, 0.0)),
        pins=(Pin(boundary="left"), Pin(boundary="right")),
    )
    simulation = Simulation(method, Scene(cloths=(cloth,), forces=FORCES))
    start = simulation.x
    middle = np.abs(start[:, :2]).sum(axis=1).argmin()
    return float(1e3 * (start[middle, 1] - simulation.settle(3.0, speed=2e-4)[middle, 1]))


_SWEPT = {**PUSH, "predictive": "stretch is one Gauss-Seidel sweep a substep, which is too soft"}
_DIAGONAL = "springs along the diagonals of a grid also pull along the threads"
_SPRINGS = "springs give a quarter of the shear stiffness that the material says"

CASES = (
    Case(
        "hanging_strip",
        "mean strain of a strip that hangs along its warp",
        Expected.near(100.0 * theory.hanging_strain(CLOTH.density, CLOTH.stretch, LENGTH), 0.03),
        lambda method, cells: hanging_strain(method, cells, 0.0),
        (10, 20, 40),
        (10,),
        unit="%",
        misses={**BOXES, **_SWEPT, "robust": _DIAGONAL, "plain": _DIAGONAL},
    ),
    Case(
        "bias_strip",
        "mean strain of a strip cut at 45 degrees to the threads",
        Expected.near(
            100.0
            * theory.hanging_strain(
                CLOTH.density, theory.bias_stiffness(CLOTH.stretch, CLOTH.stretch, CLOTH.shear), LENGTH
            ),
            0.05,
        ),
        lambda method, cells: hanging_strain(method, cells, 0.25 * pi),
        (10, 20, 40),
        unit="%",
        misses={**BOXES, **_SWEPT, "robust": _SPRINGS, "plain": _SPRINGS},
    ),
    Case(
        "picture_frame",
        "sag of a tall panel that is held along its upright sides, by shear alone",
        Expected.near(1e3 * theory.sheared_sag(PANEL.density, PANEL.shear, PANEL_WIDTH), 0.05),
        sheared_sag,
        (8, 16),
        (8,),
        unit="mm",
        misses={**_SWEPT, "robust": _SPRINGS, "plain": _SPRINGS},
    ),
)

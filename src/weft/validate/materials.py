"""What materials can say beyond stiffness: a limit of stretch, creases, and bends that stay.

The resolution is the number of cells along a strip.
"""

import numpy as np

from weft.mesh.shapes import grid
from weft.scene import Cloth, Crease, Forces, Material, Pin, Scene
from weft.validate import theory
from weft.validate.elasticity import CLOTH, LENGTH, hanging_strain
from weft.validate.suite import Case, CaseRun, Expected, Floats

# half of the strain of the upper end of the strip that hangs
STRETCH_LIMIT = 0.0025
# a strip in empty space, 10 cm long; the air is so thick that it does not swing
FREE_LENGTH = 0.1
STILL = Forces(gravity=(0.0, 0.0, 0.0), air_damping=60.0)
CREASE_DEG = 90.0
# 1/m: the curvature to which a strip is bent, less than half a circle, the one at which it is let go, and what of it stays
BENT, LET_GO, YIELD, HYSTERESIS = 30.0, 20.0, 20.0, 6.0
# s: when it is bent, and when it is let go; a sudden release would bend its middle even more
BENT_AT, LET_GO_AT = 0.15, 0.25


def rolled(flat: Floats, curvature: float) -> Floats:
    """A strip along x rolled to a curvature in 1/m, its upper side outside."""
    s, _, z = flat.T
    if curvature == 0.0:
        return flat
    return np.stack([np.sin(curvature * s) / curvature, (np.cos(curvature * s) - 1.0) / curvature, z], axis=1)


def turn(method: str, cells: int, material: Material, *, bent: bool = False, creases: tuple[Crease, ...] = ()) -> float:
    """The angle in radians by which a strip in empty space turns from one end to the other once it is at rest.

    It starts flat; where it is bent, all of its vertices are led through the bend and then let go. Positive where it is a
    ridge on its front, the upper side.
    """
    mesh = grid((FREE_LENGTH, FREE_LENGTH * 4 / cells), (cells, 4), diagonals="alternating")
    flat = mesh.vertices

    def lead(time: float) -> Floats:
        return rolled(flat, float(np.interp(time, [0.0, BENT_AT, LET_GO_AT], [0.0, BENT, LET_GO])))

    held = Pin.model_validate({"indices": tuple(range(len(flat))), "motion": lead, "until": LET_GO_AT + 0.05})
    pins = (held,) if bent else ()
    cloth = Cloth(mesh="strip.npz", rest="uv", masses="area", material=material, creases=creases, pins=pins)
    simulation = CaseRun(method, Scene(cloths=(cloth,), forces=STILL), {"strip.npz": mesh})
    x = simulation.settle(6.0, speed=1e-4, least=0.5)
    middle = np.flatnonzero(np.abs(flat[:, 2]) < 1e-9)
    way = np.diff(x[middle[np.argsort(flat[middle, 0])]], axis=0)
    turned = np.unwrap(np.arctan2(way[:, 1], way[:, 0]))
    return float(turned[0] - turned[-1])


def crease_angle(method: str, cells: int) -> float:
    """The angle in degrees to which a flat strip folds itself at a crease in its middle."""
    crease = Crease(line=((0.0, -FREE_LENGTH), (0.0, FREE_LENGTH)), angle_deg=CREASE_DEG)
    return float(np.degrees(turn(method, cells, Material(), creases=(crease,))))


def what_stays(method: str, cells: int, material: Material) -> float:
    """The mean curvature in 1/m that stays in a strip that is bent to the curvature `BENT` and let go."""
    return turn(method, cells, material, bent=True) / (FREE_LENGTH * (1.0 - 1.0 / cells))


_REFUSING = dict.fromkeys(("push", "boxes"), "does not model it")

MATERIALS_CASES = (
    Case(
        "stretch_limit",
        "mean strain of a hanging strip whose upper half is at its limit of stretch",
        Expected.near(100.0 * theory.limited_strain(CLOTH.density, CLOTH.mean("stretch"), LENGTH, STRETCH_LIMIT), 0.03),
        lambda method, cells: hanging_strain(method, cells, 0.0, CLOTH.replace(stretch_limit=STRETCH_LIMIT)),
        (10, 20, 40),
        (10,),
        unit="%",
        misses={**_REFUSING, "predictive": "does not model it"},
    ),
    Case(
        "crease",
        "angle to which a flat strip folds itself at a crease of 90 degrees",
        Expected.near(CREASE_DEG, 0.01),
        crease_angle,
        (10, 20, 40),
        (20,),
        unit="degrees",
        misses=_REFUSING,
    ),
    Case(
        "yield",
        "curvature that stays in a strip that is bent beyond its yield curvature and let go",
        Expected.near(BENT - YIELD, 0.03),
        lambda method, cells: what_stays(method, cells, Material(yield_curvature=YIELD)),
        (10, 20, 40),
        (20,),
        unit="1/m",
        misses=_REFUSING,
    ),
    Case(
        "hysteresis",
        "curvature that friction between the yarns keeps in a strip that is bent and let go",
        Expected.near(HYSTERESIS, 0.03),
        lambda method, cells: what_stays(method, cells, Material(bend_hysteresis=HYSTERESIS)),
        (10, 20, 40),
        (20,),
        unit="1/m",
        misses=_REFUSING,
    ),
)

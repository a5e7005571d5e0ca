"""What theory says of cloth in simple situations: elastic strips under their own weight, extension, shear, belts.

Everything is per metre of width and in SI units: density in kg/m^2, bend in N m, stretch and shear in N/m.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import atan2, degrees, exp, inf, pi, sqrt

import numpy as np
import numpy.typing as npt
from numpy.polynomial import Legendre
from scipy.integrate import solve_ivp
from scipy.linalg import eigh
from scipy.optimize import brentq
from scipy.special import jv

from weft.scene.scene import GRAVITY

CHORD_DEG = 41.5
"""the angle of the chord in the test of the bending length (ASTM D1388)"""
_TOLERANCE = 1e-10


def length_of(weight: float, density: float, bend: float) -> float:
    """The length of the strip that has the weight number G = density g L^3 / bend."""
    return float((weight * bend / (density * GRAVITY)) ** (1.0 / 3.0))


@dataclass(frozen=True)
class Cantilever:
    """A strip clamped level that hangs under its own weight; lengths as fractions of the strip's."""

    reach: float
    drop: float
    arc: npt.NDArray[np.float64]
    """(k,) arc lengths from the clamp, at which `curve` is given"""
    curve: npt.NDArray[np.float64]
    """(k, 2) reach and drop along the strip"""

    @property
    def ratio(self) -> float:
        """Drop over reach of the tip."""
        return self.drop / self.reach

    @property
    def chord_deg(self) -> float:
        """The angle of the line from the clamp to the tip below the horizontal."""
        return degrees(atan2(self.drop, self.reach))


@lru_cache
def heavy_cantilever(weight: float) -> Cantilever:
    """The heavy elastica theta'' = -G (1 - s) cos theta, theta(0) = 0, theta'(1) = 0.

    In t = G^(1/3) (1 - s), measured from the tip, and psi = pi/2 - theta this is psi'' = t sin psi without a parameter:
    shooting from the tip with psi(0) = exp(a), psi reaches pi/2 at the clamp. The root in `a` is the one for which that
    is at t = G^(1/3).
    """
    end = weight ** (1.0 / 3.0)

    def shoot(a: float, dense: bool = False) -> tuple[float, object]:
        def level(t: float, y: npt.NDArray[np.float64]) -> float:
            return float(y[0] - 0.5 * pi)

        level.terminal = True  # type: ignore[attr-defined]
        solution = solve_ivp(
            lambda t, y: (y[1], t * np.sin(y[0]), np.sin(y[0]), np.cos(y[0])),
            (0.0, 2.0 * end),
            (exp(a), 0.0, 0.0, 0.0),
            events=level,
            rtol=_TOLERANCE,
            atol=1e-14,
            dense_output=dense,
        )
        return float(solution.t[-1]), solution

    a = brentq(lambda a: shoot(a)[0] - end, -1.2 * end**1.5 - 3.0, np.log(0.5 * pi * (1.0 - 1e-12)), xtol=1e-13)
    solution = shoot(a, dense=True)[1]
    t = np.linspace(end, 0.0, 401)
    along = solution.sol(t)[2:].T  # type: ignore[attr-defined]
    curve = (along[0] - along) / end
    return Cantilever(float(curve[-1, 0]), float(curve[-1, 1]), 1.0 - t / end, curve)


def weight_from_ratio(ratio: float) -> float:
    """The weight number of a strip whose tip has this drop over reach; infinite where it hangs straight down."""
    if not 1e-6 < ratio < 30.0:
        return inf
    return float(brentq(lambda g: heavy_cantilever(g).ratio - ratio, 1e-6, 2000.0, rtol=1e-6))


@lru_cache
def bending_weight() -> float:
    """The weight number of the overhang whose chord is at 41.5 degrees: 8.004."""
    return float(brentq(lambda g: heavy_cantilever(g).chord_deg - CHORD_DEG, 1.0, 30.0, xtol=1e-9))


def bending_length(density: float, bend: float) -> float:
    """The overhang whose chord is at 41.5 degrees: 2 (bend / (density g))^(1/3)."""
    return length_of(bending_weight(), density, bend)


@lru_cache
def buckling_weight(width: float = 0.0) -> float:
    """The weight number from which on a strip on its edge tilts sideways; `width` is that of the strip over its length.

    Narrow strip: 18.18. The twist obeys phi'' + (k z^2 / 2)^2 phi = 0 with z from the tip, phi'(0) = 0, phi(1) = 0 and k
    the weight over the geometric mean of the bending and the torsion stiffness: phi = sqrt(z) J_(-1/6)(k z^3 / 6). A strip
    without Poisson effect has a torsion stiffness of twice its bending stiffness. A wider strip cannot warp at the clamp,
    so that the twist begins with phi' = 0 there and has the energy of its curvature z phi'': 20.70 for a width of 0.2.
    """
    if width == 0.0:
        return 6.0 * sqrt(2.0) * float(brentq(lambda x: jv(-1.0 / 6.0, x), 1.0, 3.0, xtol=1e-12))
    # least of the energy 2 phi'^2 + width^2 phi''^2 / 12 for a work G^2 (1 - x)^4 phi^2 / 4 of 1, among x^2 times polynomials;
    # 40 of them resolve the layer at the clamp, 0.2 widths long, down to widths of 0.02
    points, weights = np.polynomial.legendre.leggauss(120)
    x = 0.5 * (points + 1.0)
    value, slope, bent = (np.empty((40, len(x))) for _ in range(3))
    for k in range(40):
        shape = Legendre.basis(k, domain=[0.0, 1.0])
        first, second = shape.deriv(), shape.deriv(2)
        value[k] = x**2 * shape(x)
        slope[k] = 2.0 * x * shape(x) + x**2 * first(x)
        bent[k] = 2.0 * shape(x) + 4.0 * x * first(x) + x**2 * second(x)
    energy = (weights * slope) @ (2.0 * slope.T) + (weights * bent) @ (width**2 / 12.0 * bent.T)
    work = (weights * (1.0 - x) ** 4 / 4.0 * value) @ value.T
    return float(eigh(work, energy, eigvals_only=True)[-1] ** -0.5)


def first_swing(density: float, bend: float, length: float) -> float:
    """The lowest frequency of a strip that is clamped at one end, in Hz; k is the root of cos k cosh k = -1."""
    k = brentq(lambda k: np.cos(k) * np.cosh(k) + 1.0, 1.0, 3.0, xtol=1e-12)
    return float(k**2 / (2.0 * pi) * sqrt(bend / (density * length**4)))


def hanging_strain(density: float, stretch: float, length: float) -> float:
    """The mean strain of a strip that hangs from one end under its own weight."""
    return density * GRAVITY * length / (2.0 * stretch)


def limited_strain(density: float, stretch: float, length: float, limit: float) -> float:
    """The mean strain of a hanging strip that does not give beyond a limit of strain: its upper part is at the limit."""
    most = density * GRAVITY * length / stretch
    return 0.5 * most if most <= limit else limit * (1.0 - 0.5 * limit / most)


def bias_stiffness(warp: float, weft: float, shear: float) -> float:
    """The stretch stiffness at 45 degrees to the threads, without Poisson effect."""
    return 4.0 / (1.0 / warp + 1.0 / weft + 1.0 / shear)


def sheared_sag(density: float, shear: float, width: float) -> float:
    """The sag in the middle of a tall panel held along both upright sides: pure shear, force density g x / shear."""
    return density * GRAVITY * width**2 / (8.0 * shear)


def belt_ratio(friction: float, angle: float) -> float:
    """The largest ratio of the tensions of a belt on the two sides of a cylinder that it wraps by an angle."""
    return exp(friction * angle)


def slide_acceleration(friction: float, slope: float) -> float:
    """The acceleration along a slope, in radians, of what slides down it."""
    return GRAVITY * float(np.sin(slope) - friction * np.cos(slope))


def pulled_elongation(density: float, stretch: float, friction: float, length: float) -> float:
    """How much longer a strip is that is pulled slowly over a table by one end, in m."""
    return friction * density * GRAVITY * length**2 / (2.0 * stretch)

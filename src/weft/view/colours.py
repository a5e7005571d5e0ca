"""Colours: one pair (front, back) a body, and colour maps with even steps of lightness.

The maps are built in OKLab, a space in which equal distances look equally different, so they need no table and no
plotting package.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from weft.cache import Cache

Floats = NDArray[np.float64]

# lightness, chroma and hue (degrees) of the cloths, in the order of the bodies: indigo, terracotta, sage, ochre, plum
CLOTHS = ((0.52, 0.115, 258.0), (0.62, 0.125, 40.0), (0.66, 0.070, 150.0), (0.74, 0.120, 82.0), (0.50, 0.100, 340.0))
COLLIDER = (0.78, 0.012, 75.0)

# from the linear light of OKLab's cone responses to linear sRGB (B. Ottosson, 2020)
_CONES = np.array(
    [[1.0, 0.3963377774, 0.2158037573], [1.0, -0.1055613458, -0.0638541728], [1.0, -0.0894841775, -1.2914855480]]
)
_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.7076147010],
    ]
)


class Pair(NamedTuple):
    """The two sides of a body, sRGB in 0..1."""

    front: Floats
    back: Floats


def to_srgb(linear: ArrayLike) -> Floats:
    """Linear light to sRGB, both in 0..1 (clipped)."""
    x = np.clip(np.asarray(linear, dtype=np.float64), 0.0, 1.0)
    return np.where(x <= 0.0031308, 12.92 * x, 1.055 * x ** (1 / 2.4) - 0.055)


def to_linear(srgb: ArrayLike) -> Floats:
    """sRGB to linear light, both in 0..1."""
    x = np.asarray(srgb, dtype=np.float64)
    return np.where(x <= 0.04045, x / 12.92, ((x + 0.055) / 1.055) ** 2.4)


def from_lch(lightness: ArrayLike, chroma: ArrayLike, hue_deg: ArrayLike) -> Floats:
    """OKLab lightness, chroma and hue to sRGB in 0..1, clipped where the screen cannot show it."""
    hue = np.radians(np.asarray(hue_deg, dtype=np.float64))
    lab = np.stack(np.broadcast_arrays(lightness, chroma * np.cos(hue), chroma * np.sin(hue)), axis=-1)
    return to_srgb((lab @ _CONES.T) ** 3 @ _RGB.T)


def _ramp(t: Floats) -> Floats:
    # dark violet to pale yellow; lightness rises evenly
    return from_lch(0.25 + 0.68 * t, 0.13 + 0.02 * np.sin(np.pi * t), 300.0 - 195.0 * t)


def _balance(t: Floats) -> Floats:
    # blue (below zero) through near white to red (above zero); lightness falls evenly to both sides
    side = 2.0 * t - 1.0
    return from_lch(0.95 - 0.47 * np.abs(side), 0.19 * np.abs(side) ** 0.8, np.where(side < 0.0, 255.0, 28.0))


_STEPS = np.linspace(0.0, 1.0, 256)
SEQUENTIAL = _ramp(_STEPS)
DIVERGING = _balance(_STEPS)
# regions of tangles as the analysis names them: none (a quiet grey), black, white, red
TANGLES = from_lch([0.72, 0.25, 0.98, 0.58], [0.03, 0.02, 0.0, 0.2], [230.0, 260.0, 0.0, 27.0])


def map_colours(values: ArrayLike, low: float, high: float, table: Floats) -> Floats:
    """Look `values` up in a colour table that spans low..high; (n, 3) sRGB. NaN becomes mid grey."""
    v = np.asarray(values, dtype=np.float64)
    t = np.clip((v - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    known = np.isfinite(t)
    colours = table[np.rint(np.where(known, t, 0.0) * (len(table) - 1)).astype(np.intp)]
    return np.where(known[:, None], colours, 0.5)


def _darker(front: Floats) -> Floats:
    # the reverse of a cloth: less light, and a third of the way to grey
    linear = to_linear(front)
    return to_srgb((0.65 * linear + 0.35 * linear.mean()) * 0.62)


def from_hex(colour: str) -> Floats:
    """ "#rrggbb" to sRGB in 0..1."""
    return np.array([int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)])


def body_colours(cache: "Cache", scene: Any) -> list[Pair]:
    """The two colours of every body: its own where the scene gives one, else the next of the palette, or grey."""
    given = {
        part.name: from_hex(part.colour)
        for part in (*getattr(scene, "cloths", ()), *getattr(scene, "colliders", ()))
        if part.colour is not None
    }
    pairs = []
    cloths = 0
    for body in cache.bodies:
        front = given.get(body.name)
        if body.kind == "cloth":
            front = from_lch(*CLOTHS[cloths % len(CLOTHS)]) if front is None else front
            pairs.append(Pair(front, _darker(front)))
            cloths += 1
        else:
            front = from_lch(*COLLIDER) if front is None else front
            pairs.append(Pair(front, 0.8 * front))
    return pairs

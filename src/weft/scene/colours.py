"""Colours of bodies in pictures and in files for other programs, and conversions between sRGB, linear light and OKLab.

The palette is given in OKLab (B. Ottosson, 2020), where equal distances look equally different.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

# lightness, chroma and hue (degrees) of the cloths, in the order of the bodies: indigo, terracotta, sage, ochre, plum
CLOTH_PALETTE = (
    (0.52, 0.115, 258.0),
    (0.62, 0.125, 40.0),
    (0.66, 0.070, 150.0),
    (0.74, 0.120, 82.0),
    (0.50, 0.100, 340.0),
)
COLLIDER_COLOUR = (0.78, 0.012, 75.0)

# from OKLab to the cube roots of its cone responses, and from the cone responses to linear sRGB
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


class BodyColours(NamedTuple):
    """The colours of the two sides of a body, sRGB in 0..1."""

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


def _darker(front: Floats) -> Floats:
    # the reverse of a cloth: less light, and a third of the way to grey
    linear = to_linear(front)
    return to_srgb((0.65 * linear + 0.35 * linear.mean()) * 0.62)


def from_hex(colour: str) -> Floats:
    """ "#rrggbb" to sRGB in 0..1."""
    return np.array([int(colour[i : i + 2], 16) / 255.0 for i in (1, 3, 5)])


def body_colours(bodies: Iterable[Any], scene: Any) -> list[BodyColours]:
    """The colours of bodies with a name and a kind: the scene's where it gives one, else the next of the palette or grey.

    scene: the scene of these bodies, or None.
    """
    given = {
        body.name: from_hex(body.colour)
        for body in (*getattr(scene, "cloths", ()), *getattr(scene, "colliders", ()))
        if body.colour is not None
    }
    pairs = []
    cloths = 0
    for body in bodies:
        front = given.get(body.name)
        if body.kind == "cloth":
            front = from_lch(*CLOTH_PALETTE[cloths % len(CLOTH_PALETTE)]) if front is None else front
            pairs.append(BodyColours(front, _darker(front)))
            cloths += 1
        else:
            front = from_lch(*COLLIDER_COLOUR) if front is None else front
            pairs.append(BodyColours(front, 0.8 * front))
    return pairs

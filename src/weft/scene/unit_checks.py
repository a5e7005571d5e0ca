"""Warnings about numbers that are valid but probably in the wrong unit, such as a cloth 3 m thick, and about needles."""

import math
import warnings
from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from weft.errors import WeftWarning
from weft.mesh import TriMesh
from weft.scene.material import Material
from weft.scene.messages import Key
from weft.scene.motion import MotionModel, Path
from weft.scene.scene import Forces, Scene

# generous limits of real cloth and of what is done with it: m, kg/m^2, kg/m^2, N m, m/s, m, m
_THICKEST = 0.05
_HEAVIEST = 5.0
_LIGHTEST = 0.005
_STIFFEST_BEND = 0.01
_FASTEST = 100.0
_LARGEST = 20.0
_SMALLEST = 0.005
# length over height of a triangle: methods with position-based dynamics are stable up to some 300
_SLIMMEST = 100.0


def warn_of_units(scene: Scene) -> None:
    """Warn of each number of the scene that is probably in the wrong unit."""
    for key, text in suspicious_numbers(scene):
        warn(scene, key, text)


def warn(scene: Scene, key: Key, text: str) -> None:
    """One warning about one key."""
    warnings.warn(scene.problem(key, text), WeftWarning, stacklevel=3)


def suspicious_numbers(scene: Scene) -> Iterator[tuple[Key, str]]:
    """Every number that is probably in the wrong unit: its key and a message."""
    if scene.thickness > _THICKEST:
        yield ("thickness",), _too_thick(scene.thickness)
    yield from _suspicious_forces(scene.forces)
    for key, motion in motions(scene):
        if isinstance(motion, Path):
            yield from _suspicious_turns(key, motion)
    for i, cloth in enumerate(scene.cloths):
        for name, text in _suspicious_material(cloth.material):
            yield ("cloths", i, "material", name), text
        speed = math.hypot(*cloth.velocity)
        if speed > _FASTEST:
            yield ("cloths", i, "velocity"), f"{speed:g} m/s is very fast: velocities are in metres a second"


def motions(scene: Scene) -> Iterator[tuple[Key, MotionModel]]:
    """All motions of the pins and colliders of a scene, with their keys."""
    for i, cloth in enumerate(scene.cloths):
        for j, pin in enumerate(cloth.pins):
            yield ("cloths", i, "pins", j, "motion"), pin.motion
    for i, collider in enumerate(scene.colliders):
        yield ("colliders", i, "motion"), collider.motion


def _suspicious_turns(key: Key, path: Path) -> Iterator[tuple[Key, str]]:
    """Rotations take the shorter way, so a full turn between two keyframes would not turn at all."""
    for i, (a, b) in enumerate(pairwise(path.keyframes)):
        most = max(abs(q - p) for p, q in zip(a.rotation_deg, b.rotation_deg, strict=True))
        if most > 180.0:
            yield (
                (*key, "keyframes", i + 1, "rotation_deg"),
                f"turns by {most:g} degrees from the keyframe before, and goes the shorter way instead: put a keyframe "
                "between, or use a spin",
            )


def suspicious_size(vertices: np.ndarray, scale_key: str = "placement.scale") -> str | None:
    """A message if the size of a placed body is suspicious, else None."""
    extent = float(np.ptp(vertices, axis=0).max())
    if extent > _LARGEST:
        unit, factor = ("millimetres", 0.001) if extent >= 500.0 else ("centimetres", 0.01)
        return f"is {extent:.4g} m large: is the mesh in {unit}? then write {scale_key} = {factor:g}"
    if extent < _SMALLEST:
        return f"is only {extent * 1000.0:.3g} mm large: lengths are in metres"
    return None


def suspicious_needle(mesh: TriMesh) -> str | None:
    """A message if a triangle of a cloth is so slim that its bending makes cloth unstable, else None."""
    longest = mesh.rest_lengths[mesh.face_edges].max(axis=1, initial=0.0)
    slimness = longest**2 / np.maximum(2.0 * mesh.rest_areas, np.finfo(np.float64).tiny)
    if not len(slimness) or slimness.max() <= _SLIMMEST:
        return None
    needle = int(slimness.argmax())
    count = int((slimness > _SLIMMEST).sum())
    others = f" (and {count - 1:,} more are needles)" if count > 1 else ""
    return (
        f"triangle {needle} is {slimness[needle]:.3g} times as long as high{others}: such cloth can become unstable; mesh it "
        "anew with triangles of about one size"
    )


def _suspicious_material(material: Material) -> Iterator[tuple[str, str]]:
    if material.density > _HEAVIEST:
        yield (
            "density",
            f"{material.density:g} kg/m^2 is heavier than any cloth: is it in g/m^2? then write "
            f"{material.density / 1000.0:g}",
        )
    if material.density < _LIGHTEST:
        yield "density", f"{material.density:g} kg/m^2 is lighter than any cloth: densities are in kg/m^2"
    if material.mean("bend") > _STIFFEST_BEND:
        yield "bend", f"{material.mean('bend'):g} N m is stiffer than any cloth: cotton has about 2e-5"
    if material.damping > 0.1:
        yield "damping", f"{material.damping:g} s stops cloth in the air: cotton has about 5e-4"
    if material.thickness is not None and material.thickness > _THICKEST:
        yield "thickness", _too_thick(material.thickness)


def _suspicious_forces(forces: Forces) -> Iterator[tuple[Key, str]]:
    x, y, z = forces.gravity
    size = math.hypot(x, y, z)
    if y > 0.0:
        yield ("forces", "gravity"), f"points up ({y:g} along y, and y is up): write {-y:g} to let things fall"
    elif y == 0.0 and abs(z) > 1.0:
        yield ("forces", "gravity"), f"points along z, and y is up: write [0, {-abs(z):g}, 0]"
    if size > 100.0:
        yield ("forces", "gravity"), f"is {size:g} m/s^2: is it in cm/s^2? on earth it is 9.81 m/s^2"
    if forces.wind is not None:
        speed = math.hypot(*forces.wind.velocity)
        if speed > _FASTEST:
            yield ("forces", "wind", "velocity"), f"{speed:g} m/s is stronger than any storm: is it in km/h?"


def _too_thick(thickness: float) -> str:
    return f"{thickness:g} m is thicker than any cloth: is it in millimetres? then write {thickness / 1000.0:g}"

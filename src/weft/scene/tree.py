"""A scene as a short tree of lines, for `print` and notebooks."""

from typing import Any

from weft.mesh import TriMesh
from weft.scene.bodies import Cloth, Collider
from weft.scene.shape import AnyShape


def scene_tree(scene: Any) -> str:
    """The scene in a line, and below it a line for each body, seam and force."""
    length = f"{scene.frames:,} frames at {scene.fps:g}/s ({scene.frames / scene.fps:.3g} s)"
    head = f"Scene {scene.name!r}: {length}, {scene.method.name} on {scene.device}"
    lines = [f"cloth {cloth.name}: {_cloth(cloth)}" for cloth in scene.cloths]
    lines += [f"collider {body.name}: {_collider(body)}" for body in scene.colliders]
    for seam in scene.seams:
        stitches = f"{len(seam.vertices):,} stitches" if seam.vertices is not None else str(seam.file)
        lines.append(f"seam {seam.cloth} to {seam.to or 'itself'}: {stitches}, {seam.kind}")
    wind = scene.forces.wind
    if wind is not None:
        lines.append(f"wind {_vector(wind.velocity)} m/s")
    if scene.forces.gravity != (0.0, -9.81, 0.0):
        lines.append(f"gravity {_vector(scene.forces.gravity)} m/s^2")
    marks = ["├─ "] * (len(lines) - 1) + ["└─ "] * bool(lines)
    return "\n".join([head, *(mark + line for mark, line in zip(marks, lines, strict=True))])


def _cloth(cloth: Cloth) -> str:
    pins = f", {len(cloth.pins)} pin{'s' * (len(cloth.pins) != 1)}" if cloth.pins else ""
    return f"{_source(cloth)}, {cloth.material.preset}{_place(cloth)}{pins}"


def _collider(body: Collider) -> str:
    motion = "" if body.motion.kind == "still" else f", {body.motion.kind}"
    return f"{_source(body)}{_place(body)}{motion}"


def _source(body: Cloth | Collider) -> str:
    if body.shape is not None:
        return _shape(body.shape)
    if isinstance(body.mesh, TriMesh):
        return f"mesh of {len(body.mesh.vertices):,} vertices, {len(body.mesh.faces):,} triangles"
    part = f" ({body.object})" if body.object else ""
    return f"{body.mesh}{part}" if body.mesh is not None else "the mesh of its sequence"


def _shape(shape: AnyShape) -> str:
    """The kind of a shape and its lengths."""
    sizes = []
    for name in ("size", "length", "width", "radius", "height"):
        value = getattr(shape, name, None)
        if value is not None:
            text = " x ".join(f"{v:g}" for v in value) if isinstance(value, tuple) else f"{value:g}"
            sizes.append(f"{text} m" if name == "size" else f"{name} {text} m")
    return " ".join([shape.kind, ", ".join(sizes)])


def _place(body: Cloth | Collider) -> str:
    return f" at {_vector(body.placement.position)}" if any(body.placement.position) else ""


def _vector(values: tuple[float, ...]) -> str:
    return "(" + ", ".join(f"{v:g}" for v in values) + ")"

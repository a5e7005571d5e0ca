"""Animations of glTF 2: keyframes of nodes and of morph weights, interpolated."""

from pathlib import Path

import numpy as np

from weft.errors import MeshError
from weft.mesh.formats.gltf import Channel, GltfScene
from weft.mesh.formats.gltf_document import GltfDocument
from weft.mesh.validate import Floats


class GltfAnimation(GltfScene):
    """One animation of a glTF file: the positions of all vertices at a time."""

    def __init__(self, path: Path, animation: str | None = None) -> None:
        self._animation = animation
        super().__init__(path)

    def _open(self, document: GltfDocument) -> None:
        super()._open(document)
        self.channels, times = _read_channels(document, self._animation)
        self.start, self.end = float(times[0]), float(times[-1])
        steps = np.diff(times)
        even = len(steps) > 0 and float(np.ptp(steps)) < 1e-3 * float(steps.min())
        self.rate = float(1.0 / np.mean(steps)) if even else None
        """keyframes a second, where all of them have equal distances"""
        # find damaged data now instead of in the middle of a run
        self.vertices(self.start)


def _read_channels(document: GltfDocument, name: str | None) -> tuple[dict[tuple[int, str], Channel], Floats]:
    """The animated properties, (node, property) -> value at a time, and the times of all keyframes, ascending."""
    animations = document.items("animations")
    if not animations:
        raise MeshError("it holds no animation")
    names = [str(a.get("name", i)) for i, a in enumerate(animations)]
    if name is None and len(animations) > 1:
        raise MeshError(f"it holds {len(animations)} animations ({', '.join(names)}): name one of them with array")
    if name is not None and name not in names:
        raise MeshError(f"it holds no animation called {name!r}; it has {', '.join(names)}")
    animation = animations[0 if name is None else names.index(name)]
    channels: dict[tuple[int, str], Channel] = {}
    keyframes: list[Floats] = []
    for channel in animation.get("channels", []):
        target = channel["target"]
        if "node" not in target:
            continue
        if target["path"] not in ("translation", "rotation", "scale", "weights"):
            raise MeshError(f"its animation moves {target['path']!r}, which weft does not read")
        sampler = animation["samplers"][channel["sampler"]]
        times = document.array(sampler["input"]).astype(np.float64)
        if len(times) == 0 or not (np.isfinite(times).all() and np.all(np.diff(times) > 0.0)):
            raise MeshError("its animation has keyframes that are not in the order of their times")
        values = document.array(sampler["output"]).astype(np.float64)
        # morph weights are stored one after the other
        values = values.reshape(len(times) * (3 if sampler.get("interpolation") == "CUBICSPLINE" else 1), -1)
        channels[target["node"], target["path"]] = _channel(
            times, values, sampler.get("interpolation", "LINEAR"), rotation=target["path"] == "rotation"
        )
        keyframes.append(times)
    if not channels:
        raise MeshError("its animation moves nothing")
    return channels, np.unique(np.concatenate(keyframes))


def _channel(times: Floats, values: Floats, interpolation: str, *, rotation: bool) -> Channel:
    """The value of a property as a function of time, interpolated as glTF defines it (specification, appendix C)."""
    if interpolation not in ("STEP", "LINEAR", "CUBICSPLINE"):
        raise MeshError(f"its animation uses the interpolation {interpolation!r}, which glTF does not know")
    cubic = interpolation == "CUBICSPLINE"
    keys = values[1::3] if cubic else values

    def at(time: float) -> Floats:
        i = int(np.searchsorted(times, time, side="right")) - 1
        if i < 0 or i >= len(times) - 1 or interpolation == "STEP":
            return keys[min(max(i, 0), len(times) - 1)]
        gap = times[i + 1] - times[i]
        u = (time - times[i]) / gap
        if cubic:
            leaving, arriving = gap * values[3 * i + 2], gap * values[3 * i + 3]
            blend = u * u * (3.0 - 2.0 * u)
            between = (1.0 - blend) * keys[i] + blend * keys[i + 1]
            between += u * (1.0 - u) * ((1.0 - u) * leaving - u * arriving)
            return between
        if rotation:
            return _slerp(keys[i], keys[i + 1], u)
        return (1.0 - u) * keys[i] + u * keys[i + 1]

    return at


def _slerp(a: Floats, b: Floats, u: float) -> Floats:
    """Spherical interpolation between two unit quaternions, along the shorter arc."""
    cosine = float(a @ b)
    if cosine < 0.0:
        b, cosine = -b, -cosine
    if cosine > 0.9995:
        return (1.0 - u) * a + u * b
    angle = np.arccos(cosine)
    blended: Floats = (np.sin((1.0 - u) * angle) * a + np.sin(u * angle) * b) / np.sin(angle)
    return blended

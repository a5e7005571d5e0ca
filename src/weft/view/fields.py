"""Quantities that cloth can be coloured by (strain, speed, tangles), one number a vertex, and their colour maps.

The maps are built in OKLab with even steps of lightness, so they need no table and no plotting package.
"""

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from weft.cache import scene_of
from weft.errors import WeftError
from weft.mesh.topology import unique_edges
from weft.scene.colours import Floats, from_lch
from weft.view.camera import sample_frames

if TYPE_CHECKING:
    from weft.cache import Cache

Colour = Literal["body", "strain", "speed", "tangles"]
COLOURS: tuple[Colour, ...] = get_args(Colour)


def check_colour(colour: str) -> None:
    """Raise an error for a colouring that is not one of `COLOURS`."""
    if colour not in COLOURS:
        raise WeftError(f"colour {colour!r} is not known: use one of {', '.join(COLOURS)}")


def _sequential(t: Floats) -> Floats:
    # dark violet to pale yellow; lightness rises evenly
    return from_lch(0.25 + 0.68 * t, 0.13 + 0.02 * np.sin(np.pi * t), 300.0 - 195.0 * t)


def _diverging(t: Floats) -> Floats:
    # blue (below zero) through near white to red (above zero); lightness falls evenly to both sides
    side = 2.0 * t - 1.0
    return from_lch(0.95 - 0.47 * np.abs(side), 0.19 * np.abs(side) ** 0.8, np.where(side < 0.0, 255.0, 28.0))


_STEPS = np.linspace(0.0, 1.0, 256)
SEQUENTIAL = _sequential(_STEPS)
DIVERGING = _diverging(_STEPS)
# outside of tangles (grey), then black, white and red regions of the intersection analysis
TANGLES = from_lch([0.72, 0.25, 0.98, 0.58], [0.03, 0.02, 0.0, 0.2], [230.0, 260.0, 0.0, 27.0])


def map_colours(values: ArrayLike, low: float, high: float, table: Floats) -> Floats:
    """Look `values` up in a colour table that spans low..high; (n, 3) sRGB. NaN becomes mid grey."""
    v = np.asarray(values, dtype=np.float64)
    t = np.clip((v - low) / (high - low if high > low else 1.0), 0.0, 1.0)
    known = np.isfinite(t)
    colours = table[np.rint(np.where(known, t, 0.0) * (len(table) - 1)).astype(np.intp)]
    return np.where(known[:, None], colours, 0.5)


class Field:
    """Strain, speed or tangles of a cache's vertices, with a scale that is the same for all frames.

    Strain at a vertex is the mean over its edges of length / rest length - 1. Rest lengths come from the flat rest shape
    (`cache.uv`, or the texture coordinates of corners where the scene says so) where a body has one, else from frame 0.
    Colliders have no strain: they are NaN. Tangles are the classes of the global intersection analysis: 0 outside of tangles,
    1, 2 and 3 in black, white and red regions.
    """

    def __init__(self, cache: "Cache", colour: Colour) -> None:
        self.cache = cache
        self.colour = colour
        self.table = {"strain": DIVERGING, "tangles": TANGLES}.get(colour, SEQUENTIAL)
        self.label = {"strain": "strain", "tangles": "free, black, white, red"}.get(colour, "speed (m/s)")
        if colour == "strain":
            self._prepare_strain()
        if colour == "tangles":
            self._prepare_tangles()
        self.low, self.high = (0.0, 3.0) if colour == "tangles" else self._scale()

    def _prepare_strain(self) -> None:
        cache = self.cache
        start = cache.positions(0)
        # uv of a mesh file may be texture coordinates: they are the rest shape only where the scene says so
        cloths = getattr(scene_of(cache), "cloths", ())
        placed = {c.name for c in cloths if c.mesh is not None and c.rest != "uv"}
        flat = {c.name for c in cloths if c.mesh is not None and c.rest == "uv"}
        edges, rest = [], []
        for body in (body for body in cache.bodies if body.kind == "cloth"):
            if body.name in flat and cache[body.name].uv is None and cache.details(body).corner_uv is not None:
                sewn = cache[body.name].mesh(0).resting_in_corners()
                edges.append(sewn.edges + body.vertices.start)
                rest.append(sewn.resting_in_corners().rest_lengths)
                continue
            own = unique_edges(cache.faces[body.faces])
            shape = start
            if cache.uv is not None and body.name not in placed and np.isfinite(cache.uv[body.vertices]).all():
                shape = cache.uv
            edges.append(own)
            rest.append(np.linalg.norm(shape[own[:, 0]] - shape[own[:, 1]], axis=1))
        self._edges = np.concatenate(edges) if edges else np.empty((0, 2), np.int32)
        self._rest = np.maximum(np.concatenate(rest), np.finfo(float).tiny) if rest else np.empty(0)
        self._degree = np.bincount(self._edges.ravel(), minlength=len(start))

    def _prepare_tangles(self) -> None:
        from weft.analysis import Analyser
        from weft.cache.seams import stitches_of

        cache = self.cache
        cloths = [body for body in cache.bodies if body.kind == "cloth"]
        faces = [cache.faces[body.faces] for body in cloths]
        count = max((body.vertices.stop for body in cache.bodies), default=0)
        # the stitches that a subdivided cache keeps name vertices of its source
        subdivided = cache.origin.get("finish", {}).get("total", 0)
        seams = None if subdivided else stitches_of(cache)
        self._analyser = Analyser(np.concatenate([np.empty((0, 3), np.int32), *faces]), count, seams=seams)
        self._is_cloth = np.zeros(count, dtype=bool)
        for body in cloths:
            self._is_cloth[body.vertices] = True

    def values(self, frame: int) -> Floats:
        """One number a vertex at a frame; NaN where the field does not exist."""
        if self.colour == "tangles":
            from weft.analysis import vertex_classes

            classes = vertex_classes(self._analyser.analyse(self.cache.positions(frame)))
            return np.where(self._is_cloth, classes, np.nan)
        if self.colour == "speed":
            return np.linalg.norm(self.cache.velocities(frame), axis=1)
        x = self.cache.positions(frame)
        a, b = self._edges.T
        strain = np.linalg.norm(x[a] - x[b], axis=1) / self._rest - 1.0
        total = np.bincount(a, strain, len(x)) + np.bincount(b, strain, len(x))
        with np.errstate(invalid="ignore"):
            return np.where(self._degree > 0, total / np.maximum(self._degree, 1), np.nan)

    def _scale(self) -> tuple[float, float]:
        frames = sample_frames(self.cache.frames)
        # 99 % of the vertices lie inside the scale; those beyond it take the end colour
        tops = [np.nanpercentile(np.abs(v), 99.0) for v in map(self.values, frames) if np.isfinite(v).any()]
        top = max([*map(float, tops), 0.01])
        return (-top, top) if self.colour == "strain" else (0.0, top)

    def colours(self, frame: int) -> Floats:
        """(n, 3) sRGB colours in 0..1 at a frame."""
        return map_colours(self.values(frame), self.low, self.high, self.table)

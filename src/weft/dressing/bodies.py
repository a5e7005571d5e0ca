"""The bodies that wear garments: still or animated, from files of all kinds, and what is wrong with them."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import ConvexHull, QhullError, cKDTree

from weft.dressing.arrange import cut_edges, tube_girths
from weft.errors import MeshError, WeftError, WeftWarning
from weft.garment import CutGarment, Pattern
from weft.mesh import TriMesh, load_mesh
from weft.mesh.sequences import read_sequence

Floats = NDArray[np.float64]

# a tube of cloth is far too small if it reaches around less than this part of the body everywhere along it; knitted cloth
# stretches to 1.4 times its length
LEAST_GIRTH = 0.65
# of the height of the body, what the largest panel of a garment measures at least: a wristband measures a tenth
LEAST_PANEL = 0.08
# m: how tall a body may be; others are in another unit
SMALLEST_BODY, LARGEST_BODY = 0.1, 5.0


@dataclass(frozen=True)
class DressBody:
    """A body in the pose in which it is dressed, and what it does afterwards."""

    mesh: TriMesh
    path: Path | None
    frames: Floats | None = None
    """(f, n, 3) its positions in time, where it is animated"""
    fps: float = 60.0

    def same_triangles(self, other: "DressBody") -> bool:
        """Whether both bodies are the same mesh in different shapes."""
        return len(self.mesh.vertices) == len(other.mesh.vertices) and np.array_equal(self.mesh.faces, other.mesh.faces)

    def blended(self, seconds: float) -> Floats:
        """(f, n, 3) the frames, after a passage from the pose of the drape to the first one, slow at both ends."""
        assert self.frames is not None
        first = self.frames[0]
        if np.abs(first - self.mesh.vertices).max() < 1e-6:
            return self.frames
        count = max(1, round(seconds * self.fps))
        t = np.arange(count) / count
        eased = (t * t * (3.0 - 2.0 * t))[:, None, None]
        return np.concatenate([(1.0 - eased) * self.mesh.vertices + eased * first, self.frames])


def read_body(body: str | Path | TriMesh, *, motion: str | Path | None = None, fps: float | None = None) -> DressBody:
    """A body from a mesh or its file; the first frame of an animated one, unless another pose is given with its motion."""
    path = None if isinstance(body, TriMesh) else Path(body)
    try:
        mesh = body if isinstance(body, TriMesh) else load_mesh(body, uv=False)
    except MeshError as error:
        raise WeftError(f"the body {error}") from None
    if motion is None:
        return DressBody(mesh, path)
    sequence = read_sequence(motion, fps=fps)
    if sequence.vertex_count != len(mesh.vertices):
        raise WeftError(
            f"{motion} has {sequence.vertex_count} vertices and the body has {len(mesh.vertices)}: an animation moves the "
            "vertices of its own body"
        )
    if sequence.faces is not None and not np.array_equal(sequence.faces, mesh.faces):
        raise WeftError(
            f"{motion} and the body have different triangles: an animation moves the vertices of its own body"
        )
    frames = np.stack([sequence.vertices(i) for i in range(len(sequence))])
    step = (sequence.times[-1] - sequence.times[0]) / max(1, len(sequence) - 1)
    return DressBody(mesh, path, frames, 1.0 / step if step > 0.0 else 60.0)


def check_body(body: DressBody, patterns: Sequence[Pattern]) -> None:
    """Refuse a body in wrong units, and patterns that are not placed around it; warn of holes.

    Nothing is cut yet: a pattern whose unit is off by ten has a hundred times as many triangles.
    """
    low, high = body.mesh.bounds
    height = float(high[1] - low[1])
    name = body.path.name if body.path is not None else "the body"
    if not SMALLEST_BODY <= height <= LARGEST_BODY:
        unit = "in centimetres" if height > LARGEST_BODY else "in kilometres or the like"
        raise WeftError(f"{name} is {height:.3g} m tall: it is probably {unit}; weft reads metres, y up")
    for pattern in patterns:
        largest = max(pattern.panels, key=lambda panel: panel.size)
        if largest.size < LEAST_PANEL * height:
            raise WeftError(
                f"{pattern.name} is far too small for the body: panel {largest.name!r}, the largest, is "
                f"{100 * largest.size:.1f} cm long, and the body {100 * height:.0f} cm tall; look at properties.units_in_meter"
            )
        outlines = np.concatenate([panel.placed(panel.outline) for panel in pattern.panels])
        middle = 0.5 * (outlines.min(axis=0) + outlines.max(axis=0))
        if (middle < low).any() or (middle > high).any():
            at = ", ".join(f"{x:.2f}" for x in middle)
            raise WeftError(
                f"{pattern.name}: its panels stand around [{at}] m, which is not in {name}; move the body, y up and facing "
                "z, or look at properties.units_in_meter"
            )
    holes = len(body.mesh.boundary_loops)
    if holes:
        count = "1 hole" if holes == 1 else f"{holes} holes"
        first = int(body.mesh.boundary_loops[0][0])
        text = f"{name} has {count}, one of them at vertex {first}: cloth that covers a hole can sink into it"
        warnings.warn(text, WeftWarning, stacklevel=2)


def check_girth(body: TriMesh, cut: CutGarment) -> None:
    """Refuse a garment that is far too small for the body: its tubes are, everywhere along them."""
    for axis, middle, places, girths in tube_girths(cut):
        around = np.array([_girth_of_body(body, axis, middle, height) for height in places])
        there = (around > 0.0) & (girths > 0.0)
        if not there.any():
            continue
        ratios = np.where(there, girths / np.where(there, around, 1.0), 0.0)
        best = int(np.argmax(ratios))
        if ratios[best] < LEAST_GIRTH:
            raise WeftError(
                f"{cut.pattern.name} is far too small for the body: it is {100 * girths[best]:.0f} cm around where the body "
                f"is {100 * around[best]:.0f} cm; look at properties.units_in_meter, or take another size"
            )


def _girth_of_body(body: TriMesh, axis: Floats, middle: Floats, height: float) -> float:
    """How far a tape is around the part of a body nearest to the middle of a tube, m; 0 where the plane misses it."""
    one, other = cut_edges(body.vertices, body.faces, axis, height)
    if len(one) < 3:
        return 0.0
    points = np.concatenate([one, other])
    # segments of neighbouring triangles end at the same point, but for rounding
    pairs = cKDTree(points).query_pairs(1e-9, output_type="ndarray")
    count = len(one)
    links = np.concatenate([pairs, np.stack([np.arange(count), np.arange(count) + count], axis=1)])
    graph = coo_array((np.ones(len(links), np.int8), (links[:, 0], links[:, 1])), shape=(2 * count, 2 * count))
    _, loops = connected_components(graph, directed=False)
    # in the plane; of several parts, arms and trunk, the one whose middle is the nearest
    across = np.linalg.svd(np.eye(3) - np.outer(axis, axis))[0][:, :2]
    flat = (points - middle) @ across
    centres = np.stack([np.bincount(loops, column) for column in flat.T], axis=1) / np.bincount(loops)[:, None]
    own = flat[loops == np.argmin(np.linalg.norm(centres, axis=1))]
    try:
        return float(ConvexHull(own).area)
    except QhullError:
        return 0.0

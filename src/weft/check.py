"""Intersections in the frames of a cache, counted independently of the method that wrote them.

Cloth is checked against itself, other cloths and colliders; colliders are not checked against each other. Pairs of
triangles that a seam joins directly are left out (see `sewn_pairs`): they are meant to touch.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft import __version__
from weft.cache import Cache, choose_frames
from weft.cache.frames import Frames
from weft.cache.seams import sewn_triangles
from weft.errors import CacheError, MeshError, writing
from weft.geometry.crossing_curves import crossing_points, crossing_segments
from weft.geometry.intersection import IntersectionFinder, cloth_pairs, face_bodies

# half the length of the line that marks an intersection, as a fraction of the cloth's extent: an intersection may be far
# smaller than a pixel
TICK = 0.004


@dataclass(frozen=True)
class FrameCheck:
    """The intersections of one frame."""

    frame: int
    time: float
    intersections: int
    bodies: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """number of intersections of each pair of bodies (a cloth with itself: its name twice), largest first"""

    def describe(self) -> dict[str, Any]:
        """The result as plain values, for JSON."""
        pairs = [{"bodies": list(pair), "intersections": count} for pair, count in self.bodies.items()]
        return {"frame": self.frame, "time": self.time, "intersections": self.intersections, "pairs": pairs}


@dataclass(frozen=True)
class CheckResult:
    """The frames that were checked, in order."""

    frames: tuple[FrameCheck, ...]

    @property
    def intersections(self) -> int:
        """The sum over all frames."""
        return sum(frame.intersections for frame in self.frames)

    @property
    def clean(self) -> bool:
        """Whether no frame has an intersection."""
        return self.intersections == 0

    @property
    def worst(self) -> FrameCheck | None:
        """The first frame with the largest number; None if no frame was checked."""
        return max(self.frames, key=lambda frame: frame.intersections, default=None)

    def describe(self) -> dict[str, Any]:
        """The result as plain values, for JSON."""
        return {
            "clean": self.clean,
            "intersections": self.intersections,
            "worst": self.worst.describe() if self.worst else None,
            "frames": [frame.describe() for frame in self.frames],
        }


# the columns of a report that say what a method did about crossings, as far as it has them
PROMISES = ("released", "crossing", "opened", "newly_crossing")


def certificate(cache: Cache, result: CheckResult) -> dict[str, Any]:
    """What can be kept of a checked cache, as plain values for JSON: what it was computed from, and exact counts.

    `scene` is a hash of all that the frames were computed from (settings, geometry, files, kind of device), and `positions`
    one of the positions of all frames that were checked: equal hashes mean equal frames.
    """
    scene = hashlib.sha256(json.dumps(cache.origin, sort_keys=True).encode()).hexdigest() if cache.origin else None
    positions = hashlib.sha256()
    for frame in result.frames:
        positions.update(np.ascontiguousarray(cache.positions(frame.frame), dtype=np.float64).tobytes())
    numbers, report = [frame.frame for frame in result.frames], cache.report
    counts = {name: np.asarray(report[name], dtype=float)[numbers] for name in PROMISES if name in report}
    return {
        "certificate": 1,
        "weft": __version__,
        "computed_by": cache.meta["version"],
        "scene": scene,
        "positions": positions.hexdigest(),
        "frames": {"checked": len(numbers), "complete": cache.frames, "planned": cache.planned},
        "clean": result.clean,
        "intersections": result.intersections,
        "frames_with_intersections": sum(frame.intersections > 0 for frame in result.frames),
        "worst": result.worst.describe() if result.worst else None,
        # what the method reported, the sum over the frames
        **{name: int(np.nansum(values)) for name, values in counts.items()},
    }


def check_cache(
    cache: Cache,
    *,
    frames: Frames = None,
    colliders: bool = True,
    seams: bool = True,
    progress: Callable[[FrameCheck, int], None] | None = None,
) -> CheckResult:
    """Count the intersections of every frame, or of the given ones: numbers, a slice, or text such as "10:20".

    colliders: count those of cloth with colliders too.
    seams: leave out triangles that a seam joins directly.
    progress: called after every frame with its result and the number of frames to check.
    """
    wanted = choose_frames(cache, frames)
    finder = cache_finder(cache, colliders=colliders, seams=seams)
    checked = []
    for frame in wanted:
        checked.append(check_frame(cache, finder, frame))
        if progress is not None:
            progress(checked[-1], len(wanted))
    return CheckResult(tuple(checked))


def check_frame(cache: Cache, finder: IntersectionFinder, frame: int) -> FrameCheck:
    """Count the intersections of one frame with a finder made by `cache_finder`."""
    rows = _find(cache, finder, frame)
    return FrameCheck(frame, frame / cache.fps, len(rows), _by_bodies(cache, rows))


def cache_finder(cache: Cache, *, colliders: bool = True, seams: bool = True) -> IntersectionFinder:
    """The intersection finder for the frames of a cache."""
    checked = cloth_pairs(cache.bodies, colliders=colliders)
    ignore = sewn_triangles(cache) if seams else None
    return IntersectionFinder(cache.faces, face_body=face_bodies(cache.bodies), body_pairs=checked, ignore=ignore)


def crossing_marks(cache: Cache, frame: int, *, colliders: bool = True, seams: bool = True) -> NDArray[np.float64]:
    """The intersections of a frame as (k, 2, 3) segments to draw: cuts of triangles, and a line along each edge."""
    rows = _find(cache, cache_finder(cache, colliders=colliders, seams=seams), frame)
    x = cache.positions(frame)
    if not len(rows):
        return np.zeros((0, 2, 3))
    points = crossing_points(x, cache.faces, rows)
    along = x[rows[:, 1]] - x[rows[:, 0]]
    length = np.linalg.norm(along, axis=1, keepdims=True)
    cloth = np.concatenate([x[body.vertices] for body in cache.bodies if body.kind == "cloth"])
    tick = TICK * np.linalg.norm(np.ptp(cloth, axis=0)) * along / np.where(length > 0.0, length, 1.0)
    ticks = np.stack([points - tick, points + tick], axis=1)
    return np.concatenate([crossing_segments(x, cache.faces, rows), ticks])


def write_crossings(
    cache: Cache, result: CheckResult, path: Path, *, colliders: bool = True, seams: bool = True
) -> None:
    """Write every intersection of the frames that were checked to an npz file.

    Arrays: frames (k,), edges (k, 2) vertex numbers, triangles (k,) the triangle that the edge passes through.
    """
    finder = cache_finder(cache, colliders=colliders, seams=seams)
    rows = [np.zeros((0, 4), dtype=np.int64)]
    for frame in result.frames:
        if frame.intersections:
            found = _find(cache, finder, frame.frame)
            rows.append(np.column_stack([np.full(len(found), frame.frame), found[:, :3]]))
    table = np.concatenate(rows)
    with writing(path), path.open("wb") as file:
        np.savez(file, frames=table[:, 0], edges=table[:, 1:3], triangles=table[:, 3])


def _find(cache: Cache, finder: IntersectionFinder, frame: int) -> NDArray[np.int32]:
    try:
        return finder.find(cache.positions(frame))
    except MeshError as error:
        raise CacheError(f"frame {frame} of {cache.path} cannot be checked: {error}") from error


def _by_bodies(cache: Cache, rows: NDArray[np.int32]) -> dict[tuple[str, str], int]:
    """Number of intersections of each pair of bodies, largest first, then by name."""
    of_face = face_bodies(cache.bodies)
    of_vertex = np.zeros(max((body.vertices.stop for body in cache.bodies), default=0), dtype=np.int64)
    for number, body in enumerate(cache.bodies):
        of_vertex[body.vertices] = number
    pairs, counts = np.unique(
        np.sort(np.column_stack([of_vertex[rows[:, 0]], of_face[rows[:, 2]]]), axis=1), axis=0, return_counts=True
    )
    found = {
        (cache.bodies[one].name, cache.bodies[other].name): int(count)
        for (one, other), count in zip(pairs.tolist(), counts, strict=True)
    }
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

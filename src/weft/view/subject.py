"""What a picture is about: the scene of a cache, its cloths over all frames, its ground."""

from typing import TYPE_CHECKING

import numpy as np

from weft.cache import scene_of
from weft.errors import WeftError
from weft.scene.colours import Floats

if TYPE_CHECKING:
    from weft.cache import Body, Cache

# frames that are looked at to fix a scale or a camera; more would read the whole cache
SAMPLES = 24
MANY = 20_000

# a flat collider is drawn without an end when it is this much wider than the subject
ENDLESS = 3.0


def sample_frames(count: int) -> list[int]:
    """At most `SAMPLES` frames of `count`, evenly spread, first and last among them."""
    if count == 0:
        raise WeftError("the cache has no complete frame yet: wait for the first one, or resume the run")
    return sorted({int(f) for f in np.linspace(0, count - 1, min(count, SAMPLES)).round()})


def extent(points: Floats) -> float:
    """The diagonal of the box around some points."""
    return float(np.linalg.norm(np.ptp(points, axis=0))) if len(points) else 0.0


def some(points: Floats) -> Floats:
    """At most about `MANY` of the points, evenly taken: the margin of a picture forgives the rest."""
    return points[:: max(1, len(points) // MANY)]


def subject_points(cache: "Cache") -> Floats:
    """The points that must be in the picture: the cloths over all frames, and colliders of about their size."""
    cloths = [body for body in cache.bodies if body.kind == "cloth"] or list(cache.bodies)
    others = [body for body in cache.bodies if body not in cloths]
    if not cloths:
        raise WeftError("there is nothing to draw: the cache has no bodies")
    frames = [cache.positions(f) for f in sample_frames(cache.frames)]
    points = [some(x[body.vertices]) for x in frames for body in cloths]
    size = extent(np.concatenate(points))
    for body in others:
        shape = some(np.concatenate([frames[0][body.vertices], frames[-1][body.vertices]]))
        if extent(shape) <= 1.5 * size:
            points.append(shape)
    cloud = np.concatenate(points)
    if not np.isfinite(cloud).all():
        raise WeftError("the cache holds positions that are not finite, so there is nothing to draw from there on")
    return cloud


def ground_of(cache: "Cache", size: float) -> "Body | None":
    """The body that is drawn as the ground: a plane collider that is endless or much wider than `size`."""
    planes = {}
    for collider in getattr(scene_of(cache), "colliders", ()):
        if getattr(collider.shape, "kind", None) == "plane":
            planes[collider.name] = collider
    for body in cache.bodies:
        if body.name in planes and body.kind != "cloth":
            shape = cache.positions(0)[body.vertices]
            if planes[body.name].analytic or extent(shape) >= ENDLESS * size:
                return body
    return None

"""The camera: the scene's, or a three-quarter view in which the cloth of all frames fills the picture."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from weft.cache import scene_of
from weft.errors import WeftError
from weft.scene.colours import Floats

if TYPE_CHECKING:
    from weft.cache import Body, Cache


# at most so many frames are read to choose a camera or the scale of colours, and so many points of each body
MAX_FRAMES = 24
MAX_POINTS = 20_000

# a plane collider is drawn as endless ground if it is this many times as wide as the subject
ENDLESS = 3.0
# a collider counts as flat if its thinnest side is this fraction of its diagonal: a floor slab, but not a table
FLAT = 0.05


def sample_frames(count: int) -> list[int]:
    """At most `MAX_FRAMES` frames of `count`, evenly spread, first and last among them."""
    if count == 0:
        raise WeftError("the cache has no complete frame yet: wait for the first one, or resume the run")
    return sorted({int(f) for f in np.linspace(0, count - 1, min(count, MAX_FRAMES)).round()})


def extent(points: Floats) -> float:
    """The diagonal of the bounding box of points."""
    return float(np.linalg.norm(np.ptp(points, axis=0))) if len(points) else 0.0


def thinned(points: Floats) -> Floats:
    """At most about `MAX_POINTS` of the points, evenly taken: the margin of the picture covers the others."""
    return points[:: max(1, len(points) // MAX_POINTS)]


def subject_points(cache: "Cache") -> Floats:
    """Points that must be in the picture: all bodies in sampled frames, but no floor that is far wider than the cloth."""
    cloths = [body for body in cache.bodies if body.kind == "cloth"] or list(cache.bodies)
    others = [body for body in cache.bodies if body not in cloths]
    if not cloths:
        raise WeftError("there is nothing to draw: the cache has no bodies")
    frames = [cache.positions(f) for f in sample_frames(cache.frames)]
    cloud = subject_of(
        np.concatenate([thinned(x[body.vertices]) for x in frames for body in cloths]),
        [[x[body.vertices] for x in frames] for body in others],
    )
    if not np.isfinite(cloud).all():
        raise WeftError("the cache holds positions that are not finite, so there is nothing to draw from there on")
    return cloud


def subject_of(cloths: Floats, colliders: Sequence[Sequence[Floats]]) -> Floats:
    """The points of all cloths and of the colliders, each in several poses, that are no floor far wider than the cloth."""
    size = extent(cloths)
    shown = [thinned(pose) for poses in colliders if not _is_floor(poses[0], size) for pose in poses]
    return np.concatenate([cloths, *shown])


def _is_floor(shape: Floats, size: float) -> bool:
    """Whether a collider is flat and far wider than cloth of this size, so that only a piece of it needs to be seen."""
    flat = len(shape) > 0 and float(np.ptp(shape, axis=0).min()) <= FLAT * extent(shape)
    return flat and extent(shape) >= ENDLESS * size


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


UP = np.array([0.0, 1.0, 0.0])
FOV_DEG = 30.0

# the three-quarter view: a little to the right of the z axis, a little above
AZIMUTH_DEG = 32.0
ELEVATION_DEG = 16.0

# fraction of half the picture that the cloth may fill
FILL = 0.86

# points farther than this from the middle of the cloth at the start, in radii of that cloth, are not in a common view
COMMON_VIEW_RADIUS = 2.0


@dataclass(frozen=True)
class View:
    """A camera: where it is, what it looks at, its vertical field of view; y is up in the picture."""

    position: Floats
    target: Floats
    fov_deg: float = FOV_DEG

    @property
    def axes(self) -> tuple[Floats, Floats, Floats]:
        """Unit vectors to the right, up and forward in the picture."""
        return view_axes(self.target - self.position)


def view_axes(forward: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Right, up and forward of a camera that looks along `forward` with y up."""
    f = np.asarray(forward, dtype=np.float64)
    f = f / np.linalg.norm(f)
    right = np.cross(f, UP)
    length = np.linalg.norm(right)
    if length < 1e-6:
        # looking straight down or up: any horizontal direction can be right
        right = np.array([1.0, 0.0, 0.0]) - f[0] * f
        length = np.linalg.norm(right)
    right = right / length
    return right, np.cross(right, f), f


def fit_view(points: Floats, *, aspect: float, forward: ArrayLike | None = None, fov_deg: float = FOV_DEG) -> View:
    """The nearest camera that looks along `forward` and has all points in the picture, centred, with a margin."""
    if forward is None:
        azimuth, elevation = np.radians([AZIMUTH_DEG, ELEVATION_DEG])
        across = np.cos(elevation)
        forward = (-np.sin(azimuth) * across, -np.sin(elevation), -np.cos(azimuth) * across)
    right, up, ahead = view_axes(forward)
    tall = np.tan(np.radians(fov_deg) / 2) * FILL
    wide = tall * aspect

    # with q a point relative to the target, it is in the picture if |right . q| <= wide (distance + ahead . q), and
    # likewise upwards: every point gives a least distance of the camera
    target = (points.min(axis=0) + points.max(axis=0)) / 2
    distance = 0.0
    for last in (False, False, False, False, True):
        q = points - target
        x, y, z = q @ right, q @ up, q @ ahead
        distance = max(float(np.max(np.abs(x) / wide - z)), float(np.max(np.abs(y) / tall - z)), 1e-3)
        if last:
            break
        # move the target so that the picture has the same margin on both sides
        depth = distance + z
        sideways = (np.max(x / depth) + np.min(x / depth)) / 2 * distance
        upwards = (np.max(y / depth) + np.min(y / depth)) / 2 * distance
        target = target + sideways * right + upwards * up
    return View(target - distance * ahead, target, fov_deg)


def choose_view(cache: "Cache", *, aspect: float, camera: Any = None, points: Floats | None = None) -> View:
    """The camera to use: the given one, else the scene's; what is not set is chosen so that the cloth fits.

    A camera is anything with `position`, `target` and `fov_deg`, each of which may be None.
    """
    if isinstance(camera, View):
        return camera
    camera = camera if camera is not None else getattr(scene_of(cache), "camera", None)
    if camera is not None and not any(hasattr(camera, name) for name in ("position", "target", "fov_deg")):
        raise WeftError(f"camera is a weft.Camera with position, target and fov_deg, not {camera!r}")
    position = getattr(camera, "position", None)
    target = getattr(camera, "target", None)
    fov = float(getattr(camera, "fov_deg", None) or FOV_DEG)
    if position is not None and target is not None:
        view = View(np.asarray(position, dtype=np.float64), np.asarray(target, dtype=np.float64), fov)
    else:
        cloud = subject_points(cache) if points is None else points
        if position is not None:
            view = View(np.asarray(position, dtype=np.float64), (cloud.min(axis=0) + cloud.max(axis=0)) / 2, fov)
        else:
            view = fit_view(cloud, aspect=aspect, fov_deg=fov)
            if target is not None:
                moved = np.asarray(target, dtype=np.float64)
                view = View(view.position + moved - view.target, moved, fov)
    if not np.linalg.norm(view.target - view.position) > 0.0:
        raise WeftError("camera: position and target are the same point, so it looks nowhere; move one of them")
    return view


def common_view(caches: "list[Cache]", size: tuple[int, int]) -> View:
    """One camera for several caches of a scene: the scene's, or one that shows the last frames of all of them.

    Points beyond `COMMON_VIEW_RADIUS` are left out: one run whose cloth flew off must not shrink all others.
    """
    first = caches[0]
    start = np.concatenate([first.positions(0)[b.vertices] for b in first.bodies if b.kind == "cloth"])
    middle = start.mean(axis=0)
    farthest = COMMON_VIEW_RADIUS * np.linalg.norm(start - middle, axis=1).max()
    clouds = [start]
    for cache in caches:
        x = cache.positions(cache.frames - 1)
        for body in cache.bodies:
            points = x[body.vertices]
            if body.kind == "cloth" or not _is_floor(points, extent(start)):
                clouds.append(points[np.linalg.norm(points - middle, axis=1) < farthest])
    return choose_view(first, aspect=size[0] / size[1], points=np.concatenate(clouds))


def place_camera(server: Any, view: View, near: float, far: float) -> None:
    """Let browsers that come look from this view, at what is between two distances, m."""
    camera = server.initial_camera
    camera.position, camera.look_at, camera.fov = view.position, view.target, np.radians(view.fov_deg)
    camera.near, camera.far = near, far

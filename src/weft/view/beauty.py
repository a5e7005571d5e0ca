"""Path-traced stills and films with soft light, fabric with two sides and a seamless ground.

Mitsuba traces the light (its scalar variant, which needs neither LLVM nor a GPU). The scene is a studio: a large
lamp above, a pale sky around, and a ground that bends up behind the subject, so that there is no horizon. A picture
with motion blur is the mean of pictures at several moments while the shutter is open.
"""

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import scene_of
from weft.errors import WeftError, missing_extra
from weft.scene.colours import BodyColours, Floats, body_colours, to_linear, to_srgb
from weft.view.camera import View, choose_view, extent, ground_of, sample_frames, subject_points

if TYPE_CHECKING:
    from weft.cache import Body, Cache

# fraction of a frame during which the shutter is open, and the number of moments that are averaged
SHUTTER = 0.5
MOMENTS = 8
# radiance of the lamp and of the sky
LAMP = 14.0
SKY = 0.42
# reflectance of the ground
GROUND = (0.72, 0.70, 0.67)
# radius of the bend of the ground and its width, in sizes of the subject
BEND = 5.0
WIDTH = 40.0


class Studio:
    """Path-traces frames of one cache from one camera; use it in a `with` block."""

    def __init__(self, cache: "Cache", *, size: tuple[int, int], camera: Any, samples: int, motion_blur: bool) -> None:
        if not 1 <= samples <= 65536:
            raise WeftError(f"samples must be 1 to 65536 a pixel, not {samples}")
        self._mitsuba = find_mitsuba()
        self._cache = cache
        self._size = size
        self._samples = samples
        self._moments = MOMENTS if motion_blur else 1
        points = subject_points(cache)
        self._extent = extent(points)
        self._view: View = choose_view(cache, aspect=size[0] / size[1], camera=camera, points=points)
        self._ground = ground_of(cache, self._extent)
        self._floor = self._floor_height()
        self._bodies = [body for body in cache.bodies if body is not self._ground]
        colours = body_colours(cache.bodies, scene_of(cache))
        self._colours = {body.name: pair for body, pair in zip(cache.bodies, colours, strict=True)}
        self._surfaces = self._make_surfaces()
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._fixed: dict[str, Any] = {}

    def __enter__(self) -> "Studio":
        self._folder = tempfile.TemporaryDirectory(prefix="weft-beauty-")
        self._fixed = self._light_and_ground()
        return self

    def __exit__(self, *_: object) -> None:
        if self._folder is not None:
            self._folder.cleanup()

    def draw(self, frame: int) -> NDArray[np.uint8]:
        """The picture of a frame, (height, width, 3)."""
        x = self._cache.positions(frame)
        moments = np.zeros(1)
        if self._moments > 1:
            moments = SHUTTER * ((np.arange(self._moments) + 0.5) / self._moments - 0.5) / self._cache.fps
            velocity = self._cache.velocities(frame)
        total = np.zeros((self._size[1], self._size[0], 3))
        for number, moment in enumerate(moments):
            moved = x if moment == 0.0 else x + moment * velocity
            total += self._trace(moved, seed=frame * self._moments + number)
        return np.rint(255.0 * develop(total / len(moments))).astype(np.uint8)

    def _trace(self, x: Floats, seed: int) -> Floats:
        mi = self._mitsuba
        bodies = {f"body_{k}": self._body(k, body, x) for k, body in enumerate(self._bodies)}
        scene = mi.load_dict({"type": "scene", **self._fixed, **bodies})
        samples = max(1, round(self._samples / self._moments))
        picture = np.array(mi.render(scene, spp=samples, seed=seed), dtype=np.float64)
        return picture[:, :, :3]

    def _body(self, number: int, body: "Body", x: Floats) -> dict[str, Any]:
        """A body at positions x in Mitsuba's terms: its triangles in a file, and its material."""
        surface = self._surfaces[number]
        points, normals = surface.shape(x[body.vertices])
        path = self._file(f"body_{number}.ply")
        write_ply(path, points, normals, surface.faces)
        pair = self._colours[body.name]
        made = fabric(pair) if body.kind == "cloth" else matt(to_linear(pair.front))
        return {"type": "ply", "filename": str(path), "bsdf": made}

    def _make_surfaces(self) -> list[Any]:
        from weft.view.surface import Surface, drawn_rounding

        x, faces = self._cache.positions(0), self._cache.faces
        return [
            # light is computed at every pixel, so coarse triangles need not be split
            Surface(
                x[b.vertices],
                faces[b.faces] - b.vertices.start,
                smooth=b.kind == "cloth",
                detail=float("inf"),
                rounding=drawn_rounding(self._cache) if b.kind == "cloth" else 0.0,
            )
            for b in self._bodies
        ]

    def _floor_height(self) -> float:
        """The height of the ground: that of the scene's ground, else just below everything in the cache."""
        if self._ground is not None:
            return float(self._cache.positions(0)[self._ground.vertices][:, 1].max())
        lowest = min(self._cache.positions(frame)[:, 1].min() for frame in sample_frames(self._cache.frames))
        return float(lowest) - 0.02 * self._extent

    def _light_and_ground(self) -> dict[str, Any]:
        """What is the same in all frames: camera, sky, lamp and ground."""
        mi = self._mitsuba
        view, size = self._view, self._extent
        target = [float(v) for v in view.target]
        right, _, ahead = view.axes
        flat = np.array([ahead[0], 0.0, ahead[2]])
        flat = flat / np.linalg.norm(flat) if np.linalg.norm(flat) > 1e-6 else np.array([0.0, 0.0, -1.0])
        path = self._file("ground.ply")
        write_ply(path, *cove(view.target, flat, self._floor, size))
        # a lamp above, far to the left and a little behind, so that its light rakes over the folds
        lamp = view.target + size * (2.4 * np.array([0.0, 1.0, 0.0]) - 2.1 * right + 0.5 * flat)
        transform = mi.ScalarTransform4f()
        return {
            "integrator": {"type": "path", "max_depth": 6},
            "sensor": {
                "type": "perspective",
                "fov": float(view.fov_deg),
                "fov_axis": "y",
                "near_clip": 1e-3 * size,
                "far_clip": 1e3 * size,
                "to_world": transform.look_at(
                    origin=[float(v) for v in view.position], target=target, up=[0.0, 1.0, 0.0]
                ),
                "film": {
                    "type": "hdrfilm",
                    "width": self._size[0],
                    "height": self._size[1],
                    "pixel_format": "rgb",
                    "rfilter": {"type": "gaussian"},
                },
                "sampler": {"type": "multijitter"},
            },
            "sky": {"type": "constant", "radiance": {"type": "rgb", "value": [SKY, SKY * 1.02, SKY * 1.06]}},
            "lamp": {
                "type": "rectangle",
                "to_world": transform.look_at(origin=[float(v) for v in lamp], target=target, up=[0.0, 0.0, 1.0]).scale(
                    [0.8 * size, 0.8 * size, 1.0]
                ),
                "emitter": {
                    "type": "area",
                    "radiance": {"type": "rgb", "value": [LAMP, LAMP * 0.96, LAMP * 0.90]},
                },
            },
            "ground": {"type": "ply", "filename": str(path), "bsdf": matt(np.array(GROUND))},
        }

    def _file(self, name: str) -> Path:
        assert self._folder is not None, "a Studio is used in a with block"
        return Path(self._folder.name) / name


def find_mitsuba() -> Any:
    """Mitsuba in its scalar variant."""
    try:
        import mitsuba
    except ImportError as error:
        raise missing_extra("beauty", "mitsuba") from error
    mitsuba.set_variant("scalar_rgb")
    mitsuba.set_log_level(mitsuba.LogLevel.Error)
    return mitsuba


def fabric(colours: BodyColours) -> dict[str, Any]:
    """The material of cloth: rough, with sheen at grazing angles, and a colour for each side."""
    sides = []
    for colour in colours:
        sides.append(
            {
                "type": "principled",
                "base_color": {"type": "rgb", "value": [float(c) for c in to_linear(colour)]},
                "roughness": 0.75,
                "specular": 0.25,
                "sheen": 0.6,
                "sheen_tint": 0.7,
            }
        )
    return {"type": "twosided", "front": sides[0], "back": sides[1]}


def matt(linear: Floats) -> dict[str, Any]:
    """A matt surface, the same from both sides."""
    diffuse = {"type": "diffuse", "reflectance": {"type": "rgb", "value": [float(c) for c in linear]}}
    return {"type": "twosided", "bsdf": diffuse}


def develop(light: Floats) -> Floats:
    """Tone mapping: linear light to sRGB in 0..1, with highlights compressed instead of clipped."""
    knee = 0.75
    over = np.maximum(light - knee, 0.0) / (1.0 - knee)
    return to_srgb(np.where(light > knee, knee + (1.0 - knee) * (over / (1.0 + over)), light))


def cove(centre: Floats, ahead: Floats, floor: float, size: float) -> tuple[Floats, Floats, NDArray[np.int32]]:
    """The ground, flat below the subject and bent up into a wall behind it: points, normals and triangles."""
    side = np.cross(ahead, (0.0, 1.0, 0.0))
    foot = np.array([centre[0], floor, centre[2]])
    start, radius, half = 2.5 * size, BEND * size, 0.5 * WIDTH * size
    angles = np.linspace(0.0, 0.5 * np.pi, 33)
    # the profile: how far ahead and how high, and the normals along it
    along = [(-half, 0.0), *((start + radius * np.sin(a), radius * (1.0 - np.cos(a))) for a in angles)]
    along.append((start + radius, half))
    lean = [(0.0, 1.0), *((-np.sin(a), np.cos(a)) for a in angles), (-1.0, 0.0)]
    points, normals = [], []
    for (far, high), (n_far, n_up) in zip(along, lean, strict=True):
        for offset in (-half, half):
            points.append(foot + far * ahead + np.array([0.0, high, 0.0]) + offset * side)
            normals.append(n_far * ahead + np.array([0.0, n_up, 0.0]))
    faces = []
    for k in range(len(along) - 1):
        a, b, c, d = 2 * k, 2 * k + 1, 2 * k + 2, 2 * k + 3
        faces += [(a, b, c), (b, d, c)]
    return np.array(points), np.array(normals), np.array(faces, dtype=np.int32)


def write_ply(path: Path, points: Floats, normals: Floats, faces: NDArray[np.int32]) -> None:
    """A binary PLY with normals, as Mitsuba reads it."""
    names = ["x", "y", "z", "nx", "ny", "nz"]
    vertices = np.concatenate([points, normals], axis=1).astype("<f4")
    corners = np.empty(len(faces), dtype=[("count", "u1"), ("corners", "<i4", 3)])
    corners["count"], corners["corners"] = 3, faces
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(vertices)}",
        *(f"property float {name}" for name in names),
        f"element face {len(corners)}",
        "property list uchar int vertex_indices",
        "end_header",
    ]
    path.write_bytes(("\n".join(header) + "\n").encode() + vertices.tobytes() + corners.tobytes())

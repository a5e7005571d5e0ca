"""Small caches in memory for the tests of views, and one on disk."""

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from weft.cache import Body, Cache, CacheWriter, Report
from weft.mesh import TriMesh, shapes

PLANE = SimpleNamespace(name="floor", shape=SimpleNamespace(kind="plane"), analytic=True, colour=None)


@dataclass
class MemoryCache:
    """A cache without a disk: the same attributes, frames as a list."""

    bodies: list[Body]
    faces: np.ndarray
    xs: list[np.ndarray]
    fps: float = 30.0
    uv: np.ndarray | None = None
    scene: Any = None
    complete: bool = True
    writer: str | None = None
    path: Path = Path("memory.zarr")
    rows: list[dict[str, Any]] = field(default_factory=list)

    @property
    def frames(self) -> int:
        return len(self.xs)

    @property
    def planned(self) -> int:
        return self.frames if self.complete else self.frames + 5

    @property
    def report(self) -> Report:
        return Report(self.rows)

    def positions(self, frame: int) -> np.ndarray:
        return self.xs[frame]

    def velocities(self, frame: int) -> np.ndarray:
        before = max(frame - 1, 0)
        return (self.xs[min(before + 1, self.frames - 1)] - self.xs[before]) * self.fps

    def row(self, frame: int) -> dict[str, Any]:
        return self.rows[frame] if self.rows else {}


def join(parts: list[tuple[str, str, TriMesh]]) -> tuple[list[Body], np.ndarray, np.ndarray, np.ndarray]:
    """Bodies, faces, vertices and uv of several meshes as one."""
    bodies, faces, uv = [], [], []
    vertices = triangles = 0
    for name, kind, mesh in parts:
        share = slice(vertices, vertices + len(mesh.vertices))
        bodies.append(Body(name, kind, share, slice(triangles, triangles + len(mesh.faces))))
        faces.append(mesh.faces + vertices)
        uv.append(mesh.uv if mesh.uv is not None else np.full((len(mesh.vertices), 2), np.nan))
        vertices, triangles = share.stop, triangles + len(mesh.faces)
    x = np.concatenate([mesh.vertices for _, _, mesh in parts])
    return bodies, np.concatenate(faces).astype(np.int32), x, np.concatenate(uv)


def waving(*, cells: int = 12, frames: int = 4, ground: bool = False, **options: Any) -> MemoryCache:
    """A sheet over a box whose waves wander, with a floor on demand."""
    parts = [
        ("sheet", "cloth", shapes.grid((1.0, 1.0), (cells, cells))),
        ("block", "collider", shapes.box((0.3, 0.3, 0.3))),
    ]
    if ground:
        parts.append(("floor", "collider", shapes.plane((10.0, 10.0))))
        options.setdefault("scene", SimpleNamespace(camera=None, cloths=(), colliders=(PLANE,), name="waving"))
    bodies, faces, start, uv = join(parts)
    if ground:
        start[bodies[2].vertices, 1] -= 0.15
    xs = []
    for frame in range(frames):
        x = start.copy()
        sheet = x[bodies[0].vertices]
        sheet[:, 1] = 0.35 + 0.12 * np.sin(7.0 * sheet[:, 0] + 2.0 * sheet[:, 2] + 1.3 * frame)
        xs.append(x)
    return MemoryCache(bodies, faces, xs, uv=uv, **options)


def write_cache(path: Path, cache: MemoryCache, *, frames: int | None = None) -> Cache:
    """The same cache on disk; with `frames` an interrupted one."""
    with CacheWriter.create(
        path, frames=cache.frames, faces=cache.faces, bodies=cache.bodies, fps=cache.fps, uv=cache.uv
    ) as writer:
        for frame in range(cache.frames if frames is None else frames):
            row = {"frame": frame, "wall_time": 0.1, "contacts": frame, "stretch": 0.02, "status": "ok"}
            writer.append(cache.positions(frame), cache.velocities(frame), row, {})
    return Cache(path)

"""Bodies and positions for the tests of finishing."""

import numpy as np

from weft.cache import Body, Cache, CacheWriter
from weft.mesh import shapes


def bodies_of(*parts):
    """Bodies, faces and vertices of (name, kind, mesh) put into one list."""
    bodies, faces, vertices = [], [], []
    v = f = 0
    for name, kind, mesh in parts:
        bodies.append(Body(name, kind, slice(v, v + len(mesh.vertices)), slice(f, f + len(mesh.faces))))
        faces.append(mesh.faces + v)
        vertices.append(mesh.vertices)
        v, f = v + len(mesh.vertices), f + len(mesh.faces)
    return bodies, np.concatenate(faces).astype(np.int32), np.concatenate(vertices)


def draped(*, cells=20):
    """A sheet close above a box, hanging over its rim: smoothing alone draws it into the edges of the box."""
    sheet, box = shapes.grid((1.0, 1.0), (cells, cells)), shapes.box((0.5, 0.3, 0.5))
    bodies, faces, x = bodies_of(("sheet", "cloth", sheet), ("box", "collider", box))
    cloth = x[bodies[0].vertices]
    rim = np.maximum(np.abs(cloth[:, 0]), np.abs(cloth[:, 2]))
    cloth[:, 1] = np.where(rim < 0.26, 0.1502, 0.1502 - (rim - 0.26))
    return bodies, faces, x


def over_ball(gap, *, cells=16, subdivisions=2):
    """A sheet whose vertices lie so far above a ball: with little gap, edges and triangles cut through it."""
    sheet, ball = shapes.grid((1.0, 1.0), (cells, cells)), shapes.icosphere(0.3, subdivisions=subdivisions)
    bodies, faces, x = bodies_of(("sheet", "cloth", sheet), ("ball", "collider", ball))
    cloth = x[bodies[0].vertices]
    from_axis = np.hypot(cloth[:, 0], cloth[:, 2])
    height = np.sqrt(np.maximum((0.3 + gap) ** 2 - from_axis**2, 0.0))
    cloth[:, 1] = np.where(from_axis < 0.3, height, 0.0)
    return bodies, faces, x


def crumpled(seed, *, cells=8, roughness=0.02):
    """A sheet folded in two, its halves close together and rough; free of intersections for small roughness."""
    sheet = shapes.grid((1.0, 1.0), (cells, cells))
    bodies, faces, x = bodies_of(("sheet", "cloth", sheet))
    rng = np.random.default_rng(seed)
    fold = x[:, 0].copy()
    x[:, 0] = np.abs(fold)
    x[:, 1] = np.where(fold > 0.0, 0.03, 0.0) + np.where(np.abs(fold) < 1e-9, 0.015, 0.0)
    return bodies, faces, x + rng.normal(scale=roughness, size=x.shape)


def write_cache(path, bodies, faces, frames, *, uv=None, fps=30.0) -> Cache:
    """A cache of the given positions that move by differences."""
    with CacheWriter.create(path, frames=len(frames), faces=faces, bodies=bodies, fps=fps, uv=uv) as writer:
        for number, x in enumerate(frames):
            v = (frames[min(number + 1, len(frames) - 1)] - x) * fps
            writer.append(x, v, {"frame": number, "time": number / fps, "wall_time": 0.1, "status": "ok"})
    return Cache(path)

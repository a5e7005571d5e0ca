"""A small cache for the tests of exchange: a sheet that waves, a box that turns, a floor that lies still."""

import numpy as np

from weft.cache import Body, Cache, CacheWriter
from weft.mesh import shapes

FPS = 24.0
FRAMES = 6


def positions_at(frame):
    """Where all vertices are at a frame: sheet, box, floor."""
    sheet, box, floor = parts()
    x = sheet.vertices.copy()
    x[:, 1] = 0.4 + 0.1 * np.sin(6.0 * x[:, 0] + 2.0 * x[:, 2] + 0.7 * frame)
    turn = 0.3 * frame
    spin = np.array([[np.cos(turn), 0.0, np.sin(turn)], [0.0, 1.0, 0.0], [-np.sin(turn), 0.0, np.cos(turn)]])
    return np.concatenate([x, box.vertices @ spin.T, floor.vertices - (0.0, 0.5, 0.0)])


def parts():
    return shapes.grid((1.0, 0.8), (6, 5)), shapes.box((0.2, 0.2, 0.2)), shapes.plane((2.0, 2.0))


def write_cache(path, *, frames=FRAMES) -> Cache:
    bodies, faces = [], []
    v = f = 0
    names = (("sheet", "cloth"), ("a box", "collider"), ("floor", "collider"))
    for (name, kind), mesh in zip(names, parts(), strict=True):
        bodies.append(Body(name, kind, slice(v, v + len(mesh.vertices)), slice(f, f + len(mesh.faces))))
        faces.append(mesh.faces + v)
        v, f = v + len(mesh.vertices), f + len(mesh.faces)
    uv = np.full((v, 2), np.nan)
    uv[bodies[0].vertices] = parts()[0].uv
    with CacheWriter.create(path, frames=frames, faces=np.concatenate(faces), bodies=bodies, fps=FPS, uv=uv) as writer:
        for frame in range(frames):
            x, after = positions_at(frame), positions_at(frame + 1)
            writer.append(x, (after - x) * FPS, {"frame": frame, "status": "ok"})
    return Cache(path)


def close_sheets(path, gap, *, at=1.0) -> Cache:
    """Two sheets a hair apart, far enough from the origin that 32 bits cannot tell them apart."""
    lower, upper = shapes.grid((1.0, 1.0), (2, 2)), shapes.grid((1.0, 1.0), (2, 2), diagonals="same")
    count = len(lower.vertices)
    bodies = [
        Body("lower", "cloth", slice(0, count), slice(0, len(lower.faces))),
        Body("upper", "cloth", slice(count, 2 * count), slice(len(lower.faces), 2 * len(lower.faces))),
    ]
    x = np.concatenate([lower.vertices, upper.vertices]) + (0.0, at, 0.0)
    x[count:, 1] += gap
    faces = np.concatenate([lower.faces, upper.faces + count])
    with CacheWriter.create(path, frames=2, faces=faces, bodies=bodies, fps=30.0) as writer:
        for frame in range(2):
            # in the second frame they are well apart
            y = x.copy()
            y[count:, 1] += 0.1 * frame
            writer.append(y, np.zeros_like(y), {"frame": frame, "status": "ok"})
    return Cache(path)

"""Coarse cloth over a cube, a cube on its edge, a ball and a rabbit (Draping on meshes, tables 1 to 5).

    python examples/push_drapes.py --scene sphere

No vertex ends in a body, and the cloth comes to rest on it. Edges may pass through edges: that is counted, not checked.
"""

import argparse
from pathlib import Path

import numpy as np
from common import CheckError, expect
from measures import Measures

import weft
from weft.bench.push import CLOSE, SCENES

FOLDER = Path("out") / "push_drapes"
DRAPES = ("cube", "cube_edge", "sphere", "bunny")


def scene(name: str = "cube") -> weft.Scene:
    """One of the paper's scenes; two seconds."""
    return SCENES[name](FOLDER)


def depth(cache: weft.Cache, frame: int) -> float:
    """How deep the deepest vertex of the cloth is inside the body, m; 0: all are outside."""
    import trimesh

    cloth, body = cache.bodies
    x = cache.positions(frame)
    corners = x[cache.faces[body.faces]]
    points = x[cloth.vertices]
    solid = trimesh.Trimesh(x[body.vertices], cache.faces[body.faces] - body.vertices.start, process=False)
    _, distance, _ = trimesh.proximity.closest_point_naive(solid, points)
    return float(np.where(winding(corners, points) > 0.5, distance, 0.0).max())


def winding(corners: np.ndarray, points: np.ndarray) -> np.ndarray:
    """How often closed triangles (m, 3, 3) go around each point: the solid angles summed up, 1 inside and 0 outside."""
    a, b, c = (corners[None, :, k] - points[:, None] for k in range(3))
    la, lb, lc = (np.linalg.norm(side, axis=2) for side in (a, b, c))
    volume = np.einsum("pmk,pmk->pm", a, np.cross(b, c))
    ab, bc, ca = (np.einsum("pmk,pmk->pm", p, q) for p, q in ((a, b), (b, c), (c, a)))
    angle = 2.0 * np.arctan2(volume, la * lb * lc + ab * lc + bc * la + ca * lb)
    return np.asarray(angle.sum(axis=1) / (4.0 * np.pi))


def check(cache: weft.Cache) -> dict[str, object]:
    """Vertices outside, the cloth on top and nearly at rest."""
    last = cache.frames - 1
    cloth, body = cache.bodies
    deepest = max(depth(cache, frame) for frame in range(0, cache.frames, 10))
    expect(f"a vertex is {1e3 * deepest:.1f} mm inside", deepest < 0.25 * CLOSE)
    x, v = cache.positions(last), cache.velocities(last)
    top = x[body.vertices, 1].max()
    highest = x[cloth.vertices, 1].max()
    expect(f"the cloth ends {highest:.2f} m high, the body {top:.2f} m", abs(highest - top) < 3.0 * CLOSE)
    speed = float(np.linalg.norm(v[cloth.vertices], axis=1).mean())
    expect(f"the cloth still moves at {speed:.2f} m/s", speed < 0.5)
    measures = Measures(cache)
    return {
        "deepest vertex, mm": f"{1e3 * deepest:.2f}",
        "mean speed at the end, m/s": f"{speed:.3f}",
        "intersections in all frames": measures.intersections,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--scene", choices=DRAPES, default="cube")
    name = parser.parse_args().scene
    cache = weft.simulate(scene(name), FOLDER / f"{name}.zarr", overwrite=True)
    try:
        found = check(cache)
    except CheckError as error:
        raise SystemExit(f"push_drapes {name}: {error}") from None
    for label, value in found.items():
        print(f"{label:28}  {value}")


if __name__ == "__main__":
    main()
